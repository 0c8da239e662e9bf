"""A mirror resumes only if source and copy have the same records: contents are compared, not lengths."""

import asyncio
import threading

import pytest
from tests.jobs.mirror.worlds import TIMES, WAIT_S, rows_of, run_mirror, table
from tests.waiting import wait_for

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic, Producer, TopicPartition
from kafkaframes.errors import CorruptRecordError, LogDirError
from kafkaframes.jobs.mirror.job import mirror_clusters
from kafkaframes.jobs.mirror.settings import MirrorSettings

ORDERS = TopicPartition("orders", 0)


def write(broker, *values, topic="orders", key=b"k", headers=(), timestamp=TIMES):
    """Append records, one per batch, with the same timestamp in every broker."""
    with Producer(broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value, key=key, headers=list(headers), timestamp_ms=timestamp).result(WAIT_S)


def values_of(broker, topic="orders"):
    return [record.value for record in broker.records(topic)]


SOURCE = [b"s0", b"s1", b"s2", b"s3", b"s4"]
LAYOUTS = {
    "all": [b"o0", b"o1"],
    "the first": [b"o0", b"s1"],
    "the last": [b"s0", b"o1"],
    "as long as the source": [b"o0", b"o1", b"o2", b"o3", b"o4"],
    "in the middle": [b"s0", b"o1", b"s2"],
}


@pytest.mark.parametrize("held_rows", LAYOUTS.values(), ids=LAYOUTS)
def test_a_copy_with_other_records_is_rejected_and_both_sides_are_shown(held_rows):
    with Broker() as source, Broker() as target:
        write(source, *SOURCE)
        write(target, *held_rows)
        with pytest.raises(LogDirError, match="the copy has other records") as failure:
            run_mirror(source.bootstrap_servers, target.bootstrap_servers)
        at = next(at for at, value in enumerate(held_rows) if value != SOURCE[at])
        for part in (f"offset {at}", repr(SOURCE[at]), repr(held_rows[at])):
            assert part in str(failure.value)
        assert values_of(target) == held_rows


DIFFERENCES = {
    "key": {"key": b"other"},
    "null key": {"key": None},
    "header": {"headers": [("h", b"1")]},
    "timestamp": {"timestamp": TIMES + 1},
}


@pytest.mark.parametrize("other", DIFFERENCES.values(), ids=DIFFERENCES)
def test_key_headers_and_timestamp_are_compared_too(other):
    with Broker() as source, Broker() as target:
        write(source, b"a", b"b")
        write(target, b"a", **other)
        with pytest.raises(LogDirError, match="offset 0"):
            run_mirror(source.bootstrap_servers, target.bootstrap_servers)


@pytest.mark.parametrize("ends", ["topic to directory", "directory to topic", "directory to directory"])
def test_directories_are_compared_like_topics(tmp_path, ends):
    for name, values in (("a", SOURCE), ("b", [b"o0", b"o1"])):
        with Broker(data_dir=tmp_path / name) as broker:
            write(broker, *values)
    if ends == "topic to directory":
        with Broker(serve=tmp_path / "a") as source:
            check_refused(source.bootstrap_servers, tmp_path / "b")
    elif ends == "directory to topic":
        with Broker(data_dir=tmp_path / "b") as target:
            check_refused(tmp_path / "a", target.bootstrap_servers)
    else:
        check_refused(tmp_path / "a", tmp_path / "b")


def check_refused(source, target):
    with pytest.raises(LogDirError, match="other records"):
        run_mirror(source, target)


def test_a_dry_run_compares_as_well():
    with Broker() as source, Broker() as target:
        write(source, *SOURCE)
        write(target, b"o0")
        with pytest.raises(LogDirError, match="other records"):
            run_mirror(source.bootstrap_servers, target.bootstrap_servers, dry_run=True)


def test_a_copy_is_continued_after_compaction_and_retention_on_either_side(tmp_path):
    with Broker() as source, Broker() as target:
        with Producer(source.bootstrap_servers, batch_size=2_000) as producer:
            producer.send_arrow(table(5_000), topic="orders")
        run_mirror(source.bootstrap_servers, target.bootstrap_servers)
        with Admin(source.bootstrap_servers) as admin:
            admin.delete_records({ORDERS: 4_000})
        with Admin(target.bootstrap_servers) as admin:
            admin.delete_records({ORDERS: 1_000})
        write(source, b"new")
        report = run_mirror(source.bootstrap_servers, target.bootstrap_servers).partitions[0]
        assert report.resumed
        assert 1 <= report.compared <= 1_000
        assert report.records_written == 1


def test_long_copies_are_compared_at_both_ends_and_by_samples():
    with Broker() as source, Broker() as target:
        for broker in (source, target):
            with Producer(broker.bootstrap_servers, batch_size=64_000, compression_type="none") as producer:
                for number in range(40):
                    value = b"x" * 50_000 if broker is source or number != 39 else b"y" * 50_000
                    producer.send("orders", b"%d" % number + value, timestamp_ms=TIMES).result(WAIT_S)
        write(source, b"more")
        with pytest.raises(LogDirError, match="offset 39"):
            run_mirror(source.bootstrap_servers, target.bootstrap_servers)


