"""Records as Arrow columns: the native form. Many batches a kernel call, no Python for a record.

``RecordReader`` iterates over ``pa.RecordBatch``es. ``fused.py`` makes most columns, in one pass; ``makers.py`` the
others, and all of batches that are too large for that. What is not asked for costs nothing.

``on_damage``: ``keep`` returns what Kafka's own reader returns, including the records of a damaged batch up to the
damage and those of a batch with a wrong CRC; ``drop`` leaves damaged batches out; ``fail`` raises. With the first two
``RecordReader.errors`` lists each damaged batch with file, position and reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import CorruptRecordError, OptionError
from kafkaframes.records import decode
from kafkaframes.records._kernels_columns import OUTCOME_CRC, OUTCOME_ROWS, OUTCOME_STATUS, OUTCOME_WHERE
from kafkaframes.records._kernels_index import SKIPPED
from kafkaframes.records.arrays import flags
from kafkaframes.records.decoded import Decoded, Index, Ints32, Sections
from kafkaframes.records.fused import FUSED_COLUMNS, TARGET_BYTES, ColumnMaker, Made
from kafkaframes.records.limits import DEFAULT_LIMIT_BYTES
from kafkaframes.records.makers import COLUMNS, arrow_column, java_text_array
from kafkaframes.records.memory import Recycler
from kafkaframes.records.reasons import CRC_MISMATCH, DROP, FAIL, KEEP, ON_DAMAGE
from kafkaframes.records.scan import (
    CHUNK_BYTES,
    DAMAGED_ENDS,
    FILE,
    MEMORY,
    Batches,
    Chunk,
    Chunks,
    End,
    Ints,
    Scanned,
    Source,
    parts_of,
)


class ReadError(NamedTuple):
    """One damage.

    Attributes:
        file: the source's name; None for bytes in memory.
        position: the byte of the source at which the damaged batch starts.
        base_offset: the offset in the batch's header; None where there is no batch.
        status: a number of ``reasons.py``, None for a wrong CRC.
    """

    file: str | None
    position: int
    base_offset: int | None
    status: int | None
    reason: str
    records: int

    def as_exception(self) -> CorruptRecordError:
        """Return the exception that ``on_damage=fail`` raises."""
        where = "" if self.base_offset is None else f", in the batch of offset {self.base_offset}"
        return CorruptRecordError(self.reason + where, file=self.file, position=self.position)


_CACHED_BYTES = 2 << 20
_TYPES = {name: column.type for name, column in COLUMNS.items()}
_NO_INTS: Ints = np.empty(0, np.int64)
_NO_SIZES: Ints32 = np.empty(0, np.int32)
_NO_POSITIONS = (_NO_INTS, _NO_SIZES, _NO_INTS, _NO_SIZES, _NO_INTS, _NO_SIZES)
_NEED_SIZES = frozenset({"key_size", "value_size"})
DEFAULT_COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")


class ReadOptions(NamedTuple):
    """How to read.

    Attributes:
        columns: names from ``COLUMNS``, in the order wanted.
        on_damage: one of ``ON_DAMAGE``.
        verify_crc: whether a wrong CRC counts as damage.
        rules: ``scan.MEMORY`` or ``scan.FILE``.
        control_records: whether control records are among the records.
        first_offset, end_offset: records outside are left out; None is no bound. The end is exclusive.
        limit_bytes: the largest decompressed size of a batch.
        budget_bytes: the most memory for batches that are open at once; a larger one is opened alone. ``None``: what
            ``limits.budget`` says.
        chunk_bytes: how much is looked at once, about.
        part_bytes: how much of records one Arrow batch is made of, about, and at most a chunk's: as much as stays in
            the cache, for callers that look at one after the other; more for those who keep them.
        unwanted: says of each batch whether to leave it out unread (aborted transactions); None leaves none out.
        heal: given a chunk and its damaged batches, returns the chunk with those it could replace by whole ones (from
            another copy of the log), None if none; what it replaces is no damage.
    """

    columns: Sequence[str] = DEFAULT_COLUMNS
    on_damage: str = KEEP
    verify_crc: bool = True
    rules: str = MEMORY
    control_records: bool = True
    first_offset: int | None = None
    end_offset: int | None = None
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    budget_bytes: int | None = None
    chunk_bytes: int = CHUNK_BYTES
    part_bytes: int = TARGET_BYTES
    unwanted: Callable[[Batches], npt.NDArray[np.bool_]] | None = None
    heal: Callable[[Chunk, npt.NDArray[np.bool_]], Chunk | None] | None = None

    def checked(self) -> ReadOptions:
        """Return self.

        Raises:
            OptionError: a column or the value of ``on_damage`` does not exist, or a size is below 1.
        """
        unknown = [name for name in self.columns if name not in COLUMNS]
        if unknown:
            raise OptionError(f"no column {', '.join(map(repr, unknown))}; there are {', '.join(COLUMNS)}")
        if self.on_damage not in ON_DAMAGE:
            raise OptionError(f"`on_damage` is {' or '.join(ON_DAMAGE)}, not {self.on_damage!r}")
        if self.rules not in (MEMORY, FILE):
            raise OptionError(f"no rules {self.rules!r}; there are {MEMORY}, {FILE}")
        if self.limit_bytes < 1 or (self.budget_bytes is not None and self.budget_bytes < 1):
            raise OptionError("limit_bytes and budget_bytes are at least 1")
        return self

    @property
    def schema(self) -> pa.Schema:
        """The schema of every Arrow batch."""
        return _schema(tuple(self.columns))


@lru_cache(maxsize=64)  # small sources have readers of their own, each with the same few columns
def _schema(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema([(name, COLUMNS[name].type) for name in columns])


class RecordReader:
    """Iterate over a source's records as ``pa.RecordBatch``es; ``errors`` grows as damage is met.

    Attributes:
        end: where (in the source) and why the batches ended; None before they did.
    """

    def __init__(
        self,
        source: Source,
        options: ReadOptions,
        *,
        start: int = 0,
        end: int | None = None,
        errors: list[ReadError] | None = None,
        memory: Recycler | None = None,
        scanned: Batches | None = None,
    ) -> None:
        """Begin; with ``scanned``, the headers of all batches of a source in memory, that is not scanned again."""
        self.options = options.checked()
        self.schema = options.schema
        self.errors: list[ReadError] = [] if errors is None else errors
        self.end: End | None = None
        self._source = source
        self._memory = Recycler() if memory is None else memory  # one for many readers of small sources
        self._chunks: Chunks | Scanned
        if scanned is not None:
            self._chunks = Scanned(source.read(0, source.size_bytes), scanned)
        else:
            self._chunks = Chunks(
                source,
                rules=options.rules,
                start=start,
                end=end,
                chunk_bytes=options.chunk_bytes,
                allocate=self._memory.array,
            )
        self._ratio = 1.0
        self._maker = None if _NEED_SIZES.intersection(options.columns) else self._made_for(options)
        self._is_bounded = options.first_offset is not None or options.end_offset is not None
        self._names = tuple(options.columns)
        self._is_fused = FUSED_COLUMNS.issuperset(self._names)

    def _made_for(self, options: ReadOptions) -> ColumnMaker:
        return ColumnMaker(
            options.columns,
            verify_crc=self._checks,
            limit_bytes=options.limit_bytes,
            target_bytes=min(options.chunk_bytes, options.part_bytes),
            allocate=self._memory.array,
            types=_TYPES,
            text=java_text_array,
        )

    @property
    def _checks(self) -> bool:
        return self.options.verify_crc or "crc_ok" in self.options.columns

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for chunk in self._chunks:
            yield from self._long(chunk) if self._maker is None else self._short(chunk, self._maker)
        self.end = end = self._chunks.end
        if end is not None and end.status in DAMAGED_ENDS:
            self._report(ReadError(self._source.name, end.position, None, end.status, end.reason, 0))

    def _short(self, chunk: Chunk, maker: ColumnMaker) -> Iterator[pa.RecordBatch]:
        for made in maker.read(chunk, self._unwanted(chunk)):
            if isinstance(made, Chunk):
                yield from self._long(made)
            elif made.damaged:
                yield from self._damaged(made)
            elif made.records:
                yield from self._within(self._batch_of(made), made, None)

    def _damaged(self, made: Made) -> Iterator[pa.RecordBatch]:
        """Heal, report, or leave out what is damaged in a chunk that is made already."""
        result = self._as_decoded(made)
        bad = self._bad(result, made.kinds == SKIPPED)
        whole = self._healed(made.chunk, bad)
        if whole is not None:
            yield from self._long(whole, is_healed=True)
            return
        self._report_damaged(result, bad)
        if made.records:
            drops = None if bad is None or self.options.on_damage != DROP else result.of_batch(bad)
            yield from self._within(self._arrow(result, made.columns), made, drops)

    def _batch_of(self, made: Made) -> pa.RecordBatch:
        if not self._is_fused:
            return self._arrow(self._as_decoded(made), made.columns)
        return pa.RecordBatch.from_arrays([made.columns[name] for name in self._names], schema=self.schema)

    def _within(
        self, batch: pa.RecordBatch, made: Made, dropped: npt.NDArray[np.bool_] | None
    ) -> Iterator[pa.RecordBatch]:
        if self._is_bounded or dropped is not None:
            keep = self._keep(made.offsets, dropped)
            if keep is not None:
                batch = _rows_of(batch, keep)
        if batch.num_rows:
            yield batch

    def _long(self, chunk: Chunk, *, is_healed: bool = False) -> Iterator[pa.RecordBatch]:
        target = self.options.chunk_bytes
        if self._ratio != 1.0:  # what is decompressed should stay in the cache
            target = min(target, _CACHED_BYTES)
        for part in parts_of(chunk, self._ratio, target):
            for result in self._decode(part, is_healed=is_healed):
                if result.index.offsets.size:
                    yield self._arrow(result, {})

    def _as_decoded(self, made: Made) -> Decoded:
        """Give a chunk that is made already the form of one that is not."""
        chunk = made.chunk
        sections = Sections(chunk.data, _NO_INTS, _NO_INTS, made.kinds, made.problems)
        rows, statuses, wheres = (made.outcome(what) for what in (OUTCOME_ROWS, OUTCOME_STATUS, OUTCOME_WHERE))
        index = Index(made.offsets, made.timestamps, *_NO_POSITIONS, rows, statuses, wheres)
        result = Decoded(chunk.data, chunk.batches, sections, index, base=chunk.base, allocate=self._memory.array)
        if self._checks:
            result.crc_ok = made.outcome(OUTCOME_CRC) != 0
        return result

    def _arrow(self, result: Decoded, made: Mapping[str, pa.Array]) -> pa.RecordBatch:
        arrays = [arrow_column(name, result, made) for name in self.options.columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.options.columns))

    def _decode(self, chunk: Chunk, *, is_healed: bool = False) -> Iterator[Decoded]:
        """Decode a chunk the long way: decompress, index, and make of each column what is kept."""
        options, allocate = self.options, self._memory.array
        skip = self._unwanted(chunk)
        for result in decode.decode_steps(
            chunk.data,
            chunk.batches,
            limit_bytes=options.limit_bytes,
            budget_bytes=options.budget_bytes,
            skip=skip,
            allocate=allocate,
            base=chunk.base,
        ):
            batches, opened = result.batches, result.sections
            if opened.buf is not chunk.data:  # how large decompressed records are says how many to take next
                held = int((opened.ends - opened.starts).sum())
                self._ratio = max(held / max(int(batches.column("size").sum()), 1), 1.0)
            bad = self._bad(result, None if skip is None else skip[result.first : result.first + len(batches)])
            whole = None if is_healed else self._healed(chunk._replace(batches=batches), bad)
            if whole is not None:
                yield from self._decode(whole, is_healed=True)
                continue
            damaged = self._report_damaged(result, bad)
            yield self._filtered(result, damaged if options.on_damage == DROP else None)

    def _unwanted(self, chunk: Chunk) -> npt.NDArray[np.bool_] | None:
        """Tell which batches need not even be decompressed."""
        options, batches = self.options, chunk.batches
        if options.control_records and not self._is_bounded and options.unwanted is None:
            return None
        unwanted = np.zeros(batches.table.shape[1], np.bool_) if options.control_records else batches.is_control
        if options.first_offset is not None:
            unwanted |= batches.column("last_offset") < options.first_offset
        if options.end_offset is not None:  # a wrapper of format 0 or 1 says its last offset only
            unwanted |= batches.is_v2 & (batches.column("base_offset") >= options.end_offset)
        if options.unwanted is not None:
            unwanted |= options.unwanted(batches)
        return unwanted

    def _bad(self, result: Decoded, skip: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
        """Return which batches are damaged; None where none is."""
        bad: npt.NDArray[np.bool_] = result.index.statuses != 0
        if result.sections.problems:
            bad[list(result.sections.problems)] = True
        if self.options.verify_crc:
            bad |= ~result.crc_ok if skip is None else ~(result.crc_ok | skip)
        return bad if bad.any() else None

    def _healed(self, chunk: Chunk, bad: npt.NDArray[np.bool_] | None) -> Chunk | None:
        """Return a chunk with batches of another copy in place of damaged ones; None where that is not to be had."""
        return None if bad is None or self.options.heal is None else self.options.heal(chunk, bad)

    def _report_damaged(self, result: Decoded, bad: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
        """Report what is damaged; return which batches are."""
        for row in [] if bad is None else np.flatnonzero(bad).tolist():
            problem = result.problem(row)
            self._report(
                ReadError(
                    self._source.name,
                    result.position(row),
                    int(result.batches.column("base_offset")[row]),
                    None if problem is None else problem.status,
                    CRC_MISMATCH if problem is None else problem.reason,
                    0 if self.options.on_damage == DROP else int(result.index.rows[row]),
                )
            )
        return bad

    def _report(self, error: ReadError) -> None:
        if self.options.on_damage == FAIL:
            raise error.as_exception()
        self.errors.append(error)

    def _filtered(self, result: Decoded, dropped: npt.NDArray[np.bool_] | None) -> Decoded:
        keep = self._keep(result.index.offsets, None if dropped is None else result.of_batch(dropped))
        return result if keep is None else result.select(keep)

    def _keep(self, offsets: Ints, dropped: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
        """Tell which records are selected, by their offsets and whether their batches are left out; None for all."""
        options = self.options
        keep: npt.NDArray[np.bool_] | None = None if dropped is None else ~dropped
        if options.first_offset is not None:
            within = offsets >= options.first_offset
            keep = within if keep is None else keep & within
        if options.end_offset is not None:
            within = offsets < options.end_offset
            keep = within if keep is None else keep & within
        return None if keep is None or keep.all() else keep


def _rows_of(batch: pa.RecordBatch, keep: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """Return some rows; those that follow each other without a copy, and without ``pyarrow.compute`` (6 MB, 27 ms)."""
    rows = np.flatnonzero(keep)
    first = int(rows[0]) if rows.size else 0
    if keep[first : first + rows.size].all():
        return batch.slice(first, rows.size)
    return batch.filter(flags(keep))
