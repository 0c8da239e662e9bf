"""Producer, consumer and admin with the embedded broker."""

import asyncio
import socket
import struct
import threading
import time
from contextlib import suppress

import pyarrow as pa
import pytest
from tests.waiting import wait_for

from kafkaframes.broker import Broker
from kafkaframes.client import (
    EARLIEST,
    Admin,
    AsyncConsumer,
    AsyncProducer,
    CommittedOffset,
    Consumer,
    NewTopic,
    Producer,
    TopicPartition,
    shared_transaction,
)
from kafkaframes.client.network import Connection
from kafkaframes.client.settings import ClientSettings
from kafkaframes.client.shared_transaction import SequencedBatches
from kafkaframes.errors import BrokerError, NetworkError, OptionError, UnsupportedFormatError
from kafkaframes.protocol.spec import catalog, releases
from kafkaframes.records.build import build_separate_batches
from kafkaframes.records.limits import limit_budget
from kafkaframes.records.partitioner import partition_of

RECORDS_TABLE = pa.table({"key": [f"k{n % 50}" for n in range(1000)], "value": [f"v{n}" for n in range(1000)]})


@pytest.fixture(scope="module")
def servers():
    with Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def topic(servers, request):
    name = request.node.name.replace("[", "-").replace("]", "")[:200]
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=name, num_partitions=3)])
    return name


def read_all(servers, topic, **settings) -> pa.Table:
    with Consumer(servers, auto_offset_reset="earliest", **settings) as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        tables = []
        while any(consumer.position(one) < end for one, end in ends.items()):
            tables.append(consumer.fetch_arrow(60_000))
        return pa.concat_tables(tables)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("record_format", [0, 1, 2])
def test_a_table_is_sent_and_read_back(servers, topic, codec, record_format):
    if codec == "zstd" and record_format < 2:
        pytest.skip("zstd requires format 2")
    with Producer(servers, compression_type=codec, record_format=record_format, batch_size=2_000) as producer:
        written_batches = producer.send_arrow(RECORDS_TABLE, topic=topic)
    table = read_all(servers, topic)
    assert sum(written_batches["count"].to_pylist()) == table.num_rows == 1000
    for partition in range(3):
        keys = {bytes(one) for one in table.filter(pa.compute.equal(table["partition"], partition))["key"].to_pylist()}
        assert all(partition_of(key, 3) == partition for key in keys)
    values = [value.decode() for value in table["value"].to_pylist()]
    assert sorted(values) == sorted(RECORDS_TABLE["value"].to_pylist())


def test_partitions_of_several_topics_are_returned_in_name_order(servers, topic):
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=f"{topic}-more", num_partitions=2)])
    with Consumer(servers) as consumer:
        names = [f"{topic}-more", topic]
        assert [one.topic for one in consumer.partitions_for(*names)] == [names[0]] * 2 + [topic] * 3
        assert consumer.partitions_for() == []
        with pytest.raises(BrokerError, match="absent"):
            consumer.partitions_for(topic, "absent")


def test_partitions_for_is_complete_even_if_metadata_are_dropped_in_the_meantime(servers, topic):
    """A fetch drops metadata when a leader has moved."""
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=f"{topic}-more", num_partitions=2)])

    async def partitions():
        async with AsyncConsumer(servers) as consumer:
            cached_topics, wait_for = consumer._cluster.cluster.topics, consumer._cluster.ensure_topic

            async def wait_and_drop_others(name):
                await wait_for(name)
                for other in cached_topics.keys() - {name}:
                    del cached_topics[other]

            consumer._cluster.ensure_topic = wait_and_drop_others
            return await consumer.partitions_for(topic, f"{topic}-more")

    assert len(asyncio.run(partitions())) == 5


def test_queued_tables_are_written_in_order(servers):
    with Producer(servers, batch_size=200) as producer:
        tables = [pa.table({"value": [f"{n}-{m}" for m in range(99)], "partition": [0] * 99}) for n in range(20)]
        futures = [producer.queue_arrow(table, topic="made-by-the-first") for table in tables]
        assert sum(sum(future.result()["count"].to_pylist()) for future in futures) == 20 * 99
    values = [value.decode() for value in read_all(servers, "made-by-the-first")["value"].to_pylist()]
    assert values == [f"{n}-{m}" for n in range(20) for m in range(99)]


