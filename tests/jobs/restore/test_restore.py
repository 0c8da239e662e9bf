"""A restored log has the requested records of its source. Impossible requests are rejected without any output."""

from __future__ import annotations

import contextlib
import errno
import itertools
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkaframes
from kafkaframes import read_records
from kafkaframes.broker import Broker
from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.jobs.restore.cluster import DirectoryNode, TopicLayout, build_bootstrap_checkpoint
from kafkaframes.jobs.restore.groups import CommitKey, read_groups
from kafkaframes.jobs.restore.job import restore_segments
from kafkaframes.jobs.restore.settings import RestoreSettings
from kafkaframes.jobs.restore.source import read_metadata
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.protocol.messages.envelopes import decode_metadata_record
from kafkaframes.records.build import build_records
from kafkaframes.storage.files import atomic
from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.lookup import log_end_offset
from kafkaframes.storage.log.transactions import read_transactions

DATA = Path(__file__).parents[2] / "data"
SOURCES = [
    DATA / "examples" / "kafka-4.3",
    DATA / "examples" / "kafka-2.8-format-1",
    DATA / "logs" / "kraft-4x-transactions",
    DATA / "logs" / "deleted-records",
]
NOW_MS = 1_800_000_000_000
COLUMNS = ["offset", "timestamp", "timestamp_type", "key", "value", "headers", "control", "transactional"]


def datetime_of(time_ms):
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def new_ids():
    return map("{:A>22}".format, itertools.count(100)).__next__


def restore_log(source, destination, *, run=map, dry_run=False, **settings):
    sources = [str(one) for one in source] if isinstance(source, list) else str(source)
    return restore_segments(
        sources, destination, RestoreSettings(**settings), now_ms=NOW_MS, new_id=new_ids(), run=run, dry_run=dry_run
    )


def log_of(path):
    (log_dir,) = discover(str(path))
    return {
        partition.topic_partition: partition
        for partition in log_dir.partitions
        if partition.is_live and partition.topic != "__cluster_metadata"
    }


def rows(partition):
    paths = [segment.path for segment in partition.segments]
    batches = read_records(
        paths,
        columns=COLUMNS,
        on_damage="fail",
        verify_crc=True,
        control_records=True,
        start=partition.log_start_offset,
        limit_bytes=None,
    )
    return [row for batch in batches for row in batch.to_pylist()]


def drop_columns(rows_found, *names):
    return [{name: value for name, value in row.items() if name not in names} for row in rows_found]


def snapshot_of(path):
    return {one: (one.read_bytes(), one.stat().st_mtime_ns) for one in sorted(Path(path).rglob("*")) if one.is_file()}


def read_metadata_partitions(directory):
    """Return the partition numbers in the controller's metadata."""
    read = kafkaframes.read_records(directory / "bootstrap.checkpoint", columns=["value"], control_records=False)
    metadata_records = [
        decode_metadata_record("__cluster_metadata", row["value"]) for batch in read for row in batch.to_pylist()
    ]
    return [record.value.partition_id for record in metadata_records if record.value.spec.name == "PartitionRecord"]


