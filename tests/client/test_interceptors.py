"""Interceptors (KIP-42) are called for each record or table, in order, and their errors lose no records."""

import asyncio
import logging
import threading
from contextlib import contextmanager

import pyarrow as pa
import pytest
from click.testing import CliRunner

from kafkaframes.broker import Broker
from kafkaframes.cli.main import cli
from kafkaframes.client import AsyncConsumer, AsyncProducer, Consumer, Producer, ProducerRecord, ShareConsumer
from kafkaframes.client.settings import ConsumerSettings, ProducerSettings
from kafkaframes.errors import BrokerError, EncodeError, ErrorCode, NetworkError, OptionError

PATIENCE_S = 60


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def topic(broker, request):
    name = f"t{abs(hash(request.node.nodeid))}"
    broker.create_topic(name, 2)
    return name


class RecordingInterceptor:
    """An interceptor that appends its name to values, and records its calls and their threads."""

    def __init__(self, name: str = "a") -> None:
        self.name = name
        self.calls: list = []
        self.threads: dict[str, threading.Thread] = {}

    def _note(self, hook: str, *arguments) -> None:
        self.calls.append((hook, *arguments))
        self.threads[hook] = threading.current_thread()

    def of(self, hook: str) -> list:
        return [call[1] if len(call) == 2 else call[1:] for call in self.calls if call[0] == hook]

    def on_send(self, record):
        self._note("on_send", record)
        return record._replace(value=(record.value or b"") + self.name.encode())

    def on_acknowledgement(self, metadata, error):
        self._note("on_acknowledgement", metadata, error)

    def on_send_table(self, table, topic):
        self._note("on_send_table", table, topic)
        values = [value + self.name.encode() for value in table.column("value").to_pylist()]
        return table.set_column(table.schema.get_field_index("value"), "value", pa.array(values, pa.binary()))

    def on_acknowledgement_table(self, result, error):
        self._note("on_acknowledgement_table", result, error)

    def on_consume(self, records):
        self._note("on_consume", records)
        return [record._replace(value=record.value + self.name.encode()) for record in records]

    def on_consume_table(self, table):
        self._note("on_consume_table", table)
        return table.slice(0, 1)

    def on_commit(self, offsets):
        self._note("on_commit", offsets)


class FailingInterceptor:
    """An interceptor whose methods raise or return invalid values."""

    def __init__(self, result=None):
        self._result = result

    def _fail(self, *_):
        if self._result is None:
            raise RuntimeError("an error inside the interceptor")
        return self._result

    on_send = on_acknowledgement = on_consume = on_commit = _fail
    on_send_table = on_acknowledgement_table = on_consume_table = _fail


class Observer:
    """An interceptor that changes nothing: its methods return None."""

    def __init__(self):
        self.count = 0

    def on_send(self, record):
        self.count += 1

    def on_consume(self, records):
        self.count += len(records)


def read_stored_values(broker, topic) -> list[bytes]:
    return sorted(record.value for number in range(2) for record in broker.records(topic, number))


async def send_all_async(servers, topic, values, **settings):
    async with AsyncProducer(servers, **settings) as producer:
        futures = [await producer.send(topic, value) for value in values]
        return [await future for future in futures]


def send_all(servers, topic, values, **settings):
    with Producer(servers, **settings) as producer:
        return [future.result(PATIENCE_S) for future in [producer.send(topic, value) for value in values]]


SENDERS = {
    "sync": send_all,
    "async": lambda *arguments, **settings: asyncio.run(send_all_async(*arguments, **settings)),
}


@pytest.fixture(params=SENDERS)
def send(request, broker, topic):
    return lambda values, **settings: SENDERS[request.param](broker.bootstrap_servers, topic, values, **settings)


def test_each_interceptor_gets_the_record_of_the_previous_one(broker, topic, send):
    first, second = RecordingInterceptor("a"), RecordingInterceptor("b")
    metadata = send([b"1", "2"], interceptors=[first, second])
    assert read_stored_values(broker, topic) == [b"1ab", b"2ab"]
    assert [record.value for record in first.of("on_send")] == [b"1", b"2"]  # text is already encoded
    assert [record.value for record in second.of("on_send")] == [b"1a", b"2a"]
    assert first.of("on_acknowledgement") == second.of("on_acknowledgement") == [(entry, None) for entry in metadata]


