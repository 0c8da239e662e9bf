"""``serve``: a read-only broker over a tiered store, several copies or disks of several brokers, which it never
changes.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.test_handle import ask
from tests.storage.copies.cluster import NamedBatch, write_partition

import kafkaframes
from kafkaframes.broker import Broker, ServedLogs
from kafkaframes.broker.state.metadata_file import METADATA_FILE_NAME
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.client import Consumer, Producer
from kafkaframes.errors import BrokerError, ErrorCode, LogDirError, OptionError, StorageError
from kafkaframes.protocol.messages import message
from kafkaframes.records.batch import read_batches
from kafkaframes.storage.files.names import TopicPartition, name_segment_file
from kafkaframes.storage.log.discover import discover

TIERED = Path(__file__).parents[1] / "data" / "tiered"
CASES = sorted(path.name for path in TIERED.iterdir() if path.is_dir())
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
EARLIEST, LATEST = -2, -1
Row = tuple[int, bytes | None, bytes | None]


def read_tree(*paths: Path) -> dict[str, str]:
    files = [file for path in paths for file in sorted(path.rglob("*")) if file.is_file()]
    return {f"{file} {file.stat().st_mtime_ns}": hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def stored_rows(broker: Broker, topic: str) -> dict[int, list[Row]]:
    """Return the rows of a topic in the broker, by partition."""
    numbers = range(broker.topics[topic].partitions)
    rows = {number: broker.records(topic, number) for number in numbers}
    return {
        number: [(record.offset, record.key, record.value) for record in records]
        for number, records in rows.items()
        if records
    }


def consume_rows(broker: Broker, topic: str, isolation: str = "read_committed") -> list[Row]:
    """Return the rows of the first partition that a consumer receives."""
    rows_so_far: list[Row] = []
    one = TopicPartition(topic, 0)
    end = offset_at(broker, topic, LATEST, isolation_level=ISOLATION_LEVELS.index(isolation))
    with Consumer(broker.bootstrap_servers, isolation_level=isolation) as consumer:
        consumer.assign([one])
        consumer.seek_to_beginning(one)
        while consumer.position(one) < end:
            rows_so_far += [(row.offset, row.key, row.value) for row in consumer.poll(2_000)]
    return rows_so_far


def read_with_scan(paths: list[Path], topic: str, **options: object) -> dict[int, list[Row]]:
    """Return the same rows, read from the broker's log files."""
    rows_by_partition: dict[int, list[Row]] = {}
    columns = ["partition", "offset", "key", "value"]
    for batch in kafkaframes.read_records(
        list(map(str, paths)), columns=columns, topics=[topic], control_records=False, **options
    ):
        for partition, *row in zip(*(batch[name].to_pylist() for name in columns), strict=True):
            rows_by_partition.setdefault(partition, []).append(tuple(row))
    return rows_by_partition


def fetch_old_format(
    broker: Broker, topic: str, version: int, offset: int, max_bytes: int = 100_000
) -> Iterator[tuple[int, int]]:
    """Fetch a partition to its end with an old version; yield (format, offset) of each record."""
    types = message("FetchRequest")
    while True:
        row = types.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
        answer = ask(broker.port, "Fetch", version, topics=[types.FetchTopic(topic=topic, partitions=[row])])
        raw = answer.responses[0].partitions[0].records
        records = [(batch.magic, record.offset) for batch in read_batches(raw or b"") for record in batch.records]
        if not records:
            return
        yield from (record for record in records if record[1] >= offset)
        offset = records[-1][1] + 1


def offset_at(broker: Broker, topic: str, timestamp: int, **fields: int) -> int:
    types = message("ListOffsetsRequest")
    row = types.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [types.ListOffsetsTopic(name=topic, partitions=[row])]
    return ask(broker.port, "ListOffsets", 2, replica_id=-1, topics=topics, **fields).topics[0].partitions[0].offset


