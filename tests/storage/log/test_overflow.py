"""Segments beyond an index's range: every command and the broker split them as Kafka does.

``tests/interop/test_overflow.py`` has real brokers open the same logs, and compares the files.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.storage.partition.builders import NOW_MS, batch
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

FAR = 3_000_000_000
LIMIT = MAX_INT32


def one(first: int, count: int = 3, *, key: bytes = b"k", **options) -> bytes:
    """Build one batch (formats 0 and 1 without a codec: one message each) from an offset on."""
    offsets = list(range(first, first + count))
    times = [NOW_MS + number for number in range(count)]
    columns = {"offset": offsets, "timestamp": times, "key": [key] * count, "value": [b"%010d" % first] * count}
    return build_records(columns, batch_records=count, **options)


def log_of(directory: Path, segments: dict[int, bytes], *, clean: bool = False) -> Path:
    """Write a log directory with one partition and segments without an index."""
    path = directory / "orders-0"
    path.mkdir(parents=True)
    for base, data in segments.items():
        (path / name_segment_file(base, "log")).write_bytes(data)
    if clean:
        (directory / ".kafka_cleanshutdown").write_text('{"version": 0, "brokerEpoch": -1}')
    return path


def pieces(path: Path, base: int = 0) -> list[tuple[int, int, int]]:
    file = LogFile(FileName(base, "log"), str(path / name_segment_file(base, "log")), 0, None)
    size = Path(file.path).stat().st_size
    parts = find_parts(LocalFileSystem(), LogFile(file.name, file.path, size, None))
    return [(piece.base_offset, piece.start, piece.end) for piece in parts]


def rows(path: Path) -> list[tuple[int, bytes]]:
    row_list = []
    for part in kafkaframes.read_records(sorted(path.glob("*.log")), columns=["offset", "value"]):
        row_list += zip(part["offset"].to_pylist(), part["value"].to_pylist(), strict=True)
    return row_list


def logs(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.glob("*.log")}


def errors(path: Path) -> list[str]:
    return [finding.check for finding in verify(discover(str(path))).findings if finding.severity > Severity.NOTE]


# ------------------------------------------------------------------------------------------------- where it is split


def test_a_segment_whose_last_batch_fits_is_left_alone(tmp_path):
    path = log_of(tmp_path, {0: one(0) + one(LIMIT - 2)})
    assert pieces(path) == []
    assert split_partition(LocalFileSystem(), (partition := discover(str(path))[0].partitions[0]))[1] is partition


def test_a_piece_begins_with_the_first_batch_that_does_not_fit(tmp_path):
    near, far, further = one(0), one(LIMIT - 1), one(FAR + LIMIT)
    path = log_of(tmp_path, {0: near + far + further})
    assert len(near) == len(far) == len(further)
    size = len(near)
    assert pieces(path) == [(0, 0, size), (LIMIT - 1, size, 2 * size), (FAR + LIMIT, 2 * size, 3 * size)]


def test_the_first_piece_is_named_after_its_first_batch(tmp_path):
    path = log_of(tmp_path, {5: one(FAR)})
    assert pieces(path, 5) == [(FAR, 0, len(one(FAR)))]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_wrapper_is_named_after_its_first_message(tmp_path, magic, codec):
    options = {"record_format": magic, "codec": codec}
    path = log_of(tmp_path, {0: one(0, **options) + one(FAR, **options)})
    assert [base for base, _, _ in pieces(path)] == [0, FAR]


def test_what_follows_the_last_whole_batch_is_left_to_the_last_piece(tmp_path):
    path = log_of(tmp_path, {0: one(0) + one(FAR) + one(FAR + 3)[:-9]})
    assert pieces(path)[-1][2] == 3 * len(one(0)) - 9


def test_a_log_whose_offsets_go_back_is_not_split(tmp_path):
    assert pieces(log_of(tmp_path, {0: one(FAR) + one(0) + one(FAR)})) == []


def test_a_neighbour_that_is_near_says_that_nothing_need_be_read():
    missing = Segment(LogFile(FileName(0, "log"), "/does/not/exist", 100, None))
    assert not has_overflow(LocalFileSystem(), missing, LIMIT + 1)


# ------------------------------------------------------------------------------------------------------- recoveries

THREE = {0: one(0) + one(3) + one(FAR) + one(FAR + 3), FAR + 10: one(FAR + 10)}


@pytest.mark.parametrize("clean", [False, True], ids=["unclean", "no-index"])
def test_a_log_is_split_where_it_is_opened_and_goes_on(tmp_path, clean):
    path = log_of(tmp_path, THREE, clean=clean)
    before = rows(path)
    assert "offset-overflow" in errors(tmp_path)
    log = open_log(str(path), now_ms=NOW_MS)
    assert log.segment_bases == (0, FAR, FAR + 10)
    assert rows(path) == before
    assert logs(path) == {
        name_segment_file(0, "log"): one(0) + one(3),
        name_segment_file(FAR, "log"): one(FAR) + one(FAR + 3),
        name_segment_file(FAR + 10, "log"): one(FAR + 10),
    }
    assert (path / f"{name_segment_file(0, 'log')}.deleted").read_bytes() == THREE[0]
    info = log.append_as_leader(batch(2), leader_epoch=0, now_ms=NOW_MS)
    assert info.first_offset == FAR + 13
    assert len(log.read(FAR + 4, max_bytes=1 << 20, isolation=LOG_END).records) == len(one(FAR + 3))
    log.close(now_ms=NOW_MS)
    log = open_log(str(path), now_ms=NOW_MS + 10**6)
    assert len(rows(path)) == len(before) + 2
    log.close(now_ms=NOW_MS)
    assert not [*path.glob("*.deleted")]
    assert not set(errors(tmp_path)) & {"offset-overflow", "index-mismatch", "segment-overlap"}


def test_a_segment_that_was_flushed_and_has_its_index_is_opened_as_it_is_and_rolled(tmp_path):
    """Kafka does not check it either; the next batch does not fit, so it is appended to a new segment."""
    path = log_of(tmp_path, {0: one(0) + one(FAR)}, clean=True)
    (path / name_segment_file(0, "index")).write_bytes(b"")
    log = open_log(str(path), now_ms=NOW_MS)
    assert log.segment_bases == (0,)
    assert log.append_as_leader(batch(1), leader_epoch=0, now_ms=NOW_MS).rolled
    assert log.segment_bases == (0, FAR + 3)
    assert [offset for offset, _ in rows(path)] == [0, 1, 2, FAR, FAR + 1, FAR + 2, FAR + 3]
    log.close(now_ms=NOW_MS)


def test_a_copy_is_recovered_to_the_files_of_a_recovery_in_place(tmp_path):
    path = log_of(tmp_path, THREE)
    (directory,) = discover(str(path))
    plan = plan_recovery(directory, directory.partitions[0])
    assert plan.bytes_lost == 0
    recover_to(directory, plan, RecoverySettings(NOW_MS), tmp_path / "copy")
    assert logs(path) == {name_segment_file(base, "log"): data for base, data in THREE.items()}
    open_log(str(path), now_ms=NOW_MS).abandon()
    names = {file.name for file in path.iterdir()}
    assert names == {file.name for file in (tmp_path / "copy").iterdir()}
    for name in names - {name_segment_file(FAR + 10, kind) for kind in ("index", "timeindex")}:  # open: preallocated
        assert (path / name).read_bytes() == (tmp_path / "copy" / name).read_bytes(), name


def test_damage_behind_a_split_cuts_the_log_there(tmp_path):
    data = bytearray(one(0) + one(FAR) + one(FAR + 3))
    data[-1] ^= 1
    path = log_of(tmp_path, {0: bytes(data), FAR + 10: one(FAR + 10)})
    (path / name_segment_file(0, "index")).write_bytes(b"old")
    log = open_log(str(path), now_ms=NOW_MS)
    assert log.segment_bases == (0, FAR)
    assert (path / f"{name_segment_file(0, 'index')}.deleted").read_bytes() == b"old"
    assert log.log_end_offset == FAR + 3
    log.abandon()


def test_damage_before_it_hides_it_as_in_kafka(tmp_path):
    data = bytearray(one(0) + one(FAR))
    data[len(one(0)) - 1] ^= 1
    path = log_of(tmp_path, {0: bytes(data)})
    log = open_log(str(path), now_ms=NOW_MS)
    assert (log.segment_bases, log.log_end_offset) == ((0,), 0)
    log.abandon()


@pytest.mark.parametrize("first", [0, FAR - 7], ids=["named-alike", "hole-before"])
def test_a_crash_at_any_effect_of_a_split_loses_nothing_and_doubles_nothing(first):
    disk = MemoryDisk()
    disk.make_directory("/kafka/orders-0")
    base = 0
    batches = [one(first), one(FAR + LIMIT), one(FAR + LIMIT + 3)]
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
            assert log.segment_bases == (first, FAR + LIMIT), count
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
    path = log_of(tmp_path / "log", THREE)
    before = rows(path)
    name, *options = command
    result = CliRunner().invoke(cli, [name, str(tmp_path / "log"), "--to", str(tmp_path / "new"), *options])
    assert result.exit_code == 0, result.output
    assert rows(tmp_path / "new" / "orders-0") == before
    assert len(logs(tmp_path / "new" / "orders-0")) == 3
    assert not set(errors(tmp_path / "new")) & {"offset-overflow", "index-mismatch", "segment-overlap"}


def test_a_transaction_is_aborted_in_the_piece_that_has_its_marker(tmp_path):
    of = {"producer_id": 7, "producer_epoch": 0}
    first = one(0, transactional=True, base_sequence=0, **of)
    end = build_end_transaction(FAR, commit=False, timestamp=NOW_MS, coordinator_epoch=0, **of)
    path = log_of(tmp_path, {0: first + end, FAR + 10: one(FAR + 10)})
    open_log(str(path), now_ms=NOW_MS).close(now_ms=NOW_MS)
    assert (path / name_segment_file(FAR, "txnindex")).stat().st_size == 34
    assert not (path / name_segment_file(0, "txnindex")).exists()


# ----------------------------------------------------------------------------------------------------- the cleaner

ACTIVE = FAR + 3 * 10**9


def clean_log(tmp_path, segments: dict[int, bytes]):
    path = log_of(tmp_path / "log", segments)
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


def test_a_segment_is_split_and_the_round_begins_anew_where_what_is_left_does_not_fit(tmp_path):
    near, far, last = one(0, 1, key=b"a"), one(FAR, 1, key=b"b"), one(ACTIVE, 1, key=b"c")
    report, segments = clean_log(tmp_path, {0: near + far, ACTIVE: last})
    assert report.groups == {0: (0,), FAR: (FAR,)}
    assert segments == {
        name_segment_file(0, "log"): near,
        name_segment_file(FAR, "log"): far,
        name_segment_file(ACTIVE, "log"): last,
    }


def test_a_segment_is_not_split_where_what_is_left_fits(tmp_path):
    """As in Kafka: the offsets of records to be removed are not checked."""
    near, far, last = one(0, 1, key=b"a"), one(FAR, 1, key=b"b"), one(ACTIVE - 1, 1, key=b"b")
    _, segments = clean_log(tmp_path, {0: near + far, ACTIVE - 1: last, ACTIVE: one(ACTIVE, 1, key=b"c")})
    assert segments[name_segment_file(0, "log")] == near


def test_segments_too_far_apart_are_not_grouped(tmp_path):
    batches = {base: one(base, 1, key=b"%d" % base) for base in (0, LIMIT, LIMIT + 1, ACTIVE)}
    report, _ = clean_log(tmp_path, batches)
    assert report.groups == {0: (0, LIMIT), LIMIT + 1: (LIMIT + 1,)}
