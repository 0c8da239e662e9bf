"""An event loop that other threads give work to: in a thread of its own, or somebody's; and a thread beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from kafkaframes.broker.api import Later

_Answer = TypeVar("_Answer")
_SECONDS = 60.0


class LoopThread:
    """The loop of one broker.

    Attributes:
        loop: None while it has none.
        is_own: it runs in a thread of its own.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ident = 0

    @property
    def is_own(self) -> bool:
        """Whether the loop runs in a thread of its own."""
        return self._thread is not None

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on the loop."""
        return threading.get_ident() == self._ident

    def join_running(self) -> None:
        """Take the loop that runs now, in its thread."""
        self.loop = asyncio.get_running_loop()
        self._ident = threading.get_ident()

    def start(self) -> None:
        """Begin a loop in a new thread."""
        loop = self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(loop,), name="kafkaframes-broker", daemon=True)
        self._thread.start()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ident = threading.get_ident()
        asyncio.set_event_loop(loop)
        loop.run_forever()

    def call(self, work: Coroutine[Any, Any, _Answer], *, timeout: float | None = _SECONDS) -> _Answer:
        """Do work on the loop, from another thread; return its result.

        Raises:
            TimeoutError: it takes longer than ``timeout`` (seconds; None: however long it takes).
        """
        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)

    def end(self) -> None:
        """End the thread, if there is one, and let the loop go."""
        if self._thread is not None and self.loop is not None:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(_SECONDS)
            self.loop.close()
        self._thread = self.loop = None


class Beside:
    """Threads beside a loop, for what would hold up others; with one, memory is that of one work at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = 1) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="kafkaframes-beside")

    def __call__(self, work: Callable[[], None]) -> Later:
        """Begin when what came before is done; return what is complete on the loop when the work is."""
        later = Later()

        def finish(done: asyncio.Future[None]) -> None:
            error = None if done.cancelled() else done.exception()
            if isinstance(error, Exception):
                later.fail(error)
            else:
                later.complete(None)

        self._loop.run_in_executor(self._threads, work).add_done_callback(finish)
        return later

    def stop(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
