"""Describe Iceberg data files from Parquet footers, without Python's ``datetime``.

pyiceberg 0.12 reads the minimum and maximum timestamp of a file as ``datetime``, which ends with the year 9999. Kafka
timestamps may exceed it. The footer has both bounds as numbers, and Iceberg stores them as numbers too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_MAX_MICROSECONDS = 253_402_300_799_999_999  # end of the year 9999
_MIN_MICROSECONDS = -62_135_596_800_000_000  # start of the year 1
_LAST_DAY, _FIRST_DAY = 2_932_896, -719_162


def describe_data_files(metadata: Any, io: Any, paths: list[str]) -> Iterator[Any]:
    """Yield pyiceberg's description of each Parquet file.

    Args:
        metadata: table metadata of the transaction.
        io: file IO of the table.
        paths: paths of the Parquet files.
    """
    from pyarrow.parquet import read_metadata
    from pyiceberg.io import pyarrow as library
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    schema = metadata.schema()
    plan = library.compute_statistics_plan(schema, metadata.properties)
    mapping = library.parquet_path_to_id_mapping(schema)
    for path in paths:
        file = io.new_input(path)
        with file.open() as stream:
            footer = read_metadata(stream)
        library._check_pyarrow_schema_compatible(
            schema, footer.schema.to_arrow_schema(), format_version=metadata.format_version
        )
        statistics = library.data_file_statistics_from_parquet_metadata(_Footer(footer), plan, mapping)
        yield DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=statistics.partition(metadata.spec(), schema),
            file_size_in_bytes=len(file),
            sort_order_id=None,
            spec_id=metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


class _FooterWrapper:
    """A wrapper around a part of a Parquet footer that overrides some of its attributes."""

    def __init__(self, part: Any) -> None:
        self._part = part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


class _Footer(_FooterWrapper):
    """A Parquet footer whose date and timestamp bounds are numbers."""

    def row_group(self, number: int) -> _RowGroupWrapper:
        return _RowGroupWrapper(self._part.row_group(number))


class _RowGroupWrapper(_FooterWrapper):
    """A row group of a Parquet footer whose columns are ``_ColumnWrapper`` objects."""

    def column(self, number: int) -> _ColumnWrapper:
        return _ColumnWrapper(self._part.column(number))


class _ColumnWrapper(_FooterWrapper):
    """A column chunk of a Parquet footer, with numeric bounds for dates and timestamps."""

    @property
    def statistics(self) -> Any:
        statistics = self._part.statistics
        is_time = statistics is not None and statistics.logical_type.type in ("TIMESTAMP", "DATE")
        return _NumericBounds(statistics) if is_time else statistics


class _NumericBounds(_FooterWrapper):
    """Column statistics with the raw numbers of a date or timestamp as minimum and maximum."""

    @property
    def min(self) -> Any:
        return self._part.min_raw

    @property
    def max(self) -> Any:
        return self._part.max_raw


def find_columns_beyond_datetime(rows: pa.Table) -> list[str]:
    """Return the names of columns that have a date or timestamp outside the years 1 to 9999."""
    result = []
    for field in rows.schema:
        if pa.types.is_timestamp(field.type):
            values, bounds = rows.column(field.name).cast(pa.int64()), (_MIN_MICROSECONDS, _MAX_MICROSECONDS)
        elif pa.types.is_date32(field.type):
            values, bounds = rows.column(field.name).cast(pa.int32()), (_FIRST_DAY, _LAST_DAY)
        else:
            continue
        min_and_max = pc.min_max(values).as_py()
        if min_and_max["min"] is not None and not (bounds[0] <= min_and_max["min"] and min_and_max["max"] <= bounds[1]):
            result.append(field.name)
    return result
