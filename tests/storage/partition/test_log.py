"""The log of one partition: appends and rejections, rolls, reads, watermarks, retention, truncation."""

from __future__ import annotations

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.partition.builders import NOW_MS, build_batch, build_marker, idempotent, lead, new_log, transactional
from tests.storage.partition.memory_disk import MemoryDisk

from kafkaframes.errors import AppendRefusedError, OffsetOutOfRangeError, OptionError
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_records
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.storage.files.checkpoints import PartitionMetadata, write_partition_metadata
from kafkaframes.storage.files.names import name_segment_file
from kafkaframes.storage.partition import LogSettings, create_log, open_log
from kafkaframes.storage.partition.fetch import EARLIEST, LATEST, LOG_END, MAX_TIMESTAMP, TXN_COMMITTED
from kafkaframes.wire.checksum import crc32c


def catch_append_error(append):
    with pytest.raises(AppendRefusedError) as caught:
        append()
    return caught.value.code.name


def test_a_leader_assigns_offsets_and_its_epoch(tmp_path):
    log = new_log(tmp_path)
    first, second = lead(log, build_batch(3), epoch=4), lead(log, build_batch(2), epoch=4)
    assert (first.first_offset, first.last_offset, first.record_count) == (0, 2, 3)
    assert (second.first_offset, second.last_offset, second.last_leader_epoch) == (3, 4, 4)
    assert log.log_end_offset == 5
    assert [entry.leader_epoch for entry in log.epochs.entries] == [4]


def test_a_log_is_read_up_to_its_watermarks(tmp_path):
    log = new_log(tmp_path)
    for _ in range(4):
        lead(log, build_batch(2))
    assert log.read(0, max_bytes=1 << 20).records == b""
    log.update_high_watermark(4)
    visible = log.read(0, max_bytes=1 << 20).records
    assert [record.offset for batch in read_batches(visible) for record in batch.records] == [0, 1, 2, 3]
    everything = log.read(3, max_bytes=1 << 20, isolation=LOG_END).records
    assert [record.offset for batch in read_batches(everything) for record in batch.records] == [2, 3, 4, 5, 6, 7]
    with pytest.raises(OffsetOutOfRangeError):
        log.read(9, max_bytes=10)


def test_the_first_batch_is_returned_whole_or_not_at_all(tmp_path):
    log = new_log(tmp_path)
    lead(log, build_batch(5))
    size = log.size_bytes
    assert len(log.read(0, max_bytes=1, isolation=LOG_END).records) == size
    short_read = log.read(0, max_bytes=1, isolation=LOG_END, min_one_message=False)
    assert len(short_read.records) == 1
    assert short_read.first_entry_incomplete


@pytest.mark.parametrize(
    ("settings", "step_ms"),
    [
        ({"segment_bytes": 200}, 0),
        ({"segment_ms": 1000}, 600),
        ({"segment_ms": 5000, "segment_jitter_ms": 4000}, 600),
        ({"segment_index_bytes": 24, "index_interval_bytes": 0}, 0),
    ],
    ids=["size", "age", "age with jitter", "index full"],
)
def test_segments_are_rolled_by_size_and_time(tmp_path, settings, step_ms):
    log = new_log(tmp_path, **settings)
    for number in range(6):
        lead(log, build_batch(1, timestamp=NOW_MS + number * step_ms))
    assert log.segment_bases == (0, 2, 4)
    assert log.recovery_point == 4
    names = os.listdir(log.directory)
    assert name_segment_file(2, "snapshot") in names
    assert name_segment_file(4, "snapshot") in names


def test_offsets_outside_the_index_range_start_a_new_segment(tmp_path):
    log = new_log(tmp_path)
    lead(log, build_batch(1))
    far = bytearray(build_batch(1))
    far[:8] = (2**31).to_bytes(8, "big")
    log.append_as_follower(bytes(far), now_ms=NOW_MS)
    assert log.segment_bases == (0, 2**31)
    assert log.log_end_offset == 2**31 + 1


