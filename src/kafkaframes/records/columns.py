"""Records as Arrow columns: the native form. Many batches a kernel call, no Python for a record.

``RecordReader`` iterates over ``pa.RecordBatch``es. What is not asked for costs nothing: a column is made from the
index of records by its own function in ``COLUMNS``, and keys, values and headers are copied only then.

Modes (Spark's words): ``PERMISSIVE`` gives what Kafka's own reader would, the records of a damaged batch up to the
damage and those of a batch with a wrong CRC included; ``DROPMALFORMED`` leaves such batches out as a whole;
``FAILFAST`` raises. In the first two ``RecordReader.errors`` names each with file, position and reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import CorruptRecordError, OptionError
from kafkaframes.records import _kernels_gather, decode
from kafkaframes.records._kernels_gather import SLACK_BYTES
from kafkaframes.records._kernels_index import SKIPPED
from kafkaframes.records.chunks import CHUNK_BYTES, Chunk, Chunks, Source, pieces
from kafkaframes.records.decode import Allocate, Index, Ints32, Sections
from kafkaframes.records.fused import READY, TOLD_CRC, TOLD_ROWS, TOLD_STATUS, TOLD_WHERE, ColumnMaker, Made
from kafkaframes.records.layout import CODEC_MASK, CODECS, CONTROL, DELETE_HORIZON, TRANSACTIONAL
from kafkaframes.records.memory import Recycler
from kafkaframes.records.reasons import CRC_MISMATCH
from kafkaframes.records.scan import FILE, MEMORY, Batches, Bytes, End, Ints, check_crcs, timestamp_types
from kafkaframes.wire.text import java_text

PERMISSIVE, DROPMALFORMED, FAILFAST = "PERMISSIVE", "DROPMALFORMED", "FAILFAST"
MODES = (PERMISSIVE, DROPMALFORMED, FAILFAST)

HEADERS = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
TIMESTAMP = pa.timestamp("ms", tz="UTC")
CODEC = pa.dictionary(pa.int8(), pa.string())
_CODEC_NAMES = pa.array([*CODECS, "unknown"])


class ReadError(NamedTuple):
    """One damage.

    Attributes:
        file: the source's name; None for bytes in memory.
        position: the byte of the source at which the damaged batch starts.
        base_offset: the offset in the batch's header; None where there is no batch.
        status: a number of ``reasons.py``, None for a wrong CRC.
        reason: the same in words.
        records: how many records of the batch were delivered.
    """

    file: str | None
    position: int
    base_offset: int | None
    status: int | None
    reason: str
    records: int

    def as_exception(self) -> CorruptRecordError:
        """Return what mode FAILFAST raises."""
        where = "" if self.base_offset is None else f", in the batch of offset {self.base_offset}"
        return CorruptRecordError(self.reason + where, file=self.file, position=self.position)


class Decoded:
    """The index of a chunk's records, and what the columns are made from."""

    def __init__(
        self,
        chunk: Chunk,
        sections: Sections,
        index: Index,
        valid: npt.NDArray[Any] | None,
        allocate: Allocate = np.empty,
    ) -> None:
        self.chunk = chunk
        self.batches = chunk.batches
        self.sections = sections
        self.index = index
        self.valid = valid
        self.allocate = allocate
        self.made: dict[str, pa.Array] = {}

    @cached_property
    def owners(self) -> Ints:
        """The batch of each record."""
        return np.repeat(np.arange(len(self.batches)), self.index.rows)

    def of_batch(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Repeat a batch's value for each of its records."""
        return np.repeat(values, self.index.rows)

    def binary(self, places: Ints, sizes: Ints32) -> pa.Array:
        """Copy byte strings of the records."""
        return binary_array(self.sections.buf, places, sizes, allocate=self.allocate)

    def flags(self, mask: int) -> npt.NDArray[np.bool_]:
        """Tell for each batch whether a flag of format 2 is set."""
        found: npt.NDArray[np.bool_] = (self.batches.column("magic") >= 2) & (
            (self.batches.column("attributes") & mask) != 0
        )
        return found

    def base_offsets(self) -> Ints:
        """The batches' base offsets; of a compressed message its first record's (its own offset is the last's)."""
        bases = self.batches.column("base_offset")
        wrappers = (self.batches.column("magic") < 2) & (self.batches.column("attributes") & CODEC_MASK != 0)
        wrappers &= self.index.rows > 0
        if wrappers.any():
            bases = bases.copy()
            bases[wrappers] = self.index.offsets[(np.cumsum(self.index.rows) - self.index.rows)[wrappers]]
        return bases


def binary_array(buf: Bytes, places: Ints, sizes: Ints32, *, allocate: Allocate = np.empty) -> pa.Array:
    """Copy byte strings out of ``buf``; a size below zero is null.

    Raises:
        CorruptRecordError: more bytes than Arrow's 32-bit offsets can count.
    """
    count = sizes.size
    total = int(sizes.sum(where=sizes > 0, dtype=np.int64))
    if total > 2**31 - 1:
        raise CorruptRecordError(f"{total} bytes of one column in one batch are more than Arrow's binary holds")
    offsets, data = allocate(count + 1, np.int32), allocate(total + SLACK_BYTES, np.uint8)
    validity = allocate((count + 7) // 8, np.uint8)
    nulls = _kernels_gather.gather_binary(buf, places, sizes, count, offsets, data, validity)
    buffers = [pa.py_buffer(validity) if nulls else None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers, null_count=nulls)


def _headers(found: Decoded) -> pa.Array:
    places, counts = found.index.headers_at, found.index.header_counts
    total, records = int(counts.sum(dtype=np.int64)), counts.size
    allocate = found.allocate
    lists = allocate(records + 1, np.int32)
    parts = [allocate(total, dtype) for dtype in (np.int64, np.int32, np.int64, np.int32)]
    _kernels_gather.index_headers(found.sections.buf, places, counts, records, lists, *parts)
    keys = _text(binary_array(found.sections.buf, parts[0], parts[1], allocate=allocate))
    values = binary_array(found.sections.buf, parts[2], parts[3], allocate=allocate)
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    return pa.Array.from_buffers(HEADERS, records, [None, pa.py_buffer(lists)], null_count=0, children=[pairs])


def _text(raw: pa.Array) -> pa.Array:
    """Return text as Java reads it; only keys that are no UTF-8 are looked at one by one."""
    data = np.frombuffer(raw.buffers()[2], np.uint8)
    if data.size and data.max() < 0x80:  # ASCII needs no further look
        return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers(), null_count=0)
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([java_text(one) for one in raw.to_pylist()], pa.string())


def _sequences(found: Decoded) -> npt.NDArray[np.int32]:
    """Add offset deltas to base sequences as Kafka does: from 2^31 - 1 on to 0."""
    bases = found.of_batch(found.batches.column("base_sequence"))
    deltas = found.index.offsets - found.of_batch(found.batches.column("base_offset"))
    deltas = deltas.astype(np.int32).astype(np.int64)
    room = ((2**31 - 1) - deltas).astype(np.int32)
    summed = np.where(bases > room, deltas - ((2**31 - 1) - bases) - 1, bases + deltas)
    return np.where(bases >= 0, summed, -1).astype(np.int32)


def codec_array(attributes: Ints) -> pa.Array:
    """Name codecs by the attributes of their batches; ``unknown`` for the numbers that Kafka does not know."""
    numbers = np.minimum(attributes & CODEC_MASK, len(CODECS)).astype(np.int8)
    return pa.DictionaryArray.from_arrays(pa.array(numbers), _CODEC_NAMES)


def _numbers(name: str, dtype: Any) -> Callable[[Decoded], Any]:
    return lambda found: found.of_batch(found.batches.column(name).astype(dtype))


def _flag(mask: int) -> Callable[[Decoded], Any]:
    return lambda found: found.of_batch(found.flags(mask))


def _delete_horizons(found: Decoded) -> pa.Array:
    has = found.of_batch(found.flags(DELETE_HORIZON))
    return pa.array(found.of_batch(found.batches.column("base_timestamp")), mask=~has).cast(TIMESTAMP)


class Column(NamedTuple):
    """A column's Arrow type, and how it is made."""

    type: pa.DataType
    make: Callable[[Decoded], Any]


COLUMNS: dict[str, Column] = {
    "offset": Column(pa.int64(), lambda found: found.index.offsets),
    "timestamp": Column(TIMESTAMP, lambda found: found.index.timestamps),
    "timestamp_type": Column(
        pa.int32(),
        lambda found: found.of_batch(
            timestamp_types(found.batches.column("magic"), found.batches.column("attributes"))
        ),
    ),
    "key": Column(pa.binary(), lambda found: found.binary(found.index.key_at, found.index.key_size)),
    "value": Column(pa.binary(), lambda found: found.binary(found.index.value_at, found.index.value_size)),
    "headers": Column(HEADERS, _headers),
    "base_offset": Column(pa.int64(), lambda found: found.of_batch(found.base_offsets())),
    "position": Column(pa.int64(), lambda found: found.of_batch(found.batches.column("position") + found.chunk.base)),
    "magic": Column(pa.int8(), _numbers("magic", np.int8)),
    "codec": Column(CODEC, lambda found: codec_array(found.of_batch(found.batches.column("attributes")))),
    "producer_id": Column(pa.int64(), _numbers("producer_id", np.int64)),
    "producer_epoch": Column(pa.int16(), _numbers("producer_epoch", np.int16)),
    "sequence": Column(pa.int32(), _sequences),
    "leader_epoch": Column(pa.int32(), _numbers("leader_epoch", np.int32)),
    "transactional": Column(pa.bool_(), _flag(TRANSACTIONAL)),
    "control": Column(pa.bool_(), _flag(CONTROL)),
    "crc_ok": Column(pa.bool_(), lambda found: found.of_batch(np.asarray(found.valid, np.bool_))),
    "last_offset": Column(pa.int64(), _numbers("last_offset", np.int64)),
    "batch_size": Column(pa.int32(), _numbers("size", np.int32)),
    "delete_horizon": Column(TIMESTAMP, _delete_horizons),
    "key_size": Column(pa.int32(), lambda found: np.maximum(found.index.key_size, -1)),
    "value_size": Column(pa.int32(), lambda found: np.maximum(found.index.value_size, -1)),
}
_CACHED_BYTES = 2 << 20
_NO_INTS: Ints = np.empty(0, np.int64)
_NO_SIZES: Ints32 = np.empty(0, np.int32)
_NO_PLACES = (_NO_INTS, _NO_SIZES, _NO_INTS, _NO_SIZES, _NO_INTS, _NO_SIZES)
_NEED_SIZES = frozenset({"key_size", "value_size"})
DEFAULT_COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")


class ReadOptions(NamedTuple):
    """How to read.

    Attributes:
        columns: names from ``COLUMNS``, in the order wanted.
        mode: one of ``MODES``.
        verify_crc: whether a wrong CRC counts as damage.
        rules: ``scan.MEMORY`` or ``scan.FILE``.
        control_records: whether control records are among the records.
        first_offset, end_offset: records outside are left out; None is no bound. The end is exclusive.
        limit_bytes: the largest decompressed size of a batch.
        chunk_bytes: how much is decoded at once, about.
        unwanted: says of each batch whether to leave it out unread (aborted transactions); None leaves none out.
        heal: given a chunk and its damaged batches, returns the chunk with those it could replace by whole ones (from
            another copy of the log), None if none; what it replaces is no damage.
    """

    columns: Sequence[str] = DEFAULT_COLUMNS
    mode: str = PERMISSIVE
    verify_crc: bool = True
    rules: str = MEMORY
    control_records: bool = True
    first_offset: int | None = None
    end_offset: int | None = None
    limit_bytes: int = decode.DEFAULT_LIMIT_BYTES
    chunk_bytes: int = CHUNK_BYTES
    unwanted: Callable[[Batches], npt.NDArray[np.bool_]] | None = None
    heal: Callable[[Chunk, npt.NDArray[np.bool_]], Chunk | None] | None = None

    def checked(self) -> ReadOptions:
        """Return self.

        Raises:
            OptionError: a column or the mode does not exist.
        """
        unknown = [name for name in self.columns if name not in COLUMNS]
        if unknown:
            raise OptionError(f"no column {', '.join(map(repr, unknown))}; there are {', '.join(COLUMNS)}")
        if self.mode not in MODES:
            raise OptionError(f"no mode {self.mode!r}; there are {', '.join(MODES)}")
        if self.rules not in (MEMORY, FILE):
            raise OptionError(f"no rules {self.rules!r}; there are {MEMORY}, {FILE}")
        return self

    @property
    def schema(self) -> pa.Schema:
        """The schema of every Arrow batch."""
        return pa.schema([(name, COLUMNS[name].type) for name in self.columns])


class RecordReader:
    """Iterate over a source's records as ``pa.RecordBatch``es; ``errors`` grows as damage is met."""

    def __init__(
        self,
        source: Source,
        options: ReadOptions,
        *,
        start: int = 0,
        end: int | None = None,
        errors: list[ReadError] | None = None,
        memory: Recycler | None = None,
    ) -> None:
        self.options = options.checked()
        self.schema = options.schema
        self.errors: list[ReadError] = [] if errors is None else errors
        self._source = source
        self._memory = Recycler() if memory is None else memory  # one for many readers of small sources
        self._chunks = Chunks(
            source,
            rules=options.rules,
            start=start,
            end=end,
            chunk_bytes=options.chunk_bytes,
            allocate=self._memory.array,
        )
        self._ratio = 1.0
        everything = (
            options.first_offset is None
            and options.end_offset is None
            and options.mode != DROPMALFORMED
            and not _NEED_SIZES.intersection(options.columns)
        )
        self._maker = self._made_for(options) if everything else None
        self._names = tuple(options.columns)
        self._ready = READY.issuperset(self._names)

    def _made_for(self, options: ReadOptions) -> ColumnMaker:
        return ColumnMaker(
            options.columns,
            verify_crc=self._checks,
            limit_bytes=options.limit_bytes,
            target_bytes=options.chunk_bytes,
            allocate=self._memory.array,
            types={name: column.type for name, column in COLUMNS.items()},
            text=_text,
        )

    @property
    def _checks(self) -> bool:
        return self.options.verify_crc or "crc_ok" in self.options.columns

    @property
    def end(self) -> End | None:
        """Where (in the source) and why the batches ended; None before they did."""
        return self._chunks.end

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for chunk in self._chunks:
            yield from self._long(chunk) if self._maker is None else self._short(chunk, self._maker)
        end = self._chunks.end
        if end is not None and end.corrupt:
            self._report(ReadError(self._source.name, end.position, None, end.status, end.reason, 0))

    def _short(self, chunk: Chunk, maker: ColumnMaker) -> Iterator[pa.RecordBatch]:
        for made in maker.read(chunk, self._unwanted(chunk)):
            if isinstance(made, Chunk):
                yield from self._long(made)
            elif made.damaged or (made.records and not self._ready):
                found = self._as_decoded(made)
                bad = self._bad(found, made.kinds == SKIPPED) if made.damaged else None
                whole = self._healed(made.chunk, bad)
                if whole is not None:
                    yield from self._long(whole, is_healed=True)
                    continue
                self._told(found, bad)
                if made.records:
                    yield self._arrow(found)
            elif made.records:
                yield pa.RecordBatch.from_arrays([made.columns[name] for name in self._names], schema=self.schema)

    def _long(self, chunk: Chunk, *, is_healed: bool = False) -> Iterator[pa.RecordBatch]:
        for piece in pieces(chunk, self._ratio, self._target()):
            found = self._decode(piece, is_healed=is_healed)
            if found.index.offsets.size:
                yield self._arrow(found)

    def _as_decoded(self, made: Made) -> Decoded:
        """Give a piece that is made already the form of one that is not."""
        chunk = made.chunk
        sections = Sections(chunk.data, _NO_INTS, _NO_INTS, made.kinds, made.problems)
        offsets, stamps = (
            np.frombuffer(made.columns[name].buffers()[1], np.int64) if made.records else _NO_INTS
            for name in ("offset", "timestamp")
        )
        rows, statuses, wheres = (made.told(what) for what in (TOLD_ROWS, TOLD_STATUS, TOLD_WHERE))
        index = Index(offsets, stamps, *_NO_PLACES, rows, statuses, wheres)
        found = Decoded(chunk, sections, index, made.told(TOLD_CRC) if self._checks else None, self._memory.array)
        found.made = made.columns
        return found

    def _target(self) -> int:
        """Return how many bytes of records to decode at once: what is decompressed should stay in the cache."""
        return self.options.chunk_bytes if self._ratio == 1.0 else min(self.options.chunk_bytes, _CACHED_BYTES)

    def _arrow(self, found: Decoded) -> pa.RecordBatch:
        arrays = [_column(name, found) for name in self.options.columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.options.columns))

    def _decode(self, chunk: Chunk, *, is_healed: bool = False) -> Decoded:
        """Decode a chunk the long way: decompress all, index all, and make of each column what is kept."""
        options, batches, allocate = self.options, chunk.batches, self._memory.array
        skip = self._unwanted(chunk)
        sections = decode.open_sections(
            chunk.data, batches, limit_bytes=options.limit_bytes, skip=skip, allocate=allocate
        )
        if sections.buf is not chunk.data:  # how large decompressed records are says how many to take next
            self._ratio = max(sections.buf.size / max(int(batches.column("size").sum()), 1), 1.0)
        valid = check_crcs(chunk.data, batches) if self._checks else None
        index = decode.index_records(batches, sections, allocate=allocate)
        found = Decoded(chunk, sections, index, valid, allocate)
        bad = self._bad(found, skip)
        whole = None if is_healed else self._healed(chunk, bad)
        if whole is not None:
            return self._decode(whole, is_healed=True)
        damaged = self._told(found, bad)
        return self._filtered(found, damaged if options.mode == DROPMALFORMED else None)

    def _unwanted(self, chunk: Chunk) -> npt.NDArray[np.bool_] | None:
        """Tell which batches need not even be decompressed."""
        options, batches = self.options, chunk.batches
        bounded = options.first_offset is not None or options.end_offset is not None
        if options.control_records and not bounded and options.unwanted is None:
            return None
        is_v2 = batches.column("magic") >= 2
        unwanted: npt.NDArray[np.bool_] = np.zeros(len(batches), np.bool_)
        if not options.control_records:
            unwanted |= is_v2 & (batches.column("attributes") & CONTROL != 0)
        if options.first_offset is not None:
            unwanted |= batches.column("last_offset") < options.first_offset
        if options.end_offset is not None:  # a wrapper of format 0 or 1 says its last offset only
            unwanted |= is_v2 & (batches.column("base_offset") >= options.end_offset)
        if options.unwanted is not None:
            unwanted |= options.unwanted(batches)
        return unwanted

    def _bad(self, found: Decoded, skip: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
        """Return which batches are damaged; None where none is."""
        bad: npt.NDArray[np.bool_] = found.index.statuses != 0
        if found.sections.problems:
            bad[list(found.sections.problems)] = True
        if self.options.verify_crc and found.valid is not None:
            wrong = found.valid == 0
            bad |= wrong if skip is None else wrong & ~skip
        return bad if bad.any() else None

    def _healed(self, chunk: Chunk, bad: npt.NDArray[np.bool_] | None) -> Chunk | None:
        """Return a chunk with batches of another copy in place of damaged ones; None where that is not to be had."""
        return None if bad is None or self.options.heal is None else self.options.heal(chunk, bad)

    def _told(self, found: Decoded, bad: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
        """Report what is damaged; return which batches are."""
        for row in [] if bad is None else np.flatnonzero(bad).tolist():
            problem = decode.problem_of(row, found.index, found.sections)
            self._report(
                ReadError(
                    self._source.name,
                    int(found.batches.column("position")[row]) + found.chunk.base,
                    int(found.batches.column("base_offset")[row]),
                    None if problem is None else problem.status,
                    CRC_MISMATCH if problem is None else problem.reason,
                    0 if self.options.mode == DROPMALFORMED else int(found.index.rows[row]),
                )
            )
        return bad

    def _report(self, error: ReadError) -> None:
        if self.options.mode == FAILFAST:
            raise error.as_exception()
        self.errors.append(error)

    def _filtered(self, found: Decoded, dropped: npt.NDArray[np.bool_] | None) -> Decoded:
        options, offsets = self.options, found.index.offsets
        keep = None if dropped is None else ~found.of_batch(dropped)
        if options.first_offset is not None:
            within = offsets >= options.first_offset
            keep = within if keep is None else keep & within
        if options.end_offset is not None:
            within = offsets < options.end_offset
            keep = within if keep is None else keep & within
        if keep is None or keep.all():
            return found
        return Decoded(found.chunk, found.sections, found.index.take(keep, found.owners), found.valid, found.allocate)


def _column(name: str, found: Decoded) -> pa.Array:
    ready = found.made.get(name)
    return _as_arrow(COLUMNS[name], found) if ready is None else ready


def _as_arrow(column: Column, found: Decoded) -> pa.Array:
    made = column.make(found)
    if isinstance(made, pa.Array):
        return made
    if made.dtype == np.bool_:
        return pa.array(made)
    return pa.Array.from_buffers(column.type, made.size, [None, pa.py_buffer(np.ascontiguousarray(made))], null_count=0)
