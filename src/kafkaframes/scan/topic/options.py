"""Options of reads from live topics and of writes to topics, as immutable values with defaults. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkaframes.client.settings import ConsumerSettings, select_client_options
from kafkaframes.errors import OptionError
from kafkaframes.scan.ranges import EARLIEST, LATEST, Assignment, Bound, GroupBound
from kafkaframes.scan.selection import Isolation, Selection
from kafkaframes.scan.where import NO_CONDITIONS, RowFilter


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """The options of a read from live topics.

    Attributes:
        client: Consumer settings under Kafka's names.
        subscribe, subscribe_pattern, assign: Topics by name, by a regular expression for whole names, or topic
            partitions.
        partitions: Partition numbers in each selected topic. If None, all partitions are read.
        start, end: EARLIEST, LATEST, an offset for each topic partition, a time, or a group (``scan.ranges``).
        no_match: Handling of a start time without a record at or after it: ``error`` or ``latest``.
        fail_on_data_loss: Whether offsets that the topic has lost are an error. If False, lost offsets are a warning.
        on_damage: ``keep``, ``drop`` or ``fail``.
        include_control: Whether control records are read.
        columns, include_headers: Columns of the result. If None, the result has the columns of Spark's Kafka source.
        min_partitions, max_records_per_partition: Limits for the division of ranges into tasks.
        max_offsets_per_trigger, max_bytes_per_trigger: Largest size of a micro-batch, in offsets and in bytes.
        min_offsets_per_trigger, max_trigger_delay_ms: Smallest size of a micro-batch, in offsets, and the longest wait
            for it.
        poll_timeout_ms: Longest time that a task waits for records.
        driver_host: Name or address of the driver for tasks on other machines. If None, it is determined by Spark's
            settings.
        driver_port: Port on which the driver serves these tasks. 0: any free port.
        timestamp_errors: Handling of a timestamp out of the range of Spark's microseconds: ``raise`` or ``null``. Scans
            return milliseconds and do not need this option.
        row_filter: Conditions on rows between start and end.
    """

    client: Mapping[str, Any] = field(repr=False)  # may contain passwords
    subscribe: frozenset[str] | None = None
    subscribe_pattern: re.Pattern[str] | None = None
    assign: Assignment | None = None
    partitions: frozenset[int] | None = None
    start: Bound | GroupBound = EARLIEST
    end: Bound = LATEST
    no_match: str = "error"
    fail_on_data_loss: bool = True
    on_damage: str = "fail"
    include_control: bool = False
    columns: tuple[str, ...] | None = None
    include_headers: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60 * 1000
    poll_timeout_ms: int = 120_000
    driver_host: str | None = None
    driver_port: int = 0
    timestamp_errors: str = "raise"
    row_filter: RowFilter = NO_CONDITIONS

    @property
    def read_committed(self) -> bool:
        """Whether only committed records are read (``kafka.isolation.level``)."""
        return ConsumerSettings.from_options(self.client).reads_committed

    @property
    def isolation(self) -> Isolation:
        """The isolation level of the consumer settings."""
        return "read_committed" if self.read_committed else "read_uncommitted"

    @property
    def has_fixed_offsets(self) -> bool:
        """Whether start and end are offsets, so that every run of a batch read has the same range."""
        return all(
            isinstance(bound, Mapping) and min(bound.values(), default=0) >= 0 for bound in (self.start, self.end)
        )


def build_consumer_options(
    servers: str | Sequence[str], client: Mapping[str, Any] | None, *, isolation: str | None
) -> dict[str, Any]:
    """Return consumer settings under Kafka's names.

    >>> build_consumer_options(["a:9092", "b:9092"], None, isolation="read_committed")
    {'bootstrap.servers': 'a:9092,b:9092', 'isolation.level': 'read_committed'}

    Args:
        servers: Bootstrap servers: ``host:port``, several separated by commas, or a list.
        client: Further settings.
        isolation: Isolation level.
    """
    servers = servers if isinstance(servers, str) else ",".join(servers)
    return {**(client or {}), "bootstrap.servers": servers, "isolation.level": isolation}


def select_from_topics(client: Mapping[str, Any], selection: Selection, **values: Any) -> TopicOptions:
    """Return the read options that select records from live topics.

    Args:
        client: Consumer settings under Kafka's names, with the isolation level.
        selection: Topics, partitions and range.
        values: Values of further fields of ``TopicOptions``.

    Raises:
        OptionError: No topic is selected, or a consumer setting is invalid.
    """
    if not selection.topic_names:
        raise OptionError("`topics` is empty; expected at least one topic")
    ConsumerSettings.from_options(client)  # rejects invalid settings
    return TopicOptions(dict(client), **selection.topic_fields(), no_match="latest", **values)


@dataclass(frozen=True, slots=True)
class TopicWriteOptions:
    """The options of a write to topics.

    Attributes:
        client: Producer settings under Kafka's names.
        topic: Topic of all rows. If None, each row's column ``topic`` contains its topic.
        delivery: ``at-least-once`` or ``exactly-once``.
        sink: Name that distinguishes this sink from other sinks of the same query.
        on_foreign_marker: Handling of a checkpoint that does not match the newest marker: ``error`` or ``skip``.
        driver_port: Port on which the driver serves its tasks. 0: any free port.
        driver_host: Name or address of the driver for its tasks, if Spark's settings do not have it.
        include_headers: Accepted for compatibility with Spark; headers are always written.
        timestamps: Record timestamps: ``now`` for the time of sending, or ``column`` for the column ``timestamp``.
    """

    client: Mapping[str, Any] = field(repr=False)  # may contain passwords
    topic: str | None = None
    delivery: str = "at-least-once"
    sink: str = "sink"
    on_foreign_marker: str = "error"
    driver_port: int = 0
    driver_host: str = "127.0.0.1"
    include_headers: bool = False
    timestamps: str = "now"

    @property
    def connection(self) -> dict[str, Any]:
        """The settings for the connection to the cluster under the names in ``client``, without producer settings."""
        return select_client_options(self.client)
