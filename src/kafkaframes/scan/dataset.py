"""A scan as a dataset of pyarrow's: the only form of Python objects that DuckDB hands columns and filters to.

Not in ``frames.py``, since ``pyarrow.dataset`` takes memory that few scans need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from kafkaframes.scan.slices import Rows


class ScanDataset(ds.Dataset):  # type: ignore[misc]
    """A scan as a dataset of pyarrow's, as far as DuckDB uses one."""

    def __init__(self, scan: Rows) -> None:
        self._scan = scan

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._scan.schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: ds.Expression | None = None,  # noqa: A002 (pyarrow's name)
        **_: Any,
    ) -> ds.Scanner:
        """Return what reads these columns of the rows that the filter keeps."""
        known = self.schema.names
        names, text = known if columns is None else list(columns), "" if filter is None else str(filter)
        needed = [name for name in known if name in names or name in text]
        batches = self._scan.select(*(needed or known[:1])).to_batches()
        reader = pa.RecordBatchReader.from_batches(batches.schema, batches)
        return ds.Scanner.from_batches(reader, columns=names, filter=filter)
