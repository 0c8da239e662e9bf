"""Compaction while the broker runs: remaining records, concurrent readers, crashes at every step, restarts."""

from __future__ import annotations

import os
import threading
import time
from itertools import pairwise

import confluent_kafka as confluent
import pytest
from tests.storage.partition.memory_disk import MemoryDisk, after

from kafkaframes.broker import Broker
from kafkaframes.broker.lifecycle.maintenance import LogCleaner
from kafkaframes.errors import StorageError
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_records
from kafkaframes.storage.files.names import TopicPartition

COMPACTED = {"cleanup_policy": "compact", "segment_bytes": "400", "segment_index_bytes": "600"}
WHERE = TopicPartition("orders", 0)
NOW = 1_700_000_000_000
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def records_of(log):
    """Return offset, key and value of everything in a log."""
    return [(record.offset, record.key, record.value) for batch in batches_of(log) for record in batch.records]


def batches_of(log):
    batches_read, offset = [], log.log_start_offset
    while offset < log.log_end_offset:  # an answer ends with its segment
        batches = list(read_batches(bytes(log.read(offset, max_bytes=1 << 24).records)))
        batches_read += batches
        offset = batches[-1].last_offset + 1 if batches else log.log_end_offset
    return batches_read


def fill(asker, rounds=8, keys=4, *, magic=2, codec="none", **fields):
    """Write each key again and again, a batch each time."""
    for number in range(rounds):
        rows = {
            "key": [b"k%d" % key for key in range(keys)],
            "value": [b"v%d" % number] * keys,
            "timestamp": [NOW + number] * keys,
        }
        data = build_records(rows, record_format=magic, codec=codec)
        version = {0: 0, 1: 2, 2: 9}[magic]
        assert asker.produce(data, version=version, **fields).error_code == 0


def latest(records):
    return {key: value for _, key, value in records}


@pytest.fixture
def make_cleaner(make_asker):
    """Make a broker with a cleaner and a compacted topic: ``make_cleaner(config, **configs)``."""

    def make(config=None, *, options=None, **configs):
        asker = make_asker(config={"log.index.size.max.bytes": "600", **(config or {})}, **(options or {}))
        if "orders" not in asker.state.topics:
            asker.create(**{**COMPACTED, **configs})
        asker.cleaning = LogCleaner(asker.state)
        return asker

    return make


def log_of(asker):
    return asker.state.topics["orders"].partitions[0].log


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_the_last_record_of_each_key_stays_with_its_offset(make_cleaner, codec):
    asker = make_cleaner()
    fill(asker, codec=codec)
    log = log_of(asker)
    before, ends = records_of(log), (log.log_start_offset, log.log_end_offset)
    active = log.segment_bases[-1]
    asker.state.clock.advance(16)
    remaining_records = records_of(log)
    assert (log.log_start_offset, log.log_end_offset) == ends
    assert set(remaining_records) < set(before)
    assert latest(remaining_records) == latest(before)
    last = {key: offset for offset, key, _ in before if offset < active}
    assert {record for record in remaining_records if record[0] < active} == {
        one for one in before if one[0] < active and last[one[1]] == one[0]
    }
    assert asker.state.logs.cleaner_offsets[WHERE] == active
    assert log.size_bytes == sum(segment.size_bytes for segment in log.segments)


@pytest.mark.parametrize(("magic", "release"), [(0, "0.9.0"), (1, "0.10.2")])
def test_topics_of_old_formats_stay_in_them(make_cleaner, magic, release):
    asker = make_cleaner(message_format_version=release)
    fill(asker, magic=magic)
    log = log_of(asker)
    before = latest(records_of(log))
    asker.state.clock.advance(16)
    assert latest(records_of(log)) == before
    assert len(records_of(log)) < 32
    assert {batch.magic for batch in batches_of(log)} == {magic}


def test_it_goes_on_where_it_ended(make_cleaner):
    asker = make_cleaner()
    log = log_of(asker)
    for _ in range(4):
        fill(asker)
        asker.state.clock.advance(16)
        assert latest(records_of(log)) == {b"k%d" % key: b"v7" for key in range(4)}
    assert len(records_of(log)) < 20
    assert len(log.segment_bases) < 12  # small neighbours become one
    assert [log.read(offset, max_bytes=1).records != b"" for offset in (0, 17, log.log_end_offset - 1)] == [True] * 3


