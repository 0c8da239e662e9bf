"""Split one batch into several smaller ones that hold the same records (KIP-126).

A leader rejects a batch that is larger than its topic's ``max.message.bytes``. Each single record may still be small
enough, so the client sends the records again in smaller batches. Offsets, timestamps, headers, codec, timestamp type,
producer id and flags are unchanged. The sequence numbers of the parts are consecutive and cover those of the original
batch.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from kafkaframes.errors import CorruptRecordError
from kafkaframes.records.build import build_rows
from kafkaframes.records.codecs import Codec
from kafkaframes.records.decode import decode_batches
from kafkaframes.records.fields import CREATE_TIME, LOG_APPEND_TIME, BatchFields
from kafkaframes.records.layout import BATCH_V2, DELETE_HORIZON
from kafkaframes.records.layout import LOG_APPEND_TIME as APPEND_BIT
from kafkaframes.records.makers import make_rows_from_index
from kafkaframes.records.scan import BatchHeaders, as_array, scan_all


def split_batch(data: bytes, part_bytes: int, *, level: int | None = None) -> list[tuple[bytes, int]]:
    """Split one batch, or one message set (formats 0 and 1), into smaller batches, in record order.

    Args:
        data: one format 2 batch, or one message set.
        part_bytes: largest size of a part, in bytes. A part may be larger if it has one record, or if it compresses
            less well than the whole batch.
        level: compression level; None is Kafka's default.

    Returns:
        (batch, record count) pairs. The result has at least two pairs if the batch has at least two records and
        ``part_bytes`` is less than the size of ``data``.

    Raises:
        CorruptRecordError: the batch is damaged.
    """
    batches = scan_all(data)
    content = decode_batches(as_array(data), batches)
    if content.problems:
        raise CorruptRecordError(next(iter(content.problems.values())).reason)
    magic, codec = int(batches.column("magic")[0]), Codec(int(batches.codecs[0]))
    if magic < 2 and codec is Codec.NONE:
        return _split_messages(data, batches, part_bytes)
    rows = make_rows_from_index(content.sections, content.index)
    plain_bytes = int((content.sections.ends - content.sections.starts).sum())
    overhead = BATCH_V2.size if magic >= 2 else 0
    ratio = plain_bytes / max(len(data) - overhead * len(batches), 1)
    plain_part_bytes = max(int((part_bytes - overhead) * ratio) + overhead, 1)
    fields = _collect_header_fields(batches) if magic >= 2 else BatchFields()
    output = build_rows(
        rows, record_format=magic, codec=codec, level=level, batch_bytes=plain_part_bytes, fields=fields
    )
    table = scan_all(output)
    ends = np.searchsorted(rows.offsets, table.column("last_offset"), "right").tolist()
    positions = pairwise([*table.column("position").tolist(), len(output)])
    counts = (last - first for first, last in pairwise([0, *ends]))
    return [(output[start:end], count) for (start, end), count in zip(positions, counts, strict=True)]


def _collect_header_fields(batches: BatchHeaders) -> BatchFields:
    """Return the batch header fields that are the same in all parts."""
    header = {name: int(batches.column(name)[0]) for name in ("leader_epoch", "producer_id", "producer_epoch")}
    has_horizon = bool(batches.mask_flag(DELETE_HORIZON)[0])
    return BatchFields(
        timestamp_type=LOG_APPEND_TIME if batches.mask_flag(APPEND_BIT)[0] else CREATE_TIME,
        base_sequence=int(batches.column("base_sequence")[0]),
        transactional=bool(batches.is_transactional[0]),
        control=bool(batches.is_control[0]),
        delete_horizon_ms=int(batches.column("base_timestamp")[0]) if has_horizon else None,
        **header,
    )


def _split_messages(data: bytes, batches: BatchHeaders, part_bytes: int) -> list[tuple[bytes, int]]:
    """Split a set of uncompressed messages at message boundaries. Each message is independent of the other messages."""
    ends = np.cumsum(batches.column("size"))
    parts, start, first = [], 0, 0
    while first < len(ends):
        last = max(int(np.searchsorted(ends, start + part_bytes, "right")), first + 1)
        end = int(ends[last - 1])
        parts.append((data[start:end], last - first))
        start, first = end, last
    return parts
