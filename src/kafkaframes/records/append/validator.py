"""Validate records and assign offsets as Kafka's LogValidator does: in place wherever KIP-31 lets it.

Which path is taken (source codec and format against the target's):

====================  ==========================  ==============================================================
source -> target      formats                     path
====================  ==========================  ==============================================================
none -> none          equal                       in place: offsets, leader epoch; the CRC only for a timestamp
none -> none          differ                      rebuilt, uncompressed
X -> X                equal, 1 or 2, contiguous   in place: decompressed to be checked, never compressed again
X -> X                1, offsets not 0, 1, 2 ...  rebuilt
X -> X                2, offsets not 0, 1, 2 ...  refused (Kafka fails there: its iterator skipped the keys)
X -> X                0                           rebuilt: inner offsets are absolute, the cost that KIP-31 removed
any other             any                         rebuilt with the target's codec
====================  ==========================  ==============================================================

A control batch into a compressed topic stays uncompressed, in place.

``reassign`` and ``reject`` look for holes between the first and the last offset that a header names: a batch of format
2 that compaction has cut at its end has one there, with offsets 0, 1, 2, ... inside, and in place its base offset would
lie below the log's end. What has none is numbered from its base offset on, whatever that is.

Kafka reads and writes the names of headers as text, so a rebuilt batch has U+FFFD where a name is not UTF-8; a batch
that stays in place keeps its bytes.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import AppendRefusedError, OptionError
from kafkaframes.records._delivery import is_over_limit
from kafkaframes.records.append.checks import beyond_their_end, check, refused_for_damage
from kafkaframes.records.append.headers import (
    set_leader_epoch,
    set_max_timestamp,
    set_offsets,
    source_codec,
    valid_batches,
)
from kafkaframes.records.append.settings import KEEP, REASSIGN, REJECT, Appended, AppendSettings, refusal_of_content
from kafkaframes.records.build import build_batch
from kafkaframes.records.codecs import Codec
from kafkaframes.records.decode import decode
from kafkaframes.records.decoded import Decoded
from kafkaframes.records.fields import CREATE_TIME, LOG_APPEND_TIME, NO_PRODUCER_ID, NO_TIMESTAMP, BatchFields
from kafkaframes.records.limits import CONTENT, open_content
from kafkaframes.records.makers import rows_of_index, with_names_as_text
from kafkaframes.records.scan import Batches, as_array, scan_all


def validate_closely(records: bytes | bytearray | memoryview, offset: int, settings: AppendSettings) -> Appended:
    """Validate and assign by the general path, whatever the records are; see ``entry.validate_and_assign``."""
    data = as_array(records)
    batches, valid = valid_batches(data)
    try:
        _check_sizes(batches, settings)
        appended = _assign(_Append(data[:valid], batches, offset, settings))
        if not appended.in_place:
            _check_sizes(scan_all(appended.records), settings)
        return appended
    except AppendRefusedError as error:
        error.valid_bytes = valid
        raise


class _Append(NamedTuple):
    """What every path needs."""

    data: np.ndarray[tuple[int], np.dtype[np.uint8]]
    batches: Batches
    offset: int
    settings: AppendSettings

    @property
    def magic(self) -> int:
        """The format of the first batch, which must be that of all."""
        return int(self.batches.column("magic")[0])


def _check_sizes(batches: Batches, settings: AppendSettings) -> None:
    limit = settings.max_batch_bytes
    if limit is None:
        return
    large = np.flatnonzero(batches.column("size") > limit)
    if len(large):
        size = int(batches.column("size")[large[0]])
        raise AppendRefusedError("RecordTooLargeException", f"batch {large[0]}: {size} bytes, {limit} are allowed")


def _assign(append: _Append) -> Appended:
    source = source_codec(append.batches)
    target = append.settings.target_codec(source)
    if append.settings.on_noncontiguous == KEEP:
        return _keep(append)
    if source is Codec.NONE and target is Codec.NONE:
        if (append.batches.column("magic") == append.settings.record_format).all():
            return _assign_plain(append)
        return _convert_plain(append)
    return _assign_compressed(append, source, target)


def _decoded(append: _Append, *, lenient: bool = False) -> Decoded:
    """Open and index the batches, unless their content is too large."""
    most, budget = append.settings.most_content_bytes, CONTENT.get()
    if budget is not None and budget.is_spent:
        raise refusal_of_content(budget.most_bytes)
    work = partial(decode, append.data, append.batches, limit_bytes=most, total_bytes=most, lenient=lenient)
    is_plain = source_codec(append.batches) is Codec.NONE
    decoded = open_content(f"records {lenient}", 0 if is_plain else len(append.data), work)
    if budget is not None and not is_plain:
        budget.spent_bytes += len(decoded.sections.buf)
    if any(is_over_limit(problem.detail) for problem in decoded.sections.problems.values()):
        raise refusal_of_content(most)
    return decoded


# ------------------------------------------------------------------------------------------- nothing compressed


def _assign_plain(append: _Append) -> Appended:
    _first_batch_alone(append, Codec.NONE)
    decoded = _decoded(append)
    check(decoded, append.settings)
    if append.settings.on_noncontiguous in (REASSIGN, REJECT) and append.magic >= 2 and _has_holes(decoded):
        _refuse_holes(append.settings)
        _ensure_whole(decoded)
        return _rebuilt(append, decoded, Codec.NONE)
    counts = _counts(decoded)
    last_offsets = append.offset + np.cumsum(counts) - 1
    largest = _largest_per_batch(decoded)
    return _patched(append, last_offsets, largest, int(append.offset + counts.sum()))


def _has_holes(decoded: Decoded) -> bool:
    """Tell whether offsets are missing in the one batch, also before its first record or after its last."""
    base, last = (int(decoded.batches.column(name)[0]) for name in ("base_offset", "last_offset"))
    return not np.array_equal(decoded.index.offsets, np.arange(base, last + 1))


def _counts(decoded: Decoded) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return how many records Kafka's iterator hands out for each batch, unreadable ones included."""
    counts = decoded.index.rows.copy()
    for batch in np.flatnonzero(decoded.index.statuses).tolist():
        counts[batch] += decoded.unreadable(batch)
    return counts


