"""The planner of a stream of live topics: the start offsets, the end of each micro-batch, and the ranges of its tasks.

No pyspark.

New partitions are read from their start; if that is not offset 0, records are lost. If a topic has another id, it was
deleted and created again. If a partition ends below the stream's offset, it was recreated or truncated. If a partition
is not listed, it may be deleted. Each of these is an error. With ``failOnDataLoss=false`` it is a warning: the topic is
read from its start, and a partition that is not listed keeps its offset (``stream_offsets.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.scan.ranges import (
    Name,
    describe_deselection,
    describe_lost_start,
    describe_recreation,
    describe_truncation,
    limit_offsets,
    report_loss,
)
from kafkaframes.scan.selection import selects_partition
from kafkaframes.scan.stream_offsets import AbsentPartition, StreamOffsets
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.planning import Offsets, TopicLookups, estimate_density, open_consumer
from kafkaframes.scan.topic.shares import PartitionRange

Absent = dict[Name, AbsentPartition]
_LISTING_RETRY_SECONDS: Final = 0.5
# After a change of the leader, the new one may report a smaller end for a moment (KAFKA-7703, SPARK-26267).
_SMALLER_END_TIMEOUT_SECONDS: Final = 5.0


class TopicListing(NamedTuple):
    """The partitions of a stream's topics in the metadata, and the topic ids, if brokers have them."""

    partitions: list[TopicPartition]
    ids: dict[str, str]


