"""Partitions of which several copies were loaded: one log of them (``replicas=merge``), or each by itself (``all``).

What a merge decides is decided here, before anything is read, from the headers of all copies; a merged partition is
then a list of segments like any other, each a stretch of a file of one copy, with the places where the other copies
have the same offsets. No pyspark.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from kafkaframes.errors import LogDirError
from kafkaframes.scan.log.discovery import DiscoveredLogs, Log
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import NO_END, NO_START, Segment
from kafkaframes.scan.ranges import narrowed
from kafkaframes.storage.copies.decisions import Decision, by_severity
from kafkaframes.storage.copies.one_log import merge_copies
from kafkaframes.storage.copies.reading import Alternate, CopySource
from kafkaframes.storage.copies.spans import Merged, SegmentRange, Span
from kafkaframes.storage.copies.view import View
from kafkaframes.storage.files.directory import LogDirectory
from kafkaframes.storage.files.findings import Severity

log = logging.getLogger("kafkaframes.spark")
_LEVELS = {Severity.NOTE: logging.INFO, Severity.WARNING: logging.WARNING, Severity.ERROR: logging.WARNING}
Name = tuple[str, int]


@dataclass(frozen=True, slots=True)
class OneOfEach:
    """Segments of which no two are copies.

    Attributes:
        logs: with the merged partitions as directories of their own.
        segments: those chosen, in order.
        decisions: what was decided, or could not be; the gravest first.
    """

    logs: DiscoveredLogs
    segments: list[Segment]
    decisions: tuple[Decision, ...] = ()


def merge_chosen(
    discovered: DiscoveredLogs, chosen: Sequence[Segment], options: ReadOptions, *, cores: int
) -> OneOfEach:
    """Merge the chosen topic partitions of which several copies were found.

    Raises:
        LogDirError: copies are of different topics or cannot be read; in mode FAILFAST, one contradicts another.
    """
    directories = _directories(chosen)
    if all(len(paths) == 1 for paths in directories.values()):
        return OneOfEach(discovered, list(chosen))
    by_directory, segments = dict(discovered.by_directory), []
    decisions: list[Decision] = []
    named = {(one.topic, one.partition): one.named for one in chosen}
    view = View(options.storage)
    with ThreadPoolExecutor(cores) as pool:
        for name, paths in directories.items():
            if len(paths) == 1:
                segments += [one for one in chosen if (one.topic, one.partition) == name]
                continue
            copies = [_source(by_directory[path]) for path in paths]
            merged = merge_copies(copies, run=pool.map)
            shown = view.add_merged(merged, copies)
            by_directory[shown.directory] = Log(view.filesystem, shown)
            segments += [_segment(merged, part, shown.directory, named[name]) for part in merged.spans]
            decisions += merged.decisions
            _report_lost(merged, options)
    listed = tuple(by_severity(decisions))
    _report(listed, options)
    return OneOfEach(replace(discovered, by_directory=by_directory), segments, listed)


def _directories(chosen: Sequence[Segment]) -> dict[Name, list[str]]:
    result: dict[Name, dict[str, None]] = {}
    for segment in chosen:
        result.setdefault((segment.topic, segment.partition), {})[segment.directory] = None
    return {name: list(paths) for name, paths in result.items()}


def _source(entry: Log) -> CopySource:
    if entry.log_directory is None:  # of a merge; there is nothing to merge it with
        return CopySource(LogDirectory(entry.partition.log_directory, entry.filesystem), entry.partition)
    return CopySource(entry.log_directory, entry.partition)


def _report(decisions: Sequence[Decision], options: ReadOptions) -> None:
    for decision in decisions:
        if decision.check == "undecided" and options.mode == "FAILFAST":
            location = decision.locations[0]
            raise LogDirError(str(decision), position=location.position, file=location.file)
        log.log(_LEVELS[decision.severity], "%s", decision)


def _report_lost(merged: Merged, options: ReadOptions) -> None:
    for path, damage in merged.lost_chunks():
        if options.mode == "FAILFAST":
            raise damage
        log.warning("%s: %s; no other copy has its offsets", path, damage)


def _segment(merged: Merged, part: Span, directory: str, named: bool) -> Segment:
    stored = merged.segment(part.at)
    least = max(part.first_offset if part.is_clipped else NO_START, merged.start_offset)
    return Segment(
        path=stored.path,
        size_bytes=part.at.end,
        base_offset=part.first_offset,
        topic=merged.topic_partition.topic,
        partition=merged.topic_partition.partition,
        directory=directory,
        index_path=stored.index.path if stored.index else None,
        named=named,
        log_start_offset=least if part.is_clipped or least > part.first_offset else NO_START,
        stored=stored,
        source=merged.copies[part.at.copy].source,
        start=part.at.start,
        end_offset=part.end_offset if part.is_clipped else NO_END,
        alternates=tuple(_alternate(merged, one) for one in part.alternates),
    )


def _alternate(merged: Merged, at: SegmentRange) -> Alternate:
    return Alternate(merged.segment(at).path, at.start, at.end)


def copies_apart(chosen: Sequence[Segment], options: ReadOptions) -> Iterator[tuple[list[Segment], ReadOptions]]:
    """Yield segments of which no two are copies, with the options for their partitions, until all were there."""
    directories = _directories(chosen)
    for turn in range(max((len(paths) for paths in directories.values()), default=0)):
        paths = {all_of[turn] for all_of in directories.values() if len(all_of) > turn}
        part = [segment for segment in chosen if segment.directory in paths]
        yield part, of_partitions({(one.topic, one.partition) for one in part}, options)


def of_partitions(names: set[Name], options: ReadOptions) -> ReadOptions:
    """Return options whose bounds say nothing of other topic partitions."""
    return replace(options, start=narrowed(options.start, names), end=narrowed(options.end, names))
