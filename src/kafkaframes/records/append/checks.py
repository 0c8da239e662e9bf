"""The checks of Kafka's LogValidator, in Kafka's order: by batch, and within a batch by record.

All batches and records are checked at once with array operations. Only the first invalid batch is then examined in
detail, because Kafka stops there. The corresponding methods of Kafka are ``LogValidator.validateBatch``,
``validateRecord``, ``validateTimestamp`` and ``validateKey``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import AppendRefusedError, ErrorCode, RecordRefusal
from kafkaframes.records.append.results import make_batch_error, record_errors
from kafkaframes.records.append.settings import AS_KAFKA, KEEP, REJECT, AppendSettings
from kafkaframes.records.batch import is_message_crc_valid
from kafkaframes.records.codecs import CODECS
from kafkaframes.records.decoded import BatchProblem, DecodedBatches
from kafkaframes.records.fields import NO_PRODUCER_ID, NO_TIMESTAMP
from kafkaframes.records.layout import CODEC_MASK, LOG_APPEND_TIME, MESSAGE_V0, MESSAGE_V1, OVERHEAD_BYTES
from kafkaframes.records.reasons import NESTED, UNREADABLE_FIELD
from kafkaframes.records.scan import Flags, Ints, check_message_crcs

# ------------------------------------------------------------------------------------------------ truncated messages
#
# A message of format 0 or 1 may state a key or value size that exceeds the message. Kafka's iterators return such a
# message and fail only if its key or value is read. The record index ends before it, or (a lenient index) has nulls for
# these fields, so the checks read them from the message's bytes.

BEYOND, TOO_LONG = "IndexOutOfBoundsException", "IllegalArgumentException"
_MAGIC_POSITION = MESSAGE_V0.position_of("magic") - OVERHEAD_BYTES
_ATTRIBUTES_POSITION = MESSAGE_V0.position_of("attributes")
_KEY_V0, _KEY_V1 = MESSAGE_V0.size - OVERHEAD_BYTES, MESSAGE_V1.size - OVERHEAD_BYTES


class UnreadableMessage(NamedTuple):
    """A message of format 0 or 1 that Kafka cannot read, because its key or value is longer than the message itself.

    Attributes:
        number: number of the message in the batch.
        magic: format of the batch, which may differ from the message's own format.
        in_set: whether the message is in a compressed message set.
        message: bytes of the message, from the CRC on.
    """

    number: int
    magic: int
    in_set: bool
    message: bytes

    @property
    def _key_at(self) -> int:
        return _KEY_V1 if self.message[_MAGIC_POSITION] else _KEY_V0

    @property
    def key_size(self) -> int | None:
        """The stated size of the key; None if the message ends before it."""
        return self._read_size(self._key_at)

    @property
    def read_error(self) -> str:
        """The exception that Kafka throws when it reads the key and then the value."""
        key_position = self._key_at
        for _ in ("key", "value"):
            size = self._read_size(key_position)
            if size is None:
                return BEYOND
            key_position += 4 + max(size, 0)
            if key_position > len(self.message):
                return TOO_LONG
        return TOO_LONG

    @property
    def value_read_error(self) -> str:
        """The exception that Kafka throws when it reads the value only."""
        key_position = self._key_at
        key_size = self._read_size(key_position)
        return BEYOND if key_size is None or self._read_size(key_position + 4 + max(key_size, 0)) is None else TOO_LONG

    def _read_size(self, position: int) -> int | None:
        return (
            int.from_bytes(self.message[position : position + 4], "big", signed=True)
            if position + 4 <= len(self.message)
            else None
        )


def find_unreadable_message(content: DecodedBatches, batch: int) -> UnreadableMessage | None:
    """Return the truncated message at which the index of a batch ends; None if it ends for another reason."""
    if not content.has_unreadable_field(batch):
        return None
    position, number = int(content.index.wheres[batch]), int(content.index.rows[batch])
    if content.batches.is_wrapper[batch]:
        return _read_inner_message(content, batch, number, position + OVERHEAD_BYTES)
    magic, end = int(content.batches.column("magic")[batch]), int(content.sections.ends[batch])
    return UnreadableMessage(number, magic, False, content.sections.buf[position:end].tobytes())


def mask_truncated_messages(content: DecodedBatches) -> Flags:
    """Return which messages of a lenient index have a key or value that exceeds the message."""
    result: Flags = content.index.value_at == content.index.headers_at
    return result


def read_unreadable_inner_message(content: DecodedBatches, batch: int, number: int) -> UnreadableMessage:
    """Return a message in a compressed set, by its number, for which ``mask_truncated_messages`` is true."""
    return _read_inner_message(content, batch, number, int(content.index.headers_at[content.starts[batch] + number]))


def _read_inner_message(content: DecodedBatches, batch: int, number: int, position: int) -> UnreadableMessage:
    """Read a message in a compressed set.

    The CRC is at ``position``, and the message's size is directly before the CRC.
    """
    buf = content.sections.buf
    end = position + int.from_bytes(buf[position - 4 : position].tobytes(), "big")
    return UnreadableMessage(number, int(content.batches.column("magic")[batch]), True, buf[position:end].tobytes())


def make_damage_error(content: DecodedBatches, batch: int) -> AppendRefusedError | None:
    """Return the error with which Kafka rejects a damaged batch when it reads all of it; None if it is not damaged."""
    problem = content.problem(batch)
    if problem is None:
        return None
    return make_batch_error(problem, batch=batch, exception=find_exception(content, batch, problem))


def find_exception(content: DecodedBatches, batch: int, problem: BatchProblem) -> str | None:
    """Return the exception that Kafka throws for a damaged batch; None if the problem's status determines it."""
    result = find_unreadable_message(content, batch)
    if result is not None:
        return result.read_error
    if problem.status == NESTED:
        codec = int(content.sections.buf[content.index.wheres[batch] + _ATTRIBUTES_POSITION]) & CODEC_MASK
        return None if codec in CODECS or not codec else TOO_LONG
    if problem.status == UNREADABLE_FIELD:  # Kafka reads the value of a compressed message but not its key
        position, size, magic = (int(content.batches.column(name)[batch]) for name in ("position", "size", "magic"))
        return UnreadableMessage(
            0, magic, False, content.data[position + OVERHEAD_BYTES : position + size].tobytes()
        ).value_read_error
    return None


