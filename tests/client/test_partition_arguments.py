"""Partitions as arguments: every method of every client accepts ``TopicPartition`` and ``(topic, number)``.

In kafka-python and aiokafka, ``TopicPartition`` is a tuple, so code that passes plain pairs is common. Other values are
rejected with a clear message, before any request.
"""

import contextlib
import inspect

import pytest

from kafkaframes import Broker
from kafkaframes.client import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition
from kafkaframes.errors import BrokerError, KafkaframesError, OptionError
from kafkaframes.records.build import build_records

PAIR, PARTITION = ("t", 0), TopicPartition("t", 0)

CONSUMER_CALLS = {
    "assign": lambda client, p: client.assign([p]),
    "assign, mapping": lambda client, p: client.assign({p: 0}),
    "assign, ends": lambda client, p: client.assign([PARTITION], ends={p: 1}),
    "seek": lambda client, p: client.seek(p, 1),
    "seek_to_beginning": lambda client, p: client.seek_to_beginning(p),
    "seek_to_end": lambda client, p: client.seek_to_end(p),
    "position": lambda client, p: client.position(p),
    "pause": lambda client, p: client.pause(p),
    "resume": lambda client, p: client.resume(p),
    "offsets_for_times": lambda client, p: client.offsets_for_times({p: 0}),
    "beginning_offsets": lambda client, p: client.beginning_offsets([p]),
    "end_offsets": lambda client, p: client.end_offsets([p]),
    "skip_gap": lambda client, p: client.skip_gap(p, 0),
    "commit": lambda client, p: client.commit({p: 1}),
    "committed": lambda client, p: client.committed([p]),
}
ADMIN_CALLS = {
    "delete_records": lambda client, p: client.delete_records({p: 0}),
    "list_offsets": lambda client, p: client.list_offsets({p: -1}),
    "group_offsets": lambda client, p: client.group_offsets("g", [p]),
    "alter_group_offsets": lambda client, p: client.alter_group_offsets("other", {p: 1}),
    "delete_group_offsets": lambda client, p: client.delete_group_offsets("other", [p]),
    "share_group_offsets": lambda client, p: client.share_group_offsets("s", [p]),
    "alter_share_group_offsets": lambda client, p: client.alter_share_group_offsets("s", {p: 0}),
    "elect_leaders": lambda client, p: client.elect_leaders([p]),
    "alter_partition_reassignments": lambda client, p: client.alter_partition_reassignments({p: [0]}),
    "list_partition_reassignments": lambda client, p: client.list_partition_reassignments([p]),
    "describe_producers": lambda client, p: client.describe_producers([p]),
    "abort_transaction": lambda client, p: client.abort_transaction(p, 1, 0),
}
PRODUCER_CALLS = {
    "send_batches": lambda client, p: client.send_batches(p, build_records([{"value": b"x"}])),
    "send_offsets_to_transaction": lambda client, p: client.send_offsets_to_transaction({p: 1}, "other"),
}


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        broker.create_topic("t", 1)
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"x").result(30)
        yield broker


@contextlib.contextmanager
def client_with(broker, method):
    if method in ADMIN_CALLS:
        with Admin(broker.bootstrap_servers) as admin:
            yield ADMIN_CALLS[method], admin
    elif method in CONSUMER_CALLS:
        with Consumer(broker.bootstrap_servers, group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([PARTITION])
            yield CONSUMER_CALLS[method], consumer
    else:
        settings = {} if method == "send_batches" else {"transactional_id": "x"}
        with Producer(broker.bootstrap_servers, **settings) as producer:
            if settings:
                producer.begin_transaction()
            yield PRODUCER_CALLS[method], producer
            if settings:
                producer.abort_transaction()


METHODS = (*CONSUMER_CALLS, *ADMIN_CALLS, *PRODUCER_CALLS)


def call_outcome(call, client, partition):
    """Return the result of a method, or the broker's error."""
    try:
        return call(client, partition)
    except BrokerError as error:
        return error.code


@pytest.mark.parametrize("method", METHODS)
def test_a_pair_of_topic_and_number_is_accepted_as_a_partition(broker, method):
    with client_with(broker, method) as (call, client):
        assert call_outcome(call, client, PAIR) == call_outcome(call, client, PARTITION) or method == "send_batches"


@pytest.mark.parametrize("partition", ["t", ("t", "0"), ("t", 0, 0), (b"t", 0), ("t", True), None, 0])
@pytest.mark.parametrize("method", METHODS)
def test_other_values_are_rejected_with_a_clear_message(broker, method, partition):
    refusal = pytest.raises(OptionError, match="is not a partition; use TopicPartition")
    with client_with(broker, method) as (call, client), refusal:
        call(client, partition)


def test_a_single_partition_is_rejected_as_a_list_of_partitions(broker):
    with Consumer(broker.bootstrap_servers, group_id="g") as consumer, Admin(broker.bootstrap_servers) as admin:
        for call in (consumer.assign, consumer.end_offsets, consumer.committed, admin.elect_leaders):
            for value in (PARTITION, "t", 1):
                with pytest.raises(OptionError, match="is not a list of partitions"):
                    call(value)
        for call in (consumer.offsets_for_times, consumer.commit, admin.list_offsets, admin.delete_records):
            for value in (PARTITION, [PARTITION]):
                with pytest.raises(OptionError, match="is not a dict of partitions"):
                    call(value)
        with pytest.raises(KafkaframesError, match="is not a partition"):
            consumer.end_offsets(PAIR)


def test_every_method_that_takes_partitions_is_in_this_file():
    names = {method.partition(",")[0] for method in METHODS}
    for client in (AsyncConsumer, AsyncAdmin, AsyncProducer):
        for name, method in inspect.getmembers(client, inspect.isfunction):
            texts = [parameter.annotation for parameter in inspect.signature(method).parameters.values()]
            if not name.startswith("_") and any("Partition" in str(text) for text in texts):
                assert name in names, name
                assert not any("TopicPartition" in str(text) for text in texts), name
