"""The findings of a verification, as values for display, for JSON and for the exit status."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from kafkaframes.errors.words import count_text, verb_text


class Severity(IntEnum):
    """The severity of a finding."""

    NOTE = 0  # a normal state of a broker's files: a preallocated tail, a file that will be deleted
    WARNING = 1  # no record is lost, but results may be wrong: an index, a checkpoint, a sequence number
    ERROR = 2  # bytes of records are damaged, missing or out of order


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault that a verification found: damage, or a deviation from a sound log.

    Attributes:
        check: stable identifier of the check.
        position: position in the file, in bytes; None if the finding has none.
        offset: record offset; None if the finding has none.
    """

    severity: Severity
    check: str
    message: str
    file: str
    position: int | None = None
    offset: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the finding as a JSON object, with the name of the severity."""
        return asdict(self) | {"severity": self.severity.name.lower()}

    def __str__(self) -> str:
        location = self.file if self.position is None else f"{self.file}, byte {self.position}"
        return f"{self.severity.name.lower()}: {self.check}: {self.message} (at {location})"


def describe_caveats(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return a text per kind of warning: why consumers may miss records although the log is not damaged.

    >>> describe_caveats([Finding(Severity.WARNING, "txnindex-missing", "", "0.log")])
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


def find_highest_severity(findings: Iterable[Finding]) -> Severity:
    """Return the highest severity; NOTE if there are no findings."""
    return max((finding.severity for finding in findings), default=Severity.NOTE)