def write_log(directory, batches, *, name="t-0", base=0, topic_id="A" * 22):
    partition = directory / name
    partition.mkdir(parents=True, exist_ok=True)
    (partition / f"{base:020}.log").write_bytes(b"".join(batches))
    if topic_id:
        (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    return directory


def records(first, count, *, step=1, **options):
    offsets = list(range(first, first + count * step, step))
    columns = {
        "offset": offsets,
        "timestamp": [1000 + offset for offset in offsets],
        "value": [b"%d" % offset for offset in offsets],
    }
    return build_records(columns, **options)


# Kept offsets


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_batches_are_copied_byte_for_byte_and_the_log_is_sound(tmp_path, source):
    before = snapshot_of(source)
    report = restore_log(source, tmp_path / "new")
    old, new = log_of(source), log_of(tmp_path / "new")
    assert snapshot_of(source) == before
    for name, partition in old.items():
        if name.topic == "__consumer_offsets":
            continue
        if not rows(partition):
            assert rows(new[name]) == []
            assert new[name].log_start_offset == partition.log_start_offset
            continue
        assert [segment.base_offset for segment in new[name].segments] == [
            segment.base_offset for segment in partition.segments
        ]
        for theirs, ours in zip(partition.segments, new[name].segments, strict=True):
            whole, copy = Path(theirs.path).read_bytes(), Path(ours.path).read_bytes()
            is_cut = theirs.base_offset < partition.log_start_offset  # deleted records stay deleted
            assert whole.endswith(copy) if is_cut else copy == whole
            assert not ours.size_bytes or ours.log.mtime_ms == theirs.log.mtime_ms
        assert new[name].log_start_offset == partition.log_start_offset
        assert new[name].metadata.topic_id == (partition.metadata or new[name].metadata).topic_id
    # The copy has the same open transactions as the original, and no other findings.
    open_in_original = [
        (f.message, f.offset) for f in verify(discover(str(source))).findings if f.check == "open-transaction"
    ]
    assert [(f.message, f.offset) for f in verify(discover(str(tmp_path / "new"))).findings] == open_in_original
    assert {one.topic: one.metadata.topic_id for one in new.values()} == report.topic_ids
    assert report.bytes_lost == 0


def test_a_second_run_returns_at_once_and_another_job_is_rejected(tmp_path):
    first = restore_log(SOURCES[0], tmp_path / "new", topics=("orders",))
    before = snapshot_of(tmp_path / "new")
    second = restore_log(SOURCES[0], tmp_path / "new", topics=("orders",))
    assert second.done_before
    assert (second.partitions, second.groups) == (first.partitions, first.groups)
    with pytest.raises(LogDirError, match="is not the result of this job"):
        restore_log(SOURCES[0], tmp_path / "new", topics=("payments",))
    assert snapshot_of(tmp_path / "new") == before


def test_a_dry_run_writes_nothing(tmp_path):
    report = restore_log(SOURCES[0], tmp_path / "new", dry_run=True, topics=("orders",))
    assert [(partition.topic, partition.partition, partition.segments) for partition in report.partitions] == [
        ("orders", n, 4) for n in range(3)
    ]
    assert report.groups.commits == 3
    assert list(tmp_path.iterdir()) == []


def test_several_backups_are_merged_into_one_log(tmp_path):
    batches = [records(first, 10, leader_epoch=0) for first in range(0, 60, 10)]
    one = write_log(tmp_path / "one", batches[:3])
    two = write_log(tmp_path / "two", batches[3:], base=30)
    restore_log([one, two], tmp_path / "new")
    assert [row["offset"] for row in rows(log_of(tmp_path / "new")[TopicPartition("t", 0)])] == list(range(60))
    bad = bytearray(b"".join(batches[:5]))
    bad[len(batches[0]) + 70] ^= 1
    damaged_log = write_log(tmp_path / "damaged", [bytes(bad)])
    report = restore_log([damaged_log, one, two], tmp_path / "healed")
    assert b"".join(
        Path(segment.path).read_bytes() for segment in log_of(tmp_path / "healed")[TopicPartition("t", 0)].segments
    ) == (b"".join(batches))
    assert "taken-from-copy" in {decision["check"] for decision in report.decisions}
    assert report.is_whole
    with pytest.raises(LogDirError, match="nothing was restored"):
        restore_log([damaged_log, write_log(tmp_path / "same", [bytes(bad)])], tmp_path / "bad")
    report = restore_log([damaged_log, tmp_path / "same"], tmp_path / "skipped", on_damage="drop")
    assert not report.is_whole
    assert [row["offset"] for row in rows(log_of(tmp_path / "skipped")[TopicPartition("t", 0)])] == [
        *range(10),
        *range(20, 50),
    ]


def test_topic_ids_are_checked_kept_and_created(tmp_path):
    one = write_log(tmp_path / "one", [records(0, 10)])
    two = write_log(tmp_path / "two", [records(0, 10)], name="t-1", topic_id="B" * 21 + "A")
    none = write_log(tmp_path / "none", [records(0, 10)], name="u-0", topic_id="")
    with pytest.raises(LogDirError, match="t has two ids"):
        restore_log([one, two], tmp_path / "new")
    report = restore_log([one, two, none], tmp_path / "new", topic_ids=(("t", "C" * 21 + "A"),))
    assert report.topic_ids["t"] == "C" * 21 + "A"
    assert len(report.topic_ids["u"]) == 22
    renamed_report = restore_log(one, tmp_path / "renamed", topic_map=(("t", "v"),))
    assert renamed_report.topic_ids["v"] != "A" * 22
    assert list(log_of(tmp_path / "renamed"))[-1] == TopicPartition("v", 0)


def test_only_partitions_with_records_are_created_and_the_controller_gets_those_between(tmp_path):
    restore_log(SOURCES[0], tmp_path / "new", topics=("orders",), partitions=(2,), groups=False)
    assert [one.partition for one in log_of(tmp_path / "new")] == [2]
    assert read_metadata_partitions(tmp_path / "new") == [0, 1, 2]


@pytest.mark.parametrize("name", ["..", ".", "a b", "é"])
def test_a_directory_with_an_invalid_topic_name_is_rejected(tmp_path, name):
    write_log(tmp_path / "source", [records(0, 10)], name=f"{name}-0")
    with pytest.raises(OptionError, match="is not a valid topic name"):
        restore_log(tmp_path / "source", tmp_path / "new")
    restore_log(tmp_path / "source", tmp_path / "new", topic_map=((name, "better"),))
    assert list(log_of(tmp_path / "new")) == [TopicPartition("better", 0)]


def test_the_report_has_the_records_read_written_and_skipped(tmp_path):
    source = write_log(tmp_path / "source", [records(0, 10), records(10, 10)], name="t-0")
    report = restore_log(source, tmp_path / "new", offsets="reassign", start=3, end=17)
    (one,) = report.partitions
    assert (one.records_read, one.records_written) == (20, 14)
    assert one.records_left_out == {"outside the selected offsets or times": 6}


# --------------------------------------------------------------------------------------------------------------- ranges


@pytest.mark.parametrize("offsets", ["keep", "reassign"])
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_a_range_of_offsets_or_of_time_is_exact(tmp_path, source, offsets):
    old = {name: rows(one) for name, one in log_of(source).items() if not name.topic.startswith("__")}
    times = sorted(row["timestamp"] for log_rows in old.values() for row in log_rows if row["timestamp"])
    moment = times[len(times) // 3]
    stamp = int(moment.timestamp() * 1000 + 0.5)
    starts, ends = {}, {}  # the range 37 to 301 within each log: an offset that a log does not have is an error
    for name in old:
        log = log_of(source)[name]
        log_end = log_end_offset(LocalFileSystem(), log)
        starts.setdefault(name.topic, {})[name.partition] = min(max(37, log.log_start_offset), log_end)
        ends.setdefault(name.topic, {})[name.partition] = min(max(301, log.log_start_offset), log_end)
    restore_log(source, tmp_path / "offsets", offsets=offsets, start=starts, end=ends)
    restore_log(source, tmp_path / "from", offsets=offsets, start=datetime_of(stamp))
    restore_log(source, tmp_path / "until", offsets=offsets, end=datetime_of(stamp))
    new = {name: log_of(tmp_path / name) for name in ("offsets", "from", "until")}
    for name, log_rows in old.items():
        reached_offsets = [row["offset"] for row in log_rows if row["timestamp"] and row["timestamp"] >= moment]
        first = min(reached_offsets, default=2**63)
        for part, expected_rows in (
            ("offsets", [row for row in log_rows if 37 <= row["offset"] < 301]),
            ("from", [row for row in log_rows if row["offset"] >= first]),
            ("until", [row for row in log_rows if row["offset"] < first]),
        ):
            got = rows(new[part][name])
            changed_columns = () if offsets == "keep" else ("offset",)
            assert drop_columns(got, *changed_columns) == drop_columns(expected_rows, *changed_columns), (part, name)
            if changed_columns:
                assert [row["offset"] for row in got] == list(range(len(got)))
    for part in new:
        assert [
            finding for finding in verify(discover(str(tmp_path / part))).findings if finding.severity is Severity.ERROR
        ] == []


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_offsets_become_contiguous_in_every_format_and_codec(tmp_path, magic, codec):
    options = (
        {"record_format": magic, "codec": codec, "batch_records": 7} if codec != "none" else {"record_format": magic}
    )
    holey = [records(100, 50, step=3, **options), records(400, 20, **options), records(900, 3, step=200, **options)]
    source = write_log(tmp_path / "old", holey, base=90)
    restore_log(source, tmp_path / "new", offsets="reassign", start_offset=1000, leader_epoch=5)
    old, new = (rows(log_of(path)[TopicPartition("t", 0)]) for path in (source, tmp_path / "new"))
    assert drop_columns(new, "offset") == drop_columns(old, "offset")
    assert [row["offset"] for row in new] == list(range(1000, 1073))
    assert verify(discover(str(tmp_path / "new"))).findings == []


# -------------------------------------------------------------------------------------------------------------- damage


def test_a_torn_tail_is_truncated_and_damage_fails_or_is_skipped(tmp_path):
    good = [records(first, 10) for first in range(0, 50, 10)]
    torn = write_log(tmp_path / "torn", [*good, records(50, 10)[:-3]])
    report = restore_log(torn, tmp_path / "from-torn")
    assert [(lost_range.is_tail, lost_range.end - lost_range.start) for lost_range in report.partitions[0].lost] == [
        (True, len(good[4]) - 3)
    ]
    assert report.bytes_lost == 0
    bad = bytearray(good[2])
    bad[-1] ^= 1
    damaged_log = write_log(tmp_path / "damaged", [*good[:2], bytes(bad), *good[3:]])
    with pytest.raises(LogDirError, match="nothing was restored") as caught:
        restore_log(damaged_log, tmp_path / "new")
    assert caught.value.position == len(good[0]) + len(good[1])
    assert not list(tmp_path.glob("new*"))
    report = restore_log(damaged_log, tmp_path / "new", on_damage="drop")
    assert report.bytes_lost == len(bad)
    offsets_found = [row["offset"] for row in rows(log_of(tmp_path / "new")[TopicPartition("t", 0)])]
    assert offsets_found == [*range(20), *range(30, 50)]


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EACCES])
def test_a_failing_disk_is_named_and_no_output_is_left(tmp_path, monkeypatch, reason):
    open_count, ours = itertools.count(), atomic.open_new

    def failing(path):
        if next(open_count) == 5:
            raise OSError(reason, "no")
        return ours(path)

    monkeypatch.setattr(atomic, "open_new", failing)
    with pytest.raises(LogDirError, match="cannot be written"):
        restore_log(SOURCES[0], tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_two_jobs_exclude_each_other_and_a_source_cannot_be_the_destination(tmp_path):
    with atomic.hold_lock(tmp_path / "new"), pytest.raises(LogDirError, match="another job"):
        restore_log(SOURCES[0], tmp_path / "new")
    source = tmp_path / "source"
    shutil.copytree(SOURCES[1], source, copy_function=shutil.copyfile)
    with pytest.raises(OptionError, match="is inside the source"):
        restore_log(source, source / "new")


# Transactions and metadata


def test_open_transactions_are_reported_or_ended(tmp_path):
    source = DATA / "logs" / "kraft-4x-transactions"
    (log_dir,) = discover(str(source))
    open_transactions = {
        partition.topic_partition: read_transactions(log_dir.filesystem, partition).open
        for partition in log_dir.partitions
    }
    kept_report = restore_log(source, tmp_path / "kept")
    for one in kept_report.partitions:
        assert one.open_transactions == sorted(open_transactions[TopicPartition(one.topic, one.partition)])
    assert any(partition.open_transactions for partition in kept_report.partitions)
    ended_report = restore_log(source, tmp_path / "ended", open_transactions="abort")
    assert sum(partition.aborted for partition in ended_report.partitions) == sum(
        len(partition.open_transactions) for partition in kept_report.partitions
    )
    for one in log_of(tmp_path / "ended").values():
        state = read_transactions(log_dir.filesystem, one, use_indexes=False)
        assert state.open == {}
        assert read_transactions(log_dir.filesystem, one).aborted_transactions == state.aborted_transactions
    assert verify(discover(str(tmp_path / "ended"))).findings == []


def test_the_new_node_has_topics_settings_and_producers(tmp_path):
    restore_log(
        SOURCES[0],
        tmp_path / "new",
        topic_configs=(("orders:max.message.bytes", "9"), ("segment.ms", "7")),
        cluster_id="mine",
    )
    (node_dir,) = discover(str(tmp_path / "new"))
    assert node_dir.meta.values["cluster.id"] == "mine"
    assert node_dir.clean_shutdown is not None
    (tmp_path / "__cluster_metadata-0").mkdir()
    shutil.copyfile(node_dir.bootstrap.path, tmp_path / "__cluster_metadata-0" / f"{0:020}.log")
    cluster_metadata = read_metadata(discover(str(tmp_path / "__cluster_metadata-0")))
    assert {name: one.partitions for name, one in cluster_metadata.topics.items()} == {
        "__consumer_offsets": 2,
        "__transaction_state": 2,
        "customers": 1,
        "orders": 3,
        "payments": 2,
        "sensor-readings": 2,
    }
    assert cluster_metadata.topics["orders"].configs["retention.ms"] == "-1"
    assert cluster_metadata.topics["orders"].configs["max.message.bytes"] == "9"
    assert cluster_metadata.topics["customers"].configs["segment.ms"] == "7"
    assert cluster_metadata.topics["customers"].configs["cleanup.policy"] == "compact"
    assert "retention.ms" not in cluster_metadata.topics["customers"].configs
    assert cluster_metadata.next_producer_id == 1000


def test_settings_that_a_later_broker_rejects_are_raised_and_retention_is_suspended(tmp_path):
    source = write_log(tmp_path / "old", [records(0, 10)])
    configs = {"segment.bytes": "9000", "retention.ms": "1000", "cleanup.policy": "compact,delete"}
    layout = TopicLayout("t", "A" * 22, dict.fromkeys(range(3), 0), configs)
    (source / "__cluster_metadata-0").mkdir()
    (source / "__cluster_metadata-0" / f"{0:020}.log").write_bytes(
        build_bootstrap_checkpoint(
            [layout], DirectoryNode(node_id=1, cluster_id="c", directory_id="A" * 22), now_ms=NOW_MS
        )
    )
    restore_log(source, tmp_path / "new")
    assert list(log_of(tmp_path / "new")) == [TopicPartition("t", 0)]
    assert read_metadata_partitions(tmp_path / "new") == [0, 1, 2]
    assert configs_of(tmp_path / "new")["t"] == configs | {
        "segment.bytes": "1048576",
        "retention.ms": "-1",
        "retention.bytes": "-1",
    }
    restore_log(source, tmp_path / "as-it-was", keep_retention=True, topic_configs=(("t:segment.bytes", "5"),))
    assert configs_of(tmp_path / "as-it-was")["t"] == configs | {"segment.bytes": "5"}


def test_the_settings_of_a_kafkaframes_broker_or_a_mirror_are_restored(tmp_path):
    """itadventurer/kafka-backup#86: without its settings, a compacted topic was restored as one that expires."""
    with Broker(data_dir=tmp_path / "old") as broker:
        broker.create_topic("t", 3, **{"cleanup.policy": "compact", "kafkaframes.on.noncontiguous": "keep"})
        broker.append("t", [{"key": b"k", "value": b"v"}])
    restore_log(tmp_path / "old", tmp_path / "new")
    assert configs_of(tmp_path / "new")["t"] == {"cleanup.policy": "compact"}
    assert read_metadata_partitions(tmp_path / "new") == [0, 1, 2]

    (tmp_path / "old" / "kafkaframes.broker.json").write_text("{")
    report = restore_log(tmp_path / "old", tmp_path / "without", dry_run=True)
    assert report.left_out[0][0] == str(tmp_path / "old" / "kafkaframes.broker.json")
    assert report.left_out[0][1].endswith("; the topics' settings are unknown")


def configs_of(path):
    metadata = path.with_name(f"{path.name}-told") / "__cluster_metadata-0"
    metadata.mkdir(parents=True)
    shutil.copyfile(path / "bootstrap.checkpoint", metadata / f"{0:020}.log")
    return {name: one.configs for name, one in read_metadata(discover(str(metadata))).topics.items()}


def test_the_remains_of_a_killed_job_are_removed_by_the_next(tmp_path):
    (tmp_path / "new.kafkaframes-unfinished" / "orders-0").mkdir(parents=True)
    (tmp_path / "new.kafkaframes-lock").touch()
    restore_log(SOURCES[0], tmp_path / "new", topics=("orders",))
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


# -------------------------------------------------------------------------------------------------------------- groups


def commits(path):
    (log_dir,) = discover(str(path))
    return read_groups(
        [(log_dir, partition) for partition in log_dir.partitions if partition.topic == "__consumer_offsets"]
    ).commits


def test_committed_offsets_are_kept_translated_and_dropped(tmp_path):
    source = DATA / "logs" / "kraft-4x-transactions"
    old = commits(source)
    report = restore_log(source, tmp_path / "kept")
    assert {key: one.offset for key, one in commits(tmp_path / "kept").items()} == {
        key: one.offset for key, one in old.items()
    }
    assert all(commit.commit_timestamp_ms == NOW_MS for commit in commits(tmp_path / "kept").values())
    assert report.groups.commits == len(old)
    restore_log(source, tmp_path / "moved", offsets="reassign", start_offset=100, topic_map=(("input", "read"),))
    restore_log(source, tmp_path / "times", keep_commit_times=True)
    assert commits(tmp_path / "times") == old
    before, after = log_of(source), log_of(tmp_path / "moved")
    moved_commits = commits(tmp_path / "moved")
    assert moved_commits.keys() == {key._replace(topic="read" if key.topic == "input" else key.topic) for key in old}
    for key, one in old.items():
        topic = "read" if key.topic == "input" else key.topic
        new = moved_commits[CommitKey(key.group, topic, key.partition)].offset
        rest = [row for row in rows(before[TopicPartition(key.topic, key.partition)]) if row["offset"] >= one.offset]
        now = [row for row in rows(after[TopicPartition(topic, key.partition)]) if row["offset"] >= new]
        assert drop_columns(now, "offset") == drop_columns(rest, "offset")
    some = restore_log(source, tmp_path / "some", topics=("ledger",), offsets_partitions=7)
    assert some.groups.dropped["of a partition that is not restored"] == len(old) - some.groups.commits
    assert sum(one.topic == "__consumer_offsets" for one in log_of(tmp_path / "some")) == 7


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"offsets": "guess"}, "`offsets` must be one of"),
        ({"start_offset": 3}, "`start_offset` requires"),
        ({"topic_map": (("orders", "x"), ("payments", "x"))}, "twice"),
        ({"topic_map": (("no", "x"),)}, "not restored"),
        ({"topic_map": (("orders", "payments"),)}, "two topics"),
        ({"topic_map": (("orders", "a/b"),)}, "not a valid topic name"),
        ({"topic_ids": (("orders", "short"),)}, "is not a topic id"),
        ({"topic_ids": (("no", "A" * 22),)}, "not restored"),
        ({"topics": ("no",)}, "no topic no: the logs contain"),
        ({"segment_bytes": 0}, "segment_bytes"),
        ({"offsets_partitions": 0}, "offsets_partitions"),
        ({"node_id": -1}, "node_id"),
    ],
)
def test_incompatible_settings_are_rejected(tmp_path, settings, reason):
    with pytest.raises(OptionError, match=reason):
        restore_log(SOURCES[0], tmp_path / "new", **settings)
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------------------- hostile


