"""``serve``: a tiered store, several copies, disks of several brokers get a port; not a byte under them changes."""

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
from tests.storage.copies.cluster import Batch, write_partition

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
LEVELS = ("read_uncommitted", "read_committed")
EARLIEST, LATEST = -2, -1
Row = tuple[int, bytes | None, bytes | None]


def tree(*paths: Path) -> dict[str, str]:
    files = [file for path in paths for file in sorted(path.rglob("*")) if file.is_file()]
    return {f"{file} {file.stat().st_mtime_ns}": hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def stored_rows(broker: Broker, topic: str) -> dict[int, list[Row]]:
    """Everything that the broker has of a topic, by partition."""
    numbers = range(broker.topics[topic].partitions)
    rows = {number: broker.records(topic, number) for number in numbers}
    return {
        number: [(record.offset, record.key, record.value) for record in records]
        for number, records in rows.items()
        if records
    }


def consume_rows(broker: Broker, topic: str, isolation: str = "read_committed") -> list[Row]:
    """Everything that a consumer gets of the first partition."""
    rows_so_far: list[Row] = []
    one = TopicPartition(topic, 0)
    end = offset_at(broker, topic, LATEST, isolation_level=LEVELS.index(isolation))
    with Consumer(broker.bootstrap_servers, isolation_level=isolation) as consumer:
        consumer.assign([one])
        consumer.seek_to_beginning(one)
        while consumer.position(one) < end:
            rows_so_far += [(row.offset, row.key, row.value) for row in consumer.poll(2_000)]
    return rows_so_far


def read(paths: list[Path], topic: str, **options: object) -> dict[int, list[Row]]:
    """The same, of the files."""
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


def write_out_store(paths: list[Path], options: dict[str, tuple[str, ...]], to: Path) -> Path:
    """The segments of a store as a plain log directory."""
    for directory in discover(list(map(str, paths)), options=options):
        for partition in directory.partitions:
            folder = to / str(partition.topic_partition)
            for segment in partition.segments:
                folder.mkdir(parents=True, exist_ok=True)
                name = name_segment_file(segment.base_offset, "log")
                (folder / name).write_bytes(directory.filesystem.read(segment.path))
    return to


@pytest.mark.parametrize("case", ["diverged", "settings-changed"])
def test_a_tiered_store_of_a_real_broker_is_served_from_its_objects(case):
    store, keys = TIERED / case / "store", tuple(map(str, (TIERED / case).glob("*.private.pem")))
    before = tree(TIERED / case)
    with Broker(serve=ServedLogs(store, storage={"key_files": keys})) as served_broker:
        assert served_broker.topics
        for topic in served_broker.topics:
            rows = read([store], topic, key_files=keys)
            assert rows
            assert stored_rows(served_broker, topic) == rows
    assert tree(TIERED / case) == before


@pytest.mark.parametrize("case", [case for case in CASES if "zstd" not in case])
def test_what_is_only_remote_and_what_is_only_local_are_one_log(case):
    places = [TIERED / case / "local", TIERED / case / "store"]
    keys = tuple(map(str, (TIERED / case).glob("*.private.pem")))
    before = tree(TIERED / case)
    with Broker(serve=ServedLogs(places, storage={"key_files": keys})) as served_broker:
        for topic in served_broker.topics:
            rows = read(places, topic, key_files=keys)
            assert stored_rows(served_broker, topic) == rows
            if 0 in rows:
                assert offset_at(served_broker, topic, EARLIEST) == rows[0][0][0]
                assert offset_at(served_broker, topic, LATEST) == served_broker.topics[topic].end_offsets[0]
    assert tree(TIERED / case) == before


def test_transactions_of_a_tiered_store_are_read_as_those_of_a_directory(tmp_path):
    case = TIERED / "zstd-encrypted-transactions"
    options = {"key_files": tuple(map(str, case.glob("*.private.pem")))}
    plain = write_out_store([case / "store"], options, tmp_path / "plain")
    with Broker(serve=ServedLogs(case / "store", storage=options)) as served_broker, Broker(serve=plain) as twin:
        committed_rows = consume_rows(served_broker, "payments")
        assert committed_rows == consume_rows(twin, "payments")
        everything = stored_rows(served_broker, "payments")[0]
        assert 0 < len(committed_rows) < len(everything)
        old = [offset for _, offset in fetch_old_format(served_broker, "payments", 0, everything[0][0])]
        assert old == [row[0] for row in everything]


def test_a_partition_that_cannot_be_read_is_told_and_the_others_are_served(tmp_path):
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
        rows = read([case / "store"], "payments", **options)[1]
        assert [(one.offset, one.key, one.value) for one in served_broker.records("payments", 1)] == rows


def test_a_size_that_no_batch_has_is_told_as_kafka_does(tmp_path):
    """A size below a message's is CORRUPT_MESSAGE; one beyond the file's end is the end of the segment: the next one
    answers (FileLogInputStream, LocalLog.read).
    """
    log = [bytearray(Batch(f"b{base}", base, 1, 0).raw()) for base in range(4)]
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


def test_a_consumer_is_told_of_bytes_that_cannot_be_read_and_does_not_ask_for_ever(tmp_path):
    log = [bytearray(Batch(f"b{base}", base, 1, 0).raw()) for base in range(2)]
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


def test_what_a_recovery_drops_is_told(tmp_path):
    log = [bytearray(Batch(f"b{base}", base, 1, 0).raw()) for base in range(3)]
    log[1][8:12] = b"\xff" * 4
    write_partition(tmp_path, {0: b"".join(log)}, epochs=[(0, 0)], high_watermark=3)
    with Broker(serve=tmp_path) as served_broker:
        lost_size, at = len(log[1]) + len(log[2]), len(log[0])
        (remark,) = served_broker.remarks
        assert f"error: orders-0: {lost_size} bytes are not served, from byte {at} of {tmp_path}" in remark
        assert [row[0] for row in stored_rows(served_broker, "orders")[0]] == [0]


def test_a_log_that_ends_with_the_largest_offset_is_not_served_and_told(tmp_path):
    """Its end offset would be 2^63, which is not an offset."""
    last = (2**63 - 1).to_bytes(8, "big") + Batch("last", 0, 1, 0).raw()[8:]
    write_partition(tmp_path, {0: last}, epochs=[(0, 0)], high_watermark=1)
    write_partition(tmp_path, {0: Batch("b", 0, 1, 0).raw()}, epochs=[(0, 0)], high_watermark=1, name="other-0")
    with Broker(serve=tmp_path) as served_broker:
        assert "the largest possible offset" in served_broker.remarks[0]
        assert [row[0] for row in stored_rows(served_broker, "other")[0]] == [0]


@pytest.mark.parametrize("base", [5, 2**63 - 1])
def test_a_segment_under_another_name_is_not_served_and_told_and_nothing_is_changed(tmp_path, base):
    """After a clean stop no file needs a check; a segment that is found nevertheless is not written to."""
    with Broker(data_dir=tmp_path) as owner:
        owner.create_topic("orders")
        with Producer(owner.bootstrap_servers) as producer:
            producer.send("orders", b"v", partition=0).result()
    for file in (tmp_path / "orders-0").glob(f"{0:020}.*"):
        file.rename(file.with_name(name_segment_file(base, file.suffix[1:])))
    before = tree(tmp_path / "orders-0")
    with Broker(serve=tmp_path) as served_broker:
        (remark,) = served_broker.remarks
        assert remark.startswith("error: not served: its last record has offset 0, which is below ")
        assert f"{base:020}.log" in remark
    with pytest.raises(LogDirError, match="below"):
        Broker(data_dir=tmp_path).start()
    assert tree(tmp_path / "orders-0") == before


@pytest.mark.parametrize("name", ["meta.properties", METADATA_FILE_NAME])
def test_who_owns_a_directory_cannot_be_read_and_its_logs_are_served(tmp_path, name):
    with Broker(data_dir=tmp_path) as owner, Producer(owner.bootstrap_servers) as producer:
        producer.send("orders", b"v", partition=0).result()
    (tmp_path / name).write_bytes(b"\xff\x00 noise")
    before = tree(tmp_path)
    with Broker(serve=tmp_path) as served_broker:
        (remark,) = served_broker.remarks
        assert remark.startswith("warning: not served: ")
        assert str(tmp_path / name) in remark
        assert not served_broker.losses
        assert [row[0] for row in consume_rows(served_broker, "orders")] == [0]
    assert tree(tmp_path) == before
    with pytest.raises(LogDirError):  # a writer has to know the owner
        Broker(data_dir=tmp_path).start()


@pytest.fixture
def copies(tmp_path):
    """Two brokers' copies of ``orders-0``: one lags, in the other a batch is damaged; and a topic of one alone."""
    log = [Batch(f"b{base}", base, 20, 0) for base in range(0, 200, 20)]
    raw = [one.raw() for one in log]
    damaged_copy = bytearray(b"".join(raw))
    damaged_copy[len(raw[0]) + 200] ^= 0xFF
    write_partition(tmp_path / "one", {0: b"".join(raw[:7])}, epochs=[(0, 0)], high_watermark=140)
    write_partition(tmp_path / "two", {0: bytes(damaged_copy)}, epochs=[(0, 0)], high_watermark=200)
    write_partition(tmp_path / "two", {0: raw[0]}, epochs=[(0, 0)], name="alone-0")
    return [tmp_path / "one", tmp_path / "two"]


def test_several_copies_are_served_as_one_log(copies):
    before = tree(*copies)
    with Broker(serve=copies) as served_broker:
        assert list(served_broker.topics) == ["alone", "orders"]
        rows = read(copies, "orders")[0]
        assert [row[0] for row in rows] == list(range(200))
        assert stored_rows(served_broker, "orders") == {0: rows}
        assert consume_rows(served_broker, "orders") == rows
        assert [magic for magic, _ in fetch_old_format(served_broker, "orders", 0, 0)] == [0] * 200
        assert [magic for magic, _ in fetch_old_format(served_broker, "orders", 2, 0)] == [1] * 200
        assert offset_at(served_broker, "orders", 1_700_000_000_150) == 150
        assert any("taken-from-copy" in line for line in served_broker.remarks)
        assert not served_broker.topics["orders"].configs
    assert tree(*copies) == before


def test_copies_that_are_not_to_be_merged_are_refused(copies):
    with pytest.raises(OptionError, match="orders-0 has several copies"):
        Broker(serve=ServedLogs(copies, replicas="all")).start()
    with Broker(serve=ServedLogs(copies[1], replicas="all")) as served_broker:
        assert served_broker.topics["orders"].end_offsets[0] > 0


def test_one_partitions_directory_is_served_alone(copies):
    with Broker(serve=copies[1] / "alone-0") as served_broker:
        assert stored_rows(served_broker, "alone").keys() == {0}
        assert "orders" not in served_broker.topics


def test_what_is_no_log_directory_is_refused_by_name(tmp_path):
    with pytest.raises(LogDirError, match="no such file or directory"):
        Broker(serve=tmp_path / "nothing").start()
    with pytest.raises(LogDirError, match="contains no Kafka log directory"):
        Broker(serve=tmp_path).start()


def test_groups_and_transactions_of_copies_are_those_of_the_brokers(tmp_path):
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
    for partition in discover(str(first))[0].partitions:  # a follower that lags in its topic of records
        folder = second / str(partition.topic_partition)
        folder.mkdir(parents=True)
        for file in Path(partition.directory).iterdir():
            if partition.topic != "orders" or file.suffix not in (".index", ".timeindex", ".txnindex", ".snapshot"):
                (folder / file.name).write_bytes(file.read_bytes())
    segment = second / "orders-0" / name_segment_file(0, "log")
    segment.write_bytes(segment.read_bytes()[:200])
    before = tree(first, second)
    with Broker(serve=[second, first]) as served_broker:
        assert [row[2] for row in expected_rows] == [b"kept", b"kept too"]
        assert consume_rows(served_broker, "orders") == expected_rows
        assert served_broker.groups["readers"].offsets == {TopicPartition("orders", 0): 3}
        assert list(served_broker.transactions) == ["t"]
        with Consumer(served_broker.bootstrap_servers, group_id="readers", enable_auto_commit=False) as consumer:
            consumer.commit({TopicPartition("orders", 0): 5})
            assert consumer.committed([TopicPartition("orders", 0)])[TopicPartition("orders", 0)].offset == 5
    assert tree(first, second) == before


def test_the_markers_of_decided_transactions_stay_over_a_restart_of_a_served_broker(tmp_path):
    """The broker of the directory was killed between its decision to commit and the markers."""
    partition = TopicPartition("orders", 0)

    def refuse_markers(state: BrokerState) -> None:
        def write_marker(*_: object, **__: object) -> None:
            raise StorageError("the disk takes no markers")

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
    before = tree(tmp_path)
    with Broker(serve=tmp_path) as served_broker:
        for _ in range(3):
            assert served_broker.groups["readers"].offsets == {partition: 7}
            assert [row[2] for row in consume_rows(served_broker, "orders")] == [b"x"]
            served_broker.kill()
            served_broker.restart()
        with Consumer(served_broker.bootstrap_servers, group_id="readers", enable_auto_commit=False) as consumer:
            consumer.commit({partition: 8})
        served_broker.restart()
        assert served_broker.groups["readers"].offsets == {
            partition: 8
        }  # the marker does not bring the older offset back
    assert tree(tmp_path) == before


def test_a_served_broker_takes_no_new_transactions(copies):
    fields = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0, "group_id": "readers"}
    types = message("TxnOffsetCommitRequest")
    row = types.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topics = [types.TxnOffsetCommitRequestTopic(name="orders", partitions=[row])]
    added_topic = message("AddPartitionsToTxnRequest").AddPartitionsToTxnTopic(name="orders", partitions=[0])
    names = {f"v3_and_below_{name}": fields[name] for name in ("transactional_id", "producer_id", "producer_epoch")}
    with Broker(serve=copies) as served_broker:
        assert ask(served_broker.port, "AddOffsetsToTxn", 3, **fields).error_code == ErrorCode.POLICY_VIOLATION
        answer = ask(
            served_broker.port, "TxnOffsetCommit", 3, topics=topics, generation_id_or_member_epoch=-1, **fields
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.POLICY_VIOLATION
        answer = ask(served_broker.port, "AddPartitionsToTxn", 3, v3_and_below_topics=[added_topic], **names)
        (topic,) = answer.results_by_topic_v3_and_below
        assert topic.results_by_partition[0].partition_error_code == ErrorCode.POLICY_VIOLATION


def test_a_directory_that_was_not_stopped_cleanly_is_recovered_beside_others(copies, tmp_path):
    torn = tmp_path / "three" / "torn-0"
    torn.mkdir(parents=True)
    whole = Batch("t", 0, 5, 0).raw()
    (torn / name_segment_file(0, "log")).write_bytes(whole + whole[:40])
    before = tree(*copies, torn)
    with Broker(serve=[*copies, tmp_path / "three"]) as served_broker:
        assert served_broker.topics["torn"].end_offsets == (5,)
        assert len(stored_rows(served_broker, "torn")[0]) == 5
    assert tree(*copies, torn) == before


def test_the_command_serves_copies_and_says_what_was_decided(copies):
    arguments = [word for path in copies for word in ("--serve", str(path))]
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0", *arguments, "--key-file", "none.pem"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        port = int(re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", process.stderr.readline())[1])
        assert {topic.name for topic in ask(port, "Metadata", 1, topics=None).topics} == {"alone", "orders"}
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(60) == 0
    assert f"serving {copies[0]}, {copies[1]}: read-only" in rest
    assert "warning: taken-from-copy: orders-0" in rest


def test_an_old_consumer_gets_past_what_its_format_has_nothing_of():
    with Broker() as broker:
        broker.create_topic("orders")
        with Producer(broker.bootstrap_servers, transactional_id="t") as producer:
            for value in (b"1", b"2"):
                producer.begin_transaction()
                producer.send("orders", value=value)
                producer.commit_transaction()
        assert list(fetch_old_format(broker, "orders", 0, 1, max_bytes=80)) == [
            (0, 2)
        ]  # the marker is all that 80 bytes hold
        assert list(fetch_old_format(broker, "orders", 2, 3)) == []


def test_what_is_served_starts_again_as_it_was(copies):
    async def main() -> None:
        async with Broker(serve=copies) as served_broker:
            assert served_broker.topics["orders"].end_offsets == (200,)

    asyncio.run(main())
    with Broker(serve=copies) as served_broker:
        served_broker.restart()
        assert served_broker.topics["orders"].end_offsets == (200,)
