"""Telemetry payloads are valid for OpenTelemetry's own parser."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from kafkaframes.client.metrics import CONSUMER, PRODUCER, ClientMetrics
from kafkaframes.client.telemetry.otlp import (
    MetricHeader,
    MetricKind,
    encode_metric,
    encode_metrics_data,
    encode_point,
)
from kafkaframes.client.telemetry.payload import PayloadBuilder, build_full_name

START_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000
ALL_METRICS = ("*",)
DELTA_TEMPORALITY = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
CUMULATIVE_TEMPORALITY = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


def parse(data):
    return MetricsData.FromString(data)


def metrics_of(payload):
    """Return the metrics of a payload by name."""
    [resource] = parse(payload.data).resource_metrics
    [scope] = resource.scope_metrics
    names = [metric.name for metric in scope.metrics]
    assert len(set(names)) == len(names), "a metric is listed twice"
    return {metric.name: metric for metric in scope.metrics}


def labels_of(attributes):
    return {entry.key: entry.value.string_value for entry in attributes}


def make_metrics(prefix=PRODUCER):
    return ClientMetrics(prefix, "billing", max_samples=2, sample_s=30.0)


def make_builder(metrics, **labels):
    return PayloadBuilder(metrics, lambda: labels, started_ns=START_NS)


def build(builder, prefixes=ALL_METRICS, *, is_delta=True, max_bytes=1 << 20, seconds=1):
    return builder.build_payload(
        prefixes, is_delta=is_delta, max_bytes=max_bytes, time_ns=START_NS + seconds * SECOND_NS
    )


# ------------------------------------------------------------------------------------------------------------ encoding

NUMBERS = st.floats(allow_nan=False)
TEXTS = st.text(max_size=200)
LABELS = st.lists(st.tuples(TEXTS, TEXTS), max_size=3)
TIMES = st.integers(0, 2**64 - 1)


@given(NUMBERS, LABELS, st.none() | TIMES, TIMES, TEXTS, TEXTS, st.sampled_from(MetricKind), LABELS)
def test_encoded_metrics_are_parsed_by_opentelemetry(value, labels, start_ns, time_ns, name, unit, kind, resource):
    point = encode_point(value, labels, start_ns=start_ns, time_ns=time_ns)
    data = encode_metrics_data([encode_metric(MetricHeader(name, unit, kind), [point, point])], resource)
    [resource_metrics] = parse(data).resource_metrics
    pairs = [(entry.key, entry.value.string_value) for entry in resource_metrics.resource.attributes]
    assert pairs == resource
    [metric] = resource_metrics.scope_metrics[0].metrics
    assert (metric.name, metric.unit) == (name, unit)
    is_sum = kind is not MetricKind.GAUGE
    assert metric.WhichOneof("data") == ("sum" if is_sum else "gauge")
    points = metric.sum.data_points if is_sum else metric.gauge.data_points
    if is_sum:
        assert metric.sum.is_monotonic
        assert metric.sum.aggregation_temporality == kind.value
    assert len(points) == 2
    for entry in points:
        assert (entry.as_double, entry.time_unix_nano, entry.start_time_unix_nano) == (value, time_ns, start_ns or 0)
        assert [(label.key, label.value.string_value) for label in entry.attributes] == labels


def test_a_text_that_is_not_unicode_is_replaced():
    point = encode_point(1, [("topic", "a\ud800")], start_ns=None, time_ns=0)
    data = encode_metrics_data([encode_metric(MetricHeader("n", "", MetricKind.GAUGE), [point])], [])
    [metric] = parse(data).resource_metrics[0].scope_metrics[0].metrics
    assert labels_of(metric.gauge.data_points[0].attributes) == {"topic": "a?"}


def test_no_metrics_are_no_bytes():
    assert encode_metrics_data([], [("group_id", "g")]) == b""


# -------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("group", "name", "expected_name"),
    [  # standard metrics of KIP-714
        ("producer-metrics", "connection-creation-total", "producer.connection.creation.total"),
        ("producer-node-metrics", "request-latency-avg", "producer.node.request.latency.avg"),
        ("producer-metrics", "record-queue-time-max", "producer.record.queue.time.max"),
        ("consumer-coordinator-metrics", "commit-latency-avg", "consumer.coordinator.commit.latency.avg"),
        ("consumer-fetch-manager-metrics", "fetch-latency-max", "consumer.fetch.manager.fetch.latency.max"),
    ],
)
def test_names_are_those_of_java(group, name, expected_name):
    assert build_full_name(group, name) == f"org.apache.kafka.{expected_name}"


def test_totals_are_sums_and_others_gauges_with_units_and_labels():
    metrics = make_metrics()
    metrics.get_sensors("node-metrics", node_id="node-1")["latency"].record(5.0)
    metrics.client["request"].record(100)
    metrics.client["request"].record(300)
    payload = build(make_builder(metrics, transactional_id="t", client_rack=""))
    metrics_by_name = metrics_of(payload)
    assert payload.is_complete
    total = metrics_by_name["org.apache.kafka.producer.outgoing.byte.total"]
    assert (total.sum.data_points[0].as_double, total.unit) == (400, "By")
    assert (total.sum.aggregation_temporality, total.sum.is_monotonic) == (DELTA_TEMPORALITY, True)
    count = metrics_by_name["org.apache.kafka.producer.request.total"]
    assert (count.sum.data_points[0].as_double, count.unit) == (2, "")
    average = metrics_by_name["org.apache.kafka.producer.request.size.avg"]
    assert (average.gauge.data_points[0].as_double, average.unit) == (200, "By")
    latency = metrics_by_name["org.apache.kafka.producer.node.request.latency.avg"]
    assert latency.unit == "ms"
    # the labels do not include the client id
    assert labels_of(latency.gauge.data_points[0].attributes) == {"node_id": "node-1"}
    [resource] = parse(payload.data).resource_metrics
    assert labels_of(resource.resource.attributes) == {"transactional_id": "t"}  # empty labels are omitted


def test_an_average_of_no_values_is_omitted():
    payload = build(make_builder(make_metrics()))
    metrics = metrics_of(payload)
    assert "org.apache.kafka.producer.request.size.avg" not in metrics
    points = [point for metric in metrics.values() for point in (*metric.sum.data_points, *metric.gauge.data_points)]
    assert points
    assert not any(math.isnan(point.as_double) for point in points)


@pytest.mark.parametrize(
    ("prefixes", "count"),
    [
        (("org.apache.kafka.producer.request.total",), 1),
        (("org.apache.kafka.producer.request.size.",), 2),
        (("org.apache.kafka.consumer.",), 0),
        (("org.apache.kafka.consumer.", "org.apache.kafka.producer.request.total"), 1),
    ],
)
def test_only_requested_metrics_are_sent(prefixes, count):
    metrics = make_metrics()
    metrics.client["request"].record(100)
    payload = build(make_builder(metrics), prefixes)
    assert len(metrics_of(payload) if count else parse(payload.data).resource_metrics) == count
    assert payload.is_complete


@pytest.mark.parametrize("prefixes", [ALL_METRICS, ("",), ("a.", "*")])
def test_a_star_and_an_empty_prefix_request_all_metrics(prefixes):
    builder = make_builder(make_metrics())
    assert build(builder, prefixes).data == build(builder, ALL_METRICS).data


# --------------------------------------------------------------------------------------------------------- temporality


def total_of(payload, name="org.apache.kafka.producer.request.total"):
    [point] = metrics_of(payload)[name].sum.data_points
    return point.as_double, (point.start_time_unix_nano - START_NS) // SECOND_NS


def test_deltas_start_at_the_last_accepted_payload():
    metrics = make_metrics()
    builder = make_builder(metrics)
    metrics.client["request"].record(1)
    first = build(builder, seconds=1)
    assert total_of(first) == (1, 0)
    metrics.client["request"].record(1)
    # the first payload was not accepted, so its values are included again
    assert total_of(build(builder, seconds=2)) == (2, 0)
    builder.store_accepted_totals(first)
    metrics.client["request"].record(1)
    assert total_of(build(builder, seconds=3)) == (2, 1)


def test_cumulative_totals_start_at_the_clients_start():
    metrics = make_metrics()
    builder = make_builder(metrics)
    metrics.client["request"].record(1)
    builder.store_accepted_totals(build(builder, seconds=1))
    metrics.client["request"].record(1)
    payload = build(builder, is_delta=False, seconds=2)
    assert total_of(payload) == (2, 0)
    kind = metrics_of(payload)["org.apache.kafka.producer.request.total"].sum.aggregation_temporality
    assert kind == CUMULATIVE_TEMPORALITY


# -------------------------------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize("max_bytes", [1_000, 10_000, 20_000, 1 << 20])
def test_a_payload_is_never_larger_than_the_limit_and_omits_partitions_first(max_bytes):
    metrics = make_metrics(CONSUMER)
    partitions = [({"topic": f"topic-{number}", "partition": number}, number) for number in range(10_000)]
    metrics.add_tagged_gauge("records-lag", lambda: partitions)
    payload = build(make_builder(metrics, group_id="g" * 100), max_bytes=max_bytes)
    assert max_bytes / 2 < len(payload.data) <= max_bytes
    assert payload.is_complete == (max_bytes > 1_000_000)
    metrics_by_name = metrics_of(payload)
    assert "org.apache.kafka.consumer.request.total" in metrics_by_name
    lag = metrics_by_name.get("org.apache.kafka.consumer.fetch.manager.records.lag")
    assert (lag is None) == (max_bytes == 1_000)


def test_a_limit_below_one_metric_gives_an_empty_payload():
    payload = build(make_builder(make_metrics()), max_bytes=1)
    assert (payload.data, payload.is_complete) == (b"", False)


def test_omitted_totals_are_sent_later():
    metrics = make_metrics()
    builder = make_builder(metrics)
    metrics.client["request"].record(1)
    builder.store_accepted_totals(build(builder, max_bytes=1))
    assert total_of(build(builder, seconds=2)) == (1, 0)
