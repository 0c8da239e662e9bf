"""Compaction while the broker runs: remaining records, concurrent readers, crashes at every step, restarts."""

from __future__ import annotations

import os
import threading
import time
from itertools import pairwise

import confluent_kafka as confluent
import pytest
from tests.storage.partition.memory_disk import MemoryDisk, apply_effect

from kafkaframes.broker import Broker
from kafkaframes.broker.lifecycle.maintenance import LogCleaner
from kafkaframes.errors import StorageError
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_records
from kafkaframes.storage.files.names import TopicPartition

COMPACTED = {"cleanup_policy": "compact", "segment_bytes": "400", "segment_index_bytes": "600"}
ORDERS_0 = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def read_records(log):
    """Return offset, key and value of each record in a log."""
    return [(record.offset, record.key, record.value) for batch in read_all_batches(log) for record in batch.records]


def read_all_batches(log):
    batches_read, offset = [], log.log_start_offset
    while offset < log.log_end_offset:  # a read ends at the end of its segment
        batches = list(read_batches(bytes(log.read(offset, max_bytes=1 << 24).records)))
        batches_read += batches
        offset = batches[-1].last_offset + 1 if batches else log.log_end_offset
    return batches_read


def fill(client, rounds=8, keys=4, *, magic=2, codec="none", **fields):
    """Write each key once per round, one batch at a time."""
    for number in range(rounds):
        rows = {
            "key": [b"k%d" % key for key in range(keys)],
            "value": [b"v%d" % number] * keys,
            "timestamp": [NOW_MS + number] * keys,
        }
        data = build_records(rows, record_format=magic, codec=codec)
        version = {0: 0, 1: 2, 2: 9}[magic]
        assert client.produce(data, version=version, **fields).error_code == 0


def latest(records):
    return {key: value for _, key, value in records}


@pytest.fixture
def make_cleaner(make_client):
    """Create a broker with a log cleaner and a compacted topic: ``make_cleaner(config, **configs)``."""

    def make(config=None, *, options=None, **configs):
        client = make_client(config={"log.index.size.max.bytes": "600", **(config or {})}, **(options or {}))
        if "orders" not in client.state.topics:
            client.create(**{**COMPACTED, **configs})
        client.cleaning = LogCleaner(client.state)
        return client

    return make


def log_of(client):
    return client.state.topics["orders"].partitions[0].log


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_compaction_keeps_the_last_record_of_each_key_at_its_offset(make_cleaner, codec):
    client = make_cleaner()
    fill(client, codec=codec)
    log = log_of(client)
    before, ends = read_records(log), (log.log_start_offset, log.log_end_offset)
    active = log.segment_bases[-1]
    client.state.clock.advance(16)
    remaining_records = read_records(log)
    assert (log.log_start_offset, log.log_end_offset) == ends
    assert set(remaining_records) < set(before)
    assert latest(remaining_records) == latest(before)
    last = {key: offset for offset, key, _ in before if offset < active}
    assert {record for record in remaining_records if record[0] < active} == {
        one for one in before if one[0] < active and last[one[1]] == one[0]
    }
    assert client.state.logs.cleaner_offsets[ORDERS_0] == active
    assert log.size_bytes == sum(segment.size_bytes for segment in log.segments)


@pytest.mark.parametrize(("magic", "release"), [(0, "0.9.0"), (1, "0.10.2")])
def test_compaction_keeps_old_record_formats(make_cleaner, magic, release):
    client = make_cleaner(message_format_version=release)
    fill(client, magic=magic)
    log = log_of(client)
    before = latest(read_records(log))
    client.state.clock.advance(16)
    assert latest(read_records(log)) == before
    assert len(read_records(log)) < 32
    assert {batch.magic for batch in read_all_batches(log)} == {magic}


def test_the_cleaner_continues_from_its_checkpoint(make_cleaner):
    client = make_cleaner()
    log = log_of(client)
    for _ in range(4):
        fill(client)
        client.state.clock.advance(16)
        assert latest(read_records(log)) == {b"k%d" % key: b"v7" for key in range(4)}
    assert len(read_records(log)) < 20
    assert len(log.segment_bases) < 12  # adjacent small segments are merged
    assert [log.read(offset, max_bytes=1).records != b"" for offset in (0, 17, log.log_end_offset - 1)] == [True] * 3


