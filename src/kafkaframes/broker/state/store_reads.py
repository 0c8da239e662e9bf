"""Reads of a served store in threads, so that a slow read delays only the request that needs its bytes.

The broker's state and the handlers belong to the thread of the event loop. Code that reads logs therefore runs as an
*attempt* (``run_when_read``). If an attempt needs bytes of a store that have not been read, it is cancelled, threads
read the bytes, and the attempt is repeated from its start with these bytes. The requests of a connection are still
handled one at a time. Files on local disks are read directly. With a store that takes 200 ms for a read, other requests
are answered in 1 ms instead of 180 ms (``benchmarks/results/store_reads.md``).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final, NamedTuple, Protocol

from kafkaframes.broker.requests.api import Answer, DeferredResponse
from kafkaframes.storage.files.filesystem import DelegatingFileSystem, FileSystem, ReadAt
from kafkaframes.storage.files.memory_disk import DescriptorFileSystem

_MAX_READ_THREADS: Final = 8  # concurrent reads of a store, each from a different file


class StoreRead(NamedTuple):
    """A read from the store: a file and a byte range."""

    path: str
    position: int
    length: int


class NotReadYetError(BaseException):
    """Raised if an attempt needs bytes that no thread has read yet.

    As a BaseException, it is not caught by handlers.
    """

    def __init__(self, *reads: StoreRead) -> None:
        super().__init__(reads)
        self.reads = reads


class _StoreFile:
    """A file of the store that is open for the thread that reads it."""

    def __init__(self, base: FileSystem, path: str) -> None:
        self._base = base
        self._path = path
        self._lock = threading.Lock()
        self._open: AbstractContextManager[ReadAt] | None = None
        self._read_at: ReadAt | None = None
        self._is_closed = False

    def read(self, position: int, length: int) -> bytes:
        with self._lock:
            if self._read_at is None:
                self._open = self._base.open(self._path)
                self._read_at = self._open.__enter__()
            data = self._read_at(position, length)
        if self._is_closed:
            self.close()
        return data

    def close(self) -> None:
        """Close the file. If a thread is reading the file, the thread closes it after the read."""
        self._is_closed = True
        if self._lock.acquire(blocking=False):
            try:
                if self._open is not None:
                    self._open.__exit__(None, None, None)
                self._open = self._read_at = None
            finally:
                self._lock.release()


class StoreFileSystem(DelegatingFileSystem):
    """A file system that reads its files in threads during an attempt, and directly at other times."""

    def __init__(self, inner: FileSystem) -> None:
        self.inner = inner
        self._files: dict[str, _StoreFile] = {}
        self._is_here: dict[str, bool] = {}
        self._threads = ThreadPoolExecutor(_MAX_READ_THREADS, thread_name_prefix="kafkaframes-store")
        self.results: dict[StoreRead, bytes | BaseException] | None = (
            None  # results of the current attempt's reads; None outside of attempts
        )

    def open_descriptor(self, path: str) -> int | None:
        """Open a local file for reading, and return its file descriptor; None if the file is not local."""
        return self.inner.open_descriptor(path) if isinstance(self.inner, DescriptorFileSystem) else None

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        """Open a file for many reads."""
        try:
            yield partial(self._read_at, path)
        finally:
            if (file := self._files.pop(path, None)) is not None:
                file.close()

    def _read_at(self, path: str, position: int, length: int) -> bytes:
        """Return the bytes of a range. Raise NotReadYetError if a thread has to read them first."""
        read = StoreRead(path, position, length)
        if self.results is None or self._is_local(path):
            return self._file(path).read(position, length)
        if read not in self.results:
            raise NotReadYetError(read)
        data = self.results[read]
        if isinstance(data, BaseException):
            raise data
        return data

    def _file(self, path: str) -> _StoreFile:
        return self._files.setdefault(path, _StoreFile(self.inner, path))

    def _is_local(self, path: str) -> bool:
        if path not in self._is_here:
            descriptor = self.open_descriptor(path)
            self._is_here[path] = descriptor is not None
            if descriptor is not None:
                os.close(descriptor)
        return self._is_here[path]

    def begin(self, read: StoreRead) -> Future[bytes]:
        """Start a read in a thread."""
        return self._threads.submit(self._file(read.path).read, read.position, read.length)

    def close(self) -> None:
        """Start no further reads. Reads in progress are not awaited."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class StoreOwner(Protocol):
    """The attributes of a broker's state that reads from an object store need."""

    store: StoreFileSystem | None
    counters: Counter[str]


def run_when_read(broker: StoreOwner, run: Callable[[], Answer]) -> Answer:
    """Run a function that reads logs. If bytes of a store are missing, return a ``DeferredResponse``.

    Args:
        run: function that may be cancelled and repeated; it must read everything before it changes anything.
    """
    return run() if broker.store is None else _RequestAttempts(broker, broker.store, run).start_attempt()


class _RequestAttempts:
    """Repeats a request until all bytes that it needs have been read from the store."""

    def __init__(self, broker: StoreOwner, store: StoreFileSystem, run: Callable[[], Answer]) -> None:
        self._broker = broker
        self._store = store
        self._run = run
        self._results: dict[StoreRead, bytes | BaseException] = {}
        self._reading = 0
        self._loop = asyncio.get_running_loop()
        self._response = DeferredResponse()

    def start_attempt(self) -> Answer:
        """Answer the request, or read the bytes that it needs and answer it later."""
        try:
            return self._run_attempt()
        except NotReadYetError as error:
            self._start_reads(error.reads)
            return self._response

    def _run_attempt(self) -> Answer:
        """Answer the request with the bytes that have been read so far."""
        counters = self._broker.counters.copy()
        self._store.results = self._results
        try:
            return self._run()
        except NotReadYetError:  # restores the counters, because the next attempt counts again
            self._broker.counters.clear()
            self._broker.counters.update(counters)
            raise
        finally:
            self._store.results = None

    def _start_reads(self, reads: tuple[StoreRead, ...]) -> None:
        """Start reading the byte ranges that the request needs."""
        self._reading = len(reads)
        for read in reads:
            self._store.begin(read).add_done_callback(partial(self._handle_read, read))

    def _handle_read(self, read: StoreRead, result_future: Future[bytes]) -> None:
        """Schedule ``_store_result`` on the broker's event loop, from the thread that has read the data."""
        if not result_future.cancelled() and not self._loop.is_closed():
            data = result_future.exception() or result_future.result()
            self._loop.call_soon_threadsafe(self._store_result, read, data)

    def _store_result(self, read: StoreRead, data: bytes | BaseException) -> None:
        """Store the bytes of a read. After the last read, attempt the request again."""
        self._results[read] = data
        self._reading -= 1
        if self._reading or self._response.is_done:
            return
        try:
            self._response.follow(self._run_attempt())
        except NotReadYetError as error:
            self._start_reads(error.reads)
        except Exception as error:  # the server, too, responds with an error if a handler raises an exception
            self._response.fail(error)
