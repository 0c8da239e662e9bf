"""What is read of live topics, and how rows are written to them: frozen values, with defaults. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkaframes.client.settings import ClientSettings, ConsumerSettings
from kafkaframes.scan.ranges import EARLIEST, LATEST, Assignment, AtGroup, Bound
from kafkaframes.scan.where import EVERYTHING, Where


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """What is read of live topics.

    Attributes:
        client: the settings of a consumer under Kafka's names.
        subscribe, subscribe_pattern, assign: topics by name, by a pattern of whole names, or topic partitions.
        partitions: partition numbers in each chosen topic; None for all.
        start, end: EARLIEST, LATEST, an offset for each topic partition, a time, or a group (``scan.ranges``).
        no_match: what a start is where no record is at or after the time: ``error`` or ``latest``.
        fail_on_data_loss: whether offsets that the topic has lost are an error; else a warning.
        on_damage: ``keep``, ``drop`` or ``fail``.
        include_control: whether control records are read.
        columns, include_headers: of the result; None: those of Spark's Kafka source.
        min_partitions, max_records_per_partition: how ranges are cut into tasks.
        max_offsets_per_trigger, max_bytes_per_trigger: how much a micro-batch takes at most.
        min_offsets_per_trigger, max_trigger_delay_ms: how many offsets a micro-batch waits for, and how long.
        poll_timeout_ms: how long a task waits for records.
        driver_host: the driver's name or address for tasks on other machines; None: as Spark's settings have it.
        driver_port: the port at which the driver answers such tasks; 0: any that is free.
        timestamp_errors: what a timestamp becomes that Spark's microseconds cannot hold: an error (``raise``), or
            ``null``. Scans hold milliseconds, and do not need it.
        where: what rows are kept, inside of start and end.
    """

    client: Mapping[str, Any] = field(repr=False)  # passwords are in it
    subscribe: frozenset[str] | None = None
    subscribe_pattern: re.Pattern[str] | None = None
    assign: Assignment | None = None
    partitions: frozenset[int] | None = None
    start: Bound | AtGroup = EARLIEST
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
    where: Where = EVERYTHING

    @property
    def read_committed(self) -> bool:
        """Whether only what was committed is read (``kafka.isolation.level``)."""
        return ConsumerSettings.of(self.client).reads_committed

    @property
    def has_fixed_offsets(self) -> bool:
        """Whether start and end are offsets, so that a batch read is the same at any time."""
        return all(
            isinstance(bound, Mapping) and min(bound.values(), default=0) >= 0 for bound in (self.start, self.end)
        )


@dataclass(frozen=True, slots=True)
class TopicWriteOptions:
    """How rows are written to topics.

    Attributes:
        client: the settings of a producer under Kafka's names.
        topic: of all rows; None: each row's column topic counts.
        delivery: ``at-least-once`` or ``exactly-once``.
        sink: names this sink among several of one query.
        on_foreign_marker: where the checkpoint does not fit the newest marker: ``error`` or ``skip``.
        driver_port: at which the driver answers its tasks; 0: any that is free.
        driver_host: the driver's name or address for them, where Spark does not say it.
        include_headers: taken for Spark's sake: headers are written.
        timestamps: of records: ``now``, as they are sent, or ``column``, the column timestamp.
    """

    client: Mapping[str, Any] = field(repr=False)  # passwords are in it
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
        """The settings that say how to reach the cluster, without those of a producer."""
        return {
            name: value
            for name, value in self.client.items()
            if name.replace(".", "_") in ClientSettings.__dataclass_fields__ or name.startswith("sasl")
        }