INVALID_RESULTS = [
    None,  # raises
    3,
    ProducerRecord(""),
    ProducerRecord("t", value=3),
    ProducerRecord("t", partition="1"),
    ProducerRecord("t", value=b"v" * 2_000_000),
]


@pytest.mark.parametrize("result", INVALID_RESULTS)
def test_a_failed_interceptor_is_logged_and_skipped(broker, topic, send, result, caplog):
    last = RecordingInterceptor("c")
    with caplog.at_level(logging.ERROR, "kafkaframes.client"):
        send([b"1"], interceptors=[RecordingInterceptor("a"), FailingInterceptor(result), last])
    assert read_stored_values(broker, topic) == [b"1ac"]
    assert "interceptor FailingInterceptor failed in on_send" in caplog.text
    assert [error for _, error in last.of("on_acknowledgement")] == [None]


def test_returning_none_leaves_a_record_unchanged(broker, topic, send):
    observer = Observer()
    send([b"1", b"2"], interceptors=[observer])
    assert (read_stored_values(broker, topic), observer.count) == ([b"1", b"2"], 2)


def test_a_function_adds_headers(broker, topic, send):
    send([b"1"], interceptors=[lambda record: {"topic": record.topic}, lambda record: [("n", None)], lambda _: None])
    headers = [record.headers for number in range(2) for record in broker.records(topic, number)]
    assert [[tuple(pair) for pair in pairs] for pairs in headers] == [[(b"topic", topic.encode()), (b"n", None)]]


def test_an_interceptor_may_set_topic_partition_and_timestamp(broker, topic, send):
    class RoutingInterceptor:
        def on_send(self, record):
            return record._replace(topic=f"{topic}-b", partition=1, timestamp_ms=5)

    broker.create_topic(f"{topic}-b", 2)
    (metadata,) = send([b"1"], interceptors=[RoutingInterceptor()])
    assert metadata[:2] + metadata[3:] == (f"{topic}-b", 1, 5)


def test_on_acknowledgement_gets_the_partition_and_error_of_a_rejected_record(broker, topic, send):
    recorder = RecordingInterceptor()
    broker.create_topic(f"{topic}-small", 2, max_message_bytes=200)
    with pytest.raises(BrokerError):
        SENDERS["sync"](broker.bootstrap_servers, f"{topic}-small", [b"v" * 500], interceptors=[recorder])
    ((metadata, error),) = recorder.of("on_acknowledgement")
    assert metadata.topic == f"{topic}-small"
    assert metadata.partition in (0, 1)
    assert (metadata.offset, error.code) == (-1, ErrorCode.MESSAGE_TOO_LARGE)


def test_on_acknowledgement_gets_the_error_that_send_raises(broker, send, topic):
    """KAFKA-3162: Java also calls ``onAcknowledgement`` for records that fail before they are sent."""
    recorder = RecordingInterceptor()

    class UnknownPartitionInterceptor:
        def on_send(self, record):
            return record._replace(partition=9)

    with pytest.raises(BrokerError, match="has no partition 9"):
        send([b"1"], interceptors=[UnknownPartitionInterceptor(), recorder])
    ((metadata, error),) = recorder.of("on_acknowledgement")
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 9, -1)
    assert isinstance(error, BrokerError)


def test_an_invalid_record_is_rejected_before_interceptors_are_called(send):
    recorder = RecordingInterceptor()
    with pytest.raises(EncodeError, match="value is an int"):
        send([3], interceptors=[recorder])
    assert recorder.calls == []


def test_records_of_a_closed_producer_are_acknowledged(broker, topic):
    recorder = RecordingInterceptor()
    producer = Producer(broker.bootstrap_servers, interceptors=[recorder], linger_ms=60_000)
    future = producer.send(topic, b"1")
    producer.close(flush=False)
    assert isinstance(future.exception(PATIENCE_S), NetworkError)
    with pytest.raises(NetworkError):
        producer.send(topic, b"2")
    assert [type(error) for _, error in recorder.of("on_acknowledgement")] == [NetworkError, NetworkError]


