"""The kind ``tiered`` detects a changed reference, and a store that differs from the reference."""

from __future__ import annotations

import copy
import gzip
import json
import shutil
from pathlib import Path

import pytest
from tests.agreement.kind import Case, compare_case, differences
from tests.agreement.kinds import tiered

DATA = Path(__file__).parent.parent / "data" / "tiered"
CASE_NAME = "deleted-records"
UNCOMPARED_FIELDS = set(tiered._UNCOMPARED_FIELDS)


@pytest.fixture
def case(tmp_path):
    return Path(shutil.copytree(DATA / CASE_NAME, tmp_path / CASE_NAME))


def judge_folder(folder):
    return compare_case((tiered.KIND, Case(folder.name, str(folder))))[2]


def yield_leaves(value, path=()):
    if isinstance(value, dict | list) and value:
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from yield_leaves(value[key], (*path, key))
    else:
        yield path


def change_at(value, path):
    if not path:
        return "poison" if not isinstance(value, int) or isinstance(value, bool) else value + 1
    out = copy.copy(value)
    out[path[0]] = change_at(value[path[0]], path[1:])
    return out


def test_every_value_of_uploads_and_partitions_is_compared():
    """Each value is replaced by another one, and then removed."""
    truth = json.loads((DATA / CASE_NAME / "index.json").read_text())
    product = tiered._OurResults(DATA / CASE_NAME)
    segments, partitions = dict(product.segments()), dict(product.partitions(truth["partitions"]))
    assert not list(differences(tiered._expected_segments(truth["segments"]), segments))
    assert not list(differences(tiered._partitions(truth["partitions"]), partitions))
    deleted_place = next(place for place, one in enumerate(truth["segments"]) if not one["valid"])
    valid = next(place for place, one in enumerate(truth["segments"]) if one["valid"])
    for place in (deleted_place, valid):
        for path in yield_leaves(truth["segments"][place]):
            if path[0] not in UNCOMPARED_FIELDS:
                bad = change_at(truth["segments"], (place, *path))
                assert list(differences(tiered._expected_segments(bad), segments)), path
    for path in yield_leaves(truth["partitions"][0]):
        bad = change_at(truth["partitions"], (0, *path))
        if not path[0].startswith("original"):
            assert list(differences(tiered._partitions(bad), partitions)), path
    for path in (("original_base_offsets", 2), ("original_base_offsets", 0)):
        bad = change_at(truth["partitions"], (0, *path))
        assert list(differences(tiered._partitions(bad), dict(product.partitions(bad)))), path


def test_counts_of_a_complete_partition_are_compared(tmp_path):
    name = "settings-changed"
    truth = json.loads((DATA / name / "index.json").read_text())
    product = tiered._OurResults(DATA / name)
    for field in ("original_records", "original_batches"):
        bad = change_at(truth["partitions"], (0, field))
        assert list(differences(tiered._partitions(bad), dict(product.partitions(bad)))), field


def change_line(path, change):
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(change(lines)), 1))


def find_remote_segment_line(lines, kind):
    """Return a line about a segment in the store that is neither deleted nor local."""
    start = next(number for number, line in enumerate(lines) if b'"base_offset":990' in line)
    return next(number for number, line in enumerate(lines) if number >= start and kind in line)


def remove_first_line(kind):
    def change(lines):
        number = find_remote_segment_line(lines, kind)
        return lines[:number] + lines[number + 1 :]

    return change


def repeat_line(kind):
    def change(lines):
        number = find_remote_segment_line(lines, kind)
        return lines[: number + 1] + lines[number:]

    return change


def change_record_key(lines):
    number = find_remote_segment_line(lines, b'"type":"record"')
    line = json.loads(lines[number]) | {"key": "cG9pc29u"}
    return [*lines[:number], json.dumps(line).encode() + b"\n", *lines[number + 1 :]]


@pytest.mark.parametrize(
    "change",
    [
        remove_first_line(b'"type":"record"'),
        remove_first_line(b'"type":"batch"'),
        repeat_line(b'"type":"record"'),
        change_record_key,
    ],
)
def test_different_records_are_detected(case, change):
    change_line(case / "truth" / "orders-short-0.records.jsonl.gz", change)
    assert judge_folder(case)


def test_missing_and_additional_files_are_detected(case):
    assert not judge_folder(case)
    objects = sorted((case / "store").glob("orders-short-*/0/*1320-*"))
    original_bytes = {path: path.read_bytes() for path in objects}
    for path in objects:
        path.unlink()
    assert judge_folder(case)
    for path, raw in original_bytes.items():
        path.write_bytes(raw)
        path.with_name(path.name[:21] + "A" * 22 + path.name[43:]).write_bytes(raw)
    assert judge_folder(case)


def test_a_changed_byte_of_an_object_is_detected(case):
    path = next((case / "store").glob("orders-short-*/0/*1650-*.log"))
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    assert judge_folder(case)


@pytest.mark.parametrize("missing_name", ["index.json", "local", "truth"])
def test_an_incomplete_case_is_a_disagreement(case, missing_name):
    path = case / missing_name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert judge_folder(case)
