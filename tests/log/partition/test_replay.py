"""A real broker's logs, appended batch by batch with its settings, come out as the files that the broker wrote."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from kafkaframes.log.partition import LogSettings, create_log
from kafkaframes.records.scan import FILE, scan_all

DATA = Path(__file__).parents[2] / "data" / "logs"
SERVER = {
    "log.segment.bytes": "segment.bytes",
    "log.index.interval.bytes": "index.interval.bytes",
    "log.index.size.max.bytes": "segment.index.bytes",
}
INTERNAL_SEGMENT_BYTES = {"__consumer_offsets": "104857600"}
CASES = [DATA / "kraft-4x-transactions"]


def topic_settings(folder: Path, case: str, topic: str) -> LogSettings:
    """Return the topic's settings as the manifest and the broker's metadata log have them."""
    manifest = json.loads((folder / f"{case}.json").read_text())
    server = manifest["server_properties"]
    given = {name: server[key] for key, name in SERVER.items() if key in server}
    given |= {"segment.bytes": INTERNAL_SEGMENT_BYTES[topic]} if topic in INTERNAL_SEGMENT_BYTES else {}
    dumped = gzip.decompress((folder / f"{case}.dumplog.txt.gz").read_bytes()).decode(errors="replace")
    for text in re.findall(r'"type":"CONFIG_RECORD","version":0,"data":(\{[^}]*\})', dumped):
        record = json.loads(text)
        if record["resourceName"] == topic:
            given[record["name"].removeprefix("internal.")] = record["value"]
    given.pop("compression.type", None)
    return replace(LogSettings.from_topic(given), index_per_batch=manifest["kafka_version"] >= "4.1")


def partitions() -> list[Path]:
    return [
        directory
        for case in CASES
        for directory in sorted(case.iterdir())
        if directory.is_dir() and not directory.name.startswith("__cluster_metadata")
    ]


def files_of(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir() if file.name != "partition.metadata"}


@pytest.mark.parametrize("directory", partitions(), ids=lambda path: path.name)
def test_appending_a_brokers_batches_makes_its_files(directory, tmp_path):
    topic = directory.name.rpartition("-")[0]
    settings = topic_settings(directory.parent.parent, directory.parent.name, topic)
    log = create_log(str(tmp_path / directory.name), settings=settings, now_ms=0)
    log.leader_epochs.assign(0, 0)
    for segment in sorted(directory.glob("*.log")):
        raw = segment.read_bytes()
        found = scan_all(raw, rules=FILE)
        starts = [*found.column("position").tolist(), len(raw)]
        for start, end in pairwise(starts):
            log.append_as_follower(raw[start:end], now_ms=0)
    log.close(now_ms=0)
    expected, found_files = files_of(directory), files_of(tmp_path / directory.name)
    assert found_files.keys() == expected.keys()
    for name in expected:
        assert found_files[name] == expected[name], name