class TopicFollower:
    """The planner of a stream from live topics: it determines the offsets and the ranges of each micro-batch.

    The planner's connections stay open for the lifetime of the query.
    """

    def __init__(
        self,
        options: TopicOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.options = options
        self._lookups = TopicLookups(options)
        self._clock = clock
        self._sleep = sleep
        # Time of the last batch, for minOffsetsPerTrigger; None before the first batch of this run.
        self._triggered_at: float | None = None
        self._density: dict[TopicPartition, float] = {}
        self._reported_partitions: set[TopicPartition] = set()  # missing partitions; each is reported once

    def close(self) -> None:
        """Close the connections."""
        self._lookups.close()

    def find_start_offsets(self) -> Offsets:
        """Return the start offsets of the first micro-batch."""
        result = self._lookups.find_start_offsets(self._lookups.find_partitions())
        return self._lookups.check_retained_offsets(result)

    def find_end_offsets(self) -> Offsets:
        """Return the current end offset of each partition."""
        return self._lookups.find_latest_offsets(self._lookups.find_partitions())

    def list_partitions(self, *, is_expected: bool = False) -> TopicListing:
        """Return the topics' partitions from current metadata.

        Call this method before ``find_end_offsets``, so that all end offsets belong to listed topics.

        Args:
            is_expected: Whether an empty list would be an error with ``failOnDataLoss``. If so, the lookup is repeated
                until ``default.api.timeout.ms`` has passed, because a broker lists no topics shortly after its start.
        """
        deadline = self._clock() + ConsumerSettings.from_options(self.options.client).default_api_timeout_ms / 1000
        is_expected = is_expected and self.options.fail_on_data_loss
        while not (partitions := self._lookups.find_partitions()) and is_expected and self._clock() < deadline:
            self._sleep(_LISTING_RETRY_SECONDS)
        return TopicListing(partitions, self._lookups.find_topic_ids({partition.topic for partition in partitions}))

    def find_resume_offsets(self, start_offsets: StreamOffsets, listing: TopicListing) -> tuple[Offsets, Absent]:
        """Return the offsets at which a stream continues, and the partitions that are still not listed.

        Args:
            start_offsets: Offsets of the stream's checkpoint.
            listing: Current metadata.

        Raises:
            OptionError: A topic was created again, and ``failOnDataLoss`` is set.
        """
        begins = self.drop_recreated_topics(key_by_partition(start_offsets.offsets), start_offsets.ids, listing.ids)
        listed_partitions, absent = set(listing.partitions), {}
        for name, entry in start_offsets.absent.items():
            partition = TopicPartition(*name)
            if _is_other_topic(entry.topic_id, listing.ids.get(partition.topic)):
                problem = describe_recreation(partition.topic, entry.topic_id, listing.ids[partition.topic])
                report_loss(problem, fail=self.options.fail_on_data_loss)
            elif partition in listed_partitions:
                begins.setdefault(partition, entry.offset)
            else:
                absent[name] = entry
        return begins, absent

    def find_planned_start(self, start: StreamOffsets, end: StreamOffsets) -> Offsets:
        """Return the start offset of each partition that had an offset before a planned micro-batch.

        Raises the same exceptions as ``find_resume_offsets``.
        """
        begins = self.drop_recreated_topics(key_by_partition(start.offsets), start.ids, end.ids)
        for name, entry in start.absent.items():
            if name in end.offsets and not _is_other_topic(entry.topic_id, end.ids.get(name[0])):
                begins.setdefault(TopicPartition(*name), entry.offset)
        return begins

    def drop_recreated_topics(
        self, offsets: Offsets, old_ids: Mapping[str, str], new_ids: Mapping[str, str]
    ) -> Offsets:
        """Return the offsets, except those of recreated topics, which are read from their start.

        Args:
            offsets: Offsets of a checkpoint.
            old_ids: Topic ids in the checkpoint. A topic without an id counts as the same topic.
            new_ids: Later topic ids.

        Raises:
            OptionError: A topic was recreated, and ``failOnDataLoss`` is set.
        """
        recreated_topics = sorted(
            topic for topic in old_ids.keys() & new_ids.keys() if old_ids[topic] != new_ids[topic]
        )
        for topic in recreated_topics:
            report_loss(describe_recreation(topic, old_ids[topic], new_ids[topic]), fail=self.options.fail_on_data_loss)
        return {partition: offset for partition, offset in offsets.items() if partition.topic not in recreated_topics}

    def find_batch_end(
        self, start: Offsets, *, goal: Offsets | None = None, is_limited: bool = True, is_first: bool = False
    ) -> Offsets:
        """Return the end of the micro-batch that begins at ``start``; ``start`` itself if the stream should wait.

        Args:
            start: Start of the micro-batch.
            goal: Upper limit of the end offsets. If None, the limit is the current end offset of each partition.
            is_limited: Whether the limits of the options apply.
            is_first: Whether this is the first micro-batch of the query.

        Raises:
            OptionError: ``failOnDataLoss`` is set, and a partition is not listed, ends below ``start``, or is new and
                has lost its first records.
        """
        ends = self._confirm_ends(start, self.find_end_offsets() if goal is None else dict(goal))
        begins = self._find_begin_offsets(start, ends, is_first=is_first)
        waiting = sum(max(end - begins[partition], 0) for partition, end in ends.items())
        if goal is None and is_limited and self._should_wait(waiting):
            return start
        limits = {partition: max(end, begins[partition]) for partition, end in ends.items()}
        if is_limited:
            limits = self._limit_batch(begins, limits)
        return {**{partition: offset for partition, offset in start.items() if partition in ends}, **limits}

    def _confirm_ends(self, start: Offsets, ends: Offsets) -> Offsets:
        """Return the end offsets. Ends below the stream's offset are looked up repeatedly for a few seconds.

        If a later lookup returns an end offset that is not below the stream's offset, the first lookup was outdated,
        and the stream continues at its own offset.
        """
        deadline = self._clock() + _SMALLER_END_TIMEOUT_SECONDS
        ends = dict(ends)
        while smaller := [partition for partition, end in ends.items() if end < start.get(partition, end)]:
            grown = {
                partition_key: start[partition_key]
                for partition_key, end in self._lookups.find_latest_offsets(smaller).items()
                if end >= start[partition_key]
            }
            ends |= grown
            if len(grown) < len(smaller):
                if self._clock() >= deadline:
                    break
                self._sleep(_LISTING_RETRY_SECONDS)
        return ends

    def _find_begin_offsets(self, start: Offsets, ends: Offsets, *, is_first: bool) -> Offsets:
        """Return the first offset of each partition in the micro-batch. Report deleted and truncated partitions."""
        fails = self.options.fail_on_data_loss
        earliest = self._lookups.find_earliest_offsets([partition for partition in ends if partition not in start])
        if not is_first and fails:  # without ``fails``, ``plan_batch`` logs the warning
            self._report_lost_starts(earliest)
        begins = {**{partition: start[partition] for partition in ends if partition in start}, **earliest}
        absent = [partition for partition in start if partition not in ends]
        truncated_partitions = [partition for partition, end in ends.items() if begins[partition] > end]
        for partition in (
            *(absent_partition for absent_partition in absent if absent_partition not in self._reported_partitions),
            *truncated_partitions,
        ):
            offset = start.get(partition, begins.get(partition, 0))
            if selects_partition(self.options, partition.topic, partition.partition):
                problem = describe_truncation(partition, offset, ends.get(partition))
            else:
                problem = describe_deselection(partition, offset)
            report_loss(problem, fail=fails)
        self._reported_partitions = set(absent)
        return begins | self._lookups.find_earliest_offsets(truncated_partitions)

    def _report_lost_starts(self, earliest: Offsets) -> None:
        """Report each new partition that does not start at offset 0, because its first records were deleted."""
        for partition, first in earliest.items():
            if first > 0:
                report_loss(describe_lost_start(partition, first), fail=self.options.fail_on_data_loss)

    def _should_wait(self, waiting: int) -> bool:
        """Return whether to wait for ``minOffsetsPerTrigger``, up to ``maxTriggerDelay`` after the last batch.

        The first batch of a run does not wait. The delay restarts after each batch, even if the batch has no rows, as
        in Spark's connector (``KafkaMicroBatchStream.delayBatch``).
        """
        min_offsets = self.options.min_offsets_per_trigger
        if min_offsets is None:
            return False
        now, since = self._clock(), self._triggered_at
        is_late = since is None or (now - since) * 1000 >= self.options.max_trigger_delay_ms
        if not is_late and waiting < min_offsets:
            return True
        self._triggered_at = now
        return False

    def _limit_batch(self, begins: Offsets, limits: Offsets) -> Offsets:
        """Limit the micro-batch to ``maxOffsetsPerTrigger`` offsets and ``maxBytesPerTrigger`` bytes."""
        options = self.options
        if options.max_offsets_per_trigger is not None:
            limits = limit_offsets(begins, limits, options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            limits = self._limit_by_bytes(begins, limits, options.max_bytes_per_trigger)
        return limits

    def _limit_by_bytes(self, begins: Offsets, limits: Offsets, max_bytes: int) -> Offsets:
        """Limit a micro-batch to ``max_bytes`` bytes, in equal shares.

        Sizes are estimated from the batches at its start.
        """
        waiting = [partition for partition in limits if limits[partition] > begins[partition]]
        if not waiting:
            return limits
        share = max_bytes / len(waiting)
        with open_consumer(self.options, max_partition_fetch_bytes=1 << 20) as consumer:
            for partition in waiting:
                self._density[partition] = estimate_density(
                    consumer, partition, begins[partition]
                ) or self._density.get(partition, 1.0)
        limited_ends = {
            partition: begins[partition] + max(int(share / self._density[partition]), 1) for partition in waiting
        }
        return {**limits, **{partition: min(limits[partition], limited_ends[partition]) for partition in waiting}}

    def plan_batch(self, start: Offsets, end: Offsets, *, is_first: bool = False) -> list[PartitionRange]:
        """Return the ranges of the tasks of a micro-batch, which may be a repetition after a restart.

        Raises:
            OptionError: ``failOnDataLoss`` is set, and a partition ends below its start, or offsets are lost.
        """
        earliest = self._lookups.find_earliest_offsets([partition for partition in end if partition not in start])
        if not is_first:
            self._report_lost_starts(earliest)
        begins = {**{partition: start[partition] for partition in end if partition in start}, **earliest}
        truncated_partitions = [
            partition for partition in end if begins[partition] > end[partition]
        ]  # the partitions were recreated or truncated in the meantime; ``find_batch_end`` has reported them
        if truncated_partitions and self.options.fail_on_data_loss:
            report_loss(
                describe_truncation(
                    truncated_partitions[0], begins[truncated_partitions[0]], end[truncated_partitions[0]]
                ),
                fail=True,
            )
        begins |= self._lookups.find_earliest_offsets(truncated_partitions)
        pending = {partition: offset for partition, offset in begins.items() if offset < end[partition]}
        ends = self._confirm_ends(pending, self._lookups.find_latest_offsets(pending))
        return self._lookups.plan_ranges({**begins, **self._lookups.check_retained_offsets(pending, ends)}, end)


def key_by_partition(offsets: Mapping[Name, int]) -> Offsets:
    """Return offsets by ``TopicPartition``."""
    return {TopicPartition(*name): offset for name, offset in offsets.items()}


def key_by_name(offsets: Offsets) -> dict[Name, int]:
    """Return offsets by (topic, partition number)."""
    return {(partition.topic, partition.partition): offset for partition, offset in offsets.items()}


def _is_other_topic(topic_id: str, current_id: str | None) -> bool:
    """Return whether two ids belong to different topics. An unknown id counts as the same topic."""
    return bool(topic_id and current_id) and topic_id != current_id
