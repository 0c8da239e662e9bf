"""Periodic work of a broker: retention, checkpoints, flushes, producer expiration, compaction and leader elections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kafkaframes.broker.lifecycle.cleaning_round import CleaningRange, find_cleaning_range
from kafkaframes.broker.state.elections import elect_preferred_leaders
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.errors import KafkaframesError, StorageError
from kafkaframes.storage.files.descriptors import count_free_descriptors, count_reserved_descriptors
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.partition.segment_replacement import remove_cleaned

_MAINTENANCE_INTERVAL_MS = 1_000
_LOGGER = logging.getLogger("kafkaframes.broker")


@dataclass(slots=True)
class LogCleaner:
    """The log cleaner of a broker (LogCleaner), driven by the broker's clock.

    Every ``log.cleaner.backoff.ms``, logs with ``cleanup.policy=compact`` are compacted, starting with the highest
    dirty ratio. Closed segments are compacted into new files without a lock, because they do not change. The new files
    then replace the old segments between two requests. If segments were deleted in the meantime, the log is compacted
    again later.

    Attributes:
        run_work: runs a function in a thread, and then a second function on the broker's thread. If ``run_work`` is
            None, or while the clock is frozen, both functions run immediately on the caller's thread.
        uncleanable: logs that could not be read, and the reason. Compactions skip these logs until the next start.
    """

    broker: BrokerState
    run_work: Callable[[Callable[[], None], Callable[[], None]], None] | None = None
    uncleanable: dict[TopicPartition, str] = field(default_factory=dict)
    is_stopped: bool = False
    is_busy: bool = False
    _task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self._schedule_check()

    def _schedule_check(self) -> None:
        """Schedule the next check for logs to compact."""
        settings = self.broker.settings
        if not self.broker.is_read_only and settings.get_flag("log.cleaner.enable"):
            self.broker.clock.call_later(max(settings.get_number("log.cleaner.backoff.ms"), 1), self._start_if_due)

    def _start_if_due(self) -> None:
        """Start a compaction round unless one is running, and schedule the next check."""
        if self.is_stopped or self.broker.logs.is_closed:
            return
        if not self.is_busy:
            self._clean_next(set())
        self._schedule_check()

    def _clean_next(self, done_partitions: set[TopicPartition]) -> None:
        """Compact the log with the highest dirty ratio that has not been compacted in this pass."""
        ranges = [
            cleaning_range
            for cleaning_range in self._find_cleaning_ranges()
            if cleaning_range.key not in done_partitions
        ]
        if self.is_stopped or not ranges:
            return
        self._clean(max(ranges, key=lambda cleaning_range: cleaning_range.ratio), done_partitions)

    def _clean(self, cleaning_range: CleaningRange, done_partitions: set[TopicPartition]) -> None:
        """Compact a range of a log in a thread, and then continue with the next log."""
        outcome: list[dict[int, tuple[int, ...]]] = []
        self.is_busy = True

        def write_segments() -> None:
            # Arrow and kernels would delay the broker's start.
            from kafkaframes.broker.lifecycle.cleaning_work import write_compacted

            try:
                outcome.extend(write_compacted(cleaning_range, lambda: self.is_stopped))
            except StorageError as error:  # the next pass retries, unless the directory is offline
                self.broker.disk_problems.report("compaction fails", error)
            except KafkaframesError as error:
                _LOGGER.warning("%s is not compacted: %s", cleaning_range.key, error)
                self.uncleanable[cleaning_range.key] = str(error)
            except Exception as error:  # an internal error must not stop the compaction of other logs
                _LOGGER.exception("%s is not compacted", cleaning_range.key)
                self.uncleanable[cleaning_range.key] = str(error)

        def install_segments() -> None:
            self.is_busy = False
            done_partitions.add(cleaning_range.key)
            if self.is_stopped or self.broker.logs.is_closed:
                return
            if outcome:  # empty if the log is uncleanable, or the compaction was cancelled
                self._install_segments(cleaning_range, outcome[0])
            else:
                self.broker.logs.disk.bring_online(lambda: remove_cleaned(cleaning_range.log))
            self._clean_next(done_partitions)

        if self.run_work is None or self.broker.clock.is_frozen:
            write_segments()
            install_segments()
        else:
            self.run_work(write_segments, install_segments)

    def _install_segments(self, cleaning_range: CleaningRange, groups: dict[int, tuple[int, ...]]) -> None:
        log, now_ms = cleaning_range.log, self.broker.clock.now_ms
        try:
            for bases in groups.values():
                if not log.replace_segments([cleaning_range.segments[base] for base in bases], now_ms=now_ms):
                    return
            self.broker.logs.checkpoint_cleaned_offset(cleaning_range.key, cleaning_range.end)
        except KafkaframesError as error:
            self.broker.disk_problems.report("cleaned segments cannot replace the old ones", error)

    def run_in_thread(self, work: Callable[[], None], finish: Callable[[], None]) -> None:
        """Run work in a thread, and then ``finish`` on the broker's thread.

        A running broker uses ``run_in_thread`` as ``run_work``.
        """

        async def run_work() -> None:
            await asyncio.get_running_loop().run_in_executor(None, work)
            finish()

        self._task = asyncio.get_running_loop().create_task(run_work())

    async def stop(self) -> None:
        """Stop compactions, and wait for the current one."""
        self.is_stopped = True
        if self._task is not None:
            await self._task

    def _find_cleaning_ranges(self) -> Iterable[CleaningRange]:
        for partition in self.broker.partitions():
            log = partition.log
            if not log.settings.is_compacted or log.is_closed or partition.topic_partition in self.uncleanable:
                continue
            cleaning_range = find_cleaning_range(self.broker, partition)
            if cleaning_range is not None:
                yield cleaning_range


class Maintenance:
    """Periodic maintenance of the log directory, and elections of preferred leaders.

    The maintenance runs every second of the broker's clock.
    """

    def __init__(self, broker: BrokerState) -> None:
        self._broker = broker
        self._schedule_round()
        self._schedule_elections()

    def _schedule_elections(self) -> None:
        """Schedule the election of preferred leaders if the settings enable it."""
        settings = self._broker.settings
        if len(self._broker.nodes.by_id) > 1 and settings.get_flag("auto.leader.rebalance.enable"):
            seconds = settings.get_number("leader.imbalance.check.interval.seconds")
            self._broker.clock.call_later(seconds * 1_000, self._elect_preferred_leaders)

    def _elect_preferred_leaders(self) -> None:
        """Elect the preferred leaders of all partitions, and schedule the next election."""
        if not self._broker.logs.is_closed:
            elect_preferred_leaders(self._broker)
            self._schedule_elections()

    def _schedule_round(self) -> None:
        """Schedule the next maintenance round."""
        if not self._broker.is_read_only:
            self._broker.clock.call_later(_MAINTENANCE_INTERVAL_MS, self._run_round)

    def _run_round(self) -> None:
        """Run a maintenance round, such as retention and checkpoints, and schedule the next one."""
        broker = self._broker
        if broker.logs.is_closed:
            return
        starts = {partition: partition.log.log_start_offset for partition in broker.partitions()}
        try:
            if count_free_descriptors() > 2 * count_reserved_descriptors():
                broker.logs.disk.grow_pool()
            broker.logs.tick(broker.clock.now_ms, broker.clock.monotonic_ms)
            if broker.is_unsaved and not broker.logs.is_offline:
                broker.save_metadata()
        except KafkaframesError as error:
            broker.disk_problems.report("retention and checkpoints fail", error)
        for partition, start in starts.items():
            if partition.log.log_start_offset != start:
                partition.notify()
        self._schedule_round()
