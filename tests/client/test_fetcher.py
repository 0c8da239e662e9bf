"""A consumer retries retriable fetch errors and raises others."""

import pytest

from kafkaframes.broker import Broker, Cluster
from kafkaframes.broker.requests.failures import build_failure_response
from kafkaframes.broker.requests.request import Request
from kafkaframes.client import Consumer, Producer
from kafkaframes.errors import BrokerError, ErrorCode

RETRIED_CODES = [code for code in ErrorCode if code.is_retriable and code != ErrorCode.CORRUPT_MESSAGE]
RAISED_CODES = [
    ErrorCode.CORRUPT_MESSAGE,  # a retry would read the same bytes
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


def fail_partitions(request: Request, code: ErrorCode) -> object:
    """Return a response in which each partition has an error and the request has none."""
    answer = build_failure_response(request, code)
    answer.error_code = 0
    return answer


@pytest.mark.parametrize("code", [*RETRIED_CODES, *RAISED_CODES], ids=lambda code: code.name)
def test_partition_errors_that_are_not_retriable_are_raised(code):
    with Broker() as broker, Producer(broker.bootstrap_servers) as producer:
        producer.send("t", b"first").result()
        settings = {"auto_offset_reset": "earliest", "retry_backoff_ms": 1}
        with Consumer(broker.bootstrap_servers, **settings) as consumer:
            partitions = consumer.partitions_for("t")
            with broker.on("Fetch").answer(lambda request: fail_partitions(request, code)).once() as rule:
                consumer.assign(partitions)
                if code in RETRIED_CODES:
                    assert consumer.poll(60_000)[0].value == b"first"
                else:
                    with pytest.raises(BrokerError, match=code.name):
                        consumer.poll(60_000)
                assert rule.count


def test_a_consumer_reads_from_the_preferred_replica_and_falls_back_to_the_leader():
    """KIP-392: the preferred replica is used until an error or until metadata.max.age.ms has passed."""
    node_ids: list[int] = []

    def watch(request: Request) -> None:
        node_ids.append(request.session.node_id)

    settings = {"auto_offset_reset": "none", "retry_backoff_ms": 1, "reconnect_backoff_ms": 1}
    with (
        Broker(cluster=Cluster(2, ["a", "b"])) as broker,
        Producer(broker.bootstrap_servers) as producer,
        Consumer(broker.bootstrap_servers, client_rack="b", **settings) as consumer,
    ):
        broker.create_topic("t", partitions=1)
        broker.move_leader("t", 0, 1)

        def read(value: bytes) -> None:
            producer.send("t", value).result()
            assert [record.value for record in consumer.poll(60_000)] == [value]

        with broker.on("Fetch").call(watch):
            consumer.assign({("t", 0): 0})
            read(b"first")
            read(b"second")
        assert node_ids[:2] == [1, 2]  # the leader returns the preferred replica again
        assert set(node_ids[1:]) == {2}
        for code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.REPLICA_NOT_AVAILABLE):
            node_ids.clear()
            refusal = (
                broker.on("Fetch", partition=0).answer(lambda request, code=code: fail_partitions(request, code)).once()
            )
            with refusal, broker.on("Fetch").call(watch):
                read(b"the fetch behind it names the partition, and is refused")
                broker.wait_for(lambda: consumer.poll(5) == [] and 1 in node_ids and node_ids[-1] == 2)
            assert node_ids[node_ids.index(1) :][:2] == [1, 2]
        broker.stop_node(2)
        read(b"without it")


def test_a_preferred_replica_is_left_after_metadata_max_age():
    node_ids: list[int] = []
    with Broker(cluster=Cluster(2, ["a", "b"])) as broker, Producer(broker.bootstrap_servers) as producer:
        broker.create_topic("t", partitions=1)
        broker.move_leader("t", 0, 1)
        producer.send("t", b"first").result()
        broker.on("Fetch").call(lambda request: node_ids.append(request.session.node_id))
        settings = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 50, "fetch_max_wait_ms": 10}
        with Consumer(broker.bootstrap_servers, client_rack="b", **settings) as consumer:
            consumer.assign([("t", 0)])
            broker.wait_for(lambda: consumer.poll(20) is not None and node_ids.count(1) > 2)
        assert 2 in node_ids
