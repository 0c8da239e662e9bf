"""Compact large partitions with many workers each. The output files equal those of ``cleaner.clean_partition``.

A partition is split into chunks, which are segments or parts of segments. In a first pass, workers distribute key
digests (``cleaner/exchange``), and other workers determine the last record of each key. In a second pass, workers write
the chunks, which are then joined into new segments. One worker tracks the transactions of the whole partition from
their batch headers and markers. A preview runs the same steps except the last one, and counts the remaining records.
One worker compacts the whole partition, with a lookup for each key, if its offsets do not increase (no broker writes
such a partition) or a segment has to be split (``log.overflow``).
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from kafkaframes.jobs.compact.stages import (
    AssembleTask,
    CollectTransactionsTask,
    CompactionPlanTask,
    CopyTask,
    FirstPassResult,
    FirstPassTask,
    JudgeTask,
    LogChunk,
    OutputPart,
    SecondPassResult,
    SecondPassTask,
    StageTask,
    TrackTransactionsTask,
    run_stage,
)
from kafkaframes.jobs.job import Runner
from kafkaframes.storage.cleaner.exchange import MAX_RUN_ENTRIES, Secret, choose_bucket_count
from kafkaframes.storage.cleaner.filter import CleaningStatistics
from kafkaframes.storage.cleaner.plan import CleanerSettings, CleaningPlan, group_segments
from kafkaframes.storage.cleaner.round import SourceSegment, make_segment_sources
from kafkaframes.storage.cleaner.walk import CleanedTransactions
from kafkaframes.storage.files import atomic
from kafkaframes.storage.files.directory import Partition, Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.scan import scan_segment

SCRATCH_SUFFIX = ".kafkaframes-exchange"  # suffix of the directory in which workers exchange intermediate files
Answer = TypeVar("Answer")
Steps = Generator[Sequence[StageTask], list[Any], Answer]
Verdicts = tuple[tuple[str, int, int], ...]
_LOG_BYTES_PER_ENTRY = (
    16 // 4
)  # cost of processing a 16-byte entry, as the number of log bytes that take as long to read


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSettings:
    """Settings for splitting partitions into many tasks.

    Attributes:
        secret: two random 64-bit numbers, which are the secret key of the digests.
        above_bytes: size up to which a partition is one task, in bytes.
        workers: number of workers. The number of tasks in a step is a multiple of this number.
        chunk_bytes: approximate size of a task. Smaller neighboring segments share a task, larger segments are divided.
        run_entries: number of entries that a worker sorts in memory, with 32 bytes each.
        judge_entries: approximate number of entries for which one task finds the last record of each key.
        here_bytes: size up to which a step runs in the job's process, in bytes, because distributing it would take
            longer. A single task of up to 1/64 of this size also runs in the job's process.
        map_bytes: memory limit for the keys of a partition that is one task. A larger partition is split.
    """

    secret: Secret
    above_bytes: int = 64 << 20
    workers: int = 1
    chunk_bytes: int = 192 << 20
    run_entries: int = MAX_RUN_ENTRIES
    judge_entries: int = 8 << 20
    here_bytes: int = 64 << 20
    map_bytes: int = 512 << 20

    def count_tasks(self, work: int, max_work_per_task: int) -> int:
        """Return the number of tasks for an amount of work, with at most ``max_work_per_task`` in each task.

        A task has at least 1/16 of ``max_work_per_task``, because smaller tasks are not worth their overhead.

        >>> split = SplitSettings(secret=(0, 0), workers=4)
        >>> [split.count_tasks(work, 100) for work in (900, 90, 13, 0)]
        [12, 4, 2, 1]
        """
        task_count = max(-(-work // (max_work_per_task * self.workers)), 1) * self.workers
        return min(task_count, max(16 * work // max_work_per_task, 1))

    def run_step(self, tasks: Sequence[StageTask], run: Runner) -> list[Any]:
        """Run the tasks of a step, small ones in this process, and return their results in order."""
        sizes = [task.size_bytes for task in tasks]
        runs_all_here = len(tasks) == 1 or sum(sizes) <= self.here_bytes
        indexes_elsewhere = [
            index for index, size in enumerate(sizes) if not runs_all_here and size > self.here_bytes // 64
        ]
        answers = dict(
            zip(
                indexes_elsewhere,
                run(run_stage, [tasks[index] for index in indexes_elsewhere]) if indexes_elsewhere else (),
                strict=True,
            )
        )
        return [answers[index] if index in answers else run_stage(task) for index, task in enumerate(tasks)]


@dataclass(frozen=True, slots=True)
class PartitionCompaction:
    """A partition to clean, and the output directory.

    Attributes:
        target: output directory, which must not exist. Intermediate files of workers are next to this directory.
        writes: whether to write the output. If False, the job only counts records.
    """

    filesystem: FileSystem
    partition: Partition
    target: Path
    writes: bool = True


@dataclass(slots=True)
class StagedCompaction:
    """The compaction of one partition in steps. Many workers run each step.

    Attributes:
        rises: whether offsets increase through the whole partition. If False, one worker has to clean the partition.
        fits: whether the offsets of each segment are in range. If False, one worker has to clean the partition, and
            splits the segment.
        tally: counts of the cleaning, complete after the last step.
    """

    job: PartitionCompaction
    settings: CleanerSettings
    limits: SplitSettings
    plan: CleaningPlan
    rises: bool = True
    fits: bool = True
    tally: CleaningStatistics = field(default_factory=CleaningStatistics)
    _chunks: list[LogChunk] = field(default_factory=list)
    _has_transactions: list[bool] = field(default_factory=list)
    _states: list[CleanedTransactions] = field(default_factory=list)

    @property
    def is_splittable(self) -> bool:
        """Whether many workers can clean the partition, as far as the finished steps show."""
        return self.rises and self.fits

    @property
    def end_offset(self) -> int:
        """The first dirty offset after this cleaning."""
        return self.plan.first_uncleanable_offset

    @property
    def scratch(self) -> Path:
        """The directory for intermediate files of workers."""
        return self.job.target.with_name(self.job.target.name + SCRATCH_SUFFIX)

    @property
    def _bucket_count(self) -> int:
        """The number of ranges into which key hashes are divided."""
        return choose_bucket_count(self.job.partition.size_bytes)

    @property
    def _aborted_transactions(self) -> tuple[Any, ...]:
        """The aborted transactions of the part to clean."""
        return tuple(self.plan.list_aborted_transactions(self.plan.first_dirty_offset, self.end_offset))

    def _count_shares(self, sources: Sequence[SourceSegment]) -> int:
        """Return the number of tasks for segments, by their size."""
        return self.limits.count_tasks(sum(source.size_bytes for source in sources), self.limits.chunk_bytes)

    def iterate_steps(self) -> Steps[None]:
        """Yield the tasks of each step, and receive their results. End early if the partition cannot be split."""
        sources = yield from self._divide_segments()
        yield from self._split_into_chunks(sources)
        first_pass_results = yield from self._run_first_pass()
        if self.rises:
            verdicts = yield from self._select_remaining_entries(first_pass_results)
            yield from self._rewrite(first_pass_results, verdicts)

    def _divide_segments(self) -> Steps[list[SourceSegment]]:
        """Divide segments that are larger than a task's share, at batch boundaries."""
        sources = make_segment_sources(self.plan, self.plan.list_segments_between(0, self.end_offset), self.settings)
        size = choose_part_bytes(sources, self._count_shares(sources))
        large_segments = [source for source in sources if is_too_large(source, size)]
        task_results = yield [SplitPointsTask(self.job.filesystem, source.segment, size) for source in large_segments]
        boundaries = {
            source.segment.path: task_boundaries
            for source, task_boundaries in zip(large_segments, task_results, strict=True)
        }
        return [part for source in sources for part in divide_segment(source, boundaries.get(source.segment.path, ()))]

    def _split_into_chunks(self, sources: list[SourceSegment]) -> Steps[None]:
        """Split the partition into chunks, and find the aborted transactions, which the first pass needs."""
        runs = split_into_runs(sources, self._count_shares(sources))
        ends = [run[0].base_offset for run in runs[1:]] + [self.end_offset]
        self._chunks = [
            LogChunk(self.job.filesystem, number, run, end, str(self.scratch))
            for number, (run, end) in enumerate(zip(runs, ends, strict=True))
        ]
        aborted_transactions = self._aborted_transactions
        self._has_transactions = (
            yield [CollectTransactionsTask(chunk) for chunk in self._chunks] if aborted_transactions else []
        )
        track_task = TrackTransactionsTask(tuple(self._chunks), tuple(self._has_transactions), aborted_transactions)
        states_list = yield [track_task] if aborted_transactions else []
        self._states = states_list[0] if states_list else [CleanedTransactions() for _ in self._chunks]

    def _run_first_pass(self) -> Steps[list[FirstPassResult]]:
        """Run the first pass over the chunks, and check that offsets increase."""
        first_dirty, collects_headers, work_split = (
            self.plan.first_dirty_offset,
            not self._aborted_transactions,
            self.limits,
        )
        chunk_results: list[FirstPassResult] = yield [
            FirstPassTask(
                chunk,
                first_dirty,
                state,
                collects_headers,
                work_split.secret,
                self._bucket_count,
                work_split.run_entries,
            )
            for chunk, state in zip(self._chunks, self._states, strict=True)
        ]
        if collects_headers:
            self._has_transactions = [chunk_result.has_transactions for chunk_result in chunk_results]
        last = -1
        for chunk, chunk_result in zip(self._chunks, chunk_results, strict=True):
            is_ascending = chunk_result.first_offset > last or chunk_result.first_offset < 0
            self.rises = (
                self.rises and chunk_result.rises and is_ascending and chunk_result.last_offset < chunk.end_offset
            )
            last = max(last, chunk_result.last_offset)
        return chunk_results

    def _select_remaining_entries(self, first_pass_results: list[FirstPassResult]) -> Steps[Verdicts]:
        """Decide with a task for each range of buckets which entries remain, and track the partition's transactions."""
        entries = tuple(
            (str(chunk.make_path("entries")), chunk_result.runs)
            for chunk, chunk_result in zip(self._chunks, first_pass_results, strict=True)
        )
        total = sum(sum(runs) for _, runs in entries)
        count = min(self._bucket_count, self.limits.count_tasks(total, self.limits.judge_entries))
        bucket_bounds = [self._bucket_count * number // count for number in range(count + 1)]
        verdicts = tuple(
            (str(self.scratch / f"verdicts-{first:04}"), first, end) for first, end in pairwise(bucket_bounds)
        )
        size = total * _LOG_BYTES_PER_ENTRY // count
        tasks: list[StageTask] = [
            JudgeTask(entries, path, self._bucket_count, first, end, size) for path, first, end in verdicts
        ]
        if any(self._has_transactions):
            tasks.append(TrackTransactionsTask(tuple(self._chunks), tuple(self._has_transactions), None))
        task_results = yield tasks
        self._states = task_results[-1] or [CleanedTransactions() for _ in self._chunks]
        return verdicts

    def _rewrite(self, first_pass_results: list[FirstPassResult], verdicts: Verdicts) -> Steps[None]:
        """Write the remaining records of the chunks, copy unchanged segments, and join the parts."""
        groups = group_segments(self.plan.list_segments_between(0, self.end_offset), self.settings, self.end_offset)
        group_base_offsets = {
            segment.base_offset: segment_group[0].base_offset for segment_group in groups for segment in segment_group
        }
        tasks = list(self._list_rewrite_tasks(group_base_offsets, first_pass_results, verdicts))
        rewrite_results: list[SecondPassResult | None] = (
            yield [*tasks, self._make_copy_task(group_base_offsets)] if self.job.writes else tasks
        )
        parts: dict[int, list[OutputPart]] = {}
        for chunk_result in filter(None, rewrite_results):
            for part in chunk_result.parts:
                parts.setdefault(part.base_offset, []).append(part)
            self.tally.add(chunk_result.tally)
            self.fits = self.fits and not chunk_result.overflows
        if self.fits and self.job.writes:
            sizes: list[int] = yield [
                AssembleTask(
                    segment_group[0].base_offset,
                    tuple(parts[segment_group[0].base_offset]),
                    segment_group[-1].log,
                    str(self.job.target),
                    self.settings,
                    sum(segment.size_bytes for segment in segment_group),
                )
                for segment_group in groups
            ]
            self.tally.bytes_written += sum(sizes)

    def _list_rewrite_tasks(
        self, new_base_offsets: Mapping[int, int], first_pass_results: list[FirstPassResult], verdicts: Verdicts
    ) -> Iterator[StageTask]:
        """Yield the tasks of the second pass.

        Args:
            new_base_offsets: base offset of the new segment, by the base offset of the old one.
        """
        for chunk, state, chunk_result in zip(self._chunks, self._states, first_pass_results, strict=True):
            bases = (new_base_offsets.get(source.segment.base_offset) for source in chunk.sources)
            counts = Counter(base for base in bases if base is not None)
            if counts:
                yield SecondPassTask(
                    chunk,
                    tuple(counts.items()),
                    chunk_result.runs,
                    verdicts,
                    self._bucket_count,
                    self.end_offset,
                    self.plan.producers,
                    state,
                    self.settings,
                    self.job.writes,
                )

    def _make_copy_task(self, new_base_offsets: Mapping[int, int]) -> StageTask:
        """Return the task that copies the files of segments that the cleaning does not change."""
        job, old_bases, rewritten_bases = self.job, frozenset(new_base_offsets), frozenset(new_base_offsets.values())
        size = sum(segment.size_bytes for segment in job.partition.segments if segment.base_offset not in old_bases)
        return CopyTask(job.filesystem, self.plan, str(job.target), old_bases - rewritten_bases, rewritten_bases, size)


def clean_partitions(
    jobs: Sequence[PartitionCompaction], settings: CleanerSettings, work_split: SplitSettings, run: Runner
) -> list[StagedCompaction | None]:
    """Clean partitions, or only count the records that would be removed.

    The result of a partition that cannot be split is ``None``.

    Raises:
        LogDirError: as ``cleaner.clean_partition``. The caller then has to remove the targets.
    """
    plans = work_split.run_step([CompactionPlanTask(job.filesystem, job.partition, settings) for job in jobs], run)
    rounds = [StagedCompaction(job, settings, work_split, plan) for job, plan in zip(jobs, plans, strict=True)]
    nonempty_rounds = [staged_round for staged_round in rounds if not staged_round.plan.is_empty]
    try:
        for staged_round in nonempty_rounds:
            _make_directories(staged_round)
        _run_rounds([staged_round.iterate_steps() for staged_round in nonempty_rounds], work_split, run)
    finally:
        for staged_round in nonempty_rounds:
            shutil.rmtree(staged_round.scratch, ignore_errors=True)
    for staged_round in nonempty_rounds:
        if not staged_round.is_splittable and staged_round.job.writes:
            shutil.rmtree(staged_round.job.target)
    return [
        staged_round if staged_round.is_splittable and not staged_round.plan.is_empty else None
        for staged_round in rounds
    ]


def _make_directories(staged_round: StagedCompaction) -> None:
    """Create the empty directories of a partition's compaction, and remove those of a killed job."""
    for directory in (staged_round.scratch, staged_round.job.target)[: 1 + staged_round.job.writes]:
        with atomic.name_path_in_errors(directory):
            if directory.exists():  # output of a killed job
                shutil.rmtree(directory)
            directory.mkdir(parents=True)


def _run_rounds(rounds: Sequence[Steps[None]], work_split: SplitSettings, run: Runner) -> None:
    """Run each step for all partitions together, until every partition is finished."""
    pending_rounds = [(steps, next(steps)) for steps in rounds]
    while pending_rounds:
        results = iter(work_split.run_step([task for _, tasks in pending_rounds for task in tasks], run))
        results_by_round = [(steps, list(islice(results, len(tasks)))) for steps, tasks in pending_rounds]
        pending_rounds = []
        for steps, round_results in results_by_round:
            with suppress(StopIteration):
                pending_rounds.append((steps, steps.send(round_results)))


Boundary = tuple[int, int]
_PARTS_PER_SHARE = 2  # parts per share of work, so that parts can be grouped into shares of similar size
_HEADER_COST_DIVISOR = (
    12  # assumed cost of reading records divided by cost of reading headers; the measured ratio is 20
)


@dataclass(frozen=True, slots=True)
class SplitPointsTask:
    """Finds the batch boundaries at which a segment can be split.

    The task reads all batch headers, because the offset index may be wrong.

    Attributes:
        part_bytes: approximate distance between two boundaries.
    """

    filesystem: FileSystem
    segment: Segment
    part_bytes: int

    @property
    def size_bytes(self) -> int:
        """The cost of the task, as log bytes to read."""
        return self.segment.size_bytes // _HEADER_COST_DIVISOR

    def execute(self) -> list[Boundary]:
        """Return the positions of batch boundaries, each with an offset greater than all offsets before it."""
        boundaries: list[Boundary] = []
        next_cut, max_offset = self.part_bytes, self.segment.base_offset - 1
        with self.filesystem.open(self.segment.path) as read_at:
            for window in scan_segment(read_at, size_bytes=self.segment.size_bytes, file=self.segment.path):
                positions, ends = window.batches.column("position"), window.batches.column("last_offset")
                max_offsets = np.maximum.accumulate(np.concatenate(([max_offset], ends)))
                max_offset = int(max_offsets[-1])
                while len(positions) and positions[-1] >= next_cut:
                    index = int(np.searchsorted(positions, next_cut))
                    boundaries.append((int(positions[index]), int(max_offsets[index]) + 1))
                    next_cut = int(positions[index]) + self.part_bytes
        return boundaries


def choose_part_bytes(sources: Sequence[SourceSegment], count: int) -> int:
    """Return the part size with which the parts can be grouped into ``count`` shares of about equal size."""
    return max(sum(source.size_bytes for source in sources) // (count * _PARTS_PER_SHARE), 1)


def is_too_large(source: SourceSegment, part_size: int) -> bool:
    """Return whether a segment has to be divided into parts of this size."""
    return source.size_bytes > part_size * (_PARTS_PER_SHARE + 1)


def divide_segment(source: SourceSegment, boundaries: Sequence[Boundary]) -> list[SourceSegment]:
    """Return the parts of a segment. The first part has the segment's aborted transactions."""
    starts = [(0, source.segment.base_offset), *boundaries]
    ends = [*(position for position, _ in boundaries), source.segment.size_bytes]
    return [
        replace(
            source,
            start=start,
            end=end,
            first_offset=offset,
            aborted_transactions=() if start else source.aborted_transactions,
        )
        for (start, offset), end in zip(starts, ends, strict=True)
    ]


def split_into_runs(sources: Sequence[SourceSegment], count: int) -> list[tuple[SourceSegment, ...]]:
    """Split segments into up to ``count`` non-empty groups of neighbors with about the same total size."""
    total = sum(source.size_bytes for source in sources)
    runs: list[list[SourceSegment]] = [[]]
    size_before = 0
    for source in sources:
        middle = size_before + source.size_bytes / 2
        if runs[-1] and middle * count >= len(runs) * total:
            runs.append([])
        runs[-1].append(source)
        size_before += source.size_bytes
    return [tuple(run) for run in runs if run]