# ---------------------------------------------------------------------------------------------------------------------

_INVALID_TIMESTAMP_REASON = (
    "the timestamp is too far from the broker's clock, or its type is one that only brokers may set"
)
_MISSING_KEY_REASON = "the record has no key; a compacted topic requires one"


class BatchCheck(NamedTuple):
    """A check of batches: the reason to report, the function that finds invalid batches, and Kafka's exception."""

    reason: str
    find_faults: Callable[[DecodedBatches, AppendSettings], Flags]
    exception: str = "InvalidRecordException"


def _is_client(content: DecodedBatches, settings: AppendSettings) -> Flags:
    return np.full(len(content.batches), settings.origin == "CLIENT")


def _must_be_contiguous(content: DecodedBatches, settings: AppendSettings) -> Flags:
    """Return whether holes between the offsets are invalid.

    A mirror may send records with holes between their offsets.
    """
    if settings.on_noncontiguous == AS_KAFKA:
        return _is_client(content, settings)
    return np.full(len(content.batches), settings.on_noncontiguous == REJECT)


def _get_min_records(settings: AppendSettings) -> int:
    """Return the smallest record count of a batch: 1, or 0 with ``keep``, because compaction leaves empty batches."""
    return 0 if settings.on_noncontiguous == KEEP else 1


def _offsets_in_range(content: DecodedBatches) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return content.batches.column("last_offset") - content.batches.column("base_offset") + 1


def _is_v2(content: DecodedBatches) -> Flags:
    return content.batches.is_v2


def _has_producer(content: DecodedBatches) -> Flags:
    return content.batches.column("producer_id") > NO_PRODUCER_ID


