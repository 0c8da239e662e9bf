"""An export of live topics to files, planned while the destination is locked, because the plan continues its journal.

The journal has the result of each exported offset range. A run also writes a line about its plan before it reads:

    {"plan": {"starts": {"orders": {"0": 0}}, "topic_ids": {"orders": "AAAA..."}, "gaps": [["orders", 0, 5, 9]]}}

``starts`` contains the first offset of each partition that the destination did not have before. From there on, a
partition's records are complete up to the first offset that is neither in a range with a file nor in an accepted gap.
The next run reads the later offsets that no finished range covers. Ranges may be finished in any order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kafkaframes.jobs.export.planning import FinishedSegments, has_output, read_newest_results
from kafkaframes.jobs.export.positions import (
    Fingerprints,
    Gap,
    IncrementPlan,
    Plan,
    TopicPartition,
    topic_id_to_int,
)
from kafkaframes.jobs.export.run import Outcome, RemainingWork, export_to_single_file, export_work
from kafkaframes.jobs.export.task import ExportTask, ExportTaskSettings, SegmentResult, open_journal, read_journal
from kafkaframes.jobs.job import Runner, run_here
from kafkaframes.scan.fingerprints import MAX_FINGERPRINTS
from kafkaframes.scan.ranges import nest_by_topic
from kafkaframes.storage.files.findings import Finding, Severity
from kafkaframes.storage.log.notes import LogNotes

_PLAN_KEY = "plan"  # key of the plan in the stored settings
# Part of the stored settings, so that logs are not exported to the same destination.
_SOURCE_SETTING = {"source": "live topics"}
Interval = tuple[int, int]


@dataclass(frozen=True)
class TopicExport:
    """An export of live topics to files that is ready to run.

    Attributes:
        plan: function that plans the offsets to add, given the destination's positions.
        settings: settings that select the records of each task, and the output format.
        overwrite: whether to replace the output of an earlier export.
        single_file: whether to write one Parquet file.
    """

    plan: Plan
    settings: ExportTaskSettings
    overwrite: bool = False
    single_file: bool = False

    @property
    def part(self) -> str:
        """The word for the part of the source that a task exports."""
        return "range"

    @property
    def size_bytes(self) -> None:
        """None, because the number of bytes to read is only known when the export runs."""

    def write_files(self, run: Runner = run_here) -> Outcome:
        """Write the records that no earlier run has written.

        Args:
            run: function that runs the tasks, in this process or in workers. One process writes a single file.

        Raises:
            OptionError: the destination cannot be written; it has other contents, or an export of another topic or with
                other settings; or the topics have lost records.
            BrokerError, NetworkError: the topics cannot be read. The next run continues after the finished ranges.
        """
        settings, overwrite = self.settings, self.overwrite
        if self.single_file:
            plan = self.plan(None)
            return export_to_single_file(plan.tasks, settings, overwrite=overwrite, notes=_list_notes(plan))
        fingerprint = settings.stored_fingerprint() | _SOURCE_SETTING
        return export_work(self._find_work, settings, fingerprint, run=run, overwrite=overwrite)

    def _find_work(self) -> RemainingWork:
        """Return the remaining tasks, after writing the plan's new topic ids, start offsets and gaps to the journal."""
        to = self.settings.to
        contents = read_contents(to)
        plan = self.plan(contents)
        if (values := _select_new_facts(plan, contents)) is not None:
            with open_journal(to) as record:
                record({_PLAN_KEY: values})
        tasks = [task for planned in plan.tasks for task in contents.omit_finished_offsets(planned)]
        done = {result.task.name: result for result in contents.results}
        selected_results = [
            result for result in contents.results if (result.task.topic, result.task.partition) in plan.starts
        ]
        selected_tasks = sorted([*(result.task for result in selected_results), *tasks], key=_make_sort_key)
        outputs = frozenset(result.output for result in done.values() if result.output is not None)
        return RemainingWork(
            [task.name for task in selected_tasks],
            [(task,) for task in tasks],
            FinishedSegments({result.task.name: result for result in selected_results}, {}, outputs),
            notes=_list_notes(plan),
        )