def _largest_per_batch(decoded: Decoded) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    largest = np.full(len(decoded.batches), NO_TIMESTAMP, np.int64)
    np.maximum.at(largest, decoded.owners, decoded.index.timestamps)
    old = ~decoded.batches.is_v2
    largest[old] = np.maximum(decoded.batches.column("max_timestamp")[old], NO_TIMESTAMP)
    return largest


def _patched(
    append: _Append,
    last_offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
    largest: np.ndarray[tuple[int], np.dtype[np.int64]],
    next_offset: int,
) -> Appended:
    """Write header fields over a copy of the batches; ``largest`` is each one's largest timestamp.

    Which fields the log's format decides, not that of the batches: a control batch is kept whatever it is.
    """
    settings, batches = append.settings, append.batches
    out = bytearray(append.data)
    set_offsets(out, batches, last_offsets)
    max_timestamp = NO_TIMESTAMP
    if settings.record_format >= 1:
        largest = np.full_like(largest, settings.now_ms) if settings.append_time else largest
        max_timestamp = int(largest.max(initial=NO_TIMESTAMP))
        for row, timestamp in enumerate(largest.tolist()):
            set_max_timestamp(out, batches, row, settings.append_time, timestamp)
    elif append.magic >= 2 and settings.append_time:
        max_timestamp = settings.now_ms
    if settings.record_format >= 2:
        set_leader_epoch(out, batches, settings.leader_epoch)
    size = len(out)
    return Appended(bytes(out), next_offset, True, max_timestamp, 0, settings.now_ms, size, 0, size)


def _convert_plain(append: _Append) -> Appended:
    decoded = _decoded(append)
    _ensure_whole(decoded)  # Kafka estimates the size of the result first, reading everything
    _first_batch_alone(append, Codec.NONE)
    _check_target(append, Codec.NONE)
    try:
        check(decoded, append.settings)
    except AppendRefusedError as refused:
        if refused.record_errors:  # they are collected until the end, but what is before the first is written at once
            _check_rows(append, decoded, refused.record_errors[0].batch_index)
        raise
    return _rebuilt(append, decoded, Codec.NONE)