def test_a_cancelled_future_does_not_hide_the_acknowledgement(broker, topic):
    recorder = RecordingInterceptor()

    async def run():
        async with AsyncProducer(broker.bootstrap_servers, interceptors=[recorder], linger_ms=200) as producer:
            (await producer.send(topic, b"1")).cancel()

    asyncio.run(run())
    ((metadata, error),) = recorder.of("on_acknowledgement")
    assert (metadata.offset, error) == (0, None)


def test_on_send_runs_in_the_thread_that_sends_and_acknowledgement_before_on_delivery(broker, topic):
    recorder, order = RecordingInterceptor(), []
    recorder.on_acknowledgement = lambda *_: order.append("interceptor")
    with Producer(broker.bootstrap_servers, interceptors=[recorder, FailingInterceptor()]) as producer:
        producer.send(topic, b"1", on_delivery=lambda *_: order.append("on_delivery"))
        producer.flush()
    assert order == ["interceptor", "on_delivery"]
    assert recorder.threads["on_send"] is threading.current_thread()


# ------------------------------------------------------------------------------------------------------------ tables


def queue_table(producer, table, topic):
    return producer.queue_arrow(table, topic=topic).result(PATIENCE_S)


@pytest.mark.parametrize("write", [Producer.send_arrow, queue_table], ids=["send_arrow", "queue_arrow"])
def test_tables_are_intercepted_as_a_whole(broker, topic, write):
    recorder = RecordingInterceptor()
    with Producer(
        broker.bootstrap_servers, interceptors=[recorder, FailingInterceptor(pa.table({"value": [b"x"]}))]
    ) as producer:
        result = write(producer, pa.table({"value": [b"1", b"2"]}), topic=topic)
        producer.flush()
    assert read_stored_values(broker, topic) == [b"1a", b"2a"]
    assert recorder.of("on_acknowledgement_table") == [(result, None)]
    assert recorder.threads["on_send_table"] is threading.current_thread()


def test_the_async_producer_intercepts_tables_and_reports_their_errors(broker, topic):
    recorder = RecordingInterceptor()

    async def run():
        async with AsyncProducer(broker.bootstrap_servers, interceptors=[recorder]) as producer:
            result = await producer.send_arrow(pa.table({"value": [b"1"]}), topic=topic)
            with pytest.raises(BrokerError) as caught:
                await producer.send_arrow(pa.table({"value": [b"2"], "partition": [7]}), topic=topic)
            assert recorder.of("on_acknowledgement_table") == [(result, None), (None, caught.value)]

    asyncio.run(run())
    assert read_stored_values(broker, topic) == [b"1a"]


def test_methods_for_tables_and_bytes_reject_interceptors_that_would_miss_records(broker, topic):
    with Producer(broker.bootstrap_servers, interceptors=[Observer()]) as producer:
        for write in (producer.send_arrow, producer.queue_arrow):
            with pytest.raises(OptionError, match=r"Observer has `on_send`, .* add the method `on_send_table`"):
                write(pa.table({"value": [b"1"]}), topic=topic)
        with pytest.raises(OptionError, match=r"Observer has `on_send`, and send_batches\(\) handles batches as bytes"):
            producer.send_batches((topic, 0), b"")
    with (
        Producer(broker.bootstrap_servers, interceptors=[lambda record: {}]) as producer,
        pytest.raises(OptionError, match=r"lambda.*has `on_send`"),
    ):
        producer.send_arrow(pa.table({"value": [b"1"]}), topic=topic)
    with Consumer(broker.bootstrap_servers, interceptors=[Observer()]) as consumer:
        with pytest.raises(OptionError, match=r"Observer has `on_consume`, .* add the method `on_consume_table`"):
            consumer.fetch_arrow(0)
        with pytest.raises(OptionError, match=r"Observer has `on_consume`, and fetch\(\) handles batches as bytes"):
            consumer.fetch(0)
    assert read_stored_values(broker, topic) == []


# --------------------------------------------------------------------------------------------------------- consumers


