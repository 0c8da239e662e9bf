"""The columns of ``kafka-log``: names and types in Spark, for each of its tables.

The first eight columns of the table ``records`` are those of Spark's own Kafka source, in its order; the rest are facts
of the batch that a record came in, given when ``columns`` names them. The table ``batches`` gives all of its columns.
With ``decode=internal`` records have the columns ``INTERNAL``: the decoded ones in place of key and value.

Spark compares the schema of a source's first batch with its own to the letter: ``binary`` is not ``large_binary``, the
field of a list is named ``element``, timestamps are microseconds in UTC, strings are no dictionary.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.records import arrays

NAMES_TYPE = "array<string>"
HEADERS_TYPE = "array<struct<key: string, value: binary>>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: in Spark.
        type: in Spark's DDL.
        meaning: for the documentation.
        source: the column of ``records`` it is made from; empty for what the segment says (topic, partition, file).
    """

    name: str
    type: str
    meaning: str
    source: str = ""


SOURCE = Column("source", "string", "the log directory that the copy lies in")
RECORDS = (
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
    SOURCE,
)
BATCHES = (
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
    SOURCE,
)
INTERNAL = (
    *RECORDS[2:6],
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
    Column("error", "string", "why the record cannot be decoded (mode PERMISSIVE)"),
    *RECORDS[6:],
)
DECODED = ("recordType", "version", "key", "value", "error")
SEGMENTS = (
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
    SOURCE,
)
TABLES: Mapping[str, tuple[Column, ...]] = {
    "records": RECORDS,
    "batches": BATCHES,
    "segments": SEGMENTS,
    "internal": INTERNAL,
}
SPARKS_OWN = tuple(column.name for column in RECORDS[:7])
_DEFAULTS = {
    "records": SPARKS_OWN,
    "batches": tuple(column.name for column in BATCHES if column is not SOURCE),
    "internal": (*(column.name for column in RECORDS[2:6]), *DECODED),
    "segments": tuple(column.name for column in SEGMENTS if column is not SOURCE),
}


def choose_columns(
    wanted: Sequence[str] | None, *, include_headers: bool = False, table: str = "records", source: bool = False
) -> tuple[Column, ...]:
    """Return the columns in the order wanted; by default those of Spark's Kafka source, or all of ``batches``.

    ``source`` adds that column, without which the rows of two copies could not be distinguished.

    Raises:
        OptionError: a name is unknown or given twice.
    """
    names = list(wanted or _DEFAULTS[table])
    if include_headers and table in ("records", "internal") and "headers" not in [name.lower() for name in names]:
        names.append("headers")
    if source and SOURCE.name not in [name.lower() for name in names]:
        names.append(SOURCE.name)
    known = {column.name.lower(): column for column in TABLES[table]}
    chosen = tuple(_column(name, known) for name in names)
    for position, column in enumerate(chosen):
        if column in chosen[:position]:
            raise OptionError(f"columns: {column.name} is named twice")
    return chosen


def _column(name: str, known: Mapping[str, Column]) -> Column:
    if name.lower() not in known:
        near = difflib.get_close_matches(name.lower(), known, n=1)
        names = ", ".join(column.name for column in known.values())
        advice = f"did you mean {known[near[0]].name}?" if near else f"one of {names}"
        raise OptionError(f"columns: no column {name}; {advice}")
    return known[name.lower()]


def ddl(columns: Sequence[Column], comment: str = "") -> str:
    """Return the schema as Spark's DDL, with a comment (that needs no escaping) on the first column.

    >>> ddl(choose_columns(["offset", "timestampType"]))
    '`offset` bigint, `timestampType` int'
    """
    first, *others = (f"`{column.name}` {column.type}" for column in columns)
    return ", ".join([f"{first} COMMENT '{comment}'" if comment else first, *others])


ARROW_TYPES: dict[str, pa.DataType] = {
    NAMES_TYPE: pa.list_(pa.field("element", pa.string())),
    "binary": pa.binary(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": arrays.INSTANT,
    HEADERS_TYPE: pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
}


class Origin(Protocol):
    """Where rows come from, a segment or a live topic partition: what all of them say alike."""

    @property
    def topic(self) -> str:
        """The topic's name."""

    @property
    def partition(self) -> int:
        """The partition's number."""

    @property
    def path(self) -> str:
        """The path of the file; empty for a live partition."""

    @property
    def source(self) -> str:
        """The log directory that the file lies in; likewise."""


# What the origin of records says of all of them.
_OF_ORIGIN: dict[str, Callable[[Origin], Any]] = {
    "topic": lambda origin: origin.topic,
    "partition": lambda origin: origin.partition,
    "file": lambda origin: origin.path,
    "source": lambda origin: origin.source,
}


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema that Spark expects of these columns."""
    return pa.schema([pa.field(column.name, ARROW_TYPES[column.type]) for column in columns])


class Conversion:
    """How batches of the room ``records`` become those that Spark asks for: planned once, for a whole task.

    Attributes:
        schema: of the batches for Spark.
        sources: the columns of ``records`` that they are made from; one at least, since rows are counted by it.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.schema = arrow_schema(columns)
        self.sources = tuple(column.source for column in columns if column.source) or ("offset",)
        self._steps = [(column, _CONVERSIONS.get(column.type, _as_it_is)) for column in columns]

    def batch(self, batch: pa.RecordBatch, origin: Origin) -> pa.RecordBatch:
        """Return the Arrow batch for Spark that has the rows of ``batch``, which are records of ``origin``."""
        made = [
            convert(batch.column(column.source)) if column.source else repeated(column, origin, batch.num_rows)
            for column, convert in self._steps
        ]
        return pa.RecordBatch.from_arrays(made, schema=self.schema)


def repeated(column: Column, origin: Origin, rows: int) -> pa.Array:
    """Return a column that says of each row what its origin says."""
    return arrays.repeated(_OF_ORIGIN[column.name](origin), ARROW_TYPES[column.type], rows)


def _as_it_is(array: pa.Array) -> pa.Array:
    return array


def _null_where_empty(array: pa.Array) -> pa.Array:
    """Records without headers have null headers in Spark's Kafka source."""
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, offset=4 * array.offset)
    there = np.packbits(offsets[1:] > offsets[:-1], bitorder="little")
    buffers = [pa.py_buffer(there), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(ARROW_TYPES[HEADERS_TYPE], len(array), buffers, children=[array.values])


_CONVERSIONS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "timestamp": arrays.instants_of,
    "string": lambda array: array.cast(pa.string()),
    HEADERS_TYPE: _null_where_empty,
}


TARGET_BYTES = 1 << 20


def rebatch(batches: Iterable[pa.RecordBatch], *, target: int = TARGET_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order, in batches of about ``target`` bytes; empty batches are left out.

    A row is never cut: one that is larger than the target is a batch of its own.
    """
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if waiting and waiting_bytes + batch.nbytes > target:
            yield _joined(waiting)
            waiting, waiting_bytes = [], 0
        if not waiting and batch.nbytes > target // 2:  # joining copies: not worth it for what is nearly there
            yield from _cut(batch, target)
        else:
            waiting.append(batch)
            waiting_bytes += batch.nbytes
    if waiting:
        yield _joined(waiting)


def _cut(batch: pa.RecordBatch, target: int) -> Iterator[pa.RecordBatch]:
    pieces = max(1, round(batch.nbytes / target))
    rows = -(-batch.num_rows // pieces)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
