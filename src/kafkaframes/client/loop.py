"""An event loop in a thread of its own, for the synchronous clients.

Each client has a loop of its own, which ends with the client.

A client that was not closed by its owner is closed automatically when it is garbage-collected or when the program ends.
The first case gives a ``ResourceWarning`` and the second a log message (on standard error by default). The warning and
the log message name the client.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # registers an exit hook, which must run after this module's hook
import contextlib
import gc
import logging
import os
import queue
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, TypeVar

from kafkaframes.errors import NetworkError, OptionError

Result = TypeVar("Result")
Closing = Callable[[], Coroutine[Any, Any, None]]
_LOG: Final = logging.getLogger("kafkaframes.client")
_CLOSE_TIMEOUT_S: Final = 60.0  # time after which a close that hangs is abandoned
_EXIT_TIMEOUT_S: Final = 10.0  # time for unclosed clients to send their batches when the program ends
_CALLBACK_THREAD_IDLE_S: Final = 10.0  # time without a callback after which the callback thread ends
CLOSE_TIMEOUT_MS: Final = 30_000  # default for consumers and admins, as in Kafka's clients
CLOSE_GRACE_S: Final = 5.0  # additional time to close sockets and tasks
_MAX_PROBABLE_SECONDS: Final = 60.0  # longest timeout that a caller may have meant in seconds
_has_warned_about_seconds = False
_threads: weakref.WeakSet[LoopThread] = weakref.WeakSet()
_parent_loops: list[
    LoopThread
] = []  # a child process keeps these references, so that the parent's loops are not garbage-collected there


class _CallInbox(queue.SimpleQueue[Any]):
    """Functions that a thread runs while it waits for the result of a call. The last item is the call's future."""

    is_open = True


_CALL_INBOX: ContextVar[_CallInbox | None] = ContextVar("_CALL_INBOX", default=None)


