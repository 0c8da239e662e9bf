"""Look-ups and isolation: a live broker's answers, the same without indexes, and indexes that lie."""

import json
import shutil
from pathlib import Path

import pytest
from tests.agreement.kind import Case
from tests.agreement.kinds import committed, lookups

from kafkaframes.log.directory import discover
from kafkaframes.log.lookup import find_offset, list_offsets, offset_for_timestamp
from kafkaframes.log.transactions import transactions_of

LOGS = Path(__file__).parents[1] / "data" / "logs"
CASES = ["kraft-4x-transactions", "zk-28-mixed"]


@pytest.mark.parametrize("kind", [lookups, committed])
@pytest.mark.parametrize("name", CASES)
def test_the_answers_are_those_of_a_live_broker(kind, name):
    assert [*kind.disagreements(Case(name, str(LOGS / f"{name}{kind.SUFFIX}")))] == []


@pytest.mark.parametrize(
    ("kind", "poison"),
    [
        (lookups, lambda truth: truth["begin_end"].popitem()),
        (lookups, lambda truth: truth["offsets_for_times"][0].__setitem__(3, 12345)),
        (lookups, lambda truth: truth["list_offsets"]["mixed-none-0"]["latest"].__setitem__(2, 7)),
        (lookups, lambda truth: truth["segment_lookups"][0]["entry"].__setitem__(1, 3)),
        (lookups, lambda truth: truth.__setitem__("more", [])),
        (committed, lambda truth: truth["read_committed"].popitem()),
        (committed, lambda truth: truth["read_uncommitted"]["mixed-none-0"].__setitem__("position", 0)),
        (committed, lambda truth: truth["read_committed"]["mixed-none-0"]["ranges"].append([9999, 9999])),
    ],
)
def test_a_poisoned_truth_is_noticed(tmp_path, kind, poison):
    name = "zk-28-mixed"
    (tmp_path / name).symlink_to(LOGS / name)
    shutil.copy(LOGS / f"{name}.json", tmp_path)
    truth = json.loads((LOGS / f"{name}{kind.SUFFIX}").read_text())
    poison(truth)
    path = tmp_path / f"{name}{kind.SUFFIX}"
    path.write_text(json.dumps(truth))
    assert [*kind.disagreements(Case(name, str(path)))]


LIES = {
    "missing": None,
    "odd": b"\0\0\0\5\0\0",
    "zeros": b"\0" * 80,
    "foreign": b"not an index" * 10,
    "inside a batch": b"\0\0\0\1\0\0\0\7" + b"\0\0\0\2\0\0\1\7",
    "beyond the end": b"\0\0\0\1\x7f\0\0\0",
    "falling": b"\0\0\0\5\0\0\1\0" + b"\0\0\0\4\0\0\2\0",
}


@pytest.mark.parametrize("lie", LIES)
def test_an_index_that_lies_changes_no_answer(tmp_path, lie):
    shutil.copytree(LOGS / "kraft-4x-transactions" / "payments-0", tmp_path / "payments-0")
    (truth,) = discover(str(LOGS / "kraft-4x-transactions" / "payments-0"))
    for path in [*tmp_path.rglob("*.index"), *tmp_path.rglob("*.timeindex"), *tmp_path.rglob("*.txnindex")]:
        path.unlink()
        if LIES[lie] is not None and not (path.suffix == ".timeindex" and lie in ("inside a batch", "beyond the end")):
            path.write_bytes(LIES[lie])
    (damaged,) = discover(str(tmp_path))
    good, bad = truth.partitions[0], damaged.partitions[0]
    files = truth.filesystem
    for offset in range(0, 705, 11):
        expected, found = find_offset(files, good, offset), find_offset(files, bad, offset)
        assert (expected and expected.header) == (found and found.header)
    times = [list_offsets(files, good).max_timestamp.timestamp - back for back in (-1, 0, 1, 500, 10**6)]
    for time in times:
        assert offset_for_timestamp(files, bad, time) == offset_for_timestamp(files, good, time)
    assert list_offsets(files, bad).max_timestamp == list_offsets(files, good).max_timestamp
    expected, found = transactions_of(files, good), transactions_of(files, bad)
    assert (found.aborted, found.open) == (expected.aborted, expected.open)
    assert expected.aborted


def test_above_the_end_there_is_nothing():
    (directory,) = discover(str(LOGS / "kraft-4x-transactions" / "payments-0"))
    (partition,) = directory.partitions
    end = list_offsets(directory.filesystem, partition).latest.offset
    assert find_offset(directory.filesystem, partition, end) is None
    assert find_offset(directory.filesystem, partition, end - 1) is not None
    assert offset_for_timestamp(directory.filesystem, partition, 2**62) is None


def test_an_empty_partition_has_no_answers(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{7:020d}.log").write_bytes(b"")
    (directory,) = discover(str(tmp_path))
    (partition,) = directory.partitions
    listed = list_offsets(directory.filesystem, partition)
    assert (listed.earliest.offset, listed.latest.offset, listed.max_timestamp.offset) == (7, 7, -1)
    assert find_offset(directory.filesystem, partition, 0) is None
