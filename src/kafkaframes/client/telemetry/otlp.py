"""Encodes metrics as OpenTelemetry's message ``MetricsData`` (OTLP 1, Protobuf), which PushTelemetry carries.

Only the fields that Kafka's clients send are supported: sums and gauges with one number per point, and attributes that
are text. A payload has one resource and one scope.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from kafkaframes.wire.varint import size_of_unsigned_varint, write_unsigned_varint

Attributes = Iterable[tuple[str, str]]
_LENGTH_DELIMITED: Final = 2  # wire type of protobuf
_FIXED64: Final = 1  # wire type of protobuf
_VARINT: Final = 0  # wire type of protobuf


class MetricKind(Enum):
    """The type of a metric: a gauge or a sum. The number of a sum is its ``aggregation_temporality`` in OTLP."""

    GAUGE = 0
    DELTA_SUM = 1
    CUMULATIVE_SUM = 2


class MetricHeader(NamedTuple):
    """A metric without its points.

    Attributes:
        name: name in dotted form.
        unit: unit in UCUM; empty for a count.
        kind: whether the metric is a gauge or a sum.
    """

    name: str
    unit: str
    kind: MetricKind


def encode_point(value: float, attributes: Attributes, *, start_ns: int | None, time_ns: int) -> bytes:
    """Return a ``NumberDataPoint``.

    Args:
        value: measured value.
        attributes: labels of the point.
        start_ns: start of the interval of a sum, in nanoseconds since 1970; None for a gauge.
        time_ns: time of the value, in nanoseconds since 1970.
    """
    out = bytearray()
    if start_ns is not None:
        _write_fixed64(out, 2, struct.pack("<Q", start_ns))
    _write_fixed64(out, 3, struct.pack("<Q", time_ns))
    _write_fixed64(out, 4, struct.pack("<d", value))
    for name, text in attributes:
        _write_bytes(out, 7, _encode_attribute(name, text))
    return bytes(out)


def encode_metric(header: MetricHeader, points: Iterable[bytes]) -> bytes:
    """Return a ``Metric`` with its points."""
    data = bytearray()
    for point in points:
        _write_bytes(data, 1, point)
    out = bytearray()
    _write_text(out, 1, header.name)
    if header.unit:
        _write_text(out, 3, header.unit)
    if header.kind is MetricKind.GAUGE:
        _write_bytes(out, 5, data)
    else:
        _write_varint(data, 2, header.kind.value)
        _write_varint(data, 3, 1)  # is_monotonic
        _write_bytes(out, 7, data)
    return bytes(out)


def encode_metrics_data(metrics: Iterable[bytes], resource_attributes: Attributes) -> bytes:
    """Return ``MetricsData`` with these metrics; without metrics it is empty."""
    scope = bytearray()
    for metric in metrics:
        _write_bytes(scope, 2, metric)
    if not scope:
        return b""
    resource = bytearray()
    for name, text in resource_attributes:
        _write_bytes(resource, 1, _encode_attribute(name, text))
    resource_metrics = bytearray()
    _write_bytes(resource_metrics, 1, resource)
    _write_bytes(resource_metrics, 2, scope)
    out = bytearray()
    _write_bytes(out, 1, resource_metrics)
    return bytes(out)


def compute_size_in_parent(message_bytes: int) -> int:
    """Return the size of a message with its tag and length in the message that contains it, in bytes."""
    return 1 + size_of_unsigned_varint(message_bytes) + message_bytes


def _encode_attribute(name: str, text: str) -> bytes:
    """Return a ``KeyValue`` with a text."""
    value = bytearray()
    _write_text(value, 1, text)
    out = bytearray()
    _write_text(out, 1, name)
    _write_bytes(out, 2, value)
    return bytes(out)


def _write_varint(out: bytearray, field: int, value: int) -> None:
    out.append(field << 3 | _VARINT)
    write_unsigned_varint(out, value)


def _write_fixed64(out: bytearray, field: int, value: bytes) -> None:
    out.append(field << 3 | _FIXED64)
    out += value


def _write_text(out: bytearray, field: int, text: str) -> None:
    _write_bytes(out, field, text.encode("utf-8", "replace"))


def _write_bytes(out: bytearray, field: int, value: bytes | bytearray) -> None:
    out.append(field << 3 | _LENGTH_DELIMITED)
    write_unsigned_varint(out, len(value))
    out += value
