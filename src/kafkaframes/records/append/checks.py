"""The checks of Kafka's LogValidator, each at its place: batch by batch, and in a batch record by record.

Everything is computed for all batches and records at once; only the first batch at fault is then looked at closely,
because Kafka stops there. ``LogValidator.validateBatch``, ``validateRecord``, ``validateTimestamp``, ``validateKey``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import AppendRefusedError, ErrorCode, RecordRefusal
from kafkaframes.records.append.settings import (
    AS_KAFKA,
    KEEP,
    REJECT,
    AppendSettings,
    refusal_of_problem,
    refusal_of_records,
)
from kafkaframes.records.batch import message_crc_fits
from kafkaframes.records.codecs import CODECS
from kafkaframes.records.decoded import Decoded, Problem
from kafkaframes.records.fields import NO_PRODUCER_ID, NO_TIMESTAMP
from kafkaframes.records.layout import CODEC_MASK, LOG_APPEND_TIME, MESSAGE_V0, MESSAGE_V1, OVERHEAD_BYTES
from kafkaframes.records.reasons import NESTED, UNREADABLE_FIELD
from kafkaframes.records.scan import Flags, Ints, check_message_crcs

# ---------------------------------------------------------------------------------------------------------------------
# A message of format 0 or 1 whose key or value runs beyond it: what Kafka finds wrong with it, and when.
#
# Kafka's iterators hand such a message out; only who asks for its key or value fails. The index of records ends before
# it, or has nulls for what cannot be read (a lenient one), so what is checked of it is read here, from its bytes.

BEYOND, TOO_LONG = "IndexOutOfBoundsException", "IllegalArgumentException"
_MAGIC = MESSAGE_V0.position_of("magic") - OVERHEAD_BYTES
_ATTRIBUTES = MESSAGE_V0.position_of("attributes")
_KEY_V0, _KEY_V1 = MESSAGE_V0.size - OVERHEAD_BYTES, MESSAGE_V1.size - OVERHEAD_BYTES


class Unreadable(NamedTuple):
    """One such message.

    Attributes:
        number: its place in its batch.
        magic: the format of its batch, which its own may not be.
        in_set: it lies in a compressed set.
        message: its bytes from the CRC on.
    """

    number: int
    magic: int
    in_set: bool
    message: bytes

    @property
    def _key_at(self) -> int:
        return _KEY_V1 if self.message[_MAGIC] else _KEY_V0

    @property
    def key_size(self) -> int | None:
        """The size that is written for the key; ``None`` where the message ends before it."""
        return self._size_at(self._key_at)

    @property
    def failure(self) -> str:
        """The exception that reading the key, and then the value, ends in."""
        at = self._key_at
        for _ in ("key", "value"):
            size = self._size_at(at)
            if size is None:
                return BEYOND
            at += 4 + max(size, 0)
            if at > len(self.message):
                return TOO_LONG
        return TOO_LONG

    @property
    def value_failure(self) -> str:
        """The exception that reading the value alone ends in."""
        at = self._key_at
        key_size = self._size_at(at)
        return BEYOND if key_size is None or self._size_at(at + 4 + max(key_size, 0)) is None else TOO_LONG

    def _size_at(self, at: int) -> int | None:
        return int.from_bytes(self.message[at : at + 4], "big", signed=True) if at + 4 <= len(self.message) else None


def unreadable_of(decoded: Decoded, batch: int) -> Unreadable | None:
    """Return the message at which the index of a batch ends because it cannot be read, if that is why."""
    if not decoded.unreadable(batch):
        return None
    at, number = int(decoded.index.wheres[batch]), int(decoded.index.rows[batch])
    if decoded.batches.is_wrapper[batch]:
        return _in_set(decoded, batch, number, at + OVERHEAD_BYTES)
    magic, end = int(decoded.batches.column("magic")[batch]), int(decoded.sections.ends[batch])
    return Unreadable(number, magic, False, decoded.sections.buf[at:end].tobytes())


def beyond_their_end(decoded: Decoded) -> Flags:
    """Return which messages of a lenient index have a key or value that runs beyond them: no place but their CRC's."""
    result: Flags = decoded.index.value_at == decoded.index.headers_at
    return result