def values_in_order(n, m):
    return [b"%d-%d" % (table, row) for table in range(n) for row in range(m)]


@pytest.mark.parametrize("enters", [True, False])
def test_closing_waits_for_queued_tables(servers, topic, enters):
    """No call waits for their futures. Without ``with``, the producer has not even started to connect."""
    producer = Producer(servers, batch_size=200)
    if enters:
        producer.__enter__()
    for n in range(20):
        producer.queue_arrow(pa.table({"value": [f"{n}-{m}" for m in range(99)], "partition": [0] * 99}), topic=topic)
    producer.close()
    assert read_all(servers, topic)["value"].to_pylist() == values_in_order(20, 99)


def test_tables_sent_while_the_producer_starts_are_written_in_call_order(servers, topic, monkeypatch):
    """The last call is made after the start is complete, while the one before it still waits for the start."""

    async def write():
        async with asyncio.TaskGroup() as calls:
            producer = AsyncProducer(servers)
            start = producer._start

            def call(value):
                calls.create_task(producer.send_arrow(pa.table({"value": [value], "partition": [0]}), topic=topic))

            async def started():
                await start()
                call("last")

            monkeypatch.setattr(producer, "_start", started)
            call("first")
            call("second")
        await producer.close()

    asyncio.run(write())
    assert read_all(servers, topic)["value"].to_pylist() == [b"first", b"second", b"last"]


def test_the_end_of_a_transaction_waits_for_queued_tables(servers, topic):
    tables = [pa.table({"value": [f"{n}-{m}" for m in range(99)], "partition": [0] * 99}) for n in range(10)]
    with Producer(servers, transactional_id=topic, batch_size=200) as producer:
        for commits in (False, True):
            producer.begin_transaction()
            for table in tables:
                producer.queue_arrow(table, topic=topic)
            producer.commit_transaction() if commits else producer.abort_transaction()
    committed_values = read_all(servers, topic, isolation_level="read_committed")["value"].to_pylist()
    assert committed_values == values_in_order(10, 99)


def test_a_transaction_in_which_rows_of_a_table_failed_is_not_committed(servers, topic):
    with Producer(servers, transactional_id=topic) as producer:
        producer.begin_transaction()
        producer.queue_arrow(pa.table({"value": ["a"], "partition": [0]}), topic=topic)
        producer.queue_arrow(pa.table({"value": ["b", "c"], "partition": [0, 7]}), topic=topic)
        with pytest.raises(BrokerError, match="abort the transaction"):
            producer.commit_transaction()
        producer.abort_transaction()
        with pytest.raises(OptionError, match="begin_transaction first"):
            producer.send_arrow(pa.table({"value": ["too early"]}), topic=topic)
        with pytest.raises(OptionError, match="begin_transaction first"):
            producer.send(topic, b"too early").result()
        producer.begin_transaction()
        producer.send(topic, b"d", partition=0)
        producer.commit_transaction()
    assert read_all(servers, topic, isolation_level="read_committed")["value"].to_pylist() == [b"d"]


def test_concurrent_first_calls_start_a_producer_once(servers, topic):
    async def tasks_after_close():
        producer = AsyncProducer(servers)
        await asyncio.gather(*(producer.send(topic, b"%d" % n, partition=0) for n in range(5)))
        await producer.close()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(tasks_after_close()) == set()
    assert len(read_all(servers, topic)) == 5


def test_single_records_have_headers_and_return_their_offsets(servers, topic):
    with Producer(servers, linger_ms=0) as producer:
        futures = [producer.send(topic, b"%d" % n, partition=1, headers=[("h", b"x"), ("n", None)]) for n in range(5)]
        assert [future.result().offset for future in futures] == [0, 1, 2, 3, 4]
    with Consumer(servers) as consumer:
        consumer.assign({TopicPartition(topic, 1): 2})
        records = consumer.poll(60_000)
        assert [record.offset for record in records] == [2, 3, 4]
        assert records[0].headers == (("h", b"x"), ("n", None))