def copy_store_to_directory(paths: list[Path], options: dict[str, tuple[str, ...]], to: Path) -> Path:
    """Copy the segments of a store to a plain log directory."""
    for directory in discover(list(map(str, paths)), options=options):
        for partition in directory.partitions:
            folder = to / str(partition.topic_partition)
            for segment in partition.segments:
                folder.mkdir(parents=True, exist_ok=True)
                name = name_segment_file(segment.base_offset, "log")
                (folder / name).write_bytes(directory.filesystem.read(segment.path))
    return to


@pytest.mark.parametrize("case", ["diverged", "settings-changed"])
def test_a_real_brokers_tiered_store_is_served_from_its_objects(case):
    store, keys = TIERED / case / "store", tuple(map(str, (TIERED / case).glob("*.private.pem")))
    before = read_tree(TIERED / case)
    with Broker(serve=ServedLogs(store, storage={"key_files": keys})) as served_broker:
        assert served_broker.topics
        for topic in served_broker.topics:
            rows = read_with_scan([store], topic, key_files=keys)
            assert rows
            assert stored_rows(served_broker, topic) == rows
    assert read_tree(TIERED / case) == before


@pytest.mark.parametrize("case", [case for case in CASES if "zstd" not in case])
def test_remote_and_local_segments_are_served_as_one_log(case):
    places = [TIERED / case / "local", TIERED / case / "store"]
    keys = tuple(map(str, (TIERED / case).glob("*.private.pem")))
    before = read_tree(TIERED / case)
    with Broker(serve=ServedLogs(places, storage={"key_files": keys})) as served_broker:
        for topic in served_broker.topics:
            rows = read_with_scan(places, topic, key_files=keys)
            assert stored_rows(served_broker, topic) == rows
            if 0 in rows:
                assert offset_at(served_broker, topic, EARLIEST) == rows[0][0][0]
                assert offset_at(served_broker, topic, LATEST) == served_broker.topics[topic].end_offsets[0]
    assert read_tree(TIERED / case) == before


def test_transactions_of_a_tiered_store_are_read_as_from_a_directory(tmp_path):
    case = TIERED / "zstd-encrypted-transactions"
    options = {"key_files": tuple(map(str, case.glob("*.private.pem")))}
    plain = copy_store_to_directory([case / "store"], options, tmp_path / "plain")
    with Broker(serve=ServedLogs(case / "store", storage=options)) as served_broker, Broker(serve=plain) as twin:
        committed_rows = consume_rows(served_broker, "payments")
        assert committed_rows == consume_rows(twin, "payments")
        everything = stored_rows(served_broker, "payments")[0]
        assert 0 < len(committed_rows) < len(everything)
        old = [offset for _, offset in fetch_old_format(served_broker, "payments", 0, everything[0][0])]
        assert old == [row[0] for row in everything]


def test_an_unreadable_partition_is_reported_and_the_others_are_served(tmp_path):
    case = TIERED / "zstd-encrypted-transactions"
    shutil.copytree(case / "store", tmp_path / "store")
    last = max(tmp_path.glob("store/*/0/*.log"))
    last.write_bytes(b"!" + last.read_bytes()[1:])
    options = {"key_files": tuple(map(str, case.glob("*.private.pem")))}
    with Broker(serve=ServedLogs(tmp_path / "store", storage=options)) as served_broker:
        (remark,) = served_broker.remarks
        assert remark.startswith("error: not served: chunk 0 of 1 cannot be ")
        assert str(last) in remark
        (topic,) = ask(served_broker.port, "Metadata", 1, topics=None).topics
        assert [(row.partition_index, row.leader_id) for row in topic.partitions] == [(0, -1), (1, 1)]
        rows = read_with_scan([case / "store"], "payments", **options)[1]
        assert [(record.offset, record.key, record.value) for record in served_broker.records("payments", 1)] == rows


