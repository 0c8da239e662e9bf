"""Metrics of a client under Java's names: their sensors, and the values that ``metrics()`` returns.

A ``Sensor`` records one value for each response, batch or call, never for each record. A sensor has a total since the
start and a window of samples (``metrics.sample.window.ms``, ``metrics.num.samples``) for rates, averages and maxima, as
in Java. Gauges are computed when they are read. ``METRICS`` lists every metric; the documentation is generated from it.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

Tags = tuple[tuple[str, str], ...]
PRODUCER, CONSUMER, SHARE, ADMIN = "producer", "consumer", "consumer-share", "admin-client"  # prefixes of groups
_ALL_CLIENTS: Final = (PRODUCER, CONSUMER, SHARE, ADMIN)
_CONSUMER_CLIENTS: Final = (CONSUMER, SHARE)
_TOTAL_STATISTICS: Final = frozenset({"total", "count"})
_UNTAGGED_GROUPS: Final = ("metrics", "fetch-manager-metrics", "coordinator-metrics")


class MetricName(NamedTuple):
    """The name of a metric.

    Attributes:
        name: name of the metric, such as ``record-send-total``.
        group: group of the metric, such as ``producer-metrics``.
        tags: pairs of name and value, such as ``client-id`` and ``topic``.
    """

    name: str
    group: str
    tags: Tags = ()

    @property
    def unit(self) -> str:
        """The unit of the value; empty for a count."""
        return _UNIT_BY_METRIC[self.name]


class MetricSpec(NamedTuple):
    """One metric of the clients.

    Attributes:
        name: Java's name of the metric.
        group: group without the client's prefix.
        clients: prefixes of the clients that have the metric.
        sensor: name of the sensor; empty for a gauge.
        statistic: statistic of the sensor's values, such as ``total`` or ``rate``.
        unit: unit of the value; empty for a count.
        meaning: one sentence for the documentation.
    """

    name: str
    group: str
    clients: tuple[str, ...]
    sensor: str
    statistic: str
    unit: str
    meaning: str


class MetricReading(NamedTuple):
    """The value of a metric at one time.

    Attributes:
        name: name of the metric, with its group and tags.
        value: value; NaN for an average, maximum or minimum of no values.
        unit: unit of the value; empty for a count.
        is_total: whether the value is a sum or count since the client's start.
    """

    name: MetricName
    value: float
    unit: str
    is_total: bool


class _WindowSample:
    """The count, sum and extremes of the values in one part of a sensor's time window."""

    __slots__ = ("count", "largest", "smallest", "start", "total")

    def __init__(self, start: float) -> None:
        self.start = start
        self.total = 0.0
        self.count = 0
        self.largest = -math.inf
        self.smallest = math.inf


_EMPTY_SAMPLE: Final = _WindowSample(0.0)  # the sample of a sensor without values; the first value starts a new one