@dataclass(frozen=True)
class DestinationContents:
    """The records of live topics that a destination has, according to its journal and its files.

    Attributes:
        results: valid results of earlier runs by topic, partition and offset.
        starts: first offset of each topic partition.
        topic_ids: topic ids.
        gaps: accepted gaps.
    """

    results: Sequence[SegmentResult]
    starts: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    gaps: Sequence[Gap]

    @property
    def find_end(self) -> Callable[[TopicPartition], int | None]:
        """A function that returns the offset up to which a topic partition is complete; None if it is new."""
        return self._ends.get

    @property
    def find_topic_number(self) -> Callable[[str], int | None]:
        """A function that returns ``topic_id_to_int`` of a topic's stored id; None if it is unknown."""
        return lambda topic: topic_id_to_int(self.topic_ids[topic]) if topic in self.topic_ids else None

    @property
    def fingerprints(self) -> Fingerprints:
        """The fingerprints of the last records of topic partitions, up to the offset of ``find_end``."""
        ends = self._ends
        rows: dict[TopicPartition, list[Any]] = defaultdict(list)
        for result in self.results:
            name = result.task.topic, result.task.partition
            if name in ends and (result.task.end_offset or 0) <= ends[name]:
                rows[name] += result.tally.last_records
        return {name: tuple(all_rows[-MAX_FINGERPRINTS:]) for name, all_rows in rows.items()}

    @cached_property
    def _ends(self) -> dict[TopicPartition, int]:
        return {name: _find_contiguous_end(start, self._intervals[name]) for name, start in self.starts.items()}

    @cached_property
    def _intervals(self) -> dict[TopicPartition, list[Interval]]:
        """Return the offset ranges that files or accepted gaps cover, in order."""
        intervals: dict[TopicPartition, list[Interval]] = defaultdict(list)
        for result in self.results:
            intervals[result.task.topic, result.task.partition].append(_interval_of(result.task))
        for gap in self.gaps:
            intervals[gap.topic, gap.partition].append((gap.first, gap.end))
        return defaultdict(list, {name: sorted(ranges) for name, ranges in intervals.items()})

    def omit_finished_offsets(self, task: ExportTask) -> Iterator[ExportTask]:
        """Yield tasks for the offsets of a task that no earlier run has exported."""
        position, end = _interval_of(task)
        for first, last in self._intervals[task.topic, task.partition]:
            if last > position and first < end:
                if first > position:
                    yield _slice_task(task, position, first)
                position = last
        if position < end:
            yield _slice_task(task, position, end)


def read_contents(to: str) -> DestinationContents:
    """Read the journal of a destination. A result is not valid if its file is missing or has another size."""
    results = [result for result in read_newest_results(to).values() if result.output is None or has_output(to, result)]
    starts: dict[TopicPartition, int] = {}
    topic_ids: dict[str, str] = {}
    gaps: list[Gap] = []
    for values in read_journal(to):
        plan = values.get(_PLAN_KEY)
        if isinstance(plan, dict):
            for topic, partitions in plan["starts"].items():
                starts |= {(topic, int(partition)): start for partition, start in partitions.items()}
            topic_ids |= plan["topic_ids"]
            gaps += [Gap(*gap) for gap in plan["gaps"]]
    return DestinationContents(sorted(results, key=lambda result: _make_sort_key(result.task)), starts, topic_ids, gaps)


def _select_new_facts(plan: IncrementPlan, contents: DestinationContents) -> dict[str, Any] | None:
    """Return the topic ids, start offsets and gaps of a plan that the journal lacks; None if it has all.

    The values are JSON values.
    """
    starts = {name: start for name, start in plan.starts.items() if name not in contents.starts}
    topic_ids = {
        name: topic_partition for name, topic_partition in plan.topic_ids.items() if name not in contents.topic_ids
    }
    if not (starts or topic_ids or plan.gaps):
        return None
    gaps = [[gap.topic, gap.partition, gap.first, gap.end] for gap in plan.gaps]
    return {"starts": nest_by_topic(starts), "topic_ids": topic_ids, "gaps": gaps}


def _list_notes(plan: IncrementPlan) -> LogNotes:
    """Return a plan's notes, with one for each gap."""
    losses = tuple(
        Finding(Severity.NOTE, "lost-records", f"{gap} are no longer in the topic", gap.topic, offset=gap.first)
        for gap in plan.gaps
    )
    return plan.notes + LogNotes(losses)


def _interval_of(task: ExportTask) -> Interval:
    return task.first_offset or 0, task.end_offset or 0


def _make_sort_key(task: ExportTask) -> tuple[str, int, int]:
    return task.topic, task.partition, task.first_offset or 0


def _find_contiguous_end(start: int, intervals: Iterable[Interval]) -> int:
    """Return the offset up to which intervals cover all offsets from ``start`` on.

    >>> _find_contiguous_end(3, [(0, 5), (5, 9), (10, 12)])
    9
    """
    end = start
    for first, last in intervals:
        if first > end:
            break
        end = max(end, last)
    return end


def _slice_task(task: ExportTask, first: int, end: int) -> ExportTask:
    """Return a task that exports only a part of another task's offsets."""
    if (first, end) == _interval_of(task):
        return task
    whole_first, whole_end = _interval_of(task)
    size_bytes = max(task.size_bytes * (end - first) // (whole_end - whole_first), 1)
    return replace(
        task, size_bytes=size_bytes, base_offset=first, first_offset=first, end_offset=end, label=f"{first:020}"
    )
