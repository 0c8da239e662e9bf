"""Look-ups and isolation: a live broker's answers, the same without indexes, and wrong indexes."""

import json
import shutil
import struct
from pathlib import Path

import pytest
from tests.agreement.kind import Case
from tests.agreement.kinds import committed, lookups
from tests.storage.log.lookups import find_offset

from kafkaframes.errors import LogDirError
from kafkaframes.records.build import build_records
from kafkaframes.storage.files import filesystem
from kafkaframes.storage.files.filesystem import FsspecFileSystem
from kafkaframes.storage.files.headers import HeaderWalk
from kafkaframes.storage.files.memory_disk import OverlayDisk
from kafkaframes.storage.files.scan import scan_segment
from kafkaframes.storage.files.segment_reader import open_segment
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.lookup import find_offset_for_timestamp, largest_timestamp, log_end_offset
from kafkaframes.storage.log.transactions import read_transactions
from kafkaframes.storage.partition import open_log
from kafkaframes.storage.partition.fetch import MAX_TIMESTAMP

LOGS = Path(__file__).parents[2] / "data" / "logs"
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
def test_wrong_expected_values_are_detected(tmp_path, kind, poison):
    name = "zk-28-mixed"
    (tmp_path / name).symlink_to(LOGS / name)
    shutil.copy(LOGS / f"{name}.json", tmp_path)
    truth = json.loads((LOGS / f"{name}{kind.SUFFIX}").read_text())
    poison(truth)
    path = tmp_path / f"{name}{kind.SUFFIX}"
    path.write_text(json.dumps(truth))
    assert [*kind.disagreements(Case(name, str(path)))]


def largest_timestamps(files, partition):
    return [largest_timestamp(files, partition, segment) for segment in partition.segments]


def answers_of(files, partition):
    return log_end_offset(files, partition), largest_timestamps(files, partition)


WRONG_INDEXES = {
    "missing": None,
    "odd": b"\0\0\0\5\0\0",
    "zeros": b"\0" * 80,
    "foreign": b"not an index" * 10,
    "inside a batch": b"\0\0\0\1\0\0\0\7" + b"\0\0\0\2\0\0\1\7",
    "beyond the end": b"\0\0\0\1\x7f\0\0\0",
    "falling": b"\0\0\0\5\0\0\1\0" + b"\0\0\0\4\0\0\2\0",
}


@pytest.mark.parametrize("wrong_index", WRONG_INDEXES)
def test_a_wrong_index_does_not_change_the_results(tmp_path, wrong_index):
    shutil.copytree(LOGS / "kraft-4x-transactions" / "payments-0", tmp_path / "payments-0")
    (truth,) = discover(str(LOGS / "kraft-4x-transactions" / "payments-0"))
    for path in [*tmp_path.rglob("*.index"), *tmp_path.rglob("*.timeindex"), *tmp_path.rglob("*.txnindex")]:
        path.unlink()
        if WRONG_INDEXES[wrong_index] is not None and not (
            path.suffix == ".timeindex" and wrong_index in ("inside a batch", "beyond the end")
        ):
            path.write_bytes(WRONG_INDEXES[wrong_index])
    (damaged_dir,) = discover(str(tmp_path))
    good, bad = truth.partitions[0], damaged_dir.partitions[0]
    files = truth.filesystem
    for offset in range(0, 705, 11):
        expected_offset, actual_offset = find_offset(files, good, offset), find_offset(files, bad, offset)
        assert expected_offset == actual_offset
    times = [max(largest_timestamps(files, good)) - back for back in (-1, 0, 1, 500, 10**6)]
    for time in times:
        assert find_offset_for_timestamp(files, bad, time) == find_offset_for_timestamp(files, good, time)
    assert largest_timestamps(files, bad) == largest_timestamps(files, good)
    expected_offset, actual_offset = read_transactions(files, good), read_transactions(files, bad)
    assert (actual_offset.aborted_transactions, actual_offset.open) == (
        expected_offset.aborted_transactions,
        expected_offset.open,
    )
    assert expected_offset.aborted_transactions


def test_offsets_above_the_log_end_are_not_found():
    (directory,) = discover(str(LOGS / "kraft-4x-transactions" / "payments-0"))
    (partition,) = directory.partitions
    end = log_end_offset(directory.filesystem, partition)
    assert find_offset(directory.filesystem, partition, end) is None
    assert find_offset(directory.filesystem, partition, end - 1) is not None
    assert find_offset_for_timestamp(directory.filesystem, partition, 2**62) is None


