"""Column names and Spark types of the tables of the Spark source ``kafka-log``.

The first eight columns of the table ``records`` are those of Spark's own Kafka source, in its order. Its other columns
contain batch metadata and are read only if the option ``columns`` names them. The table ``batches`` has all of its
columns by default. With ``decode=internal``, records have the columns ``INTERNAL_COLUMNS``: decoded columns replace key
and value.

The Arrow types are in ``arrow.py``. Spark plans a query by column names alone, in processes that do not import Arrow.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkaframes.errors import OptionError

NAME_LIST_TYPE = "array<string>"
HEADERS_TYPE = "array<struct<key: string, value: binary>>"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a ``kafka-log`` table.

    Attributes:
        name: Name in Spark.
        type: Type in Spark's DDL.
        meaning: Description for the documentation.
        source: Column of ``records`` from which this column is computed; empty for columns of the segment (topic,
            partition, file).
    """

    name: str
    type: str
    meaning: str
    source: str = ""


SOURCE_COLUMN = Column("source", "string", "log directory that contains this copy")
RECORD_COLUMNS = (
    Column("key", "binary", "key of the record, or null", "key"),
    Column("value", "binary", "value of the record; null for a tombstone", "value"),
    Column("topic", "string", "topic name, from the directory's name"),
    Column("partition", "int", "partition number, from the directory's name"),
    Column("offset", "bigint", "", "offset"),
    Column(
        "timestamp",
        "timestamp",
        "timestamp; -1 ms (1969-12-31 23:59:59.999 UTC) if the record has none, as in Spark",
        "timestamp",
    ),
    Column(
        "timestampType",
        "int",
        "timestamp type: 0 CreateTime, 1 LogAppendTime, -1 none (record format 0)",
        "timestamp_type",
    ),
    Column("headers", HEADERS_TYPE, "headers; null if the record has none, as in Spark", "headers"),
    Column("baseOffset", "bigint", "first offset of the batch", "base_offset"),
    Column("position", "bigint", "byte position of the batch in its segment", "position"),
    Column("magic", "tinyint", "record format: 0, 1 or 2", "magic"),
    Column("codec", "string", "codec of the batch: none, gzip, snappy, lz4 or zstd", "codec"),
    Column("producerId", "bigint", "-1 without idempotence", "producer_id"),
    Column("producerEpoch", "smallint", "", "producer_epoch"),
    Column("sequence", "int", "sequence number of the record; -1 without idempotence", "sequence"),
    Column("leaderEpoch", "int", "leader epoch of the batch; -1 in record formats 0 and 1", "leader_epoch"),
    Column("transactional", "boolean", "whether the batch was written in a transaction", "transactional"),
    Column("control", "boolean", "whether the record is a control record (see includeControlRecords)", "control"),
    Column("crcOk", "boolean", "whether the batch's checksum is correct", "crc_ok"),
    Column("file", "string", "path of the segment"),
    SOURCE_COLUMN,
)
BATCH_COLUMNS = (
    Column("topic", "string", "topic name, from the directory's name"),
    Column("partition", "int", "partition number, from the directory's name"),
    Column("file", "string", "path of the segment"),
    Column("position", "bigint", "byte position of the batch in its segment"),
    Column("sizeBytes", "bigint", "size of the batch; bytes after broken framing are one row"),
    Column("magic", "tinyint", "record format: 0, 1 or 2"),
    Column("codec", "string", "codec of the batch: none, gzip, snappy, lz4, zstd or unknown"),
    Column("baseOffset", "bigint", "first offset; in formats 0 and 1, the last offset of a compressed message"),
    Column("lastOffset", "bigint", ""),
    Column("recordCount", "int", "record count in the header; null in formats 0 and 1"),
    Column("readableRecords", "int", "number of readable records; only with deepIteration"),
    Column("maxTimestamp", "timestamp", ""),
    Column("timestampType", "int", "timestamp type: 0 CreateTime, 1 LogAppendTime, -1 none (record format 0)"),
    Column("producerId", "bigint", "-1 without idempotence"),
    Column("producerEpoch", "smallint", ""),
    Column("baseSequence", "int", ""),
    Column("leaderEpoch", "int", "leader epoch of the batch; -1 in record formats 0 and 1"),
    Column("transactional", "boolean", "whether the batch was written in a transaction"),
    Column("control", "boolean", "whether the batch is a control batch, such as a transaction marker"),
    Column("crcOk", "boolean", "whether the checksum is correct; null with verifyCrc=false"),
    Column("error", "string", "error in checksum or framing; with deepIteration also in records"),
    SOURCE_COLUMN,
)
INTERNAL_COLUMNS = (
    *RECORD_COLUMNS[2:6],
    Column(
        "recordType",
        "string",
        "type of the record, such as OffsetCommit or PartitionChangeRecord; COMMIT or ABORT for markers",
    ),
    Column("version", "int", "version of the value's format; null for a tombstone"),
    Column("key", "string", "key in Kafka's JSON form; null in cluster and remote metadata"),
    Column("value", "string", "value in Kafka's JSON form; null for a tombstone"),
    Column("error", "string", "reason why the record cannot be decoded (on_damage=keep)"),
    *RECORD_COLUMNS[6:],
)
DECODED_COLUMNS = ("recordType", "version", "key", "value", "error")
SEGMENT_COLUMNS = (
    Column("topic", "string", "topic name, from the directory's name"),
    Column("partition", "int", "partition number, from the directory's name"),
    Column("file", "string", "path of the segment"),
    Column("baseOffset", "bigint", "offset in the file's name"),
    Column("nextOffset", "bigint", "offset after the last batch"),
    Column("sizeBytes", "bigint", "file size, including a preallocated tail"),
    Column(
        "firstTimestamp",
        "timestamp",
        "timestamp of the first record; in a compressed message of format 0 or 1, of its last record",
    ),
    Column("maxTimestamp", "timestamp", "maximum in the time index and the batches after its last entry"),
    Column("modified", "timestamp", "modification time of the file; null if the store has none"),
    Column("magic", "tinyint", "record format of the first batch; with deepIteration the highest of all"),
    Column("codec", "string", "codec of the first batch; with deepIteration all codecs, comma-separated"),
    Column("batches", "bigint", "number of batches; only with deepIteration"),
    Column("records", "bigint", "record count in the headers; only with deepIteration; null in formats 0 and 1"),
    Column("beside", NAME_LIST_TYPE, "names of the segment's index and snapshot files"),
    Column("error", "string", "reason why the segment cannot be read"),
    SOURCE_COLUMN,
)
TABLE_COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "records": RECORD_COLUMNS,
    "batches": BATCH_COLUMNS,
    "segments": SEGMENT_COLUMNS,
    "internal": INTERNAL_COLUMNS,
}
SPARK_COLUMNS = tuple(column.name for column in RECORD_COLUMNS[:7])
_DEFAULT_COLUMNS_BY_TABLE = {
    "records": SPARK_COLUMNS,
    "batches": tuple(column.name for column in BATCH_COLUMNS if column is not SOURCE_COLUMN),
    "internal": (*(column.name for column in RECORD_COLUMNS[2:6]), *DECODED_COLUMNS),
    "segments": tuple(column.name for column in SEGMENT_COLUMNS if column is not SOURCE_COLUMN),
}


