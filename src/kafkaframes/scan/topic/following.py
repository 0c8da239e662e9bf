"""Follow live topics: where a stream starts, how far its next micro-batch goes, what its tasks read. No pyspark.

A checkpoint holds Spark's own form, ``{"topic": {"0": 42}}``, and the ids of topics as entries without partitions,
``{"topic@<id>": {}}``, which Spark's connector passes over. Partitions that appear later are read from their start. A
topic with another id was deleted and made anew, a partition whose end lies below what was read was, too, or cut: an
error, or with ``failOnDataLoss=false`` a warning, and it is read from its start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from kafkaframes.client import TopicPartition
from kafkaframes.scan import ranges
from kafkaframes.scan.log.following import rated
from kafkaframes.scan.ranges import Nested, report_loss, was_cut, was_made_anew
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.planning import Offsets, TopicLookups, density, open_consumer
from kafkaframes.scan.topic.shares import Range

_ID = "@"  # no topic has it in its name


def nested(offsets: Offsets, ids: Mapping[str, str] | None = None) -> Nested:
    """Return offsets as ``scan.ranges.nested`` does, and the ids of their topics.

    >>> nested({TopicPartition("t", 0): 42}, {"t": "a-b"})
    {'t': {'0': 42}, 't@a-b': {}}
    """
    result = ranges.nested({(partition.topic, partition.partition): at for partition, at in offsets.items()})
    return {**result, **{f"{topic}{_ID}{ids[topic]}": {} for topic in result if ids and topic in ids}}


def ids_in(offsets: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    """Return the ids of topics that stand beside offsets.

    >>> ids_in({"t": {"0": 42}, "t@a-b": {}})
    {'t': 'a-b'}
    """
    return {topic: topic_id for topic, mark, topic_id in (name.partition(_ID) for name in offsets) if mark}


def flat(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Undo ``nested``."""
    return {TopicPartition(*name): at for name, at in ranges.flat(offsets).items()}


class TopicFollower:
    """What a stream asks of a cluster; its connections live as long as the query."""

    def __init__(self, options: TopicOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self._lookups = TopicLookups(options)
        self._clock = clock
        self._triggered_at: float | None = None  # for minOffsetsPerTrigger; None: not yet in this run
        self._density: dict[TopicPartition, float] = {}

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

    def ids(self) -> dict[str, str]:
        """Return the ids of the topics now; asked for before their ends, so that no end is of a later topic."""
        return self._lookups.ids()

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

    def latest(self, start: Offsets, *, goal: Offsets | None = None, limited: bool = True) -> Offsets:
        """Return where the micro-batch that begins at ``start`` ends; ``start`` itself where it should wait.

        Args:
            start: of the micro-batch.
            goal: how far it may go; the ends as they are now without it.
            limited: whether the options' limits count.

        Raises:
            OptionError: a partition has vanished or ends below ``start``, with ``failOnDataLoss``.
        """
        ends = self.ends() if goal is None else dict(goal)
        begins = self._begins(start, ends)
        waiting = sum(max(end - begins[partition], 0) for partition, end in ends.items())
        if goal is None and limited and self._should_wait(waiting):
            return start
        limits = {partition: max(end, begins[partition]) for partition, end in ends.items()}
        if limited:
            limits = self._limited(begins, limits)
        return {**{partition: offset for partition, offset in start.items() if partition in ends}, **limits}

    def _begins(self, start: Offsets, ends: Offsets) -> Offsets:
        new = [partition for partition in ends if partition not in start]
        begins = {
            **{partition: start[partition] for partition in ends if partition in start},
            **self._lookups.earliest(new),
        }
        gone = [partition for partition in start if partition not in ends]
        cut = [partition for partition, end in ends.items() if begins[partition] > end]
        for partition in (*gone, *cut):
            problem = was_cut(partition, start.get(partition, begins.get(partition, 0)), ends.get(partition))
            report_loss(problem, fail=self.options.fail_on_data_loss)
        return begins | self._lookups.earliest(cut)

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
            limits = rated(begins, limits, options.max_offsets_per_trigger)
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

    def plan(self, start: Offsets, end: Offsets) -> list[Range]:
        """Plan the tasks of one micro-batch; it may be one that a restart repeats.

        Raises:
            OptionError: a partition ends below its start, or offsets are lost, with ``failOnDataLoss``.
        """
        begins = {partition: start[partition] for partition in end if partition in start}
        begins |= self._lookups.earliest([partition for partition in end if partition not in start])
        cut = [
            partition for partition in end if begins[partition] > end[partition]
        ]  # created again since: ``latest`` has reported it
        if cut and self.options.fail_on_data_loss:
            report_loss(was_cut(cut[0], begins[cut[0]], end[cut[0]]), fail=True)
        begins |= self._lookups.earliest(cut)
        pending = {partition: offset for partition, offset in begins.items() if offset < end[partition]}
        return self._lookups.ranges({**begins, **self._lookups.check_kept(pending)}, end)