def test_nothing_is_found_in_an_empty_partition(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{7:020d}.log").write_bytes(b"")
    (directory,) = discover(str(tmp_path))
    (partition,) = directory.partitions
    assert (partition.log_start_offset, log_end_offset(directory.filesystem, partition)) == (7, 7)
    log = open_log(partition.directory, now_ms=0, disk=OverlayDisk(directory.filesystem))
    assert log.find_offset_for_timestamp(MAX_TIMESTAMP).offset == -1
    assert find_offset(directory.filesystem, partition, 0) is None


def test_aborted_batches_are_equal_in_columns_and_one_by_one():
    (directory,) = discover(str(LOGS / "kraft-4x-transactions" / "payments-0"))
    (partition,) = directory.partitions
    state = read_transactions(directory.filesystem, partition)
    seen_count = 0
    for segment in partition.segments:
        with directory.filesystem.open(segment.path) as read_at:
            headers = [*HeaderWalk(read_at, size_bytes=segment.size_bytes)]
            for window in scan_segment(read_at, size_bytes=segment.size_bytes):
                aborted_mask = state.mask_aborted_batches(window.batches).tolist()
                assert aborted_mask == [state.is_aborted(header) for header in headers]
                seen_count += sum(aborted_mask)
    assert seen_count > len(state.aborted_transactions) > 0


@pytest.fixture
def without_waiting(monkeypatch):
    monkeypatch.setattr(filesystem, "RETRY_DELAYS_SECONDS", (0.0, 0.0, 0.0))


class FailingStore:
    """A store that serves a given number of requests and then fails."""

    def __init__(self, store, answers):
        self.store, self.answers = store, answers

    def __getattr__(self, name):
        attribute = getattr(self.store, name)
        if not callable(attribute) or name == "invalidate_cache":
            return attribute

        def ask(*arguments, **options):
            self.answers -= 1
            if self.answers < 0:
                raise ConnectionError("the store is gone")
            return attribute(*arguments, **options)

        return ask


@pytest.mark.parametrize("answers", range(0, 60, 7))
def test_a_failing_store_is_reported_and_never_gives_a_wrong_result(answers, without_waiting):
    from fsspec.implementations.local import LocalFileSystem as FsspecLocal

    path = str(LOGS / "kraft-4x-transactions" / "payments-0")
    (local,) = discover(path)
    truth = answers_of(local.filesystem, local.partitions[0])
    store = FailingStore(FsspecLocal(), answers)
    files = FsspecFileSystem("file", store=store)
    answer, error = truth, None
    try:
        (remote,) = discover(path, filesystem=files)
        answer = answers_of(remote.filesystem, remote.partitions[0])
    except LogDirError as caught:
        error = caught
    assert answer == truth
    assert error is None or (error.file is not None and "the store is gone" in str(error))
    assert error is not None or answers > 7


def test_a_checkpoint_that_cannot_be_read_is_an_error_not_a_missing_file(without_waiting):
    from fsspec.implementations.local import LocalFileSystem as FsspecLocal

    failure_count = 0
    for answers in range(12):
        files = FsspecFileSystem("file", store=FailingStore(FsspecLocal(), answers))
        try:
            discover(str(LOGS / "kraft-4x-transactions"), filesystem=files)
        except LogDirError:
            failure_count += 1
    assert failure_count == 12


@pytest.mark.parametrize(("entry", "is_believed"), [(3, True), (5, True), (2, False)])
def test_an_index_entry_with_the_first_offset_of_a_wrapper_is_accepted(tmp_path, entry, is_believed):
    wrappers = [
        build_records({"value": [b"v"] * 3, "offset": offsets}, record_format=0, codec="snappy")
        for offsets in ([0, 1, 2], [3, 4, 5])
    ]
    place = tmp_path / "old-0"
    place.mkdir()
    (place / f"{0:020}.log").write_bytes(b"".join(wrappers))
    (place / f"{0:020}.index").write_bytes(struct.pack(">ii", entry, len(wrappers[0])))
    (log_dir,) = discover(str(place))
    with open_segment(log_dir.filesystem, log_dir.partitions[0].segments[0]) as reader:
        assert reader.find_start_before(5) == (len(wrappers[0]) if is_believed else 0)
        assert bool(reader.problems) is not is_believed
