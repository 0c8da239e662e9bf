"""Append batches from a producer, a leader or a mirror to a log (UnifiedLog.append).

``records.append`` checks a producer's records and assigns their offsets. Batches from a leader or a mirror already have
offsets and are checked here. All batches then take the same path: producer state, rolling, leader epochs, segment,
transactions. All checks precede the first change, so a rejected append changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from kafkaframes.errors import AppendRefusedError, OptionError, StorageError
from kafkaframes.records.append.entry import validate_and_assign_at
from kafkaframes.records.append.headers import scan_valid_batches
from kafkaframes.records.append.results import Raw, ValidatedRecords
from kafkaframes.records.append.settings import KEEP, LOG_APPEND_TIME, REASSIGN, AppendSettings
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, CODECS, COLUMN_INDEX, OVERHEAD_BYTES
from kafkaframes.records.layout import LOG_APPEND_TIME as LOG_APPEND_TIME_FLAG
from kafkaframes.records.scan import as_array
from kafkaframes.storage.files.headers import (
    BatchHeader,
    list_scanned_headers,
    parse_header,
    parse_headers,
    read_first_header,
)
from kafkaframes.storage.log.producers import CLIENT, REPLICATION, PreparedAppend
from kafkaframes.storage.log.transactions import iterate_producer_batches, parse_markers
from kafkaframes.storage.partition.flushing import flush, prepare_active_segment, roll
from kafkaframes.storage.partition.segment import LogSegment
from kafkaframes.storage.partition.settings import LogSettings, to_append_settings
from kafkaframes.storage.partition.state import LogState
from kafkaframes.wire.checksum import crc32c
from kafkaframes.wire.integers import MAX_INT32, MAX_INT64

NO_TIMESTAMP = -1
NO_EPOCH = -1
NO_OFFSET = -1
_OFFSET_BYTES = 8
_EMPTY_APPEND = PreparedAppend({}, {})
_CRC_END = BATCH_V2.end_of("crc")
_BEFORE_OFFSETS, _AFTER_EPOCH = COLUMN_INDEX["base_offset"], COLUMN_INDEX["leader_epoch"] + 1


class LogAppendInfo(NamedTuple):
    """The result of an append, from which a producer's response is built (LogAppendInfo).

    Attributes:
        first_offset: first offset of the records; for a duplicate, that of the original batch. For a follower's append
            in format 0 or 1, the last offset of the first batch, which is the only one in its header.
        last_offset: last offset of the records; for a duplicate, that of the original batch.
        last_leader_epoch: leader epoch of the last batch; -1 in formats 0 and 1.
        append_time_ms: timestamp that the log assigned; -1 if the producer's timestamps are kept.
        valid_bytes: size of the whole batches in the input; the bytes after them were ignored.
        is_duplicate: whether one of the producer's last five batches is the same, so that nothing was written.
        recompressed_bytes: uncompressed size of the records that were compressed again.
    """

    first_offset: int
    last_offset: int
    last_leader_epoch: int
    max_timestamp: int
    append_time_ms: int
    log_start_offset: int
    log_end_offset: int
    valid_bytes: int
    is_duplicate: bool = False
    rolled: bool = False
    recompressed_bytes: int = 0

    @property
    def record_count(self) -> int:
        """Number of offsets that the records span."""
        return self.last_offset - self.first_offset + 1


def append_as_leader(
    state: LogState,
    records: Raw,
    *,
    leader_epoch: int,
    now_ms: int,
    origin: str = CLIENT,
    header: BatchHeader | None = None,
) -> LogAppendInfo:
    """Check a producer's records, assign the next offsets to them, and append them (KIP-31).

    Args:
        records: record set of one partition of a Produce request. A bytearray is modified in place and must not be
            used by the caller afterwards; bytes are copied.
        leader_epoch: epoch of this leader, written into batches of format 2.
        origin: ``CLIENT``, or ``COORDINATOR`` for a coordinator's records and markers.
        header: result of ``read_first_header`` for the records; None if it was not called.

    Returns:
        The offsets; for a duplicate of one of the producer's last five batches, the offsets of the original.

    Raises:
        AppendRefusedError: the records are rejected, with Kafka's exception and error code; nothing has changed.
        StorageError: the disk failed, and the log directory is offline.
    """
    sent_header = header or read_first_header(records)
    if origin == CLIENT:
        if state.settings.on_noncontiguous == KEEP:
            return append_with_offsets(state, records, now_ms=now_ms)
        if state.settings.on_noncontiguous != REASSIGN:
            _check_client_offset(records, sent_header)
    settings = state.get_append_settings(leader_epoch, origin)
    start = state.log_end_offset
    batches = validate_and_assign_at(records, start, settings, now_ms)
    headers = _parse_appended_headers(batches, sent_header, settings)
    info = _append_batches(state, batches.records, headers, first_offset=start, now_ms=now_ms, origin=origin)
    if settings.timestamp_type != LOG_APPEND_TIME and not batches.recompressed_bytes:
        return info if info.valid_bytes == batches.valid_bytes else info._replace(valid_bytes=batches.valid_bytes)
    return info._replace(
        valid_bytes=batches.valid_bytes,
        append_time_ms=now_ms if settings.append_time and not info.is_duplicate else info.append_time_ms,
        recompressed_bytes=batches.recompressed_bytes,
    )


def check_client_batch(
    settings: LogSettings, batch: bytes, *, log_end_offset: int, leader_epoch: int, now_ms: int
) -> None:
    """Raise the error of ``append_as_leader`` if a log with ``settings`` would reject a client's batch.

    Nothing is appended. Sequence numbers and transactions are not checked.

    Raises:
        AppendRefusedError: same as ``append_as_leader``.
    """
    if settings.on_noncontiguous == KEEP:
        records, _ = _check_mirrored_batches(batch, log_end_offset=log_end_offset, settings=settings)
    else:
        appending = to_append_settings(settings, leader_epoch, CLIENT)
        records = validate_and_assign_at(bytearray(batch), log_end_offset, appending, now_ms).records
    _check_fits_segment(len(records), settings)


def append_as_follower(state: LogState, records: Raw, *, now_ms: int, leader_epoch: int | None = None) -> LogAppendInfo:
    """Append a leader's batches unchanged, with their offsets.

    Args:
        leader_epoch: epoch of the leader that sent the batches. Batches of a later epoch are skipped (KAFKA-18723).

    Raises:
        AppendRefusedError: a batch is corrupt, or its offsets do not increase.
        StorageError: the disk failed, and the log directory is offline.
    """
    data, headers = _check_batches(records, log_end_offset=state.log_end_offset, leader_epoch=leader_epoch)
    first = _get_first_or_last_offset(headers[0]) if headers else NO_OFFSET
    return _append_batches(state, data, headers, first_offset=first, now_ms=now_ms, origin=REPLICATION)


def append_with_offsets(state: LogState, records: Raw, *, now_ms: int) -> LogAppendInfo:
    """Append a mirror's batches with their offsets. Only headers and CRCs are checked."""
    data, headers = _check_mirrored_batches(records, log_end_offset=state.log_end_offset, settings=state.settings)
    data, headers = _raise_leader_epochs(data, headers, state.epochs.latest)
    first = _get_first_or_last_offset(headers[0]) if headers else NO_OFFSET
    return _append_batches(state, data, headers, first_offset=first, now_ms=now_ms, origin=REPLICATION)


