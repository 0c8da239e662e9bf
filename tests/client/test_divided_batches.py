"""A batch that the leader rejects as too large is divided and sent again (KIP-126).

User reports: KAFKA-3995 (compressed batches that grow), KAFKA-8350 (the topic's limit is below batch.size), and the
producers of librdkafka and aiokafka, which fail all records of such a batch.
"""

import asyncio
import os

import pyarrow as pa
import pytest

from kafkaframes import Broker
from kafkaframes.client import AsyncProducer, Consumer, Producer, TopicPartition
from kafkaframes.client.size_limits import SizeLimits
from kafkaframes.errors import BrokerError, ErrorCode, MaybeWrittenError
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_records
from kafkaframes.records.divide import split_batch

MAX_MESSAGE_BYTES = 2_000


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def topic(broker, request):
    name = f"small-{abs(hash(request.node.name))}"
    broker.create_topic(name, 1, max_message_bytes=MAX_MESSAGE_BYTES)
    return name


def values(count: int, size: int = 500) -> list[bytes]:
    return [b"%03d" % number + os.urandom(size) for number in range(count)]


def values_in(broker, topic: str) -> list[bytes]:
    return [record.value for record in broker.records(topic)]


# without idempotence, the order is kept only with one request in flight
ONE_IN_FLIGHT = {"max_in_flight_requests_per_connection": 1}


@pytest.mark.parametrize(
    "settings",
    [{}, {"enable_idempotence": False, **ONE_IN_FLIGHT}, {"acks": 1, **ONE_IN_FLIGHT}, {"compression_type": "zstd"}],
)
def test_records_of_a_too_large_batch_are_written_once_and_in_order(broker, topic, settings):
    sent_values = values(40)
    with Producer(broker.bootstrap_servers, linger_ms=1_000, batch_size=15_000, **settings) as producer:
        futures = [producer.send(topic, value, partition=0) for value in sent_values]
        producer.flush()
        assert [future.result(60).offset for future in futures] == list(range(40))
    assert values_in(broker, topic) == sent_values


def test_a_too_large_record_fails_alone(broker, topic):
    sent_values, calls = [*values(5), os.urandom(MAX_MESSAGE_BYTES), *values(5)], []
    with Producer(broker.bootstrap_servers, linger_ms=1_000) as producer:
        futures = [
            producer.send(topic, value, on_delivery=lambda *arguments: calls.append(arguments)) for value in sent_values
        ]
        producer.flush()
        errors = [future.exception(60) for future in futures]
        assert [error for error in errors if error is not None] == [errors[5]]
        assert isinstance(errors[5], BrokerError)
        assert not isinstance(errors[5], MaybeWrittenError)
        assert errors[5].code == ErrorCode.MESSAGE_TOO_LARGE
        assert [error for error, _ in calls] == errors
        assert producer.send(topic, b"next").result(60).offset == 10
    assert values_in(broker, topic) == [*sent_values[:5], *sent_values[6:], b"next"]


def test_too_large_records_fail_alone_on_an_event_loop_too(broker, topic):
    async def run():
        async with AsyncProducer(broker.bootstrap_servers, linger_ms=1_000) as producer:
            futures = [
                await producer.send(topic, value) for value in [*values(5), os.urandom(MAX_MESSAGE_BYTES), *values(3)]
            ]
            await producer.flush()
            return await asyncio.gather(*futures, return_exceptions=True)

    results = asyncio.run(run())
    assert isinstance(results.pop(5), BrokerError)
    assert [result.offset for result in results] == list(range(8))


def test_the_result_of_a_table_has_a_row_for_each_written_part(broker, topic):
    sent_values = values(40)
    with Producer(broker.bootstrap_servers, batch_size=15_000) as producer:
        written_rows = producer.send_arrow(pa.table({"value": sent_values}), topic=topic).to_pydict()
    assert sum(written_rows["count"]) == 40
    starts = [sum(written_rows["count"][:row]) for row in range(len(written_rows["count"]))]
    assert written_rows["base_offset"] == starts
    assert values_in(broker, topic) == sent_values


def test_divided_batches_of_bytes_are_rebuilt_and_counted(broker, topic):
    sent_values = values(30)
    data = build_records({"value": sent_values[:29], "timestamp": list(range(29))}, codec="lz4", batch_bytes=100_000)
    small = build_records({"value": sent_values[29:], "timestamp": [29]})
    with Producer(broker.bootstrap_servers) as producer:
        result = producer.send_batches(TopicPartition(topic, 0), data + small)
    assert (result, result.divided_count) == ([0, 29], 1)
    assert values_in(broker, topic) == sent_values
    assert [record.timestamp for record in broker.records(topic)] == list(range(30))