def test_the_dirty_ratio_and_both_compaction_lags_decide_when_a_log_is_compacted(make_cleaner):
    client = make_cleaner(min_cleanable_dirty_ratio="1.0")
    fill(client)
    client.state.clock.advance(16)
    assert len(read_records(log_of(client))) == 32
    client = make_cleaner(min_compaction_lag_ms="3600000")
    fill(client)
    client.state.clock.advance(16)
    assert len(read_records(log_of(client))) == 32
    client.state.clock.advance(3700)
    assert len(read_records(log_of(client))) < 32
    client = make_cleaner(min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="60000")
    fill(client)
    client.state.clock.advance(61)
    client.state.clock.advance(16)
    assert len(read_records(log_of(client))) < 32


def test_tombstones_are_removed_after_delete_retention(make_cleaner):
    client = make_cleaner(delete_retention_ms="100000")
    log = log_of(client)
    fill(client, rounds=2)
    assert client.produce(build_records({"key": [b"k0"], "value": [None], "timestamp": [NOW_MS]})).error_code == 0

    def append_segments_and_clean():
        for number in range(8):
            row = {"key": [b"k1"], "value": [b"%d" % number + b"." * 200], "timestamp": [NOW_MS]}
            assert client.produce(build_records(row)).error_code == 0
        client.state.clock.advance(16)

    append_segments_and_clean()
    assert (b"k0", None) in [(key, value) for _, key, value in read_records(log)]
    client.state.clock.advance(101)
    append_segments_and_clean()
    assert b"k0" not in {key for _, key, _ in read_records(log)}


def test_a_log_with_policy_compact_and_delete_loses_expired_segments(make_cleaner):
    client = make_cleaner(cleanup_policy="compact,delete", retention_ms="100000")
    fill(client)
    log = log_of(client)
    client.state.clock.advance(16)
    assert len(read_records(log)) < 32
    client.state.clock.advance(400)
    log.delete_old_segments(now_ms=client.state.clock.now_ms)
    assert log.log_start_offset > 0
    fill(client)
    client.state.clock.advance(16)
    assert latest(read_records(log))[b"k3"] == b"v7"


def test_an_open_reader_of_a_replaced_segment_can_continue(make_cleaner):
    client = make_cleaner()
    fill(client)
    log = log_of(client)
    reading = log.read(0, max_bytes=1 << 24)
    before = bytes(reading.records)
    client.state.clock.advance(16)
    assert bytes(reading.records) == before
    deleted_count = len(log.deleted_files)
    client.state.clock.advance(61)
    assert deleted_count > 0
    assert log.remove_deleted_files(now_ms=client.state.clock.now_ms) == deleted_count


def test_a_round_is_repeated_if_its_segments_were_deleted_in_the_meantime(make_cleaner):
    client = make_cleaner()
    fill(client)
    log = log_of(client)
    waiting = []
    client.state.clock.is_frozen = False  # otherwise the whole round runs at once
    client.cleaning.run_work = lambda work, finish: waiting.append((work, finish))
    client.cleaning._clean_next(set())
    ((work, finish),) = waiting
    work()
    log.truncate_to(10, now_ms=NOW_MS)
    finish()
    assert log.log_end_offset == 10
    assert ORDERS_0 not in client.state.logs.cleaner_offsets
    fill(client)
    client.cleaning.run_work = None
    client.cleaning._clean_next(set())
    assert latest(read_records(log)) == {b"k%d" % key: b"v7" for key in range(4)}


def test_stopping_the_broker_cancels_the_cleaning_round(make_cleaner):
    client = make_cleaner()
    fill(client)
    client.cleaning.is_stopped = True
    client.cleaning._clean(next(iter(client.cleaning._find_cleaning_ranges())), set())
    assert len(read_records(log_of(client))) == 32


def test_a_corrupt_segment_is_not_compacted(make_cleaner, caplog):
    client = make_cleaner()
    fill(client)
    log = log_of(client)
    bases = log.segment_bases
    file = log.disk.open_file(log.segments.first.path)
    file.write(70, b"\xff\xff\xff")
    client.state.clock.advance(16)
    assert list(client.cleaning.uncleanable) == [ORDERS_0]
    assert "is not compacted" in caplog.text
    assert log.segment_bases == bases


def test_compacted_internal_topics_are_loaded_again(make_client, tmp_path):
    client = make_client(data_dir=str(tmp_path), config={"offsets.topic.segment.bytes": "1000"})
    client.create()
    LogCleaner(client.state)
    types = client.types("OffsetCommit")
    for offset in range(40):
        row = types.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        client.ask(
            "OffsetCommit", 8, group_id="g", topics=[types.OffsetCommitRequestTopic(name="orders", partitions=[row])]
        )
    log = client.state.topics["__consumer_offsets"].partitions[0].log
    size = log.size_bytes
    client.state.clock.advance(16)
    assert log.size_bytes < size / 3
    client.state.logs.abandon()
    again = make_client(data_dir=str(tmp_path))
    groups = [again.types("OffsetFetch").OffsetFetchRequestGroup(group_id="g", topics=None)]
    (group,) = again.ask("OffsetFetch", 8, groups=groups).groups
    assert group.topics[0].partitions[0].committed_offset == 39


