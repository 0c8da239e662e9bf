"""Compact large partitions with many workers each: the same files as ``cleaner.clean_partition`` makes alone.

A partition is cut into chunks of segments and of parts of them. In a first walk workers share the keys out by digests
(``cleaner/exchange``), others judge which record is the last of each key, in a second walk the chunks are written, and
put together to the new segments. Transactions are followed by one worker, through the few facts that the chunks give.
What a round would do is counted in the same way, without the last step. A partition whose offsets do not rise (no
broker writes one) is left to one worker, which looks keys up one by one; so is one with a segment that has to be split
(``log.overflow``).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from kafkaframes.jobs.compact.stages import (
    AssembleTask,
    Chunk,
    CopyTask,
    FactsTask,
    FollowTask,
    JudgeTask,
    Part,
    PlanTask,
    RewriteTask,
    Rewritten,
    Stage,
    Walked,
    WalkTask,
    run_stage,
)
from kafkaframes.jobs.job import Runner
from kafkaframes.storage.cleaner.exchange import RUN_ENTRIES, Secret, buckets_for
from kafkaframes.storage.cleaner.filter import Tally
from kafkaframes.storage.cleaner.plan import CleanerSettings, RoundPlan, group_segments
from kafkaframes.storage.cleaner.round import SourceSegment, sources_of
from kafkaframes.storage.cleaner.walk import CleanedTransactions
from kafkaframes.storage.files import atomic
from kafkaframes.storage.files.directory import Partition, Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.scan import scan_segment

SCRATCH = ".kafkaframes-exchange"
_WORTH_OF_AN_ENTRY = 16 // 4  # in bytes of the log to walk through: to judge one of an entry's 16 takes a quarter


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """When and how partitions are shared out.

    Attributes:
        secret: two random numbers of 64 bits, the key of the digests.
        above_bytes: partitions up to this are one task.
        workers: how many there are; the tasks of a step are a multiple of it.
        chunk_bytes: neighbouring segments are one task up to about this; larger segments are divided.
        run_entries: entries that a worker sorts in memory, 32 bytes each.
        judge_entries: entries that one task judges, about.
        here_bytes: a step that has no more to read is carried out where the job is: to have it done elsewhere takes
            longer; so is a single task of up to a 64th of that.
        map_bytes: memory for the keys of a partition that is one task; one that needs more is shared out, too.
    """

    secret: Secret
    above_bytes: int = 64 << 20
    workers: int = 1
    chunk_bytes: int = 192 << 20
    run_entries: int = RUN_ENTRIES
    judge_entries: int = 8 << 20
    here_bytes: int = 64 << 20
    map_bytes: int = 512 << 20

    def tasks_for(self, amount: int, most: int) -> int:
        """Return how many tasks to make of an amount so that each has at most so much, and all workers their share.

        None gets less than a 16th of that, though: it would not be worth the task.

        >>> split = Split(secret=(0, 0), workers=4)
        >>> split.tasks_for(900, 100), split.tasks_for(90, 100), split.tasks_for(13, 100), split.tasks_for(0, 100)
        (12, 4, 2, 1)
        """
        shared = max(-(-amount // (most * self.workers)), 1) * self.workers
        return min(shared, max(16 * amount // most, 1))

    def carried_out(self, tasks: Sequence[Stage], run: Runner) -> list[Any]:
        """Have the tasks of a step carried out, little ones here; return their answers in order."""
        sizes = [task.size_bytes for task in tasks]
        alone = len(tasks) == 1 or sum(sizes) <= self.here_bytes
        away = [index for index, size in enumerate(sizes) if not alone and size > self.here_bytes // 64]
        answers = dict(zip(away, run(run_stage, [tasks[index] for index in away]) if away else (), strict=True))
        return [answers[index] if index in answers else run_stage(task) for index, task in enumerate(tasks)]


@dataclass(frozen=True, slots=True)
class Job:
    """One partition to clean.

    Attributes:
        target: where to; it must not exist. What workers leave for each other is beside it.
        writes: whether to write it; else the round is only counted.
    """

    filesystem: FileSystem
    partition: Partition
    target: Path
    writes: bool = True


@dataclass(slots=True)
class StagedRound:
    """One partition as it goes through the steps: each gives the tasks of a step, and takes their answers.

    Attributes:
        rises: whether the partition can be cleaned like this.
        fits: likewise; a segment whose offsets reach too far is split by who cleans it alone.
        tally: of the round, at its end.
    """

    job: Job
    settings: CleanerSettings
    split: Split
    plan: RoundPlan
    rises: bool = True
    fits: bool = True
    tally: Tally = field(default_factory=Tally)
    _sources: list[SourceSegment] = field(default_factory=list)
    _large: list[SourceSegment] = field(default_factory=list)
    _chunks: list[Chunk] = field(default_factory=list)
    _has_facts: list[bool] = field(default_factory=list)
    _states: list[CleanedTransactions] = field(default_factory=list)
    _walked: list[Walked] = field(default_factory=list)
    _verdicts: list[tuple[str, int, int]] = field(default_factory=list)
    _groups: list[list[Segment]] = field(default_factory=list)
    _parts: dict[int, list[Part]] = field(default_factory=dict)

    @property
    def is_possible(self) -> bool:
        """Whether the partition can be cleaned like this, as far as is known."""
        return self.rises and self.fits

    @property
    def end_offset(self) -> int:
        """The next round's first dirty offset."""
        return self.plan.first_uncleanable_offset

    @property
    def scratch(self) -> Path:
        """Where the workers leave files for each other."""
        return self.job.target.with_name(self.job.target.name + SCRATCH)

    @property
    def _buckets(self) -> int:
        return buckets_for(self.job.partition.size_bytes)

    @property
    def _aborted(self) -> tuple[Any, ...]:
        plan = self.plan
        return tuple(plan.aborted_between(plan.first_dirty_offset, plan.first_uncleanable_offset))

    @property
    def _shares(self) -> int:
        return self.split.tasks_for(sum(source.size_bytes for source in self._sources), self.split.chunk_bytes)

    def divide(self) -> Iterator[Stage]:
        """Find where segments can be divided that are larger than one share."""
        segments = self.plan.segments_between(0, self.plan.first_uncleanable_offset)
        self._sources = sources_of(self.plan, segments, self.settings)
        size = part_bytes(self._sources, self._shares)
        self._large = [source for source in self._sources if is_too_large(source, size)]
        for source in self._large:
            yield DivideTask(self.job.filesystem, source.segment, size)

    def take_divide(self, answers: list[Any]) -> None:
        """Take where, and divide them."""
        boundaries = {source.segment.path: one for source, one in zip(self._large, answers, strict=True)}
        self._sources = [
            part for source in self._sources for part in divided(source, boundaries.get(source.segment.path, ()))
        ]

    def collect(self) -> Iterator[Stage]:
        """Cut the partition; where transactions were aborted, their batches must be known before the first walk."""
        runs = cut(self._sources, self._shares)
        ends = [run[0].base_offset for run in runs[1:]] + [self.plan.first_uncleanable_offset]
        self._chunks = [
            Chunk(self.job.filesystem, number, run, end, str(self.scratch))
            for number, (run, end) in enumerate(zip(runs, ends, strict=True))
        ]
        if self._aborted:
            yield from (FactsTask(chunk) for chunk in self._chunks)

    def take_collect(self, answers: list[Any]) -> None:
        """Take which chunks have facts."""
        self._has_facts = answers

    def follow_first(self) -> Iterator[Stage]:
        """Follow the transactions through the dirty part."""
        if self._aborted:
            yield FollowTask(tuple(self._chunks), tuple(self._has_facts), self._aborted)

    def take_follow_first(self, answers: list[Any]) -> None:
        """Take how they stand where each chunk begins."""
        self._states = answers[0] if answers else [CleanedTransactions() for _ in self._chunks]

    def walk(self) -> Iterator[Stage]:
        """Walk through the chunks."""
        for chunk, state in zip(self._chunks, self._states, strict=True):
            yield WalkTask(
                chunk,
                self.plan.first_dirty_offset,
                state,
                not self._aborted,
                self.split.secret,
                self._buckets,
                self.split.run_entries,
            )

    def take_walk(self, answers: list[Any]) -> None:
        """Take what they found."""
        self._walked = answers
        if not self._aborted:
            self._has_facts = [walked.has_facts for walked in answers]
        last = -1
        for chunk, walked in zip(self._chunks, answers, strict=True):
            follows = walked.first_offset > last or walked.first_offset < 0
            self.rises = self.rises and walked.rises and follows and walked.last_offset < chunk.end_offset
            last = max(last, walked.last_offset)

    def judge(self) -> Iterator[Stage]:
        """Judge the entries by ranges of buckets; follow the transactions through the whole partition."""
        if not self.rises:
            return
        entries = tuple(
            (str(chunk.path("entries")), one.runs) for chunk, one in zip(self._chunks, self._walked, strict=True)
        )
        total = sum(sum(runs) for _, runs in entries)
        tasks = min(self._buckets, self.split.tasks_for(total, self.split.judge_entries))
        bounds = [self._buckets * number // tasks for number in range(tasks + 1)]
        self._verdicts = [(str(self.scratch / f"verdicts-{first:04}"), first, end) for first, end in pairwise(bounds)]
        for path, first, end in self._verdicts:
            yield JudgeTask(entries, path, self._buckets, first, end, total * _WORTH_OF_AN_ENTRY // tasks)
        if any(self._has_facts):
            yield FollowTask(tuple(self._chunks), tuple(self._has_facts), None)

    def take_judge(self, answers: list[Any]) -> None:
        """Take how the transactions stand where each chunk begins."""
        self._states = [CleanedTransactions() for _ in self._chunks]
        if answers and answers[-1] is not None:
            self._states = answers[-1]

    def rewrite(self) -> Iterator[Stage]:
        """Write what stays of the chunks, and copy what is not touched."""
        if not self.rises:
            return
        self._groups = group_segments(
            self.plan.segments_between(0, self.end_offset), self.settings, self.plan.first_uncleanable_offset
        )
        group_of = {segment.base_offset: group[0].base_offset for group in self._groups for segment in group}
        for chunk, state, walked in zip(self._chunks, self._states, self._walked, strict=True):
            counts: dict[int, int] = {}
            for source in chunk.sources:
                base = group_of.get(source.segment.base_offset)
                if base is not None:
                    counts[base] = counts.get(base, 0) + 1
            if counts:
                yield RewriteTask(
                    chunk,
                    tuple(counts.items()),
                    walked.runs,
                    tuple(self._verdicts),
                    self._buckets,
                    self.end_offset,
                    self.plan.producers,
                    state,
                    self.settings,
                    self.job.writes,
                )
        if self.job.writes:
            yield self._copy(group_of)

    def _copy(self, group_of: dict[int, int]) -> Stage:
        job = self.job
        rewritten = frozenset(group[0].base_offset for group in self._groups)
        cleaned = frozenset(group_of)
        size = sum(one.size_bytes for one in job.partition.segments if one.base_offset not in cleaned)
        return CopyTask(job.filesystem, job.partition, str(job.target), cleaned - rewritten, rewritten, size)

    def take_rewrite(self, answers: list[Rewritten | None]) -> None:
        """Take the parts, and add up what was done."""
        for rewritten in filter(None, answers):
            for part in rewritten.parts:
                self._parts.setdefault(part.base_offset, []).append(part)
            self.tally.add(rewritten.tally)
            self.fits = self.fits and not rewritten.overflows

    def assemble(self) -> Iterator[Stage]:
        """Put the parts together."""
        if not self.is_possible or not self.job.writes:
            return
        directory = str(self.job.target)
        for group in self._groups:
            base = group[0].base_offset
            size = sum(segment.size_bytes for segment in group)
            yield AssembleTask(base, tuple(self._parts[base]), group[-1].log, directory, self.settings, size)

    def take_assemble(self, answers: list[Any]) -> None:
        """Take the new segments' sizes."""
        self.tally.bytes_written += sum(answers)


_STEPS = ("divide", "collect", "follow_first", "walk", "judge", "rewrite", "assemble")


def clean_partitions(
    jobs: Sequence[Job], settings: CleanerSettings, split: Split, run: Runner
) -> list[StagedRound | None]:
    """Clean partitions, or count what that would do; ``None``: that partition cannot be cleaned like this.

    Raises:
        LogDirError: as ``cleaner.clean_partition``; the caller removes the targets then.
    """
    plans = split.carried_out([PlanTask(job.filesystem, job.partition, settings) for job in jobs], run)
    rounds = [StagedRound(job, settings, split, plan) for job, plan in zip(jobs, plans, strict=True)]
    going = [staged for staged in rounds if not staged.plan.is_empty]
    try:
        for staged in going:
            _make_directories(staged)
        for step in _STEPS:
            _step(step, going, split, run)
    finally:
        for staged in going:
            shutil.rmtree(staged.scratch, ignore_errors=True)
    for staged in going:
        if not staged.is_possible and staged.job.writes:
            shutil.rmtree(staged.job.target)
    return [staged if staged.is_possible and not staged.plan.is_empty else None for staged in rounds]


def _make_directories(staged: StagedRound) -> None:
    for directory in (staged.scratch, staged.job.target)[: 1 + staged.job.writes]:
        with atomic.writing(directory):
            if directory.exists():  # of a job that was killed
                shutil.rmtree(directory)
            directory.mkdir(parents=True)


def _step(step: str, rounds: Sequence[StagedRound], split: Split, run: Runner) -> None:
    """Carry out one step of all partitions together."""
    tasks = [(staged, task) for staged in rounds for task in getattr(staged, step)()]
    answers = split.carried_out([task for _, task in tasks], run)
    for staged in rounds:
        mine = [answer for (owner, _), answer in zip(tasks, answers, strict=True) if owner is staged]
        getattr(staged, f"take_{step}")(mine)


Boundary = tuple[int, int]
_PARTS_OF_A_SHARE = 2
_HEADERS_WEIGH = 12  # to walk through headers costs that much less than through records; measured: 20


@dataclass(frozen=True, slots=True)
class DivideTask:
    """Find where a segment can be divided.

    Attributes:
        part_bytes: about how far from each other.
    """

    filesystem: FileSystem
    segment: Segment
    part_bytes: int

    @property
    def size_bytes(self) -> int:
        """What that is worth in bytes to walk through."""
        return self.segment.size_bytes // _HEADERS_WEIGH

    def execute(self) -> list[Boundary]:
        """Return positions at which batches begin, each with an offset above all before it."""
        boundaries: list[Boundary] = []
        next_cut, highest = self.part_bytes, self.segment.base_offset - 1
        with self.filesystem.open(self.segment.path) as read_at:
            for window in scan_segment(read_at, size_bytes=self.segment.size_bytes, file=self.segment.path):
                positions, ends = window.batches.column("position"), window.batches.column("last_offset")
                highests = np.maximum.accumulate(np.concatenate(([highest], ends)))
                highest = int(highests[-1])
                while len(positions) and positions[-1] >= next_cut:
                    index = int(np.searchsorted(positions, next_cut))
                    boundaries.append((int(positions[index]), int(highests[index]) + 1))
                    next_cut = int(positions[index]) + self.part_bytes
        return boundaries


def part_bytes(sources: Sequence[SourceSegment], count: int) -> int:
    """Return how large the parts should be of which ``count`` shares can be made."""
    return max(sum(source.size_bytes for source in sources) // (count * _PARTS_OF_A_SHARE), 1)


def is_too_large(source: SourceSegment, part_size: int) -> bool:
    """Say whether a segment has to be divided for that."""
    return source.size_bytes > part_size * (_PARTS_OF_A_SHARE + 1)


def divided(source: SourceSegment, boundaries: Sequence[Boundary]) -> list[SourceSegment]:
    """Return the parts of a segment; its transactions are announced with the first."""
    starts = [(0, source.segment.base_offset), *boundaries]
    ends = [*(position for position, _ in boundaries), source.segment.size_bytes]
    return [
        replace(source, start=start, end=end, first_offset=offset, aborted=() if start else source.aborted)
        for (start, offset), end in zip(starts, ends, strict=True)
    ]


def cut(sources: Sequence[SourceSegment], count: int) -> list[tuple[SourceSegment, ...]]:
    """Cut segments into up to ``count`` runs of neighbours of about the same size; none is empty."""
    total = sum(source.size_bytes for source in sources)
    runs: list[list[SourceSegment]] = [[]]
    before = 0
    for source in sources:
        middle = before + source.size_bytes / 2
        if runs[-1] and middle * count >= len(runs) * total:
            runs.append([])
        runs[-1].append(source)
        before += source.size_bytes
    return [tuple(run) for run in runs if run]
