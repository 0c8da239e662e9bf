"""Lag of a session's streams as Prometheus gauges."""

import json
import re
import socket
import urllib.request
from types import SimpleNamespace

import pyarrow as pa
import pytest

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic, Producer
from kafkaframes.errors import OptionError

pytestmark = pytest.mark.spark


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def gauges(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    matches = re.findall(r"^(\w+)\{(.*)\} (\S+)$", text, re.MULTILINE)
    return {(name, *re.findall(r'="([^"]*)"', label)): float(value) for name, label, value in matches}


def test_lag_is_served_while_a_query_runs(spark, tmp_path):
    port = free_port()
    assert kafkaframes.spark.session(metrics_port=port) is spark
    kafkaframes.spark.register(spark, metrics_port=port)  # the listener exists already
    with Broker() as broker, Producer(broker.bootstrap_servers) as producer:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name="t", num_partitions=2)])
        partitions = pa.array([0] * 60 + [1] * 40, pa.int32())
        producer.send_arrow(pa.table({"value": [b"v"] * 100, "partition": partitions}), topic="t")
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", "startingOffsets": "earliest"}
        stream = spark.readStream.format("kafka-topic").options(**options, maxOffsetsPerTrigger=50).load()
        writer = stream.writeStream.format("noop").queryName("copied").option("checkpointLocation", str(tmp_path))
        query = writer.trigger(processingTime="100 days").start()
        values = {}
        while ("kafkaframes_spark_batch_id", "copied") not in values:
            values = gauges(port)
        assert values["kafkaframes_spark_lag_offsets", "copied", "t", "0", "0"] == 30
        assert values["kafkaframes_spark_next_offset", "copied", "t", "1", "0"] == 20
        assert values["kafkaframes_spark_latest_offset", "copied", "t", "1", "0"] == 40
        assert values["kafkaframes_spark_batch_rows", "copied"] == 50
        assert values["kafkaframes_spark_batch_end_seconds", "copied"] > 1_700_000_000
        query.stop()
        while values:
            values = gauges(port)


def test_an_address_that_cannot_be_bound_is_rejected(spark):
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        free_socket.listen()
        port = free_socket.getsockname()[1]
        with pytest.raises(OptionError, match=rf"metrics cannot be served on 127\.0\.0\.1:{port}"):
            kafkaframes.spark.register(spark, metrics_port=port)


def test_a_topic_read_by_two_sources_of_a_query_has_a_series_for_each():
    from kafkaframes.spark.progress.topic_metrics import TopicMetrics

    sources = [{"endOffset": {"t": {"0": at}}, "latestOffset": {"t": {"0": 10}}, "numInputRows": at} for at in (2, 5)]
    progress = {"id": "q", "runId": "r", "name": "n", "batchId": 0, "sources": sources}
    metrics = TopicMetrics("127.0.0.1", 0)
    metrics.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=json.dumps(progress))))
    values = gauges(metrics._server.port)
    metrics._server.close()
    assert [values["kafkaframes_spark_lag_offsets", "n", "t", "0", source] for source in "01"] == [8, 5]
    assert [values["kafkaframes_spark_next_offset", "n", "t", "0", source] for source in "01"] == [2, 5]


@pytest.mark.parametrize("port", [99_999, -1])
def test_an_invalid_port_is_rejected_before_spark_starts(port):
    for ask in (kafkaframes.spark.session, lambda **options: kafkaframes.spark.register(None, **options)):
        with pytest.raises(OptionError, match=rf"metrics_port={port} must be from 0 to 65535"):
            ask(metrics_port=port)


def test_a_new_spark_application_replaces_its_predecessor():
    from kafkaframes.spark.progress.topic_metrics import TopicMetrics

    metrics = TopicMetrics("127.0.0.1", 0)
    added_listeners = []
    for application in ("one", "one", "two"):
        streams = SimpleNamespace(addListener=added_listeners.append)
        metrics.listen_to_queries(SimpleNamespace(conf={"spark.app.id": application}, streams=streams))
    metrics._server.close()
    assert added_listeners == [metrics, metrics]