# ------------------------------------------------------------------------------------------- a codec somewhere


def _assign_compressed(append: _Append, source: Codec, target: Codec) -> Appended:
    settings = append.settings
    _first_batch_alone(append, source)
    in_place = source is target and append.magic == settings.record_format and settings.record_format >= 1
    is_control = bool(append.batches.is_control[0])
    in_place = in_place or (source is Codec.NONE and is_control)
    lenient = (in_place or append.magic < 2) and source is not Codec.NONE  # keys and values are not looked at yet
    decoded = _decoded(append, lenient=lenient)
    check(decoded, settings)
    is_contiguous = _contiguous(append, decoded)
    if in_place and is_contiguous:
        counts = _counts(decoded)
        next_offset = int(append.offset + counts.sum())
        largest = np.array([decoded.index.timestamps.max(initial=NO_TIMESTAMP)], np.int64)
        return _patched(append, np.array([next_offset - 1], np.int64), largest, next_offset)
    if in_place:
        _refuse_holes(settings)
    if in_place and append.magic >= 2 and source is not Codec.NONE:
        if settings.on_noncontiguous != REASSIGN:
            raise AppendRefusedError(
                "UnsupportedOperationException", "the offsets inside a compressed batch are not 0, 1, 2, ..."
            )
        decoded = _decoded(append)
    elif beyond_their_end(decoded).any():
        decoded = _decoded(append)
    _ensure_whole(decoded)
    _check_target(append, target)
    return _rebuilt(append, decoded, target)


def _refuse_holes(settings: AppendSettings) -> None:
    if settings.on_noncontiguous == REJECT:
        reason = "the offsets inside the set are not 0, 1, 2, ..., and on_noncontiguous is 'reject'"
        raise AppendRefusedError("InvalidRecordException", reason)


def _contiguous(append: _Append, decoded: Decoded) -> bool:
    """Tell whether the offsets in the one batch or compressed set are 0, 1, 2, ...: in format 0 they are not looked at.

    Kafka takes them with the base offset that was sent, and does not look behind the last record.
    """
    settings, offsets = append.settings, decoded.index.offsets
    if append.magic >= 2 and settings.on_noncontiguous in (REASSIGN, REJECT):
        return not _has_holes(decoded)
    return settings.record_format == 0 or bool((offsets == np.arange(len(offsets))).all())


def _keep(append: _Append) -> Appended:
    """Take the batches with the offsets that they have, which must increase and not lie below the log's end."""
    decoded = _decoded(append)
    check(decoded, append.settings)
    if append.magic != append.settings.record_format or append.settings.codec != "producer":
        raise OptionError("on_noncontiguous='keep' copies batches: it needs their format, and codec='producer'")
    last = append.batches.column("last_offset")
    first, largest = append.batches.column("base_offset").copy(), _largest_per_batch(decoded)
    filled = decoded.index.rows > 0  # compaction leaves batches without records, which keep what their headers say
    first[filled] = decoded.index.offsets[decoded.starts[:-1][filled]]
    largest[~filled] = append.batches.column("max_timestamp")[~filled]
    before = np.concatenate(([append.offset - 1], last[:-1]))
    if (first <= before).any():
        row = int(np.flatnonzero(first <= before)[0])
        raise AppendRefusedError(
            "InvalidRecordException",
            f"batch {row}: offset {first[row]} follows offset {before[row]}: offsets must increase",
        )
    return _patched(append, last, largest, int(last[-1]) + 1)


# --------------------------------------------------------------------------------------------------- rebuilding


def _first_batch_alone(append: _Append, source: Codec) -> None:
    """Format 2, and anything compressed, comes one batch at a time."""
    if (append.magic >= 2 or source is not Codec.NONE) and len(append.batches) > 1:
        raise AppendRefusedError("InvalidRecordException", f"{len(append.batches)} batches where one is allowed")


def _ensure_whole(decoded: Decoded) -> None:
    for batch in range(len(decoded.batches)):
        refused = refused_for_damage(decoded, batch)
        if refused is not None:
            raise refused


