"""Clusters before transactions (Kafka 0.8 to 0.10) are read as committed, and are mirrored with their groups.

Other tools fail with an UnsupportedVersionException of ListOffsets or OffsetFetch: obsidiandynamics/kafdrop#134,
alibaba/canal#2765, apache/kafka#5170, seglo/kafka-lag-exporter#363.
"""

import pytest
from tests.jobs.mirror.worlds import run_mirror

import kafkaframes
from kafkaframes import Broker, Consumer
from kafkaframes.client import Admin, TopicPartition

VALUES = [b"%d" % number for number in range(5)]
PARTITION = TopicPartition("orders", 0)


def client_settings(release: str) -> dict:
    """Return the setting that brokers without ApiVersions need."""
    return {"api.version": release} if release in ("0.8.2", "0.9") else {}


@pytest.fixture(name="source", params=["0.8.2", "0.9", "0.10.0", "0.10.2", "0.11", "2.4"])
def _source(request):
    with Broker(broker_release=request.param) as broker:
        broker.create_topic("orders", 1)
        broker.append("orders", [{"value": value} for value in VALUES])
        yield request.param, broker


def test_records_are_read_as_committed(source, tmp_path):
    release, broker = source
    client = client_settings(release)
    assert kafkaframes.scan_topic(broker.bootstrap_servers, "orders", client=client).count() == 5
    export = kafkaframes.export_topics(broker.bootstrap_servers, "orders", tmp_path / "out", client=client)
    assert export.report.is_complete
    options = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", **client}
    with Consumer(broker.bootstrap_servers, **options) as consumer:
        consumer.assign([PARTITION])
        assert consumer.end_offsets([PARTITION]) == {PARTITION: 5}
        assert [record.value for record in consumer.poll(60_000)] == VALUES


@pytest.mark.parametrize("offsets", ["keep", "reassign"])
def test_a_mirror_copies_records_and_groups(source, tmp_path, offsets):
    release, broker = source
    client = client_settings(release)
    if release != "0.8.2":
        options = {"group.id": "g", "isolation.level": "read_committed", "auto.offset.reset": "earliest", **client}
        with Consumer(broker.bootstrap_servers, **options) as consumer:
            consumer.subscribe(["orders"])
            assert len(consumer.poll(60_000)) == 5
            consumer.commit()
        with Admin(broker.bootstrap_servers, **client) as admin:
            assert admin.group_offsets("g")[PARTITION].offset == 5
    with Broker() as target:
        report = run_mirror(
            broker.bootstrap_servers,
            target.bootstrap_servers,
            offsets=offsets,
            state_dir=str(tmp_path / "state"),
            source_properties=client,
        )
        assert [record.value for record in target.records("orders")] == VALUES
        assert report.created == ["orders"]  # Metadata 0 has no flag for internal topics
        assert {name: dict(group.offsets) for name, group in target.groups.items()} == (
            {} if release == "0.8.2" else {"g": {PARTITION: 5}}
        )
