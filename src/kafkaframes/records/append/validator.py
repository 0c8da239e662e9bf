"""Validate records and assign offsets as Kafka's LogValidator does: in place if KIP-31 allows it.

The way depends on the codec and format of the record set and of the log:

====================  ==========================  ==============================================================
source -> target      formats                     path
====================  ==========================  ==============================================================
none -> none          equal                       in place: offsets, leader epoch; the CRC only for a timestamp
none -> none          differ                      rebuilt, uncompressed
X -> X                equal, 1 or 2, contiguous   in place: decompressed for validation, never compressed again
X -> X                1, offsets not 0, 1, 2 ...  rebuilt
X -> X                2, offsets not 0, 1, 2 ...  rejected (Kafka fails here: its iterator skipped the keys)
X -> X                0                           rebuilt: inner offsets are absolute, the cost that KIP-31 removed
any other             any                         rebuilt with the target's codec
====================  ==========================  ==============================================================

A control batch for a compressed topic stays uncompressed, in place.

``reassign`` and ``reject`` look for holes between the first and the last offset of the header. If compaction removed
the last records of a format 2 batch, the inner offsets are still 0, 1, 2, ..., but there is a hole at the end. If its
offsets were assigned in place, the base offset would be below the log end offset. A batch without holes is renumbered
from its base offset, regardless of that offset.

Kafka reads and writes header keys as text, so a rebuilt batch has U+FFFD in place of bytes that are not UTF-8. A batch
that stays in place keeps its bytes.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import AppendRefusedError, OptionError
from kafkaframes.records._delivery import is_over_limit
from kafkaframes.records.append.checks import check_batches, make_damage_error, mask_truncated_messages
from kafkaframes.records.append.headers import (
    find_source_codec,
    scan_valid_batches,
    set_leader_epoch,
    set_max_timestamp,
    set_offsets,
)
from kafkaframes.records.append.results import ValidatedRecords, make_content_size_error
from kafkaframes.records.append.settings import KEEP, REASSIGN, REJECT, AppendSettings
from kafkaframes.records.build import build_batch
from kafkaframes.records.codecs import Codec
from kafkaframes.records.decode import decode_batches
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.fields import CREATE_TIME, LOG_APPEND_TIME, NO_PRODUCER_ID, NO_TIMESTAMP, BatchFields
from kafkaframes.records.limits import CONTENT_BUDGET, open_content
from kafkaframes.records.makers import decode_header_keys, make_rows_from_index
from kafkaframes.records.scan import BatchHeaders, as_array, scan_all


def validate_general(
    records: bytes | bytearray | memoryview, offset: int, settings: AppendSettings
) -> ValidatedRecords:
    """Validate and assign on the general path, which takes any records; see ``entry.validate_and_assign``."""
    data = as_array(records)
    batches, valid = scan_valid_batches(data)
    try:
        _check_sizes(batches, settings)
        result = _assign_offsets(_PendingAppend(data[:valid], batches, offset, settings))
        if not result.in_place:
            _check_sizes(scan_all(result.records), settings)
        return result
    except AppendRefusedError as error:
        error.valid_bytes = valid
        raise


class _PendingAppend(NamedTuple):
    """The input of an append: the batches, the first offset and the settings."""

    data: np.ndarray[tuple[int], np.dtype[np.uint8]]
    batches: BatchHeaders
    offset: int
    settings: AppendSettings

    @property
    def magic(self) -> int:
        """The format of the first batch. All batches must have the same format."""
        return int(self.batches.column("magic")[0])


def _check_sizes(batches: BatchHeaders, settings: AppendSettings) -> None:
    """Reject batches that exceed ``max.message.bytes``."""
    limit = settings.max_batch_bytes
    if limit is None:
        return
    large = np.flatnonzero(batches.column("size") > limit)
    if len(large):
        size = int(batches.column("size")[large[0]])
        reason = f"batch {large[0]} has {size} bytes; the limit (max.message.bytes) is {limit}"
        raise AppendRefusedError("RecordTooLargeException", reason)


def _assign_offsets(append: _PendingAppend) -> ValidatedRecords:
    """Assign offsets in the way that the codecs of the batches and of the log require."""
    source = find_source_codec(append.batches)
    target = append.settings.target_codec(source)
    if append.settings.on_noncontiguous == KEEP:
        return _append_with_own_offsets(append)
    if source is Codec.NONE and target is Codec.NONE:
        if (append.batches.column("magic") == append.settings.record_format).all():
            return _assign_uncompressed(append)
        return _convert_uncompressed(append)
    return _assign_compressed(append, source, target)


def _decode_batches(append: _PendingAppend, *, lenient: bool = False) -> DecodedBatches:
    """Decompress and index the batches; raise if their content is too large."""
    limit_bytes, budget = append.settings.max_content_bytes, CONTENT_BUDGET.get()
    if budget is not None and budget.is_spent:
        raise make_content_size_error(budget.max_bytes)
    work = partial(
        decode_batches, append.data, append.batches, limit_bytes=limit_bytes, total_bytes=limit_bytes, lenient=lenient
    )
    is_plain = find_source_codec(append.batches) is Codec.NONE
    content = open_content(f"records {lenient}", 0 if is_plain else len(append.data), work)
    if budget is not None and not is_plain:
        budget.spent_bytes += len(content.sections.buf)
    if any(is_over_limit(problem.detail) for problem in content.sections.problems.values()):
        raise make_content_size_error(limit_bytes)
    return content


# ------------------------------------------------------------------------------------------- uncompressed


def _assign_uncompressed(append: _PendingAppend) -> ValidatedRecords:
    """Validate uncompressed batches and assign their offsets in place, unless holes require a rebuild."""
    _require_single_batch(append, Codec.NONE)
    content = _decode_batches(append)
    check_batches(content, append.settings)
    if append.settings.on_noncontiguous in (REASSIGN, REJECT) and append.magic >= 2 and _has_holes(content):
        _reject_holes(append.settings)
        _require_undamaged(content)
        return _rebuild_batches(append, content, Codec.NONE)
    counts = _count_returned_records(content)
    last_offsets = append.offset + np.cumsum(counts) - 1
    largest = _find_max_timestamps(content)
    return _patch_headers(append, last_offsets, largest, int(append.offset + counts.sum()))


def _has_holes(content: DecodedBatches) -> bool:
    """Return whether offsets of the batch are missing, including those before its first and after its last record."""
    base, last = (int(content.batches.column(name)[0]) for name in ("base_offset", "last_offset"))
    return not np.array_equal(content.index.offsets, np.arange(base, last + 1))


def _count_returned_records(content: DecodedBatches) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return for each batch how many records Kafka's iterator returns, including unreadable ones."""
    counts = content.index.rows.copy()
    for batch in np.flatnonzero(content.index.statuses).tolist():
        counts[batch] += content.has_unreadable_field(batch)
    return counts


