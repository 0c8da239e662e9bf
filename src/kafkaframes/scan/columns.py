"""Column names and Spark types of the tables of the Spark source ``kafka-log``.

The first eight columns of the table ``records`` are those of Spark's own Kafka source, in its order. The others are
batch metadata, which is read only if the option ``columns`` names it. The table ``batches`` has all of its columns by
default. With ``decode=internal``, records have the columns ``INTERNAL_COLUMNS``: decoded columns replace key and value.

The Arrow types are in ``arrow.py``. Spark plans with names alone, in processes that do not import Arrow.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkaframes.errors import OptionError

NAMES_TYPE = "array<string>"
HEADERS_TYPE = "array<struct<key: string, value: binary>>"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: Name in Spark.
        type: Type in Spark's DDL.
        meaning: Description for the documentation.
        source: Column of ``records`` from which it is computed; empty for columns of the segment (topic, partition,
            file).
    """

    name: str
    type: str
    meaning: str
    source: str = ""


SOURCE_COLUMN = Column("source", "string", "the log directory that the copy lies in")
RECORD_COLUMNS = (
    Column("key", "binary", "null where the record has none", "key"),
    Column("value", "binary", "null for a tombstone", "value"),
    Column("topic", "string", "from the directory's name"),
    Column("partition", "int", "from the directory's name"),
    Column("offset", "bigint", "", "offset"),
    Column(
        "timestamp", "timestamp", "-1 ms (1969-12-31 23:59:59.999 UTC) where there is none, as in Spark", "timestamp"
    ),
    Column("timestampType", "int", "0 CreateTime, 1 LogAppendTime, -1 none (message format 0)", "timestamp_type"),
    Column("headers", HEADERS_TYPE, "null where there are none, as in Spark", "headers"),
    Column("baseOffset", "bigint", "first offset of the batch", "base_offset"),
    Column("position", "bigint", "byte position of the batch in its segment", "position"),
    Column("magic", "tinyint", "message format: 0, 1 or 2", "magic"),
    Column("codec", "string", "none, gzip, snappy, lz4 or zstd", "codec"),
    Column("producerId", "bigint", "-1 without idempotence", "producer_id"),
    Column("producerEpoch", "smallint", "", "producer_epoch"),
    Column("sequence", "int", "of the record, -1 without idempotence", "sequence"),
    Column("leaderEpoch", "int", "-1 before format 2", "leader_epoch"),
    Column("transactional", "boolean", "written in a transaction", "transactional"),
    Column("control", "boolean", "a transaction marker (see includeControlRecords)", "control"),
    Column("crcOk", "boolean", "the batch's checksum is right", "crc_ok"),
    Column("file", "string", "path of the segment"),
    SOURCE_COLUMN,
)
BATCH_COLUMNS = (
    Column("topic", "string", "from the directory's name"),
    Column("partition", "int", "from the directory's name"),
    Column("file", "string", "path of the segment"),
    Column("position", "bigint", "byte position of the batch in its segment"),
    Column("sizeBytes", "bigint", "of the whole batch; what lies behind where the framing breaks is one row"),
    Column("magic", "tinyint", "message format: 0, 1 or 2"),
    Column("codec", "string", "none, gzip, snappy, lz4, zstd or unknown"),
    Column("baseOffset", "bigint", "formats 0 and 1: of a message; of a compressed one its last offset"),
    Column("lastOffset", "bigint", ""),
    Column("recordCount", "int", "as the header says; null in formats 0 and 1"),
    Column("readableRecords", "int", "with deepIteration: how many can be read"),
    Column("maxTimestamp", "timestamp", ""),
    Column("timestampType", "int", "0 CreateTime, 1 LogAppendTime, -1 none (message format 0)"),
    Column("producerId", "bigint", "-1 without idempotence"),
    Column("producerEpoch", "smallint", ""),
    Column("baseSequence", "int", ""),
    Column("leaderEpoch", "int", "-1 before format 2"),
    Column("transactional", "boolean", "written in a transaction"),
    Column("control", "boolean", "a transaction marker, or another control record"),
    Column("crcOk", "boolean", "the checksum is right; null with verifyCrc=false"),
    Column("error", "string", "what is wrong: the checksum, the framing; with deepIteration the records too"),
    SOURCE_COLUMN,
)
INTERNAL_COLUMNS = (
    *RECORD_COLUMNS[2:6],
    Column(
        "recordType",
        "string",
        "OffsetCommit, TransactionLog, PartitionChangeRecord, ...; of control records COMMIT, ...",
    ),
    Column("version", "int", "of the value's format; null for a tombstone"),
    Column(
        "key", "string", "Kafka's JSON form of the key; null for records that have none (cluster and remote metadata)"
    ),
    Column("value", "string", "Kafka's JSON form of the value; null for a tombstone"),
    Column("error", "string", "why the record cannot be decoded (on_damage=keep)"),
    *RECORD_COLUMNS[6:],
)
DECODED_COLUMNS = ("recordType", "version", "key", "value", "error")
SEGMENT_COLUMNS = (
    Column("topic", "string", "from the directory's name"),
    Column("partition", "int", "from the directory's name"),
    Column("file", "string", "path of the segment"),
    Column("baseOffset", "bigint", "in the file's name"),
    Column("nextOffset", "bigint", "after the last batch"),
    Column("sizeBytes", "bigint", "a preallocated tail included"),
    Column(
        "firstTimestamp", "timestamp", "of the first batch's first record; of the last one if it is compressed (0, 1)"
    ),
    Column("maxTimestamp", "timestamp", "from the time index and what lies behind it"),
    Column("modified", "timestamp", "the file's; null where a store keeps none"),
    Column("magic", "tinyint", "message format of the first batch; with deepIteration the largest of all"),
    Column("codec", "string", "of the first batch; with deepIteration of all, comma separated"),
    Column("batches", "bigint", "with deepIteration"),
    Column("records", "bigint", "with deepIteration, as the headers say; null with formats 0 and 1"),
    Column("beside", NAMES_TYPE, "names of the index and snapshot files of this segment"),
    Column("error", "string", "why it could not be read"),
    SOURCE_COLUMN,
)
TABLE_COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "records": RECORD_COLUMNS,
    "batches": BATCH_COLUMNS,
    "segments": SEGMENT_COLUMNS,
    "internal": INTERNAL_COLUMNS,
}
SPARK_COLUMNS = tuple(column.name for column in RECORD_COLUMNS[:7])
_DEFAULT_COLUMNS = {
    "records": SPARK_COLUMNS,
    "batches": tuple(column.name for column in BATCH_COLUMNS if column is not SOURCE_COLUMN),
    "internal": (*(column.name for column in RECORD_COLUMNS[2:6]), *DECODED_COLUMNS),
    "segments": tuple(column.name for column in SEGMENT_COLUMNS if column is not SOURCE_COLUMN),
}


