"""Batches that are open: the one value that ``decode.py`` makes, and that all who look at records are handed.

Headers (``batches``), where each batch's records lie (``sections``), and each record's offset, timestamp and places
(``index``). Nothing of a record is copied; columns, lines of text and rows to be written are made from it.
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
from kafkaframes.records.scan import Batches, Bytes, Flags, Ints, check_crcs

Ints32 = npt.NDArray[np.int32]
Allocate = Callable[[int, Any], npt.NDArray[Any]]

_CUT_OFF = (BAD_VARINT, FIELD_PAST_RECORD)
# What is known of batches, not of the records that were chosen from them.
_OF_BATCHES = ("base_offsets", "reached", "crc_ok")


class Problem(NamedTuple):
    """Why a batch's records ended, beyond what the kernel's number says."""

    status: int
    detail: str = ""

    @property
    def reason(self) -> str:
        """The problem in words."""
        words = RECORD_REASONS[self.status]
        return f"{words}: {self.detail}" if self.detail else words


class Sections(NamedTuple):
    """Where the records of each batch lie: ``buf[starts[i]:ends[i]]``; ``problems`` has what went wrong on the way."""

    buf: Bytes
    starts: Ints
    ends: Ints
    kinds: npt.NDArray[np.int8]
    problems: dict[int, Problem]

    def part(self, first: int, last: int) -> Sections:
        """Return what is said of the batches from ``first`` on, below ``last``."""
        problems = {row - first: known for row, known in self.problems.items() if first <= row < last}
        return Sections(self.buf, self.starts[first:last], self.ends[first:last], self.kinds[first:last], problems)


class Index(NamedTuple):
    """One element a record, in order; ``rows``, ``statuses`` and ``wheres`` have one a batch.

    A size of a key or value below zero is null. For formats 0 and 1 ``headers_at`` is the place of the message's CRC.
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

    def part(self, records: slice, batches: slice) -> Index:
        """Return the index of some records, which are those of some batches."""
        return Index._make([*(column[records] for column in self[:8]), *(column[batches] for column in self[8:])])

    def take(self, keep: Flags, batch_of: Ints) -> Index:
        """Return the index of the records where ``keep`` is true; ``batch_of`` is each record's batch."""
        rows = np.bincount(batch_of[keep], minlength=self.rows.size)
        return Index._make([*(column[keep] for column in self[:8]), rows, self.statuses, self.wheres])


@dataclass
class Decoded:
    """Consecutive batches that are open together.

    Attributes:
        data: the bytes that the positions of ``batches`` are counted from.
        sections: where their records lie, decompressed.
        index: the records that Kafka delivers of them, or those that were selected.
        first: the number of the first batch among those that were asked for.
        base: the position of ``data``'s first byte in its source.
        file: the source, as errors name it.
        lenient: decoded as Kafka's iterator does that skips keys and values.
        allocate: makes the arrays of what is made from the index; they are valid as long as its memory is.
    """

    data: Bytes
    batches: Batches
    sections: Sections
    index: Index
    first: int = 0
    base: int = 0
    file: str | None = None
    lenient: bool = False
    allocate: Allocate = np.empty

    def __len__(self) -> int:
        return len(self.batches)

    @cached_property
    def owners(self) -> Ints:
        """The number of each record's batch."""
        return np.repeat(np.arange(len(self.batches)), self.index.rows)

    @cached_property
    def starts(self) -> Ints:
        """The place in the index of each batch's first record, and one more for the end."""
        starts: Ints = np.concatenate(([0], np.cumsum(self.index.rows)))
        return starts

    @cached_property
    def base_offsets(self) -> Ints:
        """The batches' base offsets; of a compressed message its first record's (its own offset is the last's)."""
        bases = self.batches.column("base_offset")
        wrappers = self.batches.is_wrapper & (self.index.rows > 0)
        if wrappers.any():
            bases = bases.copy()
            bases[wrappers] = self.index.offsets[self.starts[:-1][wrappers]]
        return bases

    @cached_property
    def reached(self) -> Ints:
        """How many records Kafka's iterator hands out: one more where the last one's key or value cannot be read."""
        reached = self.index.rows.copy()
        for batch in np.flatnonzero(self.index.statuses == UNREADABLE_FIELD).tolist():
            reached[batch] += batch not in self.sections.problems
        return reached

    @cached_property
    def crc_ok(self) -> Flags:
        """Whether each batch's CRC is that of its bytes."""
        known: Flags = check_crcs(self.data, self.batches) != 0
        return known

    def of_batch(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Repeat a batch's value for each of its records."""
        return np.repeat(values, self.index.rows)

    def select(self, keep: Flags) -> Decoded:
        """Return the records where ``keep`` is true; what is said of their batches stays what it was."""
        chosen = replace(self, index=self.index.take(keep, self.owners))
        chosen.base_offsets, chosen.reached = self.base_offsets, self.reached
        vars(chosen).update({name: value for name, value in vars(self).items() if name in _OF_BATCHES})
        return chosen

    def part(self, batch: int, first: int, last: int) -> Decoded:
        """Return the records at ``first`` to ``last`` of the index, all of one batch, and that batch."""
        at = slice(batch, batch + 1)
        chosen = replace(
            self,
            batches=self.batches.part(batch, batch + 1),
            sections=self.sections.part(batch, batch + 1),
            index=self.index.part(slice(first, last), at)._replace(rows=np.array([last - first])),
            first=self.first + batch,
        )
        chosen.base_offsets, chosen.reached, chosen.crc_ok = self.base_offsets[at], self.reached[at], self.crc_ok[at]
        return chosen

    def position(self, batch: int) -> int:
        """Return where in the source a batch begins."""
        return self.base + int(self.batches.column("position")[batch])

    # ------------------------------------------------------------------------------------------------- damage

    def problem(self, batch: int) -> Problem | None:
        """Return why the batch's records ended before their time; ``None`` for a whole one.

        The iterator that skips keys and values meets the end of a damaged stream inside a record, where the other one
        has asked for the whole record first.
        """
        problem = problem_of(batch, self.index, self.sections)
        if problem is not None and self.lenient and problem.status in _CUT_OFF:
            return self.sections.problems.get(batch, problem)
        return problem

    @cached_property
    def problems(self) -> dict[int, Problem]:
        """The problem of each batch that has one, in their order."""
        suspects = {*self.sections.problems, *np.flatnonzero(self.index.statuses).tolist()}
        known = ((batch, self.problem(batch)) for batch in sorted(suspects))
        return {batch: problem for batch, problem in known if problem is not None}

    def error(self, batch: int) -> CorruptRecordError | None:
        """Return the problem of a batch as an error that names the file and the position."""
        problem = self.problems.get(batch)
        if problem is None:
            return None
        return CorruptRecordError(problem.reason, position=self.position(batch), file=self.file)

    def unreadable(self, batch: int) -> bool:
        """Whether a key or a value lies beyond its message: only who asks for it fails, the record is handed out."""
        problem = self.problem(batch)
        return problem is not None and problem.status == UNREADABLE_FIELD and batch not in self.sections.problems


def problem_of(row: int, index: Index, sections: Sections) -> Problem | None:
    """Return why the records of the batch ended before their time; ``None`` for a whole batch."""
    known = sections.problems.get(row)
    status = int(index.statuses[row])
    if known is not None and (sections.kinds[row] == SKIPPED or status in (DAMAGED_STREAM, WHOLE)):
        return known
    return Problem(status) if status != WHOLE else None