def test_an_invalid_batch_size_is_answered_as_in_kafka(tmp_path):
    """A size below the minimum is CORRUPT_MESSAGE. A size beyond the end of the file ends the segment, and the read
    continues in the next one (FileLogInputStream, LocalLog.read).
    """
    log = [bytearray(NamedBatch(f"b{base}", base, 1, 0).raw()) for base in range(4)]
    for size, expected_answer in ((5, (ErrorCode.CORRUPT_MESSAGE, None)), (10_000, (0, 2))):
        log[1][8:12] = size.to_bytes(4, "big")
        directory = tmp_path / str(size)
        write_partition(directory, {0: b"".join(log[:2]), 2: b"".join(log[2:])}, epochs=[(0, 0)], high_watermark=4)
        for base in (0, 2):
            for kind in ("index", "timeindex"):
                (directory / "orders-0" / name_segment_file(base, kind)).write_bytes(b"")
        (directory / ".kafka_cleanshutdown").write_bytes(b"")
        with Broker(serve=directory) as served_broker:
            types = message("FetchRequest")
            row = types.FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=100_000)
            answer = ask(served_broker.port, "Fetch", 4, topics=[types.FetchTopic(topic="orders", partitions=[row])])
            partition = answer.responses[0].partitions[0]
            first = int.from_bytes(partition.records[:8], "big") if partition.records else None
            assert (partition.error_code, first) == expected_answer


def test_a_consumer_gets_an_error_for_unreadable_bytes_instead_of_retrying_forever(tmp_path):
    log = [bytearray(NamedBatch(f"b{base}", base, 1, 0).raw()) for base in range(2)]
    log[0][8:12] = (5).to_bytes(4, "big")
    write_partition(tmp_path, {0: b"".join(log[:1]), 1: b"".join(log[1:])}, epochs=[(0, 0)], high_watermark=2)
    for base in (0, 1):
        for kind in ("index", "timeindex"):
            (tmp_path / "orders-0" / name_segment_file(base, kind)).write_bytes(b"")
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b"")
    with Broker(serve=tmp_path) as served_broker, Consumer(served_broker.bootstrap_servers) as consumer:
        consumer.assign({TopicPartition("orders", 0): 0})
        with pytest.raises(BrokerError, match="fetch of orders-0 from offset 0: CORRUPT_MESSAGE"):
            consumer.poll(30_000)


def test_dropped_bytes_of_a_recovery_are_reported(tmp_path):
    log = [bytearray(NamedBatch(f"b{base}", base, 1, 0).raw()) for base in range(3)]
    log[1][8:12] = b"\xff" * 4
    write_partition(tmp_path, {0: b"".join(log)}, epochs=[(0, 0)], high_watermark=3)
    with Broker(serve=tmp_path) as served_broker:
        lost_size, position = len(log[1]) + len(log[2]), len(log[0])
        (remark,) = served_broker.remarks
        assert f"error: orders-0: {lost_size} bytes are not served, from byte {position} of {tmp_path}" in remark
        assert [row[0] for row in stored_rows(served_broker, "orders")[0]] == [0]


def test_a_log_that_ends_with_the_largest_offset_is_reported_and_not_served(tmp_path):
    """The end offset of such a log would be 2^63, which is not an offset."""
    last = (2**63 - 1).to_bytes(8, "big") + NamedBatch("last", 0, 1, 0).raw()[8:]
    write_partition(tmp_path, {0: last}, epochs=[(0, 0)], high_watermark=1)
    write_partition(tmp_path, {0: NamedBatch("b", 0, 1, 0).raw()}, epochs=[(0, 0)], high_watermark=1, name="other-0")
    with Broker(serve=tmp_path) as served_broker:
        assert "the largest possible offset" in served_broker.remarks[0]
        assert [row[0] for row in stored_rows(served_broker, "other")[0]] == [0]


