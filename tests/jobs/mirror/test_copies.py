"""Copies that keep offsets: byte for byte, from real brokers' logs and ours, into a broker and into a directory."""

import shutil
from pathlib import Path

import pytest
from tests.jobs.mirror.worlds import fill, logs_of, rows_of, run_mirror, table
from tests.waiting import wait_for

from kafkaframes.broker import Broker
from kafkaframes.broker.settings.settings import DEFAULTS
from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.errors import CorruptRecordError, LogDirError, OptionError
from kafkaframes.records.build import build_records

LOGS = Path("tests/data/logs")
COMPLETE_LOGS = ["kraft-4x-transactions", "zk-0102-v1", "zk-28-mixed"]


@pytest.mark.parametrize("case", COMPLETE_LOGS)
def test_a_real_brokers_log_is_copied_byte_for_byte(tmp_path, case):
    report = run_mirror(LOGS / case, tmp_path / "copy", groups=False)
    assert logs_of(tmp_path / "copy") == logs_of(LOGS / case)
    assert report.keeps_offsets
    assert sum(partition.batches_written for partition in report.partitions) > 100


def test_an_open_transaction_of_a_directory_stays_open_in_its_copy(tmp_path, monkeypatch):
    key = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    monkeypatch.setattr("kafkaframes.broker.settings.settings.DEFAULTS", {**DEFAULTS, key: "1"})
    run_mirror(LOGS / COMPLETE_LOGS[0], tmp_path / "copy", groups=False)
    assert logs_of(tmp_path / "copy") == logs_of(LOGS / COMPLETE_LOGS[0])


def test_deleted_records_stay_deleted_and_the_next_offset_is_kept(tmp_path):
    run_mirror(LOGS / "deleted-records", tmp_path / "copy")
    before, after = logs_of(LOGS / "deleted-records"), logs_of(tmp_path / "copy")
    assert {place: start for place, (start, _) in before.items()} == {
        place: start for place, (start, _) in after.items()
    }
    with Broker(serve=LOGS / "deleted-records") as source, Broker(serve=tmp_path / "copy") as copy:
        with Admin(source.bootstrap_servers) as one, Admin(copy.bootstrap_servers) as other:
            latest = dict.fromkeys(before, -1)
            assert one.list_offsets(latest) == other.list_offsets(latest)
        assert rows_of(source.bootstrap_servers, "trimmed") == rows_of(copy.bootstrap_servers, "trimmed")
        assert rows_of(copy.bootstrap_servers, "trimmed-to-end") == {0: []}


def test_topics_are_copied_between_our_brokers_and_the_copy_is_an_ordinary_topic(tmp_path):
    with Broker(data_dir=tmp_path / "a") as a, Broker(data_dir=tmp_path / "b") as b:
        fill(a)
        report = run_mirror(a.bootstrap_servers, b.bootstrap_servers)
        assert logs_of(tmp_path / "b") == logs_of(tmp_path / "a")
        assert report.created == ["empty", "format-0", "format-1", "money", "plain", "stamped"]
        with Admin(b.bootstrap_servers) as admin:
            configs = admin.describe_configs("topic", "plain")
            assert configs["retention.ms"].value == "123456789012"
            assert configs["kafkaframes.on.noncontiguous"].value == "kafka"
            assert len(admin.describe_topics(["plain"])["plain"].partitions) == 3
        with Producer(b.bootstrap_servers) as producer:  # produces like before the copy
            end = len(rows_of(b.bootstrap_servers, "stamped")[0])
            assert producer.send("stamped", b"next").result().offset == end


def test_a_compacted_topic_with_gaps_in_its_batches_is_copied(tmp_path):
    source = Path("tests/data/examples/kafka-4.3")
    run_mirror(source, tmp_path / "copy", topics=("customers",))
    source_logs = logs_of(source)
    assert logs_of(tmp_path / "copy") == {log: source_logs[log] for log in source_logs if log.topic == "customers"}


def test_a_later_run_continues_at_the_end_of_the_copy_and_adds_new_partitions(tmp_path):
    with Broker() as a, Broker() as b:
        fill(a)
        run_mirror(a.bootstrap_servers, b.bootstrap_servers, topics=("pl*", "money"))
        with Producer(a.bootstrap_servers) as producer:
            producer.send_arrow(table(70), topic="plain")
        with Admin(a.bootstrap_servers) as admin:
            admin.create_partitions({"plain": 5})
        lines = []
        report = run_mirror(a.bootstrap_servers, b.bootstrap_servers, topics=("plain",))
        assert [partition.partition for partition in report.partitions] == [0, 1, 2, 3, 4]
        assert [partition.resumed for partition in report.partitions] == [True, True, True, False, False]
        assert sum(partition.records_written for partition in report.partitions) == 70
        assert "plain-0: resumed at " in str(report)
        assert rows_of(b.bootstrap_servers, "plain") == rows_of(a.bootstrap_servers, "plain")
        assert lines == []


