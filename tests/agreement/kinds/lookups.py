"""Kind ``lookups``: offsetsForTimes and ListOffsets of a live broker, and Kafka's index classes on the files.

Each lookup is done twice, with and without the indexes. The modification times of the files are an input
(``segment_mtimes_ms`` of the case's manifest): a copy may have lost them, and Kafka uses them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.agreement.kind import Case, Kind, differences

from kafkaframes.storage.files.directory import LogDirectory, Partition, Segment, partitions_of
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.memory_disk import OverlayDisk
from kafkaframes.storage.files.names import CLUSTER_METADATA_TOPIC
from kafkaframes.storage.files.segment_reader import SegmentReader, open_segment
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.lookup import (
    TimedOffset,
    find_offset_for_timestamp,
    find_timestamp,
    log_end_offset,
)
from kafkaframes.storage.partition import open_log
from kafkaframes.storage.partition.fetch import MAX_TIMESTAMP

SUFFIX = ".lookups.json"
FIRST_BROKER_WITH_MAX_TIMESTAMP = (3, 0)  # KIP-734; older brokers return an error


def cases(folder: Path) -> Iterator[Case]:
    for truth in sorted(folder.glob(f"*{SUFFIX}")):
        yield Case(truth.name.removesuffix(SUFFIX), str(truth))


def disagreements(case: Case) -> Iterator[str]:
    truth_path = Path(case.payload)
    stem = truth_path.name.removesuffix(SUFFIX)
    truth = json.loads(truth_path.read_text())
    manifest = json.loads((truth_path.parent / f"{stem}.json").read_text())
    (directory,) = discover(str(truth_path.parent / stem))
    directory = set_mtimes(directory, manifest.get("segment_mtimes_ms", {}))
    live = {str(one.topic_partition): one for _, one in partitions_of([directory])}
    partitions_asked = {name: one for name, one in live.items() if not one.topic.startswith("__")}
    has_max_timestamp = tuple(map(int, manifest["kafka_version"].split(".")[:2])) >= FIRST_BROKER_WITH_MAX_TIMESTAMP
    yield from differences(set(partitions_asked) ^ set(truth["begin_end"]), set(), "partitions")
    yield from differences(set(truth), {"offsets_for_times", "list_offsets", "begin_end", "segment_lookups"}, "keys")
    for use_indexes in (True, False):
        where = "with indexes: " if use_indexes else "without: "
        for line in _compare_answers(truth, directory.filesystem, partitions_asked, has_max_timestamp, use_indexes):
            yield where + line
    yield from _compare_segment_lookups(truth["segment_lookups"], directory.filesystem, live)


def set_mtimes(directory: LogDirectory, mtimes: dict[str, int]) -> LogDirectory:
    """Set the recorded modification times of the ``.log`` files in a discovery."""

    def set_recorded_time(segment: Segment) -> Segment:
        relative = "/".join(segment.path.split("/")[-2:])
        return replace(segment, log=replace(segment.log, mtime_ms=mtimes.get(relative, segment.log.mtime_ms)))

    partitions = (
        replace(partition, segments=tuple(map(set_recorded_time, partition.segments)))
        for partition in directory.partitions
    )
    return replace(directory, partitions=tuple(partitions))


def _compare_answers(
    truth: dict[str, Any], filesystem: FileSystem, live: dict[str, Partition], has_max: bool, use_indexes: bool
) -> Iterator[str]:
    for topic, partition, timestamp, offset, found_timestamp in truth["offsets_for_times"]:
        one = live[f"{topic}-{partition}"]
        answer = find_offset_for_timestamp(filesystem, one, timestamp, use_indexes=use_indexes)
        answer_values = [None, None] if answer is None else [answer.offset, answer.timestamp]
        yield from differences([offset, found_timestamp], answer_values, f"{topic}-{partition} at {timestamp}")
    list_all = {name: _find_special_offsets(filesystem, one, has_max, use_indexes) for name, one in live.items()}
    yield from differences(truth["list_offsets"], list_all, "list_offsets")
    ends = {
        name: [one.log_start_offset, log_end_offset(filesystem, one, use_indexes=use_indexes)]
        for name, one in live.items()
    }
    yield from differences(truth["begin_end"], ends, "begin_end")


def _find_special_offsets(
    filesystem: FileSystem, partition: Partition, has_max: bool, use_indexes: bool
) -> dict[str, Any]:
    """Return the three special offsets: that of the largest timestamp from a newly opened log, and two from a
    leader.
    """
    epochs, start = partition.leader_epochs or (), partition.log_start_offset
    first = epochs[0].leader_epoch if epochs and epochs[0].start_offset <= start else -1
    end = log_end_offset(filesystem, partition, use_indexes=use_indexes)
    log = open_log(partition.directory, now_ms=0, disk=OverlayDisk(filesystem))
    largest = _triple(log.find_offset_for_timestamp(MAX_TIMESTAMP)) if has_max else "UnsupportedVersionException"
    latest = [end, -1, epochs[-1].leader_epoch if epochs else 0]
    return {"earliest": [start, -1, first], "latest": latest, "max_timestamp": largest}


def _triple(answer: TimedOffset) -> list[int]:
    return [answer.offset, answer.timestamp, answer.leader_epoch]


def _compare_segment_lookups(
    rows: list[dict[str, Any]], filesystem: FileSystem, live: dict[str, Partition]
) -> Iterator[str]:
    by_segment: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        by_segment.setdefault((row["directory"], row["segment"]), []).append(row)
    segments = {
        (name, str(segment.log.name)): segment
        for name, partition in live.items()
        for segment in partition.segments
        if partition.topic != CLUSTER_METADATA_TOPIC  # LookupTruth was not run on it
    }
    yield from differences(set(segments) ^ set(by_segment), set(), "segments")
    for key in segments.keys() & by_segment.keys():
        with open_segment(filesystem, segments[key]) as reader:
            for row in by_segment[key]:
                answer = _LOOKUP_BY_KIND[row["type"]](reader, row["target"])
                row_found = {
                    "type": row["type"],
                    "target": row["target"],
                    "directory": key[0],
                    "segment": key[1],
                    **answer,
                }
                yield from differences(row, row_found, f"{'/'.join(key)} {row['type']} {row['target']}")
            for problem in reader.problems:
                yield f"an index was ignored: {problem}"


def _look_up_offset(reader: SegmentReader, target: int) -> dict[str, Any]:
    header = reader.find_batch(target)
    batch = header and {"offset": header.last_offset, "position": header.position, "size": header.size}
    return {"entry": list(reader.find_entry_before(target)), "batch": batch}


def _look_up_timestamp(reader: SegmentReader, target: int) -> dict[str, Any]:
    base = reader.segment.base_offset
    timestamp_offset = find_timestamp(reader, target, min_offset=base)
    record = timestamp_offset and {"offset": timestamp_offset.offset, "timestamp": timestamp_offset.timestamp}
    return {"entry": list(reader.find_time_entry_before(target)), "record": record}


_LOOKUP_BY_KIND = {"offset": _look_up_offset, "timestamp": _look_up_timestamp}

KIND = Kind("lookups", ("logs",), cases, disagreements)
