"""The latest record of each key: what the files of one commit come to, before a table takes it up.

Within a partition the greatest offset is the latest. A key is in one partition, unless the topic was given more of
them: then the greatest timestamp decides between partitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkaframes.jobs.tables.schema import latest_schema
from kafkaframes.jobs.tables.state import Commit
from kafkaframes.scan.values.columns import TOMBSTONE


def latest_of_keys(commit: Commit) -> pa.Table:
    """Return one row for each topic and key: the table's columns and ``tombstone``."""
    schema = latest_schema(commit.columns)
    tables = [_read(file.path).select(schema.names).cast(schema) for file in commit.files]
    changes = pa.concat_tables(tables) if tables else schema.empty_table()
    return _last_of(_last_of(changes, ["topic", "key", "partition"], "offset"), ["topic", "key"], "timestamp")


def _last_of(rows: pa.Table, by: list[str], order: str) -> pa.Table:
    """Return of each group the last row in an order; of rows that are equal in it, the one that comes last."""
    ordered = rows.sort_by([(order, "ascending")])
    numbered = ordered.select(by).append_column("row", pa.array(np.arange(ordered.num_rows)))
    last = numbered.group_by(by).aggregate([("row", "max")]).column("row_max")
    return ordered.take(last)


def _read(path: str) -> pa.Table:
    if "://" not in path:
        return pq.read_table(path, partitioning=None)
    import fsspec

    with fsspec.open(path, "rb") as file:
        return pq.read_table(file)


def without_tombstones(changes: pa.Table) -> pa.Table:
    """Return the rows that stay, as the table has them."""
    kept: Any = changes.filter(pc.invert(changes.column(TOMBSTONE)))
    return kept.drop_columns([TOMBSTONE])