_UNSUPPORTED_FORMAT_EXCEPTION = "UnsupportedForMessageFormatException"
BATCH_CHECKS = (
    BatchCheck(
        "its format differs from that of the first batch",
        lambda d, s: d.batches.column("magic") != d.batches.column("magic")[0],
    ),
    BatchCheck("its offset range is empty", lambda d, s: _is_client(d, s) & _is_v2(d) & (_offsets_in_range(d) <= 0)),
    BatchCheck(
        "its record count is not positive",
        lambda d, s: _is_client(d, s) & _is_v2(d) & (d.batches.column("count") < _get_min_records(s)),
    ),
    BatchCheck(
        "its record count does not match its offset range",
        lambda d, s: _must_be_contiguous(d, s) & _is_v2(d) & (_offsets_in_range(d) != d.batches.column("count")),
    ),
    BatchCheck("clients may not write control records", lambda d, s: _is_client(d, s) & d.batches.is_control),
    BatchCheck(
        "it has a producer id but no sequence number",
        lambda d, s: _is_client(d, s) & _has_producer(d) & (d.batches.column("base_sequence") < 0),
    ),
    BatchCheck(
        "transactional records require format 2",
        lambda d, s: d.batches.is_transactional & (s.record_format < 2),
        _UNSUPPORTED_FORMAT_EXCEPTION,
    ),
    BatchCheck(
        "idempotent records require format 2",
        lambda d, s: _has_producer(d) & (s.record_format < 2),
        _UNSUPPORTED_FORMAT_EXCEPTION,
    ),
)


def check_batches(content: DecodedBatches, settings: AppendSettings) -> None:
    """Check every batch and every record.

    Raises:
        AppendRefusedError: a batch is invalid; the error describes the first invalid one.
    """
    batch_faults = [rule.find_faults(content, settings) for rule in BATCH_CHECKS]
    record_faults = (
        find_inner_crc_faults(content),
        mask_truncated_messages(content),
        *_find_record_faults(content, settings),
    )
    is_invalid = np.logical_or.reduce(batch_faults)
    is_invalid[content.owners[np.logical_or.reduce(record_faults)]] = True
    is_invalid[(content.index.statuses != 0) | np.isin(np.arange(len(is_invalid)), list(content.sections.problems))] = (
        True
    )
    for batch in np.flatnonzero(is_invalid).tolist():
        for rule, faults in zip(BATCH_CHECKS, batch_faults, strict=True):
            if faults[batch]:
                raise AppendRefusedError(rule.exception, f"batch {batch}: {rule.reason}")
        _check_records(content, settings, batch, record_faults)


def _check_records(
    content: DecodedBatches, settings: AppendSettings, batch: int, record_faults: tuple[Flags, ...]
) -> None:
    """Like Kafka, raise an error for the first wrong inner CRC, or else for damage, or else for all invalid records."""
    part = slice(int(content.starts[batch]), int(content.starts[batch + 1]))
    bad_crc, beyond_end, magic_fault, key_fault, time_fault = (faults[part] for faults in record_faults)
    wrong_crc = bad_crc & ~magic_fault
    wrong_type = time_fault & ~key_fault & ~_mask_compared_with_clock(content.index.timestamps[part], settings)
    needs_message = beyond_end & (magic_fault | settings.is_compacted | wrong_type)
    for number in np.flatnonzero(wrong_crc | needs_message).tolist():
        if wrong_crc[number]:
            raise AppendRefusedError("CorruptRecordException", f"batch {batch}: record {number} has a wrong CRC")
        message = read_unreadable_inner_message(content, batch, number)
        _check_unreadable(message, batch, settings, wrong_type=bool(wrong_type[number]))
    problem, last = content.problem(batch), find_unreadable_message(content, batch)
    if problem is not None and last is None:
        raise make_batch_error(problem, batch=batch, exception=find_exception(content, batch, problem))
    errors = []
    for number in np.flatnonzero(magic_fault | key_fault | time_fault).tolist():
        if magic_fault[number]:
            errors.append(RecordRefusal(number, ErrorCode.INVALID_RECORD, "its format differs from that of its set"))
        elif key_fault[number]:
            errors.append(RecordRefusal(number, ErrorCode.INVALID_RECORD, _MISSING_KEY_REASON))
        else:
            errors.append(RecordRefusal(number, ErrorCode.INVALID_TIMESTAMP, _INVALID_TIMESTAMP_REASON))
    if last is not None:
        errors += _find_unreadable_errors(content, settings, batch, last)
    if errors:
        raise record_errors(tuple(errors))


