"""Follow live topics: where a stream starts, how far its next micro-batch goes, what its tasks read. No pyspark.

Partitions that appear later are read from their start; if that is not offset 0, records are lost. A topic with another
id was deleted and created again; a partition that ends before the offset that was read was, too, or it was truncated;
a partition that is not listed may be deleted. Each of these is an error. With ``failOnDataLoss=false`` it is a warning:
the topic is read from its start, and a partition that is not listed keeps its offset (``stream_offsets.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.scan.ranges import Name, limit_offsets, lost_start, report_loss, was_cut, was_made_anew
from kafkaframes.scan.stream_offsets import AbsentPartition, StreamOffsets
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.planning import Offsets, TopicLookups, density, open_consumer
from kafkaframes.scan.topic.shares import Range

Absent = dict[Name, AbsentPartition]
_LIST_RETRY_S: Final = 0.5


class Listing(NamedTuple):
    """What the brokers list of the topics of a stream: its partitions, and the ids of the topics that have one."""

    partitions: list[TopicPartition]
    ids: dict[str, str]


class TopicFollower:
    """What a stream asks of a cluster; its connections live as long as the query."""

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
        self._triggered_at: float | None = None  # for minOffsetsPerTrigger; None: not yet in this run
        self._density: dict[TopicPartition, float] = {}
        self._reported: set[TopicPartition] = set()  # partitions that are not listed, each reported once

    def close(self) -> None:
        """End the connections."""
        self._lookups.close()

    def start(self) -> Offsets:
        """Return where the first micro-batch starts."""
        result = self._lookups.starts(self._lookups.partitions())
        return self._lookups.check_kept(result)

    def ends(self) -> Offsets:
        """Return the end of each partition as it is now."""
        return self._lookups.latest(self._lookups.partitions())

    def listing(self, *, is_expected: bool = False) -> Listing:
        """Return what the brokers list now; asked for before the ends, so that no end is of a later topic.

        Args:
            is_expected: whether an empty list would be an error with ``failOnDataLoss``. Then it is asked for again
                until ``default.api.timeout.ms`` is over: brokers that have just started list nothing for a while.
        """
        deadline = self._clock() + ConsumerSettings.of(self.options.client).default_api_timeout_ms / 1000
        is_expected = is_expected and self.options.fail_on_data_loss
        while not (partitions := self._lookups.partitions()) and is_expected and self._clock() < deadline:
            self._sleep(_LIST_RETRY_S)
        return Listing(partitions, self._lookups.ids({partition.topic for partition in partitions}))

    def resume(self, at: StreamOffsets, listing: Listing) -> tuple[Offsets, Absent]:
        """Return where a stream continues, and the partitions that are still not listed.

        Args:
            at: the offsets of its checkpoint.
            listing: what the brokers list.

        Raises:
            OptionError: a topic was created again, with ``failOnDataLoss``.
        """
        begins = self.still_there(by_partition(at.offsets), at.ids, listing.ids)
        listed, absent = set(listing.partitions), {}
        for name, entry in at.absent.items():
            partition = TopicPartition(*name)
            if _is_other(entry.topic_id, listing.ids.get(partition.topic)):
                problem = was_made_anew(partition.topic, entry.topic_id, listing.ids[partition.topic])
                report_loss(problem, fail=self.options.fail_on_data_loss)
            elif partition in listed:
                begins.setdefault(partition, entry.offset)
            else:
                absent[name] = entry
        return begins, absent

    def planned_start(self, start: StreamOffsets, end: StreamOffsets) -> Offsets:
        """Return where each partition of a planned micro-batch begins; a new one is missing. Raises as ``resume``."""
        begins = self.still_there(by_partition(start.offsets), start.ids, end.ids)
        for name, entry in start.absent.items():
            if name in end.offsets and not _is_other(entry.topic_id, end.ids.get(name[0])):
                begins.setdefault(TopicPartition(*name), entry.offset)
        return begins

    def still_there(self, offsets: Offsets, then: Mapping[str, str], now: Mapping[str, str]) -> Offsets:
        """Return offsets without those of topics that were made anew: these are read from their start.

        Args:
            offsets: of a checkpoint.
            then: the ids of its topics; one that is not known counts as the same.
            now: ids later on.

        Raises:
            OptionError: a topic was made anew, with ``failOnDataLoss``.
        """
        anew = sorted(topic for topic in then.keys() & now.keys() if then[topic] != now[topic])
        for topic in anew:
            report_loss(was_made_anew(topic, then[topic], now[topic]), fail=self.options.fail_on_data_loss)
        return {partition: offset for partition, offset in offsets.items() if partition.topic not in anew}

    def latest(
        self, start: Offsets, *, goal: Offsets | None = None, limited: bool = True, is_first: bool = False
    ) -> Offsets:
        """Return where the micro-batch that begins at ``start`` ends; ``start`` itself where it should wait.

        Args:
            start: of the micro-batch.
            goal: how far it may go; the ends as they are now without it.
            limited: whether the options' limits count.
            is_first: whether it is the query's first micro-batch.

        Raises:
            OptionError: a partition is not listed or ends below ``start``, or a new one has lost its first records,
                with ``failOnDataLoss``.
        """
        ends = self.ends() if goal is None else dict(goal)
        begins = self._begins(start, ends, is_first=is_first)
        waiting = sum(max(end - begins[partition], 0) for partition, end in ends.items())
        if goal is None and limited and self._should_wait(waiting):
            return start
        limits = {partition: max(end, begins[partition]) for partition, end in ends.items()}
        if limited:
            limits = self._limited(begins, limits)
        return {**{partition: offset for partition, offset in start.items() if partition in ends}, **limits}

    def _begins(self, start: Offsets, ends: Offsets, *, is_first: bool) -> Offsets:
        fails = self.options.fail_on_data_loss
        earliest = self._lookups.earliest([partition for partition in ends if partition not in start])
        if not is_first and fails:  # otherwise ``plan`` warns
            self._report_lost_starts(earliest)
        begins = {**{partition: start[partition] for partition in ends if partition in start}, **earliest}
        absent = [partition for partition in start if partition not in ends]
        truncated = [partition for partition, end in ends.items() if begins[partition] > end]
        for partition in (*(one for one in absent if one not in self._reported), *truncated):
            problem = was_cut(partition, start.get(partition, begins.get(partition, 0)), ends.get(partition))
            report_loss(problem, fail=fails)
        self._reported = set(absent)
        return begins | self._lookups.earliest(truncated)

    def _report_lost_starts(self, earliest: Offsets) -> None:
        for partition, first in earliest.items():
            if first > 0:
                report_loss(lost_start(partition, first), fail=self.options.fail_on_data_loss)

    def _should_wait(self, waiting: int) -> bool:
        """Return whether to wait for ``minOffsetsPerTrigger``: ``maxTriggerDelay`` at the longest since the last batch.

        The first batch of a run waits for nothing, and the time begins anew when it is over, rows or none: as in
        Spark's connector (``KafkaMicroBatchStream.delayBatch``).
        """
        least = self.options.min_offsets_per_trigger
        if least is None:
            return False
        now, since = self._clock(), self._triggered_at
        is_late = since is None or (now - since) * 1000 >= self.options.max_trigger_delay_ms
        if not is_late and waiting < least:
            return True
        self._triggered_at = now
        return False

    def _limited(self, begins: Offsets, limits: Offsets) -> Offsets:
        options = self.options
        if options.max_offsets_per_trigger is not None:
            limits = limit_offsets(begins, limits, options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            limits = self._weighed(begins, limits, options.max_bytes_per_trigger)
        return limits

    def _weighed(self, begins: Offsets, limits: Offsets, most: int) -> Offsets:
        """Bound a micro-batch by bytes, by the size of the batches at its beginning; each partition gets a share."""
        waiting = [partition for partition in limits if limits[partition] > begins[partition]]
        if not waiting:
            return limits
        share = most / len(waiting)
        with open_consumer(self.options, max_partition_fetch_bytes=1 << 20) as look:
            for partition in waiting:
                self._density[partition] = density(look, partition, begins[partition]) or self._density.get(
                    partition, 1.0
                )
        bounded = {
            partition: begins[partition] + max(int(share / self._density[partition]), 1) for partition in waiting
        }
        return {**limits, **{partition: min(limits[partition], bounded[partition]) for partition in waiting}}

    def plan(self, start: Offsets, end: Offsets, *, is_first: bool = False) -> list[Range]:
        """Plan the tasks of one micro-batch; it may be one that a restart repeats.

        Raises:
            OptionError: a partition ends below its start, or offsets are lost, with ``failOnDataLoss``.
        """
        earliest = self._lookups.earliest([partition for partition in end if partition not in start])
        if not is_first:
            self._report_lost_starts(earliest)
        begins = {**{partition: start[partition] for partition in end if partition in start}, **earliest}
        cut = [
            partition for partition in end if begins[partition] > end[partition]
        ]  # created again since: ``latest`` has reported it
        if cut and self.options.fail_on_data_loss:
            report_loss(was_cut(cut[0], begins[cut[0]], end[cut[0]]), fail=True)
        begins |= self._lookups.earliest(cut)
        pending = {partition: offset for partition, offset in begins.items() if offset < end[partition]}
        return self._lookups.ranges({**begins, **self._lookups.check_kept(pending)}, end)


def by_partition(offsets: Mapping[Name, int]) -> Offsets:
    """Return offsets by topic partition."""
    return {TopicPartition(*name): offset for name, offset in offsets.items()}


def by_name(offsets: Offsets) -> dict[Name, int]:
    """Undo ``by_partition``."""
    return {(partition.topic, partition.partition): offset for partition, offset in offsets.items()}


def _is_other(topic_id: str, now: str | None) -> bool:
    """Return whether two ids are of different topics; an id that is not known counts as the same."""
    return bool(topic_id and now) and topic_id != now
