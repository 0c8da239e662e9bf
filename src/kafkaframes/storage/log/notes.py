"""What a reader of a log reports next to its records: files that it judged, records that an open transaction hides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from kafkaframes.storage.files.findings import Finding


@dataclass(frozen=True, slots=True)
class HiddenRecords:
    """Records that ``read_committed`` leaves out because a transaction before them is open.

    Attributes:
        producer_id: of the open transaction that begins first.
        first_offset: where that transaction begins; the last stable offset.
        end_offset: the offset after the last hidden record.
        records: number of hidden records, those of the open transaction included; None if they are in tiered segments.
        directory: path of the partition's directory.
    """

    topic: str
    partition: int
    producer_id: int
    first_offset: int
    end_offset: int
    records: int | None
    directory: str

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        count = f"up to {self.end_offset - self.first_offset:,}" if self.records is None else f"{self.records:,}"
        return (
            f"{self.topic}-{self.partition}: the transaction of producer {self.producer_id} is open since offset "
            f"{self.first_offset}; read_committed leaves out {count} record{'s' * (self.records != 1)} from there on"
        )


@dataclass(frozen=True, slots=True)
class LogNotes:
    """What a read of logs reports next to its records and their damage.

    Attributes:
        findings: files that were judged differently than a reader may expect: swap files that are read as segments,
            transaction indexes that differ from the markers.
        hidden: the records that ``read_committed`` leaves out because of an open transaction, by partition.
    """

    findings: tuple[Finding, ...] = ()
    hidden: tuple[HiddenRecords, ...] = ()

    def __add__(self, other: LogNotes) -> LogNotes:
        """Return the notes of both, each once."""
        findings = dict.fromkeys((*self.findings, *other.findings))
        return LogNotes(tuple(findings), tuple(dict.fromkeys((*self.hidden, *other.hidden))))

    def __iter__(self) -> Iterator[str]:
        """Yield each note as a line for people; hidden records first."""
        yield from map(str, self.hidden)
        yield from map(str, self.findings)

    def __bool__(self) -> bool:
        return bool(self.findings or self.hidden)

    def as_json(self) -> dict[str, Any]:
        """Return the notes as a JSON object."""
        return {
            "notes": [finding.as_json() for finding in self.findings],
            "open_transactions": [one.as_json() for one in self.hidden],
        }


NO_NOTES = LogNotes()


def sum_notes(notes: Iterable[LogNotes]) -> LogNotes:
    """Return the notes of all, each once."""
    return sum(notes, NO_NOTES)
