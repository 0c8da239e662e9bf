"""``Outbox``, the send queue of a connection, and ``GroupCommit``, which flushes before responses (``fsync``).

The queue contains buffers and file ranges. File ranges are sent with sendfile. An element leaves the queue after the
operating system has accepted all earlier elements. A client that does not read therefore only delays its own responses,
and at most ``_TRANSPORT_CHUNK_BYTES`` of a file are in memory. TLS connections use the transport's buffer, and send no
file ranges.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence

from kafkaframes.broker.state.state import FSYNC, BrokerState
from kafkaframes.errors import StorageError
from kafkaframes.storage.files.descriptors import count_free_descriptors
from kafkaframes.storage.partition import PartitionLog, PendingFlush
from kafkaframes.storage.partition.segment import FileRange
from kafkaframes.wire.primitives import DeferredBytes

CAN_SEND_FILES = hasattr(os, "sendfile")
_MAX_JOINED_BYTES = 256 << 10  # consecutive short buffers are sent together
_MIN_UNJOINED_BYTES = 16 << 10  # longer buffers are sent separately
_TRANSPORT_CHUNK_BYTES = 64 << 10  # bytes of a file for the transport, which then reports progress

Buffer = bytes | memoryview | DeferredBytes


class Outbox:
    """The send queue of a connection.

    Attributes:
        is_choked: whether the operating system accepts no bytes at the moment.
        is_ending: whether the connection is closed after the queue is sent.
    """

    __slots__ = ("_queue", "_socket", "_transport", "is_choked", "is_ending")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._socket = transport.get_extra_info("socket")
        self._queue: deque[Buffer] = deque()
        self.is_choked = False
        self.is_ending = False
        if transport.get_extra_info("sslcontext") is None:
            # The transport calls pause_writing as soon as the system accepts no bytes.
            transport.set_write_buffer_limits(high=0)

    @property
    def unsent_bytes(self) -> int:
        """The bytes that are not yet passed to the operating system."""
        return int(self._transport.get_write_buffer_size()) + sum(map(len, self._queue))

    @property
    def held_bytes(self) -> int:
        """The part of ``unsent_bytes`` that is in memory."""
        return self.unsent_bytes - sum(len(part) for part in self._queue if isinstance(part, FileRange))

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send buffers after all earlier buffers."""
        if self._transport.is_closing():
            return
        first = buffers[0]
        if len(buffers) == 1 and type(first) is bytes and not (self._queue or self.is_choked or self.is_ending):
            self._transport.write(first)  # most responses are sent without the queue
            return
        self._queue.extend(buffers)
        self._send_queued()

    def resume(self) -> None:
        """Continue after the operating system has accepted all bytes."""
        self.is_choked = False
        self._send_queued()

    def end(self) -> None:
        """Close the connection after the queue is sent."""
        self.is_ending = True
        self._send_queued()

    def drop(self) -> None:
        """Discard the queue, because the connection is closed."""
        for part in self._queue:
            if isinstance(part, FileRange):
                part.close()
        self._queue.clear()

    def _send_queued(self) -> None:
        """Send queued buffers and file ranges until the socket's buffer is full."""
        queue = self._queue
        while queue and not self.is_choked and not self._transport.is_closing():
            part = queue[0]
            if isinstance(part, FileRange):
                self._send_file_range(part)
            elif len(part) >= _MIN_UNJOINED_BYTES:
                queue.popleft()
                self._transport.write(memoryview(bytes(part) if isinstance(part, DeferredBytes) else part))
            else:
                self._transport.write(self._take_short_buffers())
        if self.is_ending and not queue:
            self._transport.close()

    def _take_short_buffers(self) -> bytes | memoryview:
        """Remove consecutive short buffers from the queue, and return them joined."""
        queue, parts, size = self._queue, [], 0
        while (
            queue
            and size < _MAX_JOINED_BYTES
            and not isinstance(queue[0], DeferredBytes)
            and len(queue[0]) < _MIN_UNJOINED_BYTES
        ):
            part = queue.popleft()
            assert not isinstance(part, DeferredBytes)
            parts.append(part)
            size += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _send_file_range(self, file_range: FileRange) -> None:
        """Send the part of a file that the socket accepts.

        The next bytes of the file are passed to the transport, which reports when to continue.
        """
        try:
            sent_bytes = os.sendfile(self._socket.fileno(), file_range.descriptor, file_range.position, file_range.size)
        except (BlockingIOError, InterruptedError):
            sent_bytes = 0
        except OSError:  # the client has disconnected, or the file cannot be read
            self._transport.abort()
            return
        file_range.skip(sent_bytes)
        if file_range.size:
            self._send_through_transport(file_range)
        if not file_range.size:
            self._queue.popleft()
            file_range.close()

    def _send_through_transport(self, file_range: FileRange) -> None:
        try:
            chunk = file_range.read(_TRANSPORT_CHUNK_BYTES)
        except OSError:
            chunk = b""
        if not chunk:  # the file was truncated: the announced response size cannot be sent
            self._transport.abort()
            return
        file_range.skip(len(chunk))
        self._transport.write(chunk)


