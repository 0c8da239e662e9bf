"""Metrics of a broker as Prometheus text. Metrics that also exist in Kafka have Kafka's names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkaframes.broker.state.state import BrokerState

# Prometheus' text format, for brokers and for Spark streams.

PROMETHEUS_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LABEL_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def format_metric(name: str, kind: str, description: str, values: Iterable[tuple[str, float]]) -> Iterator[str]:
    """Yield the Prometheus lines of a ``gauge`` or ``counter``: one line for each value with its labels."""
    yield f"# HELP {name} {description}"
    yield f"# TYPE {name} {kind}"
    for label, value in values:
        yield f"{name}{label} {value}"


def format_labels(**values: str) -> str:
    """Return labels, with backslashes, quotes and newlines escaped.

    >>> format_labels(topic='a"b', partition="0")
    '{topic="a\\\\"b",partition="0"}'
    """
    return "{" + ",".join(f'{name}="{value.translate(_LABEL_ESCAPES)}"' for name, value in values.items()) + "}"


# Counter -> name and description of the metric. The names are those of Kafka's JMX beans, in the spelling of exporters.
_COUNTER_METRICS = {
    "recompressed_bytes": (
        "kafkaframes_bytes_recompressed_total",
        "uncompressed bytes that went through a compressor on the append path (KIP-31)",
    ),
    "down_converted_records": (
        "kafkaframes_records_down_converted_total",
        "records that were converted to an older format for a fetch",
    ),
    "client_metrics_pushed": ("kafkaframes_client_metrics_pushed_total", "accepted PushTelemetry requests (KIP-714)"),
}
_LOST_DATA_PREFIX = "lost "


def build_metrics_text(state: BrokerState, connections: int) -> str:
    """Return all metrics of a broker."""
    return "".join(f"{line}\n" for line in _build_metric_lines(state, connections))


def _build_metric_lines(state: BrokerState, connections: int) -> Iterator[str]:
    partitions = list(state.partitions())
    gauges = {
        "kafka_server_replicamanager_partitioncount": ("partitions", len(partitions)),
        "kafka_server_replicamanager_offlinereplicacount": (
            "offline partitions",
            sum(partition.is_offline for partition in partitions),
        ),
        "kafka_controller_kafkacontroller_globaltopiccount": ("topics", len(state.topics)),
        "kafka_server_socketservermetrics_connection_count": ("open connections", connections),
        "kafka_server_fetchsessioncache_numincrementalfetchsessions": ("fetch sessions", len(state.fetch_sessions)),
    }
    for name, (words, value) in gauges.items():
        yield from format_metric(name, "gauge", words, [("", value)])
    for key, (name, words) in _COUNTER_METRICS.items():
        yield from format_metric(name, "counter", words, [("", state.counters[key])])
    lost_data = [
        (format_labels(what=key[len(_LOST_DATA_PREFIX) :]), count)
        for key, count in state.counters.items()
        if key.startswith(_LOST_DATA_PREFIX)
    ]
    yield from format_metric(
        "kafkaframes_lost_in_down_conversion_total",
        "counter",
        "data that an older format cannot represent",
        lost_data,
    )
    sizes, end_offsets, start_offsets = [], [], []
    for partition in partitions:
        label = format_labels(topic=partition.topic_partition.topic, partition=str(partition.index))
        sizes.append((label, partition.log.size_bytes))
        end_offsets.append((label, partition.log.log_end_offset))
        start_offsets.append((label, partition.log.log_start_offset))
    yield from format_metric("kafka_log_log_size", "gauge", "size of a partition's log in bytes", sizes)
    yield from format_metric("kafka_log_log_logendoffset", "gauge", "the offset after the last record", end_offsets)
    yield from format_metric(
        "kafka_log_log_logstartoffset", "gauge", "log start offset: the first offset that is served", start_offsets
    )