@pytest.mark.parametrize("base", [5, 2**63 - 1])
def test_a_segment_with_a_wrong_base_offset_is_reported_and_neither_served_nor_changed(tmp_path, base):
    """After a clean stop, segments are not recovered. Such a segment is not changed even if it is recovered."""
    with Broker(data_dir=tmp_path) as owner:
        owner.create_topic("orders")
        with Producer(owner.bootstrap_servers) as producer:
            producer.send("orders", b"v", partition=0).result()
    for file in (tmp_path / "orders-0").glob(f"{0:020}.*"):
        file.rename(file.with_name(name_segment_file(base, file.suffix[1:])))
    before = read_tree(tmp_path / "orders-0")
    with Broker(serve=tmp_path) as served_broker:
        (remark,) = served_broker.remarks
        assert remark.startswith("error: not served: its last record has offset 0, which is below ")
        assert f"{base:020}.log" in remark
    with pytest.raises(LogDirError, match="below"):
        Broker(data_dir=tmp_path).start()
    assert read_tree(tmp_path / "orders-0") == before


@pytest.mark.parametrize("name", ["meta.properties", METADATA_FILE_NAME])
def test_logs_are_served_even_if_the_owner_of_the_directory_is_unreadable(tmp_path, name):
    with Broker(data_dir=tmp_path) as owner, Producer(owner.bootstrap_servers) as producer:
        producer.send("orders", b"v", partition=0).result()
    (tmp_path / name).write_bytes(b"\xff\x00 noise")
    before = read_tree(tmp_path)
    with Broker(serve=tmp_path) as served_broker:
        (remark,) = served_broker.remarks
        assert remark.startswith("warning: not served: ")
        assert str(tmp_path / name) in remark
        assert not served_broker.losses
        assert [row[0] for row in consume_rows(served_broker, "orders")] == [0]
    assert read_tree(tmp_path) == before
    with pytest.raises(LogDirError):  # a broker that writes must know the owner
        Broker(data_dir=tmp_path).start()


@pytest.fixture
def two_copies(tmp_path):
    """Return two brokers' copies of ``orders-0``: one lags, the other has a damaged batch.

    One broker has another topic.
    """
    log = [NamedBatch(f"b{base}", base, 20, 0) for base in range(0, 200, 20)]
    raw = [one.raw() for one in log]
    damaged_copy = bytearray(b"".join(raw))
    damaged_copy[len(raw[0]) + 200] ^= 0xFF
    write_partition(tmp_path / "one", {0: b"".join(raw[:7])}, epochs=[(0, 0)], high_watermark=140)
    write_partition(tmp_path / "two", {0: bytes(damaged_copy)}, epochs=[(0, 0)], high_watermark=200)
    write_partition(tmp_path / "two", {0: raw[0]}, epochs=[(0, 0)], name="alone-0")
    return [tmp_path / "one", tmp_path / "two"]


def test_several_copies_are_served_as_one_log(two_copies):
    before = read_tree(*two_copies)
    with Broker(serve=two_copies) as served_broker:
        assert list(served_broker.topics) == ["alone", "orders"]
        rows = read_with_scan(two_copies, "orders")[0]
        assert [row[0] for row in rows] == list(range(200))
        assert stored_rows(served_broker, "orders") == {0: rows}
        assert consume_rows(served_broker, "orders") == rows
        assert [magic for magic, _ in fetch_old_format(served_broker, "orders", 0, 0)] == [0] * 200
        assert [magic for magic, _ in fetch_old_format(served_broker, "orders", 2, 0)] == [1] * 200
        assert offset_at(served_broker, "orders", 1_700_000_000_150) == 150
        assert any("taken-from-copy" in line for line in served_broker.remarks)
        assert not served_broker.topics["orders"].configs
    assert read_tree(*two_copies) == before


