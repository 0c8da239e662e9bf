"""Batches decoded once, for who writes them anew: headers, sections, and all records' index with their batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafkaframes.records import decode
from kafkaframes.records.layout import CODEC_MASK, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from kafkaframes.records.reasons import BAD_VARINT, FIELD_PAST_RECORD, UNREADABLE_FIELD
from kafkaframes.records.scan import Batches, Bytes, Ints

_CUT_OFF = (BAD_VARINT, FIELD_PAST_RECORD)

Flags = npt.NDArray[np.bool_]


def count_records(data: Bytes, batches: Batches) -> int:
    """Return how many records batches hold: by their headers, and where a message set of formats 0 and 1 is
    compressed, by opening it, for no header says it.

    Args:
        data: with the batches at their positions.
        batches: good ones.
    """
    magic = batches.column("magic")
    wrapped = (magic < 2) & ((batches.column("attributes") & CODEC_MASK) != 0)
    count = int(batches.column("count").sum(where=magic >= 2)) + int(((magic < 2) & ~wrapped).sum())
    if wrapped.any():
        sets = Batches(np.ascontiguousarray(batches.table[:, wrapped]), batches.end)
        count += sum(int(part.index.rows.sum()) for part in decode.in_turn(data, sets))
    return count


@dataclass(frozen=True, slots=True)
class Decoded:
    """Batches with the index of their records.

    Attributes:
        owners: the batch of each record.
        starts: the place in the index of each batch's first record; one more for the end.
        lenient: decoded as Kafka's iterator does that skips keys and values.
    """

    data: Bytes
    batches: Batches
    sections: decode.Sections
    index: decode.Index
    owners: Ints
    starts: Ints
    lenient: bool = False

    @classmethod
    def of(cls, data: Bytes, batches: Batches, *, lenient: bool = False, total_bytes: int | None = None) -> Decoded:
        """Decode the records of all batches, at once.

        Args:
            data, batches: as for ``decode.open_sections``.
            lenient: as Kafka's iterator that skips keys and values.
            total_bytes: as for ``decode.open_sections``; None is no bound.
        """
        sections = decode.open_sections(data, batches, total_bytes=total_bytes or decode.NO_BUDGET)
        index = decode.index_records(batches, sections, lenient=lenient)
        owners = np.repeat(np.arange(len(batches)), index.rows)
        return cls(data, batches, sections, index, owners, np.concatenate(([0], np.cumsum(index.rows))), lenient)

    @classmethod
    def of_part(cls, data: Bytes, part: decode.Part) -> Decoded:
        """Return what ``decode.in_turn`` opened of ``data``."""
        owners = np.repeat(np.arange(len(part.batches)), part.index.rows)
        starts = np.concatenate(([0], np.cumsum(part.index.rows)))
        return cls(data, part.batches, part.sections, part.index, owners, starts)

    @classmethod
    def in_turn(cls, data: Bytes, batches: Batches) -> Iterator[tuple[int, Decoded]]:
        """Decode batches, not more at once than the budget of memory holds (``limits.budget``).

        Yields:
            The number of the first batch of a part among ``batches``, and the part.
        """
        for part in decode.in_turn(data, batches):
            yield part.first, cls.of_part(data, part)

    def problem(self, batch: int) -> decode.Problem | None:
        """Return why the batch's records ended before their time.

        The iterator that skips keys and values meets the end of a damaged stream inside a record, where the other one
        has asked for the whole record first.
        """
        problem = decode.problem_of(batch, self.index, self.sections)
        if problem is not None and self.lenient and problem.status in _CUT_OFF:
            return self.sections.problems.get(batch, problem)
        return problem

    def unreadable(self, batch: int) -> bool:
        """Whether a key or a value lies beyond its message: only who asks for it fails, the record is handed out."""
        problem = self.problem(batch)
        return problem is not None and problem.status == UNREADABLE_FIELD and batch not in self.sections.problems

    def flag(self, bit: int) -> Flags:
        """Return a flag of all batches; formats 0 and 1 have only that of the timestamp type (format 1)."""
        lowest = 1 if bit == LOG_APPEND_TIME else 2
        found: Flags = (self.batches.column("magic") >= lowest) & ((self.batches.column("attributes") & bit) != 0)
        return found

    @property
    def control(self) -> Flags:
        """Which batches are control batches."""
        return self.flag(CONTROL)

    @property
    def transactional(self) -> Flags:
        """Which batches are transactional."""
        return self.flag(TRANSACTIONAL)
