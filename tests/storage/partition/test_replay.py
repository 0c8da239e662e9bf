"""A real broker's logs, appended batch by batch with its settings, result in the files that the broker wrote."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from kafkaframes.records.scan import FILE, scan_all
from kafkaframes.storage.partition import LogSettings, PartitionLog, create_log
from kafkaframes.storage.partition.flushing import prepare_active_segment

DATA = Path(__file__).parents[2] / "data" / "logs"
SETTING_BY_SERVER_KEY = {
    "log.segment.bytes": "segment.bytes",
    "log.index.interval.bytes": "index.interval.bytes",
    "log.index.size.max.bytes": "segment.index.bytes",
}
INTERNAL_SEGMENT_BYTES = {"__consumer_offsets": "104857600"}
DELETED_MS = 1_795_254_400_000  # approximate time of the broker's deletions
CASES = [DATA / "kraft-4x-transactions"]


def read_topic_settings(folder: Path, case: str, topic: str) -> LogSettings:
    """Return the topic's settings from the manifest and the broker's metadata log."""
    manifest = json.loads((folder / f"{case}.json").read_text())
    server = manifest["server_properties"]
    topic_config = {name: server[key] for key, name in SETTING_BY_SERVER_KEY.items() if key in server}
    topic_config |= {"segment.bytes": INTERNAL_SEGMENT_BYTES[topic]} if topic in INTERNAL_SEGMENT_BYTES else {}
    dump = gzip.decompress((folder / f"{case}.dumplog.txt.gz").read_bytes()).decode(errors="replace")
    for text in re.findall(r'"type":"CONFIG_RECORD","version":0,"data":(\{[^}]*\})', dump):
        record = json.loads(text)
        if record["resourceName"] == topic:
            topic_config[record["name"].removeprefix("internal.")] = record["value"]
    topic_config.pop("compression.type", None)
    return replace(LogSettings.from_topic(topic_config), index_per_batch=manifest["kafka_version"] >= "4.1")


def list_partitions() -> list[Path]:
    return [
        directory
        for case in CASES
        for directory in sorted(case.iterdir())
        if directory.is_dir() and not directory.name.startswith("__cluster_metadata")
    ]


def files_of(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir() if file.name != "partition.metadata"}


def append_all_batches(directory: Path, target: Path) -> PartitionLog:
    """Append every batch of a broker's partition, including those of deleted segments."""
    topic = directory.name.rpartition("-")[0]
    settings = read_topic_settings(directory.parent.parent, directory.parent.name, topic)
    log = create_log(str(target), settings=settings, now_ms=0)
    prepare_active_segment(log, now_ms=0)
    log.epochs.assign(0, 0)
    for segment in sorted((*directory.glob("*.log"), *directory.glob("*.log.deleted"))):
        raw = segment.read_bytes()
        batch_table = scan_all(raw, rules=FILE)
        starts = [*batch_table.column("position").tolist(), len(raw)]
        for start, end in pairwise(starts):
            log.append_as_follower(raw[start:end], now_ms=0)
    return log


def assert_same_files(directory: Path, log_found: Path) -> None:
    expected_files, found_files = files_of(directory), files_of(log_found)
    assert found_files.keys() == expected_files.keys()
    for name in expected_files:
        assert found_files[name] == expected_files[name], name


@pytest.mark.parametrize("name", ["retention-size-0", "retention-time-0", "trimmed-0", "trimmed-1", "trimmed-to-end-0"])
def test_deletions_of_a_broker_result_in_its_files(name, tmp_path):
    case = DATA / "deleted-records"
    begin, end = json.loads((DATA / "deleted-records.json").read_text())["begin_end_offsets"][name]
    log = append_all_batches(case / name, tmp_path / name)
    log.update_high_watermark(end)
    if name.startswith("trimmed"):
        log.delete_records(begin)
    log.delete_old_segments(now_ms=DELETED_MS)
    assert (log.log_start_offset, log.log_end_offset) == (begin, end)
    log.close(now_ms=0)
    assert_same_files(case / name, tmp_path / name)


@pytest.mark.parametrize("directory", list_partitions(), ids=lambda path: path.name)
def test_appends_of_a_broker_result_in_its_files(directory, tmp_path):
    append_all_batches(directory, tmp_path / directory.name).close(now_ms=0)
    assert_same_files(directory, tmp_path / directory.name)
