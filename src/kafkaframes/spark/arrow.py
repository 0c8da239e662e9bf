"""From an index of records to Arrow arrays of the very types that Spark's DDL asks for. No pyspark.

Spark compares the schema of a source's first batch with its own to the letter: ``binary`` is not ``large_binary``, the
field of a list is named ``element``, timestamps are microseconds in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import CorruptRecordError
from kafkaframes.records import _kernels
from kafkaframes.records.decode import Index, Sections
from kafkaframes.records.layout import CONTROL, TRANSACTIONAL
from kafkaframes.records.scan import Bytes, Ints, codec_names, timestamp_types
from kafkaframes.spark.columns import HEADERS_TYPE, Column
from kafkaframes.spark.planning import Segment
from kafkaframes.spark.stretches import Stretch
from kafkaframes.wire.text import java_text

_MOST_BINARY_BYTES = 2**31 - 1
_MOST_MILLISECONDS = (2**63 - 1) // 1000 - 1024  # a float64 is compared

ARROW_TYPES: dict[str, pa.DataType] = {
    "binary": pa.binary(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    HEADERS_TYPE: pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
}


class Rows(Protocol):
    """What the rows of either table know: the batches they come from."""

    @property
    def stretch(self) -> Stretch:
        """The batches."""

    @property
    def batch_of(self) -> Ints:
        """For each row its batch's place in the stretch."""

    @property
    def segment(self) -> Segment:
        """Where the batches were read."""


class Found(NamedTuple):
    """The records of a stretch that are wanted.

    Attributes:
        records: one element a record; ``batch_of`` its batch's row in ``stretch.batches``.
        valid: for each batch, whether its checksum is right (true where nobody looked).
        base_offsets: the first offset of each batch; a wrapper's header (formats 0 and 1) says the last one instead.
    """

    stretch: Stretch
    sections: Sections
    records: Index
    batch_of: Ints
    valid: npt.NDArray[np.bool_]
    base_offsets: Ints
    segment: Segment


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema that Spark expects of these columns."""
    return pa.schema([pa.field(column.name, ARROW_TYPES[column.type]) for column in columns])


def gather(found: Found, columns: Sequence[Column], schema: pa.Schema) -> pa.RecordBatch:
    """Return one Arrow batch with the columns, in their order."""
    arrays = [_MAKERS[column.name](found) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _binary(places: str, sizes: str) -> Callable[[Found], pa.Array]:
    def make(found: Found) -> pa.Array:
        parts = found.records._asdict()
        return gather_bytes(found.sections.buf, parts[places], parts[sizes])

    return make


def gather_bytes(buf: Bytes, places: npt.NDArray[Any], sizes: npt.NDArray[Any]) -> pa.Array:
    """Copy byte strings out of ``buf`` into a ``binary`` array; a size below zero is null."""
    count = sizes.size
    total = int(sizes.sum(where=sizes > 0, dtype=np.int64))
    if total > _MOST_BINARY_BYTES:
        raise CorruptRecordError(f"{total} bytes of one column in neighbouring batches: more than Arrow's binary holds")
    offsets, data = np.empty(count + 1, np.int32), np.empty(total, np.uint8)
    validity = np.empty((count + 7) // 8, np.uint8)
    nulls = _kernels.gather_binary(buf, places, sizes, count, offsets, data, validity)
    buffers = [pa.py_buffer(validity) if nulls else None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers, null_count=nulls)


def _headers(found: Found) -> pa.Array:
    counts = found.records.header_counts
    total, records = int(counts.sum(dtype=np.int64)), counts.size
    lists = np.empty(records + 1, np.int32)
    places = [np.empty(total, dtype) for dtype in (np.int64, np.int32, np.int64, np.int32)]
    _kernels.index_headers(found.sections.buf, found.records.headers_at, counts, records, lists, *places)
    keys = _text(gather_bytes(found.sections.buf, places[0], places[1]))
    values = gather_bytes(found.sections.buf, places[2], places[3])
    kind = ARROW_TYPES[HEADERS_TYPE]
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(lists), pairs, type=kind, mask=pa.array(counts == 0))


def _text(raw: pa.Array) -> pa.Array:
    """Return text; bytes that are no UTF-8 become U+FFFD, as in Java's strings."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if one is None else java_text(one) for one in raw.to_pylist()], pa.string())