def test_active_indexes_are_allocated_and_trimmed(tmp_path):
    log = new_log(tmp_path, segment_bytes=400, segment_index_bytes=1000, index_interval_bytes=0)
    for _ in range(6):
        lead(log, build_batch(1))
    sizes = {name: os.path.getsize(os.path.join(log.directory, name)) for name in os.listdir(log.directory)}
    active = log.segment_bases[-1]
    assert sizes[name_segment_file(active, "index")] == 1000
    assert sizes[name_segment_file(active, "timeindex")] == 996
    assert sizes[name_segment_file(0, "index")] == 8 * 4
    log.close(now_ms=NOW_MS)
    assert os.path.getsize(os.path.join(log.directory, name_segment_file(active, "index"))) < 1000


def test_a_preallocated_segment_is_truncated_when_it_is_closed(tmp_path):
    log = new_log(tmp_path, segment_bytes=5000, preallocate=True)
    lead(log, build_batch(1))
    path = os.path.join(log.directory, name_segment_file(0, "log"))
    assert os.path.getsize(path) == 5000
    log.roll(now_ms=NOW_MS)
    assert os.path.getsize(path) < 200


# ------------------------------------------------------------------------------------------------- producers


def test_a_retry_of_the_last_five_batches_returns_their_offsets(tmp_path):
    log = new_log(tmp_path)
    for sequence in range(0, 14, 2):
        lead(log, idempotent(9, sequence, 2))
    for sequence in range(4, 14, 2):
        info = lead(log, idempotent(9, sequence, 2))
        assert info.is_duplicate
        assert (info.first_offset, info.last_offset) == (sequence, sequence + 1)
    assert catch_append_error(lambda: lead(log, idempotent(9, 2, 2))) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert log.log_end_offset == 14


def test_sequences_and_epochs_of_a_producer_are_checked(tmp_path):
    log = new_log(tmp_path)
    lead(log, idempotent(9, 500))  # the producer is unknown, so any sequence is valid
    assert catch_append_error(lambda: lead(log, idempotent(9, 502))) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert catch_append_error(lambda: lead(log, idempotent(9, 3, epoch=1))) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    lead(log, idempotent(9, 0, epoch=1))
    assert catch_append_error(lambda: lead(log, idempotent(9, 501))) == "INVALID_PRODUCER_EPOCH"
    assert log.log_end_offset == 2


def test_sequences_wrap_around_to_zero(tmp_path):
    log = new_log(tmp_path)
    lead(log, idempotent(9, 2**31 - 2, 3))
    info = lead(log, idempotent(9, 1))
    assert info.first_offset == 3
    assert lead(log, idempotent(9, 2**31 - 2, 3)).is_duplicate


def test_transactions_hold_back_the_last_stable_offset(tmp_path):
    log = new_log(tmp_path)
    lead(log, transactional(1, 0))
    lead(log, transactional(2, 0))
    lead(log, build_batch(1))
    log.update_high_watermark(3)
    assert log.last_stable_offset == 0
    lead(log, build_marker(1, commit=False), origin="COORDINATOR")
    assert log.last_stable_offset == 0  # the marker is not replicated yet
    log.update_high_watermark(4)
    assert log.last_stable_offset == 1
    lead(log, build_marker(2, commit=True), origin="COORDINATOR")
    log.update_high_watermark(5)
    assert log.last_stable_offset == 5
    committed_read = log.read(0, max_bytes=1 << 20, isolation=TXN_COMMITTED)
    assert [(one.producer_id, one.first_offset, one.last_offset) for one in committed_read.aborted] == [(1, 0, 3)]
    assert committed_read.aborted[0].last_stable_offset == 1


def test_invalid_transactional_appends_are_rejected(tmp_path):
    log = new_log(tmp_path)
    lead(log, transactional(1, 0))
    assert catch_append_error(lambda: lead(log, idempotent(1, 1))) == "INVALID_TXN_STATE"
    lead(log, build_marker(1, commit=True, coordinator_epoch=7), origin="COORDINATOR")
    old = build_marker(1, commit=True, coordinator_epoch=6)
    assert catch_append_error(lambda: lead(log, old, origin="COORDINATOR")) == "TRANSACTION_COORDINATOR_FENCED"
    assert catch_append_error(lambda: lead(log, build_marker(1, commit=True))) == "INVALID_RECORD"


def test_a_marker_with_the_next_epoch_clears_the_sequences(tmp_path):
    log = new_log(tmp_path)
    lead(log, transactional(1, 0))
    lead(log, build_marker(1, commit=True, epoch=1), origin="COORDINATOR")
    assert catch_append_error(lambda: lead(log, transactional(1, 1, epoch=0))) == "INVALID_PRODUCER_EPOCH"
    assert lead(log, transactional(1, 0, epoch=1)).first_offset == 2