_MAX_CONCURRENT_FLUSHES = 256


class GroupCommit:
    """Flushes appended records in a thread. Responses that are created during a flush share the next flush."""

    def __init__(self, broker: BrokerState, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self._waiting: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self._running: asyncio.Task[None] | None = None
        self.is_enabled = broker.durability == FSYNC

    @property
    def is_needed(self) -> bool:
        """Whether there are unflushed records that a response could acknowledge."""
        return self.is_enabled and bool(self._broker.unflushed or self._running)

    def call_when_flushed(self, call: Callable[[], None], fail: Callable[[], None]) -> None:
        """Call ``call`` after all appended records are flushed, or ``fail`` if the disk fails."""
        self._waiting.append((call, fail))
        if self._running is None:
            self._running = self._loop.create_task(self._run_flushes())

    async def _run_flushes(self) -> None:
        """Flush until no response is waiting, and then send or fail the waiting responses."""
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                is_flushed = await self._flush_partitions()
                for call, fail in waiting:
                    (call if is_flushed else fail)()
        finally:
            self._running = None

    async def _flush_partitions(self) -> bool:
        """Flush the appended records. Return False if the disk fails; the log directory is then offline."""
        partitions, self._broker.unflushed = self._broker.unflushed, set()
        logs = [partition.log for partition in partitions if not partition.is_offline]
        size = _count_parallel_flushes()
        try:
            for start in range(0, len(logs), size):
                started_flushes: list[tuple[PartitionLog, PendingFlush]] = []
                try:
                    for log in logs[start : start + size]:
                        started_flushes.append((log, log.begin_flush()))
                except StorageError:
                    for _, flush in started_flushes:
                        flush.close()
                    raise
                await self._loop.run_in_executor(None, _run_flush, [flush for _, flush in started_flushes])
                for log, flush in started_flushes:
                    log.finish_flush(flush.offset, now_ms=self._broker.clock.now_ms)
        except StorageError as error:
            self._broker.disk_problems.report("records cannot be flushed and are not acknowledged", error)
            # A log file could not be opened, so its records are flushed later.
            if self._broker.logs.disk.bring_online():
                self._broker.unflushed |= {partition for partition in partitions if not partition.is_offline}
            return False
        return True

    async def close(self) -> None:
        """Wait for the current flush."""
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)


def _count_parallel_flushes() -> int:
    """Return how many logs may be flushed together, because each flush needs one or two file descriptors."""
    return max(min(count_free_descriptors() // 4, _MAX_CONCURRENT_FLUSHES), 1)


def _run_flush(flushes: list[PendingFlush]) -> None:
    """Run the flushes of several logs, and release them."""
    try:
        for flush in flushes:
            flush.run()
    finally:
        for flush in flushes:
            flush.close()
