"""Kind ``cleaned``: a partition before and after Kafka's own log cleaner (``corpus/cleaned``).

The product receives a copy of ``before/`` with its file times, and the settings and the clock of each round. Compared:
the names of all files, every batch and record of every segment, the bytes of batches that were not rewritten or are
uncompressed, the transaction indexes, and the cleaner's checkpoint. Excluded, since Kafka does not determine them:
compressed bytes of rewritten batches (and therefore sizes and positions after them), index entries.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.agreement.kind import Case, Kind, differences
from tests.agreement.kinds.logs import parse_lines
from tests.storage.releases import release_of_version

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.compact.staged_compaction import PartitionCompaction, SplitSettings, clean_partitions
from kafkaframes.jobs.job import run_here
from kafkaframes.storage.cleaner import CleanerSettings, CleaningResult, clean_partition
from kafkaframes.storage.files.checkpoints import read_offset_checkpoint
from kafkaframes.storage.files.directory import Partition
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.producer_state import BEFORE_HORIZONS

_BEGIN = re.compile(r"(?P<at>\S+Z?) INFO .*Beginning cleaning of log (?P<log>\S+?)\.?$")
_MAX_LOG_DELAY_MS = 60  # the maximum delay between a round's clock and its log line
_SIZE_FIELDS = ("position", "size", "crc")
_SPLIT_SETTINGS = SplitSettings(secret=(1, 2), above_bytes=0, chunk_bytes=2000, run_entries=100, judge_entries=500)
_CHECKPOINT = "cleaner-offset-checkpoint"
EXPIRATIONS = {BEFORE_HORIZONS: "transactional.id.expiration.ms"}  # 2.8 has no separate setting for producers


def _yield_cases(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield Case(path.name, str(path))


def _list_clocks(config: dict[str, Any], name: str) -> list[int]:
    """Return the clock of each of a log's rounds: exact if the round set a horizon, else the time of the log line."""
    exact = config["now_ms_of_the_rounds_from_new_delete_horizons"]
    clocks = []
    for line in config["cleaner_log"]:
        match = _BEGIN.search(line)
        if match and match["log"] == name:
            at = int(datetime.fromisoformat(match["at"].rstrip("Z") + "+00:00").timestamp() * 1000)
            clocks.append(next((one for one in exact if 0 <= at - one <= _MAX_LOG_DELAY_MS), at))
    return clocks


def _build_settings(config: dict[str, Any], name: str, clock: int) -> CleanerSettings:
    topic, server = config["topic_config"], config["server_properties"]
    broker_release = release_of_version(config["kafka_version"])
    segment_bytes = topic.get("segment.bytes", server.get("log.segment.bytes"))
    values = {
        "delete_retention_ms": topic.get("delete.retention.ms", server.get("log.cleaner.delete.retention.ms")),
        "segment_bytes": topic.get("internal.segment.bytes", segment_bytes),
        "min_compaction_lag_ms": topic.get("min.compaction.lag.ms", server.get("log.cleaner.min.compaction.lag.ms")),
        "expiration_ms": server.get(EXPIRATIONS.get(broker_release, "producer.id.expiration.ms")),
        "index_bytes": topic.get("segment.index.bytes", server.get("log.index.size.max.bytes")),
        "index_interval_bytes": topic.get("index.interval.bytes", server.get("log.index.interval.bytes")),
        "high_watermark": config["high_watermark"].get(name),
    }
    numeric_values = {key: int(value) for key, value in values.items() if value is not None}
    return CleanerSettings(now_ms=clock, broker_release=broker_release, **numeric_values)


def _copy_case(case: Path, target: Path, config: dict[str, Any]) -> None:
    shutil.copytree(case / "before", target)
    for path in target.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for name, mtime_ms in config["segment_mtimes_ms"]["before"].items():
        os.utime(target / name, ns=(mtime_ms * 1_000_000,) * 2)


def _run_cleaner(logs: Path, config: dict[str, Any], work: Path) -> tuple[dict[str, int], list[str]]:
    """Run every round, and replace the partitions under ``logs`` with our results.

    Returns:
        The product's checkpoint, and the partitions for which several workers would write other files.
    """
    dirty: dict[str, int] = {}
    differences_found: list[str] = []
    for name in sorted(path.name for path in logs.iterdir() if path.is_dir()):
        clocks = _list_clocks(config, name) or [config["cleaner_started_between_ms"][1]]
        for number, clock in enumerate(clocks):
            (directory,) = discover(str(logs))
            (partition,) = [partition for partition in directory.partitions if str(partition.topic_partition) == name]
            settings = replace(_build_settings(config, name, clock), first_dirty_offset=dirty.get(name))
            try:
                result = clean_partition(directory.filesystem, partition, settings, work / f"{name}.{number}")
            except LogDirError:  # if Kafka cleans the log, the unchanged files are reported
                continue
            if result is None:
                continue
            dirty[name] = result.end_offset
            differences_found += _check_split_cleaning(directory.filesystem, partition, settings, result)
            shutil.rmtree(logs / name)
            shutil.move(work / f"{name}.{number}", logs / name)
    return dirty, differences_found


