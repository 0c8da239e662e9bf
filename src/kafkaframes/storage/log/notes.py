"""Notes of a log reader: files that are read in an unusual way, and records that an open transaction hides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from kafkaframes.errors.words import count_text
from kafkaframes.storage.files.findings import Finding


@dataclass(frozen=True, slots=True)
class HiddenRecords:
    """Records that ``read_committed`` omits because of an open transaction.

    Attributes:
        producer_id: producer id of the earliest open transaction; None if the brokers do not report it.
        first_offset: first offset of this transaction, which is the last stable offset.
        end_offset: offset after the last hidden record.
        records: number of hidden records, including those of the transaction; None if they were not counted, as
            in tiered segments and live topics.
        directory: path of the partition's directory; empty for a live topic.
    """

    topic: str
    partition: int
    producer_id: int | None
    first_offset: int
    end_offset: int
    records: int | None
    directory: str

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)

    @property
    def producer(self) -> str:
        """The producer as text."""
        return "a producer" if self.producer_id is None else f"producer {self.producer_id}"

    def __str__(self) -> str:
        is_counted = self.records is not None
        count = count_text(self.end_offset - self.first_offset if self.records is None else self.records, "record")
        return (
            f"{self.topic}-{self.partition}: the transaction of {self.producer} has been open since offset "
            f"{self.first_offset}; read_committed omits {'' if is_counted else 'up to '}{count} from there on"
        )


@dataclass(frozen=True, slots=True)
class LogNotes:
    """Irregularities (other than damage) that a reader found in logs, and the records that it omitted.

    Attributes:
        findings: swap files that are read as segments, and transaction indexes that differ from the markers.
        hidden_records: records that ``read_committed`` omits because of an open transaction, by partition.
        unreadable: errors of segments that cannot be read, and of partitions that cannot be read at all. The partition
            of such a segment ends before the segment.
    """

    findings: tuple[Finding, ...] = ()
    hidden_records: tuple[HiddenRecords, ...] = ()
    unreadable: tuple[Finding, ...] = ()

    def __add__(self, other: LogNotes) -> LogNotes:
        """Return the notes of both objects without duplicates."""
        return LogNotes(
            tuple(dict.fromkeys((*self.findings, *other.findings))),
            tuple(dict.fromkeys((*self.hidden_records, *other.hidden_records))),
            tuple(dict.fromkeys((*self.unreadable, *other.unreadable))),
        )

    def __iter__(self) -> Iterator[str]:
        """Yield each note as a line of text, omitted records first."""
        yield from map(str, self.unreadable)
        yield from map(str, self.hidden_records)
        yield from map(str, self.findings)

    def __bool__(self) -> bool:
        return bool(self.findings or self.hidden_records or self.unreadable)

    def as_json(self) -> dict[str, Any]:
        """Return the notes as a JSON object."""
        return {
            "notes": [finding.as_json() for finding in (*self.unreadable, *self.findings)],
            "open_transactions": [transaction.as_json() for transaction in self.hidden_records],
        }


NO_NOTES = LogNotes()


def merge_notes(notes: Iterable[LogNotes]) -> LogNotes:
    """Return all notes without duplicates."""
    return sum(notes, NO_NOTES)