def test_a_dry_run_reports_the_steps_and_does_nothing(tmp_path):
    with Broker() as a, Broker() as b:
        fill(a)
        to_servers = run_mirror(a.bootstrap_servers, b.bootstrap_servers, dry_run=True)
        to_directory = run_mirror(a.bootstrap_servers, tmp_path / "copy", dry_run=True)
        with Admin(b.bootstrap_servers) as admin:
            assert admin.list_topics() == []
    assert not (tmp_path / "copy").exists()
    for report in (to_servers, to_directory):
        assert "money" in report.created
        assert "would copy offsets 0 to 200" in str(report)
        assert str(report).endswith("dry run: nothing was written")


def test_committed_offsets_of_groups_are_copied_and_never_go_back(tmp_path):
    with Broker() as a, Broker() as b:
        fill(a)
        place = TopicPartition("plain", 0)
        with Admin(a.bootstrap_servers) as source, Admin(b.bootstrap_servers) as target:
            source.alter_group_offsets("billing", {place: 40, TopicPartition("plain", 1): 10})
            source.alter_group_offsets("other", {TopicPartition("money", 0): 5})
            report = run_mirror(a.bootstrap_servers, b.bootstrap_servers, topics=("plain",))
            assert (report.groups, report.commits) == (1, 2)
            assert {one: entry.offset for one, entry in target.group_offsets("billing").items()} == {
                place: 40,
                TopicPartition("plain", 1): 10,
            }
            target.alter_group_offsets("billing", {place: 60})
            report = run_mirror(a.bootstrap_servers, b.bootstrap_servers, topics=("plain",))
            assert report.commits_left == {"the target's group is further": 1}
            assert target.group_offsets("billing")[place].offset == 60


def test_an_active_group_in_the_target_is_not_changed():
    with Broker() as a, Broker() as b:
        fill(a)
        with Admin(a.bootstrap_servers) as source:
            source.alter_group_offsets("busy", {TopicPartition("plain", 0): 40})
        run_mirror(a.bootstrap_servers, b.bootstrap_servers, groups=False)
        with Consumer(b.bootstrap_servers, group_id="busy", enable_auto_commit=False) as member:
            member.subscribe("plain")
            wait_for(lambda: member.poll(100) or member.assignment())
            report = run_mirror(a.bootstrap_servers, b.bootstrap_servers)
        assert report.commits_left == {"the target's group has members": 1}


def write_damaged_log(tmp_path: Path) -> Path:
    """Return a directory with one flipped bit in the middle, marked as cleanly stopped."""
    copy = tmp_path / "damaged"
    shutil.copytree(LOGS / "zk-0102-v1", copy)
    log = max(copy.glob("*-0/*.log"), key=lambda one: (one.stat().st_size, one))
    raw = bytearray(log.read_bytes())
    raw[len(raw) // 2] ^= 1
    log.write_bytes(raw)
    (copy / ".kafka_cleanshutdown").touch()
    return copy


def test_damage_fails_the_mirror_or_is_skipped_and_counted(tmp_path):
    source = write_damaged_log(tmp_path)
    with pytest.raises(CorruptRecordError, match=r"does not have the CRC of its bytes \(`on_damage`=drop omits it\)"):
        run_mirror(source, tmp_path / "stopped")
    report = run_mirror(source, tmp_path / "copy", on_damage="drop")
    incomplete_partitions = [partition for partition in report.partitions if partition.batches_left_out]
    assert [partition.batches_left_out["damaged"] for partition in incomplete_partitions] == [1]
    place = TopicPartition(incomplete_partitions[0].topic, incomplete_partitions[0].partition)
    whole, kept_bytes = logs_of(source)[place][1], logs_of(tmp_path / "copy")[place][1]
    assert 0 < len(whole) - len(kept_bytes) < len(whole) // 2


def test_a_copy_of_another_log_is_not_continued():
    with Broker() as a, Broker() as b:
        for broker, count in ((a, 10), (b, 20)):
            with Producer(broker.bootstrap_servers) as producer:
                producer.send_arrow(table(count), topic="orders")
        with pytest.raises(LogDirError, match="after the source's end 10: it is a copy of another log"):
            run_mirror(a.bootstrap_servers, b.bootstrap_servers, timeout_s=0.5)


def test_invalid_arguments_are_reported(tmp_path):
    with Broker() as a:
        with Admin(a.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name="orders")])
        with pytest.raises(OptionError, match="did you mean orders"):
            run_mirror(a.bootstrap_servers, tmp_path / "copy", topics=("order",))
        with pytest.raises(OptionError, match="are the same"):
            run_mirror("a:1", "a:1")
        with pytest.raises(OptionError, match=r"no topic order\.\*: expected a name or a shell pattern"):
            # MirrorMaker 2 has regular expressions: strimzi/strimzi-kafka-operator#3375
            run_mirror(a.bootstrap_servers, tmp_path / "copy", topics=("order.*",))
        with pytest.raises(OptionError, match="set `state_dir`"):
            run_mirror(a.bootstrap_servers, tmp_path / "copy", offsets="reassign")
    with pytest.raises(OptionError, match="sources are never changed"):
        run_mirror(LOGS / "zk-0102-v1", LOGS / "zk-0102-v1" / "copy")
    with pytest.raises(LogDirError, match="no such file or directory"):
        run_mirror(tmp_path / "missing", tmp_path / "copy")


