"""The commands ``convert``, ``recompress`` and ``compact``, here and in a pool of processes."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from tests.rewrite.test_compaction import keys, source  # noqa: F401  a fixture
from tests.rewrite.test_convert import LOGS, records, segments, untyped

from kafkaframes.cli import rewriting
from kafkaframes.cli.main import cli
from kafkaframes.errors import OptionError


def run(*arguments: object):
    return CliRunner().invoke(cli, [str(one) for one in arguments], catch_exceptions=False)


def test_convert(tmp_path):
    said = run("convert", LOGS / "zk-0102-v1", "--record-format", "v2", "--to", tmp_path / "out")
    assert said.exit_code == 0
    assert f"done: {tmp_path / 'out'}" in said.output
    assert records(tmp_path / "out") == untyped(records(LOGS / "zk-0102-v1"))
    again = run("convert", LOGS / "zk-0102-v1", "--record-format", "v2", "--to", tmp_path / "out")
    assert "done before" in again.output


def test_a_format_is_a_target_too(tmp_path):
    old = LOGS / "zk-0102-v1"
    assert run("convert", old, "--to", "v2", "--to", tmp_path / "out").exit_code == 0
    assert "done before" in run("convert", old, "--record-format", "v2", "--to", tmp_path / "out").output
    for wrong, said in (
        (("--to", tmp_path / "new"), "give --record-format: v0, v1, v2"),
        (("--to", "v2"), "give --to DIR"),
        (("--to", "v2", "--to", "a", "--to", "b"), "one --to DIR is wanted, not a, b"),
    ):
        with pytest.raises(OptionError, match=said):
            run("convert", old, *wrong)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_losses_are_said(tmp_path):
    transactions = LOGS / "kraft-4x-transactions"
    said = run(
        "convert",
        transactions,
        "--record-format",
        "v1",
        "--codec",
        "gzip",
        "--on-loss",
        "warn",
        "--to",
        tmp_path / "out",
    )
    assert "warning: lost: " in said.stderr
    assert "control batches" in said.stderr


def test_processes_write_what_one_writes(tmp_path):
    for jobs, name in ((1, "one"), (2, "two")):
        arguments = ("--codec", "zstd", "--level", 1, "--to", tmp_path / name, "--workers", jobs, "--json")
        said = run("recompress", LOGS / "kraft-4x-transactions", *arguments)
        assert json.loads(said.stdout)["destination"] == str(tmp_path / name)
    for file in segments(tmp_path / "one"):
        assert file.read_bytes() == (tmp_path / "two" / file.relative_to(tmp_path / "one")).read_bytes()


def test_compact(source, tmp_path):  # noqa: F811
    said = run("compact", source, "--dry-run")
    assert "2 a later record of the key" in said.stdout
    assert "would go" in said.stdout
    said = run("compact", source, "--to", tmp_path / "out", "--prove-gone", "0x7a7a")
    assert said.exit_code == 0
    assert "gone: no record has the key; 4 files were read" in said.stdout
    assert keys(tmp_path / "out" / "users-0") == [b"a", b"b", b"c", b"z"]
    said = run("compact", tmp_path / "out", "--prove-gone", "c", "--json")
    assert said.exit_code == 1
    assert json.loads(said.stdout)["proof"]["found"] == [[str(tmp_path / "out/users-0" / f"{0:020}.log"), 4]]


def test_processes_share_out_a_large_partition(source, tmp_path, monkeypatch):  # noqa: F811
    plans, split = [], rewriting.split
    for name, above_bytes, jobs in (("alone", 1 << 30, 1), ("shared", 0, 2)):
        monkeypatch.setattr(
            rewriting, "split", lambda *given, most=above_bytes: replace(split(*given), above_bytes=most, here_bytes=0)
        )
        plans.append(run("compact", source, "--dry-run", "--workers", jobs, "--scratch", tmp_path).stdout)
        run("compact", source, "--to", tmp_path / name, "--workers", jobs)
    assert plans[0] == plans[1]
    assert "2 a later record of the key" in plans[1]
    for file in segments(tmp_path / "alone"):
        assert file.read_bytes() == (tmp_path / "shared" / file.relative_to(tmp_path / "alone")).read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"in", "alone", "shared"}
    with pytest.raises(OptionError, match="--scratch nowhere: No such file"):
        run("compact", source, "--dry-run", "--scratch", "nowhere")


def test_workers_elsewhere_see_no_temporary_files_of_this_machine():
    with rewriting.scratch(None, "spark://host:7077") as directory:
        assert directory is None
    with rewriting.scratch(None, "local[2]") as directory:
        assert directory.is_dir()
    assert not directory.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "in", "--record-format", "v2"),
        ("convert", "in", "--record-format", "v2", "--in-place"),
        ("convert", "in", "--record-format", "v2", "--to", "out", "--backup", "old", "--in-place"),
        ("recompress", "in", "--codec", "zstd", "--to", "out", "--workers", "2", "--master", "local[2]"),
        ("compact", "in"),
        ("compact", "in", "--to", "out", "--dry-run"),
        ("compact", "in", "--prove-gone", "0xgg"),
    ],
)
def test_what_does_not_go_together(arguments):
    with pytest.raises(OptionError):
        run(*arguments)