SEGMENT = b"".join(
    [
        records(0, 10, leader_epoch=1, producer_id=4, producer_epoch=0, base_sequence=0),
        records(10, 20, step=2, codec="lz4", leader_epoch=1),
        records(60, 3, codec="gzip", record_format=1),
        records(70, 4, record_format=0),
        records(80, 10, leader_epoch=2, transactional=True, producer_id=5, producer_epoch=1),
    ]
)


@given(
    st.lists(st.tuples(st.integers(0, len(SEGMENT) - 1), st.binary(min_size=1, max_size=20)), max_size=4),
    st.integers(0, len(SEGMENT)),
    st.sampled_from(["keep", "reassign"]),
    st.sampled_from(["keep", "abort"]),
)
def test_for_any_bytes_a_restore_succeeds_or_gives_a_reason(tmp_path_factory, changes, end, offsets, open_transactions):
    directory = tmp_path_factory.mktemp("hostile")
    data = bytearray(SEGMENT)
    for at, piece in changes:
        data[at : at + len(piece)] = piece[: len(data) - at]
    source = write_log(directory / "old", [bytes(data[:end])])
    settings = {"offsets": offsets, "open_transactions": open_transactions}
    report = restore_log(source, directory / "new", on_damage="drop", **settings)
    assert [
        finding for finding in verify(discover(str(directory / "new"))).findings if finding.severity is Severity.ERROR
    ] == []
    assert (
        report.bytes_lost
        + sum(lost_range.end - lost_range.start for lost_range in report.partitions[0].lost if lost_range.is_tail)
        <= end
    )
    with contextlib.suppress(LogDirError):
        restore_log(source, directory / "strict", **settings)
