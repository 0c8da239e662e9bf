"""The public function that builds records; what it runs is imported when it is called."""

from __future__ import annotations

from typing import Any


def build_records(
    columns: Any,
    *,
    record_format: int = 2,
    codec: str | int = "none",
    level: int | None = None,
    base_offset: int = 0,
    batch_bytes: int = 16384,
    batch_records: int | None = None,
    timestamp_type: str | int = "CreateTime",
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Write records as bytes that any Kafka reads: the content of a segment, or of a produce request.

    >>> build_records([{"key": b"k", "value": b"v", "timestamp": 1_700_000_000_000}], codec="lz4")[16]
    2

    Args:
        columns: a ``pa.Table``, a ``pa.RecordBatch``, a mapping of names to arrays or sequences, or a sequence of
            mappings. ``key`` and ``value`` (binary or string, null allowed), ``offset`` (increasing; holes are
            kept), ``timestamp`` (ms or an Arrow timestamp), ``headers`` (lists of struct<key, value>, maps, or pairs).
            The reader's other columns may be there and are ignored.
        record_format: 0, 1 or 2; formats 0 and 1 hold neither headers nor anything below ``timestamp_type`` here,
            0 holds no timestamp (that column is ignored then).
        codec: none, gzip, snappy, lz4 or zstd (format 2 only).
        level: the codec's level (KIP-390); None is Kafka's default.
        base_offset: the first offset where ``columns`` has none.
        batch_bytes: a batch ends before it would grow larger, counted before compression (Kafka's ``batch.size``);
            one record is always taken.
        batch_records: the largest number of records in a batch.
        timestamp_type: CreateTime or LogAppendTime; with the latter a batch ends where the timestamp changes.
        leader_epoch, producer_id, producer_epoch: as the batches' headers have them; -1 is none.
        base_sequence: of the first batch; later ones go on from there, with 0 after 2^31 - 1. -1 is none.
        transactional, control: the batches' flags. Control records are given with their own keys and values.
        delete_horizon_ms: set as the base of timestamps of every batch (KIP-534).

    Returns:
        Record batches (format 2), wrappers (0 and 1 with a codec), or messages, one after the other.

    Raises:
        EncodeError: a value does not fit; ``path`` names the column and the row.
        OptionError: an option does not exist, or not in this format.
    """
    from kafkaframes.records.build import build_records as build

    return build(
        columns,
        record_format=record_format,
        codec=codec,
        level=level,
        base_offset=base_offset,
        batch_bytes=batch_bytes,
        batch_records=batch_records,
        timestamp_type=timestamp_type,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        delete_horizon_ms=delete_horizon_ms,
    )
