"""Segments beyond an index's range: every command and the broker split them as Kafka does.

In ``tests/interop/test_overflow.py``, real brokers open the same logs, and the files are compared.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.storage.partition.builders import NOW_MS, build_batch
from tests.storage.partition.memory_disk import MemoryDisk

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.jobs.compact.compaction import compact
from kafkaframes.jobs.compact.staged_compaction import SplitSettings
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.records.build import build_end_transaction, build_records
from kafkaframes.storage.cleaner import CleanerSettings, clean_partition
from kafkaframes.storage.files.directory import LogFile, Segment
from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.names import FileName, name_segment_file
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.overflow import find_parts, has_overflow, split_partition
from kafkaframes.storage.partition import open_log
from kafkaframes.storage.partition.fetch import LOG_END
from kafkaframes.storage.recovery.plan import plan_recovery
from kafkaframes.storage.recovery.recover import RecoverySettings, recover_to
from kafkaframes.wire.integers import MAX_INT32

FAR_OFFSET = 3_000_000_000
INDEX_OFFSET_LIMIT = MAX_INT32


def build_one_batch(first: int, count: int = 3, *, key: bytes = b"k", **options) -> bytes:
    """Build one batch that starts at ``first``. In formats 0 and 1 without a codec, it is ``count`` messages."""
    offsets = list(range(first, first + count))
    times = [NOW_MS + number for number in range(count)]
    columns = {"offset": offsets, "timestamp": times, "key": [key] * count, "value": [b"%010d" % first] * count}
    return build_records(columns, batch_records=count, **options)


def write_log(directory: Path, segments: dict[int, bytes], *, clean: bool = False) -> Path:
    """Write a log directory with one partition and segments without an index."""
    path = directory / "orders-0"
    path.mkdir(parents=True)
    for base, data in segments.items():
        (path / name_segment_file(base, "log")).write_bytes(data)
    if clean:
        (directory / ".kafka_cleanshutdown").write_text('{"version": 0, "brokerEpoch": -1}')
    return path


def list_pieces(path: Path, base: int = 0) -> list[tuple[int, int, int]]:
    file = LogFile(FileName(base, "log"), str(path / name_segment_file(base, "log")), 0, None)
    size = Path(file.path).stat().st_size
    parts = find_parts(LocalFileSystem(), LogFile(file.name, file.path, size, None))
    return [(piece.base_offset, piece.start, piece.end) for piece in parts]


def read_rows(path: Path) -> list[tuple[int, bytes]]:
    row_list = []
    for part in kafkaframes.read_records(sorted(path.glob("*.log")), columns=["offset", "value"]):
        row_list += zip(part["offset"].to_pylist(), part["value"].to_pylist(), strict=True)
    return row_list


def logs(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.glob("*.log")}


def errors(path: Path) -> list[str]:
    return [finding.check for finding in verify(discover(str(path))).findings if finding.severity > Severity.NOTE]


# ------------------------------------------------------------------------------------------------- where it is split


def test_a_segment_within_the_index_range_is_not_split(tmp_path):
    path = write_log(tmp_path, {0: build_one_batch(0) + build_one_batch(INDEX_OFFSET_LIMIT - 2)})
    assert list_pieces(path) == []
    assert split_partition(LocalFileSystem(), (partition := discover(str(path))[0].partitions[0]))[1] is partition


def test_a_piece_starts_at_the_first_batch_outside_the_index_range(tmp_path):
    near, far, further = (
        build_one_batch(0),
        build_one_batch(INDEX_OFFSET_LIMIT - 1),
        build_one_batch(FAR_OFFSET + INDEX_OFFSET_LIMIT),
    )
    path = write_log(tmp_path, {0: near + far + further})
    assert len(near) == len(far) == len(further)
    size = len(near)
    assert list_pieces(path) == [
        (0, 0, size),
        (INDEX_OFFSET_LIMIT - 1, size, 2 * size),
        (FAR_OFFSET + INDEX_OFFSET_LIMIT, 2 * size, 3 * size),
    ]


def test_the_first_piece_is_named_after_its_first_batch(tmp_path):
    path = write_log(tmp_path, {5: build_one_batch(FAR_OFFSET)})
    assert list_pieces(path, 5) == [(FAR_OFFSET, 0, len(build_one_batch(FAR_OFFSET)))]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_wrapper_is_named_after_its_first_message(tmp_path, magic, codec):
    options = {"record_format": magic, "codec": codec}
    path = write_log(tmp_path, {0: build_one_batch(0, **options) + build_one_batch(FAR_OFFSET, **options)})
    assert [base for base, _, _ in list_pieces(path)] == [0, FAR_OFFSET]


def test_bytes_after_the_last_whole_batch_are_in_the_last_piece(tmp_path):
    path = write_log(
        tmp_path, {0: build_one_batch(0) + build_one_batch(FAR_OFFSET) + build_one_batch(FAR_OFFSET + 3)[:-9]}
    )
    assert list_pieces(path)[-1][2] == 3 * len(build_one_batch(0)) - 9


def test_a_log_whose_offsets_go_back_is_not_split(tmp_path):
    assert (
        list_pieces(
            write_log(tmp_path, {0: build_one_batch(FAR_OFFSET) + build_one_batch(0) + build_one_batch(FAR_OFFSET)})
        )
        == []
    )


def test_a_segment_with_a_near_successor_is_not_read():
    missing = Segment(LogFile(FileName(0, "log"), "/does/not/exist", 100, None))
    assert not has_overflow(LocalFileSystem(), missing, INDEX_OFFSET_LIMIT + 1)


# ------------------------------------------------------------------------------------------------------- recoveries

SEGMENTS_WITH_OVERFLOW = {
    0: build_one_batch(0) + build_one_batch(3) + build_one_batch(FAR_OFFSET) + build_one_batch(FAR_OFFSET + 3),
    FAR_OFFSET + 10: build_one_batch(FAR_OFFSET + 10),
}


@pytest.mark.parametrize("clean", [False, True], ids=["unclean", "no-index"])
def test_a_log_is_split_when_it_is_opened_and_can_be_appended(tmp_path, clean):
    path = write_log(tmp_path, SEGMENTS_WITH_OVERFLOW, clean=clean)
    before = read_rows(path)
    assert "offset-overflow" in errors(tmp_path)
    log = open_log(str(path), now_ms=NOW_MS)
    assert log.segment_bases == (0, FAR_OFFSET, FAR_OFFSET + 10)
    assert read_rows(path) == before
    assert logs(path) == {
        name_segment_file(0, "log"): build_one_batch(0) + build_one_batch(3),
        name_segment_file(FAR_OFFSET, "log"): build_one_batch(FAR_OFFSET) + build_one_batch(FAR_OFFSET + 3),
        name_segment_file(FAR_OFFSET + 10, "log"): build_one_batch(FAR_OFFSET + 10),
    }
    assert (path / f"{name_segment_file(0, 'log')}.deleted").read_bytes() == SEGMENTS_WITH_OVERFLOW[0]
    info = log.append_as_leader(build_batch(2), leader_epoch=0, now_ms=NOW_MS)
    assert info.first_offset == FAR_OFFSET + 13
    assert len(log.read(FAR_OFFSET + 4, max_bytes=1 << 20, isolation=LOG_END).records) == len(
        build_one_batch(FAR_OFFSET + 3)
    )
    log.close(now_ms=NOW_MS)
    log = open_log(str(path), now_ms=NOW_MS + 10**6)
    assert len(read_rows(path)) == len(before) + 2
    log.close(now_ms=NOW_MS)
    assert not [*path.glob("*.deleted")]
    assert not set(errors(tmp_path)) & {"offset-overflow", "index-mismatch", "segment-overlap"}


def test_a_segment_that_was_flushed_and_has_its_index_is_opened_as_it_is_and_rolled(tmp_path):
    """Kafka does not check it either; the next batch does not fit, so it is appended to a new segment."""
    path = write_log(tmp_path, {0: build_one_batch(0) + build_one_batch(FAR_OFFSET)}, clean=True)
    (path / name_segment_file(0, "index")).write_bytes(b"")
    log = open_log(str(path), now_ms=NOW_MS)
    assert log.segment_bases == (0,)
    assert log.append_as_leader(build_batch(1), leader_epoch=0, now_ms=NOW_MS).rolled
    assert log.segment_bases == (0, FAR_OFFSET + 3)
    assert [offset for offset, _ in read_rows(path)] == [
        0,
        1,
        2,
        FAR_OFFSET,
        FAR_OFFSET + 1,
        FAR_OFFSET + 2,
        FAR_OFFSET + 3,
    ]
    log.close(now_ms=NOW_MS)


def test_recovering_a_copy_equals_recovering_in_place(tmp_path):
    path = write_log(tmp_path, SEGMENTS_WITH_OVERFLOW)
    (directory,) = discover(str(path))
    plan = plan_recovery(directory, directory.partitions[0])
    assert plan.bytes_lost == 0
    recover_to(directory, plan, RecoverySettings(NOW_MS), tmp_path / "copy")
    assert logs(path) == {name_segment_file(base, "log"): data for base, data in SEGMENTS_WITH_OVERFLOW.items()}
    open_log(str(path), now_ms=NOW_MS).abandon()
    names = {file.name for file in path.iterdir()}
    assert names == {file.name for file in (tmp_path / "copy").iterdir()}
    for name in names - {
        name_segment_file(FAR_OFFSET + 10, kind) for kind in ("index", "timeindex")
    }:  # open: preallocated
        assert (path / name).read_bytes() == (tmp_path / "copy" / name).read_bytes(), name


def test_damage_after_a_split_truncates_the_log(tmp_path):
    data = bytearray(build_one_batch(0) + build_one_batch(FAR_OFFSET) + build_one_batch(FAR_OFFSET + 3))
    data[-1] ^= 1
    path = write_log(tmp_path, {0: bytes(data), FAR_OFFSET + 10: build_one_batch(FAR_OFFSET + 10)})
    (path / name_segment_file(0, "index")).write_bytes(b"old")
    log = open_log(str(path), now_ms=NOW_MS)
    assert log.segment_bases == (0, FAR_OFFSET)
    assert (path / f"{name_segment_file(0, 'index')}.deleted").read_bytes() == b"old"
    assert log.log_end_offset == FAR_OFFSET + 3
    log.abandon()


def test_damage_before_the_split_prevents_it_like_in_kafka(tmp_path):
    data = bytearray(build_one_batch(0) + build_one_batch(FAR_OFFSET))
    data[len(build_one_batch(0)) - 1] ^= 1
    path = write_log(tmp_path, {0: bytes(data)})
    log = open_log(str(path), now_ms=NOW_MS)
    assert (log.segment_bases, log.log_end_offset) == ((0,), 0)
    log.abandon()


@pytest.mark.parametrize("first", [0, FAR_OFFSET - 7], ids=["named-alike", "hole-before"])
def test_a_crash_during_a_split_neither_loses_nor_duplicates_records(first):
    disk = MemoryDisk()
    disk.make_directory("/kafka/orders-0")
    base = 0
    batches = [
        build_one_batch(first),
        build_one_batch(FAR_OFFSET + INDEX_OFFSET_LIMIT),
        build_one_batch(FAR_OFFSET + INDEX_OFFSET_LIMIT + 3),
    ]
    file = disk.open_file(f"/kafka/orders-0/{name_segment_file(base, 'log')}")
    file.write(0, b"".join(batches))
    file.fsync()
    disk.open_file(f"/kafka/orders-0/{name_segment_file(base, 'index')}").fsync()
    for name in ("/", "/kafka", "/kafka/orders-0"):
        disk.sync_directory(name)
    start = disk.crash()
    recovering = start.copy()
    open_log("/kafka/orders-0", now_ms=NOW_MS, disk=recovering).abandon()
    assert len(recovering.journal) > 20
    for count in range(len(recovering.journal) + 1):
        partly = start.copy()
        for name, arguments in recovering.journal[:count]:
            getattr(partly, name)(*arguments)
        for left_disk in (partly.crash(), partly.crash(lambda pending: pending // 2), partly.crash(lambda _: 0)):
            log = open_log("/kafka/orders-0", now_ms=NOW_MS, disk=left_disk)
            assert log.segment_bases == (first, FAR_OFFSET + INDEX_OFFSET_LIMIT), count
            segment_bytes = [
                left_disk.read(f"/kafka/orders-0/{name_segment_file(at, 'log')}") for at in log.segment_bases
            ]
            assert segment_bytes == [batches[0], batches[1] + batches[2]], count
            log.abandon()


# ------------------------------------------------------------------------------------------------------ other functions


@pytest.mark.parametrize(
    "command",
    [
        ("repair",),
        ("repair", "--as-kafka"),
        ("convert", "--record-format", "v2"),
        ("recompress", "--codec", "lz4"),
        ("restore", "--no-groups"),
    ],
    ids=" ".join,
)
def test_every_job_keeps_every_record(tmp_path, command):
    path = write_log(tmp_path / "log", SEGMENTS_WITH_OVERFLOW)
    before = read_rows(path)
    name, *options = command
    result = CliRunner().invoke(cli, [name, str(tmp_path / "log"), "--to", str(tmp_path / "new"), *options])
    assert result.exit_code == 0, result.output
    assert read_rows(tmp_path / "new" / "orders-0") == before
    assert len(logs(tmp_path / "new" / "orders-0")) == 3
    assert not set(errors(tmp_path / "new")) & {"offset-overflow", "index-mismatch", "segment-overlap"}


def test_a_transaction_is_aborted_in_the_piece_that_has_its_marker(tmp_path):
    of = {"producer_id": 7, "producer_epoch": 0}
    first = build_one_batch(0, transactional=True, base_sequence=0, **of)
    end = build_end_transaction(FAR_OFFSET, commit=False, timestamp=NOW_MS, coordinator_epoch=0, **of)
    path = write_log(tmp_path, {0: first + end, FAR_OFFSET + 10: build_one_batch(FAR_OFFSET + 10)})
    open_log(str(path), now_ms=NOW_MS).close(now_ms=NOW_MS)
    assert (path / name_segment_file(FAR_OFFSET, "txnindex")).stat().st_size == 34
    assert not (path / name_segment_file(0, "txnindex")).exists()


# ----------------------------------------------------------------------------------------------------- the cleaner

ACTIVE_BASE_OFFSET = FAR_OFFSET + 3 * 10**9


def clean_log(tmp_path, segments: dict[int, bytes]):
    path = write_log(tmp_path / "log", segments)
    (directory,) = discover(str(path))
    settings = CleanerSettings(now_ms=NOW_MS, delete_retention_ms=0)
    report = clean_partition(directory.filesystem, directory.partitions[0], settings, tmp_path / "cleaned")
    work_split = SplitSettings(secret=(1, 2), above_bytes=0, chunk_bytes=100, run_entries=10)
    compact(str(path), tmp_path / "staged", settings, work_split=work_split)
    assert {file.name: file.read_bytes() for file in (tmp_path / "cleaned").iterdir()} == {
        file.name: file.read_bytes() for file in (tmp_path / "staged").iterdir() if file.name != "_SUCCESS"
    }
    shutil.rmtree(tmp_path / "staged")
    return report, logs(tmp_path / "cleaned")


def test_cleaning_splits_a_segment_whose_remaining_records_are_too_far_apart(tmp_path):
    near, far, last = (
        build_one_batch(0, 1, key=b"a"),
        build_one_batch(FAR_OFFSET, 1, key=b"b"),
        build_one_batch(ACTIVE_BASE_OFFSET, 1, key=b"c"),
    )
    report, segments = clean_log(tmp_path, {0: near + far, ACTIVE_BASE_OFFSET: last})
    assert report.groups == {0: (0,), FAR_OFFSET: (FAR_OFFSET,)}
    assert segments == {
        name_segment_file(0, "log"): near,
        name_segment_file(FAR_OFFSET, "log"): far,
        name_segment_file(ACTIVE_BASE_OFFSET, "log"): last,
    }


def test_a_segment_is_not_split_where_what_is_left_fits(tmp_path):
    """Kafka does not check the offsets of records that the cleaner removes, either."""
    near, far, last = (
        build_one_batch(0, 1, key=b"a"),
        build_one_batch(FAR_OFFSET, 1, key=b"b"),
        build_one_batch(ACTIVE_BASE_OFFSET - 1, 1, key=b"b"),
    )
    _, segments = clean_log(
        tmp_path,
        {
            0: near + far,
            ACTIVE_BASE_OFFSET - 1: last,
            ACTIVE_BASE_OFFSET: build_one_batch(ACTIVE_BASE_OFFSET, 1, key=b"c"),
        },
    )
    assert segments[name_segment_file(0, "log")] == near


def test_segments_too_far_apart_are_not_grouped(tmp_path):
    batches = {
        base: build_one_batch(base, 1, key=b"%d" % base)
        for base in (0, INDEX_OFFSET_LIMIT, INDEX_OFFSET_LIMIT + 1, ACTIVE_BASE_OFFSET)
    }
    report, _ = clean_log(tmp_path, batches)
    assert report.groups == {0: (0, INDEX_OFFSET_LIMIT), INDEX_OFFSET_LIMIT + 1: (INDEX_OFFSET_LIMIT + 1,)}