# ------------------------------------------------------------------------------------------------- checks of batches


def _parse_appended_headers(
    batches: ValidatedRecords, sent_header: BatchHeader | None, settings: AppendSettings
) -> list[BatchHeader]:
    """Return the headers of the appended batches. The header of a single unchanged batch is not parsed again."""
    records = batches.records
    if (
        sent_header is not None
        and batches.in_place
        and sent_header.size == len(records) >= BATCH_V2.size
        and sent_header.max_timestamp == batches.max_timestamp
        and settings.record_format == 2
        and not (sent_header.attributes & LOG_APPEND_TIME_FLAG or settings.append_time)
    ):
        last = batches.next_offset - 1
        first = last - (sent_header.last_offset - sent_header.base_offset)
        fields = (*sent_header[:_BEFORE_OFFSETS], first, last, settings.leader_epoch, *sent_header[_AFTER_EPOCH:])
        return [BatchHeader._make(fields)]
    return parse_headers(records) if records else []


def _check_client_offset(data: Raw, sent_header: BatchHeader | None) -> None:
    """Reject a client's batch of format 2 with a base offset other than 0."""
    if sent_header is not None and sent_header.base_offset and len(data) >= BATCH_V2.size:
        raise AppendRefusedError(
            "InvalidRecordException", f"a client's batch has base offset {sent_header.base_offset}, not 0"
        )


def _check_batches(data: Raw, *, log_end_offset: int, leader_epoch: int | None) -> tuple[Raw, list[BatchHeader]]:
    """Check batches that have offsets; return those before the first batch of an epoch later than ``leader_epoch``."""
    headers = _parse_single_batch(data)
    valid = len(data)
    if not headers:
        batches, valid = scan_valid_batches(as_array(data))
        headers = list_scanned_headers(batches)
    if leader_epoch is not None:
        later = next((header for header in headers if header.leader_epoch > leader_epoch), None)
        if later is not None:
            valid, headers = later.position, [header for header in headers if header.position < later.position]
    _check_offsets(
        headers,
        log_end_offset,
        disorder_error="OffsetsOutOfOrderException",
        below_end_error="UnexpectedAppendOffsetException",
    )
    return data if valid == len(data) else data[:valid], headers