def test_all_parts_of_a_divided_batch_are_committed_in_a_transaction(broker, topic):
    sent_values = values(20)
    with Producer(broker.bootstrap_servers, transactional_id=topic, linger_ms=1_000) as producer:
        producer.begin_transaction()
        for value in sent_values:
            producer.send(topic, value)
        producer.send_arrow(pa.table({"value": sent_values}), topic=topic)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, os.urandom(MAX_MESSAGE_BYTES))
        with pytest.raises(BrokerError):
            producer.commit_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"last")
        producer.commit_transaction()
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        read_values = []
        while read_values[-1:] != [b"last"]:
            read_values += [record.value for record in consumer.poll(1_000)]
    assert read_values == [*sent_values, *sent_values, b"last"]


def test_later_batches_of_the_topic_are_not_larger_than_the_accepted_size(broker, topic):
    with Producer(broker.bootstrap_servers, linger_ms=1_000) as producer:

        def count_rejections() -> int:
            broker.journal.clear()
            for value in values(20):
                producer.send(topic, value)
            producer.flush()
            producer.send_arrow(pa.table({"value": values(20)}), topic=topic)
            return sum(
                partition.error_code == ErrorCode.MESSAGE_TOO_LARGE
                for call in broker.journal.requests("Produce")
                for answer in call.answer.responses
                for partition in answer.partition_responses
            )

        assert count_rejections() > 0
        assert count_rejections() == 0


@pytest.mark.parametrize("first", ["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"])
def test_a_batch_whose_first_attempt_may_have_been_written_is_also_divided(broker, topic, first):
    sent_values = values(20)
    with (
        broker.on("Produce", topic=topic).error(first).once(),
        Producer(broker.bootstrap_servers, linger_ms=1_000) as producer,
    ):
        futures = [producer.send(topic, value) for value in sent_values]
        producer.flush()
        assert [future.result(60).offset for future in futures] == list(range(20))
    assert values_in(broker, topic) == sent_values


def test_old_message_sets_are_divided():
    sent_values = values(20)
    for release, codec in (("0.9.0", "none"), ("0.10.2", "gzip")):
        with Broker(broker_release=release) as old:
            old.create_topic("small", 1, max_message_bytes=MAX_MESSAGE_BYTES)
            with Producer(
                old.bootstrap_servers, api_version=release, linger_ms=1_000, compression_type=codec, **ONE_IN_FLIGHT
            ) as producer:
                futures = [producer.send("small", value) for value in sent_values]
                producer.flush()
                assert [future.result(60).offset for future in futures] == list(range(20))
            assert values_in(old, "small") == sent_values


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("record_format", [0, 1, 2])
@pytest.mark.parametrize("part", [1, 700, 5_000])
def test_parts_of_a_batch_keep_its_records_and_header_fields(codec, record_format, part):
    if record_format < 2 and codec == "zstd":
        pytest.skip("zstd requires format 2")
    rows = [{"key": b"k%d" % n, "value": os.urandom(40) * (n % 5)} for n in range(40)]
    options = {}
    if record_format:
        rows = [{**row, "timestamp": 1_000 + n} for n, row in enumerate(rows)]
    if record_format == 2:
        rows[3]["headers"], rows[7]["value"] = [("h", b"1"), ("h", None)], None
        options = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 2**31 - 5, "transactional": True}
    data = build_records(rows, record_format=record_format, codec=codec, batch_bytes=10**9, **options)
    parts = split_batch(data, min(part, len(data) - 1))
    assert len(parts) >= 2
    assert sum(count for _, count in parts) == 40
    before = [record for batch in read_batches(data) for record in batch.records]
    batches = [batch for piece, _ in parts for batch in read_batches(piece)]
    assert [record for batch in batches for record in batch.records] == before
    assert not any(batch.damage for batch in batches)


def test_a_size_limit_is_dropped_after_its_time_or_when_larger_batches_are_accepted():
    limits = SizeLimits(300.0)
    assert limits.get_max_batch_bytes("t", 0.0) is None
    assert limits.record_rejection("t", 900, 0.0) == 600
    limits.record_success("t", 500)
    limits.record_success("t", 100)
    assert limits.get_max_batch_bytes("t", 299.0) == 600
    assert limits.record_rejection("t", 600, 10.0) == 500
    assert limits.get_max_batch_bytes("other", 10.0) is None
    assert limits.get_max_batch_bytes("t", 310.0) is None
    limits.record_rejection("t", 900, 400.0)
    limits.record_success("t", 900)
    assert limits.get_max_batch_bytes("t", 400.0) is None
