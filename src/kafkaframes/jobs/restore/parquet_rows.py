"""Read the rows of a Parquet file in batches of a limited size in bytes.

A column that repeats a few large values is small in the file but large in memory: 24,000 rows with the same value of
one megabyte are 24 GB. Dictionary-encoded columns are decoded only when a batch of a few megabytes is returned.
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

MAX_BATCH_BYTES = 8 << 20  # largest size of a batch; a larger row is a batch of its own
_MAX_READ_ROWS = 1 << 16  # rows per read
_MAX_LARGE_CHUNK_ROWS = 64  # rows per read if a column chunk exceeds its share of the budget
_READ_BUFFER_BYTES = 1 << 20  # size of Arrow's read buffer for a column
_BUDGET_SHARE_COUNT = 8  # number of equal shares of the budget; a column chunk may use one share
_OTHER_COLUMNS_BYTES_PER_ROW = 64  # estimate for the other columns of a row
_PAYLOAD_COLUMNS = ("key", "value", "headers")  # columns with values of any size
_BINARY_TYPES = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
Sizes = npt.NDArray[np.int64]


class RowGroupReadPlan(NamedTuple):
    """How to read the columns of a Parquet row group.

    Attributes:
        dictionaries: paths of columns to read with their dictionary encoding.
        rows: number of rows per read.
    """

    dictionaries: tuple[str, ...]
    rows: int


def read_rows(
    path: str, columns: Sequence[str], *, budget_bytes: int, topic_partition: TopicPartition | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in order, with plain columns in place of dictionaries.

    Args:
        path: path or URL of the file.
        columns: names of columns to read. Missing columns are skipped.
        budget_bytes: approximate memory limit, in bytes.
        topic_partition: topic and partition of the rows to read, for files that have these columns; None reads all
            rows.

    Raises:
        OSError, pa.ArrowException, ValueError: the file cannot be read.
    """
    (fragment,) = ds.dataset(path, format="parquet").get_fragments()
    with fragment.filesystem.open_input_file(fragment.path) as file:
        metadata = pq.read_metadata(file)
        file_columns = pq.ParquetFile(file, metadata=metadata).schema_arrow.names
        names = [name for name in columns if name in file_columns]
        read_columns = [*names, *(("topic", "partition") if topic_partition is not None else ())]
        for number in range(metadata.num_row_groups):
            if topic_partition is not None and not _has_rows_of_partition(file, metadata, number, topic_partition):
                continue
            choice = plan_row_group(metadata.row_group(number), read_columns, budget_bytes)
            reader = _open_file(file, metadata, choice.dictionaries)
            for batch in reader.iter_batches(choice.rows, row_groups=[number], columns=read_columns, use_threads=False):
                rows = batch if topic_partition is None else batch.filter(_matches_partition(batch, topic_partition))
                yield from split_rows(rows.select(names), min(MAX_BATCH_BYTES, max(budget_bytes // 16, 1)))


def read_column_names(path: str) -> list[str]:
    """Return the names of a file's columns."""
    names: list[str] = ds.dataset(path, format="parquet").schema.names
    return names


def _open_file(file: Any, metadata: Any, dictionaries: Sequence[str]) -> Any:
    return pq.ParquetFile(
        file,
        metadata=metadata,
        read_dictionary=list(dictionaries),
        pre_buffer=False,
        buffer_size=_READ_BUFFER_BYTES,
    )


def _has_rows_of_partition(file: Any, metadata: Any, number: int, topic_partition: TopicPartition) -> bool:
    """Return whether a row group has rows of a topic partition."""
    batches = _open_file(file, metadata, ("topic",)).iter_batches(
        _MAX_READ_ROWS, row_groups=[number], columns=["topic", "partition"], use_threads=False
    )
    return any(pc.any(_matches_partition(batch, topic_partition)).as_py() for batch in batches)


def _matches_partition(batch: pa.RecordBatch, topic_partition: TopicPartition) -> pa.Array:
    """Return a flag for each row: whether it belongs to a topic partition."""
    topics = _decode_dictionaries(batch.column("topic")).cast(pa.large_string())
    return pc.and_(
        pc.equal(topics, topic_partition.topic),
        pc.equal(_decode_dictionaries(batch.column("partition")), topic_partition.partition),
    )


def plan_row_group(group: Any, columns: Sequence[str], budget_bytes: int) -> RowGroupReadPlan:
    """Decide which columns of a row group to read as dictionaries, and how many rows per read.

    A column chunk within its share of the budget is read as a dictionary if it has one, because the dictionary is not
    larger than the chunk. If a chunk exceeds its share, few rows are read at a time.
    """
    share = max(budget_bytes // _BUDGET_SHARE_COUNT, 1)
    dictionaries, rows = [], _MAX_READ_ROWS
    for number in range(group.num_columns):
        chunk = group.column(number)
        path, size = chunk.path_in_schema, chunk.total_uncompressed_size
        if path.partition(".")[0] not in columns or chunk.physical_type not in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
            continue
        if size > share:
            per_row = max(size // max(group.num_rows, 1), 1)
            rows = min(rows, max(min(share // (4 * per_row), _MAX_LARGE_CHUNK_ROWS), 1))
        elif chunk.physical_type == "BYTE_ARRAY" and any("DICTIONARY" in name for name in chunk.encodings):
            dictionaries.append(path)
    return RowGroupReadPlan(tuple(dictionaries), rows)


def split_rows(rows: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most ``max_bytes`` bytes, or of one larger row, with all dictionaries decoded."""
    if not rows.num_rows:
        return
    sizes = np.full(rows.num_rows, _OTHER_COLUMNS_BYTES_PER_ROW, np.int64)
    for name in _PAYLOAD_COLUMNS:
        if name in rows.schema.names:
            sizes += _compute_value_sizes(rows.column(name))
    ends = np.cumsum(sizes)
    start = 0
    while start < rows.num_rows:
        start_bytes = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, start_bytes + max_bytes, side="right")), start + 1)
        part = rows.slice(start, stop - start)
        yield pa.RecordBatch.from_arrays(
            [_decode_dictionaries(column) for column in part.columns], names=part.schema.names
        )
        start = stop


def _compute_value_sizes(column: pa.Array) -> Sizes:
    """Return the size of each value of a column in bytes, including nested values."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        sizes = _compute_value_sizes(column.dictionary)
        if not len(sizes):
            return np.zeros(len(column), np.int64)
        return np.where(column.is_null(), 0, sizes[pc.fill_null(column.indices, 0).to_numpy(zero_copy_only=False)])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(_compute_value_sizes(column.values))])
        offsets = column.offsets.to_numpy()
        result: Sizes = ends[offsets[1:]] - ends[offsets[:-1]]
        return result
    if pa.types.is_struct(kind):
        total = np.zeros(len(column), np.int64)
        for number in range(kind.num_fields):
            total += _compute_value_sizes(column.field(number))
        return total
    if any(test(kind) for test in _BINARY_TYPES):
        lengths: Sizes = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        return lengths
    return np.full(len(column), max(column.nbytes // max(len(column), 1), 0), np.int64)


def _decode_dictionaries(column: pa.Array) -> pa.Array:
    """Return a column with all dictionaries decoded, including nested ones. Only the rows of a slice are copied."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.dictionary_decode()
    if not _has_dictionary(kind):
        return column
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(kind):
        children = [_decode_dictionaries(column.field(number)) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, names=[field.name for field in kind], mask=mask)
    offsets = column.offsets.to_numpy()
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    values = _decode_dictionaries(column.values.slice(first, last - first))
    return pa.ListArray.from_arrays(pa.array((offsets - first).astype(np.int32)), values, mask=mask)


def _has_dictionary(kind: pa.DataType) -> bool:
    """Return whether a type contains dictionary-encoded values."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _has_dictionary(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_dictionary(field.type) for field in kind)
    return bool(pa.types.is_dictionary(kind))