def choose_columns(
    names_or_none: Sequence[str] | None, *, include_headers: bool = False, table: str = "records", source: bool = False
) -> tuple[Column, ...]:
    """Return the columns in the given order; by default the columns of Spark's Kafka source, or all of ``batches``.

    ``source`` adds the column ``source``, which distinguishes the rows of two replicas.

    Raises:
        OptionError: A name is unknown or is specified twice.
    """
    names = list(names_or_none or _DEFAULT_COLUMNS_BY_TABLE[table])
    if include_headers and table in ("records", "internal") and "headers" not in [name.lower() for name in names]:
        names.append("headers")
    if source and SOURCE_COLUMN.name not in [name.lower() for name in names]:
        names.append(SOURCE_COLUMN.name)
    columns_by_name = {column.name.lower(): column for column in TABLE_COLUMNS[table]}
    columns = tuple(_find_column(name, columns_by_name) for name in names)
    for position, column in enumerate(columns):
        if column in columns[:position]:
            raise OptionError(f"columns contains {column.name} twice")
    return columns


def _find_column(name: str, columns_by_name: Mapping[str, Column]) -> Column:
    """Return the column with this name, in any letter case. Raise OptionError if it does not exist."""
    if name.lower() not in columns_by_name:
        near = difflib.get_close_matches(name.lower(), columns_by_name, n=1)
        names = ", ".join(column.name for column in columns_by_name.values())
        advice = f"did you mean {columns_by_name[near[0]].name}?" if near else f"expected one of {names}"
        raise OptionError(f"columns: {name} does not exist; {advice}")
    return columns_by_name[name.lower()]


def format_ddl(columns: Sequence[Column], comment: str = "") -> str:
    """Return the schema as Spark DDL, with a comment on the first column. The comment must not need escaping.

    >>> format_ddl(choose_columns(["offset", "timestampType"]))
    '`offset` bigint, `timestampType` int'
    """
    first, *other_columns = (f"`{column.name}` {column.type}" for column in columns)
    return ", ".join([f"{first} COMMENT '{comment}'" if comment else first, *other_columns])