@contextmanager
def consumer_of(broker, topic, count, **settings):
    send_all(broker.bootstrap_servers, topic, [b"%d" % number for number in range(count)], batch_size=100)
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        yield consumer


def poll_all(consumer, count):
    records = []
    for _ in range(1_000):
        records += consumer.poll(100)
        if len(records) >= count:
            return records
    raise AssertionError(f"received {len(records)} of {count} records")


def test_poll_returns_the_interceptors_result_and_calls_them_in_the_callers_thread(broker, topic):
    first, second = RecordingInterceptor("a"), RecordingInterceptor("b")
    with consumer_of(
        broker, topic, 20, interceptors=[first, FailingInterceptor(), FailingInterceptor([1]), second]
    ) as consumer:
        records = poll_all(consumer, 20)
    assert sorted(record.value for record in records) == sorted(b"%dab" % number for number in range(20))
    assert first.threads["on_consume"] is threading.current_thread()
    assert all(first.of("on_consume"))  # never without records


def test_the_position_advances_past_records_that_an_interceptor_drops(broker, topic):
    class OddRecordFilter:
        def on_consume(self, records):
            return [record for record in records if int(record.value) % 2]

    with consumer_of(broker, topic, 20, interceptors=[OddRecordFilter()]) as consumer:
        assert sorted(int(record.value) for record in poll_all(consumer, 10)) == list(range(1, 20, 2))
        assert sum(consumer.position((topic, number)) for number in (0, 1)) == 20


def test_iteration_calls_interceptors_for_each_record(broker, topic):
    class DuplicatingInterceptor:
        def on_consume(self, records):
            sizes.append(len(records))
            return [*records, *records]

    sizes = []
    with consumer_of(broker, topic, 5, interceptors=[DuplicatingInterceptor()]) as consumer:
        values = [record.value for _, record in zip(range(10), consumer, strict=False)]
    assert sorted(values) == sorted([b"%d" % number for number in range(5)] * 2)
    assert sizes == [1] * 5


def test_the_async_consumer_calls_the_same_interceptor_methods(broker, topic):
    send_all(broker.bootstrap_servers, topic, [b"1", b"2"])
    recorder = RecordingInterceptor("a")

    async def run():
        settings = {
            "auto_offset_reset": "earliest",
            "group_id": topic,
            "interceptors": [recorder, FailingInterceptor()],
        }
        async with AsyncConsumer(broker.bootstrap_servers, enable_auto_commit=False, **settings) as consumer:
            await consumer.assign([(topic, 0), (topic, 1)])
            values = []
            async for record in consumer:
                values.append(record.value)
                if len(values) == 2:
                    break
            await consumer.commit({(topic, 0): 1})
            return values

    assert sorted(asyncio.run(run())) == [b"1a", b"2a"]
    assert [{str(key): value.offset for key, value in call.items()} for call in recorder.of("on_commit")] == [
        {f"{topic}-0": 1}
    ]


def test_fetch_arrow_returns_the_interceptors_table(broker, topic, caplog):
    recorder = RecordingInterceptor()
    with consumer_of(
        broker, topic, 20, interceptors=[recorder, FailingInterceptor(pa.table({"a": [1]})), FailingInterceptor()]
    ) as consumer:
        table = consumer.fetch_arrow(30_000)
    assert table.num_rows == 1  # the result of the recording interceptor; the others fail
    assert recorder.threads["on_consume_table"] is threading.current_thread()
    assert caplog.text.count("interceptor FailingInterceptor failed in on_consume_table") == 2


def test_on_commit_is_called_in_the_callers_thread_for_each_kind_of_commit(broker, topic):
    recorder = RecordingInterceptor()
    settings = {"group_id": topic, "auto_commit_interval_ms": 1, "interceptors": [FailingInterceptor(), recorder]}
    with consumer_of(broker, topic, 20, **settings) as consumer:
        poll_all(consumer, 20)
        for _ in range(1_000):  # the automatic commit is reported by a later poll
            if recorder.of("on_commit"):
                break
            consumer.poll(20)
        automatic_commits = len(recorder.of("on_commit"))
        assert automatic_commits
        consumer.commit()
        assert len(recorder.of("on_commit")) > automatic_commits
        consumer.seek((topic, 0), 0)
        before_close = len(recorder.of("on_commit"))
    assert recorder.of("on_commit")[before_close:]  # ``close`` commits positions
    assert recorder.threads["on_commit"] is threading.current_thread()


