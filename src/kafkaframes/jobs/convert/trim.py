"""Build a batch from some records of another batch, with the header fields of that batch."""

from __future__ import annotations

import numpy as np

from kafkaframes.jobs.convert.damage import find_damaged_batches
from kafkaframes.records.batch import compute_sequence
from kafkaframes.records.build import build_batch
from kafkaframes.records.decode import decode_batches
from kafkaframes.records.fields import CREATE_TIME, LOG_APPEND_TIME, BatchFields
from kafkaframes.records.layout import CODEC_MASK, CONTROL, DELETE_HORIZON, TRANSACTIONAL
from kafkaframes.records.layout import LOG_APPEND_TIME as APPEND_BIT
from kafkaframes.records.makers import make_rows_from_index
from kafkaframes.records.rows import Rows
from kafkaframes.records.scan import BatchHeaders, Bytes, as_array
from kafkaframes.scan.log.narrowing import OffsetRange


def build_batch_from_rows(
    batches: BatchHeaders,
    row: int,
    rows: Rows,
    *,
    start: int,
    stop: int,
    first_offset: int,
    base_offset: int | None,
    leader_epoch: int | None = None,
) -> bytes:
    """Build a batch from decoded records, in the format and codec of their source batch.

    Args:
        batches: columns of the source batches.
        row: index of the source batch.
        rows: decoded records.
        start, stop: range of the records in ``rows``.
        first_offset: source offset of the first record.
        base_offset: base offset of the new batch; None to begin at the offset and sequence number of the first record.
        leader_epoch: leader epoch of the new batch; None keeps the one of the source batch.
    """
    names = ("magic", "attributes", "leader_epoch", "producer_id", "producer_epoch", "base_sequence", "base_timestamp")
    magic, attributes, source_epoch, producer_id, producer_epoch, base_sequence, base_timestamp = (
        int(batches.column(name)[row]) for name in names
    )
    fields = BatchFields(timestamp_type=LOG_APPEND_TIME if magic and attributes & APPEND_BIT else CREATE_TIME)
    if magic >= 2:
        if base_offset is None:  # a record's sequence number is the base sequence plus its offset delta
            base_sequence = compute_sequence(base_sequence, first_offset - int(batches.column("base_offset")[row]))
        fields = fields._replace(
            base_offset=base_offset,
            leader_epoch=source_epoch if leader_epoch is None else leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=bool(attributes & TRANSACTIONAL),
            control=bool(attributes & CONTROL),
            delete_horizon_ms=base_timestamp if attributes & DELETE_HORIZON else None,
        )
    codec = attributes & CODEC_MASK
    return build_batch(rows, record_format=magic, codec=codec, fields=fields, start=start, stop=stop)


def trim_batch(data: Bytes, batches: BatchHeaders, row: int, offsets: OffsetRange) -> tuple[Bytes, int]:
    """Return a batch with only the records of an offset range, and the number of removed records.

    The result is empty if no record is in the range. A damaged batch is returned whole.
    """
    single = BatchHeaders(np.ascontiguousarray(batches.table[:, row : row + 1]), batches.end)
    position, size = int(single.column("position")[0]), int(single.column("size")[0])
    whole = data[position : position + size]
    content = decode_batches(data, single)
    if find_damaged_batches(content):
        return whole, 0
    index = content.index
    in_range = (index.offsets >= offsets.first_offset) & (index.offsets < offsets.end_offset)
    removed_count = int((~in_range).sum())
    base_offset = int(single.column("base_offset")[0])
    if not in_range.any():
        is_empty_inside = not removed_count and base_offset >= offsets.first_offset  # compaction left only the header
        return (whole if is_empty_inside else as_array(b"")), removed_count
    if not removed_count:
        return whole, 0
    selected_records = index.take(in_range, content.owners)
    keeps_base = base_offset >= offsets.first_offset or not single.is_v2[0]
    part = build_batch_from_rows(
        single,
        0,
        make_rows_from_index(content.sections, selected_records, offsets=selected_records.offsets.copy()),
        start=0,
        stop=len(selected_records.offsets),
        first_offset=int(selected_records.offsets[0]),
        base_offset=base_offset if keeps_base else None,
    )
    return as_array(part), removed_count