def unreadable_at(decoded: Decoded, batch: int, number: int) -> Unreadable:
    """Return a message of a compressed set by its number in the set, for which ``beyond_their_end`` is true."""
    return _in_set(decoded, batch, number, int(decoded.index.headers_at[decoded.starts[batch] + number]))


def _in_set(decoded: Decoded, batch: int, number: int, at: int) -> Unreadable:
    """Read a message inside a compressed one; its CRC stands at ``at``, its size before that."""
    buf = decoded.sections.buf
    end = at + int.from_bytes(buf[at - 4 : at].tobytes(), "big")
    return Unreadable(number, int(decoded.batches.column("magic")[batch]), True, buf[at:end].tobytes())


def refused_for_damage(decoded: Decoded, batch: int) -> AppendRefusedError | None:
    """Return how Kafka refuses a batch when it reads all of it; ``None`` for a whole one."""
    problem = decoded.problem(batch)
    if problem is None:
        return None
    return refusal_of_problem(problem, batch=batch, exception=exception_of(decoded, batch, problem))


def exception_of(decoded: Decoded, batch: int, problem: Problem) -> str | None:
    """Return what Kafka throws where that depends on the bytes; ``None`` where the problem says it (``refusal``)."""
    result = unreadable_of(decoded, batch)
    if result is not None:
        return result.failure
    if problem.status == NESTED:
        codec = int(decoded.sections.buf[decoded.index.wheres[batch] + _ATTRIBUTES]) & CODEC_MASK
        return None if codec in CODECS or not codec else TOO_LONG
    if problem.status == UNREADABLE_FIELD:  # the value of a compressed message; its key is ignored
        at, size, magic = (int(decoded.batches.column(name)[batch]) for name in ("position", "size", "magic"))
        return Unreadable(0, magic, False, decoded.data[at + OVERHEAD_BYTES : at + size].tobytes()).value_failure
    return None


# ---------------------------------------------------------------------------------------------------------------------

_TIMESTAMP_REASON = "its timestamp is too far from the broker's clock, or of a type that only a broker may set"
_KEY_REASON = "a compacted topic needs a key"


class BatchCheck(NamedTuple):
    """One rule about a batch: the reason, where it is broken, and what Kafka throws."""

    reason: str
    broken: Callable[[Decoded, AppendSettings], Flags]
    exception: str = "InvalidRecordException"


def _is_client(decoded: Decoded, settings: AppendSettings) -> Flags:
    return np.full(len(decoded.batches), settings.origin == "CLIENT")


def _may_not_have_holes(decoded: Decoded, settings: AppendSettings) -> Flags:
    """Tell whether the sender may not leave holes in the offsets, as mirrors may."""
    if settings.on_noncontiguous == AS_KAFKA:
        return _is_client(decoded, settings)
    return np.full(len(decoded.batches), settings.on_noncontiguous == REJECT)


def _fewest_records(settings: AppendSettings) -> int:
    """Return the least number of records: 1, but 0 where offsets are kept, for compaction leaves empty batches."""
    return 0 if settings.on_noncontiguous == KEEP else 1


def _offsets_in_range(decoded: Decoded) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return decoded.batches.column("last_offset") - decoded.batches.column("base_offset") + 1


def _is_v2(decoded: Decoded) -> Flags:
    return decoded.batches.is_v2


def _has_producer(decoded: Decoded) -> Flags:
    return decoded.batches.column("producer_id") > NO_PRODUCER_ID