def test_an_idle_producer_expires_unless_its_transaction_is_open(tmp_path):
    log = new_log(tmp_path, producer_id_expiration_ms=1000)
    lead(log, idempotent(1, 0))
    lead(log, transactional(2, 0))
    log.tick(NOW_MS + 1000)
    assert list(log.producers.states) == [2]


# ------------------------------------------------------------------------------------------------- refusals


def test_rejected_appends_do_not_change_the_log(tmp_path):
    log = new_log(tmp_path, segment_bytes=1000, max_message_bytes=800)
    lead(log, build_batch(1))
    before = log.size_bytes, log.log_end_offset, dict(log.producers.states)
    corrupt = bytearray(build_batch(1))
    corrupt[-1] ^= 1
    offset = bytearray(build_batch(1))
    offset[7] = 5
    assert catch_append_error(lambda: lead(log, bytes(corrupt))) == "CORRUPT_MESSAGE"
    assert catch_append_error(lambda: lead(log, bytes(offset))) == "INVALID_RECORD"
    assert catch_append_error(lambda: lead(log, build_batch(1, value=b"x" * 900))) == "MESSAGE_TOO_LARGE"
    assert catch_append_error(lambda: lead(log, b"")) == "CORRUPT_MESSAGE"
    log.configure(LogSettings(segment_bytes=1000))
    assert catch_append_error(lambda: lead(log, idempotent(5, 0, value=b"x" * 1100))) == "RECORD_LIST_TOO_LARGE"
    below = build_batch(1)
    assert catch_append_error(lambda: log.append_as_follower(below, now_ms=NOW_MS)) == "UNKNOWN_SERVER_ERROR"
    assert (log.size_bytes, log.log_end_offset, dict(log.producers.states)) == before


def test_a_follower_accepts_offset_gaps_and_rejects_later_epochs(tmp_path):
    log = new_log(tmp_path)
    pieces = []
    for offset, epoch in ((3, 1), (9, 1), (10, 2)):
        piece = bytearray(build_batch(1, leader_epoch=epoch))
        piece[:8] = offset.to_bytes(8, "big")
        pieces.append(bytes(piece))
    info = log.append_as_follower(b"".join(pieces), leader_epoch=1, now_ms=NOW_MS)
    assert (info.first_offset, info.last_offset, log.log_end_offset) == (3, 9, 10)
    reversed_pieces = b"".join(reversed(pieces))
    assert catch_append_error(lambda: log.append_as_follower(reversed_pieces, now_ms=NOW_MS)) == "UNKNOWN_SERVER_ERROR"


def test_a_closed_log_rejects_appends(tmp_path):
    log = new_log(tmp_path)
    log.close(now_ms=NOW_MS)
    with pytest.raises(OptionError):
        lead(log, build_batch(1))


# ------------------------------------------------------------------------------------------------- getting shorter


def fill_log(tmp_path, **settings):
    log = new_log(tmp_path, segment_bytes=250, **settings)
    for number in range(9):
        lead(log, idempotent(1, number, timestamp=NOW_MS + number))
    return log


def test_retention_waits_for_the_high_watermark_and_delays_file_deletion(tmp_path):
    log = fill_log(tmp_path, retention_ms=1000)
    bases = log.segment_bases
    assert len(bases) == 3
    assert log.delete_old_segments(now_ms=NOW_MS + 5000) == 0
    log.update_high_watermark(bases[2])
    assert log.delete_old_segments(now_ms=NOW_MS + 5000) == 2
    assert log.log_start_offset == bases[2] == log.segment_bases[0]
    waiting = [name for name in os.listdir(log.directory) if name.endswith(".deleted")]
    assert name_segment_file(0, "log") + ".deleted" in waiting
    log.tick(NOW_MS + 5000 + 59_999)
    assert name_segment_file(0, "log") + ".deleted" in os.listdir(log.directory)
    log.tick(NOW_MS + 5000 + 60_000)
    assert not [name for name in os.listdir(log.directory) if name.endswith(".deleted")]


def test_retention_of_all_records_leaves_an_empty_segment(tmp_path):
    log = fill_log(tmp_path, retention_ms=1000)
    log.update_high_watermark(9)
    log.delete_old_segments(now_ms=NOW_MS + 5000)
    assert log.segment_bases == (9,)
    assert (log.log_start_offset, log.log_end_offset) == (9, 9)
    assert lead(log, idempotent(1, 9)).first_offset == 9