def test_a_ratio_and_two_lags_decide_when(make_cleaner):
    asker = make_cleaner(min_cleanable_dirty_ratio="1.0")
    fill(asker)
    asker.state.clock.advance(16)
    assert len(records_of(log_of(asker))) == 32
    asker = make_cleaner(min_compaction_lag_ms="3600000")
    fill(asker)
    asker.state.clock.advance(16)
    assert len(records_of(log_of(asker))) == 32
    asker.state.clock.advance(3700)
    assert len(records_of(log_of(asker))) < 32
    asker = make_cleaner(min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="60000")
    fill(asker)
    asker.state.clock.advance(61)
    asker.state.clock.advance(16)
    assert len(records_of(log_of(asker))) < 32


def test_tombstones_go_after_their_time(make_cleaner):
    asker = make_cleaner(delete_retention_ms="100000")
    log = log_of(asker)
    fill(asker, rounds=2)
    assert asker.produce(build_records({"key": [b"k0"], "value": [None], "timestamp": [NOW]})).error_code == 0

    def clean_on():
        for number in range(8):
            row = {"key": [b"k1"], "value": [b"%d" % number + b"." * 200], "timestamp": [NOW]}
            assert asker.produce(build_records(row)).error_code == 0
        asker.state.clock.advance(16)

    clean_on()
    assert (b"k0", None) in [(key, value) for _, key, value in records_of(log)]
    asker.state.clock.advance(101)
    clean_on()
    assert b"k0" not in {key for _, key, _ in records_of(log)}


def test_a_log_that_is_deleted_too_loses_its_old_segments(make_cleaner):
    asker = make_cleaner(cleanup_policy="compact,delete", retention_ms="100000")
    fill(asker)
    log = log_of(asker)
    asker.state.clock.advance(16)
    assert len(records_of(log)) < 32
    asker.state.clock.advance(400)
    log.delete_old_segments(now_ms=asker.state.clock.now_ms)
    assert log.log_start_offset > 0
    fill(asker)
    asker.state.clock.advance(16)
    assert latest(records_of(log))[b"k3"] == b"v7"


def test_who_reads_an_old_segment_reads_on(make_cleaner):
    asker = make_cleaner()
    fill(asker)
    log = log_of(asker)
    reading = log.read(0, max_bytes=1 << 24)
    before = bytes(reading.records)
    asker.state.clock.advance(16)
    assert bytes(reading.records) == before
    deleted_count = len(log.deleted_files)
    asker.state.clock.advance(61)
    assert deleted_count > 0
    assert log.remove_deleted_files(now_ms=asker.state.clock.now_ms) == deleted_count


def test_segments_that_went_away_meanwhile_are_cleaned_again(make_cleaner):
    asker = make_cleaner()
    fill(asker)
    log = log_of(asker)
    waiting = []
    asker.state.clock.is_frozen = False  # else all is done at once
    asker.cleaning.run_work = lambda work, finish: waiting.append((work, finish))
    asker.cleaning._clean_next(set())
    ((work, finish),) = waiting
    work()
    log.truncate_to(10, now_ms=NOW)
    finish()
    assert log.log_end_offset == 10
    assert WHERE not in asker.state.logs.cleaner_offsets
    fill(asker)
    asker.cleaning.run_work = None
    asker.cleaning._clean_next(set())
    assert latest(records_of(log)) == {b"k%d" % key: b"v7" for key in range(4)}


def test_a_stop_gives_the_round_up(make_cleaner):
    asker = make_cleaner()
    fill(asker)
    asker.cleaning.is_stopped = True
    asker.cleaning._clean(next(iter(asker.cleaning._find_cleaning_ranges())), set())
    assert len(records_of(log_of(asker))) == 32


def test_damage_is_left_alone(make_cleaner, caplog):
    asker = make_cleaner()
    fill(asker)
    log = log_of(asker)
    bases = log.segment_bases
    file = log.disk.open_file(log.segments.first.path)
    file.write(70, b"\xff\xff\xff")
    asker.state.clock.advance(16)
    assert list(asker.cleaning.uncleanable) == [WHERE]
    assert "is not compacted" in caplog.text
    assert log.segment_bases == bases