def test_several_copies_are_rejected_without_merging(two_copies):
    with pytest.raises(OptionError, match="orders-0 has several copies"):
        Broker(serve=ServedLogs(two_copies, replicas="all")).start()
    with Broker(serve=ServedLogs(two_copies[1], replicas="all")) as served_broker:
        assert served_broker.topics["orders"].end_offsets[0] > 0


def test_one_partitions_directory_is_served_alone(two_copies):
    with Broker(serve=two_copies[1] / "alone-0") as served_broker:
        assert stored_rows(served_broker, "alone").keys() == {0}
        assert "orders" not in served_broker.topics


def test_a_path_without_a_log_directory_is_rejected_by_name(tmp_path):
    with pytest.raises(LogDirError, match="no such file or directory"):
        Broker(serve=tmp_path / "nothing").start()
    with pytest.raises(LogDirError, match="contains no Kafka log directory"):
        Broker(serve=tmp_path).start()


def test_groups_and_transactions_are_read_from_merged_copies(tmp_path):
    """Committed offsets, producers and aborted transactions are read from the merged internal topics."""
    first = tmp_path / "first"
    with Broker(data_dir=first) as broker:
        broker.create_topic("orders", partitions=1)
        with Producer(broker.bootstrap_servers, transactional_id="t") as producer:
            for value in (b"kept", b"dropped", b"kept too"):
                producer.begin_transaction()
                producer.send("orders", value=value)
                producer.flush()
                producer.abort_transaction() if value == b"dropped" else producer.commit_transaction()
        with Consumer(broker.bootstrap_servers, group_id="readers", enable_auto_commit=False) as consumer:
            consumer.commit({TopicPartition("orders", 0): 3})
        expected_rows = consume_rows(broker, "orders")
    second = tmp_path / "second"
    for partition in discover(str(first))[0].partitions:  # a follower whose copy of the topic lags
        folder = second / str(partition.topic_partition)
        folder.mkdir(parents=True)
        for file in Path(partition.directory).iterdir():
            if partition.topic != "orders" or file.suffix not in (".index", ".timeindex", ".txnindex", ".snapshot"):
                (folder / file.name).write_bytes(file.read_bytes())
    segment = second / "orders-0" / name_segment_file(0, "log")
    segment.write_bytes(segment.read_bytes()[:200])
    before = read_tree(first, second)
    with Broker(serve=[second, first]) as served_broker:
        assert [row[2] for row in expected_rows] == [b"kept", b"kept too"]
        assert consume_rows(served_broker, "orders") == expected_rows
        assert served_broker.groups["readers"].offsets == {TopicPartition("orders", 0): 3}
        assert list(served_broker.transactions) == ["t"]
        with Consumer(served_broker.bootstrap_servers, group_id="readers", enable_auto_commit=False) as consumer:
            consumer.commit({TopicPartition("orders", 0): 5})
            assert consumer.committed([TopicPartition("orders", 0)])[TopicPartition("orders", 0)].offset == 5
    assert read_tree(first, second) == before


def test_markers_of_decided_transactions_are_kept_when_a_served_broker_restarts(tmp_path):
    """The directory's broker was killed between its decision to commit and writing the markers."""
    partition = TopicPartition("orders", 0)

    def refuse_markers(state: BrokerState) -> None:
        def write_marker(*_: object, **__: object) -> None:
            raise StorageError("the disk rejects markers")

        state.transactions.write_marker = write_marker

    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("orders", partitions=1)
        with Consumer(broker.bootstrap_servers, group_id="readers", enable_auto_commit=False) as consumer:
            consumer.commit({partition: 1})
        broker.call(refuse_markers)
        with Producer(broker.bootstrap_servers, transactional_id="t") as producer:
            producer.begin_transaction()
            producer.send("orders", value=b"x")
            producer.send_offsets_to_transaction({partition: 7}, "readers")
            producer.commit_transaction()
        broker.kill()
    before = read_tree(tmp_path)
    with Broker(serve=tmp_path) as served_broker:
        for _ in range(3):
            assert served_broker.groups["readers"].offsets == {partition: 7}
            assert [row[2] for row in consume_rows(served_broker, "orders")] == [b"x"]
            served_broker.kill()
            served_broker.restart()
        with Consumer(served_broker.bootstrap_servers, group_id="readers", enable_auto_commit=False) as consumer:
            consumer.commit({partition: 8})
        served_broker.restart()
        assert served_broker.groups["readers"].offsets == {partition: 8}  # the marker does not restore the older offset
    assert read_tree(tmp_path) == before


