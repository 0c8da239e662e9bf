"""Read the rows of a Parquet file in batches that are bounded in bytes, not in rows.

A column that repeats a few large values takes little in the file and the product of both when it is read: 24,000 rows
of one megabyte are 24 GB. Such columns stay dictionaries until rows are handed out, some megabytes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from kafkaframes.storage.files.names import TopicPartition

MAX_BATCH_BYTES = 8 << 20  # of rows that are handed out together, unless one row is larger
_MAX_ROWS = 1 << 16
_MAX_ROWS_OF_LARGE = 64  # at once, of a column chunk that is larger than its share of the budget
_BUFFER_BYTES = 1 << 20
_SHARES = 8  # of the budget: what one column chunk may take
_ROW_BYTES = 64  # of a row, its key, value and headers apart
_PAYLOAD = ("key", "value", "headers")
_OF_BYTES = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
Sizes = npt.NDArray[np.int64]


class ColumnChoice(NamedTuple):
    """How the columns of a row group are read.

    Attributes:
        dictionaries: paths of columns that are read as dictionaries.
        rows: how many rows at once.
    """

    dictionaries: tuple[str, ...]
    rows: int


def read_rows(
    path: str, columns: Sequence[str], *, budget_bytes: int, of: TopicPartition | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, in their order, as plain columns.

    Args:
        path: on a disk, or a URL.
        columns: those of them that the file has are read.
        budget_bytes: about how much memory the read may take.
        of: only the rows with this topic and partition, which are columns of the file.

    Raises:
        OSError, pa.ArrowException, ValueError: the file cannot be read.
    """
    (fragment,) = ds.dataset(path, format="parquet").get_fragments()
    with fragment.filesystem.open_input_file(fragment.path) as file:
        metadata = pq.read_metadata(file)
        have = pq.ParquetFile(file, metadata=metadata).schema_arrow.names
        names = [name for name in columns if name in have]
        read = [*names, *(("topic", "partition") if of is not None else ())]
        for number in range(metadata.num_row_groups):
            if of is not None and not _has_rows(file, metadata, number, of):
                continue
            choice = choose_reading(metadata.row_group(number), read, budget_bytes)
            opened = _open(file, metadata, choice.dictionaries)
            for batch in opened.iter_batches(choice.rows, row_groups=[number], columns=read, use_threads=False):
                rows = batch if of is None else batch.filter(_is_of(batch, of))
                yield from split_rows(rows.select(names), min(MAX_BATCH_BYTES, max(budget_bytes // 16, 1)))


def column_names(path: str) -> list[str]:
    """Return the names of a file's columns."""
    names: list[str] = ds.dataset(path, format="parquet").schema.names
    return names


def _open(file: Any, metadata: Any, dictionaries: Sequence[str]) -> Any:
    return pq.ParquetFile(
        file,
        metadata=metadata,
        read_dictionary=list(dictionaries),
        pre_buffer=False,
        buffer_size=_BUFFER_BYTES,
    )


def _has_rows(file: Any, metadata: Any, number: int, of: TopicPartition) -> bool:
    batches = _open(file, metadata, ("topic",)).iter_batches(
        _MAX_ROWS, row_groups=[number], columns=["topic", "partition"], use_threads=False
    )
    return any(pc.any(_is_of(batch, of)).as_py() for batch in batches)


def _is_of(batch: pa.RecordBatch, of: TopicPartition) -> pa.Array:
    topics = _plain(batch.column("topic")).cast(pa.large_string())
    return pc.and_(pc.equal(topics, of.topic), pc.equal(_plain(batch.column("partition")), of.partition))


def choose_reading(group: Any, columns: Sequence[str], budget_bytes: int) -> ColumnChoice:
    """Decide which columns of a row group are read as dictionaries, and how many rows at once.

    A chunk that is not larger than its share of the budget is read as a dictionary, if it has one: whatever its values
    are, they take no more than the chunk. Of a larger chunk few rows are read at once.
    """
    share = max(budget_bytes // _SHARES, 1)
    dictionaries, rows = [], _MAX_ROWS
    for number in range(group.num_columns):
        chunk = group.column(number)
        path, size = chunk.path_in_schema, chunk.total_uncompressed_size
        if path.partition(".")[0] not in columns or chunk.physical_type not in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
            continue
        if size > share:
            per_row = max(size // max(group.num_rows, 1), 1)
            rows = min(rows, max(min(share // (4 * per_row), _MAX_ROWS_OF_LARGE), 1))
        elif chunk.physical_type == "BYTE_ARRAY" and any("DICTIONARY" in name for name in chunk.encodings):
            dictionaries.append(path)
    return ColumnChoice(tuple(dictionaries), rows)


def split_rows(rows: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield rows as batches of at most so many bytes, or of one row, with plain columns in place of dictionaries."""
    if not rows.num_rows:
        return
    sizes = np.full(rows.num_rows, _ROW_BYTES, np.int64)
    for name in _PAYLOAD:
        if name in rows.schema.names:
            sizes += _value_sizes(rows.column(name))
    ends = np.cumsum(sizes)
    start = 0
    while start < rows.num_rows:
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + most_bytes, side="right")), start + 1)
        part = rows.slice(start, stop - start)
        yield pa.RecordBatch.from_arrays([_plain(column) for column in part.columns], names=part.schema.names)
        start = stop


def _value_sizes(column: pa.Array) -> Sizes:
    """Return the bytes of each value of a column, with all that is in it."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        sizes = _value_sizes(column.dictionary)
        if not len(sizes):
            return np.zeros(len(column), np.int64)
        return np.where(column.is_null(), 0, sizes[pc.fill_null(column.indices, 0).to_numpy(zero_copy_only=False)])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(_value_sizes(column.values))])
        offsets = column.offsets.to_numpy()
        result: Sizes = ends[offsets[1:]] - ends[offsets[:-1]]
        return result
    if pa.types.is_struct(kind):
        total = np.zeros(len(column), np.int64)
        for number in range(kind.num_fields):
            total += _value_sizes(column.field(number))
        return total
    if any(test(kind) for test in _OF_BYTES):
        lengths: Sizes = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        return lengths
    return np.full(len(column), max(column.nbytes // max(len(column), 1), 0), np.int64)


def _plain(column: pa.Array) -> pa.Array:
    """Return a column without dictionaries, those inside of it included; of a slice no more is copied than its rows."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.dictionary_decode()
    if not _has_dictionary(kind):
        return column
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(kind):
        children = [_plain(column.field(number)) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, names=[field.name for field in kind], mask=mask)
    offsets = column.offsets.to_numpy()
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    values = _plain(column.values.slice(first, last - first))
    return pa.ListArray.from_arrays(pa.array((offsets - first).astype(np.int32)), values, mask=mask)


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _has_dictionary(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_dictionary(field.type) for field in kind)
    return bool(pa.types.is_dictionary(kind))