def test_only_committed_transactions_are_read(servers, topic):
    with Producer(servers, transactional_id=topic) as producer:
        for n in range(4):
            producer.begin_transaction()
            producer.send(topic, b"%d" % n, partition=0)
            producer.flush()
            producer.commit_transaction() if n % 2 else producer.abort_transaction()
    committed_values = read_all(servers, topic, isolation_level="read_committed")["value"].to_pylist()
    assert committed_values == [b"1", b"3"]
    assert len(read_all(servers, topic)) == 4


def test_a_second_producer_of_a_transactional_id_fences_the_first(servers, topic):
    with Producer(servers, transactional_id=topic) as first:
        first.begin_transaction()
        first.send(topic, b"lost", partition=0).result()
        with Producer(servers, transactional_id=topic) as second:
            second.begin_transaction()
            second.send(topic, b"kept", partition=0)
            second.commit_transaction()
        with pytest.raises(BrokerError):
            first.commit_transaction()
    assert read_all(servers, topic, isolation_level="read_committed")["value"].to_pylist() == [b"kept"]


@pytest.mark.parametrize("commits", [True, False])
def test_producers_that_join_a_transaction_are_part_of_its_commit_or_abort(servers, topic, commits):
    """They can write to the same partition one after the other, with the sequence numbers that the driver assigns."""
    with Producer(servers, transactional_id=topic) as driver:
        driver.begin_transaction()
        identity = shared_transaction.share_transaction(driver)
        shared_transaction.add_partitions(driver, [TopicPartition(topic, 0), TopicPartition(topic, 1)])
        for number, (partition, sequence) in enumerate([(0, 0), (1, 0), (0, 1)]):
            task = Producer(servers, transactional_id=topic)
            shared_transaction.join_transaction(task, identity)
            shared_transaction.send_sequenced_batches(task, [number_record(topic, partition, sequence, b"%d" % number)])
            with pytest.raises(OptionError, match="a producer that has joined a transaction can only write batches"):
                task.send(topic, b"without a sequence", partition=partition).result()
            with pytest.raises(OptionError, match="only the producer that began a transaction can end it"):
                task.commit_transaction()
            task.close()
        driver.commit_transaction() if commits else driver.abort_transaction()
    committed_values = read_all(servers, topic, isolation_level="read_committed")["value"].to_pylist()
    assert sorted(committed_values) == ([b"0", b"1", b"2"] if commits else [])


def number_record(topic, partition, sequence, value):
    return SequencedBatches(
        TopicPartition(topic, partition), sequence, list(build_separate_batches({"value": [value]}))
    )


def test_producers_that_join_a_transaction_wait_for_its_coordinator_to_return():
    with Broker(cluster=2) as broker:
        servers = broker.bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name="t", num_partitions=2)])
        with Producer(servers, transactional_id="shared") as driver:
            driver.begin_transaction()
            task = Producer(servers, transactional_id="shared")
            shared_transaction.join_transaction(task, shared_transaction.share_transaction(driver))
            shared_transaction.add_partitions(driver, [TopicPartition("t", 0)])
            shared_transaction.send_sequenced_batches(task, [number_record("t", 0, 0, b"0")])
            for node in (1, 2):  # one of these nodes is the coordinator
                broker.stop_node(node)
            restart_timers = [threading.Timer(0.3, broker.start_node, [node]) for node in (1, 2)]
            for one in restart_timers:
                one.start()
            shared_transaction.add_partitions(driver, [TopicPartition("t", 1)])
            shared_transaction.send_sequenced_batches(task, [number_record("t", 1, 0, b"1")])
            task.close()
            driver.commit_transaction()
            for one in restart_timers:
                one.join()
        assert sorted(read_all(servers, "t", isolation_level="read_committed")["value"].to_pylist()) == [b"0", b"1"]


