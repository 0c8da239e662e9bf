"""What the functions beside the commands return: the job's own report, as text for people and as values for JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Report = TypeVar("Report")


@dataclass(frozen=True, slots=True, repr=False)
class JobResult(Generic[Report]):
    """The outcome of a job over a log. Printed, it is what a person wants to know.

    Attributes:
        report: all that the job says, as its room has it.
        values: the same as JSON has it.
        lines: the same for people, in short.
    """

    report: Report
    values: dict[str, Any]
    lines: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that JSON has."""
        return self.values

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def __str__(self) -> str:
        return "\n".join(self.lines)