def _find_max_timestamps(content: DecodedBatches) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    largest = np.full(len(content.batches), NO_TIMESTAMP, np.int64)
    np.maximum.at(largest, content.owners, content.index.timestamps)
    old = ~content.batches.is_v2
    largest[old] = np.maximum(content.batches.column("max_timestamp")[old], NO_TIMESTAMP)
    return largest


def _patch_headers(
    append: _PendingAppend,
    last_offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
    largest: np.ndarray[tuple[int], np.dtype[np.int64]],
    next_offset: int,
) -> ValidatedRecords:
    """Overwrite header fields in a copy of the batches; ``largest`` contains the largest timestamp of each batch.

    The log's format, not the format of the batches, determines which fields are overwritten, because control batches
    stay in place in any format.
    """
    settings, batches = append.settings, append.batches
    out = bytearray(append.data)
    set_offsets(out, batches, last_offsets)
    max_timestamp = NO_TIMESTAMP
    if settings.record_format >= 1:
        largest = np.full_like(largest, settings.now_ms) if settings.append_time else largest
        max_timestamp = settings.now_ms if settings.append_time else int(largest.max(initial=NO_TIMESTAMP))
        for row, timestamp in enumerate(largest.tolist()):
            set_max_timestamp(out, batches, row, settings.append_time, timestamp)
    elif append.magic >= 2 and settings.append_time:
        max_timestamp = settings.now_ms
    if settings.record_format >= 2:
        set_leader_epoch(out, batches, settings.leader_epoch)
    size = len(out)
    return ValidatedRecords(bytes(out), next_offset, True, max_timestamp, 0, settings.now_ms, size, 0, size)


