"""Partitioners of a producer: Java's and librdkafka's by name, or a function; for records and for rows."""

import asyncio
import random
from collections import Counter

import confluent_kafka
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.broker import Broker
from kafkaframes.cli.main import cli
from kafkaframes.client import AsyncProducer, Producer
from kafkaframes.client.accumulator import Accumulator
from kafkaframes.client.metadata import Cluster, PartitionMetadata, TopicMetadata, TopicPartition
from kafkaframes.client.partitioners import PARTITIONERS, choose_by_queue, configure_partitioner, weigh_queues
from kafkaframes.client.record_futures import ThreadResults
from kafkaframes.client.settings import ProducerSettings
from kafkaframes.errors import EncodeError, ErrorCode, NetworkError, OptionError
from kafkaframes.records.partitioner import partition_of
from kafkaframes.wire.primitives import NIL_UUID

PARTITION_COUNT = 7
JAVA_PACKAGE = "org.apache.kafka.clients.producer."
KEY_PARTITIONERS = ("consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random")


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        broker.create_topic("t", PARTITION_COUNT)
        yield broker


def by_last_byte(topic, key, value, partitions, available):
    """A user-defined partitioner, which can also be named as ``module:function``."""
    return None if key is None else key[-1] % partitions


def random_keys(count: int) -> list[bytes]:
    generator = random.Random(7)
    return [generator.randbytes(generator.randrange(1, 40)) for _ in range(count)]


def send_records(broker, records, **settings) -> list[int]:
    with Producer(broker.bootstrap_servers, **settings) as producer:
        return [future.result(30).partition for future in [producer.send("t", value, key) for key, value in records]]


def send_records_async(broker, records, **settings) -> list[int]:
    async def run():
        async with AsyncProducer(broker.bootstrap_servers, **settings) as producer:
            futures = [await producer.send("t", value, key) for key, value in records]
            return [(await future).partition for future in futures]

    return asyncio.run(run())


def send_rows(broker, records, **settings) -> list[int]:
    """Send unique values as rows; return the partition in which each value is found."""
    table = pa.table({"key": pa.array([key for key, _ in records], pa.binary()), "value": [v for _, v in records]})
    ends = broker.topics["t"].end_offsets
    with Producer(broker.bootstrap_servers, **settings) as producer:
        producer.send_arrow(table, topic="t")
    partitions = {
        record.value: number
        for number in range(PARTITION_COUNT)
        for record in broker.records("t", number)[ends[number] :]
    }
    return [partitions[value] for _, value in records]


SENDERS = {"sync": send_records, "async": send_records_async, "rows": send_rows}


@pytest.fixture(params=SENDERS)
def send(request, broker):
    return lambda records, **settings: SENDERS[request.param](broker, records, **settings)


@pytest.fixture(scope="module")
def librdkafka_partitions(broker):
    """Return the partitions of keys by the name of a partitioner, as confluent-kafka sends them."""

    def send(name: str, several: list[bytes]) -> list[int]:
        partitions: dict[int, int] = {}
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": name})
        for index, key in enumerate(several):
            callback = lambda error, message, at=index: partitions.update({at: message.partition()})  # noqa: E731
            producer.produce("t", b"", key=key, on_delivery=callback)
        assert producer.flush(30) == 0
        return [partitions[index] for index in range(len(several))]

    return send


@pytest.mark.parametrize("name", KEY_PARTITIONERS)
def test_librdkafkas_partitioner_names_choose_the_partitions_that_librdkafka_chooses(
    name, broker, librdkafka_partitions
):
    several = random_keys(60)
    records = [(key, b"") for key in several]
    assert send_records(broker, records, partitioner=name) == librdkafka_partitions(name, several)


@pytest.mark.parametrize("name", ["consistent", "murmur2", "fnv1a"])
def test_deterministic_partitioners_send_records_without_a_key_as_librdkafka_does(name, broker, librdkafka_partitions):
    (expected_partition,) = set(librdkafka_partitions(name, [None] * 5))
    assert send_records(broker, [(None, b"")] * 5, partitioner=name) == [expected_partition] * 5


def test_all_send_methods_hash_keys_alike(send):
    records = [(key, b"%d" % index) for index, key in enumerate(random_keys(40))]
    assert send(records) == [partition_of(key, PARTITION_COUNT) for key, _ in records]
    assert send(records, partitioner="fnv1a_random") == partition_numbers("fnv1a_random", records)