def _check_mirrored_batches(data: Raw, *, log_end_offset: int, settings: LogSettings) -> tuple[Raw, list[BatchHeader]]:
    """Check the headers and CRCs of a mirror's batches, which keep their offsets.

    The batches may have several formats, because the original log may have been written in several.
    """
    batches, valid = scan_valid_batches(as_array(data))
    headers = list_scanned_headers(batches)
    data = data if valid == len(data) else data[:valid]
    for header in headers:
        if header.size > settings.max_message_bytes:
            reason = f"the batch has {header.size} bytes; max.message.bytes allows {settings.max_message_bytes}"
            raise AppendRefusedError("RecordTooLargeException", reason)
    _check_offsets(
        headers, log_end_offset, disorder_error="InvalidRecordException", below_end_error="InvalidRecordException"
    )
    return data, headers


def _raise_leader_epochs(data: Raw, headers: Sequence[BatchHeader], latest: int) -> tuple[Raw, list[BatchHeader]]:
    """Return a mirror's batches with leader epochs that do not decrease from ``latest``. The CRC excludes the epoch.

    A batch that has no epoch, or one that is not below the previous epoch, is unchanged. The mirrored log therefore
    answers OffsetsForLeaderEpoch requests as the original log does.
    """
    epoch_at = BATCH_V2.position_of("leader_epoch")
    out, headers_after = bytearray(), list[BatchHeader]()
    for header in headers:
        is_old = header.magic >= 2 and 0 <= header.leader_epoch < latest
        if is_old:
            out = out or bytearray(data)
            position = header.position + epoch_at
            out[position : position + 4] = latest.to_bytes(4, "big", signed=True)
        headers_after.append(header._replace(leader_epoch=latest) if is_old else header)
        latest = max(latest, header.leader_epoch)
    return out or data, headers_after


def _parse_single_batch(data: Raw) -> list[BatchHeader]:
    """Return a list with the header if the data is one intact batch of format 2, as usual; otherwise an empty list."""
    if len(data) < BATCH_V2.size or data[BYTES_TO_MAGIC - 1] != 2:
        return []
    size = int.from_bytes(data[_OFFSET_BYTES:OVERHEAD_BYTES], "big", signed=True)
    if size + OVERHEAD_BYTES != len(data):
        return []
    header = parse_header(data, window_position=0, position=0, size=len(data))
    is_intact = header.codec < len(CODECS) and crc32c(memoryview(data)[_CRC_END:]) == header.crc
    return [header] if is_intact else []


def _check_offsets(
    headers: Sequence[BatchHeader], log_end_offset: int, *, disorder_error: str, below_end_error: str
) -> None:
    """Raise ``disorder_error`` if offsets do not increase, and ``below_end_error`` if they are below the log end."""
    last = NO_OFFSET
    for header in headers:
        if not last < header.base_offset <= header.last_offset < MAX_INT64:
            raise AppendRefusedError(disorder_error, _describe_offset_rejection(header, last))
        last = header.last_offset
    if headers and _get_first_or_last_offset(headers[0]) < log_end_offset:
        reason = f"offset {_get_first_or_last_offset(headers[0])} is below the log end offset {log_end_offset}"
        raise AppendRefusedError(below_end_error, reason)


def _describe_offset_rejection(header: BatchHeader, last: int) -> str:
    """Return the reason why a batch's offsets are invalid after a batch that ends at ``last``."""
    offsets = f"offsets {header.base_offset} to {header.last_offset}"
    if header.base_offset < 0:
        return f"{offsets}: offsets start at 0"
    if header.last_offset >= MAX_INT64:
        return f"{offsets}: the largest offset is {MAX_INT64 - 1}"
    return f"{offsets} follow offset {last}; offsets must increase"


def _get_first_or_last_offset(header: BatchHeader) -> int:
    """Return a batch's first offset; in formats 0 and 1 its last offset, the only one in the header."""
    return header.base_offset if header.magic >= 2 else header.last_offset


# ------------------------------------------------------------------------------------------------- append to segments


