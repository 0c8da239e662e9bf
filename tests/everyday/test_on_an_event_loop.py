"""Use of the asyncio clients."""

import asyncio

import pyarrow as pa
import pytest
from tests.everyday.behaviours import peers_with
from tests.everyday.clusters import soon

from kafkaframes.client import AsyncAdmin, AsyncConsumer, AsyncProducer, Producer, TopicPartition
from kafkaframes.errors import KafkaframesError, NetworkError, OptionError, ProducerFencedError


@pytest.fixture
def partition(topic):
    """The first partition of the topic."""
    return TopicPartition(topic, 0)


@pytest.fixture
def filled_partition(broker, partition):
    """The first partition of the topic, with ten records."""
    broker.append(partition.topic, [{"value": b"%d" % number} for number in range(10)], partition=0)
    return partition


def run(coroutine):
    """Run a coroutine for at most 30 s."""
    return asyncio.run(asyncio.wait_for(coroutine, 30))


@peers_with(aiokafka="test_producer_send", confluent="test_producer_wakeable_poll_interruptibility_and_messages")
def test_send_returns_a_future_of_the_result(servers, topic):
    async def main():
        async with AsyncProducer(servers) as producer:
            future = await producer.send(topic, b"v", partition=1)
            return await future

    result = run(main())
    assert (result.topic, result.partition, result.offset) == (topic, 1, 0)


@peers_with(aiokafka="test_producer_send_and_wait_with_headers")
def test_send_and_wait_returns_the_result(broker, servers, topic):
    async def main():
        async with AsyncProducer(servers, linger_ms=60_000) as producer:
            return await producer.send_and_wait(topic, b"v", headers=[("a", b"1")], partition=0)

    assert run(main()).offset == 0
    assert list(broker.records(topic)[0].headers) == [(b"a", b"1")]


@peers_with(aiokafka="test_producer_leader_change_preserves_order")
def test_concurrent_tasks_each_keep_their_send_order(broker, servers, topic):
    async def main():
        async with AsyncProducer(servers) as producer:

            async def send(name):
                for number in range(20):
                    await producer.send(topic, b"%d" % number, key=name, partition=0)
                    await asyncio.sleep(0)

            await asyncio.gather(*(send(name) for name in (b"a", b"b", b"c")))

    run(main())
    records = broker.records(topic)
    for name in (b"a", b"b", b"c"):
        assert [record.value for record in records if record.key == name] == [b"%d" % n for n in range(20)]


@peers_with(aiokafka="test_producer_flush_test")
def test_flush_waits_for_every_future(servers, topic):
    async def main():
        async with AsyncProducer(servers, linger_ms=60_000) as producer:
            futures = [await producer.send(topic, b"%d" % number) for number in range(10)]
            await producer.flush()
            return [future.done() for future in futures]

    assert run(main()) == [True] * 10


@peers_with(aiokafka="test_producer_context_manager")
def test_leaving_the_with_block_sends_pending_records(broker, servers, topic):
    async def main():
        async with AsyncProducer(servers, linger_ms=60_000) as producer:
            await producer.send(topic, b"v")

    run(main())
    assert len(broker.records(topic)) == 1


@peers_with(aiokafka="test_create_producer_no_running_loop", ours="no start() is needed")
def test_a_producer_connects_with_its_first_record(servers, topic):
    async def main():
        producer = AsyncProducer(servers)
        try:
            return await producer.send_and_wait(topic, b"v")
        finally:
            await producer.close()

    assert run(main()).offset == 0


@peers_with(aiokafka="test_producer_start")
def test_a_closed_producer_is_rejected_on_a_loop(servers, topic):
    async def main():
        async with AsyncProducer(servers) as producer:
            pass
        with pytest.raises(NetworkError, match="closed"):
            await producer.send(topic, b"v")

    run(main())


@peers_with(aiokafka="test_producer_transactional_cancel_txn_methods")
def test_a_record_is_sent_although_its_waiting_task_is_cancelled(broker, servers, topic):
    async def main():
        async with AsyncProducer(servers, linger_ms=50) as producer:
            future = await producer.send(topic, b"v")
            waiter = asyncio.ensure_future(asyncio.shield(future))
            await asyncio.sleep(0)
            waiter.cancel()
            await producer.flush()

    run(main())
    assert [record.value for record in broker.records(topic)] == [b"v"]


