"""The short way from batches to columns: CRC, index and copying in one kernel call, a batch at a time.

It gives what ``decode.index_records`` and ``columns.binary_array`` give, for chunks of ordinary size of which every
record is wanted; ``columns.py`` chooses. The buffers are as large as the bytes could need; most stay untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.records import _kernels_gather
from kafkaframes.records.decode import Allocate, Index, Sections, most_rows
from kafkaframes.records.scan import Batches, Bytes

# Copies go in steps and write beyond the last byte.
SLACK_BYTES = _kernels_gather.SLACK_BYTES
# Above, buffers for the worst case would be a burden, and a chunk's fixed cost is none.
MOST_BYTES = 16 << 20
_WANTED = {
    "key": _kernels_gather.WANT_KEY,
    "value": _kernels_gather.WANT_VALUE,
    "headers": _kernels_gather.WANT_HEADERS,
}


class Made(NamedTuple):
    """An index without the places of keys, values and headers, the CRCs, and the columns that were asked for."""

    records: Index
    valid: npt.NDArray[np.int8] | None
    columns: dict[str, pa.Array]


class Blob(NamedTuple):
    """The three buffers of a binary column while it is filled; empty for one that is not wanted."""

    offsets: npt.NDArray[np.int32]
    data: Bytes
    validity: Bytes

    def finish(self, count: int, size: int, nulls: int, allocate: Allocate, kind: pa.DataType) -> pa.Array:
        """Wrap the buffers; one that is used in small part is copied, so that it does not hold the rest."""
        data, offsets = self.data, self.offsets[: count + 1]
        if size * 4 < data.size:
            data = allocate(size + SLACK_BYTES, np.uint8)
            data[:size] = self.data[:size]
        validity = pa.py_buffer(self.validity[: (count + 7) // 8]) if nulls else None
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data[:size])]
        return pa.Array.from_buffers(kind, count, buffers, null_count=nulls)


def fits(sections: Sections) -> bool:
    """Tell whether the short way is meant for these sections."""
    return int((sections.ends - sections.starts).sum()) <= MOST_BYTES


def read_columns(
    source: Bytes,
    batches: Batches,
    sections: Sections,
    names: tuple[str, ...],
    *,
    verify_crc: bool,
    allocate: Allocate,
    header_type: pa.DataType,
    text: Callable[[pa.Array], pa.Array],
) -> Made:
    """Read all records of ``batches``; of ``names``, ``key``, ``value`` and ``headers`` are made.

    Args:
        source: what ``batches`` was scanned from.
        batches, sections: as ``scan`` and ``decode.open_sections`` returned them.
        names: the columns wanted, others included.
        verify_crc: check the CRCs.
        allocate: makes the arrays.
        header_type: Arrow's type of the headers.
        text: turns a binary array into text.
    """
    room = int((sections.ends - sections.starts).sum())
    most = most_rows(batches, sections)
    rows, scratch = int(most.sum()) + 1, int(most.max(initial=0)) + 1
    wanted = sum(bit for name, bit in _WANTED.items() if name in names) + (verify_crc and _kernels_gather.WANT_CRC)
    valid: npt.NDArray[np.int8] = np.empty(len(batches) if verify_crc else 0, np.int8)
    offsets, stamps = allocate(rows, np.int64), allocate(rows, np.int64)
    places = [allocate(scratch, dtype) for dtype in (np.int64, np.int32) * 3]
    key, value = (_blob(name in names, rows, room, allocate) for name in ("key", "value"))
    has_headers = "headers" in names
    lists = allocate(rows + 1 if has_headers else 0, np.int32)
    header_keys, header_values = (_blob(has_headers, room // 2 + 1, room, allocate) for _ in range(2))
    per_batch = [np.empty(len(batches), np.int64) for _ in range(3)]
    sizes = np.zeros(7, np.int64)
    total = _kernels_gather.read_columns(
        source,
        sections.buf,
        np.ascontiguousarray(batches.table),
        sections.starts,
        sections.ends,
        sections.kinds,
        wanted,
        *(valid, offsets, stamps, *places),
        *(*key, *value, lists, *header_keys[:2], *header_values),
        *(*per_batch, sizes),
    )
    told = sizes.tolist()
    columns: dict[str, pa.Array] = {}
    if "key" in names:
        columns["key"] = key.finish(
            total, told[_kernels_gather.KEYS], told[_kernels_gather.KEY_NULLS], allocate, pa.binary()
        )
    if "value" in names:
        columns["value"] = value.finish(
            total, told[_kernels_gather.VALUES], told[_kernels_gather.VALUE_NULLS], allocate, pa.binary()
        )
    if has_headers:
        count = int(lists[total])
        keys = header_keys.finish(count, told[_kernels_gather.HEADER_KEYS], 0, allocate, pa.binary())
        values = header_values.finish(
            count, told[_kernels_gather.HEADER_VALUES], told[_kernels_gather.HEADER_NULLS], allocate, pa.binary()
        )
        pairs = pa.StructArray.from_arrays([text(keys), values], fields=list(header_type.value_type))
        columns["headers"] = pa.Array.from_buffers(
            header_type, total, [None, pa.py_buffer(lists[: total + 1])], null_count=0, children=[pairs]
        )
    index = Index(offsets[:total], stamps[:total], *places, *per_batch)
    return Made(index, valid if verify_crc else None, columns)


def _blob(wanted: bool, count: int, room: int, allocate: Allocate) -> Blob:
    if not wanted:
        nothing: npt.NDArray[Any] = np.empty(0, np.uint8)
        return Blob(np.empty(0, np.int32), nothing, nothing)
    return Blob(
        allocate(count + 1, np.int32), allocate(room + SLACK_BYTES, np.uint8), allocate(count // 8 + 1, np.uint8)
    )