def test_retention_by_size_counts_from_the_end(tmp_path):
    log = fill_log(tmp_path, retention_ms=-1, retention_bytes=500)
    log.update_high_watermark(9)
    log.delete_old_segments(now_ms=NOW_MS)
    assert log.size_bytes >= 500 > log.size_bytes - log.segments.first.size_bytes


def test_a_compacted_log_keeps_old_segments_but_not_deleted_records(tmp_path):
    log = fill_log(tmp_path, cleanup_policy="compact", retention_ms=1000)
    log.update_high_watermark(9)
    assert log.delete_old_segments(now_ms=NOW_MS + 5000) == 0
    assert log.delete_records(log.segment_bases[1] + 1) == log.segment_bases[1] + 1
    assert log.delete_old_segments(now_ms=NOW_MS + 5000) == 1


def test_delete_records_stops_at_the_high_watermark(tmp_path):
    log = fill_log(tmp_path)
    log.update_high_watermark(5)
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_records(6)
    assert log.delete_records(-1) == 5
    with pytest.raises(OffsetOutOfRangeError):
        log.read(4, max_bytes=10)
    assert log.delete_records(2) == 5


@pytest.mark.parametrize("offset", range(9))
def test_a_truncated_log_equals_a_log_without_the_rest(tmp_path, offset):
    truncated_log, never = fill_log(tmp_path / "a"), new_log(tmp_path / "b", segment_bytes=250)
    truncated_log.truncate_to(offset, now_ms=NOW_MS)
    for number in range(offset):
        lead(never, idempotent(1, number, timestamp=NOW_MS + number))
    for log in (truncated_log, never):
        lead(log, idempotent(1, offset))
        log.close(now_ms=NOW_MS)
    files = live_files(truncated_log)
    files.pop(name_segment_file(offset, "snapshot"), None)  # taken when the log was cut, as Kafka does
    expected_files = live_files(never)
    expected_files.pop(name_segment_file(offset, "snapshot"), None)
    assert files == expected_files


def live_files(log):
    files = {}
    for name in os.listdir(log.directory):
        if not name.endswith(".deleted"):
            with open(os.path.join(log.directory, name), "rb") as file:
                files[name] = file.read()
    return files