def _find_unreadable_errors(
    content: DecodedBatches, settings: AppendSettings, batch: int, last: UnreadableMessage
) -> list[RecordRefusal]:
    """Check the truncated message at which the index of a batch ends, in Kafka's order: format, CRC, key, timestamp."""
    without_key = settings.is_compacted and last.key_size is not None and last.key_size < 0
    timestamp = content.batches.column("max_timestamp")[batch : batch + 1]
    late = _find_timestamp_faults(timestamp, content.batches.mask_flag(LOG_APPEND_TIME)[batch : batch + 1], settings)[0]
    late = late and not last.in_set
    wrong_type = late and not without_key and not _mask_compared_with_clock(timestamp, settings)[0]
    _check_unreadable(last, batch, settings, wrong_type=wrong_type)
    if without_key:
        return [RecordRefusal(last.number, ErrorCode.INVALID_RECORD, _MISSING_KEY_REASON)]
    return [RecordRefusal(last.number, ErrorCode.INVALID_TIMESTAMP, _INVALID_TIMESTAMP_REASON)] if late else []


def _check_unreadable(record: UnreadableMessage, batch: int, settings: AppendSettings, *, wrong_type: bool) -> None:
    """Reject the whole batch for a truncated message if Kafka does.

    Args:
        wrong_type: whether the message's timestamp type is invalid. The text of Kafka's error includes the message.
    """
    # Kafka's error text includes the message, so Kafka reads it and fails.
    if record.message[_MAGIC_POSITION] != record.magic:
        raise AppendRefusedError(record.read_error, f"batch {batch}: record {record.number} is truncated")
    if record.in_set and not is_message_crc_valid(record.message):
        raise AppendRefusedError("CorruptRecordException", f"batch {batch}: record {record.number} has a wrong CRC")
    if settings.is_compacted and record.key_size is None:
        raise AppendRefusedError(record.read_error, f"batch {batch}: record {record.number} ends before its key")
    if wrong_type:
        raise AppendRefusedError(record.read_error, f"batch {batch}: record {record.number} is truncated")


def _mask_compressed_set_records(content: DecodedBatches) -> Flags:
    """Return which records are in a compressed message set (formats 0 and 1)."""
    flags: Flags = content.batches.is_wrapper[content.owners]
    return flags


def find_inner_crc_faults(content: DecodedBatches) -> Flags:
    """Return which inner messages have a wrong CRC."""
    faults = np.zeros(len(content.owners), np.bool_)
    inner = np.flatnonzero(_mask_compressed_set_records(content))
    faults[inner] = check_message_crcs(content.sections.buf, content.index.headers_at[inner]) == 0
    return faults


def _find_record_faults(content: DecodedBatches, settings: AppendSettings) -> tuple[Flags, ...]:
    """Return three masks of records: wrong format within their set, missing required key, invalid timestamp."""
    index, batches, owners = content.index, content.batches, content.owners
    magic_fault = np.zeros(len(owners), np.bool_)
    inner = _mask_compressed_set_records(content)
    magics = content.sections.buf[index.headers_at[inner] + _MAGIC_POSITION].astype(np.int8)
    magic_fault[inner] = magics != batches.column("magic")[owners[inner]]
    key_fault = (index.key_size < 0) & (index.key_at != index.headers_at) & settings.is_compacted
    is_append_time: Flags = content.batches.mask_flag(LOG_APPEND_TIME)[owners]
    return magic_fault, key_fault, _find_timestamp_faults(index.timestamps, is_append_time, settings)


def _find_timestamp_faults(timestamps: Ints, is_append_time: Flags, settings: AppendSettings) -> Flags:
    """Return which timestamps are too far from the clock, or have type LogAppendTime, which producers may not set."""
    uses_clock = _mask_compared_with_clock(timestamps, settings)
    with np.errstate(over="ignore"):
        age = np.int64(settings.now_ms) - timestamps  # overflows like Java's long
        late = (age > settings.before_max_ms) | (-age > settings.after_max_ms)
    flags: Flags = np.where(uses_clock, late, is_append_time)
    return flags


def _mask_compared_with_clock(timestamps: Ints, settings: AppendSettings) -> Flags:
    """Return which timestamps are compared with the clock. Only the type of other timestamps is checked."""
    flags: Flags = np.full(len(timestamps), not settings.append_time) & (timestamps != NO_TIMESTAMP)
    return flags