def _convert_uncompressed(append: _PendingAppend) -> ValidatedRecords:
    """Validate uncompressed batches of another format and rebuild them in the log's format."""
    content = _decode_batches(append)
    _require_undamaged(content)  # Kafka reads everything first, to estimate the size of the result
    _require_single_batch(append, Codec.NONE)
    _check_target(append, Codec.NONE)
    try:
        check_batches(content, append.settings)
    except AppendRefusedError as error:
        if error.record_errors:  # Kafka writes the valid records before the first error, and these writes may fail
            _check_rows(append, content, error.record_errors[0].batch_index)
        raise
    return _rebuild_batches(append, content, Codec.NONE)


# ----------------------------------------------------------------------------------------- source or target compressed


def _assign_compressed(append: _PendingAppend, source: Codec, target: Codec) -> ValidatedRecords:
    """Validate a batch that is or will be compressed, and assign its offsets in place or rebuild it."""
    settings = append.settings
    _require_single_batch(append, source)
    in_place = source is target and append.magic == settings.record_format and settings.record_format >= 1
    is_control = bool(append.batches.is_control[0])
    in_place = in_place or (source is Codec.NONE and is_control)
    lenient = (in_place or append.magic < 2) and source is not Codec.NONE  # Kafka skips keys and values here
    content = _decode_batches(append, lenient=lenient)
    check_batches(content, settings)
    is_contiguous = _is_contiguous(append, content)
    if in_place and is_contiguous:
        counts = _count_returned_records(content)
        next_offset = int(append.offset + counts.sum())
        largest = np.array([content.index.timestamps.max(initial=NO_TIMESTAMP)], np.int64)
        return _patch_headers(append, np.array([next_offset - 1], np.int64), largest, next_offset)
    if in_place:
        _reject_holes(settings)
    if in_place and append.magic >= 2 and source is not Codec.NONE:
        if settings.on_noncontiguous != REASSIGN:
            raise AppendRefusedError(
                "UnsupportedOperationException", "the offsets inside a compressed batch are not 0, 1, 2, ..."
            )
        content = _decode_batches(append)
    elif mask_truncated_messages(content).any():
        content = _decode_batches(append)
    _require_undamaged(content)
    _check_target(append, target)
    return _rebuild_batches(append, content, target)


def _reject_holes(settings: AppendSettings) -> None:
    """Reject a record set with holes between its offsets if ``on_noncontiguous`` is ``reject``."""
    if settings.on_noncontiguous == REJECT:
        reason = "the offsets inside the set are not 0, 1, 2, ..., and on_noncontiguous is 'reject'"
        raise AppendRefusedError("InvalidRecordException", reason)


def _is_contiguous(append: _PendingAppend, content: DecodedBatches) -> bool:
    """Return whether the offsets in the batch or message set are 0, 1, 2, ...; format 0 has no such requirement.

    Kafka's check is relative to the base offset in the request and ignores holes after the last record.
    """
    settings, offsets = append.settings, content.index.offsets
    if append.magic >= 2 and settings.on_noncontiguous in (REASSIGN, REJECT):
        return not _has_holes(content)
    return settings.record_format == 0 or bool((offsets == np.arange(len(offsets))).all())


def _append_with_own_offsets(append: _PendingAppend) -> ValidatedRecords:
    """Append the batches with their own offsets, which must increase and must not be below the log end offset."""
    content = _decode_batches(append)
    check_batches(content, append.settings)
    if append.magic != append.settings.record_format or append.settings.codec != "producer":
        raise OptionError(
            "on_noncontiguous='keep' copies batches; it requires codec='producer' and record_format to be their format"
        )
    last = append.batches.column("last_offset")
    first, largest = append.batches.column("base_offset").copy(), _find_max_timestamps(content)
    has_records = content.index.rows > 0  # compaction leaves empty batches, whose header values are preserved
    first[has_records] = content.index.offsets[content.starts[:-1][has_records]]
    largest[~has_records] = append.batches.column("max_timestamp")[~has_records]
    previous_offsets = np.concatenate(([append.offset - 1], last[:-1]))
    if (first <= previous_offsets).any():
        row = int(np.flatnonzero(first <= previous_offsets)[0])
        raise AppendRefusedError(
            "InvalidRecordException",
            f"batch {row}: offset {first[row]} follows offset {previous_offsets[row]}; offsets must increase",
        )
    return _patch_headers(append, last, largest, int(last[-1]) + 1)


# ------------------------------------------------------------------------------------------------------ rebuilds


