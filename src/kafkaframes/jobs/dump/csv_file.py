"""Write batches of records to a CSV file.

Timestamps of the years 1 to 9999 are ISO 8601. Others are milliseconds since 1970, because Arrow formats other years
incorrectly.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from kafkaframes.scan.values.instants import format_instants, is_in_calendar

TIMESTAMP_COLUMN = "timestamp"  # name of the column that is formatted as text
_OPTIONS_WITHOUT_HEADER = pyarrow.csv.WriteOptions(include_header=False)


class CsvFile:
    """A CSV file of record batches with one schema. The first line of the file contains the column names."""

    def __init__(self, file: Any, schema: pa.Schema) -> None:
        self._file = file
        pyarrow.csv.write_csv(schema.empty_table(), file)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        times = batch.column(TIMESTAMP_COLUMN)
        if not pc.all(is_in_calendar(times.cast(pa.int64()))).as_py():
            index = batch.schema.get_field_index(TIMESTAMP_COLUMN)
            batch = batch.set_column(index, pa.field(TIMESTAMP_COLUMN, pa.string()), format_instants(times))
        pyarrow.csv.write_csv(batch, self._file, _OPTIONS_WITHOUT_HEADER)