def test_an_emptied_log_continues_at_the_given_offset(tmp_path):
    log = fill_log(tmp_path)
    log.truncate_fully_and_start_at(100, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
    assert lead(log, idempotent(1, 77)).first_offset == 100


# ------------------------------------------------------------------------------------------------- look-ups


@pytest.mark.parametrize(("record_format", "offset"), [(2, 0), (1, 0), (0, -1)])
def test_without_timestamps_the_first_record_has_the_max_timestamp_except_in_format_0(tmp_path, record_format, offset):
    log = new_log(tmp_path, record_format=record_format)
    lead(log, build_records({"value": [b"a", b"b"], "timestamp": [-1, -1]}, record_format=record_format))
    assert (log.find_offset_for_timestamp(MAX_TIMESTAMP).offset, log.find_offset_for_timestamp(0)) == (offset, None)


def test_offsets_are_found_by_timestamp(tmp_path):
    log = fill_log(tmp_path)
    log.update_high_watermark(9)
    assert log.find_offset_for_timestamp(NOW_MS + 4).offset == 4
    assert log.find_offset_for_timestamp(NOW_MS + 9) is None
    assert log.find_offset_for_timestamp(LATEST).offset == 9
    assert log.find_offset_for_timestamp(EARLIEST).offset == 0
    assert log.find_offset_for_timestamp(MAX_TIMESTAMP).offset == 8
    log.delete_records(6)
    assert log.find_offset_for_timestamp(NOW_MS + 4) is None  # only the segment that reaches the time is looked into
    log.delete_old_segments(now_ms=NOW_MS)
    assert log.find_offset_for_timestamp(NOW_MS + 4).offset == 6
    assert log.find_offset_for_timestamp(EARLIEST).offset == 6


def test_end_offsets_of_leader_epochs_are_found(tmp_path):
    log = new_log(tmp_path)
    for epoch in (1, 1, 3):
        lead(log, build_batch(2), epoch=epoch)
    ends = [tuple(log.epochs.end_offset_for(epoch, log_end_offset=6)) for epoch in (-1, 0, 1, 2, 3, 4)]
    assert ends == [(-1, -1), (0, 0), (1, 4), (1, 4), (3, 6), (-1, -1)]
    assert tuple(log.epochs.end_offset_for(-5, log_end_offset=6)) == (
        -5,
        0,
    )  # like Kafka's response to an invalid epoch


def test_end_offsets_of_epochs_in_a_log_without_epochs(tmp_path):
    log = new_log(tmp_path)
    ends = [tuple(log.epochs.end_offset_for(epoch, log_end_offset=0)) for epoch in (-(2**31), -5, -1, 0, 7)]
    assert ends == [(-1, -1)] * 5


# ------------------------------------------------------------------------------------------------- opening again


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_reopened_log_has_the_same_state(tmp_path, is_clean):
    log = fill_log(tmp_path)
    lead(log, transactional(2, 0))
    bases, states = log.segment_bases, {key: state.entry() for key, state in log.producers.states.items()}
    if is_clean:
        log.close(now_ms=NOW_MS)
        (tmp_path / ".kafka_cleanshutdown").touch()
    else:
        log.abandon()
    raw = write_partition_metadata(PartitionMetadata("IU6NTFbUTQiJMTtf1e--4g"))
    (tmp_path / "orders-0" / "partition.metadata").write_bytes(raw)
    again = open_log(log.directory, settings=log.settings, now_ms=NOW_MS)
    assert again.segment_bases == bases
    assert {key: state.entry() for key, state in again.producers.states.items()} == states
    assert again.topic_id == "IU6NTFbUTQiJMTtf1e--4g"
    assert again.recovery_point == (10 if is_clean else 0)
    again.update_high_watermark(10)
    assert again.last_stable_offset == 9
    assert lead(again, idempotent(1, 8)).is_duplicate
    assert lead(again, transactional(2, 1)).first_offset == 10


def test_bytes_after_the_last_batch_of_a_clean_log_are_truncated(tmp_path):
    log = fill_log(tmp_path)
    log.close(now_ms=NOW_MS)
    (tmp_path / ".kafka_cleanshutdown").touch()
    with open(log.segments.active.path, "ab") as file:
        file.write(b"\0" * 40)
    again = open_log(log.directory, settings=log.settings, now_ms=NOW_MS)
    assert lead(again, idempotent(1, 9)).first_offset == 9
    again.abandon()
    assert open_log(log.directory, settings=log.settings, now_ms=NOW_MS).log_end_offset == 10


# ------------------------------------------------------------------------------------------------- hostile input

VALID_BATCHES = (
    build_batch(2),
    idempotent(5, 0, 3),
    transactional(6, 0),
    build_marker(6, commit=True),
    build_batch(3, record_format=1, codec="gzip"),
)


@given(
    pieces=st.lists(st.sampled_from(VALID_BATCHES), min_size=1, max_size=3),
    damage=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
    fix_crc=st.booleans(),
    leads=st.booleans(),
)
def test_any_bytes_are_either_rejected_or_appended(pieces, damage, fix_crc, leads):
    raw = bytearray(b"".join(pieces))
    for place, value in damage:
        raw[place % len(raw)] = value
    if fix_crc and raw[16] == 2 and len(raw) > BATCH_V2.size:
        size = 12 + int.from_bytes(raw[8:12], "big", signed=True)
        struct.pack_into(">I", raw, 17, crc32c(bytes(raw[21 : max(size, 21)])))
    disk = MemoryDisk()
    disk.make_directory("/kafka")
    disk.sync_directory("/")
    log = create_log("/kafka/orders-0", settings=LogSettings(segment_bytes=4000), now_ms=NOW_MS, disk=disk)
    lead(log, build_batch(1))
    try:
        info = lead(log, bytes(raw)) if leads else log.append_as_follower(bytes(raw), now_ms=NOW_MS)
    except AppendRefusedError:
        assert log.log_end_offset == 1
    else:
        assert log.log_end_offset == max(info.last_offset + 1, 1)
    end = log.log_end_offset
    log.roll(now_ms=NOW_MS)
    log.abandon()
    again = open_log("/kafka/orders-0", now_ms=NOW_MS, disk=disk.crash(lambda pending: 0))
    assert again.log_end_offset == end
    assert lead(again, build_batch(1)).first_offset == end
