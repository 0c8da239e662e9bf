"""Down-convert records for old consumers, as brokers up to 3.9 did (``RecordsUtil.downConvert``; removed by KIP-724).

Older formats cannot represent headers, producer fields, transactions, leader epochs, control batches and (format 0)
timestamps. The result contains the number of records or batches whose data was dropped. Aborted records become visible,
so a caller that reads committed records must filter them first.
"""

from __future__ import annotations

import numpy as np

from kafkaframes.errors import AppendRefusedError
from kafkaframes.records.append.checks import make_damage_error
from kafkaframes.records.append.headers import reject_corrupt_end
from kafkaframes.records.append.results import DownConvertedRecords
from kafkaframes.records.build import build_batch
from kafkaframes.records.codecs import Codec
from kafkaframes.records.decode import decode_batches
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.fields import CREATE_TIME, LOG_APPEND_TIME, NO_PRODUCER_ID, NO_TIMESTAMP, BatchFields
from kafkaframes.records.layout import CODECS
from kafkaframes.records.layout import LOG_APPEND_TIME as APPEND_BIT
from kafkaframes.records.makers import make_rows_from_index
from kafkaframes.records.scan import BatchHeaders, as_array, scan_all


def convert_records_down(
    records: bytes | bytearray | memoryview, magic: int, *, first_offset: int = 0
) -> DownConvertedRecords:
    """Convert records to an older format; see ``entry.down_convert``."""
    data = as_array(records)
    batches = scan_all(data)
    losses: dict[str, int] = {}
    parts, converted_records = [], 0
    for row in range(len(batches)):
        entry = BatchHeaders(np.ascontiguousarray(batches.table[:, row : row + 1]), batches.end)
        _check_codec(entry, magic)
        if int(entry.column("magic")[0]) <= magic:
            position, size = int(entry.column("position")[0]), int(entry.column("size")[0])
            parts.append(data[position : position + size].tobytes())
            continue
        content = decode_batches(data, entry)
        if content.batches.is_control[0] and magic < 2:
            losses["control batches"] = losses.get("control batches", 0) + 1
            continue
        part, count = _convert_batches(content, magic, first_offset, losses)
        parts.append(part)
        converted_records += count
    reject_corrupt_end(batches.end)
    return DownConvertedRecords(b"".join(parts), converted_records, losses)


def _check_codec(batch: BatchHeaders, magic: int) -> None:
    number = int(batch.codecs[0])
    control = bool(batch.is_control[0])
    if control and magic < 2:
        return
    if number >= len(CODECS):
        raise AppendRefusedError("IllegalArgumentException", f"unknown codec {number}")
    if number == Codec.ZSTD and magic < 2:
        raise AppendRefusedError("UnsupportedCompressionTypeException", "zstd requires format 2")


def _convert_batches(
    content: DecodedBatches, magic: int, first_offset: int, losses: dict[str, int]
) -> tuple[bytes, int]:
    codec = Codec(int(content.batches.codecs[0]))
    if (
        codec is Codec.NONE
        and content.has_unreadable_field(0)
        and int(content.batches.column("base_offset")[0]) < first_offset
    ):
        return b"", 0
    error = make_damage_error(content, 0)
    if error is not None:
        raise error
    index = content.index
    if codec is Codec.NONE:
        index = index.take(index.offsets >= first_offset, content.owners)
    count = len(index.offsets)
    if not count:
        return b"", 0
    if (index.timestamps < NO_TIMESTAMP).any():
        raise AppendRefusedError("IllegalArgumentException", "a timestamp is below -1")
    if (np.diff(index.offsets) <= 0).any():
        raise AppendRefusedError("IllegalArgumentException", "the offsets inside a batch do not increase")
    append_time = bool(int(content.batches.column("attributes")[0]) & APPEND_BIT)
    _count_losses(content, magic, count, losses)
    rows = make_rows_from_index(content.sections, index, headers=False)
    fields = BatchFields(timestamp_type=LOG_APPEND_TIME if append_time and magic > 0 else CREATE_TIME)
    return build_batch(rows, record_format=magic, codec=codec, fields=fields), count


def _count_losses(content: DecodedBatches, magic: int, count: int, lost: dict[str, int]) -> None:
    batches, index = content.batches, content.index
    losses = {
        "records with headers": int((index.header_counts > 0).sum()),
        "batches with a producer": int(batches.column("producer_id")[0] != NO_PRODUCER_ID),
        "transactional batches": int(content.batches.is_transactional[0]),
        "batches with a leader epoch": int(batches.column("leader_epoch")[0] >= 0),
        "timestamps": int((index.timestamps != NO_TIMESTAMP).sum()) if magic == 0 else 0,
        "offsets at the end of a batch": int(batches.column("last_offset")[0] != index.offsets[-1]),
    }
    for name, times in losses.items():
        if times:
            lost[name] = lost.get(name, 0) + times