def partition_numbers(name: str, records) -> list[int]:
    choice = configure_partitioner(name, ignores_keys=False)
    return [choice.choose("t", key, value, PARTITION_COUNT, range(PARTITION_COUNT)) for key, value in records]


def test_round_robin_uses_each_partition_in_turn_regardless_of_the_key(send):
    records = [(key, b"%d" % index) for index, key in enumerate(random_keys(3 * PARTITION_COUNT))]
    for name in ("round_robin", f"{JAVA_PACKAGE}RoundRobinPartitioner"):
        assert send(records, partitioner=name) == list(range(PARTITION_COUNT)) * 3


def test_round_robin_calls_the_partitioner_once_for_a_record_that_opens_a_batch(send):
    """KAFKA-9965: Java's partitioner was called twice for a new batch, and half of the partitions stayed empty."""
    records = [(None, b"%d" % index + b"v" * 200) for index in range(6 * PARTITION_COUNT)]
    counts = Counter(send(records, partitioner="round_robin", batch_size=150))
    assert counts == dict.fromkeys(range(PARTITION_COUNT), 6)


def test_a_function_chooses_the_partition(send):
    records = [(key, b"%d" % index) for index, key in enumerate(random_keys(30))]
    expected_partitions = [key[-1] % PARTITION_COUNT for key, _ in records]
    assert send(records, partitioner=by_last_byte) == expected_partitions
    assert send(records, **{"partitioner.class": f"{__name__}:by_last_byte"}) == expected_partitions


@pytest.mark.parametrize("name", [f"{__name__}:by_last_byte", f"{JAVA_PACKAGE}RoundRobinPartitioner"])
def test_commands_accept_a_partitioner(name, broker):
    """Two keys share each last byte, so a function of the key and round robin give different partitions."""
    topic = f"cli-{name.rpartition('.')[2].replace(':', '-')}"
    broker.create_topic(topic, PARTITION_COUNT)
    lines = [f"{index}{letter}" for letter in "abc" for index in range(2)]
    arguments = ["produce", "-b", broker.bootstrap_servers, topic, "-K", ":", "-X", f"partitioner.class={name}"]
    result = CliRunner().invoke(cli, arguments, input="".join(f"{line}:{line}\n" for line in lines))
    assert result.exit_code == 0, result.output
    partitions = {
        record.key.decode(): number for number in range(PARTITION_COUNT) for record in broker.records(topic, number)
    }
    by_key = {line: ord(line[-1]) % PARTITION_COUNT for line in lines}
    round_robin_partitions = {line: turn for turn, line in enumerate(lines)}
    assert partitions == (by_key if name.endswith("by_last_byte") else round_robin_partitions)


def test_none_of_a_function_is_the_sticky_partition(send):
    assert len(set(send([(None, b"%d" % index) for index in range(20)], partitioner=by_last_byte))) == 1


def test_a_function_gets_topic_key_value_number_and_partitions_with_a_leader(send):
    calls = []
    send([(b"k", b"v")], partitioner=lambda *arguments: calls.append(arguments) or 0)
    assert calls == [("t", b"k", b"v", PARTITION_COUNT, list(range(PARTITION_COUNT)))]


@pytest.mark.parametrize("answer", [PARTITION_COUNT, -1, True, "1", 1.0])
def test_an_invalid_partition_is_an_error_with_the_functions_name(answer, broker):
    def wrong(topic, key, value, partitions, available):
        return answer if value == b"bad" else 1

    with Producer(broker.bootstrap_servers, partitioner=wrong) as producer:
        with pytest.raises(EncodeError, match="wrong returned") as caught:
            producer.send("t", b"bad")
        assert "from 0 to 6" in str(caught.value)
        assert producer.send("t", b"good").result(30).partition == 1
        with pytest.raises(EncodeError, match="wrong returned") as caught:
            producer.send_arrow(pa.table({"value": [b"good", b"bad"]}), topic="t")
        assert caught.value.path == (1,)