@peers_with(aiokafka="test_producer_send_batch")
def test_a_table_is_sent_on_a_loop(broker, servers, topic):
    async def main():
        async with AsyncProducer(servers) as producer:
            return await producer.send_arrow(pa.table({"value": [b"1", b"2"], "partition": [0, 0]}), topic=topic)

    assert run(main())["count"].to_pylist() == [2]
    assert [record.value for record in broker.records(topic)] == [b"1", b"2"]


@peers_with(aiokafka="test_producer_transactional_simple")
def test_a_transaction_is_committed_on_a_loop(broker, servers, admin, topic):
    async def main():
        async with AsyncProducer(servers, transactional_id=topic) as producer:
            await producer.begin_transaction()
            await producer.send(topic, b"v", partition=0)
            await producer.commit_transaction()

    run(main())
    broker.wait_for(lambda: admin.describe_transactions([topic])[topic].state == "CompleteCommit", timeout=30)


@peers_with(aiokafka="test_producer_transactional_fences_off_previous")
def test_a_fenced_producer_fails_on_a_loop(servers, topic):
    async def main():
        async with AsyncProducer(servers, transactional_id=topic) as first:
            await first.begin_transaction()
            async with AsyncProducer(servers, transactional_id=topic):
                with pytest.raises(ProducerFencedError):
                    await first.send_and_wait(topic, b"v")

    run(main())


@peers_with(aiokafka="test_aiter")
def test_async_for_reads_records_in_order(servers, filled_partition):
    offsets = []

    async def main():
        async with AsyncConsumer(servers, auto_offset_reset="earliest") as consumer:
            await consumer.assign([filled_partition])
            async for record in consumer:
                offsets.append(record.offset)
                if len(offsets) == 10:
                    break

    run(main())
    assert offsets == list(range(10))


@peers_with(aiokafka="test_consumer_stops_iter", ours="NetworkError ends the loop; aiokafka ends it silently")
def test_async_for_ends_if_the_consumer_is_closed(broker, servers, partition):
    async def main():
        consumer = AsyncConsumer(servers)
        await consumer.assign([partition])

        async def read():
            async for _ in consumer:
                pass

        reader = asyncio.create_task(read())
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(NetworkError):
            await reader

    run(main())


@peers_with(aiokafka="test_get_by_partition", java="testPollReturnsRecords")
def test_poll_on_a_loop_returns_at_most_max_records(servers, filled_partition):
    async def main():
        async with AsyncConsumer(servers, auto_offset_reset="earliest") as consumer:
            await consumer.assign([filled_partition])
            return [[record.offset for record in await consumer.poll(20_000, max_records=4)] for _ in range(2)]

    assert run(main()) == [[0, 1, 2, 3], [4, 5, 6, 7]]


@peers_with(aiokafka="test_consumer_stops_getmany", java="testWakeupAfterEmptyFetch")
def test_a_cancelled_poll_loses_no_records(broker, servers, partition):
    async def main():
        async with AsyncConsumer(servers, auto_offset_reset="earliest") as consumer:
            await consumer.assign([partition])
            waiting = asyncio.create_task(consumer.poll(60_000))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.to_thread(broker.append, partition.topic, [{"value": b"v"}], partition=0)
            return await consumer.poll(20_000)

    assert [record.offset for record in run(main())] == [0]


@peers_with(aiokafka="test_commit_not_blocked_by_long_poll_fetch")
def test_commit_does_not_wait_for_a_long_poll(servers, filled_partition):
    """The poll would wait for a minute; the commit ends while it waits."""

    async def main():
        async with AsyncConsumer(servers, group_id=filled_partition.topic, fetch_max_wait_ms=60_000) as consumer:
            await consumer.assign([filled_partition])
            waiting = asyncio.create_task(consumer.poll(60_000))
            await asyncio.sleep(0)
            await consumer.commit({filled_partition: 5})
            is_waiting = not waiting.done()
            waiting.cancel()
            return is_waiting, (await consumer.committed([filled_partition]))[filled_partition].offset

    assert run(main()) == (True, 5)


