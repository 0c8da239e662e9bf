"""Payloads of PushTelemetry: the requested metrics of a client, with names, labels and units of KIP-714.

Totals are sums, and all other metrics are gauges. With delta temporality, a sum is the difference from the last push
that a broker has accepted. A push without a response may have been accepted, so its differences may be sent twice; the
start time of each point shows this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kafkaframes.client.metrics import ClientMetrics, MetricName, MetricReading
from kafkaframes.client.telemetry.otlp import (
    MetricHeader,
    MetricKind,
    compute_size_in_parent,
    encode_metric,
    encode_metrics_data,
    encode_point,
)

_METRIC_DOMAIN: Final = "org.apache.kafka"
_ALL_METRICS: Final = "*"  # metric prefix of a subscription that selects every metric
_UCUM_UNITS: Final = {"bytes": "By", "bytes/s": "By/s"}  # UCUM codes; other units have the same name in UCUM
_EXCLUDED_LABELS: Final = frozenset({"client-id"})  # the header of each request has the client id
_MAX_OVERHEAD_BYTES: Final = 64  # tags and lengths of the messages around metrics, and of a metric around its points


class TelemetryPayload(NamedTuple):
    """The values of a client's metrics at one time, encoded but not compressed.

    Attributes:
        data: ``MetricsData`` of OTLP.
        time_ns: time of the values, in nanoseconds since 1970.
        totals: values of the payload's sums since the client's start.
        is_complete: whether the payload has all requested metrics.
    """

    data: bytes
    time_ns: int
    totals: Mapping[MetricName, float]
    is_complete: bool


class PayloadBuilder:
    """Builds the payloads of a client, and remembers the totals in the last accepted payload."""

    def __init__(self, metrics: ClientMetrics, labels: Callable[[], Mapping[str, str]], *, started_ns: int) -> None:
        """Create a builder.

        Args:
            metrics: metrics that the payloads contain.
            labels: function that returns the labels of the client, such as ``group_id``.
            started_ns: time at which all totals were 0, in nanoseconds since 1970.
        """
        self._metrics = metrics
        self._labels = labels
        self._started_ns = started_ns
        self._accepted_totals: dict[MetricName, tuple[float, int]] = {}  # total and time of the last accepted push

    def build_payload(
        self, prefixes: Sequence[str], *, is_delta: bool, max_bytes: int, time_ns: int
    ) -> TelemetryPayload:
        """Return a payload of the current metrics, those of the whole client first and those of partitions last.

        NaN, the average of no values, is omitted (KIP-714, sparse metrics).

        Args:
            prefixes: prefixes of the names of requested metrics; ``*`` for all.
            is_delta: whether sums are differences from the last accepted payload.
            max_bytes: largest size of the uncompressed payload. Metrics that do not fit are omitted.
            time_ns: current time, in nanoseconds since 1970.
        """
        labels = [(name, value) for name, value in self._labels().items() if value]
        points: dict[MetricHeader, list[bytes]] = {}
        totals: dict[MetricName, float] = {}
        remaining_bytes = max_bytes - len(encode_metrics_data([b""], labels)) - _MAX_OVERHEAD_BYTES
        is_complete = True
        for reading in self._metrics.iterate_readings(
            lambda group, name: is_requested(build_full_name(group, name), prefixes)
        ):
            if math.isnan(reading.value):
                continue
            header, point = self._encode_reading(reading, is_delta=is_delta, time_ns=time_ns)
            remaining_bytes -= compute_size_in_parent(len(point))
            if header not in points:
                remaining_bytes -= len(header.name) + len(header.unit) + _MAX_OVERHEAD_BYTES
            if remaining_bytes < 0:
                is_complete = False
                break
            points.setdefault(header, []).append(point)
            if reading.is_total:
                totals[reading.name] = reading.value
        data = encode_metrics_data(
            (encode_metric(header, encoded_points) for header, encoded_points in points.items()), labels
        )
        return TelemetryPayload(data, time_ns, totals, is_complete)

    def _encode_reading(self, reading: MetricReading, *, is_delta: bool, time_ns: int) -> tuple[MetricHeader, bytes]:
        name, unit = reading.name, reading.unit
        kind, value, start_ns = MetricKind.GAUGE, reading.value, None
        if reading.is_total:
            kind, start_ns = MetricKind.CUMULATIVE_SUM, self._started_ns
            if is_delta:
                kind = MetricKind.DELTA_SUM
                before, start_ns = self._accepted_totals.get(name, (0.0, self._started_ns))
                value -= before
        labels = [(tag.replace("-", "_"), text) for tag, text in name.tags if tag not in _EXCLUDED_LABELS]
        header = MetricHeader(build_full_name(name.group, name.name), _UCUM_UNITS.get(unit, unit), kind)
        return header, encode_point(value, labels, start_ns=start_ns, time_ns=time_ns)

    def store_accepted_totals(self, payload: TelemetryPayload) -> None:
        """Remember the totals of a payload that a broker has accepted."""
        self._accepted_totals.update((name, (total, payload.time_ns)) for name, total in payload.totals.items())


def build_full_name(group: str, name: str) -> str:
    """Return the name of a metric in telemetry, as Java's clients build it.

    >>> build_full_name("consumer-fetch-manager-metrics", "fetch-latency-avg")
    'org.apache.kafka.consumer.fetch.manager.fetch.latency.avg'
    """
    dotted_group = group.replace("-", ".").replace(".metrics", "")
    return f"{_METRIC_DOMAIN}.{dotted_group}.{name.replace('-', '.')}"


def is_requested(name: str, prefixes: Sequence[str]) -> bool:
    """Return whether one of the prefixes selects a metric.

    >>> is_requested("org.apache.kafka.producer.request.rate", ["org.apache.kafka.producer."])
    True
    """
    return _ALL_METRICS in prefixes or name.startswith(tuple(prefixes))
