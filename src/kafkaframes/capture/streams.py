"""Turn TCP segments into Kafka calls, with ``_kernels_streams.py``.

``Streams`` iterates over ``WindowResult`` objects. A result contains the frames that a window of packets completed, the
calls that pair these frames, and gaps. Incomplete data (segments after missing bytes, partial frames, requests without
a response) is carried over to the next window with its bytes. At the end of the capture, the last result contains the
incomplete data as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from kafkaframes.capture import _kernels_streams as kernels
from kafkaframes.capture import layout
from kafkaframes.capture._kernels_frames import copy_frame_rows, copy_ranges, gather_frames
from kafkaframes.capture.coverage import Coverage
from kafkaframes.capture.layout import FILE_NUMBER_SHIFT
from kafkaframes.capture.packets import Bytes, CaptureWindow, Ints, PacketReader
from kafkaframes.capture.unread import list_connection_entries, list_gap_entries
from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry

MAX_GAP_WAIT_NS: Final = 60_000_000_000  # longest wait for missing bytes, in capture time
# Largest number of segments in one direction of a connection that wait for missing bytes.
MAX_WAITING_SEGMENTS: Final = 200_000
# Largest number of bytes in one direction of a connection that wait for missing bytes.
MAX_WAITING_BYTES: Final = 64 << 20
# Largest number of bytes of all connections that wait for missing bytes. Above it, connections wait for a shorter time.
MAX_CARRIED_BYTES: Final = 96 << 20
ENDED_CONNECTION_RETENTION_NS: Final = 60_000_000_000  # how long an ended connection is remembered, in capture time
MAX_ENDED_CONNECTIONS: Final = 4096  # number of connections above which ended connections are forgotten
_SCRATCH_BYTES: Final = 1 << 12  # space in which kernels join bytes that are not contiguous
_NO_CONNECTIONS: Final = (np.zeros((0, layout.CONNECTION_COLUMN_COUNT), np.int64), np.zeros(0, np.int64))


@dataclass
class WindowResult:
    """The calls, frames and gaps in one capture window. The arrays are valid until the next window is requested.

    Attributes:
        buf, extents: bytes of the frames (see :meth:`copy_frame_bytes`).
        rows: segments, in the packet columns of ``layout.py``.
        frames, calls, gaps: tables in the columns of ``layout.py``.
        connections, connection_count: table of connections, and the table's row count.
        file: number of the current file.
        last: whether this is the last window.
        new_numbers: for each connection of the previous window, the new number that identifies the connection, or -1 if
            the connection was forgotten; None if no connection was forgotten.
        forgotten_connections: rows and old numbers of the connections that were forgotten before this window.
    """

    buf: Bytes
    rows: Ints
    extents: Ints
    frames: Ints
    calls: Ints
    gaps: Ints
    connections: Ints
    connection_count: int
    file: int
    last: bool
    new_numbers: Ints | None
    forgotten_connections: tuple[Ints, Ints]

    def copy_frame_bytes(self, frame_rows: Ints, *, lead: int = 0, sizes: Ints | None = None) -> tuple[Bytes, Ints]:
        """Return the concatenated bytes of frames, and the start of each frame in these bytes.

        The starts are followed by the end of the last frame.

        Args:
            frame_rows: rows of ``frames``.
            lead: number of bytes to skip after the size prefix.
            sizes: number of bytes of each frame, at most the captured ones. By default, all captured bytes.
        """
        starts = np.zeros(len(frame_rows) + 1, np.int64)
        np.cumsum(self.frames[frame_rows, layout.F_HAVE] - lead if sizes is None else sizes, out=starts[1:])
        out = np.empty(max(int(starts[-1]), 1), np.uint8)
        gather_frames(self.buf, self.extents, self.frames, np.ascontiguousarray(frame_rows), lead, starts, out)
        return out, starts

    def copy_frame_columns(self, call_rows: Ints) -> Ints:
        """Return one array per column of frames. For frame -1, the values are -1, or 0 for flags and missing bytes."""
        out = np.empty((layout.FRAME_COLUMN_COUNT, len(call_rows)), np.int64)
        copy_frame_rows(self.frames, np.ascontiguousarray(call_rows), out)
        return out


@lru_cache(maxsize=8)
def build_api_table(apis: ApiRegistry = CATALOG) -> Ints:
    """Return a table of the lowest, highest and first flexible version of each API, with a row for each API key."""
    table = np.full((max(apis.apis_by_key) + 1, 3), -1, np.int64)
    for api in apis.apis_by_key.values():
        versions = api.versions
        table[api.key, layout.API_LOWEST] = versions.lowest
        table[api.key, layout.API_HIGHEST] = versions.highest
        table[api.key, layout.API_FLEXIBLE] = 1 << 20 if api.flexible_since is None else api.flexible_since
    table.setflags(write=False)
    return table


class Streams:
    """An iterator over the windows of one capture's files, in order."""

    def __init__(
        self,
        packets: PacketReader,
        *,
        ports: Iterable[int] = (),
        held_bytes: int = MAX_CARRIED_BYTES,
        forget_above: int = MAX_ENDED_CONNECTIONS,
        apis: ApiRegistry = CATALOG,
    ) -> None:
        """Set up the iterator.

        Args:
            packets: the reader of the capture files.
            ports: TCP ports of brokers. By default, brokers are recognised by their traffic.
            held_bytes: limit for the carried bytes of incomplete frames and open requests. Above this limit, the wait
                for missing bytes is shortened, and a request waits for its response only until the next window ends.
            forget_above: number of connections above which those that have ended are dropped.
            apis: the APIs by which requests are recognised.
        """
        self.packets = packets
        self._apis = build_api_table(apis)
        self.held_bytes = held_bytes
        self.forget_above = self._look_at = forget_above
        self._new_numbers: Ints | None = None
        self._forgotten_connections = _NO_CONNECTIONS
        self.ports = np.array(sorted(set(ports)), np.int64)
        self.pending = np.zeros((0, layout.FRAME_COLUMN_COUNT), np.int64)
        self._scratch = np.zeros(_SCRATCH_BYTES, np.uint8)
        self._small = [np.zeros(64, np.int64) for _ in range(4)]

    def __iter__(self) -> Iterator[WindowResult]:
        for window in self.packets:
            traffic = self._build_window_result(window)
            yield traffic
            if not traffic.last:  # after the last window, no connections are dropped: callers read the table
                self._carry_over(traffic)
                self._drop_ended_connections(int(traffic.rows[:, layout.TIME].max(initial=0)))

    def _build_window_result(self, window: CaptureWindow) -> WindowResult:
        connections = self.packets.connections
        rows = np.ascontiguousarray(window.rows)
        order, starts = _sort_rows(rows, connections.count)
        self._set_pending_ranges(connections.table, connections.count)
        extents = np.empty((len(rows) + 1, layout.EXTENT_COLUMN_COUNT), np.int64)
        guess = 2 * len(rows) + len(self.pending) + 4096
        tables = [
            np.empty((guess, columns), np.int64)
            for columns in (layout.FRAME_COLUMN_COUNT, layout.CALL_COLUMN_COUNT, layout.GAP_COLUMN_COUNT)
        ]
        latest = int(rows[:, layout.TIME].max()) if len(rows) else 0
        haste = len(self.packets.carried[0]) > self.held_bytes
        patience = MAX_WAITING_BYTES >> 4 if haste else MAX_WAITING_BYTES
        settings = np.array(
            [int(window.last), MAX_GAP_WAIT_NS, MAX_WAITING_SEGMENTS, patience, latest, int(haste)], np.int64
        )
        connection = into = frame = call = gap = 0
        while True:
            status, connection, into, frame, call, gap = kernels.split_streams(
                window.buf, rows, order, starts, connections.table, connection, connections.count, self.pending,
                extents, into, tables[0], frame, tables[1], call, tables[2], gap, self._apis, self.ports, settings,
                self._scratch, *self._small,
            )  # fmt: skip
            if status == layout.DONE:
                break
            tables = [np.concatenate([table, np.empty_like(table)]) for table in tables]
        frames, calls, gaps = tables[0][:frame], tables[1][:call], tables[2][:gap]
        return WindowResult(
            window.buf, rows, extents, frames, calls, gaps, connections.table, connections.count, self.packets.file,
            window.last, new_numbers=self._new_numbers, forgotten_connections=self._forgotten_connections,
        )  # fmt: skip

    def _drop_ended_connections(self, now: int) -> None:
        """Drop connections that ended a while ago if there are many, so that only open connections need memory."""
        connections = self.packets.connections
        self._new_numbers, self._forgotten_connections = None, _NO_CONNECTIONS
        if connections.count < self._look_at:
            return
        is_dropped = connections.select_closed_before(now - ENDED_CONNECTION_RETENTION_NS)
        is_dropped[self.pending[:, layout.F_CONNECTION]] = False
        buf, rows = self.packets.carried
        is_dropped[rows[:, layout.DIRECTION] >> 1] = False
        numbers = np.flatnonzero(is_dropped)
        self._look_at = max(2 * (connections.count - len(numbers)), self.forget_above)
        if not len(numbers):
            return
        self._forgotten_connections = connections.table[numbers].copy(), numbers
        self._new_numbers = connections.keep_connections(~is_dropped)
        self.pending[:, layout.F_CONNECTION] = self._new_numbers[self.pending[:, layout.F_CONNECTION]]
        rows[:, layout.DIRECTION] = 2 * self._new_numbers[rows[:, layout.DIRECTION] >> 1] + (
            rows[:, layout.DIRECTION] & 1
        )
        self.packets.carried = buf, rows

    def _set_pending_ranges(self, connections: Ints, count: int) -> None:
        """Write to each connection's row the range of the connection's waiting frames."""
        connections[:count, layout.PENDING_START] = 0
        connections[:count, layout.PENDING_END] = 0
        if len(self.pending):
            owners, first, counts = np.unique(
                self.pending[:, layout.F_CONNECTION], return_index=True, return_counts=True
            )
            connections[owners, layout.PENDING_START] = first
            connections[owners, layout.PENDING_END] = first + counts

    def _carry_over(self, traffic: WindowResult) -> None:
        """Carry over unprocessed segments and unmatched frames to the next window."""
        waiting = np.flatnonzero(traffic.frames[:, layout.F_DONE] == 0)
        carried_rows = _select_unfinished_rows(traffic)
        frames = traffic.frames[waiting]
        frames = frames[np.argsort(frames[:, layout.F_CONNECTION], kind="stable")]
        waiting = waiting[np.argsort(traffic.frames[waiting, layout.F_CONNECTION], kind="stable")]
        frame_bytes, frame_starts = traffic.copy_frame_bytes(waiting)
        sizes = carried_rows[:, layout.CAPTURED]
        indexes = np.zeros(len(carried_rows) + 1, np.int64)
        np.cumsum(sizes, out=indexes[1:])
        total = int(frame_starts[-1]) + int(indexes[-1])
        out = np.empty(total, np.uint8)
        out[: int(frame_starts[-1])] = frame_bytes[: int(frame_starts[-1])]
        indexes += int(frame_starts[-1])
        copy_ranges(traffic.buf, np.stack([carried_rows[:, layout.POSITION], sizes, indexes[:-1]], axis=1), out)
        frames[:, layout.F_POSITION] = frame_starts[:-1]
        frames[:, layout.F_BEGIN] = 0
        carried_rows[:, layout.POSITION] = indexes[:-1]
        self.pending = np.ascontiguousarray(frames)
        self.packets.carried = out, carried_rows