def _check_target(append: _Append, target: Codec) -> None:
    """Refuse what Kafka's builder of a batch refuses (``MemoryRecordsBuilder``)."""
    settings, batches = append.settings, append.batches
    if settings.record_format < 2:
        if batches.is_transactional[0]:
            raise AppendRefusedError("IllegalArgumentException", "transactional records need format 2")
        if target is Codec.ZSTD:
            raise AppendRefusedError("IllegalArgumentException", "zstd needs format 2")


def _rebuilt(append: _Append, decoded: Decoded, target: Codec) -> Appended:
    settings, batches = append.settings, append.batches
    count = len(decoded.index.offsets)
    fields = _fields(append)
    if not count:
        _check_producer(append)
        if settings.append_time and (settings.record_format >= 2 or target is not Codec.NONE):
            raise AppendRefusedError("NullPointerException", "no record is left: Kafka fails here on LogAppendTime")
        largest = settings.now_ms if settings.append_time else NO_TIMESTAMP
        return Appended(b"", append.offset, False, largest, 0, settings.now_ms, len(append.data), 0, 0)
    offsets = np.arange(append.offset, append.offset + count, dtype=np.int64)
    _check_rows(append, decoded)
    _check_producer(append)
    old = settings.record_format < 2
    timestamps = np.full(count, settings.now_ms, np.int64) if old and settings.append_time else None
    rows = rows_of_index(decoded.sections, decoded.index, offsets=offsets, timestamps=timestamps, headers=not old)
    rows = with_names_as_text(rows)
    largest = settings.now_ms if settings.append_time else int(decoded.index.timestamps.max(initial=NO_TIMESTAMP))
    built = build_batch(rows, record_format=settings.record_format, codec=target, level=settings.level, fields=fields)
    if settings.record_format == 0 and not settings.append_time:
        largest = NO_TIMESTAMP
    recompressed = 0 if target is Codec.NONE else _uncompressed_size(batches, decoded)
    return Appended(
        built, append.offset + count, False, largest, count, settings.now_ms, len(append.data), recompressed, 0
    )


def _uncompressed_size(batches: Batches, decoded: Decoded) -> int:
    """Return the bytes that held the records; of messages in a row, the messages whole."""
    inside = decoded.sections.ends - decoded.sections.starts
    in_a_row = ~batches.is_v2 & (batches.codecs == 0)
    return int(np.where(in_a_row, batches.column("size"), inside).sum())


def _fields(append: _Append) -> BatchFields:
    settings, batches = append.settings, append.batches
    kind = LOG_APPEND_TIME if settings.append_time and settings.record_format > 0 else CREATE_TIME
    largest = settings.now_ms if settings.append_time and settings.record_format > 0 else None
    if settings.record_format < 2:
        return BatchFields(timestamp_type=kind, max_timestamp=largest)
    producer_id, producer_epoch, base_sequence = (
        int(batches.column(name)[0]) for name in ("producer_id", "producer_epoch", "base_sequence")
    )
    return BatchFields(
        timestamp_type=kind,
        leader_epoch=settings.leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=bool(batches.is_transactional[0]),
        max_timestamp=largest,
        base_offset=append.offset,
    )


def _check_rows(append: _Append, decoded: Decoded, stop: int | None = None) -> None:
    """Refuse what Kafka's builder of a batch refuses about a record; those from ``stop`` on are not written."""
    if (decoded.index.timestamps[:stop] < NO_TIMESTAMP).any():
        raise AppendRefusedError("IllegalArgumentException", "a timestamp is below -1")
    if append.settings.record_format < 2 and decoded.index.header_counts[:stop].any():
        raise AppendRefusedError("IllegalArgumentException", f"format {append.settings.record_format} has no headers")


def _check_producer(append: _Append) -> None:
    """Refuse what Kafka's builder refuses when it writes the header (``validateProducerState``)."""
    fields = _fields(append)
    if append.settings.record_format < 2:
        return
    if fields.transactional and fields.producer_id == NO_PRODUCER_ID:
        raise AppendRefusedError("IllegalArgumentException", "transactional records need a producer id")
    if fields.producer_id != NO_PRODUCER_ID and (fields.producer_epoch == -1 or fields.base_sequence < 0):
        raise AppendRefusedError("IllegalArgumentException", "a producer id needs an epoch and a sequence")