class Sensor:
    """Values over time: their total, and samples of the values of the last few seconds."""

    __slots__ = ("_max_samples", "_sample", "_sample_end", "_sample_s", "_samples", "count", "total")

    def __init__(self, max_samples: int, sample_s: float) -> None:
        self._max_samples = max_samples
        self._sample_s = sample_s
        self._samples: deque[_WindowSample] = deque(maxlen=max_samples)
        self._sample = _EMPTY_SAMPLE
        self._sample_end = -math.inf
        self.total = 0.0
        self.count = 0

    def record(self, value: float, now: float | None = None) -> None:
        """Record a value at ``now``, in seconds of the monotonic clock."""
        if now is None:
            now = time.monotonic()
        if now >= self._sample_end:
            self._begin_sample(now)
        sample = self._sample
        sample.total += value
        sample.count += 1
        if value > sample.largest:
            sample.largest = value
        if value < sample.smallest:
            sample.smallest = value
        self.total += value
        self.count += 1

    def _begin_sample(self, now: float) -> None:
        self._sample, self._sample_end = _WindowSample(now), now + self._sample_s
        self._samples.append(self._sample)

    def value(self, statistic: str, now: float) -> float:
        """Return a statistic; NaN for an average, maximum or minimum of no values, as in Java."""
        if statistic == "total":
            return self.total
        if statistic == "count":
            return self.count
        samples = [sample for sample in self._samples if now - sample.start < self._sample_s * self._max_samples]
        count, total = sum(sample.count for sample in samples), sum(sample.total for sample in samples)
        if statistic == "avg":
            return total / count if count else math.nan
        if statistic == "max":
            return max((sample.largest for sample in samples), default=math.nan)
        if statistic == "min":
            return min((sample.smallest for sample in samples), default=math.nan)
        window_s = self._compute_window_s(samples, now)
        if statistic == "count rate per hour":
            return count / window_s * 3600
        return (count if statistic == "count rate" else total) / window_s

    def _compute_window_s(self, samples: list[_WindowSample], now: float) -> float:
        """Return the time window of a rate, in seconds. As in Java, the window covers at least all samples but one."""
        elapsed_s = now - samples[0].start if samples else 0.0
        full_samples = int(elapsed_s // self._sample_s)
        missing_samples = max(self._max_samples - 1 - full_samples, 0)
        return max(elapsed_s + missing_samples * self._sample_s, 0.001)


Sensors = Mapping[str, Sensor]
TaggedValues = Iterable[tuple[Mapping[str, object], float | None]]


class ClientMetrics:
    """The metrics of one client. All calls are made on the client's event loop."""

    def __init__(self, prefix: str, client_id: str, *, max_samples: int, sample_s: float) -> None:
        """Create the metrics of a client that has done nothing yet.

        Args:
            prefix: prefix of the groups: ``PRODUCER``, ``CONSUMER``, ``SHARE`` or ``ADMIN``.
            client_id: value of the tag ``client-id``.
            max_samples: number of samples in a window.
            sample_s: duration of a sample, in seconds.
        """
        self._prefix = prefix
        self._client_id = client_id
        self._max_samples, self._sample_s = max_samples, sample_s
        self._specs = [spec for spec in METRICS if prefix in spec.clients]
        self._gauges: dict[str, Callable[[], float | None] | Callable[[], TaggedValues]] = {}
        # Sensors by group and tags.
        self._sensors: dict[tuple[str, tuple[tuple[str, object], ...]], dict[str, Sensor]] = {}
        self.before_reading: Callable[[], None] = lambda: None  # called before a reading, to count pending events
        for group in _UNTAGGED_GROUPS:  # metrics of these groups are reported from the start, as in Java
            self.get_sensors(group)
        self.client = self.get_sensors("metrics")

    def get_sensors(self, group: str, **tags: object) -> Sensors:
        """Return the sensors of a metric group by name; tags (``node_id``, ``topic``) select one node or topic."""
        key = group, tuple(tags.items())
        result = self._sensors.get(key)
        if result is None:
            names = {spec.sensor for spec in self._specs if spec.group == group and spec.sensor}
            result = self._sensors[key] = {name: Sensor(self._max_samples, self._sample_s) for name in names}
        return result

    def add_gauge(self, name: str, function: Callable[[], float | None]) -> None:
        """Report the result of a function as a gauge; None if it has no value now."""
        self._gauges[name] = function

    def add_tagged_gauge(self, name: str, function: Callable[[], TaggedValues]) -> None:
        """Report pairs of tags and value, such as one for each partition."""
        self._gauges[name] = function

    def values(self) -> dict[MetricName, float]:
        """Return all metrics with their values."""
        return {reading.name: reading.value for reading in self.iterate_readings()}

    def iterate_readings(
        self, selects: Callable[[str, str], bool] = lambda group, name: True
    ) -> Iterator[MetricReading]:
        """Yield the metrics of the whole client, then those of nodes and topics, and last those of partitions.

        Args:
            selects: function that returns whether a metric is yielded, by its group and name.
        """
        self.before_reading()
        now = time.monotonic()
        client = (("client-id", self._client_id),)
        specs = [spec for spec in self._specs if selects(f"{self._prefix}-{spec.group}", spec.name)]
        for (group, tags), sensors in sorted(self._sensors.items(), key=lambda entry: len(entry[0][1])):
            for spec in specs:
                if spec.group == group and spec.sensor:
                    name = MetricName(spec.name, f"{self._prefix}-{group}", client + _format_tags(tags))
                    value = sensors[spec.sensor].value(spec.statistic, now)
                    yield MetricReading(name, value, spec.unit, spec.statistic in _TOTAL_STATISTICS)
        for spec in specs:
            function = None if spec.sensor else self._gauges.get(spec.name)
            if function is not None:
                yield from self._iterate_gauge_readings(spec, client, function())

    def _iterate_gauge_readings(
        self, spec: MetricSpec, client: Tags, result: TaggedValues | float | None
    ) -> Iterator[MetricReading]:
        rows: TaggedValues = [({}, result)] if result is None or isinstance(result, (int, float)) else result
        for pairs, value in rows:
            if value is not None:
                name = MetricName(spec.name, f"{self._prefix}-{spec.group}", client + _format_tags(pairs.items()))
                yield MetricReading(name, float(value), spec.unit, is_total=False)


def _format_tags(pairs: Iterable[tuple[str, object]]) -> Tags:
    return tuple((name.replace("_", "-"), str(value)) for name, value in pairs)


def seconds_since(time_s: float | None) -> float:
    """Return the seconds since a time of the monotonic clock; -1 for None, as in Java if an event never happened."""
    return -1.0 if time_s is None else time.monotonic() - time_s


@contextlib.contextmanager
def measure_ns(sensor: Sensor) -> Iterator[None]:
    """Record the duration of a block in nanoseconds, even if the block fails."""
    start_s = time.monotonic()
    try:
        yield
    finally:
        sensor.record((time.monotonic() - start_s) * 1e9)


class PollMetrics:
    """Measures the polls of a consumer, and the time of its caller between them."""

    def __init__(self, metrics: ClientMetrics) -> None:
        self._client = metrics.client
        self._polled_at: float | None = None  # start of the last poll
        metrics.add_gauge("last-poll-seconds-ago", lambda: seconds_since(self._polled_at))

    def begin(self) -> tuple[float, float]:
        """Record the start of a poll.

        Return the poll's start time and the seconds since the previous poll, for ``end``.
        """
        start_s = time.monotonic()
        before_s = 0.0 if self._polled_at is None else start_s - self._polled_at
        if self._polled_at is not None:
            self._client["poll"].record(before_s * 1000, start_s)
        self._polled_at = start_s
        return start_s, before_s

    def end(self, start_s: float, before_s: float) -> None:
        """Record the end of a poll."""
        now = time.monotonic()
        idle_s = now - start_s
        if idle_s > 0:
            self._client["poll-idle"].record(idle_s / (idle_s + before_s), now)


class NodeMetrics:
    """Counts the connections, requests and responses of one node, for the node and for the whole client."""

    __slots__ = ("_client", "_node")

    def __init__(self, metrics: ClientMetrics, node_id: int) -> None:
        self._client = metrics.client
        self._node = metrics.get_sensors("node-metrics", node_id=f"node-{node_id}")

    def count_request(self, size: int, now: float) -> None:
        """Count a request of this many bytes."""
        self._client["request"].record(size, now)
        self._node["request"].record(size, now)

    def count_response(self, size: int, latency_s: float, now: float) -> None:
        """Record the size of a response in bytes, and its latency."""
        self._client["response"].record(size, now)
        self._node["response"].record(size, now)
        self._node["latency"].record(latency_s * 1000, now)

    def count_opened_connection(self) -> None:
        """Count a connection that was opened."""
        self._client["connection-creation"].record(1)

    def count_closed_connection(self) -> None:
        """Count a connection that has ended."""
        self._client["connection-close"].record(1)


# ------------------------------------------------------------------------------------------------------ all metrics


def _create_sensor_specs(
    group: str, clients: tuple[str, ...], sensor: str, meaning: str, unit: str = "", **names: str
) -> list[MetricSpec]:
    """Return the specifications of a sensor's metrics.

    Each keyword is a statistic (with ``_`` for a space), and its value is the metric's name.
    """
    units = {"rate": f"{unit or 1}/s", "count_rate": "1/s", "count_rate_per_hour": "1/h", "count": ""}
    return [
        MetricSpec(
            name,
            group,
            clients,
            sensor,
            statistic.replace("_", " "),
            units.get(statistic, unit),
            f"{_get_description_prefix(statistic, meaning)} {meaning}",
        )
        for statistic, name in names.items()
    ]


def _create_gauge_specs(
    group: str, clients: tuple[str, ...], name: str, meaning: str, unit: str = ""
) -> list[MetricSpec]:
    return [MetricSpec(name, group, clients, "", "gauge", unit, meaning)]


_DESCRIPTION_PREFIX_BY_STATISTIC: Final = {
    "total": "Total",
    "count": "Number of",
    "rate": "Rate of",
    "count_rate": "Rate of",
    "count_rate_per_hour": "Rate of",
    "avg": "Average",
    "max": "Largest",
    "min": "Smallest",
}


def _get_description_prefix(statistic: str, meaning: str) -> str:
    """Return the words before the meaning of a sensor: the maximum of a time is the longest, not the largest."""
    is_time = meaning.split(" from ")[0].split(" in ")[0].endswith("time")
    return "Longest" if statistic == "max" and is_time else _DESCRIPTION_PREFIX_BY_STATISTIC[statistic]


def _create_network_specs(group: str) -> list[MetricSpec]:
    """Return the specifications of the connection metrics in a group, for the whole client or for each node."""
    return [
        *_create_sensor_specs(
            group, _ALL_CLIENTS, "request", "requests sent", count="request-total", count_rate="request-rate"
        ),
        *_create_sensor_specs(
            group, _ALL_CLIENTS, "request", "size of requests", "bytes", avg="request-size-avg", max="request-size-max"
        ),
        *_create_sensor_specs(
            group,
            _ALL_CLIENTS,
            "request",
            "bytes sent",
            "bytes",
            total="outgoing-byte-total",
            rate="outgoing-byte-rate",
        ),
        *_create_sensor_specs(
            group, _ALL_CLIENTS, "response", "responses received", count="response-total", count_rate="response-rate"
        ),
        *_create_sensor_specs(
            group,
            _ALL_CLIENTS,
            "response",
            "bytes received",
            "bytes",
            total="incoming-byte-total",
            rate="incoming-byte-rate",
        ),
    ]


_TRANSACTION_TIME_METRICS: Final = {
    "txn-init": "in the start of a transactional producer",
    "txn-begin": "in begin_transaction",
    "txn-send-offsets": "in send_offsets_to_transaction",
    "txn-commit": "in commit_transaction",
    "txn-abort": "in abort_transaction",
}
METRICS: Final[tuple[MetricSpec, ...]] = (
    *_create_network_specs("metrics"),
    *_create_gauge_specs("metrics", _ALL_CLIENTS, "connection-count", "Number of open connections."),
    *_create_sensor_specs(
        "metrics", _ALL_CLIENTS, "connection-creation", "connections opened",
        count="connection-creation-total", count_rate="connection-creation-rate",
    ),
    *_create_sensor_specs(
        "metrics", _ALL_CLIENTS, "connection-close", "connections closed",
        count="connection-close-total", count_rate="connection-close-rate",
    ),
    *_create_sensor_specs(
        "metrics", _ALL_CLIENTS, "successful-authentication", "connections with TLS or SASL that the broker accepted",
        count="successful-authentication-total", count_rate="successful-authentication-rate",
    ),
    *_create_sensor_specs(
        "metrics", _ALL_CLIENTS, "failed-authentication", "connections with failed authentication",
        count="failed-authentication-total", count_rate="failed-authentication-rate",
    ),
    *_create_network_specs("node-metrics"),
    *_create_sensor_specs(
        "node-metrics", _ALL_CLIENTS, "latency", "time from a request to its response", "ms",
        avg="request-latency-avg", max="request-latency-max",
    ),
    # producers
    *_create_sensor_specs(
        "metrics", (PRODUCER,), "produce", "time from a Produce request to its response", "ms",
        avg="request-latency-avg", max="request-latency-max",
    ),
    *_create_sensor_specs(
        "metrics", (PRODUCER,), "record-send", "records sent, including retries",
        total="record-send-total", rate="record-send-rate",
    ),
    *_create_sensor_specs(
        "metrics", (PRODUCER,), "record-send", "number of records in a batch", avg="records-per-batch-avg",
    ),
    *_create_sensor_specs(
        "metrics", (PRODUCER,), "record-error", "records that failed", total="record-error-total",
        rate="record-error-rate",
    ),
    *_create_sensor_specs(
        "metrics", (PRODUCER,), "record-retry", "retried records", total="record-retry-total",
        rate="record-retry-rate",
    ),
    *_create_sensor_specs(
        "metrics", (PRODUCER,), "batch", "size of batches sent", "bytes", avg="batch-size-avg", max="batch-size-max"
    ),
    *_create_sensor_specs(
        "metrics", (PRODUCER,), "queue-time", "time from a batch's creation to its first request", "ms",
        avg="record-queue-time-avg", max="record-queue-time-max",
    ),
    *_create_sensor_specs(
        "metrics", (PRODUCER,), "request-records", "number of records in a Produce request",
        avg="records-per-request-avg",
    ),
    *_create_sensor_specs(
        "metrics", (PRODUCER,), "throttle", "throttle time in Produce responses", "ms",
        avg="produce-throttle-time-avg", max="produce-throttle-time-max",
    ),
    *_create_sensor_specs(
        "metrics", (PRODUCER,), "buffer-wait", "time for which calls have waited for buffer.memory", "ns",
        total="bufferpool-wait-time-ns-total",
    ),
    *_create_gauge_specs("metrics", (PRODUCER,), "waiting-threads", "Number of calls that wait for buffer.memory."),
    *_create_sensor_specs(
        "metrics", (PRODUCER,), "batch-split", "batches split because a broker rejected them as too large",
        count="batch-split-total", count_rate="batch-split-rate",
    ),
    *_create_sensor_specs("metrics", (PRODUCER,), "flush", "time in flush", "ns", total="flush-time-ns-total"),
    *_create_sensor_specs(
        "metrics", (PRODUCER,), "metadata-wait", "time for which calls have waited for metadata of a topic", "ns",
        total="metadata-wait-time-ns-total",
    ),
    *(
        metric
        for name, meaning in _TRANSACTION_TIME_METRICS.items()
        for metric in _create_sensor_specs(
            "metrics", (PRODUCER,), name, f"time {meaning}", "ns", total=f"{name}-time-ns-total"
        )
    ),
    *_create_gauge_specs("metrics", (PRODUCER,), "buffer-total-bytes", "The setting buffer.memory.", "bytes"),
    *_create_gauge_specs("metrics", (PRODUCER,), "buffer-available-bytes", "Free part of buffer.memory.", "bytes"),
    *_create_gauge_specs("metrics", (PRODUCER,), "requests-in-flight", "Number of requests without a response."),
    *_create_gauge_specs("metrics", (PRODUCER,), "metadata-age", "Time since the last metadata response.", "s"),
    *_create_sensor_specs(
        "topic-metrics", (PRODUCER,), "record-send", "records sent to the topic",
        total="record-send-total", rate="record-send-rate",
    ),
    *_create_sensor_specs(
        "topic-metrics", (PRODUCER,), "batch", "bytes of batches sent to the topic", "bytes",
        total="byte-total", rate="byte-rate",
    ),
    *_create_sensor_specs(
        "topic-metrics", (PRODUCER,), "record-error", "failed records of the topic",
        total="record-error-total", rate="record-error-rate",
    ),
    *_create_sensor_specs(
        "topic-metrics", (PRODUCER,), "record-retry", "retried records of the topic",
        total="record-retry-total", rate="record-retry-rate",
    ),
    # consumers
    *_create_gauge_specs("metrics", _CONSUMER_CLIENTS, "last-poll-seconds-ago", "Time since the last poll.", "s"),
    *_create_sensor_specs(
        "metrics", _CONSUMER_CLIENTS, "poll", "time between two polls", "ms",
        avg="time-between-poll-avg", max="time-between-poll-max",
    ),
    *_create_sensor_specs(
        "metrics", _CONSUMER_CLIENTS, "poll-idle", "fraction of time that the consumer spends in poll, from 0 to 1",
        avg="poll-idle-ratio-avg",
    ),
    *_create_sensor_specs(
        "metrics", (CONSUMER,), "commit-sync", "time in commit", "ns", total="commit-sync-time-ns-total"
    ),
    *_create_sensor_specs(
        "metrics", (CONSUMER,), "committed", "time in committed", "ns", total="committed-time-ns-total"
    ),
    *_create_sensor_specs(
        "fetch-manager-metrics", _CONSUMER_CLIENTS, "fetch", "Fetch responses (ShareFetch for share groups)",
        count="fetch-total", count_rate="fetch-rate",
    ),
    *_create_sensor_specs(
        "fetch-manager-metrics", _CONSUMER_CLIENTS, "fetch", "time from a Fetch request to its response", "ms",
        avg="fetch-latency-avg", max="fetch-latency-max",
    ),
    *_create_sensor_specs(
        "fetch-manager-metrics", _CONSUMER_CLIENTS, "fetch-size", "size of the records in a Fetch response", "bytes",
        avg="fetch-size-avg", max="fetch-size-max",
    ),
    *_create_sensor_specs(
        "fetch-manager-metrics", _CONSUMER_CLIENTS, "throttle", "throttle time in Fetch responses", "ms",
        avg="fetch-throttle-time-avg", max="fetch-throttle-time-max",
    ),
    *_create_sensor_specs(
        "fetch-manager-metrics", _CONSUMER_CLIENTS, "records", "records returned to the caller",
        total="records-consumed-total", rate="records-consumed-rate",
    ),
    *_create_sensor_specs(
        "fetch-manager-metrics", _CONSUMER_CLIENTS, "fetch-size", "bytes of fetched records", "bytes",
        total="bytes-consumed-total", rate="bytes-consumed-rate",
    ),
    *_create_sensor_specs(
        "fetch-manager-metrics", (CONSUMER,), "lag", "lag of any partition after a read", max="records-lag-max"
    ),
    *_create_sensor_specs(
        "fetch-manager-metrics", (CONSUMER,), "lead", "lead of any partition after a read", min="records-lead-min"
    ),
    *_create_gauge_specs(
        "fetch-manager-metrics", (CONSUMER,), "records-lag",
        "Records between the position and the end of a partition, by topic and partition.",
    ),
    *_create_gauge_specs(
        "fetch-manager-metrics", (CONSUMER,), "records-lead",
        "Records between the log start offset and the position, by topic and partition.",
    ),
    *_create_gauge_specs(
        "fetch-manager-metrics", (CONSUMER,), "preferred-read-replica",
        "Node that a partition is read from instead of its leader (KIP-392).",
    ),
    *_create_sensor_specs(
        "coordinator-metrics", (CONSUMER,), "commit", "successful commits", count="commit-total",
        count_rate="commit-rate",
    ),
    *_create_sensor_specs(
        "coordinator-metrics", (CONSUMER,), "commit", "duration of a commit", "ms",
        avg="commit-latency-avg", max="commit-latency-max",
    ),
    *_create_sensor_specs(
        "coordinator-metrics", (CONSUMER,), "join", "JoinGroup responses without error", count="join-total",
        count_rate="join-rate",
    ),
    *_create_sensor_specs(
        "coordinator-metrics", (CONSUMER,), "join", "duration of a JoinGroup request", "ms",
        avg="join-time-avg", max="join-time-max",
    ),
    *_create_sensor_specs(
        "coordinator-metrics", (CONSUMER,), "sync", "SyncGroup responses without error", count="sync-total",
        count_rate="sync-rate",
    ),
    *_create_sensor_specs(
        "coordinator-metrics", (CONSUMER,), "sync", "duration of a SyncGroup request", "ms",
        avg="sync-time-avg", max="sync-time-max",
    ),
    *_create_sensor_specs(
        "coordinator-metrics", _CONSUMER_CLIENTS, "heartbeat", "heartbeat responses without error",
        count="heartbeat-total", count_rate="heartbeat-rate",
    ),
    *_create_sensor_specs(
        "coordinator-metrics", _CONSUMER_CLIENTS, "heartbeat", "duration of a heartbeat", "ms",
        max="heartbeat-response-time-max",
    ),
    *_create_gauge_specs(
        "coordinator-metrics", _CONSUMER_CLIENTS, "last-heartbeat-seconds-ago",
        "Time since the last heartbeat response.", "s",
    ),
    *_create_sensor_specs(
        "coordinator-metrics", _CONSUMER_CLIENTS, "rebalance", "assignments that this member has received",
        count="rebalance-total", count_rate_per_hour="rebalance-rate-per-hour",
    ),
    *_create_sensor_specs(
        "coordinator-metrics", (CONSUMER,), "rebalance", "duration of a rebalance, from joining to the new assignment",
        "ms", avg="rebalance-latency-avg", max="rebalance-latency-max", total="rebalance-latency-total",
    ),
    *_create_sensor_specs(
        "coordinator-metrics", (CONSUMER,), "failed-rebalance", "rebalances that ended with a coordinator error",
        count="failed-rebalance-total", count_rate_per_hour="failed-rebalance-rate-per-hour",
    ),
    *(
        metric
        for event in ("assigned", "revoked", "lost")
        for metric in _create_sensor_specs(
            "coordinator-metrics", (CONSUMER,), f"partition-{event}", f"duration of a callback for {event} partitions",
            "ms", avg=f"partition-{event}-latency-avg", max=f"partition-{event}-latency-max",
        )
    ),
    *_create_gauge_specs(
        "coordinator-metrics", (CONSUMER,), "last-rebalance-seconds-ago", "Time since the last rebalance.", "s"
    ),
    *_create_gauge_specs(
        "coordinator-metrics", _CONSUMER_CLIENTS, "assigned-partitions", "Number of assigned partitions."
    ),
    *_create_sensor_specs(
        "fetch-manager-metrics", (SHARE,), "acknowledgements", "records with a confirmed acknowledgement",
        total="acknowledgements-send-total", rate="acknowledgements-send-rate",
    ),
    *_create_sensor_specs(
        "fetch-manager-metrics", (SHARE,), "acknowledgement-errors", "records with a failed acknowledgement",
        total="acknowledgements-error-total", rate="acknowledgements-error-rate",
    ),
)  # fmt: skip


_UNIT_BY_METRIC: Final = {spec.name: spec.unit for spec in METRICS}