DIFFERING_RECORD = 25  # of 64 records of 200,000 bytes: not among the first, the samples or the last


def fill(broker, *, other=None):
    """Append 64 large records. If ``other`` is set, the record with this number gets another value."""
    with Producer(broker.bootstrap_servers, compression_type="none") as producer:
        for number in range(64):
            value = (b"y" if number == other else b"x") * 200_000
            producer.send("orders", b"%d" % number + value, timestamp_ms=TIMES).result(WAIT_S)


def test_between_directories_all_records_are_compared(tmp_path):
    for name, other in (("a", None), ("b", DIFFERING_RECORD)):
        with Broker(data_dir=tmp_path / name) as broker:
            fill(broker, other=other)
    with pytest.raises(LogDirError, match=f"offset {DIFFERING_RECORD}"):
        run_mirror(tmp_path / "a", tmp_path / "b")
    report = run_mirror(tmp_path / "a", tmp_path / "b", compare="samples").partitions[0]
    assert 2 < report.compared < 64  # the report has the number of compared records


def flip_bit(path):
    """Flip a bit in the value of record ``DIFFERING_RECORD``."""
    log = path / "orders-0" / f"{0:020}.log"
    raw = bytearray(log.read_bytes())
    raw[raw.index(b"%dxxx" % DIFFERING_RECORD) + 1000] ^= 1
    log.write_bytes(raw)


def test_equal_damage_on_both_sides_is_reported_although_the_bytes_are_equal(tmp_path):
    with Broker(data_dir=tmp_path / "a") as broker:
        fill(broker)
    run_mirror(tmp_path / "a", tmp_path / "b")
    assert run_mirror(tmp_path / "a", tmp_path / "b").partitions[0].compared == 64
    flip_bit(tmp_path / "a")
    assert run_mirror(tmp_path / "a", tmp_path / "b", on_damage="drop").partitions[0].compared == 63
    flip_bit(tmp_path / "b")
    for on_damage in ("fail", "drop"):  # on_damage=drop omits batches of the source; a damaged copy is always an error
        with pytest.raises(CorruptRecordError, match="CRC"):
            run_mirror(tmp_path / "a", tmp_path / "b", on_damage=on_damage)


@pytest.mark.parametrize("other", [None, DIFFERING_RECORD])
def test_between_clusters_all_records_are_compared_on_request(other):
    with Broker() as source, Broker() as target:
        fill(source)
        fill(target, other=other)
        if other is None:
            report = run_mirror(source.bootstrap_servers, target.bootstrap_servers, compare="all")
            assert report.partitions[0].compared == 64
            return
        with pytest.raises(LogDirError, match=f"offset {DIFFERING_RECORD}"):
            run_mirror(source.bootstrap_servers, target.bootstrap_servers, compare="all")


def test_records_in_other_batches_and_codecs_are_compared_one_by_one(tmp_path):
    """A copy may be recompressed, so that no batch has the source's bytes."""
    for name, codec, linger in (("a", "none", 0), ("b", "gzip", 1000)):
        with (
            Broker(data_dir=tmp_path / name) as broker,
            Producer(broker.bootstrap_servers, compression_type=codec, linger_ms=linger) as producer,
        ):
            for number in range(20_000):
                value = b"other" if name == "b" and number == 15_000 else b"v%d" % number
                producer.send("orders", value, timestamp_ms=TIMES)
    with pytest.raises(LogDirError, match="offset 15,000"):
        run_mirror(tmp_path / "a", tmp_path / "b")


def delete_all_records(broker, offset):
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_records({ORDERS: offset})


def test_without_a_common_offset_a_flag_is_required():
    with Broker() as source, Broker() as target:
        write(source, *SOURCE)
        write(target, b"o0", b"o1")
        delete_all_records(source, 3)
        with pytest.raises(LogDirError, match="`unverified`"):
            run_mirror(source.bootstrap_servers, target.bootstrap_servers)
        assert values_of(target) == [b"o0", b"o1"]
        run_mirror(source.bootstrap_servers, target.bootstrap_servers, unverified=True)
        assert values_of(target) == [b"s3", b"s4"]  # a copy begins at its source's first offset


def test_a_copy_without_records_needs_no_flag():
    with Broker() as source, Broker() as target:
        write(source, *SOURCE)
        delete_all_records(source, 5)
        run_mirror(source.bootstrap_servers, target.bootstrap_servers)
        write(source, b"s5")
        delete_all_records(source, 6)
        write(source, b"s6")
        report = run_mirror(source.bootstrap_servers, target.bootstrap_servers).partitions[0]
        assert (report.resumed, values_of(target)) == (True, [b"s6"])


