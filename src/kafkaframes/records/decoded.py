"""Decoded batches: headers, decompressed records, and an index of the records.

``decode.py`` creates them. Other modules create columns, text and rows from these objects. The index has each record's
offset, timestamp and field positions; the records themselves are not copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import CorruptRecordError
from kafkaframes.records._kernels_index import SKIPPED
from kafkaframes.records.reasons import (
    BAD_VARINT,
    DAMAGED_STREAM,
    FIELD_PAST_RECORD,
    RECORD_REASONS,
    UNREADABLE_FIELD,
    WHOLE,
)
from kafkaframes.records.scan import BatchHeaders, Bytes, Flags, Ints, check_crcs

Ints32 = npt.NDArray[np.int32]
Allocate = Callable[[int, Any], npt.NDArray[Any]]

_TRUNCATION_REASONS = (BAD_VARINT, FIELD_PAST_RECORD)
# Cached values that belong to batches, so they are unchanged when records are selected.
_CACHED_BATCH_VALUES = ("base_offsets", "reached", "crc_ok")


class BatchProblem(NamedTuple):
    """The reason why a batch's records end early: a status code and, if a codec reported an error, the error text."""

    status: int
    detail: str = ""

    @property
    def reason(self) -> str:
        """The problem as text."""
        words = RECORD_REASONS[self.status]
        return f"{words}: {self.detail}" if self.detail else words


class RecordSections(NamedTuple):
    """The records of each batch, ``buf[starts[i]:ends[i]]``, and the problems found while reading them, by batch."""

    buf: Bytes
    starts: Ints
    ends: Ints
    kinds: npt.NDArray[np.int8]
    problems: dict[int, BatchProblem]

    def part(self, first: int, last: int) -> RecordSections:
        """Return the sections of batches ``first`` to ``last`` (exclusive)."""
        problems = {row - first: problem for row, problem in self.problems.items() if first <= row < last}
        return RecordSections(
            self.buf, self.starts[first:last], self.ends[first:last], self.kinds[first:last], problems
        )


class RecordIndex(NamedTuple):
    """Arrays with one element per record; ``rows``, ``statuses`` and ``wheres`` have one per batch.

    A negative size means that the key or value is null. In formats 0 and 1 ``headers_at`` is the position of the
    message's CRC.
    """

    offsets: Ints
    timestamps: Ints
    key_at: Ints
    key_size: Ints32
    value_at: Ints
    value_size: Ints32
    headers_at: Ints
    header_counts: Ints32
    rows: Ints
    statuses: Ints
    wheres: Ints

    def part(self, records: slice, batches: slice) -> RecordIndex:
        """Return the index of a range of records and of the batches that hold them."""
        return RecordIndex._make([*(column[records] for column in self[:8]), *(column[batches] for column in self[8:])])

    def take(self, keep: Flags, batch_of: Ints) -> RecordIndex:
        """Return the index of the records for which ``keep`` is true; ``batch_of`` has each record's batch."""
        rows = np.bincount(batch_of[keep], minlength=self.rows.size)
        return RecordIndex._make([*(column[keep] for column in self[:8]), rows, self.statuses, self.wheres])


