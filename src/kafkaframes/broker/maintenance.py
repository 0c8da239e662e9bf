"""What a broker does by the clock, beside answering: retention, checkpoints, flushing by time, forgetting producers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.broker.cleaning import Cleaning

_EVERY_MS = 1_000
_LOG = logging.getLogger(__name__)


class Maintenance:
    """Looks after a broker's log directory, once a second of the broker's clock."""

    def __init__(self, broker: BrokerState) -> None:
        self._broker = broker
        self._schedule()

    def _schedule(self) -> None:
        if not self._broker.is_read_only:
            self._broker.clock.call_later(_EVERY_MS, self._run)

    def _run(self) -> None:
        broker = self._broker
        if broker.logs.is_closed:
            return
        starts = {partition: partition.log.log_start_offset for partition in broker.partitions()}
        try:
            broker.logs.tick(broker.clock.now_ms)
            if broker.is_unsaved and not broker.logs.is_offline:
                broker.save()
        except KafkaframesError:
            _LOG.exception("looking after the log directory failed")
        for partition, start in starts.items():
            if partition.log.log_start_offset != start:
                partition.notify()
        self._schedule()


class CleaningLater:
    """Cleans logs from when it is first due: what cleans them imports as much as the rest of the broker."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._cleaning: Cleaning | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False
        if not state.is_read_only and state.settings.flag("log.cleaner.enable"):
            state.clock.call_later(max(state.settings.number("log.cleaner.backoff.ms"), 1), self._begin)

    def _begin(self) -> None:
        if self._is_stopped:
            return
        from kafkaframes.broker.cleaning import Cleaning

        self._cleaning = Cleaning(self._state, self._run_in_thread)
        self._cleaning.look()

    def _run_in_thread(self, work: Callable[[], None], finish: Callable[[], None]) -> None:
        """Run work in a thread, and what follows it on the broker's own."""

        async def running() -> None:
            await asyncio.get_running_loop().run_in_executor(None, work)
            finish()

        self._task = asyncio.get_running_loop().create_task(running())

    async def stop(self) -> None:
        """Begin no more, and wait for what runs."""
        self._is_stopped = True
        if self._cleaning is not None:
            self._cleaning.is_stopped = True
        if self._task is not None:
            await self._task