class LoopThread:
    """Runs coroutines for threads that wait for their results."""

    def __init__(self, name: str, *, closing: Closing | None = None, on_fork: Callable[[], None] | None = None) -> None:
        """Start the thread.

        Args:
            name: name of the client in messages.
            closing: function that closes the client if the client's owner does not.
            on_fork: function that is called after a fork in the child process, in which the thread does not exist.
        """
        self._name = name
        self._closing = closing
        self._on_fork = on_fork
        self._lock = threading.Lock()
        # Calls and their coroutines; None once a coroutine runs.
        self._calls: dict[concurrent.futures.Future[Any], Coroutine[Any, Any, Any] | None] = {}
        self._accepts_calls = True
        self._has_ended = self._is_stopped = self._is_forked = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name=name, daemon=True)
        self._thread.start()
        _threads.add(self)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            while not self._is_stopped:
                # Raised by a task; the caller of the task gets the exception.
                with contextlib.suppress(SystemExit, KeyboardInterrupt):
                    self._loop.run_forever()
        finally:
            self._fail_calls()
            self._loop.close()

    def _fail_calls(self) -> None:
        """Fail the calls that the loop will not run."""
        with self._lock:
            self._accepts_calls = False
            calls, self._calls = self._calls, {}
        for result, coroutine in calls.items():
            if coroutine is not None:
                coroutine.close()
            if result.set_running_or_notify_cancel():
                result.set_exception(_create_closed_error())

    def check_can_wait(self) -> None:
        """Check that a call can wait for the loop.

        Raises:
            OptionError: the caller runs in a child process, or in the loop's own thread.
        """
        if self._is_forked:
            raise OptionError(f"{self._name} was created before fork(); create a client in each process")
        if threading.current_thread() is self._thread:
            raise OptionError(f"{self._name} was called in its own thread, which would wait for itself")

    def call(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop, and return the coroutine's result or raise its exception.

        Functions that the coroutine passes to ``call_in_waiting_thread`` run in the waiting thread. Ctrl-C in the
        waiting thread cancels the coroutine.

        Raises:
            NetworkError: the client was closed before or during the call.
            OptionError: the caller runs in a child process, or in the loop's own thread.
        """
        return self._wait_for_call(coroutine, None)

    def _wait_for_call(self, coroutine: Coroutine[Any, Any, Result], timeout_s: float | None) -> Result:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        inbox = _CallInbox()
        token = _CALL_INBOX.set(inbox)
        try:
            future = self.start_call(coroutine)
        finally:
            _CALL_INBOX.reset(token)
        future.add_done_callback(inbox.put)
        try:
            while True:
                remaining_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                item = inbox.get(timeout=remaining_s)
                if item is future:
                    result: Result = future.result()
                    return result
                item()
        except queue.Empty:
            future.cancel()
            raise TimeoutError from None
        except BaseException:
            future.cancel()
            raise
        finally:
            inbox.is_open = False

    def start_call(self, coroutine: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Start a coroutine on the loop, and return a future of the coroutine's result.

        Raises:
            NetworkError: the client was closed. If the client is closed later, the future fails with this error.
            OptionError: the caller runs in a child process, or in the loop's own thread.
        """
        result: concurrent.futures.Future[Result] = concurrent.futures.Future()
        try:
            self.check_can_wait()
            with self._lock:
                if not self._accepts_calls:
                    raise _create_closed_error()
                self._calls[result] = coroutine
                self._loop.call_soon_threadsafe(self._start_task, result)
        except BaseException:
            coroutine.close()
            raise
        return result

    def _start_task(self, result: concurrent.futures.Future[Any]) -> None:
        with self._lock:
            coroutine, self._calls[result] = self._calls[result], None
        assert coroutine is not None
        task = self._loop.create_task(coroutine)

        def cancel_task(result: concurrent.futures.Future[Any]) -> None:
            if result.cancelled():
                self.call_soon(task.cancel)

        result.add_done_callback(cancel_task)
        task.add_done_callback(partial(self._finish_call, result))

    def _finish_call(self, result: concurrent.futures.Future[Any], task: asyncio.Task[Any]) -> None:
        with self._lock:
            self._calls.pop(result, None)
        if not result.set_running_or_notify_cancel():
            if not task.cancelled():
                task.exception()  # otherwise asyncio logs the exception of a call that the caller has cancelled
            return
        if task.cancelled():
            result.set_exception(_create_closed_error() if self._has_ended else concurrent.futures.CancelledError())
        elif (error := task.exception()) is not None:
            result.set_exception(error)
        else:
            result.set_result(task.result())

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a function on the loop without waiting for it. If the loop has ended, do nothing."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def end_loop(self, closing: Closing, *, timeout_s: float | None = None) -> None:
        """Close the client and end the loop. Later calls, and calls in a child process, do nothing.

        Args:
            closing: function that closes the client.
            timeout_s: seconds after which the loop ends even if the client is not closed; None to wait.
        """
        if self._is_forked:
            return
        self.check_can_wait()
        with self._lock:
            if self._has_ended:
                return
            self._has_ended = True
        try:
            self._wait_for_call(closing(), timeout_s)
        except TimeoutError:
            _LOG.warning("%s: close did not finish within %g s; open requests were abandoned", self._name, timeout_s)
        finally:
            self.close()

    def close(self) -> None:
        """Cancel all tasks, and end the loop and its thread."""
        self._has_ended = True
        if self._is_forked or self._loop.is_closed():
            return
        self.call_soon(self._begin_stop)
        self._thread.join(_CLOSE_TIMEOUT_S)

    def abandon(self) -> None:
        """Warn that the client was not closed, and close it in the background."""
        if self._is_forked or self._has_ended or self._loop.is_closed():
            return
        self._has_ended = True
        warnings.warn(f"{self._name} was not closed", ResourceWarning, stacklevel=3)
        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._close_client(_CLOSE_TIMEOUT_S), self._loop)

    def end_at_exit(self) -> None:
        """Close the client if its owner has not, or wait until it is closed."""
        if self._is_forked or self._closing is None:
            return
        if not self._has_ended:
            self._has_ended = True
            _LOG.warning("%s was not closed; it is closed now, at the end of the program", self._name)
            with contextlib.suppress(RuntimeError):
                asyncio.run_coroutine_threadsafe(self._close_client(_EXIT_TIMEOUT_S), self._loop)
        self._thread.join(_EXIT_TIMEOUT_S)

    def detach_after_fork(self) -> None:
        """Detach a child process from its parent process, to which the thread and the sockets belong."""
        self._is_forked = True
        self._lock = threading.Lock()  # another thread of the parent may have held the old lock
        self._calls.clear()
        if self._on_fork is not None:
            self._on_fork()

    async def _close_client(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                if self._closing is not None:
                    await self._closing()
        except Exception as error:
            _LOG.warning("%s: close failed, and unsent data may be lost: %r", self._name, error)
        await self._stop_loop()

    def _begin_stop(self) -> None:
        self._stopping = self._loop.create_task(self._stop_loop())

    async def _stop_loop(self) -> None:
        with self._lock:
            self._accepts_calls = False
        await asyncio.sleep(0)  # lets previously accepted calls begin
        while tasks := [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0)  # sockets are closed in the next iteration of the loop
        self._is_stopped = True
        self._loop.stop()


def _create_closed_error() -> NetworkError:
    return NetworkError("this client was closed")


class CallbackThread:
    """Calls functions of a client's user one after the other in a thread of its own.

    The functions may therefore call the client, and wait for it as far as the client allows. A slow function delays
    later functions but not requests and heartbeats.
    """

    def __init__(self, name: str) -> None:
        """Create the object. The thread starts with the first function."""
        self._name = name
        self._lock = threading.Condition()
        self._functions: deque[Callable[[], object]] = deque()
        self._thread: threading.Thread | None = None
        self._is_idle = True

    def submit(self, function: Callable[[], object]) -> None:
        """Queue a function for the thread.

        The function must not raise an exception. Other threads may call this method.
        """
        with self._lock:
            self._functions.append(function)
            self._is_idle = False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run_functions, name=self._name, daemon=True)
                self._thread.start()
            self._lock.notify_all()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return threading.current_thread() is self._thread

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until all functions have returned. If one of these functions calls this method, return at once."""
        if self.is_current:
            return
        with self._lock:
            self._lock.wait_for(lambda: self._is_idle, timeout_s)

    def _run_functions(self) -> None:
        while True:
            with self._lock:
                if not self._functions:
                    self._is_idle = True
                    self._lock.notify_all()
                    if not self._lock.wait_for(lambda: self._functions, _CALLBACK_THREAD_IDLE_S):
                        self._thread = None  # the next submit starts another thread
                        return
                function = self._functions.popleft()
            function()


class ClientContext:
    """The process and the event loop to which an asyncio client belongs."""

    def __init__(self, client: str) -> None:
        """Remember the current process; the event loop is the one on which the client is used first."""
        self._client = client
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_own_process(self) -> bool:
        """Whether this is the process in which the client was created."""
        return os.getpid() == self._pid

    def check_context(self) -> None:
        """Check that the client is used on its own event loop, in its own process.

        Raises:
            OptionError: the client is used elsewhere.
        """
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if not self.is_own_process:
            raise OptionError(f"this {self._client} was created before fork(); create one in each process")
        if self._loop is not None:
            raise OptionError(f"this {self._client} belongs to another event loop; create one on each loop")
        self._loop = loop


def _end_all_loops() -> None:
    for thread in list(_threads):
        thread.end_at_exit()


def _detach_parent_loops() -> None:
    """Abandon the parent's clients in a child process: do not use, close or report them."""
    for thread in list(_threads):
        thread.detach_after_fork()
        _parent_loops.append(thread)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_parent_loops)