def test_a_record_of_a_fenced_producer_fails_instead_of_waiting(servers, topic):
    with Producer(servers, transactional_id=topic) as first:
        first.begin_transaction()
        shared_transaction.share_transaction(
            first
        )  # with this release, partitions are added to a transaction before the first write
        with Producer(servers, transactional_id=topic):
            future = first.send(topic, b"late", partition=0)
            with pytest.raises(BrokerError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
                future.result()
        with pytest.raises(BrokerError):
            first.abort_transaction()


def test_two_group_members_share_partitions_and_one_takes_over(servers, topic):
    async def play() -> None:
        async with AsyncProducer(servers) as producer:
            await producer.send_arrow(RECORDS_TABLE, topic=topic)
        settings = {"group_id": topic, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 50}
        first, second = AsyncConsumer(servers, **settings), AsyncConsumer(servers, **settings)
        await first.subscribe(topic)
        await second.subscribe(topic)
        seen_count = 0
        places = [f"{topic}-{n}" for n in range(3)]

        def is_shared() -> bool:
            second_member, other = first.assignment(), second.assignment()
            return bool(second_member and other) and sorted(map(str, second_member + other)) == places

        while seen_count < 1000 or not is_shared():
            tables = await asyncio.gather(first.fetch_arrow(50), second.fetch_arrow(50))
            seen_count += sum(map(len, tables))
        await first.commit()
        await first.close()
        while len(second.assignment()) < 3:
            await second.fetch_arrow(50)
        await second.commit()
        await second.close()

    asyncio.run(asyncio.wait_for(play(), 120))
    with Admin(servers) as admin:
        offsets = admin.group_offsets(topic)
        assert sum(offset.offset for offset in offsets.values()) == 1000
        assert topic in [group.group_id for group in admin.list_groups()]
        admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 1})
        assert admin.group_offsets(topic)[TopicPartition(topic, 0)] == CommittedOffset(1)


@pytest.mark.parametrize(
    "read",
    [
        lambda consumer: consumer.poll(60_000),
        lambda consumer: consumer.fetch(60_000),
        lambda consumer: consumer.fetch_arrow(60_000),
        lambda consumer: next(iter(consumer)),
    ],
    ids=["poll", "fetch", "fetch_arrow", "iteration"],
)
def test_an_old_consumer_raises_at_each_read_of_a_format_that_it_does_not_support(servers, topic, read):
    """KIP-31: an old consumer that reads a newer format gets "unsupported version"; no record is skipped."""
    with Producer(servers) as producer:
        producer.send(topic, b"new", partition=0).result()
    partition = TopicPartition(topic, 0)
    with Consumer(servers, formats=(0, 1)) as consumer:
        consumer.assign({partition: 0})
        for _ in range(2):
            with pytest.raises(UnsupportedFormatError, match=f"format 2 in {topic}-0 at offset 0: .* format 0 and 1"):
                read(consumer)
            assert consumer.position(partition) == 0
    with Consumer(servers) as consumer:
        consumer.assign({partition: 0})
        assert [record.value for record in consumer.poll(60_000)] == [b"new"]


def test_an_old_consumer_reads_up_to_the_first_batch_that_it_does_not_support(servers, topic):
    with Admin(servers) as admin, Producer(servers, record_format=1) as old, Producer(servers) as new:
        admin.alter_configs("topic", topic, {"message.format.version": "0.10.0"})
        old.send(topic, b"0", partition=0).result()
        old.send(topic, b"1", partition=0).result()
        admin.alter_configs("topic", topic, {"message.format.version": "3.0"})
        new.send(topic, b"2", partition=0).result()
    partition = TopicPartition(topic, 0)
    with Consumer(servers, formats=(1,)) as consumer:
        consumer.assign({partition: 0})
        assert [record.value for record in consumer.poll(60_000)] == [b"0", b"1"]
        with pytest.raises(UnsupportedFormatError) as error_info:
            consumer.poll(60_000)
        error = error_info.value
        assert (error.partition, error.offset, error.record_format) == (f"{topic}-0", 2, 2)
        assert error.supported_formats == (1,)
        consumer.seek(partition, 0)
        assert len(consumer.poll(60_000)) == 2