def _check_split_cleaning(
    filesystem: FileSystem, partition: Partition, settings: CleanerSettings, alone: CleaningResult
) -> list[str]:
    """Clean the partition again, split by segments: the files must be the same, byte for byte."""
    target = alone.directory.with_name("many")
    clean_partitions([PartitionCompaction(filesystem, partition, target)], settings, _SPLIT_SETTINGS, run_here)
    one, other = ({path.name: path.read_bytes() for path in top.iterdir()} for top in (alone.directory, target))
    shutil.rmtree(target)
    return [
        f"{name}: several workers write another file" for name in one.keys() | other if one.get(name) != other.get(name)
    ]


def _yield_disagreements(case: Case) -> Iterator[str]:
    folder = Path(case.payload)
    config = json.loads((folder / "config.json").read_text())
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        logs = work / "logs"
        _copy_case(folder, logs, config)
        dirty, different = _run_cleaner(logs, config, work)
        yield from different
        yield from itertools.islice(_compare(folder, logs, config, dirty), 40)


def _compare(folder: Path, logs: Path, config: dict[str, Any], dirty: dict[str, int]) -> Iterator[str]:
    after = folder / "after"
    before_checkpoint, after_checkpoint = (_read_checkpoint(folder / side) for side in ("before", "after"))
    yield from differences(after_checkpoint, before_checkpoint | dirty, "checkpoint")
    yield from differences(config["first_dirty_offset_after"], after_checkpoint, "config: first_dirty_offset_after")
    names, actual_names = _list_files(after, dirty), _list_files(logs, dirty)
    yield from differences(sorted(names), sorted(actual_names), "files")
    for name in sorted(name for name in names & actual_names if name.endswith(".txnindex")):
        if (after / name).read_bytes() != (logs / name).read_bytes():
            yield f"{name}: other bytes"
    yield from _compare_records(folder, logs)
    yield from _compare_bytes(folder, logs, sorted(name for name in names & actual_names if name.endswith(".log")))


def _list_files(logs: Path, cleaned_names: dict[str, int]) -> set[str]:
    """List the files of the partitions, except those that depend on the broker's restart and its delayed deletions.

    Files pending deletion (``.deleted``) exist or not, depending on the second. A log that was not cleaned still lost
    its stray snapshots when the broker started.
    """
    paths = [path for path in logs.rglob("*") if path.parent != logs and path.suffix != ".deleted"]
    return {
        str(path.relative_to(logs))
        for path in paths
        if path.suffix != ".snapshot" or path.parent.name in cleaned_names or path.with_suffix(".log").exists()
    }


def _read_checkpoint(logs: Path) -> dict[str, int]:
    path = logs / _CHECKPOINT
    if not path.exists():
        return {}
    return {str(key): value for key, value in read_offset_checkpoint(path.read_bytes()).items()}


def _read_reference(folder: Path, side: str) -> Iterator[dict[str, Any]]:
    with gzip.open(folder / "truth" / f"{side}.records.jsonl.gz") as texts:
        skipping = False
        for line in parse_lines(texts):
            if "segment" in line:
                skipping = line["segment"].endswith(".deleted")
            if not skipping:
                yield line


def _compare_records(folder: Path, logs: Path) -> Iterator[str]:
    from tests.agreement.kinds.logs import dump_lines

    copied_batches = {
        (line["crc"], line["size"]) for line in _read_reference(folder, "before") if line["type"] == "batch"
    }
    pairs = itertools.zip_longest(_read_reference(folder, "after"), parse_lines(dump_lines(logs)))
    for number, (expected_line, actual_line) in enumerate(pairs, 1):
        if expected_line is None or actual_line is None:
            yield f"line {number}: expected {expected_line}, found {actual_line}"
            continue
        free = _remove_free_fields(actual_line, copied_batches)
        expected_line = {key: value for key, value in expected_line.items() if key not in free}
        actual_line = {key: value for key, value in actual_line.items() if key not in free}
        yield from (f"line {number}: {text}" for text in differences(expected_line, actual_line))


def _remove_free_fields(actual_line: dict[str, Any], copied_batches: set[tuple[int, int]]) -> tuple[str, ...]:
    if actual_line["type"] == "end":
        return ("bytes_read", "file_size")
    if actual_line["type"] != "batch":
        return ()
    is_free = actual_line["codec"] != "none" and (actual_line["crc"], actual_line["size"]) not in copied_batches
    return _SIZE_FIELDS if is_free else ("position",)


def _compare_bytes(folder: Path, logs: Path, names: list[str]) -> Iterator[str]:
    """Check that uncompressed or copied batches of the same size have the same bytes, and so do files that consist
    of them.
    """
    before = {batch for path in (folder / "before").rglob("*.log") for batch in _split_batches(path)}
    for name in names:
        for number, (one, other) in enumerate(
            zip(_split_batches(folder / "after" / name), _split_batches(logs / name), strict=False)
        ):
            codec_bits = (one[17] if one[16] < 2 else one[22]) & 7
            if one != other and (not codec_bits or other in before or one in before):
                yield f"{name}: batch {number} has other bytes"


def _split_batches(path: Path) -> Iterator[bytes]:
    data, position = path.read_bytes(), 0
    while position + 12 <= len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        yield data[position : position + size]
        position += size


KIND = Kind("cleaned", ("cleaned",), _yield_cases, _yield_disagreements)
