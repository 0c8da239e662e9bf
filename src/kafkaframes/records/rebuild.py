"""From an index of decoded records back to rows that can be written: the middle of every rewrite.

The append path, the conversions and the cleaner decode batches (``decode.py``), choose or renumber records, and write
them again (``build.py``). Nothing is copied here but headers' places: keys and values stay where they were decoded.
"""

from __future__ import annotations

import numpy as np

from kafkaframes.records import _kernels_gather
from kafkaframes.records.decoded import Index, Sections
from kafkaframes.records.makers import binary_array, java_text_array
from kafkaframes.records.rows import Blobs, Int64s, Rows, blobs_of

_NO_BLOBS = Blobs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8))


def rows_of_index(
    sections: Sections,
    index: Index,
    *,
    offsets: Int64s | None = None,
    timestamps: Int64s | None = None,
    headers: bool = True,
) -> Rows:
    """Return the records of ``index`` as rows.

    Args:
        sections, index: as ``open_sections`` and ``index_records`` returned them; the index may be a part
            (``Index.take``).
        offsets: the offsets to write instead of the decoded ones.
        timestamps: the timestamps to write instead of the decoded ones, in milliseconds.
        headers: keep the records' headers (formats 0 and 1 have none to keep).
    """
    names, values, starts = _NO_BLOBS, _NO_BLOBS, np.zeros(0, np.int64)
    total = int(index.header_counts.sum()) if headers else 0
    if total:
        starts, names, values = _headers(sections, index, total)
    return Rows(
        index.offsets if offsets is None else offsets,
        index.timestamps if timestamps is None else timestamps,
        _blobs(sections, index.key_at, index.key_size),
        _blobs(sections, index.value_at, index.value_size),
        starts,
        names,
        values,
    )


def with_names_as_text(rows: Rows) -> Rows:
    """Return rows whose headers' names are what Java makes of them and back: U+FFFD for what is not UTF-8."""
    names = rows.header_names
    if not len(names.starts):
        return rows
    raw = binary_array(names.data, names.starts, names.lengths.astype(np.int32))
    return rows._replace(header_names=blobs_of("headers", java_text_array(raw)))


def _blobs(sections: Sections, positions: Int64s, sizes: np.ndarray[tuple[int], np.dtype[np.int32]]) -> Blobs:
    return Blobs(positions, np.maximum(sizes, -1).astype(np.int64), sections.buf)


def _headers(sections: Sections, index: Index, total: int) -> tuple[Int64s, Blobs, Blobs]:
    records = len(index.offsets)
    lists = np.empty(records + 1, np.int32)
    key_at, value_at = np.empty(total, np.int64), np.empty(total, np.int64)
    key_size, value_size = np.empty(total, np.int32), np.empty(total, np.int32)
    _kernels_gather.index_headers(
        sections.buf, index.headers_at, index.header_counts, records, lists, key_at, key_size, value_at, value_size
    )
    return lists.astype(np.int64), _blobs(sections, key_at, key_size), _blobs(sections, value_at, value_size)
