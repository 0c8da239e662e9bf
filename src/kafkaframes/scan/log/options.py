"""Options of a read from logs, as an immutable value with defaults. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.records.limits import DEFAULT_BUDGET_BYTES, DEFAULT_LIMIT_BYTES
from kafkaframes.scan.ranges import EARLIEST, LATEST, Assignment, Bound
from kafkaframes.scan.where import NO_CONDITIONS, RowFilter

DEFAULT_BYTES_PER_PARTITION = 128 << 20


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a read from the logs under ``paths``.

    Attributes:
        paths: Log directories, partition directories, segments, patterns, tiered stores, or URLs of these.
        subscribe, subscribe_pattern, assign: Topics by name, by a regular expression for whole names, or topic
            partitions; at most one of the three. Default: all topics except Kafka's internal topics.
        start, end: EARLIEST, LATEST, an offset for each topic partition, or a time (``scan.ranges``).
        no_match: Handling of a start time without a record at or after it: ``error``, or ``latest`` (no rows).
        fail_on_data_loss: Whether offsets that the log has lost are an error. If False, lost offsets are a warning.
        partitions: Partition numbers in each selected topic. If None, all partitions are read.
        isolation: ``read_uncommitted`` or ``read_committed``. If None, it is ``read_committed`` for whole logs, and
            ``read_uncommitted`` for single segments.
        columns: Columns of the result, in order. If None, the result has the columns of Spark's Kafka source.
        include_headers, include_control, include_internal: Whether the column ``headers``, control records and Kafka's
            internal topics are read.
        table: Table of the rows: ``records``, ``batches`` or ``segments``.
        decode: ``none``, or ``internal`` to decode the records of Kafka's internal topics.
        replicas: ``merge`` combines the replicas of a partition to one log. ``all`` reads each.
        deep: Whether batches are decompressed (table ``batches``), or all batch headers are read (table ``segments``).
        on_damage: ``keep``, ``drop`` or ``fail``.
        timestamp_errors: Handling of a timestamp out of the range of Spark's microseconds: ``raise`` or ``null``. Scans
            return milliseconds and do not need this option.
        verify_crc: Whether a wrong CRC counts as damage.
        limit_bytes: Largest size of a decompressed batch. A larger batch counts as damage.
        budget_bytes: Largest total memory of the batches that a task has open at the same time.
        min_partitions, max_bytes_per_partition: Limits for the division of the input into tasks.
        max_offsets_per_trigger, max_bytes_per_trigger: Largest size of a micro-batch, in offsets and in bytes.
        row_filter: Conditions on rows between start and end.
        storage: Keyword arguments for the constructor of fsspec's file system, key files, and whether symbolic links
            are followed.

    Raises:
        OptionError: Two options contradict each other.
    """

    paths: tuple[str, ...]
    subscribe: frozenset[str] | None = None
    subscribe_pattern: re.Pattern[str] | None = None
    assign: Assignment | None = None
    start: Bound = EARLIEST
    end: Bound = LATEST
    no_match: str = "error"
    fail_on_data_loss: bool = True
    partitions: frozenset[int] | None = None
    isolation: str | None = "read_uncommitted"
    columns: tuple[str, ...] | None = None
    include_headers: bool = False
    include_control: bool = False
    include_internal: bool = False
    table: str = "records"
    decode: str = "none"
    replicas: str = "merge"
    deep: bool = False
    on_damage: str = "keep"
    timestamp_errors: str = "raise"
    verify_crc: bool = True
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    budget_bytes: int = DEFAULT_BUDGET_BYTES
    min_partitions: int = 1
    max_bytes_per_partition: int = DEFAULT_BYTES_PER_PARTITION
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    row_filter: RowFilter = NO_CONDITIONS
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        selections = [name for name in ("subscribe", "subscribe_pattern", "assign") if getattr(self, name) is not None]
        if len(selections) > 1:
            raise OptionError(
                f"{', '.join(f'`{name}`' for name in selections)} cannot be combined; specify one of them"
            )
        if self.decode == "internal" and self.table != "records":
            raise OptionError(f"`decode`=internal requires `table`=records, not {self.table}")

    @property
    def layout(self) -> str:
        """The table whose columns the rows have: ``records``, ``batches``, or ``internal`` for decoded records."""
        return "internal" if self.decode == "internal" else self.table
