"""Read records as Arrow columns. One kernel call reads many batches; no Python code runs per record.

``RecordReader`` iterates over ``pa.RecordBatch``es. ``fused.py`` (the fast path) creates most columns in one pass.
``makers.py`` creates the other columns, and all columns of batches that are too large for the fast path. Columns that
are not requested are not decoded.

``on_damage``: ``keep`` returns what Kafka's own reader returns, including the records before the damage of a damaged
batch and those of a batch with a wrong CRC; ``drop`` drops damaged batches; ``fail`` raises. With ``keep`` and
``drop``, ``RecordReader.errors`` lists each damaged batch with file, position and reason.
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
from kafkaframes.records.arrays import bool_array
from kafkaframes.records.decoded import DecodedBatches, Ints32, RecordIndex, RecordSections
from kafkaframes.records.fused import FUSED_COLUMNS, TARGET_PART_BYTES, ColumnPart, FusedReader
from kafkaframes.records.limits import DEFAULT_LIMIT_BYTES
from kafkaframes.records.makers import COLUMNS, decode_java_texts, make_arrow_column
from kafkaframes.records.memory import Recycler
from kafkaframes.records.reasons import CRC_MISMATCH, DROP, FAIL, KEEP, ON_DAMAGE
from kafkaframes.records.scan import (
    CHUNK_BYTES,
    DAMAGED_END_REASONS,
    FILE,
    MEMORY,
    BatchHeaders,
    BatchSource,
    Chunk,
    Chunks,
    Ints,
    ScanEnd,
    ScannedChunk,
    split_chunk,
)


class ReadError(NamedTuple):
    """A damaged batch, or a damaged end of the source.

    Attributes:
        file: name of the source; None for bytes in memory.
        position: position of the damaged batch in the source, in bytes.
        base_offset: base offset in the batch header; None if there is no complete header.
        status: a status code of ``reasons.py``; None for a wrong CRC.
        reason: the damage as text.
        records: number of records of the batch that were returned.
    """

    file: str | None
    position: int
    base_offset: int | None
    status: int | None
    reason: str
    records: int

    def as_exception(self) -> CorruptRecordError:
        """Return the exception that ``on_damage=fail`` raises."""
        batch_text = "" if self.base_offset is None else f", in the batch of offset {self.base_offset}"
        return CorruptRecordError(self.reason + batch_text, file=self.file, position=self.position)


_CPU_CACHE_BYTES = 2 << 20  # decompressed records that fit into the processor's cache
_ARROW_TYPES = {name: column.type for name, column in COLUMNS.items()}
_NO_INTS: Ints = np.empty(0, np.int64)
_NO_INTS32: Ints32 = np.empty(0, np.int32)
_NO_POSITIONS = (_NO_INTS, _NO_INTS32, _NO_INTS, _NO_INTS32, _NO_INTS, _NO_INTS32)
_SIZE_COLUMNS = frozenset({"key_size", "value_size"})
DEFAULT_COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")


class ReadOptions(NamedTuple):
    """Options for reading records as Arrow columns.

    Attributes:
        columns: names from ``COLUMNS``, in output order.
        on_damage: one of ``ON_DAMAGE``.
        verify_crc: whether a wrong CRC counts as damage.
        rules: ``scan.MEMORY`` or ``scan.FILE``.
        control_records: whether to return control records.
        first_offset, end_offset: offset range of the records to return, ``end_offset`` exclusive; None means no limit.
        limit_bytes: largest decompressed size of a batch.
        budget_bytes: memory budget for batches that are decompressed at the same time. A batch that exceeds this budget
            is decompressed alone. None selects the budget of ``limits.current_budget()``.
        chunk_bytes: approximate number of bytes to read at once.
        part_bytes: approximate decompressed size of the records in an Arrow batch, at most that of a chunk. The default
            fits into the processor's cache, for callers that process one Arrow batch at a time.
        unwanted: function that returns which batches to skip without reading them (aborted transactions); if None, all
            batches are read.
        heal: function that takes a chunk and its damaged batches, and returns the chunk with intact copies of the
            batches that it could replace (from another copy of the log), or None. Batches that were replaced are not
            reported.
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
    part_bytes: int = TARGET_PART_BYTES
    unwanted: Callable[[BatchHeaders], npt.NDArray[np.bool_]] | None = None
    heal: Callable[[Chunk, npt.NDArray[np.bool_]], Chunk | None] | None = None

    def validate(self) -> ReadOptions:
        """Validate the options and return them.

        Raises:
            OptionError: a column or the value of ``on_damage`` is unknown, or a size is below 1.
        """
        unknown = [name for name in self.columns if name not in COLUMNS]
        if unknown:
            raise OptionError(f"unknown column {', '.join(map(repr, unknown))}; expected {', '.join(COLUMNS)}")
        if self.on_damage not in ON_DAMAGE:
            raise OptionError(f"on_damage is {self.on_damage!r}; expected {' or '.join(ON_DAMAGE)}")
        if self.rules not in (MEMORY, FILE):
            raise OptionError(f"unknown rules {self.rules!r}; expected {MEMORY} or {FILE}")
        if self.limit_bytes < 1 or (self.budget_bytes is not None and self.budget_bytes < 1):
            raise OptionError("limit_bytes and budget_bytes must be at least 1")
        return self

    @property
    def schema(self) -> pa.Schema:
        """The schema of every Arrow batch."""
        return _schema(tuple(self.columns))


