"""A store that is served is read in threads: the request that needs its bytes waits, and no other one does.

The broker's state belongs to the thread of its event loop, and so do the handlers. What reads logs therefore runs as an
*attempt* (``when_read``): where it asks for bytes of a store that are not there yet it is broken off, threads read
them, and it runs again from its beginning, with these bytes at hand. Each connection still has one request at a time.
Files of this machine's disks are read as always. With a store that takes 200 ms a read, others are answered in 1 ms
instead of 180 (``benchmarks/results/store_reads.md``).
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

from kafkaframes.broker.api import Answer, Later
from kafkaframes.storage.files.filesystem import FileSystem, FileSystemOver, ReadAt
from kafkaframes.storage.files.memory_disk import HasDescriptors

_THREADS: Final = 8  # reads of a store at once, each of another file


class StoreRead(NamedTuple):
    """Bytes of a file."""

    path: str
    position: int
    length: int


class NotReadYetError(BaseException):
    """An attempt needs bytes that no thread has read yet. No error: nothing on the way may take it for one."""

    def __init__(self, *reads: StoreRead) -> None:
        super().__init__(reads)
        self.reads = reads


class _File:
    """A file of the store, open for the thread that reads it."""

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
        """Close it, or have the thread that reads it do so: nobody waits here."""
        self._is_closed = True
        if self._lock.acquire(blocking=False):
            try:
                if self._open is not None:
                    self._open.__exit__(None, None, None)
                self._open = self._read_at = None
            finally:
                self._lock.release()


class StoreReads(FileSystemOver):
    """A file system whose files are read in threads while an attempt runs, and at once at all other times."""

    def __init__(self, inner: FileSystem) -> None:
        self.inner = inner
        self._files: dict[str, _File] = {}
        self._is_here: dict[str, bool] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="kafkaframes-store")
        self.held: dict[StoreRead, bytes | BaseException] | None = None  # of the attempt that runs

    def open_descriptor(self, path: str) -> int | None:
        """Open a file of this machine for reading; None: it is none."""
        return self.inner.open_descriptor(path) if isinstance(self.inner, HasDescriptors) else None

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        """Open a file for many reads."""
        try:
            yield partial(self._read_at, path)
        finally:
            if (file := self._files.pop(path, None)) is not None:
                file.close()

    def _read_at(self, path: str, position: int, length: int) -> bytes:
        read = StoreRead(path, position, length)
        if self.held is None or self._is_local(path):
            return self._file(path).read(position, length)
        if read not in self.held:
            raise NotReadYetError(read)
        data = self.held[read]
        if isinstance(data, BaseException):
            raise data
        return data

    def _file(self, path: str) -> _File:
        return self._files.setdefault(path, _File(self.inner, path))

    def _is_local(self, path: str) -> bool:
        if path not in self._is_here:
            descriptor = self.open_descriptor(path)
            self._is_here[path] = descriptor is not None
            if descriptor is not None:
                os.close(descriptor)
        return self._is_here[path]

    def begin(self, read: StoreRead) -> Future[bytes]:
        """Read in a thread."""
        return self._threads.submit(self._file(read.path).read, read.position, read.length)

    def close(self) -> None:
        """Begin nothing more; what is being read is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class HasStore(Protocol):
    """What of a broker is asked here (``BrokerState``)."""

    store: StoreReads | None
    counters: Counter[str]


def when_read(broker: HasStore, run: Callable[[], Answer]) -> Answer:
    """Run what reads logs; where a store's bytes are missing, answer later.

    Args:
        run: is broken off and runs again, so it changes nothing before it has read everything.
    """
    return run() if broker.store is None else _Attempt(broker, broker.store, run).first()


class _Attempt:
    """One request's reading, from its first try to the one that finds everything."""

    def __init__(self, broker: HasStore, store: StoreReads, run: Callable[[], Answer]) -> None:
        self._broker = broker
        self._store = store
        self._run = run
        self._held: dict[StoreRead, bytes | BaseException] = {}
        self._reading = 0
        self._loop = asyncio.get_running_loop()
        self._later = Later()

    def first(self) -> Answer:
        try:
            return self._try()
        except NotReadYetError as missing:
            self._begin(missing.reads)
            return self._later

    def _try(self) -> Answer:
        counters = self._broker.counters.copy()
        self._store.held = self._held
        try:
            return self._run()
        except NotReadYetError:  # what was counted will be counted again
            self._broker.counters.clear()
            self._broker.counters.update(counters)
            raise
        finally:
            self._store.held = None

    def _begin(self, reads: tuple[StoreRead, ...]) -> None:
        self._reading = len(reads)
        for read in reads:
            self._store.begin(read).add_done_callback(partial(self._read, read))

    def _read(self, read: StoreRead, done: Future[bytes]) -> None:
        """Go on, on the broker's loop: this is the thread that has read."""
        if not done.cancelled() and not self._loop.is_closed():
            data = done.exception() or done.result()
            self._loop.call_soon_threadsafe(self._take, read, data)

    def _take(self, read: StoreRead, data: bytes | BaseException) -> None:
        self._held[read] = data
        self._reading -= 1
        if self._reading or self._later.is_done:
            return
        try:
            self._later.follow(self._try())
        except NotReadYetError as missing:
            self._begin(missing.reads)
        except Exception as error:  # as the server does where a handler fails
            self._later.fail(error)