def choose_columns(
    names_or_none: Sequence[str] | None, *, include_headers: bool = False, table: str = "records", source: bool = False
) -> tuple[Column, ...]:
    """Return the columns in the given order; by default those of Spark's Kafka source, or all of ``batches``.

    ``source`` adds the column ``source``, which distinguishes the rows of two replicas.

    Raises:
        OptionError: A name is unknown or given twice.
    """
    names = list(names_or_none or _DEFAULT_COLUMNS[table])
    if include_headers and table in ("records", "internal") and "headers" not in [name.lower() for name in names]:
        names.append("headers")
    if source and SOURCE_COLUMN.name not in [name.lower() for name in names]:
        names.append(SOURCE_COLUMN.name)
    columns_by_name = {column.name.lower(): column for column in TABLE_COLUMNS[table]}
    columns = tuple(_column(name, columns_by_name) for name in names)
    for position, column in enumerate(columns):
        if column in columns[:position]:
            raise OptionError(f"columns: {column.name} is named twice")
    return columns


def _column(name: str, columns_by_name: Mapping[str, Column]) -> Column:
    if name.lower() not in columns_by_name:
        near = difflib.get_close_matches(name.lower(), columns_by_name, n=1)
        names = ", ".join(column.name for column in columns_by_name.values())
        advice = f"did you mean {columns_by_name[near[0]].name}?" if near else f"one of {names}"
        raise OptionError(f"columns: no column {name}; {advice}")
    return columns_by_name[name.lower()]


def ddl(columns: Sequence[Column], comment: str = "") -> str:
    """Return the schema as Spark DDL, with a comment on the first column. The comment must not need escaping.

    >>> ddl(choose_columns(["offset", "timestampType"]))
    '`offset` bigint, `timestampType` int'
    """
    first, *others = (f"`{column.name}` {column.type}" for column in columns)
    return ", ".join([f"{first} COMMENT '{comment}'" if comment else first, *others])