@pytest.mark.parametrize(
    "read",
    [lambda consumer: consumer.poll(60_000), lambda consumer: consumer.fetch_arrow(60_000)["value"].to_pylist()],
    ids=["poll", "fetch_arrow"],
)
def test_rows_of_a_partition_are_returned_even_if_the_next_one_has_an_unsupported_format(servers, topic, read):
    with Admin(servers) as admin, Producer(servers, record_format=1) as old, Producer(servers) as new:
        new.send(topic, b"2", partition=0).result()
        admin.alter_configs("topic", topic, {"message.format.version": "0.10.0"})
        old.send(topic, b"1", partition=1).result()
    with Consumer(servers, formats=(2,), max_poll_records=10) as consumer:
        consumer.assign({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0})
        assert len(read(consumer)) == 1
        for _ in range(2):
            with pytest.raises(UnsupportedFormatError, match=f"format 1 in {topic}-1 at offset 0"):
                read(consumer)


@pytest.mark.parametrize("protocol", [None, "classic", "consumer"], ids=["assigned", "classic", "consumer"])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("method", ["poll", "fetch_arrow"])
def test_a_read_returns_when_only_markers_were_passed(servers, topic, protocol, isolation, method):
    """As in Java (KAFKA-12980), a loop that polls up to the end offset does not wait for a record after a marker."""
    with Producer(servers, transactional_id=topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0).result()
        producer.abort_transaction()
    partition = TopicPartition(topic, 0)
    options = {} if protocol is None else {"group_id": topic, "group_protocol": protocol, "auto_offset_reset": "latest"}
    with Consumer(servers, isolation_level=isolation, **options) as consumer:
        if protocol is None:
            consumer.assign([partition])
        else:
            consumer.subscribe(topic)
            while partition not in consumer.assignment():
                consumer.poll(100)
        consumer.seek(partition, 1 if isolation == "read_uncommitted" else 0)
        assert len(getattr(consumer, method)(10_000_000)) == 0
        assert consumer.position(partition) == 2


def test_an_asyncio_read_returns_when_only_markers_were_passed(servers, topic):
    async def read():
        async with AsyncConsumer(servers, isolation_level="read_committed") as consumer:
            await consumer.assign({partition: 0})
            assert await consumer.poll(None) == []
            assert consumer.position(partition) == 2
            await consumer.assign({partition: 0})
            assert (await consumer.fetch_arrow(None)).num_rows == 0
            assert consumer.position(partition) == 2

    partition = TopicPartition(topic, 0)
    with Producer(servers, transactional_id=topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0).result()
        producer.abort_transaction()
    asyncio.run(read())


def test_a_read_returns_the_records_of_the_partitions_after_one_with_markers(servers, topic):
    with Producer(servers, transactional_id=topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0).result()
        producer.abort_transaction()
    with Producer(servers) as producer:
        producer.send(topic, b"committed", partition=1).result()
    with Consumer(servers, isolation_level="read_committed") as consumer:
        for read in (
            lambda: [record.value for record in consumer.poll(None)],
            lambda: consumer.fetch_arrow(None)["value"].to_pylist(),
        ):
            consumer.assign({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0})
            assert read() == [b"committed"]


def test_an_iteration_waits_for_the_record_after_markers(servers, topic):
    with Producer(servers, transactional_id=topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0).result()
        producer.abort_transaction()
    partition = TopicPartition(topic, 0)
    values = []
    with Consumer(servers, isolation_level="read_committed") as consumer, Producer(servers) as producer:
        consumer.assign({partition: 0})
        reader = threading.Thread(target=lambda: values.append(next(iter(consumer)).value))
        reader.start()
        wait_for(lambda: consumer.position(partition) == 2)
        assert values == []
        producer.send(topic, b"later", partition=0).result()
        reader.join(60)
        assert values == [b"later"]