def iterate_windows_with_coverage(streams: Streams, coverage: Coverage) -> Iterator[WindowResult]:
    """Yield the results for each capture window. Add unread packets, gaps and forgotten connections to ``coverage``."""
    packets, has_ports = streams.packets, bool(streams.ports.size)
    for traffic in streams:
        coverage.update(packets.take_unread())
        coverage.add_gaps(list_gap_entries(traffic.gaps, packets.files, traffic.file))
        coverage.update(list_connection_entries(traffic.forgotten_connections[0], packets.files, has_ports=has_ports))
        yield traffic
    connections = packets.connections
    coverage.update(list_connection_entries(connections.table[: connections.count], packets.files, has_ports=has_ports))
    coverage.update(packets.take_unread())


def _sort_rows(rows: Ints, count: int) -> tuple[Ints, Ints]:
    """Return the order of segments by connection, side and offset, and the first position of each side in it."""
    sides = 2 * count
    order = np.empty(len(rows), np.int64)
    starts = np.zeros(sides + 2, np.int64)
    if kernels.sort_rows(rows, len(rows), sides, starts, order) == layout.UNSORTED:
        order = np.lexsort((rows[:, layout.OFFSET], rows[:, layout.DIRECTION])).astype(np.int64)
    return order, starts


def _select_unfinished_rows(traffic: WindowResult) -> Ints:
    """Return the rows of TCP segments that the next capture window needs."""
    rows = traffic.rows
    if not len(rows):
        return rows.copy()
    owners = rows[:, layout.DIRECTION] >> 1
    sides = rows[:, layout.DIRECTION] & 1
    protocol = traffic.connections[owners, layout.PROTOCOL]
    read_end = traffic.connections[owners, layout.FIRST_SIDE_COLUMN + sides * layout.SIDE_COLUMN_COUNT + layout.AT]
    unread = (protocol == layout.UNDECIDED) | (
        (protocol == layout.KAFKA) & (rows[:, layout.OFFSET] + rows[:, layout.CAPTURED] > read_end)
    )
    unread_rows: Ints = rows[unread]
    return unread_rows


