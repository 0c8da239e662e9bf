"""Live topics as what a scan reads: a range of each partition, whose end is fixed when it is planned; no group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from kafkaframes.client.fetched import Fetched
from kafkaframes.records.memory import Recycler
from kafkaframes.records.scan import as_array
from kafkaframes.scan.rows import LOG_COLUMNS, TOPIC_COLUMNS, Counting, known_columns, schema_of
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.planning import Range, plan_topic
from kafkaframes.scan.topic.reading import close_idle, read_fetched, read_rows
from kafkaframes.scan.where import Where


@dataclass(frozen=True, slots=True)
class TopicWork:
    """A range of one partition."""

    range: Range

    @property
    def size_bytes(self) -> int:
        """0: a broker does not say it."""
        return 0

    @property
    def label(self) -> str:
        """The partition and its offsets."""
        return f"{self.range.place}, offsets {self.range.first} to {self.range.end}"


@dataclass(frozen=True, slots=True)
class TopicSource:
    """The records of live topics.

    Attributes:
        options: what is read; ``columns`` and ``where`` are the scan's.
    """

    options: TopicOptions

    @property
    def label(self) -> str:
        """The topics and the brokers."""
        options = self.options
        pattern = "" if options.subscribe_pattern is None else options.subscribe_pattern.pattern
        return (
            f"topics {', '.join(sorted(options.subscribe or ())) or pattern} of {options.client['bootstrap.servers']}"
        )

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are chosen by name."""
        return tuple(sorted(self.options.subscribe or ()))

    @property
    def is_files(self) -> bool:
        """False: it is no log."""
        return False

    @property
    def default_columns(self) -> tuple[str, ...]:
        """Topic, partition, and what a record has."""
        return LOG_COLUMNS

    def checked(self, columns: Sequence[str], where: Where) -> None:
        """Check the names of columns."""
        known_columns(columns, origin=TOPIC_COLUMNS)

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of these columns."""
        return schema_of(columns)

    def plan(self, where: Where, *, parts: int) -> Sequence[TopicWork]:
        """Ask the cluster where partitions start and end, and cut large ones."""
        options = replace(self.options, where=where, min_partitions=parts if parts > 1 else self.options.min_partitions)
        return [TopicWork(work) for work in plan_topic(options)]

    def read(
        self, work: TopicWork, columns: Sequence[str], where: Where, errors: list[Any]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range, in order; damage is an error, as it is to a consumer."""
        return read_rows(work.range, columns, replace(self.options, where=where))

    def count(self, work: TopicWork, where: Where) -> int | None:
        """Count records by the headers of their batches, which are fetched whole."""
        counting = Counting(work.range.first, work.range.end, where)

        def counted(fetched: Fetched, memory: Recycler) -> list[int | None]:
            aborted = fetched.transactions.aborted_batches(fetched.batches) if fetched.aborted else None
            return [counting.records(as_array(fetched.data), fetched.batches, aborted)]

        total = 0
        for count in read_fetched(work.range, self.options, counted):
            if count is None:
                return None
            total += count
        return total

    def close(self) -> None:
        """End the connections that reading has kept."""
        close_idle(self.options)