# This hook runs before Python joins the threads that look up host names, and so before ``atexit``, because closing a
# client may open a connection.
getattr(threading, "_register_atexit", atexit.register)(_end_all_loops)


def run_in_new_loop(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine as ``asyncio.run`` does. If this thread runs a loop, as in a notebook, use another thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with concurrent.futures.ThreadPoolExecutor(1, "kafkaframes") as pool:
        return pool.submit(asyncio.run, coroutine).result()


def start_background_task(
    coroutine: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]] | None = None
) -> asyncio.Task[None]:
    """Start a task that ends with its client.

    Asyncio does not warn of the pending task, because the client itself warns if it is not closed.

    Args:
        coroutine: work of the task.
        tasks: set that contains the task until it ends.
    """
    task = asyncio.ensure_future(coroutine)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    if tasks is not None:
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    return task


async def cancel_tasks(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks and wait until they end. A cancellation of the caller is not swallowed."""
    running_tasks = [task for task in tasks if task is not None]
    if not running_tasks:
        return  # even an empty ``gather`` takes an iteration of the event loop
    for task in running_tasks:
        task.cancel()
    await asyncio.gather(*running_tasks, return_exceptions=True)


async def wait_for_event(event: asyncio.Event, timeout_s: float | None) -> None:
    """Wait for an event, at most until the timeout if a timeout is given."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()


def to_deadline(timeout_ms: float | None) -> float | None:
    """Return the time of ``time.monotonic`` at which a wait ends; None without a limit.

    Clients of other libraries take timeouts in seconds, so the first short ``float`` in a process is logged as a
    warning.
    """
    if timeout_ms is None:
        return None
    if isinstance(timeout_ms, float) and 0 < timeout_ms <= _MAX_PROBABLE_SECONDS:
        _warn_about_seconds(timeout_ms)
    return time.monotonic() + timeout_ms / 1000


def _warn_about_seconds(timeout_ms: float) -> None:
    global _has_warned_about_seconds
    if not _has_warned_about_seconds:
        _has_warned_about_seconds = True
        _LOG.warning(
            "timeout_ms=%s waits %g ms: timeouts are in milliseconds, unlike those of confluent-kafka",
            timeout_ms,
            timeout_ms,
        )


def warn_unclosed(client: object, bootstrap_servers: object) -> None:
    """Warn that an asyncio client was not closed before it was collected or its event loop ended."""
    message = f"{type(client).__name__} of {bootstrap_servers} was not closed"
    warnings.warn(message, ResourceWarning, source=client, stacklevel=3)


async def run_in_thread(work: Callable[[], Result]) -> Result:
    """Do work that may block for a long time in a thread of its own.

    Unlike with ``asyncio.to_thread``, the work delays neither look-ups of host names nor the end of the program.

    Raises:
        RuntimeError: the work calls ``sys.exit``, which would end its thread only. Other exceptions are passed on.
    """
    future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    threading.Thread(target=_complete_future, args=(future, work), name="kafkaframes-apart", daemon=True).start()
    return await future


class _GcPause:
    """Pauses garbage collection of this process while threads create many objects.

    A collection holds the GIL for as long as it takes to visit all objects, and creating objects triggers collections.
    Decoding 300,000 partitions held the event loop for up to 0.9 s, and without collections for up to 0.15 s.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._was_enabled = False

    def __enter__(self) -> None:
        with self._lock:
            if self._count == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._was_enabled:
                gc.enable()

    def reset(self) -> None:
        """Resume garbage collection in a child process, which lacks the threads that would resume it."""
        self._lock = threading.Lock()
        if self._count and self._was_enabled:
            gc.enable()
        self._count = 0


_GC_PAUSE: Final = _GcPause()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_GC_PAUSE.reset)


async def create_objects_in_thread(work: Callable[[], Result]) -> Result:
    """Call a function that creates many objects in a thread of its own, so that it does not block the event loop.

    Raises the same errors as ``run_in_thread``.
    """

    def work_without_gc() -> Result:
        with _GC_PAUSE:
            return work()

    return await run_in_thread(work_without_gc)


async def call_in_waiting_thread(work: Callable[[], Result]) -> Result:
    """Call a function in the thread that waits for the current ``LoopThread.call``, and return its result.

    The function can therefore call the client. If no thread waits, the function runs in a new thread. Raises the
    same errors as ``run_in_thread``.
    """
    inbox = _CALL_INBOX.get()
    if inbox is None or not inbox.is_open:
        return await run_in_thread(work)
    future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    inbox.put(partial(_complete_future, future, work, may_interrupt=True))
    return await future


def _complete_future(
    future: asyncio.Future[Result], work: Callable[[], Result], *, may_interrupt: bool = False
) -> None:
    """Call a function outside of the loop's thread, and complete a future of the loop with its result or error.

    Args:
        future: future to complete.
        work: function to call.
        may_interrupt: whether Ctrl-C is raised in this thread as well, because the user's code waits in it.
    """

    def complete_if_pending(set_outcome: Callable[[], None]) -> None:
        if not future.done():
            set_outcome()

    try:
        set_outcome = partial(future.set_result, work())
    except BaseException as error:
        # A future does not accept other exceptions.
        is_ordinary = isinstance(error, Exception) and not isinstance(error, StopIteration)
        outcome = error if is_ordinary else RuntimeError(f"{work!r} raised {error!r}")
        set_outcome = partial(future.set_exception, outcome)
        if may_interrupt and isinstance(error, KeyboardInterrupt):
            raise
    finally:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no task waits any more
            future.get_loop().call_soon_threadsafe(complete_if_pending, set_outcome)
