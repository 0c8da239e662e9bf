"""What a verification finds, as values: for people, for machines, and for the exit status."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from kafkaframes.errors.words import count_text, verb_text


class Severity(IntEnum):
    """How grave a finding is."""

    NOTE = 0  # as brokers leave it: a preallocated tail, a file that waits for its deletion
    WARNING = 1  # no record is lost, but a broker or a tool may answer wrongly: an index, a checkpoint, a sequence
    ERROR = 2  # bytes of records are damaged, missing or out of order


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        check: a stable word for machines.
        position: the byte in that file, where one can be named.
        offset: the record offset, where one can be named.
    """

    severity: Severity
    check: str
    message: str
    file: str
    position: int | None = None
    offset: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object, the severity as a word."""
        return asdict(self) | {"severity": self.severity.name.lower()}

    def __str__(self) -> str:
        where = self.file if self.position is None else f"{self.file}, byte {self.position}"
        return f"{self.severity.name.lower()}: {self.check}: {self.message} (at {where})"


def caveats_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return what makes consumers of a broker that opens a sound log as it is receive other records than expected.

    >>> caveats_of([Finding(Severity.WARNING, "txnindex-missing", "", "0.log")])
    ('1 transaction index differs from its markers',)
    """
    warnings = [finding for finding in findings if finding.severity]
    indexes = len({finding.file for finding in warnings if finding.check.startswith("txnindex-")})
    opened = sum(finding.check == "open-transaction" for finding in warnings)
    differ, hide = verb_text(indexes, "differs from its", "differ from their"), verb_text(opened, "hides", "hide")
    texts = {
        f"{count_text(indexes, 'transaction index', 'transaction indexes')} {differ} markers": indexes,
        f"{count_text(opened, 'open transaction')} {hide} records from read_committed": opened,
    }
    return tuple(text for text, count in texts.items() if count)


def worst(findings: Iterable[Finding]) -> Severity:
    """Return the gravest severity; NOTE where nothing was found."""
    return max((finding.severity for finding in findings), default=Severity.NOTE)