def test_admin_creates_and_deletes_topics_and_records(servers, topic):
    with Admin(servers) as admin:
        with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
            admin.create_topics([topic])
        admin.create_partitions({topic: 5})
        assert len(admin.describe_topics([topic])[topic].partitions) == 5
        admin.alter_configs("topic", topic, {"retention.ms": "1234"})
        assert admin.describe_configs("topic", topic)["retention.ms"].value == "1234"
        admin.alter_configs("topic", topic, {"retention.ms": None})
        assert admin.describe_configs("topic", topic, keys=["retention.ms"])["retention.ms"].is_default
        with Producer(servers) as producer:
            producer.send_arrow(RECORDS_TABLE.append_column("partition", pa.array([0] * 1000)), topic=topic)
        assert admin.delete_records({TopicPartition(topic, 0): 10}) == {TopicPartition(topic, 0): 10}
        assert admin.list_offsets({TopicPartition(topic, 0): EARLIEST}) == {TopicPartition(topic, 0): 10}
        admin.delete_topics([topic])
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            admin.describe_topics([topic])


def test_a_closed_port_is_a_network_error():
    with (
        Admin("127.0.0.1:1", default_api_timeout_ms=300) as admin,
        pytest.raises(NetworkError, match=r"127\.0\.0\.1:1"),
    ):
        admin.list_topics()


@pytest.mark.parametrize("release", ["0.8.2", "0.9.0", "0.10.0", "0.11", "2.4.1", "3.9", "4.0.0", "4.3"])
def test_api_version_replaces_the_api_versions_request(release):
    with Broker(broker_release=release) as broker:
        servers = broker.bootstrap_servers
        with Producer(servers, api_version=release) as producer:
            producer.send("t", b"value").result()
        with Consumer(servers, api_version=release, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("t", 0)])
            assert [record.value for record in consumer.poll(60_000)] == [b"value"]
        versions_by_api = {entry.api: entry.version for entry in broker.journal}
    assert "ApiVersions" not in versions_by_api
    served_apis = releases.find_release(release).apis_of_listener()
    assert all(
        served_apis[catalog.find_api(api).key].accepted_versions.contains(version)
        for api, version in versions_by_api.items()
    )


def test_transaction_version_2_sends_no_add_requests_and_bumps_the_epoch():
    """KIP-890: neither AddPartitionsToTxn nor AddOffsetsToTxn is sent; after a lost batch, an abort is sufficient."""
    with Broker() as broker, Producer(broker.bootstrap_servers, transactional_id="t") as producer:
        epochs = []
        for number in range(3):
            producer.begin_transaction()
            producer.send_arrow(RECORDS_TABLE.slice(0, 10 + number), topic="money")
            producer.send_offsets_to_transaction({TopicPartition("money", 0): number + 1}, "g")
            (producer.abort_transaction if number == 1 else producer.commit_transaction)()
            epochs.append(producer.identity.epoch)
        broker.journal.assert_requested("Produce", version=13)
        broker.journal.assert_requested("EndTxn", version=5)
        broker.journal.assert_requested("TxnOffsetCommit", version=5)
        broker.journal.assert_not_requested("AddPartitionsToTxn")
        broker.journal.assert_not_requested("AddOffsetsToTxn")
        assert epochs == [1, 2, 3]
        assert read_all(broker.bootstrap_servers, "money", isolation_level="read_committed").num_rows == 10 + 12
        with Admin(broker.bootstrap_servers) as admin:
            assert admin.group_offsets("g") == {TopicPartition("money", 0): CommittedOffset(3)}
        with broker.on("Produce").error("INVALID_RECORD").once():
            producer.begin_transaction()
            with pytest.raises(BrokerError):
                producer.send_arrow(RECORDS_TABLE, topic="money")
            producer.abort_transaction()
        producer.begin_transaction()
        producer.send_arrow(RECORDS_TABLE, topic="money")
        producer.commit_transaction()
        assert read_all(broker.bootstrap_servers, "money", isolation_level="read_committed").num_rows == 1022