def test_two_addresses_of_a_cluster_are_not_mirrored_into_each_other(tmp_path):
    """A backup into the same cluster would report success without a copy (apache/kafka#6295: cycles of clusters)."""
    with Broker() as a:
        a.append("orders", [{"value": b"v"}])
        other_address = a.bootstrap_servers.replace("127.0.0.1", "localhost")
        for options in ({}, {"offsets": "reassign", "state_dir": str(tmp_path)}):
            with pytest.raises(OptionError, match=f"are the same cluster: both have the broker {a.bootstrap_servers}"):
                run_mirror(a.bootstrap_servers, other_address, **options)


def test_a_cluster_with_the_same_id_is_another_cluster(tmp_path):
    """Clusters that are restored from one backup have its cluster id."""
    with Broker(data_dir=tmp_path / "a") as a:
        a.append("orders", [{"value": b"v"}])
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with Broker(data_dir=tmp_path / "a") as a, Broker(data_dir=tmp_path / "b") as b:
        a.append("orders", [{"value": b"w"}])
        assert run_mirror(a.bootstrap_servers, b.bootstrap_servers).partitions[0].records_written == 1


@pytest.fixture
def ends_without_records(tmp_path):
    """A log directory after cleaning: the last segments have lost all records, and have only their last offsets."""
    source = tmp_path / "cleaned"
    rows = [{"key": b"k%d" % number, "value": b"v", "timestamp": 1_760_000_000_000} for number in range(50)]
    for partition, segments in enumerate([{0: build_records(rows), 100: b""}, {70: b""}, {0: b"", 30: b""}]):
        directory = source / f"t-{partition}"
        directory.mkdir(parents=True)
        for base, data in segments.items():
            (directory / f"{base:020d}.log").write_bytes(data)
    return source


ENDS = {TopicPartition("t", 0): 100, TopicPartition("t", 1): 70, TopicPartition("t", 2): 30}


@pytest.fixture
def one_wait_is_too_long(monkeypatch):
    """Set the timeout of waits to an hour, so that a test whose mirror waits for the timeout fails."""
    monkeypatch.setattr("kafkaframes.jobs.mirror.job._STALL_TIMEOUT_S", 3600.0)


@pytest.mark.usefixtures("one_wait_is_too_long")
def test_a_log_whose_end_is_after_its_last_batch_is_copied_to_its_end_without_waiting(tmp_path, ends_without_records):
    run_mirror(ends_without_records, tmp_path / "copy")
    with Broker(serve=ends_without_records) as source, Broker() as kept_target, Broker() as renumbered_target:
        run_mirror(source.bootstrap_servers, kept_target.bootstrap_servers)
        report = run_mirror(
            source.bootstrap_servers, renumbered_target.bootstrap_servers, offsets="reassign", state_dir=str(tmp_path)
        )
        assert sum(partition.records_written for partition in report.partitions) == 50
        assert {one: end_of(renumbered_target, one) for one in ENDS} == dict.fromkeys(ENDS, 0) | {
            TopicPartition("t", 0): 50
        }
        assert {one: end_of(kept_target, one) for one in ENDS} == ENDS
        rows = rows_of(kept_target.bootstrap_servers, "t")
    with Broker(serve=tmp_path / "copy") as copy:
        assert {one: end_of(copy, one) for one in ENDS} == ENDS
        assert rows_of(copy.bootstrap_servers, "t") == rows
    assert len(rows[0]) == 50


def end_of(broker, partition):
    with Admin(broker.bootstrap_servers) as admin:
        return admin.list_offsets({partition: -1})[partition]


@pytest.mark.usefixtures("one_wait_is_too_long")
def test_a_log_that_ends_with_an_aborted_transaction_is_copied(tmp_path):
    with Broker() as a, Broker() as b, Broker() as c:
        with Producer(a.bootstrap_servers, transactional_id="t") as producer:
            for end in (producer.commit_transaction, producer.abort_transaction):
                producer.begin_transaction()
                producer.send_arrow(table(20), topic="money")
                end()
        run_mirror(a.bootstrap_servers, b.bootstrap_servers)
        run_mirror(a.bootstrap_servers, c.bootstrap_servers, offsets="reassign", state_dir=str(tmp_path))
        assert end_of(b, TopicPartition("money", 0)) == 42
        assert end_of(c, TopicPartition("money", 0)) == 20


def test_only_a_gap_without_records_is_skipped(ends_without_records):
    with Broker(serve=ends_without_records) as source, Consumer(source.bootstrap_servers) as consumer:
        place = TopicPartition("t", 0)
        consumer.assign({place: 49})
        assert not consumer.skip_gap(place, 100)
        assert consumer.position(place) == 49
        assert consumer.fetch(60_000).next_offset == 50
        assert not consumer.skip_gap(place, 101)  # the log ends before the offset
        assert consumer.skip_gap(place, 100)
        assert consumer.position(place) == 100