def _append_batches(
    state: LogState, data: Raw, headers: Sequence[BatchHeader], *, first_offset: int, now_ms: int, origin: str
) -> LogAppendInfo:
    """Append batches that have offsets.

    Raises:
        AppendRefusedError: the batches are too large, or a producer's epoch, sequence or transaction is wrong.
        OptionError: the log is closed.
        StorageError: the disk fails; nothing is appended. If only space is missing, the next append may succeed.
    """
    if state.is_closed:
        raise OptionError(f"the log of {state.topic_partition} is closed")
    if not headers:
        return _make_info_without_append(state, first_offset, first_offset - 1, valid_bytes=len(data))
    size, settings = len(data), state.settings
    _check_fits_segment(size, settings)
    producer_changes = _prepare_producers(state, data, headers, origin)
    if producer_changes.duplicate is not None:
        duplicate = producer_changes.duplicate
        info = _make_info_without_append(state, duplicate.first_offset, duplicate.last_offset, valid_bytes=size)
        return info._replace(is_duplicate=True, append_time_ms=duplicate.timestamp)
    last = headers[-1]
    largest = last.max_timestamp if len(headers) == 1 else max([header.max_timestamp for header in headers])
    segment, is_rolled = _prepare_segment(state, data, headers, first_offset, largest, now_ms)
    old_size_bytes = segment.size_bytes
    try:
        _assign_epochs(state, headers)
        segment.append(data, headers, settings)
        if producer_changes is not _EMPTY_APPEND:
            for transaction in state.producers.list_aborted_transactions(producer_changes):
                segment.txn_index.append(transaction)
    except StorageError:
        state.disk.bring_online(lambda: segment.truncate(old_size_bytes, state.log_end_offset))
        raise
    state.log_end_offset = end = last.last_offset + 1
    if producer_changes is not _EMPTY_APPEND:
        state.producers.commit_append(producer_changes)
    if end - state.recovery_point >= settings.flush_messages:
        flush(state, now_ms=now_ms)
    start = state.log_start_offset
    epoch = last.leader_epoch
    return LogAppendInfo(first_offset, end - 1, epoch, largest, NO_TIMESTAMP, start, end, size, rolled=is_rolled)


def _check_fits_segment(size: int, settings: LogSettings) -> None:
    if size > settings.segment_bytes:
        reason = f"{size} bytes do not fit into a segment of {settings.segment_bytes} bytes"
        raise AppendRefusedError("RecordBatchTooLargeException", reason)


def _make_info_without_append(
    state: LogState, first_offset: int, last_offset: int, *, valid_bytes: int
) -> LogAppendInfo:
    bounds = state.log_start_offset, state.log_end_offset
    return LogAppendInfo(first_offset, last_offset, NO_EPOCH, NO_TIMESTAMP, NO_TIMESTAMP, *bounds, valid_bytes)


def _prepare_producers(state: LogState, data: Raw, headers: Sequence[BatchHeader], origin: str) -> PreparedAppend:
    """Return the change to the producer state that the append causes; empty if no batch has a producer id."""
    for header in headers:
        if header.producer_id >= 0:
            return state.producers.prepare_append(
                iterate_producer_batches(headers, partial(parse_markers, data)), origin=origin
            )
    return _EMPTY_APPEND


def _prepare_segment(
    state: LogState, data: Raw, headers: Sequence[BatchHeader], first_offset: int, largest: int, now_ms: int
) -> tuple[LogSegment, bool]:
    """Return the active segment, or roll it if the append needs a new one (UnifiedLog.maybeRoll)."""
    active, last_offset = state.segments.active, headers[-1].last_offset
    if not active.is_active:
        prepare_active_segment(state, now_ms=now_ms)
    is_due = active.should_roll(
        state.settings, size_bytes=len(data), max_timestamp=largest, last_offset=last_offset, now_ms=now_ms
    )
    if not is_due:
        return active, False
    is_known = headers[0].magic >= 2  # the header of a compressed set of formats 0 and 1 does not have the first offset
    expected_offset = first_offset if is_known else last_offset - MAX_INT32
    base = max(expected_offset, state.log_end_offset)
    if last_offset - base > MAX_INT32:
        raise AppendRefusedError(
            "LogSegmentOffsetOverflowException",
            f"offset {last_offset} is too far above the segment's base offset {base}",
        )
    roll(state, expected_offset, now_ms=now_ms)
    return state.segments.active, True


def _assign_epochs(state: LogState, headers: Sequence[BatchHeader]) -> None:
    epochs = state.epochs
    for header in headers:
        if header.magic < 2:
            if epochs.entries:  # an old leader wrote these batches without epochs, so the stored epochs are incomplete
                epochs.clear()
        elif header.leader_epoch > epochs.latest:
            epochs.assign(header.leader_epoch, header.base_offset)