def test_a_transaction_with_a_lost_end_response_ends_once():
    with (
        Broker() as broker,
        Producer(broker.bootstrap_servers, transactional_id="t") as producer,
    ):
        for fault in ("EndTxn", "Produce"):
            with broker.on(fault).drop_reply().once() as rule:
                producer.begin_transaction()
                producer.send_arrow(RECORDS_TABLE.slice(0, 5), topic="money")
                producer.commit_transaction()
                assert rule.count
        assert read_all(broker.bootstrap_servers, "money", isolation_level="read_committed").num_rows == 10


def test_an_error_of_an_earlier_assignment_does_not_affect_the_next_one(servers, topic):
    with Producer(servers) as producer:
        producer.send(topic, b"v", partition=0).result()
    place = TopicPartition(topic, 0)
    with Consumer(servers, auto_offset_reset="none", enable_auto_commit=False) as consumer:
        consumer.assign({place: 999})
        while consumer._twin._positions.find_stuck_error() is None:  # the broker answers that the offset does not exist
            time.sleep(0.01)
        consumer.assign({place: 0})
        fetched_batches = consumer.fetch(60_000)
        assert fetched_batches is not None
        assert fetched_batches.fetch_offset == 0


def test_a_consumer_requests_nothing_after_an_end_offset(topic_with_ends):
    broker, place = topic_with_ends
    with Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign({place: 0}, ends={place: 5})
        fetched_batches = consumer.fetch(60_000)
        assert (fetched_batches.fetch_offset, fetched_batches.next_offset) == (
            0,
            10,
        )  # the batch extends beyond the end offset
        assert consumer.fetch(50) is None
        consumer.seek(place, 2)  # the end stays
        assert consumer.fetch(60_000).fetch_offset == 2
        assert consumer.fetch(50) is None
        assert find_requested_offsets(broker) == [0, 2]
        consumer.assign({place: 0})  # without an end offset, the consumer waits at the end of the log
        assert consumer.fetch(60_000).next_offset == 10
        assert consumer.fetch(50) is None
        assert find_requested_offsets(broker)[:4] == [0, 2, 0, 10]


@pytest.fixture
def topic_with_ends():
    with Broker() as broker:
        with Producer(broker.bootstrap_servers) as producer:
            producer.send_arrow(pa.table({"value": [f"v{n}" for n in range(10)]}), topic="t")
        yield broker, TopicPartition("t", 0)


def find_requested_offsets(broker):
    """Return the requested fetch offsets."""
    return [
        partition.fetch_offset
        for call in broker.journal.requests("Fetch")
        for topic in call.body.topics
        for partition in topic.partitions
    ]


def test_fetched_batches_stay_unchanged_when_more_is_fetched(servers, topic):
    """Large responses are received into reusable memory, which is reused only after its last reference is gone."""
    rows = pa.table({"value": [bytes([65 + n % 26]) * 1000 for n in range(2000)], "partition": [0] * 2000})
    with Producer(servers) as producer:
        producer.send_arrow(rows, topic=topic)
    for keep in (2, 100):
        held_batches = []
        with Consumer(servers, auto_offset_reset="earliest", max_partition_fetch_bytes=200_000) as consumer:
            consumer.assign([(topic, 0)])
            while consumer.position((topic, 0)) < 2000:
                fetched_batches = consumer.fetch(60_000)
                held_batches = [*held_batches, (fetched_batches, bytes(fetched_batches.data))][-keep:]
        assert all(len(data) > 100_000 for _, data in held_batches[:-1])
        assert all(fetched_batches.data == data for fetched_batches, data in held_batches)
        values = [
            row
            for fetched_batches, _ in held_batches
            for part in fetched_batches.read(["value"])
            for row in part.column(0).to_pylist()
        ]
        assert values == rows["value"].to_pylist()[-len(values) :]