def test_internal_topics_are_compacted_and_read_back(make_asker, tmp_path):
    asker = make_asker(data_dir=str(tmp_path), config={"offsets.topic.segment.bytes": "1000"})
    asker.create()
    LogCleaner(asker.state)
    types = asker.types("OffsetCommit")
    for offset in range(40):
        row = types.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        asker.ask(
            "OffsetCommit", 8, group_id="g", topics=[types.OffsetCommitRequestTopic(name="orders", partitions=[row])]
        )
    log = asker.state.topics["__consumer_offsets"].partitions[0].log
    size = log.size_bytes
    asker.state.clock.advance(16)
    assert log.size_bytes < size / 3
    asker.state.logs.abandon()
    again = make_asker(data_dir=str(tmp_path))
    groups = [again.types("OffsetFetch").OffsetFetchRequestGroup(group_id="g", topics=None)]
    (group,) = again.ask("OffsetFetch", 8, groups=groups).groups
    assert group.topics[0].partitions[0].committed_offset == 39


def test_a_crash_at_any_step_loses_nothing(make_cleaner, make_asker):
    disk = MemoryDisk()
    asker = make_cleaner(options={"disk": disk, "data_dir": "/data"})
    fill(asker)
    log_of(asker).flush(now_ms=NOW)
    asker.state.logs.checkpoint_all()
    for path in ("/", "/data"):
        disk.sync_directory(path)
    expected_values, began = latest(records_of(log_of(asker))), len(disk.journal)
    asker.state.clock.advance(16)
    assert len(records_of(log_of(asker))) < 32
    effects = disk.journal[began:]
    assert {name for name, _ in effects} >= {"do_rename", "do_write", "do_sync_directory"}
    replayed_disk = MemoryDisk()
    for name, arguments in disk.journal[:began]:
        getattr(replayed_disk, name)(*arguments)
    for number, (name, arguments) in enumerate(effects):
        if number % 3 == 0 or name == "do_rename":
            for crashed_disk in (
                after(replayed_disk, (name, arguments), part=0.5).crash(),
                replayed_disk.crash(lambda pending: 0),
            ):
                again = make_asker(disk=crashed_disk, data_dir="/data")
                log = log_of(again)
                assert latest(records_of(log)) == expected_values, (number, name, arguments)
                assert log.log_end_offset == 32
                again.state.logs.abandon()
        getattr(replayed_disk, name)(*arguments)


def test_a_disk_that_fails_takes_the_directory_offline_and_nothing_else(make_cleaner):
    asker = make_cleaner()
    fill(asker)
    log = log_of(asker)
    before = records_of(log)

    def fail(*arguments):
        raise OSError(28, "no space left on device")

    log.disk.inner.rename = fail
    asker.state.clock.advance(16)
    with pytest.raises(StorageError):
        log.append_as_leader(build_records({"key": [b"k"]}), leader_epoch=0, now_ms=NOW)
    assert [record for record in records_of(log) if record in before] == records_of(log)


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
        broker.wait_for(lambda: broker.call(lambda state: state.logs.cleaner_offsets.get(WHERE, 0)) > 1000)
        assert log.log_end_offset == 4000
    with Broker(data_dir=tmp_path) as broker:
        assert {one.key: int(one.value) for one in broker.records("orders")} == values


def test_a_cleaned_segment_has_the_time_of_the_last_one_that_it_was_made_of(make_cleaner, tmp_path):
    asker = make_cleaner(options={"data_dir": str(tmp_path)})
    log, directory = log_of(asker), tmp_path / "orders-0"
    kinds, times = ("log", "index", "timeindex"), {}
    for _ in range(2):  # the second time, small neighbours become one
        fill(asker)
        times = {base: 1_600_000_000 + base for base in log.segment_bases[:-1]}
        for base, seconds in times.items():
            for kind in kinds:
                os.utime(directory / f"{base:020}.{kind}", (seconds, seconds))
        asker.state.clock.advance(16)
    assert 1 < len(log.segment_bases) <= len(times)
    for base, following in pairwise(log.segment_bases):
        last = max(time for old, time in times.items() if old < following)
        assert {(directory / f"{base:020}.{kind}").stat().st_mtime for kind in kinds} == {last}
