"""The result of a public function that runs a job: its report as an object, as JSON values, and as text."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, Generic, TypeVar

Report = TypeVar("Report")


@dataclass(frozen=True, slots=True, repr=False)
class JobResult(Generic[Report]):
    """The outcome of a job over a log. Its text is a summary for people.

    Attributes:
        report: the job's own report object.
        values: the same as JSON values.
        lines: a short text of it.
    """

    report: Report
    values: dict[str, Any]
    lines: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return self.values

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def __str__(self) -> str:
        return "\n".join(self.lines)