def test_an_exception_fails_its_record_only(broker):
    def choose(topic, key, value, partitions, available):
        return {b"a": 0, b"b": 1}[key]

    with Producer(broker.bootstrap_servers, partitioner=choose) as producer:
        first = producer.send("t", b"", b"a")
        with pytest.raises(EncodeError, match=r"choose raised KeyError\(b'c'\) for a record of topic t") as caught:
            producer.send("t", b"", b"c")
        assert isinstance(caught.value.__cause__, KeyError)
        second = producer.send("t", b"", b"b")
        assert [first.result(30).partition, second.result(30).partition] == [0, 1]


def test_a_partitioner_function_may_send_records(broker):
    def choose(topic, key, value, partitions, available):
        if value == b"outer":
            producer.send("t", b"inner")
        return 2

    with Producer(broker.bootstrap_servers, partitioner=choose) as producer:
        assert producer.send("t", b"outer").result(30).partition == 2


def test_an_explicit_partition_overrides_the_partitioner(send, broker):
    with Producer(broker.bootstrap_servers, partitioner=by_last_byte) as producer:
        assert producer.send("t", b"", b"\x01", partition=5).result(30).partition == 5
        table = pa.table({"key": [b"\x01", b"\x01"], "value": [b"", b""], "partition": pa.array([5, None])})
        written_rows = producer.send_arrow(table, topic="t")
    assert sorted(written_rows.column("partition").to_pylist()) == [1, 5]


@pytest.mark.parametrize("settings", [{"partitioner_ignore_keys": True}, {"partitioner": "uniform_sticky"}])
def test_keys_are_ignored_if_configured(settings, send):
    records = [(key, b"%d" % index) for index, key in enumerate(random_keys(30))]
    assert len(set(send(records, **settings))) == 1


def test_a_transactional_producer_accepts_a_partitioner_function(broker):
    with Producer(broker.bootstrap_servers, transactional_id="x", partitioner=by_last_byte) as producer:
        producer.begin_transaction()
        futures = [producer.send("t", b"", bytes([index])) for index in range(PARTITION_COUNT)]
        futures.append(producer.send("t", b""))
        producer.commit_transaction()
    assert [future.result(30).partition for future in futures[:-1]] == list(range(PARTITION_COUNT))


def test_invalid_partitioner_settings_are_rejected():
    for partitioner, reason in [
        ("com.example.Mine", "expected a function, module:function, or one of default"),
        ("nowhere:function", "partitioner=nowhere:function: No module named 'nowhere'"),
        (f"{__name__}:nothing", "has no attribute 'nothing'"),
        (lambda key, partitions: 0, "cannot be called with"),
        (f"{__name__}:PARTITION_COUNT", "is not a function"),
    ]:
        with pytest.raises(OptionError, match=reason):
            AsyncProducer("a:1", partitioner=partitioner)
    for name in ("", None, f"{JAVA_PACKAGE}internals.DefaultPartitioner", *PARTITIONERS):
        AsyncProducer("a:1", **{"partitioner.class": name})


# ---------------------------------------------------------------------------------------------- the sticky partition


def create_accumulator(leaders: list[int], **settings) -> Accumulator:
    """Return an accumulator that knows the topic t with these leaders."""
    cluster = Cluster(updated_at=float("inf"))
    rows = {n: PartitionMetadata(n, leader, 0, (1,), (1,), ErrorCode.NONE) for n, leader in enumerate(leaders)}
    cluster.topics["t"] = TopicMetadata("t", NIL_UUID, False, rows, ErrorCode.NONE)
    accumulator = Accumulator(
        ProducerSettings(bootstrap_servers="a:1", batch_size=1_000, **settings), cluster, wake=lambda: None
    )
    accumulator.results = ThreadResults
    accumulator._random.seed(3)
    accumulator.update_topic("t")
    return accumulator


def choose_partitions(accumulator: Accumulator, batches: int) -> Counter:
    """Fill batches with records without a key; return the number of batches of each partition."""
    counts: Counter = Counter()
    for _ in range(batches * 10):
        assert accumulator.add(("t", None, b"", (), None, 0, 100)) is not None
        counts.update({gathering.target.partition: len(gathering.keys) for gathering in accumulator.drain(None)[0]})
    return counts


def test_lingering_batches_share_a_partition_until_it_has_batch_size_bytes():
    """KIP-794: a slow partition got more records than others because each batch, large or small, switched
    partitions.
    """
    accumulator = create_accumulator([1] * 5)
    order = []
    for _ in range(100):
        accumulator.add(("t", None, b"", (), None, 0, 100))
        order += [gathering.target.partition for gathering in accumulator.drain(None)[0]]
    assert all(len(set(order[start : start + 10])) == 1 for start in range(0, 100, 10))
    assert len(set(order)) > 2


