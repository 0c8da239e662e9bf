"""The columns of ``kafka-log``: Spark's name and type, and the column of ``records`` each is made from. No pyspark.

The first eight are those of Spark's own Kafka source, in its order; the rest are facts of the batch that a record came
in, given when ``columns`` names them.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkaframes.errors import OptionError

HEADERS_TYPE = "array<struct<key: string, value: binary>>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: in Spark.
        type: in Spark's DDL.
        source: the column of ``records``; empty for what the segment itself tells (topic, partition, file).
        meaning: for the documentation.
    """

    name: str
    type: str
    source: str
    meaning: str


_ROWS = (
    Column("key", "binary", "key", "null where the record has none"),
    Column("value", "binary", "value", "null for a tombstone"),
    Column("topic", "string", "", "from the directory's name"),
    Column("partition", "int", "", "from the directory's name"),
    Column("offset", "bigint", "offset", ""),
    Column(
        "timestamp", "timestamp", "timestamp", "-1 ms (1969-12-31 23:59:59.999 UTC) where there is none, as in Spark"
    ),
    Column("timestampType", "int", "timestamp_type", "0 CreateTime, 1 LogAppendTime, -1 none (message format 0)"),
    Column("headers", HEADERS_TYPE, "headers", "null where there are none, as in Spark"),
    Column("baseOffset", "bigint", "base_offset", "first offset of the batch"),
    Column("position", "bigint", "position", "byte position of the batch in its segment"),
    Column("magic", "tinyint", "magic", "message format: 0, 1 or 2"),
    Column("codec", "string", "codec", "none, gzip, snappy, lz4 or zstd"),
    Column("producerId", "bigint", "producer_id", "-1 without idempotence"),
    Column("producerEpoch", "smallint", "producer_epoch", ""),
    Column("sequence", "int", "sequence", "of the record, -1 without idempotence"),
    Column("leaderEpoch", "int", "leader_epoch", "-1 before format 2"),
    Column("transactional", "boolean", "transactional", "written in a transaction"),
    Column("control", "boolean", "control", "a transaction marker (see includeControlRecords)"),
    Column("crcOk", "boolean", "crc_ok", "the batch's checksum is right"),
    Column("file", "string", "", "path of the segment"),
)
COLUMNS: Mapping[str, Column] = {column.name.lower(): column for column in _ROWS}
SPARKS_OWN = tuple(column.name for column in _ROWS[:7])


def choose_columns(wanted: Sequence[str] | None, *, include_headers: bool) -> tuple[Column, ...]:
    """Return the columns in the order wanted; by default those of Spark's Kafka source.

    Raises:
        OptionError: a name is unknown or given twice.
    """
    names = list(wanted or SPARKS_OWN)
    if include_headers and "headers" not in [name.lower() for name in names]:
        names.append("headers")
    chosen = tuple(_column(name) for name in names)
    for position, column in enumerate(chosen):
        if column in chosen[:position]:
            raise OptionError(f"columns: {column.name} is named twice")
    return chosen


def _column(name: str) -> Column:
    if name.lower() not in COLUMNS:
        near = difflib.get_close_matches(name.lower(), COLUMNS, n=1)
        advice = f"did you mean {COLUMNS[near[0]].name}?" if near else f"one of {', '.join(c.name for c in _ROWS)}"
        raise OptionError(f"columns: no column {name}; {advice}")
    return COLUMNS[name.lower()]


def ddl(columns: Sequence[Column]) -> str:
    """Return the schema as Spark's DDL.

    >>> ddl(choose_columns(["offset", "timestampType"], include_headers=False))
    '`offset` bigint, `timestampType` int'
    """
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)