def instants(milliseconds: Ints) -> pa.Array:
    """Milliseconds as microseconds; what no microseconds can say (the year 294247 and later) is null."""
    beyond = np.abs(milliseconds.astype(np.float64)) > _MOST_MILLISECONDS
    made = pa.array(milliseconds * 1000, mask=beyond if beyond.any() else None)
    return made.view(ARROW_TYPES["timestamp"])


def of_batch(name: str, dtype: Any = np.int64) -> Callable[[Rows], pa.Array]:
    """Return the maker of a column that repeats a header's field for each record of its batch."""

    def make(rows: Rows) -> pa.Array:
        return pa.array(rows.stretch.batches.column(name).astype(dtype)[rows.batch_of])

    return make


def flag(bit: int) -> Callable[[Rows], pa.Array]:
    """Return the maker of a column that tells one of the attributes of format 2."""

    def make(rows: Rows) -> pa.Array:
        batches = rows.stretch.batches
        flags = (batches.column("magic") >= 2) & ((batches.column("attributes") & bit) != 0)
        return pa.array(flags[rows.batch_of])

    return make


def timestamp_type(rows: Rows) -> pa.Array:
    """The timestamp type of each record, Kafka's number."""
    batches = rows.stretch.batches
    return pa.array(timestamp_types(batches.column("magic"), batches.column("attributes"))[rows.batch_of])


def codec(rows: Rows) -> pa.Array:
    """The codec's name of each record's batch."""
    names = codec_names(rows.stretch.batches.column("attributes"))
    return pa.array(names, pa.string()).take(pa.array(rows.batch_of))


def _sequence(found: Found) -> pa.Array:
    """Kafka's sequence numbers go on from 0 after 2^31 - 1; -1 is none (DefaultRecordBatch.incrementSequence)."""
    batches = found.stretch.batches
    bases = batches.column("base_sequence")[found.batch_of]
    deltas = found.records.offsets - batches.column("base_offset")[found.batch_of]
    return pa.array(np.where(bases < 0, -1, (bases + deltas) & 0x7FFFFFFF).astype(np.int32))


def repeated(value: Callable[[Segment], Any], kind: str) -> Callable[[Rows], pa.Array]:
    """Return the maker of a column that says of each record what its segment says."""

    def make(rows: Rows) -> pa.Array:
        return pa.repeat(pa.scalar(value(rows.segment), ARROW_TYPES[kind]), rows.batch_of.size)

    return make


def position(rows: Rows) -> pa.Array:
    """The byte position in the file of each record's batch."""
    return pa.array((rows.stretch.batches.column("position") + rows.stretch.base)[rows.batch_of])


_MAKERS: dict[str, Callable[[Found], pa.Array]] = {
    "key": _binary("key_at", "key_size"),
    "value": _binary("value_at", "value_size"),
    "topic": repeated(lambda segment: segment.topic, "string"),
    "partition": repeated(lambda segment: segment.partition, "int"),
    "offset": lambda found: pa.array(found.records.offsets),
    "timestamp": lambda found: instants(found.records.timestamps),
    "timestampType": timestamp_type,
    "headers": _headers,
    "baseOffset": lambda found: pa.array(found.base_offsets[found.batch_of]),
    "position": position,
    "magic": of_batch("magic", np.int8),
    "codec": codec,
    "producerId": of_batch("producer_id"),
    "producerEpoch": of_batch("producer_epoch", np.int16),
    "sequence": _sequence,
    "leaderEpoch": of_batch("leader_epoch", np.int32),
    "transactional": flag(TRANSACTIONAL),
    "control": flag(CONTROL),
    "crcOk": lambda found: pa.array(found.valid[found.batch_of]),
    "file": repeated(lambda segment: segment.path, "string"),
}
