"""Programs with Python clients for tests/interop/trials.py; the arguments are NAME HOST:PORT VERB ARGUMENTS."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator

NAME, SERVERS, VERB, *GIVEN = sys.argv[1:]
NAME, _, PROTOCOL = NAME.partition(":")
PADDING = "." * 200
ENDED = threading.Event()
TOPIC_PARTITIONS = 3


def say(word: str, value: str) -> None:
    print(word, value.rstrip("."), flush=True)


def wait_for_end() -> None:
    sys.stdin.read()
    ENDED.set()


def values(prefix: str, count: int, pause_ms: int) -> Iterator[str]:
    for number in range(count):
        yield f"{prefix}-{number}{PADDING}"
        time.sleep(pause_ms / 1000)


class Librdkafka:
    """confluent-kafka."""

    def settings(self, **named_settings: object) -> dict[str, object]:
        return {"bootstrap.servers": SERVERS} | {
            name.replace("_", "."): value for name, value in named_settings.items()
        }

    def write(self, topic: str, prefix: str, count: int, codec: str, pause_ms: int) -> None:
        from confluent_kafka import Producer

        producer = Producer(self.settings(enable_idempotence=True, compression_type=codec))

        def print_result(error: object, record: object) -> None:
            say("failed" if error else "acked", record.value().decode())

        for value in values(prefix, count, pause_ms):
            producer.produce(topic, value.encode(), on_delivery=print_result)
            producer.poll(0)
        producer.flush()

    def read(self, topic: str, group: str) -> None:
        from confluent_kafka import Consumer

        kind = {"group_protocol": "consumer"} if PROTOCOL else {"partition_assignment_strategy": "roundrobin"}
        consumer = Consumer(self.settings(group_id=group, auto_offset_reset="earliest", **kind))
        consumer.subscribe([topic])
        while not ENDED.is_set():
            record = consumer.poll(0.1)
            if record is not None and record.error() is None:
                say("read", record.value().decode())
        consumer.close()

    def transact(self, topic: str) -> None:
        from confluent_kafka import Producer

        producer = Producer(self.settings(transactional_id=topic))
        producer.init_transactions()
        for prefix in ("kept", "gone", "kept-too"):
            producer.begin_transaction()
            for value in values(prefix, 5, 0):
                producer.produce(topic, value.encode())
            producer.flush()
            (producer.abort_transaction if prefix == "gone" else producer.commit_transaction)()

    def admin(self, topic: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient(self.settings())
        admin.create_topics([NewTopic(topic, TOPIC_PARTITIONS)])[topic].result()
        say("partitions", str(len(admin.list_topics(topic).topics[topic].partitions)))
        admin.delete_topics([topic])[topic].result()
        say("there", str(topic in admin.list_topics().topics).lower())


class KafkaPython:
    """kafka-python."""

    def write(self, topic: str, prefix: str, count: int, codec: str, pause_ms: int) -> None:
        import kafka

        codec = None if codec == "none" else codec
        producer = kafka.KafkaProducer(bootstrap_servers=SERVERS, enable_idempotence=True, compression_type=codec)
        for value in values(prefix, count, pause_ms):
            future = producer.send(topic, value.encode())
            future.add_callback(lambda _, value=value: say("acked", value))
            future.add_errback(lambda _, value=value: say("failed", value))
        producer.flush()
        producer.close()

    def read(self, topic: str, group: str) -> None:
        import kafka
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

        consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=SERVERS,
            group_id=group,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[RoundRobinPartitionAssignor],
        )
        while not ENDED.is_set():
            for records in consumer.poll(100).values():
                for record in records:
                    say("read", record.value.decode())
        consumer.close()

    def transact(self, topic: str) -> None:
        import kafka

        producer = kafka.KafkaProducer(bootstrap_servers=SERVERS, transactional_id=topic)
        producer.init_transactions()
        for prefix in ("kept", "gone", "kept-too"):
            producer.begin_transaction()
            for value in values(prefix, 5, 0):
                producer.send(topic, value.encode())
            producer.flush()
            (producer.abort_transaction if prefix == "gone" else producer.commit_transaction)()
        producer.close()

    def admin(self, topic: str) -> None:
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=SERVERS)
        admin.create_topics([NewTopic(topic, TOPIC_PARTITIONS, 1)])
        say("partitions", str(len(admin.describe_topics([topic])[0]["partitions"])))
        admin.delete_topics([topic])
        say("there", str(topic in admin.list_topics()).lower())
        admin.close()


class AioKafka:
    """aiokafka."""

    def write(self, *arguments: object) -> None:
        asyncio.run(self._write(*arguments))

    async def _write(self, topic: str, prefix: str, count: int, codec: str, pause_ms: int) -> None:
        from aiokafka import AIOKafkaProducer

        codec = None if codec == "none" else codec
        producer = AIOKafkaProducer(bootstrap_servers=SERVERS, enable_idempotence=True, compression_type=codec)
        waiting = []

        def print_result(future: asyncio.Future, value: str) -> None:
            say("failed" if future.exception() else "acked", value)

        async with producer:
            for value in values(prefix, count, 0):
                future = await producer.send(topic, value.encode())
                future.add_done_callback(lambda future, value=value: print_result(future, value))
                waiting.append(future)
                await asyncio.sleep(pause_ms / 1000)
            await asyncio.wait(waiting)
            await asyncio.sleep(0)

    def read(self, *arguments: object) -> None:
        asyncio.run(self._read(*arguments))

    async def _read(self, topic: str, group: str) -> None:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(topic, bootstrap_servers=SERVERS, group_id=group, auto_offset_reset="earliest")
        async with consumer:
            while not ENDED.is_set():
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    for record in records:
                        say("read", record.value.decode())

    def transact(self, *arguments: object) -> None:
        asyncio.run(self._transact(*arguments))

    async def _transact(self, topic: str) -> None:
        from aiokafka import AIOKafkaProducer

        async with AIOKafkaProducer(bootstrap_servers=SERVERS, transactional_id=topic) as producer:
            for prefix in ("kept", "gone", "kept-too"):
                await producer.begin_transaction()
                for value in values(prefix, 5, 0):
                    await producer.send_and_wait(topic, value.encode())
                await (producer.abort_transaction if prefix == "gone" else producer.commit_transaction)()

    def admin(self, *arguments: object) -> None:
        asyncio.run(self._admin(*arguments))

    async def _admin(self, topic: str) -> None:
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        admin = AIOKafkaAdminClient(bootstrap_servers=SERVERS)
        await admin.start()
        await admin.create_topics([NewTopic(topic, TOPIC_PARTITIONS, 1)])
        say("partitions", str(len((await admin.describe_topics([topic]))[0]["partitions"])))
        await admin.delete_topics([topic])
        say("there", str(topic in await admin.list_topics()).lower())
        await admin.close()


class QuixStreams:
    """quixstreams: its producer and consumer, used as in applications."""

    def write(self, topic: str, prefix: str, count: int, codec: str, pause_ms: int) -> None:
        from quixstreams import Application

        extra = {"enable.idempotence": True, "compression.type": codec}
        application = Application(broker_address=SERVERS, producer_extra_config=extra, loglevel="ERROR")

        def print_result(error: object, record: object) -> None:
            say("failed" if error else "acked", record.value().decode())

        with application.get_producer() as producer:
            for value in values(prefix, count, pause_ms):
                producer.produce(topic, value.encode(), on_delivery=print_result)
                producer.poll(0)

    def read(self, topic: str, group: str) -> None:
        from quixstreams import Application

        application = Application(
            broker_address=SERVERS,
            consumer_group=group,
            auto_offset_reset="earliest",
            auto_create_topics=False,
            commit_interval=0.2,
            consumer_extra_config={"partition.assignment.strategy": "roundrobin"},
            loglevel="ERROR",
        )
        source = application.topic(topic, value_deserializer="bytes")
        application.dataframe(source).update(lambda value: say("read", value.decode()))
        threading.Thread(target=lambda: (ENDED.wait(), application.stop()), daemon=True).start()
        application.run()


class FastStream:
    """faststream on aiokafka: a broker object that publishes, and an application with a subscriber."""

    def write(self, *arguments: object) -> None:
        asyncio.run(self._write(*arguments))

    async def _write(self, topic: str, prefix: str, count: int, codec: str, pause_ms: int) -> None:
        from faststream.kafka import KafkaBroker

        codec = None if codec == "none" else codec
        async with KafkaBroker(SERVERS, enable_idempotence=True, compression_type=codec, logger=None) as broker:
            for value in values(prefix, count, 0):
                try:
                    await broker.publish(value, topic=topic)
                    say("acked", value)
                except Exception:
                    say("failed", value)
                await asyncio.sleep(pause_ms / 1000)

    def read(self, topic: str, group: str) -> None:
        from faststream import FastStream as Application
        from faststream.kafka import KafkaBroker

        broker = KafkaBroker(SERVERS, logger=None)

        @broker.subscriber(topic, group_id=group, auto_offset_reset="earliest")
        async def take(value: str) -> None:
            say("read", value)

        application = Application(broker, logger=None)

        @application.after_startup
        async def watch() -> None:
            async def end() -> None:
                while not ENDED.is_set():
                    await asyncio.sleep(0.05)
                application.exit()

            self._watching = asyncio.create_task(end())

        asyncio.run(application.run())


CLIENTS = {
    "confluent-kafka": Librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
    "quixstreams": QuixStreams,
    "faststream": FastStream,
}
if __name__ == "__main__":
    client = CLIENTS[NAME]()
    if VERB == "write":
        topic, prefix, count, codec, pause = GIVEN
        client.write(topic, prefix, int(count), codec, int(pause))
    else:
        if VERB == "read":
            threading.Thread(target=wait_for_end, daemon=True).start()
        getattr(client, VERB)(*GIVEN)
