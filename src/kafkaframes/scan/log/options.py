"""What is read of a log: one frozen value, with defaults. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.records.limits import DEFAULT_BUDGET_BYTES, DEFAULT_LIMIT_BYTES
from kafkaframes.scan.ranges import EARLIEST, LATEST, Assignment, Bound
from kafkaframes.scan.where import EVERYTHING, Where

DEFAULT_BYTES_PER_PARTITION = 128 << 20


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What is read of the logs under ``paths``.

    Attributes:
        paths: log directories, partitions' directories, segments, patterns, tiered stores, or URLs of such.
        subscribe, subscribe_pattern, assign: topics by name, by a pattern of whole names, or topic partitions; one of
            them at most. Without one, all topics but Kafka's own.
        start, end: EARLIEST, LATEST, an offset for each topic partition, or a time (``scan.ranges``).
        no_match: what a start is where no record is at or after the time: ``error``, or ``latest`` (nothing is read).
        fail_on_data_loss: whether offsets that the log has lost are an error; else a warning.
        partitions: partition numbers in each chosen topic; None for all.
        isolation: ``read_uncommitted`` or ``read_committed``; None: ``read_committed`` for whole logs,
            ``read_uncommitted`` for single segments.
        columns: of the result, in this order; None: those of Spark's Kafka source.
        include_headers, include_control, include_internal: the column headers, transaction markers, Kafka's own topics.
        table: a row for each of ``records``, ``batches`` or ``segments``.
        decode: ``none``, or ``internal``: Kafka's own topics, decoded.
        replicas: ``merge`` makes one log of the copies of a partition; ``all`` reads each.
        deep: batches are opened, or the headers of segments walked.
        on_damage: what is done with damage: ``keep``, ``drop`` or ``fail``.
        timestamp_errors: what a timestamp becomes that Spark's microseconds cannot hold: an error (``raise``), or
            ``null``. Scans hold milliseconds, and do not need it.
        verify_crc: whether a wrong CRC is damage.
        limit_bytes: the largest decompressed size of a batch; a larger one is damage.
        budget_bytes: the most memory of a task for batches that are open at once.
        min_partitions, max_bytes_per_partition: how the input is cut into tasks.
        max_offsets_per_trigger, max_bytes_per_trigger: how much a micro-batch takes at most.
        where: what rows are kept, inside of start and end.
        storage: what fsspec's constructor takes, key files, and whether links are followed.

    Raises:
        OptionError: one excludes another.
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
    where: Where = EVERYTHING
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        chosen = [name for name in ("subscribe", "subscribe_pattern", "assign") if getattr(self, name) is not None]
        if len(chosen) > 1:
            raise OptionError(f"only one of {', '.join(f'`{name}`' for name in chosen)} can be given")
        if self.decode == "internal" and self.table != "records":
            raise OptionError(f"`decode`=internal decodes records; `table`={self.table} has none")

    @property
    def layout(self) -> str:
        """The table whose columns the rows have: ``records``, ``batches``, or ``internal`` for decoded records."""
        return "internal" if self.decode == "internal" else self.table