@lru_cache(maxsize=64)  # cached: each small source has a reader of its own, usually with the same columns
def _schema(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema([(name, COLUMNS[name].type) for name in columns])


class RecordReader:
    """An iterator over a source's records as ``pa.RecordBatch``es.

    Damage that the reader reaches is added to ``errors``.

    Attributes:
        end: position at which the batches end, and the reason; None until the reader has reached the end.
    """

    def __init__(
        self,
        source: BatchSource,
        options: ReadOptions,
        *,
        start: int = 0,
        end: int | None = None,
        errors: list[ReadError] | None = None,
        memory: Recycler | None = None,
        batches: BatchHeaders | None = None,
    ) -> None:
        """Create a reader. If the source is in memory, ``batches`` may contain the headers of all of its batches."""
        self.options = options.validate()
        self.schema = options.schema
        self.errors: list[ReadError] = [] if errors is None else errors
        self.end: ScanEnd | None = None
        self._source = source
        self._memory = Recycler() if memory is None else memory  # many readers of small sources may share a Recycler
        self._chunks: Chunks | ScannedChunk
        if batches is not None:
            self._chunks = ScannedChunk(source.read(0, source.size_bytes), batches)
        else:
            self._chunks = Chunks(
                source,
                rules=options.rules,
                start=start,
                end=end,
                chunk_bytes=options.chunk_bytes,
                allocate=self._memory.new_array,
            )
        self._ratio = 1.0
        self._maker = None if _SIZE_COLUMNS.intersection(options.columns) else self._make_part_reader(options)
        self._is_bounded = options.first_offset is not None or options.end_offset is not None
        self._names = tuple(options.columns)
        self._is_fused = FUSED_COLUMNS.issuperset(self._names)

    def _make_part_reader(self, options: ReadOptions) -> FusedReader:
        return FusedReader(
            options.columns,
            verify_crc=self._checks_crc,
            limit_bytes=options.limit_bytes,
            target_bytes=min(options.chunk_bytes, options.part_bytes),
            allocate=self._memory.new_array,
            types=_ARROW_TYPES,
            text=decode_java_texts,
        )

    @property
    def _checks_crc(self) -> bool:
        return self.options.verify_crc or "crc_ok" in self.options.columns

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for chunk in self._chunks:
            yield from self._read_general(chunk) if self._maker is None else self._read_chunk_fast(chunk, self._maker)
        self.end = end = self._chunks.end
        if end is not None and end.status in DAMAGED_END_REASONS:
            self._report_error(ReadError(self._source.name, end.position, None, end.status, end.reason, 0))

    def _read_chunk_fast(self, chunk: Chunk, maker: FusedReader) -> Iterator[pa.RecordBatch]:
        for part in maker.read_parts(chunk, self._find_skipped_batches(chunk)):
            if isinstance(part, Chunk):
                yield from self._read_general(part)
            elif part.has_damage:
                yield from self._read_damaged(part)
            elif part.records:
                yield from self._select_rows(self._to_arrow(part), part, None)

    def _read_damaged(self, part: ColumnPart) -> Iterator[pa.RecordBatch]:
        """Replace, report or drop the damaged batches in a part that the fast path has read."""
        result = self._to_decoded(part)
        bad = self._find_damaged_batches(result, part.kinds == SKIPPED)
        healed_chunk = self._heal_chunk(part.chunk, bad)
        if healed_chunk is not None:
            yield from self._read_general(healed_chunk, is_healed=True)
            return
        self._report_damaged(result, bad)
        if part.records:
            drops = None if bad is None or self.options.on_damage != DROP else result.repeat_per_record(bad)
            yield from self._select_rows(self._make_arrow_batch(result, part.columns), part, drops)

    def _to_arrow(self, part: ColumnPart) -> pa.RecordBatch:
        """Return a part of the fast path as an Arrow batch."""
        if not self._is_fused:
            return self._make_arrow_batch(self._to_decoded(part), part.columns)
        return pa.RecordBatch.from_arrays([part.columns[name] for name in self._names], schema=self.schema)

    def _select_rows(
        self, batch: pa.RecordBatch, part: ColumnPart, drops: npt.NDArray[np.bool_] | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the requested rows of an Arrow batch, if there are any."""
        if self._is_bounded or drops is not None:
            keep = self._row_filter(part.offsets, drops)
            if keep is not None:
                batch = _filter_rows(batch, keep)
        if batch.num_rows:
            yield batch

    def _read_general(self, chunk: Chunk, *, is_healed: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the Arrow batches of a chunk that the general path decodes."""
        target = self.options.chunk_bytes
        if self._ratio != 1.0:  # decompressed records should stay in the processor's cache
            target = min(target, _CPU_CACHE_BYTES)
        for part in split_chunk(chunk, self._ratio, target):
            for result in self._decode_chunk(part, is_healed=is_healed):
                if result.index.offsets.size:
                    yield self._make_arrow_batch(result, {})

    def _to_decoded(self, part: ColumnPart) -> DecodedBatches:
        """Convert a part that the fast path has read to the objects of the general path."""
        chunk = part.chunk
        sections = RecordSections(chunk.data, _NO_INTS, _NO_INTS, part.kinds, part.problems)
        rows, statuses, wheres = (part.outcome(row) for row in (OUTCOME_ROWS, OUTCOME_STATUS, OUTCOME_WHERE))
        index = RecordIndex(part.offsets, part.timestamps, *_NO_POSITIONS, rows, statuses, wheres)
        result = DecodedBatches(
            chunk.data, chunk.batches, sections, index, base=chunk.base, allocate=self._memory.new_array
        )
        if self._checks_crc:
            result.crc_ok = part.outcome(OUTCOME_CRC) != 0
        return result

    def _make_arrow_batch(self, result: DecodedBatches, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        arrays = [make_arrow_column(name, result, columns) for name in self.options.columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.options.columns))

    def _decode_chunk(self, chunk: Chunk, *, is_healed: bool = False) -> Iterator[DecodedBatches]:
        """Decode a chunk on the general path, and select records."""
        options, allocate = self.options, self._memory.new_array
        skip = self._find_skipped_batches(chunk)
        for result in decode.decode_steps(
            chunk.data,
            chunk.batches,
            limit_bytes=options.limit_bytes,
            budget_bytes=options.budget_bytes,
            skip=skip,
            allocate=allocate,
            base=chunk.base,
        ):
            batches, sections = result.batches, result.sections
            if sections.buf is not chunk.data:  # the ratio decides how many batches to decode at once
                content_bytes = int((sections.ends - sections.starts).sum())
                self._ratio = max(content_bytes / max(int(batches.column("size").sum()), 1), 1.0)
            part_skip = None if skip is None else skip[result.first : result.first + len(batches)]
            bad = self._find_damaged_batches(result, part_skip)
            healed_chunk = None if is_healed else self._heal_chunk(chunk._replace(batches=batches), bad)
            if healed_chunk is not None:
                yield from self._decode_chunk(healed_chunk, is_healed=True)
                continue
            self._report_damaged(result, bad)
            yield self._filter_records(result, bad if options.on_damage == DROP else None)

    def _find_skipped_batches(self, chunk: Chunk) -> npt.NDArray[np.bool_] | None:
        """Return which batches need not be decompressed."""
        options, batches = self.options, chunk.batches
        if options.control_records and not self._is_bounded and options.unwanted is None:
            return None
        skip = np.zeros(batches.table.shape[1], np.bool_) if options.control_records else batches.is_control
        if options.first_offset is not None:
            skip |= batches.column("last_offset") < options.first_offset
        if options.end_offset is not None:  # a wrapper of format 0 or 1 has only its last offset
            skip |= batches.is_v2 & (batches.column("base_offset") >= options.end_offset)
        if options.unwanted is not None:
            skip |= options.unwanted(batches)
        return skip

    def _find_damaged_batches(
        self, result: DecodedBatches, skip: npt.NDArray[np.bool_] | None
    ) -> npt.NDArray[np.bool_] | None:
        """Return which batches are damaged; None if no batch is damaged."""
        bad: npt.NDArray[np.bool_] = result.index.statuses != 0
        if result.sections.problems:
            bad[list(result.sections.problems)] = True
        if self.options.verify_crc:
            bad |= ~result.crc_ok if skip is None else ~(result.crc_ok | skip)
        return bad if bad.any() else None

    def _heal_chunk(self, chunk: Chunk, bad: npt.NDArray[np.bool_] | None) -> Chunk | None:
        """Return the chunk with its damaged batches replaced from another copy of the log; None if impossible."""
        return None if bad is None or self.options.heal is None else self.options.heal(chunk, bad)

    def _report_damaged(self, result: DecodedBatches, bad: npt.NDArray[np.bool_] | None) -> None:
        """Report the problem with each damaged batch."""
        for row in [] if bad is None else np.flatnonzero(bad).tolist():
            problem = result.problem(row)
            self._report_error(
                ReadError(
                    self._source.name,
                    result.position(row),
                    int(result.batches.column("base_offset")[row]),
                    None if problem is None else problem.status,
                    CRC_MISMATCH if problem is None else problem.reason,
                    0 if self.options.on_damage == DROP else int(result.index.rows[row]),
                )
            )

    def _report_error(self, error: ReadError) -> None:
        if self.options.on_damage == FAIL:
            raise error.as_exception()
        self.errors.append(error)

    def _filter_records(self, result: DecodedBatches, drops: npt.NDArray[np.bool_] | None) -> DecodedBatches:
        """Return the requested records."""
        keep = self._row_filter(result.index.offsets, None if drops is None else result.repeat_per_record(drops))
        return result if keep is None else result.select(keep)

    def _row_filter(self, offsets: Ints, drops: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
        """Return which records to keep, by offset range and ``drops``; None keeps all."""
        options = self.options
        keep: npt.NDArray[np.bool_] | None = None if drops is None else ~drops
        if options.first_offset is not None:
            within = offsets >= options.first_offset
            keep = within if keep is None else keep & within
        if options.end_offset is not None:
            within = offsets < options.end_offset
            keep = within if keep is None else keep & within
        return None if keep is None or keep.all() else keep


def _filter_rows(batch: pa.RecordBatch, keep: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """Return the rows for which ``keep`` is true.

    Consecutive rows are not copied, and need no ``pyarrow.compute`` (6 MB, 27 ms).
    """
    rows = np.flatnonzero(keep)
    first = int(rows[0]) if rows.size else 0
    if keep[first : first + rows.size].all():
        return batch.slice(first, rows.size)
    return batch.filter(bool_array(keep))
