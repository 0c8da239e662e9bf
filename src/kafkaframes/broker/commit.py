"""Group commit: answers wait until the disk has what they acknowledge, and one flush serves many (``fsync``)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kafkaframes.broker.state import FSYNC, BrokerState
from kafkaframes.errors import StorageError
from kafkaframes.storage.partition import Flush

_LOG = logging.getLogger(__name__)


class GroupCommit:
    """Flushes what was appended in a thread; those who wait meanwhile are served by the next flush, together."""

    def __init__(self, broker: BrokerState, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self._waiting: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self._running: asyncio.Task[None] | None = None
        self.is_enabled = broker.durability == FSYNC

    @property
    def is_needed(self) -> bool:
        """Whether something was appended, or is being flushed, that an answer could acknowledge."""
        return self.is_enabled and bool(self._broker.unflushed or self._running)

    def when_flushed(self, call: Callable[[], None], fail: Callable[[], None]) -> None:
        """Call ``call`` once everything that is appended now is on the disk; ``fail`` if the disk has failed."""
        self._waiting.append((call, fail))
        if self._running is None:
            self._running = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                is_flushed = await self._flush()
                for call, fail in waiting:
                    (call if is_flushed else fail)()
        finally:
            self._running = None

    async def _flush(self) -> bool:
        """Put what was appended on the disk; False if the disk fails: the log directory is offline then."""
        partitions, self._broker.unflushed = self._broker.unflushed, set()
        try:
            begun = [(one.log, one.log.begin_flush()) for one in partitions if not one.is_offline]
            if begun:
                await self._loop.run_in_executor(None, _run, [flush for _, flush in begun])
        except StorageError:
            _LOG.exception("the disk failed: nothing that waits for it is acknowledged")
            return False
        for log, flush in begun:
            log.finish_flush(flush.offset, now_ms=self._broker.clock.now_ms)
        return True

    async def close(self) -> None:
        """Wait for the flush that is on its way."""
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)


def _run(flushes: list[Flush]) -> None:
    for flush in flushes:
        flush.run()