def test_a_failed_commit_is_not_reported_to_interceptors(broker, topic):
    recorder = RecordingInterceptor()
    settings = {"group_id": topic, "enable_auto_commit": False, "interceptors": [recorder]}
    with (
        consumer_of(broker, topic, 1, **settings) as consumer,
        broker.on("OffsetCommit").error(ErrorCode.GROUP_AUTHORIZATION_FAILED),
        pytest.raises(BrokerError),
    ):
        consumer.commit({(topic, 0): 1})
    assert recorder.of("on_commit") == []


# ---------------------------------------------------------------------------------------------------------- settings

CLOSED_NAMES: list[str] = []
CLOSABLE = f"{__name__}:ClosableInterceptor"


class ClosableInterceptor:
    """An interceptor class that clients create by its name and close."""

    def on_send(self, record):
        return record._replace(headers=(*record.headers, ("by", b"name")))

    def on_send_table(self, table, topic):
        return pa.table({"value": pa.array([b"named"] * table.num_rows)})

    def on_consume_table(self, table):
        return table.set_column(table.schema.get_field_index("value"), "value", pa.array([b"read"] * table.num_rows))

    def on_commit(self, offsets):
        pass

    def close(self):
        CLOSED_NAMES.append("closed")


def test_clients_create_and_close_interceptor_classes_but_not_objects(broker):
    CLOSED_NAMES.clear()
    for client in (Producer, Consumer):
        client(broker.bootstrap_servers, interceptors=[ClosableInterceptor()]).close()
    assert CLOSED_NAMES == []
    for client in (Producer, Consumer):
        for interceptors in (
            [ClosableInterceptor],
            CLOSABLE,
            f" {CLOSABLE} , {CLOSABLE}",
        ):
            client({"bootstrap.servers": broker.bootstrap_servers, "interceptor.classes": interceptors}).close()
    assert CLOSED_NAMES == ["closed"] * 8


def test_commands_accept_interceptors(broker, topic):
    run = CliRunner().invoke
    servers, option = broker.bootstrap_servers, f"interceptor.classes={CLOSABLE}"
    result = run(cli, ["produce", "-b", servers, topic, "-X", option], input="one\n", catch_exceptions=False)
    assert (result.exit_code, read_stored_values(broker, topic)) == (0, [b"named"])
    result = run(cli, ["consume", "-b", servers, topic, "-X", option, "-c", "1"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "read" in result.output


def test_interceptors_that_a_client_would_never_call_are_rejected():
    class WithoutMethods:
        pass

    for settings, interceptors, reason in [
        (AsyncProducer, [WithoutMethods()], "WithoutMethods: expected an object with one of the methods on_send"),
        (AsyncProducer, [type("C", (), {"on_consume": print})], "expected an object with one of the methods on_send"),
        (AsyncConsumer, [type("P", (), {"on_send": print})], "one of the methods on_consume, on_commit"),
        (AsyncConsumer, [lambda record: {}], "one of the methods on_consume, on_commit"),
        (AsyncProducer, "com.example.Interceptor", "expected module:function"),
        (AsyncProducer, f"{__name__}:nothing", "has no attribute 'nothing'"),
        (
            AsyncProducer,
            [RecordingInterceptor, type("F", (), {"__init__": lambda self, name: None})],
            "without arguments",
        ),
    ]:
        with pytest.raises(OptionError, match=reason):
            settings("a:1", interceptors=interceptors)
    with pytest.raises(OptionError, match=r"interceptor\.classes is not a setting of share consumers"):
        ShareConsumer({"bootstrap.servers": "a:1", "group.id": "g", "interceptor.classes": CLOSABLE})
    assert ProducerSettings.from_options({"bootstrap.servers": "a:1", "interceptor.classes": ""}).interceptors == ""
    assert ConsumerSettings.from_options({"bootstrap.servers": "a:1"}).interceptors == ()
    assert AsyncProducer("a:1", interceptors="")._interceptors is None