_FORMAT = "UnsupportedForMessageFormatException"
BATCH_CHECKS = (
    BatchCheck(
        "its format is not that of the first batch",
        lambda d, s: d.batches.column("magic") != d.batches.column("magic")[0],
    ),
    BatchCheck(
        "its range of offsets is empty", lambda d, s: _is_client(d, s) & _is_v2(d) & (_offsets_in_range(d) <= 0)
    ),
    BatchCheck(
        "its count of records is not positive",
        lambda d, s: _is_client(d, s) & _is_v2(d) & (d.batches.column("count") < _fewest_records(s)),
    ),
    BatchCheck(
        "its count of records is not that of its offsets",
        lambda d, s: _may_not_have_holes(d, s) & _is_v2(d) & (_offsets_in_range(d) != d.batches.column("count")),
    ),
    BatchCheck("clients may not write control records", lambda d, s: _is_client(d, s) & d.batches.is_control),
    BatchCheck(
        "it has a producer id and no sequence",
        lambda d, s: _is_client(d, s) & _has_producer(d) & (d.batches.column("base_sequence") < 0),
    ),
    BatchCheck(
        "transactional records need format 2",
        lambda d, s: d.batches.is_transactional & (s.record_format < 2),
        _FORMAT,
    ),
    BatchCheck("idempotent records need format 2", lambda d, s: _has_producer(d) & (s.record_format < 2), _FORMAT),
)


def check(decoded: Decoded, settings: AppendSettings) -> None:
    """Check every batch and every record.

    Raises:
        AppendRefusedError: for the first batch at fault.
    """
    batch_faults = [rule.broken(decoded, settings) for rule in BATCH_CHECKS]
    record_faults = (inner_crc_faults(decoded), beyond_their_end(decoded), *_record_faults(decoded, settings))
    at_fault = np.logical_or.reduce(batch_faults)
    at_fault[decoded.owners[np.logical_or.reduce(record_faults)]] = True
    at_fault[(decoded.index.statuses != 0) | np.isin(np.arange(len(at_fault)), list(decoded.sections.problems))] = True
    for batch in np.flatnonzero(at_fault).tolist():
        for rule, faults in zip(BATCH_CHECKS, batch_faults, strict=True):
            if faults[batch]:
                raise AppendRefusedError(rule.exception, f"batch {batch}: {rule.reason}")
        _check_records(decoded, settings, batch, record_faults)


def _check_records(decoded: Decoded, settings: AppendSettings, batch: int, record_faults: tuple[Flags, ...]) -> None:
    """Stop at an inner CRC, else at damage, else at the batch's records at fault, as Kafka's loop would."""
    part = slice(int(decoded.starts[batch]), int(decoded.starts[batch + 1]))
    bad_crc, beyond_end, magic_fault, key_fault, time_fault = (faults[part] for faults in record_faults)
    broken = bad_crc & ~magic_fault
    typed = time_fault & ~key_fault & ~_with_time(decoded.index.timestamps[part], settings)
    checked = beyond_end & (magic_fault | settings.compacted | typed)
    for number in np.flatnonzero(broken | checked).tolist():
        if broken[number]:
            raise AppendRefusedError("CorruptRecordException", f"batch {batch}: record {number} has a wrong CRC")
        _check_unreadable(unreadable_at(decoded, batch, number), batch, settings, typed=bool(typed[number]))
    problem, last = decoded.problem(batch), unreadable_of(decoded, batch)
    if problem is not None and last is None:
        raise refusal_of_problem(problem, batch=batch, exception=exception_of(decoded, batch, problem))
    errors = []
    for number in np.flatnonzero(magic_fault | key_fault | time_fault).tolist():
        if magic_fault[number]:
            errors.append(RecordRefusal(number, ErrorCode.INVALID_RECORD, "its format is not that of its set"))
        elif key_fault[number]:
            errors.append(RecordRefusal(number, ErrorCode.INVALID_RECORD, _KEY_REASON))
        else:
            errors.append(RecordRefusal(number, ErrorCode.INVALID_TIMESTAMP, _TIMESTAMP_REASON))
    if last is not None:
        errors += _unreadable_errors(decoded, settings, batch, last)
    if errors:
        raise refusal_of_records(tuple(errors))


