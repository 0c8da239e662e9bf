"""What record format 2 saves against formats 0 and 1 for given records, field by field.

The records of batches of format 2 are laid out in all three formats, uncompressed: what a codec makes of them depends
on the codec. Keys and values are the same bytes everywhere; formats 0 and 1 have no headers, and those are told apart.
Sizes are exact, from the values: no estimate. Layouts: ``records/layout.py``; varints: ``ByteUtils.sizeOfVarint``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kafkaframes.records import decode
from kafkaframes.records.decoded import Decoded
from kafkaframes.records.layout import BATCH_V2, CONTROL, LOG_APPEND_TIME
from kafkaframes.records.rebuild import rows_of_index
from kafkaframes.records.scan import Batches, Bytes, Ints

FIELDS: Final = (
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
# What each field takes in a message of formats 0 and 1, in bytes; keys, values and headers depend on the record.
_OLD: Final = {
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
    """Bytes of the same records in formats 0, 1 and 2.

    Attributes:
        batches, records: how many were measured.
        left_out: batches that were not: of older formats, control batches, damaged ones, those with LogAppendTime
            (the timestamps that their producers wrote are not known).
        sizes: field -> bytes in formats 0, 1 and 2.
    """

    batches: int = 0
    records: int = 0
    left_out: int = 0
    sizes: dict[str, list[int]] = field(default_factory=lambda: {name: [0, 0, 0] for name in FIELDS})

    def add(self, data: Bytes, batches: Batches) -> None:
        """Measure batches; positions count from the first byte of ``data``."""
        for part in decode.in_turn(data, batches):
            self._add(part)

    def merge(self, other: RecordSizes) -> None:
        """Add what was measured elsewhere."""
        self.batches += other.batches
        self.records += other.records
        self.left_out += other.left_out
        for name, sizes in other.sizes.items():
            self.sizes[name] = [one + more for one, more in zip(self.sizes[name], sizes, strict=True)]

    @property
    def totals(self) -> list[int]:
        """All bytes in formats 0, 1 and 2; in 2 the headers, too, which the others cannot say."""
        return [sum(sizes[number] for sizes in self.sizes.values()) for number in range(3)]

    def _add(self, part: Decoded) -> None:
        batches, index = part.batches, part.index
        attributes = batches.column("attributes")
        wanted = (
            (batches.column("magic") == 2) & (attributes & (CONTROL | LOG_APPEND_TIME) == 0) & (index.statuses == 0)
        )
        wanted[list(part.sections.problems)] = False
        chosen = part if wanted.all() else part.select(part.of_batch(wanted))
        self.batches += int(wanted.sum())
        self.left_out += int((~wanted).sum())
        count = len(chosen.index.offsets)
        self.records += count
        sizes = self._v2_sizes(chosen)
        sizes["batch header"] = BATCH_V2.size * int(wanted.sum())
        for name in FIELDS:
            old = _OLD.get(name, (0, 0))
            both = sizes[name] if name in ("key", "value") else None
            for number in range(2):
                self.sizes[name][number] += both if both is not None else old[number] * count
            self.sizes[name][2] += sizes[name]

    def _v2_sizes(self, chosen: Decoded) -> dict[str, int]:
        batches, index, owners = chosen.batches, chosen.index, chosen.owners
        keys, values = index.key_size.astype(np.int64), index.value_size.astype(np.int64)
        headers = size_of_varints(index.header_counts) + _header_bytes(chosen)
        columns = {
            "attributes": np.ones(len(keys), np.int64),
            "timestamp": size_of_varints(index.timestamps - batches.column("base_timestamp")[owners]),
            "offset": size_of_varints(index.offsets - batches.column("base_offset")[owners]),
            "key length": size_of_varints(keys),
            "key": np.maximum(keys, 0),
            "value length": size_of_varints(values),
            "value": np.maximum(values, 0),
            "headers": headers,
        }
        columns["size"] = size_of_varints(np.sum(list(columns.values()), axis=0))
        found = dict.fromkeys(FIELDS, 0)
        return found | {name: int(column.sum()) for name, column in columns.items()}


def _header_bytes(chosen: Decoded) -> Ints:
    """Return how many bytes the headers of each record take, without their count."""
    rows = rows_of_index(chosen.sections, chosen.index)
    if not len(rows.header_starts):
        return np.zeros(len(chosen.index.offsets), np.int64)
    sizes = sum(
        size_of_varints(one.lengths) + np.maximum(one.lengths, 0) for one in (rows.header_names, rows.header_values)
    )
    ends = np.concatenate(([0], np.cumsum(sizes)))
    return np.diff(ends[rows.header_starts])


def size_of_varints(values: npt.NDArray[Any]) -> Ints:
    """Return how many bytes the zig-zag varint of each number takes.

    >>> size_of_varints(np.array([0, -1, 63, 64, 8191, 8192, -(2**63)])).tolist()
    [1, 1, 1, 2, 2, 3, 10]
    """
    wide = values.astype(np.int64)
    zigzag = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
    sizes = np.ones(len(wide), np.int64)
    for bits in range(7, 64, 7):
        sizes += zigzag >= np.uint64(1 << bits)
    return sizes