@dataclass
class DecodedBatches:
    """Consecutive batches that were decoded together.

    Attributes:
        data: the bytes that were scanned; positions in ``batches`` count from its start.
        batches: the batch headers.
        sections: the decompressed records of each batch.
        index: the records that Kafka would return, or a selection of these records.
        first: number of the first batch in the batches that were passed to ``decode_steps``.
        base: position of the first byte of ``data`` in its source.
        file: name of the source in errors.
        lenient: whether the records were only checked like in the Kafka iterator that skips keys and values.
        allocate: function that returns uninitialized arrays for derived values, which are valid as long as the
            allocator's memory.
    """

    data: Bytes
    batches: BatchHeaders
    sections: RecordSections
    index: RecordIndex
    first: int = 0
    base: int = 0
    file: str | None = None
    lenient: bool = False
    allocate: Allocate = np.empty

    def __len__(self) -> int:
        return len(self.batches)

    @cached_property
    def owners(self) -> Ints:
        """The batch number of each record."""
        return np.repeat(np.arange(len(self.batches)), self.index.rows)

    @cached_property
    def starts(self) -> Ints:
        """The index position of each batch's first record, and the end of the last batch."""
        starts: Ints = np.concatenate(([0], np.cumsum(self.index.rows)))
        return starts

    @cached_property
    def base_offsets(self) -> Ints:
        """The base offset of each batch; for a compressed message, the offset of its first record."""
        bases = self.batches.column("base_offset")
        wrappers = self.batches.is_wrapper & (self.index.rows > 0)
        if wrappers.any():
            bases = bases.copy()
            bases[wrappers] = self.index.offsets[self.starts[:-1][wrappers]]
        return bases

    @cached_property
    def reached_counts(self) -> Ints:
        """The number of records that Kafka's iterator returns for each batch, including a last unreadable one."""
        row_counts = self.index.rows.copy()
        for batch in np.flatnonzero(self.index.statuses == UNREADABLE_FIELD).tolist():
            row_counts[batch] += batch not in self.sections.problems
        return row_counts

    @cached_property
    def crc_ok(self) -> Flags:
        """Whether each batch's CRC is right."""
        flags: Flags = check_crcs(self.data, self.batches) != 0
        return flags

    def repeat_per_record(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Repeat a batch's value for each of its records."""
        return np.repeat(values, self.index.rows)

    def select(self, keep: Flags) -> DecodedBatches:
        """Return the records for which ``keep`` is true. The values that belong to batches do not change."""
        selection = replace(self, index=self.index.take(keep, self.owners))
        selection.base_offsets, selection.reached_counts = self.base_offsets, self.reached_counts
        vars(selection).update({name: value for name, value in vars(self).items() if name in _CACHED_BATCH_VALUES})
        return selection

    def part(self, batch: int, first: int, last: int) -> DecodedBatches:
        """Return the records ``first`` to ``last`` (exclusive) of the index, which must all be in ``batch``."""
        batch_slice = slice(batch, batch + 1)
        result = replace(
            self,
            batches=self.batches.part(batch, batch + 1),
            sections=self.sections.part(batch, batch + 1),
            index=self.index.part(slice(first, last), batch_slice)._replace(rows=np.array([last - first])),
            first=self.first + batch,
        )
        result.base_offsets, result.reached_counts, result.crc_ok = (
            self.base_offsets[batch_slice],
            self.reached_counts[batch_slice],
            self.crc_ok[batch_slice],
        )
        return result

    def position(self, batch: int) -> int:
        """Return the position of a batch in the source, in bytes."""
        return self.base + int(self.batches.column("position")[batch])

    # ------------------------------------------------------------------------------------------------- damage

    def problem(self, batch: int) -> BatchProblem | None:
        """Return the reason why a batch's records end early; None if they are complete.

        The Kafka iterator that skips keys and values notices the end of a damaged stream inside a record. The iterator
        that reads all fields notices the end when it reads the whole record.
        """
        problem = find_problem(batch, self.index, self.sections)
        if problem is not None and self.lenient and problem.status in _TRUNCATION_REASONS:
            return self.sections.problems.get(batch, problem)
        return problem

    @cached_property
    def problems(self) -> dict[int, BatchProblem]:
        """The problems by batch, in batch order."""
        suspects = {*self.sections.problems, *np.flatnonzero(self.index.statuses).tolist()}
        problems = ((batch, self.problem(batch)) for batch in sorted(suspects))
        return {batch: problem for batch, problem in problems if problem is not None}

    def to_error(self, batch: int) -> CorruptRecordError | None:
        """Return the problem with a batch as an error with file and position; None without a problem."""
        problem = self.problems.get(batch)
        if problem is None:
            return None
        return CorruptRecordError(problem.reason, position=self.position(batch), file=self.file)

    def has_unreadable_field(self, batch: int) -> bool:
        """Return whether a key or value exceeds its message. Kafka returns that record, but cannot read the field."""
        problem = self.problem(batch)
        return problem is not None and problem.status == UNREADABLE_FIELD and batch not in self.sections.problems


def find_problem(row: int, index: RecordIndex, sections: RecordSections) -> BatchProblem | None:
    """Return why the records of a batch end early; None if they do not."""
    problem = sections.problems.get(row)
    status = int(index.statuses[row])
    if problem is not None and (sections.kinds[row] == SKIPPED or status in (DAMAGED_STREAM, WHOLE)):
        return problem
    return BatchProblem(status) if status != WHOLE else None
