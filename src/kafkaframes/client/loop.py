"""An event loop in a thread of its own, for callers that do not run one: one per client, ended with it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from kafkaframes.errors import NetworkError

Result = TypeVar("Result")
_END_SECONDS: Final = 60.0  # only against hanging


class LoopThread:
    """Runs coroutines for threads that wait for their results."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop; return its result, or raise what it raises.

        Ctrl-C in the waiting thread cancels it.

        Raises:
            NetworkError: the loop has ended: the client was closed.
        """
        if self._loop.is_closed() or not self._thread.is_alive():
            coroutine.close()
            raise NetworkError("this client was closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what runs, end the loop and its thread."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop).result(_END_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def _cancel_all(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
