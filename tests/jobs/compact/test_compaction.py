"""Compaction of whole log directories. The cleaner's own rules are tested against Kafka's (agreement ``cleaned``)."""

import json
from pathlib import Path

import pytest

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.jobs.compact.compaction import compact
from kafkaframes.jobs.compact.key_search import search_for_key
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_records
from kafkaframes.storage.cleaner import CleanerSettings
from kafkaframes.storage.cleaner import filter as filter_module
from kafkaframes.storage.files.checkpoints import read_offset_checkpoint
from kafkaframes.storage.files.names import TopicPartition

SETTINGS = CleanerSettings(now_ms=10_000)


def partition(path: Path, name: str, *segments: list[bytes]) -> None:
    (path / name).mkdir(parents=True)
    base = 0
    for keys in segments:
        rows = {"offset": range(base, base + len(keys)), "timestamp": [1000] * len(keys), "key": keys, "value": keys}
        rows["offset"] = list(rows["offset"])
        (path / name / f"{base:020}.log").write_bytes(build_records(rows, codec="lz4"))
        base += len(keys)


@pytest.fixture
def source(tmp_path):
    partition(tmp_path / "in", "users-0", [b"a", b"b", b"a"], [b"b", b"c"], [b"z"])
    partition(tmp_path / "in", "events-0", [b"a", b"a"], [b"a"])
    (tmp_path / "in" / "cleaner-offset-checkpoint").write_text("0\n1\nusers 0 0\n")
    return tmp_path / "in"


def keys(path: Path) -> list[bytes]:
    return [
        record.key
        for file in sorted(path.glob("*.log"))
        for batch in read_batches(file.read_bytes())
        for record in batch.records
    ]


def test_topics_with_cleanup_policy_compact_are_compacted(source, tmp_path):
    report = compact(str(source), tmp_path / "out", SETTINGS)
    assert keys(tmp_path / "out" / "users-0") == [b"a", b"b", b"c", b"z"]
    assert keys(tmp_path / "out" / "events-0") == [b"a", b"a", b"a"]
    (users,) = report.partitions
    assert (users.name, users.cleaned, users.dropped) == ("users-0", True, {"a later record of the key": 2})
    checkpoint = read_offset_checkpoint((tmp_path / "out" / "cleaner-offset-checkpoint").read_bytes())
    assert checkpoint == {TopicPartition("users", 0): 5}
    assert keys(source / "users-0") == [b"a", b"b", b"a", b"b", b"c", b"z"]
    again = compact(str(source), tmp_path / "out", CleanerSettings(now_ms=20_000))
    assert again.done_before
    assert again.partitions == report.partitions
    with pytest.raises(LogDirError, match="exists already"):
        compact(str(source), tmp_path / "out", SETTINGS, topics=["events"])


def test_a_dry_run_reports_the_same_and_writes_nothing(source, tmp_path):
    dry_report = compact(str(source), None, SETTINGS, topics=["*"])
    assert {path.name for path in tmp_path.iterdir()} == {"in"}
    report = compact(str(source), tmp_path / "out", SETTINGS, topics=["*"])
    assert [partition.name for partition in dry_report.partitions] == ["events-0", "users-0"]
    assert dry_report.partitions == report.partitions


def test_a_single_partition_is_compacted(source, tmp_path):
    compact(str(source / "users-0"), tmp_path / "out", SETTINGS)
    assert keys(tmp_path / "out") == [b"a", b"b", b"c", b"z"]
    assert json.loads((tmp_path / "out" / "_SUCCESS").read_bytes())["partitions"][0]["records_kept"] == 3


def test_a_compaction_that_writes_fewer_records_than_planned_fails(source, tmp_path, monkeypatch):
    in_order = filter_module._order_chunks
    monkeypatch.setattr(filter_module, "_order_chunks", lambda *arguments: in_order(*arguments)[:-1])
    with pytest.raises(LogDirError, match="does not add up"):
        compact(str(source), tmp_path / "out", SETTINGS)
    assert {path.name for path in tmp_path.iterdir()} == {"in"}


def test_a_missing_topic_is_rejected(source, tmp_path):
    (source / "cleaner-offset-checkpoint").unlink()
    with pytest.raises(OptionError, match="no topic is known to be compacted"):
        compact(str(source), tmp_path / "out", SETTINGS)
    assert {path.name for path in tmp_path.iterdir()} == {"in"}


def test_a_damaged_log_leaves_no_output(source, tmp_path):
    file = source / "users-0" / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(LogDirError, match="CRC"):
        compact(str(source), tmp_path / "out", SETTINGS)
    assert {path.name for path in tmp_path.iterdir()} == {"in"}
    proof = search_for_key(str(source), b"nowhere")
    assert not proof.is_gone
    assert [(path, position) for path, position, _ in proof.unread] == [(str(file), 0)]


def test_a_key_is_found_or_proven_gone(source, tmp_path):
    proof = search_for_key(str(source), b"b")
    assert [(Path(file).name, offset) for file, offset in proof.records] == [(f"{0:020}.log", 1), (f"{3:020}.log", 3)]
    proof = search_for_key(str(source), b"bb")
    assert proof.is_gone
    assert proof.files == 5
    (source / "users-0" / f"{9:020}.log.deleted").write_bytes(build_records({"key": [b"bb"], "value": [b""]}))
    assert search_for_key(str(source), b"bb").records == ((str(source / "users-0" / f"{9:020}.log.deleted"), 0),)