def test_each_request_has_its_own_timeout():
    """A later request may have a shorter timeout than an earlier one.

    A missing response closes the connection for all.
    """

    is_gone = asyncio.Event()

    async def say_nothing(reader, writer):
        await reader.read()
        writer.close()
        is_gone.set()

    async def run():
        async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as silent:
            host, port = silent.sockets[0].getsockname()
            settings = ClientSettings(bootstrap_servers=f"{host}:{port}", api_version="2.8")
            connection = await Connection.open(host, port, settings)
            slow = asyncio.ensure_future(
                connection.request(settings.message_class("MetadataRequest")(), timeout_ms=3_600_000)
            )
            await asyncio.sleep(0)
            for waiting in (connection.request(settings.message_class("ListGroupsRequest")(), timeout_ms=200), slow):
                with pytest.raises(NetworkError, match="did not respond to ListGroupsRequest within 200 ms"):
                    await waiting
            assert not connection.is_usable
            await is_gone.wait()

    asyncio.run(run())


def test_records_over_the_decompression_budget_are_returned_by_several_calls(servers, topic):
    """Each batch of some hundred bytes decompresses to 100 kB; all batches of a fetch together would be a bomb."""
    with Producer(servers, compression_type="zstd") as producer:
        for number in range(12):
            for _ in range(10):
                producer.send(topic, bytes(10_000), key=b"%d" % number, partition=0)
            producer.flush()
    with Consumer(servers) as consumer, limit_budget(150_000):
        consumer.assign({TopicPartition(topic, 0): 0})
        tables = []
        while sum(table.num_rows for table in tables) < 120:
            tables.append(consumer.fetch_arrow(60_000, columns=("key", "value")))
            assert tables[-1].nbytes < 400_000
        keys = [key for table in tables for key in table["key"].to_pylist()]
        assert keys == [b"%d" % number for number in range(12) for _ in range(10)]
        consumer.seek((topic, 0), 0)
        polled_records = []
        while len(polled_records) < 120:
            polled_records += consumer.poll(60_000, max_records=7)
            open_records = [
                records for _, entry in consumer._twin._positions._arrivals for records in entry._opened_records
            ]
            assert sum(records.unread_count for records in open_records) < 40
        assert [record.offset for record in polled_records] == list(range(120))


def test_offsets_are_committed_by_topic_id_if_both_sides_support_it():
    with Broker() as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name="t", num_partitions=2)])
        places = [TopicPartition("t", 0), TopicPartition("t", 1)]
        with Consumer(broker.bootstrap_servers, group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign(dict.fromkeys(places, 0))
            consumer.partitions_for("t")
            consumer.commit({places[1]: CommittedOffset(5, metadata="here")})
            assert consumer.committed(places) == {places[1]: CommittedOffset(5, metadata="here")}
            requests = broker.journal.requests("OffsetFetch")[-1], broker.journal.requests("OffsetCommit")[-1]
            assert [call.version for call in requests] == [10, 10]
            admin.delete_topics(["t"])  # the recreated topic has another id, and its cached state is dropped
            admin.create_topics([NewTopic(name="t", num_partitions=2)])
            assert consumer.committed(places) == {}
        assert admin.group_offsets("g") == {}


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ("SSL", r"ended the TLS handshake; does this port use TLS\? \(security.protocol is SSL\)"),
        (
            "PLAINTEXT",
            r"to any request yet; does this port use TLS\? \(security.protocol is PLAINTEXT; "
            r"brokers before 0.10 need `api_version`\)",
        ),
    ],
)
@pytest.mark.parametrize("resets", [False, True], ids=["ends", "resets"])
def test_a_port_with_another_protocol_is_distinguished_from_a_closed_port(protocol, message, resets):
    """The server closes the connection at the first bytes, as brokers do with bytes of another protocol.

    Closing a socket with unread bytes resets the connection.
    """

    is_gone = asyncio.Event()

    async def hang_up(reader, writer):
        await reader.read(1 << 16)
        if resets:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        is_gone.set()

    async def run():
        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            settings = ClientSettings(bootstrap_servers=f"{host}:{port}", security_protocol=protocol)
            with pytest.raises(NetworkError, match=f"{host}:{port} .*{message}"):
                await Connection.open(host, port, settings)
            await is_gone.wait()

    asyncio.run(run())