def test_a_served_broker_rejects_new_transactions(two_copies):
    fields = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0, "group_id": "readers"}
    types = message("TxnOffsetCommitRequest")
    row = types.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topics = [types.TxnOffsetCommitRequestTopic(name="orders", partitions=[row])]
    added_topic = message("AddPartitionsToTxnRequest").AddPartitionsToTxnTopic(name="orders", partitions=[0])
    names = {f"v3_and_below_{name}": fields[name] for name in ("transactional_id", "producer_id", "producer_epoch")}
    with Broker(serve=two_copies) as served_broker:
        assert ask(served_broker.port, "AddOffsetsToTxn", 3, **fields).error_code == ErrorCode.POLICY_VIOLATION
        answer = ask(
            served_broker.port, "TxnOffsetCommit", 3, topics=topics, generation_id_or_member_epoch=-1, **fields
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.POLICY_VIOLATION
        answer = ask(served_broker.port, "AddPartitionsToTxn", 3, v3_and_below_topics=[added_topic], **names)
        (topic,) = answer.results_by_topic_v3_and_below
        assert topic.results_by_partition[0].partition_error_code == ErrorCode.POLICY_VIOLATION


def test_an_uncleanly_stopped_directory_is_recovered_next_to_others(two_copies, tmp_path):
    torn = tmp_path / "three" / "torn-0"
    torn.mkdir(parents=True)
    whole = NamedBatch("t", 0, 5, 0).raw()
    (torn / name_segment_file(0, "log")).write_bytes(whole + whole[:40])
    before = read_tree(*two_copies, torn)
    with Broker(serve=[*two_copies, tmp_path / "three"]) as served_broker:
        assert served_broker.topics["torn"].end_offsets == (5,)
        assert len(stored_rows(served_broker, "torn")[0]) == 5
    assert read_tree(*two_copies, torn) == before


def test_the_command_serves_copies_and_prints_the_decisions(two_copies):
    arguments = [word for path in two_copies for word in ("--serve", str(path))]
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0", *arguments, "--key-file", "none.pem"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        port = int(re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", process.stderr.readline())[1])
        assert {topic.name for topic in ask(port, "Metadata", 1, topics=None).topics} == {"alone", "orders"}
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(60) == 0
    assert f"serving {two_copies[0]}, {two_copies[1]}: read-only" in rest
    assert "warning: taken-from-copy: orders-0" in rest


def test_an_old_consumer_skips_batches_that_its_format_cannot_represent():
    with Broker() as broker:
        broker.create_topic("orders")
        with Producer(broker.bootstrap_servers, transactional_id="t") as producer:
            for value in (b"1", b"2"):
                producer.begin_transaction()
                producer.send("orders", value=value)
                producer.commit_transaction()
        assert list(fetch_old_format(broker, "orders", 0, 1, max_bytes=80)) == [(0, 2)]  # 80 bytes hold only the marker
        assert list(fetch_old_format(broker, "orders", 2, 3)) == []


def test_a_served_broker_can_be_restarted(two_copies):
    async def main() -> None:
        async with Broker(serve=two_copies) as served_broker:
            assert served_broker.topics["orders"].end_offsets == (200,)

    asyncio.run(main())
    with Broker(serve=two_copies) as served_broker:
        served_broker.restart()
        assert served_broker.topics["orders"].end_offsets == (200,)
