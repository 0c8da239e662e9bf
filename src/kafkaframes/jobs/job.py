"""Shared parts of all jobs over logs: task runners, atomic output directories and job reports.

A job stores its report in the output directory as ``_SUCCESS``. If the same job runs again on the same source, it
returns this report without repeating the work.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, get_args, get_origin, get_type_hints

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.row_counts import format_row_counts
from kafkaframes.storage.files import atomic

Runner = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
Report = TypeVar("Report")
Item = TypeVar("Item")


def run_here(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
    """Run the tasks one after the other in this process."""
    return map(function, tasks)


def split_by_cost(
    items: Iterable[Item],
    max_cost: int,
    cost: Callable[[Item], int],
    *,
    is_separate: Callable[[Item, Item], bool] | None = None,
) -> Iterator[list[Item]]:
    """Split items into groups of neighbors with a limited total cost.

    An item that exceeds the limit is a group of its own.

    >>> list(split_by_cost([3, 1, 5, 1, 1], 4, int))
    [[3, 1], [5], [1, 1]]
    >>> list(split_by_cost("aab", 9, len, is_separate=lambda before, after: before != after))
    [['a', 'a'], ['b']]

    Args:
        max_cost: largest total cost of a group.
        cost: function that returns the cost of an item.
        is_separate: function that returns whether two neighbors must be in different groups.
    """
    run: list[Item] = []
    total = 0
    for item in items:
        if run and (total + cost(item) > max_cost or (is_separate is not None and is_separate(run[-1], item))):
            yield run
            run, total = [], 0
        run.append(item)
        total += cost(item)
    if run:
        yield run


def parse_json_object(text: str | bytes) -> dict[str, Any]:
    """Return the JSON object in a text, or an empty dict if the text is not a JSON object."""
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    return values if isinstance(values, dict) else {}


class JsonDataclass:
    """Base class of dataclasses that convert to JSON values and back, nested dataclasses included."""

    __slots__ = ()

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {entry.name: _to_json_value(getattr(self, entry.name)) for entry in fields(self)}  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values. Every result of a public function has this method."""
        return self.as_json()

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Create an instance from the values that ``as_json`` returned."""
        kinds = get_type_hints(cls)
        return cls(**{name: _convert_value(kinds[name], value) for name, value in values.items()})


class ReprAsText:
    """Base class of results whose ``repr`` is their text, which notebooks show too."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def _to_json_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_json_value(element) for element in value]
    if isinstance(value, JsonDataclass):
        return value.as_json()
    return value._asdict() if hasattr(value, "_asdict") else value


def _convert_value(kind: Any, value: Any) -> Any:
    """Convert a JSON value to the type of a field."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if type(None) in inner:
        return None if value is None else _convert_value(inner[0], value)
    if origin is list:
        return [_convert_value(inner[0], element) for element in value] if inner else value
    if is_dataclass(origin):
        return origin.from_json(value)  # type: ignore[union-attr]
    if hasattr(origin, "_fields"):
        return origin(**value)
    return origin(value) if origin in (Counter, tuple) else value


@dataclass(slots=True)
class JobOutputReport(JsonDataclass):
    """The report of a job. ``destination`` is empty if the job only reported what it would do.

    Attributes:
        fingerprint: digest of the names, sizes and modification times of the source's segments.
        done_before: whether an earlier run of the same job had finished, so that this run did nothing.
    """

    source: Any
    destination: str
    settings: dict[str, Any]
    fingerprint: str
    done_before: bool = False

    @property
    def ending(self) -> str:
        """The last line of the summary, which contains the path of the output."""
        return f"{'done before' if self.done_before else 'done'}: {self.destination}"


DoneT = TypeVar("DoneT", bound=JobOutputReport)


def format_counts(parts: Sequence[Any], read_name: str, written_name: str, left_out_name: str) -> str:
    """Return the totals of read, written and omitted records as text.

    ``read_name`` and ``written_name`` are the names of the attributes that are added up.
    """
    sums = {name: [getattr(part, name) for part in parts] for name in (read_name, written_name, left_out_name)}
    reasons = sum(map(Counter, sums[left_out_name]), Counter[str]())
    return format_row_counts(sum(sums[read_name]), sum(sums[written_name]), reasons)


def settings_as_json(settings: Any) -> dict[str, Any]:
    """Return settings as JSON values, under the names and values that job reports store."""
    result: dict[str, Any] = {}
    for entry in fields(settings):
        value, stored_form = getattr(settings, entry.name), entry.metadata.get("stored")
        if not entry.metadata.get("recorded", True):
            continue
        if stored_form is None:
            result[entry.name] = value
        else:
            result[stored_form.name] = stored_form.values.get(value, value)
    if hasattr(settings, "to_stored_values"):
        result |= settings.to_stored_values()
    return result


def run_once(report: DoneT, fill: Callable[[Path], None]) -> DoneT:
    """Fill the output directory with ``fill`` and store the report, or return the report of an earlier equal job.

    The directory gets its name only when it is complete.

    Raises:
        LogDirError: another job is writing the directory, the directory has other contents, or the disk fails.
            Incomplete output is removed.
    """
    target = Path(report.destination)
    with atomic.hold_lock(target):
        if target.exists():
            return replace(type(report).from_json(_find_earlier_report(target, report)), done_before=True)
        with atomic.write_directory(target) as directory:
            fill(directory)
            # Brokers ignore files in this directory, so the success file can remain.
            with atomic.new_file(directory / atomic.SUCCESS_FILE) as out:
                out.write(json.dumps(report.as_json(), indent=1).encode())
    return report


def _find_earlier_report(target: Path, report: JobOutputReport) -> dict[str, Any]:
    """Return the stored report of an equal earlier run. A directory with other contents raises an error."""
    requested_state = json.loads(json.dumps([report.source, report.settings, report.fingerprint]))
    try:
        before: dict[str, Any] = json.loads((target / atomic.SUCCESS_FILE).read_bytes())
        is_same = [before[name] for name in ("source", "settings", "fingerprint")] == requested_state
    except (OSError, ValueError, KeyError, TypeError):
        is_same = False
    if not is_same:
        raise LogDirError(
            "exists already, and is not the result of this job: it was not written by it, or its source or settings "
            "have changed since then; choose another destination",
            file=str(target),
        )
    return before


@dataclass(frozen=True, slots=True, repr=False)
class JobResult(ReprAsText, Generic[Report]):
    """The outcome of a job. ``str()`` returns a readable summary.

    Attributes:
        report: the job's own report object.
        values: the report as JSON values.
        lines: the summary for users, one string per line.
    """

    report: Report
    values: dict[str, Any]
    lines: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return self.values

    def __str__(self) -> str:
        return "\n".join(self.lines)
