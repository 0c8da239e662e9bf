"""Measure what record format 2 saves compared to formats 0 and 1 for given records, field by field.

Sizes are exact, computed from the values, and without compression, because its effect depends on the codec. Keys and
values have the same bytes in all formats. Formats 0 and 1 do not have record headers, so the size of headers is a
separate field. Records of formats 0 and 1 are grouped into batches as ``convert`` does: a compressed message set is one
batch, and uncompressed messages are joined into batches of about 16 KiB. Layouts are in ``records/layout.py``; sizes of
varints are those of ``ByteUtils.sizeOfVarint``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kafkaframes.records import decode
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.layout import BATCH_V2, CONTROL, LOG_APPEND_TIME
from kafkaframes.records.makers import make_rows_from_index
from kafkaframes.records.scan import BatchHeaders, Bytes, Ints

SIZE_FIELDS: Final = (
    "batch header",
    "offset",
    "size",
    "crc",
    "magic",
    "attributes",
    "timestamp",
    "key length",
    "key",
    "value length",
    "value",
    "headers",
)
_JOINED_BATCH_BYTES: Final = (
    16 << 10
)  # uncompressed messages are joined into batches of this size, the default of producers
# Size of each field of a message in formats 0 and 1, in bytes. Keys, values and headers depend on the record.
_OLD_FORMATS: Final = {
    "offset": (8, 8),
    "size": (4, 4),
    "crc": (4, 4),
    "magic": (1, 1),
    "attributes": (1, 1),
    "timestamp": (0, 8),
    "key length": (4, 4),
    "value length": (4, 4),
}


@dataclass(slots=True)
class RecordSizes:
    """The size of the same records in formats 0, 1 and 2, by field, in bytes.

    Attributes:
        left_out: number of batches and messages that were not measured. These are control batches, damaged batches, and
            batches with LogAppendTime, because the timestamps of their producers are unknown.
    """

    batches: int = 0
    records: int = 0
    left_out: int = 0
    sizes: dict[str, list[int]] = field(default_factory=lambda: {name: [0, 0, 0] for name in SIZE_FIELDS})

    def add_batches(self, data: Bytes, batches: BatchHeaders) -> None:
        """Measure batches. The positions in ``batches`` are relative to the start of ``data``."""
        for part in decode.decode_steps(data, batches):
            self._add_part(part)

    def merge(self, other: RecordSizes) -> None:
        """Add other sizes."""
        self.batches += other.batches
        self.records += other.records
        self.left_out += other.left_out
        for name, sizes in other.sizes.items():
            self.sizes[name] = [
                own_size + other_size for own_size, other_size in zip(self.sizes[name], sizes, strict=True)
            ]

    @property
    def totals(self) -> list[int]:
        """The total sizes in formats 0, 1 and 2.

        Only format 2 includes headers, because formats 0 and 1 do not have them.
        """
        return [sum(sizes[number] for sizes in self.sizes.values()) for number in range(3)]

    def _add_part(self, part: DecodedBatches) -> None:
        """Add the sizes of records, except those in damaged batches, control batches and batches with LogAppendTime."""
        batches, index = part.batches, part.index
        attributes = batches.column("attributes")
        is_measured = (attributes & (CONTROL | LOG_APPEND_TIME) == 0) & (index.statuses == 0)
        is_measured[list(part.sections.problems)] = False
        selected_records = part if is_measured.all() else part.select(part.repeat_per_record(is_measured))
        first = _find_first_records(selected_records)
        is_old = batches.column("magic") < 2
        batch_count = int((is_measured & ~is_old).sum()) + len(np.unique(first[is_old[selected_records.owners]]))
        self.batches += batch_count
        self.left_out += int((~is_measured).sum())
        count = len(selected_records.index.offsets)
        self.records += count
        sizes = self._compute_v2_sizes(selected_records, first)
        sizes["batch header"] = BATCH_V2.size * batch_count
        for name in SIZE_FIELDS:
            old = _OLD_FORMATS.get(name, (0, 0))
            both_sizes = sizes[name] if name in ("key", "value") else None
            for number in range(2):
                self.sizes[name][number] += both_sizes if both_sizes is not None else old[number] * count
            self.sizes[name][2] += sizes[name]

    def _compute_v2_sizes(self, selected_records: DecodedBatches, first: Ints) -> dict[str, int]:
        """Return the total size of each field in format 2.

        ``first`` has, for each record, the index of the first record in its batch.
        """
        batches, index, owners = selected_records.batches, selected_records.index, selected_records.owners
        is_old = batches.column("magic")[owners] < 2
        base_timestamps = np.where(is_old, index.timestamps[first], batches.column("base_timestamp")[owners])
        base_offsets = np.where(is_old, index.offsets[first], batches.column("base_offset")[owners])
        keys, values = index.key_size.astype(np.int64), index.value_size.astype(np.int64)
        headers = compute_varint_sizes(index.header_counts) + _compute_header_bytes(selected_records)
        columns = {
            "attributes": np.ones(len(keys), np.int64),
            "timestamp": compute_varint_sizes(index.timestamps - base_timestamps),
            "offset": compute_varint_sizes(index.offsets - base_offsets),
            "key length": compute_varint_sizes(keys),
            "key": np.maximum(keys, 0),
            "value length": compute_varint_sizes(values),
            "value": np.maximum(values, 0),
            "headers": headers,
        }
        columns["size"] = compute_varint_sizes(np.sum(list(columns.values()), axis=0))
        result = dict.fromkeys(SIZE_FIELDS, 0)
        return result | {name: int(column.sum()) for name, column in columns.items()}


def _find_first_records(selected_records: DecodedBatches) -> Ints:
    """Return for each record the index of the first record in its batch of format 2."""
    batches, owners = selected_records.batches, selected_records.owners
    is_single = (batches.column("magic") < 2) & ~batches.is_wrapper
    chunk = batches.column("position") // _JOINED_BATCH_BYTES
    starts = np.ones(len(batches), bool)
    starts[1:] = ~(is_single[1:] & is_single[:-1] & (chunk[1:] == chunk[:-1]))
    _, first, numbers = np.unique(np.cumsum(starts)[owners], return_index=True, return_inverse=True)
    return first[numbers]


def _compute_header_bytes(selected_records: DecodedBatches) -> Ints:
    """Return the size of each record's headers in bytes, without their count."""
    rows = make_rows_from_index(selected_records.sections, selected_records.index)
    if not len(rows.header_starts):
        return np.zeros(len(selected_records.index.offsets), np.int64)
    sizes = sum(
        compute_varint_sizes(column.lengths) + np.maximum(column.lengths, 0)
        for column in (rows.header_names, rows.header_values)
    )
    ends = np.concatenate(([0], np.cumsum(sizes)))
    return np.diff(ends[rows.header_starts])


def compute_varint_sizes(values: npt.NDArray[Any]) -> Ints:
    """Return the size of each number as a zig-zag varint, in bytes.

    >>> compute_varint_sizes(np.array([0, -1, 63, 64, 8191, 8192, -(2**63)])).tolist()
    [1, 1, 1, 2, 2, 3, 10]
    """
    wide = values.astype(np.int64)
    zigzag = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
    sizes = np.ones(len(wide), np.int64)
    for bits in range(7, 64, 7):
        sizes += zigzag >= np.uint64(1 << bits)
    return sizes