def _require_single_batch(append: _PendingAppend, source: Codec) -> None:
    """Reject several batches if they have format 2 or are compressed."""
    if (append.magic >= 2 or source is not Codec.NONE) and len(append.batches) > 1:
        raise AppendRefusedError("InvalidRecordException", f"{len(append.batches)} batches; expected exactly one")


def _require_undamaged(content: DecodedBatches) -> None:
    """Raise Kafka's error for the first damaged batch."""
    for batch in range(len(content.batches)):
        error = make_damage_error(content, batch)
        if error is not None:
            raise error


def _check_target(append: _PendingAppend, target: Codec) -> None:
    """Reject a target codec that Kafka's batch builder (``MemoryRecordsBuilder``) rejects for these records."""
    settings, batches = append.settings, append.batches
    if settings.record_format < 2:
        if batches.is_transactional[0]:
            raise AppendRefusedError("IllegalArgumentException", "transactional records require format 2")
        if target is Codec.ZSTD:
            raise AppendRefusedError("IllegalArgumentException", "zstd requires format 2")


def _rebuild_batches(append: _PendingAppend, content: DecodedBatches, target: Codec) -> ValidatedRecords:
    """Rebuild the records with the log's codec and format, and assign new offsets."""
    settings, batches = append.settings, append.batches
    count = len(content.index.offsets)
    fields = _get_producer_fields(append)
    if not count:
        _check_producer(append)
        if settings.append_time and (settings.record_format >= 2 or target is not Codec.NONE):
            raise AppendRefusedError("NullPointerException", "no records remain; Kafka fails here with LogAppendTime")
        largest = settings.now_ms if settings.append_time else NO_TIMESTAMP
        return ValidatedRecords(b"", append.offset, False, largest, 0, settings.now_ms, len(append.data), 0, 0)
    offsets = np.arange(append.offset, append.offset + count, dtype=np.int64)
    _check_rows(append, content)
    _check_producer(append)
    old = settings.record_format < 2
    timestamps = np.full(count, settings.now_ms, np.int64) if old and settings.append_time else None
    rows = make_rows_from_index(
        content.sections, content.index, offsets=offsets, timestamps=timestamps, headers=not old
    )
    rows = decode_header_keys(rows)
    largest = settings.now_ms if settings.append_time else int(content.index.timestamps.max(initial=NO_TIMESTAMP))
    data = build_batch(rows, record_format=settings.record_format, codec=target, level=settings.level, fields=fields)
    if settings.record_format == 0 and not settings.append_time:
        largest = NO_TIMESTAMP
    recompressed_bytes = 0 if target is Codec.NONE else _count_uncompressed_bytes(batches, content)
    return ValidatedRecords(
        data, append.offset + count, False, largest, count, settings.now_ms, len(append.data), recompressed_bytes, 0
    )


def _count_uncompressed_bytes(batches: BatchHeaders, content: DecodedBatches) -> int:
    """Return the decompressed size of the records; for uncompressed messages, return their whole size."""
    section_bytes = content.sections.ends - content.sections.starts
    is_plain_message = ~batches.is_v2 & (batches.codecs == 0)
    return int(np.where(is_plain_message, batches.column("size"), section_bytes).sum())


def _get_producer_fields(append: _PendingAppend) -> BatchFields:
    """Return the producer fields for the rebuilt batches."""
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


def _check_rows(append: _PendingAppend, content: DecodedBatches, stop: int | None = None) -> None:
    """Reject records before number ``stop`` that Kafka's batch builder rejects."""
    if (content.index.timestamps[:stop] < NO_TIMESTAMP).any():
        raise AppendRefusedError("IllegalArgumentException", "a timestamp is below -1")
    if append.settings.record_format < 2 and content.index.header_counts[:stop].any():
        format_name = f"format {append.settings.record_format}"
        raise AppendRefusedError("IllegalArgumentException", f"{format_name} cannot represent record headers")


def _check_producer(append: _PendingAppend) -> None:
    """Reject producer fields that Kafka's batch builder rejects (``validateProducerState``)."""
    fields = _get_producer_fields(append)
    if append.settings.record_format < 2:
        return
    if fields.transactional and fields.producer_id == NO_PRODUCER_ID:
        raise AppendRefusedError("IllegalArgumentException", "transactional records need a producer id")
    if fields.producer_id != NO_PRODUCER_ID and (fields.producer_epoch == -1 or fields.base_sequence < 0):
        raise AppendRefusedError("IllegalArgumentException", "a producer id needs an epoch and a sequence")