@peers_with(
    aiokafka="test_rebalance_listener_with_coroutines", kafka_python="test_on_join_complete_async_awaits_async_listener"
)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_callbacks_may_be_coroutines(servers, filled_partition, protocol):
    calls = []

    async def on_assign(partitions):
        await asyncio.sleep(0)
        calls.append(("assign", len(partitions)))

    async def on_revoke(partitions):
        await asyncio.sleep(0)
        calls.append(("revoke", len(partitions)))

    async def main():
        settings = {"group_id": filled_partition.topic, "group_protocol": protocol, "auto_offset_reset": "earliest"}
        async with AsyncConsumer(servers, **settings) as consumer:
            await consumer.subscribe([filled_partition.topic], on_assign=on_assign, on_revoke=on_revoke)
            count = 0
            while count < 10:
                count += len(await consumer.poll(20_000))

    run(main())
    assert calls == [("assign", 3), ("revoke", 3)]


@peers_with(aiokafka="test_rebalance_listener_no_deadlock_callbacks")
def test_a_callback_may_commit_on_a_loop(servers, filled_partition):
    async def main():
        settings = {"group_id": filled_partition.topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with AsyncConsumer(servers, **settings) as consumer:

            async def on_revoke(partitions):
                await consumer.commit()

            await consumer.subscribe([filled_partition.topic], on_revoke=on_revoke)
            count = 0
            while count < 10:
                count += len(await consumer.poll(20_000))
        async with AsyncConsumer(servers, **settings) as consumer:
            return (await consumer.committed([filled_partition]))[filled_partition].offset

    assert run(main()) == 10


@peers_with(aiokafka="test_consumer_context_manager")
def test_a_closed_consumer_is_rejected_on_a_loop(servers, filled_partition):
    async def main():
        async with AsyncConsumer(servers) as consumer:
            await consumer.assign([filled_partition])
        with pytest.raises(NetworkError, match="closed"):
            await consumer.poll(0)

    run(main())


@peers_with(aiokafka="test_global_loop_for_create_conn")
def test_a_client_of_another_loop_is_rejected(servers, topic):
    producer = AsyncProducer(servers)

    async def start():
        await producer.send_and_wait(topic, b"1")

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(start())
        with pytest.raises(KafkaframesError, match="loop"):
            asyncio.run(start())
        loop.run_until_complete(producer.close())
    finally:
        loop.close()


@peers_with(aiokafka="test_consumer_commit_no_group")
def test_subscribe_without_a_group_is_rejected_on_a_loop(servers, topic):
    async def main():
        async with AsyncConsumer(servers) as consumer:
            with pytest.raises(OptionError, match="group_id"):
                await consumer.subscribe([topic])

    run(main())


@peers_with(aiokafka="test_create_topics", kafka_python="test_concurrent_describe_cluster")
def test_admin_calls_run_at_the_same_time(servers, topic):
    async def main():
        async with AsyncAdmin(servers) as admin:
            await asyncio.gather(*(admin.create_topics([f"{topic}-{number}"]) for number in range(5)))

    async def list_topics():
        async with AsyncAdmin(servers) as admin:
            return await admin.list_topics()

    run(main())
    assert soon(lambda: {f"{topic}-{number}" for number in range(5)} <= set(run(list_topics())))


@peers_with(aiokafka="test_simple_consumer", confluent="test_basic_consume_records")
def test_a_producer_and_a_consumer_share_a_loop(servers, topic):
    async def main():
        async with AsyncProducer(servers) as producer, AsyncConsumer(servers, auto_offset_reset="earliest") as consumer:
            await consumer.assign(await consumer.partitions_for(topic))
            sending = [producer.send_and_wait(topic, b"%d" % number, partition=0) for number in range(10)]
            await asyncio.gather(*sending)
            values = []
            while len(values) < 10:
                values += [record.value for record in await consumer.poll(20_000)]
            return values

    assert sorted(run(main())) == [b"%d" % number for number in range(10)]


@peers_with(confluent="test_producer_context_manager_multiple_instances")
def test_the_plain_client_works_inside_a_loop(servers, topic):
    async def main():
        with Producer(servers) as producer:
            return await asyncio.wrap_future(producer.send(topic, b"v"))

    assert run(main()).offset == 0