def test_records_larger_than_a_batch_change_the_sticky_partition_only_when_added():
    accumulator = create_accumulator([1] * 5)
    accumulator.may_open = lambda target: target in allowed_partitions
    allowed_partitions: set[TopicPartition] = set()
    for _ in range(20):
        record = ("t", None, b"", (), None, 0, 5_000)
        for _ in range(3):  # as in ``send``: the record is prepared and added
            if accumulator.add(record) is not None:
                break
            allowed_partitions.add(accumulator.find_target("t", None, None))
        else:
            pytest.fail("the record was never added")


def test_rows_of_a_producer_closed_in_the_meantime_raise_a_network_error():
    accumulator = create_accumulator([1, 1])
    accumulator.close()
    accumulator.update_topic("t")
    with pytest.raises(NetworkError, match="closed before the record was sent"):
        accumulator.choose_sticky_partitions("t", 2)


def test_partitions_without_a_leader_get_no_records_without_a_key():
    assert set(choose_partitions(create_accumulator([1, -1, 1, -1]), 100)) == {0, 2}
    assert len(choose_partitions(create_accumulator([-1, -1]), 20)) == 2  # if no partition is available, any is used


def test_partitions_with_long_queues_get_fewer_records():
    accumulator = create_accumulator([1, 1, 1])
    accumulator.built_bytes = 1
    lengths = {0: 0, 1: 0, 2: 9}
    accumulator.get_queue_length = lambda target: lengths[target.partition]
    counts = choose_partitions(accumulator, 2_000)
    assert 0.03 < counts[2] / counts.total() < 0.07  # 1 in 21
    slow = create_accumulator([1, 1, 1], partitioner_adaptive_partitioning_enable=False)
    slow.built_bytes, slow.get_queue_length = 1, accumulator.get_queue_length
    counts = choose_partitions(slow, 2_000)
    assert counts[2] / counts.total() > 0.25


def test_unresponsive_leaders_get_no_records_unless_all_are_unresponsive():
    accumulator = create_accumulator([1, 2, 2], partitioner_availability_timeout_ms=10)
    accumulator.built_bytes = 1
    accumulator.is_stalled = lambda node_id: node_id == 2
    accumulator._choose_sticky_partition(accumulator._topics["t"])
    assert set(choose_partitions(accumulator, 50)) == {0}
    accumulator.is_stalled = lambda node_id: True
    assert len(choose_partitions(accumulator, 50)) == 3


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20))
def test_a_weight_falls_as_the_queue_grows_and_is_never_zero(lengths):
    weights = weigh_queues(lengths)
    assert min(weights) == 1
    assert all(
        a + b == c + d for a, b in zip(weights, lengths, strict=True) for c, d in zip(weights, lengths, strict=True)
    )
    assert choose_by_queue(range(len(lengths)), lengths, random.Random(1)) in range(len(lengths))


def test_an_unresponsive_leader_gets_no_more_records_without_a_key():
    """Two of three nodes respond; ``partitioner.availability.timeout.ms`` keeps records away from the third."""
    with Broker(cluster=3) as broker:
        broker.create_topic("t", 3)
        leaders = {0: 1, 1: 2, 2: 3}
        for partition, node_id in leaders.items():
            broker.move_leader("t", partition, node_id)
        settings = {
            "partitioner_availability_timeout_ms": 50,
            "batch_size": 200,
            "max_in_flight_requests_per_connection": 1,
            "linger_ms": 0,
        }
        with Producer(broker.bootstrap_servers, **settings) as producer:
            for partition in range(3):
                producer.send("t", b"", partition=partition).result(30)
            with broker.on("Produce", node_id=1).hold():
                blocked_futures = [producer.send("t", b"v" * 150, partition=0) for _ in range(3)]
                broker.wait_for(lambda: producer._twin._sender._is_stalled(1), what="a leader that does not respond")
                free = [producer.send("t", b"v" * 150) for _ in range(60)]
                used_partitions = {future.result(30).partition for future in free[2:]}
                assert not any(future.done() for future in blocked_futures)
            assert {future.result(30).partition for future in blocked_futures} == {0}
    assert used_partitions == {1, 2}
