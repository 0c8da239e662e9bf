"""The share consumer works with share groups of Apache Kafka (KIP-932) as with those of the embedded broker."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.client import test_share_consumer as behaviours
from tests.interop import brokers
from tests.interop.fetching import compile_java

from kafkaframes.client import Admin, NewTopic, Producer, ShareConsumer, ShareRecord
from kafkaframes.errors import BrokerError

SHARE_PROPERTIES = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="module")
def servers(kafka, tmp_path_factory) -> Iterator[str]:
    if kafka.version.startswith("3."):
        pytest.skip("share groups require 4.1")
    with kafka(tmp_path_factory.mktemp("kafka"), SHARE_PROPERTIES) as node:
        yield node.bootstrap


topic = behaviours.topic
test_implicit = behaviours.test_records_are_accepted_by_the_next_poll_and_by_commit
test_close_releases = behaviours.test_unacknowledged_records_are_delivered_to_another_member_after_closing
test_release_and_reject = behaviours.test_released_records_are_delivered_again_and_rejected_ones_are_not
test_explicit = behaviours.test_an_explicit_consumer_must_acknowledge_every_record_before_it_polls_again
test_columns = behaviours.test_rows_are_acknowledged_by_a_mask
test_listener = behaviours.test_the_listener_gets_the_result_of_acknowledgements
test_two_members = behaviours.test_two_members_share_the_records_of_one_partition
test_gaps = behaviours.test_offset_gaps_of_transactions_and_compaction_do_not_stop_a_group
test_asyncio = behaviours.test_the_asyncio_consumer_reads_and_acknowledges


# The same scenarios are played with Java's client.

SCENARIOS = {  # the number of records and the group's settings, by scenario
    "types": (9, {}),
    "limit": (10, {}),
    "batch": (10, {}),
    "expiry": (2, {"share.record.lock.duration.ms": "3000"}),
    "count": (2, {"share.delivery.count.limit": "3"}),
    "renew": (2, {"share.record.lock.duration.ms": "3000"}),
}
VERSION = "4.3.1"


@pytest.fixture
def scenario_servers(oracle, tmp_path) -> Iterator[str]:
    """A broker that allows short acquisition locks, with topics for each scenario and client."""
    kafka = brokers.kafka_or_skip(oracle, VERSION)
    properties = {**SHARE_PROPERTIES, "group.share.min.record.lock.duration.ms": "1000"}
    with kafka(tmp_path, properties) as node:
        prepare_scenarios(node.bootstrap)
        yield node.bootstrap


def prepare_scenarios(servers: str) -> None:
    with Admin(servers) as admin, Producer(servers, linger_ms=200) as producer:
        for client in ("java", "ours"):
            for name, (count, settings) in SCENARIOS.items():
                topic = f"{name}-{client}"
                admin.create_topics([NewTopic(topic, num_partitions=1)])
                admin.alter_configs("group", topic, {"share.auto.offset.reset": "earliest", **settings})
                for number in range(count):
                    producer.send(topic, str(number).encode(), partition=0)
        producer.flush()


def open_share_consumer(servers: str, topic: str, **settings: Any) -> ShareConsumer:
    consumer = ShareConsumer(servers, group_id=topic, share_acknowledgement_mode="explicit", **settings)
    consumer.subscribe(topic)
    return consumer


def poll_for(consumer: ShareConsumer, seconds: float) -> list[ShareRecord]:
    records, deadline = [], time.monotonic() + seconds
    while not records and time.monotonic() < deadline:
        records = consumer.poll(300)
    return records


def text_of(records: list[ShareRecord]) -> str:
    return " ".join(sorted(f"{record.value.decode()}x{record.delivery_count}" for record in records))


def commit_outcome(call: Callable[[], object]) -> str:
    """Return the name of the error code of a commit or a renewal."""
    try:
        call()
    except BrokerError as error:
        return error.code.name
    return "NONE"


def play_scenarios(servers: str) -> dict[str, str]:
    """Play the scenarios that ``ShareProbe`` plays with Java's client."""
    results: dict[str, Any] = {}
    with open_share_consumer(servers, "types-ours") as consumer:
        records = poll_for(consumer, 60)
        results["types first"] = text_of(records)
        for record in records:
            consumer.acknowledge(record, ("accept", "release", "reject")[int(record.value) % 3])
        results["types commit"] = commit_outcome(consumer.commit)
        records = poll_for(consumer, 60)
        results["types again"] = text_of(records)
        consumer.acknowledge(records)
        results["types commit again"] = commit_outcome(consumer.commit)
        results["types rest"] = text_of(poll_for(consumer, 2))
    with open_share_consumer(servers, "limit-ours", max_poll_records=3, share_acquire_mode="record_limit") as consumer:
        counts: list[int] = []
        while sum(counts) < 10:
            records = poll_for(consumer, 60)
            counts.append(len(records))
            consumer.acknowledge(records)
            consumer.commit()
        results["record_limit"] = counts
    with open_share_consumer(servers, "batch-ours", max_poll_records=3) as consumer:
        records = poll_for(consumer, 60)
        results["batch_optimized"] = len(records)
        consumer.acknowledge(records)
        consumer.commit()
    with open_share_consumer(servers, "expiry-ours") as consumer:
        records = poll_for(consumer, 60)
        results["lock"] = consumer.acquisition_lock_timeout_ms
        time.sleep(4)
        consumer.acknowledge(records)
        results["expiry commit"] = commit_outcome(consumer.commit)
        records = poll_for(consumer, 60)
        results["expiry again"] = text_of(records)
        consumer.acknowledge(records)
        results["expiry commit again"] = commit_outcome(consumer.commit)
    with open_share_consumer(servers, "count-ours") as consumer:
        deliveries: set[str] = set()
        records = poll_for(consumer, 60)
        while records:
            deliveries.update(text_of(records).split(" "))
            consumer.acknowledge(records, "release")
            consumer.commit()
            records = poll_for(consumer, 3)
        results["deliveries"] = " ".join(sorted(deliveries))
    with open_share_consumer(servers, "renew-ours") as consumer, open_share_consumer(servers, "renew-ours") as other:
        records = poll_for(consumer, 60)
        for number in range(4):
            results[f"renewal {number}"] = commit_outcome(lambda: consumer.renew(records))
            results[f"other {number}"] = text_of(poll_for(other, 1))
        consumer.acknowledge(records)
        results["renew commit"] = commit_outcome(consumer.commit)
        results["renew rest"] = text_of(poll_for(other, 4))
    return {name: str(value) for name, value in results.items()}


def test_the_same_scenarios_have_the_same_results_with_the_java_client(scenario_servers, oracle, tmp_path):
    """The scenarios cover acknowledgement types, both limits, expiry, delivery counts and renewals, on Kafka 4.3.1."""
    libraries = brokers.real_kafka(oracle).fetch(VERSION)
    source = Path(__file__).parent / "java" / "clients" / "ShareProbe.java"
    command = [*compile_java(source, libraries, tmp_path / "classes"), scenario_servers]
    process = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    lines = [line.split("\t") for line in process.stdout.splitlines() if line.startswith("result\t")]
    java = {name: value for _, name, value in lines}
    assert java.get("renew rest") is not None, process.stderr[-4000:]
    assert play_scenarios(scenario_servers) == java
    assert java["types again"] == "1x2 4x2 7x2"
    assert java["expiry commit"] == "INVALID_RECORD_STATE"
    assert java["other 3"] == ""
