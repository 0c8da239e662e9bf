"""The client works with Apache Kafka: each codec in both directions, committed offsets at the newest versions, and
groups.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from kafkaframes.client import Admin, Consumer, NewTopic, Producer
from kafkaframes.client.network import Connection
from kafkaframes.errors import BrokerError

TOPIC, ROWS, PATIENCE_S = "t", 5_000, 120
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS_TABLE = pa.table(
    {
        "key": pa.array([b"%d" % row for row in range(ROWS)]),
        "value": pa.array([b"word %d and more words %d" % (row % 97, row) for row in range(ROWS)]),
    }
)
NEWEST_VERSIONS = {
    "3.9.1": {("OffsetCommit", 9), ("OffsetFetch", 9)},
    "4.3.1": {("OffsetCommit", 10), ("OffsetFetch", 10)},
}


@pytest.fixture(scope="module")
def servers(kafka, tmp_path_factory) -> Iterator[str]:
    """Start a broker with a topic to which the table was sent once with each codec."""
    with kafka(tmp_path_factory.mktemp("kafka"), {"group.initial.rebalance.delay.ms": "0"}) as node:
        with Admin(node.bootstrap) as admin:
            admin.create_topics([NewTopic(name=TOPIC, num_partitions=2)])
        for codec in CODECS:
            with Producer(node.bootstrap, compression_type=codec, batch_size=50_000) as producer:
                producer.send_arrow(RECORDS_TABLE, topic=TOPIC)
        yield node.bootstrap


@pytest.fixture
def requested_apis(monkeypatch) -> set[tuple[str, int]]:
    """The APIs and versions of all requests of clients."""
    requests: set[tuple[str, int]] = set()
    post = Connection._send_request

    def record_request(self, body, version, wait_ms):
        requests.add((type(body).__name__.removesuffix("Request"), version))
        return post(self, body, version, wait_ms)

    monkeypatch.setattr(Connection, "_send_request", record_request)
    return requests


def read_all(consumer: Consumer) -> pa.Table:
    """Read until all records are returned."""
    tables, end = [], time.monotonic() + PATIENCE_S
    while sum(table.num_rows for table in tables) < ROWS * len(CODECS) and time.monotonic() < end:
        tables.append(consumer.fetch_arrow(2_000))
    return pa.concat_tables(tables)


def read_committed_offsets(consumer: Consumer) -> dict[str, int]:
    return {str(place): entry.offset for place, entry in consumer.committed(consumer.partitions_for(TOPIC)).items()}


def test_every_codec_is_written_and_read_and_offsets_are_committed(kafka, servers, requested_apis):
    settings = {"group_id": "assigned", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with Consumer(servers, **settings) as consumer:
        consumer.assign(consumer.partitions_for(TOPIC))
        table = read_all(consumer)
        assert sorted(table["value"].to_pylist()) == sorted(RECORDS_TABLE["value"].to_pylist() * len(CODECS))
        assert read_committed_offsets(consumer) == {}
        consumer.commit()
        committed_offsets = read_committed_offsets(consumer)
    assert sum(committed_offsets.values()) == ROWS * len(CODECS)
    with Consumer(servers, **settings) as consumer:
        assert read_committed_offsets(consumer) == committed_offsets
    assert {api for api in requested_apis if api[0] in ("OffsetCommit", "OffsetFetch")} == NEWEST_VERSIONS[
        kafka.version
    ]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_everything_and_commits(kafka, servers, protocol):
    if protocol == "consumer" and kafka.version < "4":
        pytest.skip("3.9 does not enable the consumer protocol")
    settings = {"group_id": protocol, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    with Consumer(servers, **settings) as consumer:
        consumer.subscribe(TOPIC)
        assert read_all(consumer).num_rows == ROWS * len(CODECS)
        consumer.commit()
        assert sum(read_committed_offsets(consumer).values()) == ROWS * len(CODECS)


def test_a_recreated_topic_has_no_committed_offsets(servers):
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name="again", num_partitions=1)])
        with Consumer(servers, group_id="again", enable_auto_commit=False) as consumer:
            consumer.commit(dict.fromkeys(consumer.partitions_for("again"), 7))
        admin.delete_topics(["again"])
        is_created, end = False, time.monotonic() + PATIENCE_S
        while not is_created and time.monotonic() < end:
            try:
                admin.create_topics([NewTopic(name="again", num_partitions=1)])
                is_created = True
            except BrokerError:  # the topic is still being deleted
                time.sleep(0.2)
    assert is_created
    with Consumer(servers, group_id="again", enable_auto_commit=False) as consumer:
        assert consumer.committed(consumer.partitions_for("again")) == {}