def test_a_crash_at_any_step_of_compaction_loses_no_record(make_cleaner, make_client):
    disk = MemoryDisk()
    client = make_cleaner(options={"disk": disk, "data_dir": "/data"})
    fill(client)
    log_of(client).flush(now_ms=NOW_MS)
    client.state.logs.checkpoint_all()
    for path in ("/", "/data"):
        disk.sync_directory(path)
    expected_values, began = latest(read_records(log_of(client))), len(disk.journal)
    client.state.clock.advance(16)
    assert len(read_records(log_of(client))) < 32
    effects = disk.journal[began:]
    assert {name for name, _ in effects} >= {"do_rename", "do_write", "do_sync_directory"}
    replayed_disk = MemoryDisk()
    for name, arguments in disk.journal[:began]:
        getattr(replayed_disk, name)(*arguments)
    for number, (name, arguments) in enumerate(effects):
        if number % 3 == 0 or name == "do_rename":
            for crashed_disk in (
                apply_effect(replayed_disk, (name, arguments), part=0.5).crash(),
                replayed_disk.crash(lambda pending: 0),
            ):
                again = make_client(disk=crashed_disk, data_dir="/data")
                log = log_of(again)
                assert latest(read_records(log)) == expected_values, (number, name, arguments)
                assert log.log_end_offset == 32
                again.state.logs.abandon()
        getattr(replayed_disk, name)(*arguments)


def test_a_disk_failure_during_compaction_takes_only_the_log_directory_offline(make_cleaner):
    client = make_cleaner()
    fill(client)
    log = log_of(client)
    before = read_records(log)

    def fail(*arguments):
        raise OSError(28, "no space left on device")

    log.disk.inner.rename = fail
    client.state.clock.advance(16)
    with pytest.raises(StorageError):
        log.append_as_leader(build_records({"key": [b"k"]}), leader_epoch=0, now_ms=NOW_MS)
    assert [record for record in read_records(log) if record in before] == read_records(log)


def test_a_consumer_reads_through_compactions(tmp_path):
    config = {"log.cleaner.backoff.ms": 5, "log.segment.bytes": 4000, "log.segment.delete.delay.ms": 50}
    with Broker(data_dir=tmp_path, config=config) as broker:
        broker.create_topic("orders", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
        servers = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        producer = confluent.Producer({**servers, "linger.ms": 0, "batch.num.messages": 20})
        consumer = confluent.Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.assign([confluent.TopicPartition("orders", 0, 0)])

        def produce():
            for number in range(4000):
                producer.produce("orders", b"%d" % number, b"k%d" % (number % 50))
                if number % 40 == 0:
                    producer.flush(60)
            producer.flush(60)

        thread = threading.Thread(target=produce)
        thread.start()
        values, offsets = {}, [-1]
        deadline = time.monotonic() + 60
        while offsets[-1] < 3999 and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            assert message.error() is None
            assert message.offset() > offsets[-1]
            offsets.append(message.offset())
            values[message.key()] = int(message.value())
        consumer.close()
        thread.join(60)
        assert values == {b"k%d" % key: 3950 + key for key in range(50)}
        log = broker.call(lambda state: state.topics["orders"].partitions[0].log)
        broker.wait_for(lambda: broker.call(lambda state: state.logs.cleaner_offsets.get(ORDERS_0, 0)) > 1000)
        assert log.log_end_offset == 4000
    with Broker(data_dir=tmp_path) as broker:
        assert {record.key: int(record.value) for record in broker.records("orders")} == values


def test_a_merged_segment_has_the_modification_time_of_its_last_source(make_cleaner, tmp_path):
    client = make_cleaner(options={"data_dir": str(tmp_path)})
    log, directory = log_of(client), tmp_path / "orders-0"
    kinds, times = ("log", "index", "timeindex"), {}
    for _ in range(2):  # the second round merges adjacent small segments
        fill(client)
        times = {base: 1_600_000_000 + base for base in log.segment_bases[:-1]}
        for base, seconds in times.items():
            for kind in kinds:
                os.utime(directory / f"{base:020}.{kind}", (seconds, seconds))
        client.state.clock.advance(16)
    assert 1 < len(log.segment_bases) <= len(times)
    for base, following in pairwise(log.segment_bases):
        last = max(time for old, time in times.items() if old < following)
        assert {(directory / f"{base:020}.{kind}").stat().st_mtime for kind in kinds} == {last}
