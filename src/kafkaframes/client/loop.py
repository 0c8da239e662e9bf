"""An event loop in a thread of its own, for callers that do not run one: one per client, ended with it.

A client that nobody closes is closed for its owner, with a warning that names it: when it is no longer used
(``ResourceWarning``), or when the program ends (a line of the log, which Python writes to standard error by default).
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # what it does at the end of the program has to come behind ours
import contextlib
import logging
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from kafkaframes.errors import NetworkError

Result = TypeVar("Result")
Closing = Callable[[], Coroutine[Any, Any, None]]
_LOG: Final = logging.getLogger(__name__)
_END_SECONDS: Final = 60.0  # only against hanging
_EXIT_SECONDS: Final = 10.0  # so long may what was not closed take to send what it holds
_threads: weakref.WeakSet[LoopThread] = weakref.WeakSet()


class LoopThread:
    """Runs coroutines for threads that wait for their results."""

    def __init__(self, name: str, *, closing: Closing | None = None) -> None:
        """Begin; ``closing`` closes the client if nobody else does."""
        self._name = name
        self._closing = closing
        self._has_ended = self._is_stopped = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        if closing is not None:
            _threads.add(self)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            while not self._is_stopped:
                with contextlib.suppress(SystemExit, KeyboardInterrupt):  # of a task, whose caller is told
                    self._loop.run_forever()
        finally:
            self._loop.close()

    def call(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop; return its result, or raise what it raises.

        Ctrl-C in the waiting thread cancels it.

        Raises:
            NetworkError: the client was closed, before this or meanwhile.
        """
        future = self.begin(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def begin(self, coroutine: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Begin a coroutine on the loop; return a future of its result.

        Raises:
            NetworkError: the client was closed; if that is meanwhile, it is what the future ends in.
        """
        if self._loop.is_closed() or not self._thread.is_alive():
            coroutine.close()
            raise NetworkError("this client was closed")
        begun: concurrent.futures.Future[Result] | None = None

        async def unless_closed() -> Result:
            try:
                return await coroutine
            except asyncio.CancelledError:
                if self._has_ended and not (begun is not None and begun.cancelled()):  # by who waits, with Ctrl-C
                    raise NetworkError("this client was closed") from None
                raise

        begun = asyncio.run_coroutine_threadsafe(unless_closed(), self._loop)
        return begun

    def soon(self, function: Callable[[], object]) -> None:
        """Call a function on the loop, without waiting; not at all if the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def end(self, closing: Closing) -> None:
        """Close the client and end the loop, the first time."""
        if self._has_ended:
            return
        self._has_ended = True
        try:
            self.call(closing())
        finally:
            self.close()

    def close(self) -> None:
        """Cancel what runs, end the loop and its thread."""
        self._has_ended = True
        if self._loop.is_closed():
            return
        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop)
        self._thread.join(_END_SECONDS)

    def abandon(self) -> None:
        """Warn that nobody has closed the client, and close it without waiting for that."""
        if self._has_ended or self._loop.is_closed():
            return
        self._has_ended = True
        warnings.warn(f"{self._name} was not closed", ResourceWarning, stacklevel=3)
        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._close_client(_END_SECONDS), self._loop)

    def end_at_exit(self) -> None:
        """Close the client if nobody has, or wait until it is closed."""
        if not self._has_ended:
            self._has_ended = True
            _LOG.warning("%s was not closed; it is closed now, at the end of the program", self._name)
            with contextlib.suppress(RuntimeError):
                asyncio.run_coroutine_threadsafe(self._close_client(_EXIT_SECONDS), self._loop)
        self._thread.join(_EXIT_SECONDS)

    async def _close_client(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                if self._closing is not None:
                    await self._closing()
        except Exception as error:
            _LOG.warning("%s: closing it failed, what it held may be lost: %r", self._name, error)
        await self._stop()

    async def _stop(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # sockets are closed in the turn after
        self._is_stopped = True
        self._loop.stop()


def _end_all() -> None:
    for thread in list(_threads):
        thread.end_at_exit()


# Before the threads that look up names have ended, and so before ``atexit``: a connection may have to be opened.
getattr(threading, "_register_atexit", atexit.register)(_end_all)


def run_alone(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end as ``asyncio.run`` does; in a thread where a loop runs here, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with concurrent.futures.ThreadPoolExecutor(1, "kafkaframes") as pool:
        return pool.submit(asyncio.run, coroutine).result()


def background(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Begin a task that lives as long as its client, which warns if it is not closed; asyncio need not, too."""
    task = asyncio.ensure_future(coroutine)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    return task


async def cancelled(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks and wait for their end; to be cancelled oneself meanwhile is not swallowed."""
    known = [task for task in tasks if task is not None]
    for task in known:
        task.cancel()
    await asyncio.gather(*known, return_exceptions=True)


async def waited(event: asyncio.Event, timeout_s: float | None) -> None:
    """Wait for an event, or until the time is over if there is one."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()


def warn_unclosed(client: object, bootstrap_servers: object) -> None:
    """Warn that an asyncio client was not closed before it, or its event loop, has ended."""
    message = f"{type(client).__name__} of {bootstrap_servers} was not closed"
    warnings.warn(message, ResourceWarning, source=client, stacklevel=3)


async def apart(work: Callable[[], Result]) -> Result:
    """Do work that may wait for long in a thread of its own.

    Unlike with those of ``asyncio.to_thread``, neither look-ups of names nor the program's end wait for it.

    Raises:
        RuntimeError: the work calls ``sys.exit``, which would end its thread only; else what the work raises.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def finish(give: Callable[[], None]) -> None:
        if not done.done():
            give()

    def run() -> None:
        try:
            give = partial(done.set_result, work())
        except BaseException as error:
            is_ordinary = isinstance(error, Exception) and not isinstance(error, StopIteration)  # which no future takes
            give = partial(done.set_exception, error if is_ordinary else RuntimeError(f"{work!r} raised {error!r}"))
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(finish, give)

    threading.Thread(target=run, name="kafkaframes-apart", daemon=True).start()
    return await done