def parse_ports(text: str | Sequence[int]) -> tuple[int, ...]:
    """Return the ports of brokers in a text such as ``9092,9093``, or a sequence of numbers.

    An empty text has no ports.

    >>> parse_ports("9092, 9094-9096")
    (9092, 9094, 9095, 9096)

    Raises:
        OptionError: The text is not a list of numbers and ranges.
    """
    if not isinstance(text, str):
        return tuple(text)
    result: list[int] = []
    try:
        for part in text.split(",") if text else ():
            low, _, high = part.strip().partition("-")
            result += range(int(low), int(high or low) + 1)
    except ValueError:
        raise OptionError(f"`ports` {text}: must be port numbers and ranges, such as 9092,9094-9096") from None
    return tuple(result)


class CallFilter(NamedTuple):
    """A filter with which a stream that reads overlapping ranges of files returns each call once.

    Earlier reads covered the files before ``first``, and this read covers the files up to ``last``. This read includes
    ``wait`` + 1 of the earlier files, or all of them if there are fewer. A complete call, and a response without a
    request, is returned with the file in which it ends. An open call (a request without a response, or a partial frame)
    is always returned ``wait`` files later, because the time at which the read stops waiting for the call depends on
    the files in this read.
    """

    first: int
    last: int
    wait: int = 1

    def select_calls_in_span(self, traffic: WindowResult, calls: Ints) -> Any:
        """Return a mask that selects the calls of a window that this read returns."""
        frames = traffic.frames
        ends, is_damaged = np.full(len(calls), -1), np.zeros(len(calls), bool)
        for column in (layout.CALL_REQUEST, layout.CALL_RESPONSE):
            has_frame = calls[:, column] >= 0
            ends = np.maximum(
                ends, np.where(has_frame, frames[calls[:, column], layout.F_END_NUMBER] >> FILE_NUMBER_SHIFT, -1)
            )
            is_damaged |= has_frame & (frames[calls[:, column], layout.F_FLAGS] & layout.BROKEN != 0)
        has_request = calls[:, layout.CALL_REQUEST] >= 0
        no_reply = has_request & (frames[calls[:, layout.CALL_REQUEST], layout.F_FLAGS] & layout.NO_REPLY != 0)
        is_open = has_request & (is_damaged | ((calls[:, layout.CALL_RESPONSE] < 0) & ~no_reply))
        first_unreported = self.first - 1 - self.wait  # earlier reads returned the open calls up to this file
        return np.where(is_open, (ends > first_unreported) & (ends <= self.last - self.wait), ends >= self.first)