def _unreadable_errors(decoded: Decoded, settings: AppendSettings, batch: int, last: Unreadable) -> list[RecordRefusal]:
    """Check the message at which the index of a batch ends, in Kafka's order: format, CRC, key, timestamp."""
    without_key = settings.compacted and last.key_size is not None and last.key_size < 0
    timestamp = decoded.batches.column("max_timestamp")[batch : batch + 1]
    late = _timestamp_faults(timestamp, decoded.batches.flag(LOG_APPEND_TIME)[batch : batch + 1], settings)[0]
    late = late and not last.in_set
    typed = late and not without_key and not _with_time(timestamp, settings)[0]
    _check_unreadable(last, batch, settings, typed=typed)
    if without_key:
        return [RecordRefusal(last.number, ErrorCode.INVALID_RECORD, _KEY_REASON)]
    return [RecordRefusal(last.number, ErrorCode.INVALID_TIMESTAMP, _TIMESTAMP_REASON)] if late else []


def _check_unreadable(record: Unreadable, batch: int, settings: AppendSettings, *, typed: bool) -> None:
    """Refuse the whole batch for a message that cannot be read, where Kafka does.

    ``typed``: the type of its timestamp is refused, which Kafka says with the message's text, too.
    """
    if record.message[_MAGIC] != record.magic:  # Kafka puts the message into its error's text, which reads it
        raise AppendRefusedError(record.failure, f"batch {batch}: record {record.number} cannot be read")
    if record.in_set and not message_crc_fits(record.message):
        raise AppendRefusedError("CorruptRecordException", f"batch {batch}: record {record.number} has a wrong CRC")
    if settings.compacted and record.key_size is None:
        raise AppendRefusedError(record.failure, f"batch {batch}: record {record.number} ends before its key")
    if typed:
        raise AppendRefusedError(record.failure, f"batch {batch}: record {record.number} cannot be read")


def _in_sets(decoded: Decoded) -> Flags:
    flags: Flags = decoded.batches.is_wrapper[decoded.owners]
    return flags


def inner_crc_faults(decoded: Decoded) -> Flags:
    """Return which inner messages have a CRC that is not that of their bytes."""
    faults = np.zeros(len(decoded.owners), np.bool_)
    inner = np.flatnonzero(_in_sets(decoded))
    faults[inner] = check_message_crcs(decoded.sections.buf, decoded.index.headers_at[inner]) == 0
    return faults


def _record_faults(decoded: Decoded, settings: AppendSettings) -> tuple[Flags, ...]:
    """Return which records have another format than their set, no key where one is needed, a wrong timestamp."""
    index, batches, owners = decoded.index, decoded.batches, decoded.owners
    magic_fault = np.zeros(len(owners), np.bool_)
    inner = _in_sets(decoded)
    magics = decoded.sections.buf[index.headers_at[inner] + _MAGIC].astype(np.int8)
    magic_fault[inner] = magics != batches.column("magic")[owners[inner]]
    key_fault = (index.key_size < 0) & (index.key_at != index.headers_at) & settings.compacted
    declared: Flags = decoded.batches.flag(LOG_APPEND_TIME)[owners]
    return magic_fault, key_fault, _timestamp_faults(index.timestamps, declared, settings)


def _timestamp_faults(timestamps: Ints, declared: Flags, settings: AppendSettings) -> Flags:
    """Tell which timestamps are too far from the clock, or declared to be the log's (``declared``) by a producer."""
    with_time = _with_time(timestamps, settings)
    with np.errstate(over="ignore"):
        age = np.int64(settings.now_ms) - timestamps  # wraps as Java's does
        late = (age > settings.before_max_ms) | (-age > settings.after_max_ms)
    flags: Flags = np.where(with_time, late, declared)
    return flags


def _with_time(timestamps: Ints, settings: AppendSettings) -> Flags:
    """Tell which timestamps are held against the clock; of the others only the type is."""
    flags: Flags = np.full(len(timestamps), not settings.append_time) & (timestamps != NO_TIMESTAMP)
    return flags