def run_reassigning(source, target, tmp_path, **settings):
    return run_mirror(
        source.bootstrap_servers,
        target.bootstrap_servers,
        offsets="reassign",
        state_dir=str(tmp_path / "state"),
        **settings,
    )


def test_new_offsets_are_compared_through_the_mapping(tmp_path):
    with Broker() as source, Broker() as target:
        write(source, *SOURCE)
        delete_all_records(source, 2)
        run_reassigning(source, target, tmp_path)
        write(source, b"s5")
        assert run_reassigning(source, target, tmp_path).partitions[0].compared == 3
        assert values_of(target) == [b"s2", b"s3", b"s4", b"s5"]


def test_a_target_with_log_append_time_is_compared_without_timestamps(tmp_path):
    with Broker() as source, Broker() as target:
        with Admin(target.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name="orders", configs={"message.timestamp.type": "LogAppendTime"})])
        write(source, *SOURCE)
        run_reassigning(source, target, tmp_path)
        write(source, b"s5")
        assert run_reassigning(source, target, tmp_path).partitions[0].compared == 5


def test_a_mapping_identifies_its_copy_by_both_topic_ids(tmp_path):
    with Broker() as source, Broker() as target:
        write(source, *SOURCE)
        run_reassigning(source, target, tmp_path)
        delete_all_records(source, 5)
        write(source, b"s5")
        report = run_reassigning(source, target, tmp_path).partitions[0]
        assert (report.resumed, report.compared, values_of(target)[-1]) == (True, 0, b"s5")


def test_a_copy_of_old_formats_and_transactions_agrees_with_its_source(tmp_path):
    from tests.jobs.mirror.worlds import fill

    with Broker() as source, Broker() as kept_target, Broker() as assigned_target:
        fill(source)
        for target, run in ((kept_target, run_mirror), (assigned_target, None)):
            for _ in range(2):
                if run is None:
                    report = run_reassigning(source, target, tmp_path)
                else:
                    report = run(source.bootstrap_servers, target.bootstrap_servers)
            compared_counts = {
                f"{partition.topic}-{partition.partition}": partition.compared for partition in report.partitions
            }
            assert all(compared_counts[name] > 0 for name in ("format-0-0", "format-1-0", "stamped-0", "plain-0"))
            assert rows_of(target.bootstrap_servers, "stamped", offsets=False)


class FollowingMirror:
    """A mirror with ``follow`` that runs in a thread."""

    def __init__(self, source, target, interval_s=0.1):
        self.failure = None
        self.report = None
        self.stop = None
        self._interval_s = interval_s
        self._arguments = source.bootstrap_servers, target.bootstrap_servers
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self):
        self.loop, self.stop = asyncio.get_running_loop(), asyncio.Event()
        settings = MirrorSettings(follow=True, topic_interval_s=self._interval_s, timeout_s=1.0)
        try:
            self.report = await mirror_clusters(*self._arguments, settings, stop=self.stop)
        except LogDirError as failure:
            self.failure = failure

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.stop.set)
        self._thread.join(WAIT_S)


def recreate(broker, *values):
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topics(["orders"])
        wait_for(lambda: "orders" not in broker.topics)
        admin.create_topics([NewTopic(name="orders")])
    write(broker, *values)


@pytest.mark.parametrize("values", [[b"n0"], [b"n%d" % number for number in range(9)]], ids=["shorter", "longer"])
def test_a_recreated_source_ends_a_mirror_with_follow(values):
    with Broker() as source, Broker() as target:
        write(source, *SOURCE)
        with FollowingMirror(source, target) as following:
            wait_for(lambda: "orders" in target.topics and values_of(target) == SOURCE)
            recreate(source, *values)
            wait_for(lambda: following.failure is not None)
        assert values_of(target) == SOURCE
        assert "other records" in str(following.failure) or "recreated" in str(following.failure)


def test_a_recreated_source_with_the_same_records_is_followed():
    with Broker() as source, Broker() as target:
        write(source, *SOURCE)
        with FollowingMirror(source, target) as following:
            wait_for(lambda: "orders" in target.topics and values_of(target) == SOURCE)
            recreate(source, *SOURCE, b"s5")
            wait_for(lambda: following.failure is not None or values_of(target) == [*SOURCE, b"s5"])
        assert following.failure is None, following.failure


def test_lost_first_records_of_a_new_partition_are_reported_with_follow():
    with Broker() as source, Broker() as target:
        write(source, *SOURCE)
        with FollowingMirror(source, target, interval_s=1.0) as following:
            wait_for(lambda: "orders" in target.topics and values_of(target) == SOURCE)
            write(source, *SOURCE, topic="later")
            with Admin(source.bootstrap_servers) as admin:
                admin.delete_records({TopicPartition("later", 0): 3})
            wait_for(lambda: "later" in target.topics and len(values_of(target, "later")) >= 2)
        (report,) = [partition for partition in following.report.partitions if partition.topic == "later"]
        assert report.gone == 5 - report.records_written  # 3, unless the mirror saw the topic before they were lost
