"""The reference data in the tests agrees, and every kind of change to it is detected."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.agreement.__main__ import main
from tests.agreement.kinds import dumplog, logs

DATA = Path(__file__).parent.parent / "data"
CASE = "unclean-flipped-bit-active"  # has every type of line: batches, records, errors, ends

Lines = list[bytes]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A corpus of one case (two directories) that a test may change."""
    folder = tmp_path / "logs"
    folder.mkdir()
    shutil.copytree(DATA / "logs" / CASE, folder / CASE)
    for path in (DATA / "logs").glob(f"{CASE}.*"):
        shutil.copy(path, folder)
    return folder


def judge_folder(folder: Path, kind=logs.KIND) -> dict[str, list[str]]:
    return {case.name: list(kind.disagreements(case)) for case in kind.cases(folder)}


def change_lines(path: Path, change: Callable[[Lines], Lines]) -> None:
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(change(lines)), 1))


def first_of(lines: Lines, what: bytes) -> int:
    return next(number for number, line in enumerate(lines) if what in line)


def test_the_shipped_data_agrees(capsys):
    status = main([str(DATA), "--workers", "2"])
    output = capsys.readouterr().out
    assert status == 0, output
    for kind in ("records", "batches", "logs", "dumplog"):
        assert f"{kind}: " in output


def test_an_untouched_copy_agrees(corpus):
    assert judge_folder(corpus) == {f"{CASE}.before": [], f"{CASE}.after": []}
    assert judge_folder(corpus, dumplog.KIND) == {f"{CASE}.before": [], f"{CASE}.after": []}


def list_fields(kind: str) -> list[str]:
    text = gzip.decompress((DATA / "logs" / f"{CASE}.before.records.jsonl.gz").read_bytes())
    lines = (json.loads(line) for line in text.splitlines())
    matching_line = next(line for line in lines if line["type"] == kind)
    return [name for name in matching_line if name not in logs.TEXT_FIELDS]


@pytest.mark.parametrize("kind", ["batch", "record", "error", "end"])
def test_every_field_of_every_type_of_line_is_compared(corpus, kind):
    truth = corpus / f"{CASE}.before.records.jsonl.gz"
    original_truth = truth.read_bytes()
    for name in list_fields(kind):
        for change in ("another", "missing"):

            def change_line(lines: Lines, name=name, change=change) -> Lines:
                at = first_of(lines, b'"type":"%s"' % kind.encode())
                line = json.loads(lines[at])
                value = line.pop(name)
                if change == "another":
                    line[name] = value + 1 if type(value) is int else "poison" if name != "type" else "btach"
                return [*lines[:at], json.dumps(line).encode() + b"\n", *lines[at + 1 :]]

            change_lines(truth, change_line)
            try:
                assert next(
                    iter(logs.KIND.disagreements(next(c for c in logs.KIND.cases(corpus) if "before" in c.name)))
                )
            except KeyError:
                assert (name, change) == ("type", "missing")
            truth.write_bytes(original_truth)


@pytest.mark.parametrize("kind", ["batch", "record", "error", "end"])
@pytest.mark.parametrize("change", ["removed", "doubled", "surplus key"])
def test_a_missing_or_additional_line_is_detected(corpus, kind, change):
    def change_line(lines: Lines) -> Lines:
        at = first_of(lines, b'"type":"%s"' % kind.encode())
        instead = {
            "removed": [],
            "doubled": [lines[at], lines[at]],
            "surplus key": [lines[at].replace(b"{", b'{"surplus":1,', 1)],
        }[change]
        return [*lines[:at], *instead, *lines[at + 1 :]]

    change_lines(corpus / f"{CASE}.before.records.jsonl.gz", change_line)
    differences = judge_folder(corpus)
    assert differences[f"{CASE}.before"]
    assert not differences[f"{CASE}.after"]


@pytest.mark.parametrize(
    ("what", "change"),
    [
        (b"baseOffset: ", lambda line: line.replace(b"size: ", b"size: 1")),
        (b"| offset: ", lambda line: line.replace(b"keySize: ", b"keySize: 1")),
        (b"| offset: ", lambda line: b""),
        (b"| offset: ", lambda line: line + line),
        (b"offset: ", lambda line: line.replace(b"position: ", b"position: 1")),
        (b"timestamp: ", lambda line: line.replace(b"timestamp: ", b"timestamp: 1")),
        (b"producerId: ", lambda line: line.replace(b"producerId: ", b"producerId: 1")),
        (b"passed sanity check", lambda line: b""),
        (b"### kafka-dump-log --files", lambda line: line + line),
        (b"Log starting offset", lambda line: b""),
        (b"### ended with", lambda line: b""),
        (b"  -1 is followed by", lambda line: line.replace(b"-1", b"-2")),
        (b"Dumping idem-0/00000000000000000000.log", lambda line: line.replace(b"0.log", b"1.log")),
    ],
    ids=lambda value: value.decode() if isinstance(value, bytes) else "",
)
def test_a_changed_text_is_detected(corpus, what, change):
    def change_line(lines: Lines) -> Lines:
        at = first_of(lines, what)
        return [*lines[:at], change(lines[at]), *lines[at + 1 :]]

    change_lines(corpus / f"{CASE}.before.dumplog.txt.gz", change_line)
    assert judge_folder(corpus, dumplog.KIND)[f"{CASE}.before"]


@pytest.mark.parametrize("kind", [logs.KIND, dumplog.KIND], ids=lambda kind: kind.name)
def test_a_missing_file_is_detected(corpus, kind):
    (corpus / CASE / "before" / "idem-0" / "00000000000000000170.log").unlink()
    assert judge_folder(corpus, kind)[f"{CASE}.before"]


@pytest.mark.parametrize("kind", [logs.KIND, dumplog.KIND], ids=lambda kind: kind.name)
def test_an_additional_segment_is_detected(corpus, kind):
    partition = corpus / CASE / "before" / "idem-0"
    shutil.copy(partition / "00000000000000000170.log", partition / "00000000000000000999.log")
    assert judge_folder(corpus, kind)[f"{CASE}.before"]


@pytest.mark.parametrize("kind", [logs.KIND, dumplog.KIND], ids=lambda kind: kind.name)
def test_a_case_without_reference_and_the_reverse_are_detected(corpus, kind):
    for path in corpus.glob(f"{CASE}.before.*"):
        path.unlink()
    shutil.rmtree(corpus / CASE / "after")
    assert all(judge_folder(corpus, kind).values())


def test_an_empty_folder_is_a_failure(corpus, capsys):
    shutil.rmtree(corpus)
    corpus.mkdir()
    assert main([str(corpus.parent), "--kind", "logs", "--workers", "1"]) == 1
    assert "contains no case" in capsys.readouterr().out


def test_a_changed_reference_makes_the_command_fail(corpus, capsys):
    change_lines(corpus / f"{CASE}.before.records.jsonl.gz", lambda lines: lines[:-1])
    assert main([str(corpus.parent), "--kind", "logs", "--workers", "1"]) == 1
    output = capsys.readouterr().out
    assert "logs: 1 agree, 1 disagree" in output
    assert "expected None, found {'type': 'end'" in output
