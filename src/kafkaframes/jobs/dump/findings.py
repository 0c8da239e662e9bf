"""What the dump of a file finds besides its lines: numbers that disagree, and faults that ended a batch or the file.

kafka-dump-log keeps such pairs to itself until it has printed every file, and then writes them to its standard error,
most of them from the last to the first. :func:`finding_lines` does the same for one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.dump.styles import Style

Pairs = list[tuple[int, int]]


@dataclass(slots=True)
class Findings:
    """What was noticed in one file.

    Attributes:
        file: its path, as it is shown.
        mismatches: of an index: the entry's offset, and the last offset of the batch at the entry's position.
        timestamp_mismatches: of a time index: the entry's timestamp, and the largest of its batch.
        out_of_order: of a time index: an entry's timestamp, and the one before it.
        missing: of a time index: the entry's offset, and what the log has there (-1: nothing).
        not_consecutive: of a segment: the offset of a record, and that of the next.
        notes: whole lines for standard error.
        faults: what stopped a batch's records, or the file; Kafka's tool ends at the first.
    """

    file: str
    mismatches: Pairs = field(default_factory=list)
    timestamp_mismatches: Pairs = field(default_factory=list)
    out_of_order: Pairs = field(default_factory=list)
    missing: Pairs = field(default_factory=list)
    not_consecutive: Pairs = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    faults: list[KafkaframesError] = field(default_factory=list)


def finding_lines(findings: Findings, style: Style) -> Iterator[str]:
    """Yield the lines of one file's findings, as kafka-dump-log words them; faults are not among them."""
    yield from findings.notes
    for heading, detail, pairs in (
        ("Mismatches in :{file}", "  Index offset: {}, log offset: {}", findings.mismatches),
        (
            "Found timestamp mismatch in :{file}",
            "  Index timestamp: {}, log timestamp: {}",
            findings.timestamp_mismatches,
        ),
        (
            "Found out of order timestamp in :{file}",
            "  Index timestamp: {}, Previously indexed timestamp: {}",
            findings.out_of_order,
        ),
        (style.missing_heading, "Indexed offset: {}, found log offset: {}", findings.missing),
        ("Non-consecutive offsets in {file}", "  {} is followed by {}", findings.not_consecutive),
    ):
        if pairs:
            yield heading.format(file=findings.file)
            first_to_last = style.counts_from_zero and pairs is findings.not_consecutive
            yield from (detail.format(*pair) for pair in (pairs if first_to_last else reversed(pairs)))
