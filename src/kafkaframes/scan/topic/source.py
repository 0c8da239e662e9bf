"""The scan source for live topics.

It reads an offset range of each partition, with a fixed end and without a consumer group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkaframes.client.fetched_batches import FetchedBatches
from kafkaframes.records.memory import Recycler
from kafkaframes.records.scan import as_array
from kafkaframes.scan.arrow import MAX_INSTANT_MS
from kafkaframes.scan.rows import TOPIC_COLUMNS, RecordCounter, check_origin_columns
from kafkaframes.scan.slices import ScanSource, SourcePlan
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.planning import TopicLookups, plan_topic
from kafkaframes.scan.topic.reading import close_idle_consumers, read_fetched, read_rows
from kafkaframes.scan.topic.shares import PartitionRange
from kafkaframes.scan.where import RowFilter

if TYPE_CHECKING:
    from kafkaframes.storage.log.notes import HiddenRecords


@dataclass(frozen=True, slots=True)
class TopicSource(ScanSource):
    """The scan source that reads the records of live topics."""

    options: TopicOptions

    @property
    def label(self) -> str:
        """A label for messages: the topics and the brokers."""
        options = self.options
        pattern = "" if options.subscribe_pattern is None else options.subscribe_pattern.pattern
        return (
            f"topics {', '.join(sorted(options.subscribe or ())) or pattern} of {options.client['bootstrap.servers']}"
        )

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are selected by name."""
        return tuple(sorted(self.options.subscribe or ()))

    def check_columns(self, columns: Sequence[str], row_filter: RowFilter) -> None:
        """Check the column names."""
        check_origin_columns(columns, origin=TOPIC_COLUMNS)

    def plan_slices(self, row_filter: RowFilter, *, parts: int) -> SourcePlan:
        """Look up the start and end offsets of the partitions, and split large ranges."""
        options = replace(
            self.options, row_filter=row_filter, min_partitions=parts if parts > 1 else self.options.min_partitions
        )
        hidden_records: list[HiddenRecords] = []
        ranges = plan_topic(options, report=hidden_records.append)
        return SourcePlan(ranges, tuple(hidden_records))

    def read_slice(
        self, work: PartitionRange, columns: Sequence[str], conditions_of_scan: RowFilter, errors: list[Any]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range in order. Damage is appended to ``errors`` unless ``on_damage`` is ``fail``."""
        return read_rows(work, columns, replace(self.options, row_filter=conditions_of_scan), errors)

    def count_slice(self, work: PartitionRange, row_filter: RowFilter) -> int | None:
        """Count the records of a range by batch headers. The batches are still fetched whole."""
        counting = RecordCounter(work.first, work.end, row_filter, control_records=self.options.include_control)

        def count_fetched(fetched_batches: FetchedBatches, memory: Recycler) -> list[int | None]:
            """Return the number of rows in one chunk of fetched batches, as a list."""
            transactions = fetched_batches.transactions
            is_aborted = (
                transactions.mask_aborted_batches(fetched_batches.batches)
                if fetched_batches.aborted_transactions
                else None
            )
            return [counting.count_records(as_array(fetched_batches.data), fetched_batches.batches, is_aborted)]

        total = 0
        for count in read_fetched(work, self.options, count_fetched):
            if count is None:
                return None
            total += count
        return total

    def has_out_of_range_timestamps(self, slices: Sequence[PartitionRange]) -> bool:
        """Return whether brokers report timestamps that are too large for microseconds."""
        with TopicLookups(self.options) as lookups:
            return lookups.has_records_from(MAX_INSTANT_MS + 1, {work.topic_partition: work.end for work in slices})

    def close(self) -> None:
        """Close the idle connections of earlier reads."""
        close_idle_consumers(self.options)
