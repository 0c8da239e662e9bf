"""Every kind of change to reference data about messages is detected."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
from tests.agreement.kinds import codec, messages

DATA = Path(__file__).parent.parent / "data"


def _copy_with_changed_line(tmp_path: Path, file: str, wanted_key: str, change) -> Path:
    """Copy a folder with one file of one changed line: the first line with the key ``wanted_key``."""
    folder = tmp_path / Path(file).parent.name
    folder.mkdir()
    raw = (DATA / file).read_bytes()
    text = gzip.decompress(raw) if file.endswith(".gz") else raw
    lines = [json.loads(line) for line in text.splitlines()]
    line = next(line for line in lines if line.get(wanted_key) or (wanted_key in line and wanted_key == "remaining"))
    change(line)
    (folder / Path(file).name.removesuffix(".gz")).write_text(json.dumps(line) + "\n")
    if (DATA / file).parent.joinpath("specs").is_dir():
        shutil.copytree((DATA / file).parent / "specs", folder / "specs")
    return folder


def _first_value(line):
    key = next(iter(line["json"]))
    line["json"][key] = "poison" if line["json"][key] != "poison" else "other"


def _accept_line(line):
    del line["error"]
    line.update(json={}, unknown_tags=[], remaining=0, again="")


CHANGES = {
    "bytes": ("messages/4.4.0.jsonl.gz", "bytes", lambda line: line.update(bytes=line["bytes"] + "00")),
    "size": ("messages/4.4.0.jsonl.gz", "size", lambda line: line.update(size=line["size"] + 1)),
    "a value": ("messages/4.4.0.jsonl.gz", "json", _first_value),
    "a surplus value": ("messages/4.4.0.jsonl.gz", "json", lambda line: line["json"].update(surplus=1)),
    "the key": ("messages/4.4.0.jsonl.gz", "api_key", lambda line: line.update(api_key=line["api_key"] + 1)),
    "an error": ("messages/4.4.0.jsonl.gz", "bytes", lambda line: line.update(error="refused")),
    "a surplus key": ("messages/4.4.0.jsonl.gz", "bytes", lambda line: line.update(more=1)),
    "decoded value": ("messages/4.4.0-mutated.jsonl.gz", "json", _first_value),
    "remaining": (
        "messages/4.4.0-mutated.jsonl.gz",
        "remaining",
        lambda line: line.update(remaining=line["remaining"] + 1),
    ),
    "tags": ("messages/4.4.0-mutated.jsonl.gz", "again", lambda line: line["unknown_tags"].append([9, "AA=="])),
    "again": ("messages/4.4.0-mutated.jsonl.gz", "again", lambda line: line.update(again=line["again"] + "00")),
    "no error": ("messages/4.4.0-mutated.jsonl.gz", "error", _accept_line),
    "refused": ("messages/4.4.0-mutated.jsonl.gz", "again", lambda line: line.update(error="refused")),
    "a header": ("messages/headers-4.4.0.jsonl", "versions", lambda line: line["versions"][0].__setitem__(1, 9)),
    "a version": ("messages/headers-4.4.0.jsonl", "versions", lambda line: line["versions"].append([99, 2, 1])),
    "a name": ("messages/headers-4.4.0.jsonl", "name", lambda line: line.update(name="Metadata")),
    "odd bytes": ("codec/values.jsonl.gz", "bytes", lambda line: line.update(bytes="00" + line["bytes"])),
    "odd refused": (
        "codec/values.jsonl.gz",
        "error",
        lambda line: (line.pop("error"), line.update(bytes="00", size=1)),
    ),
    "hostile accepted": ("codec/hostile.jsonl", "error", _accept_line),
    "hostile refused": ("codec/hostile.jsonl", "again", lambda line: line.update(error="refused")),
}


@pytest.mark.parametrize("poison", CHANGES)
def test_a_changed_line_is_detected(poison, tmp_path):
    file, wanted_key, change = CHANGES[poison]
    kind = codec.KIND if file.startswith("codec") else messages.KIND
    (tmp_path / "whole").mkdir()
    whole = _copy_with_changed_line(tmp_path / "whole", file, wanted_key, lambda line: None)
    assert [line for case in kind.cases(whole) for line in kind.disagreements(case)] == []
    folder = _copy_with_changed_line(tmp_path, file, wanted_key, change)
    cases = list(kind.cases(folder))
    assert cases
    assert [line for case in cases for line in kind.disagreements(case)]
