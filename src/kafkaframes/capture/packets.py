"""Read capture files and extract TCP segments, one window of bytes at a time, with ``_kernels_packets.py``.

A ``CaptureWindow`` is a buffer. The buffer starts with bytes carried over from the previous window, followed by the
next bytes of a file. The rows for a window (columns: ``layout.py``) contain the position of each segment's payload in
the buffer, so payload is not copied. Memory is bounded by the window size plus the unprocessed bytes of all
connections.

Fragmented IP datagrams are reassembled first (RFC 791, 3.2; RFC 8200, 4.5). Fragments are rare, so they are reassembled
in Python.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import IO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkaframes.capture import _kernels_packets as kernels
from kafkaframes.capture import layout
from kafkaframes.capture._kernels_headers import GRE, IP4_IN_IP, IP6_IN_IP, LOCATED_FIELD_COUNT, TCP
from kafkaframes.capture.container import CaptureFormat, open_container, read_block
from kafkaframes.capture.coverage import DAMAGED, LOST, OTHER, UnreadData
from kafkaframes.capture.files import open_bytes, read_into
from kafkaframes.capture.layout import FILE_NUMBER_MASK, FILE_NUMBER_SHIFT
from kafkaframes.capture.unread import list_packet_entries
from kafkaframes.errors import DecodeError

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

WINDOW_BYTES: Final = 32 << 20  # default size of the part of a capture that is scanned at once
# Estimated average size; if packets are smaller, the row table is full before the window, and more windows are used.
_ESTIMATED_PACKET_BYTES: Final = 96
_SPARE_BYTES: Final = 1 << 16  # additional size of a buffer
MAX_DAMAGE_ENTRIES: Final = 10_000  # largest number of entries about damage in a report
MAX_DATAGRAMS: Final = 1024  # largest number of incomplete datagrams in memory; above this the oldest one is dropped
_MAX_DATAGRAM_BYTES: Final = 65535
_FRAGMENT_UNIT_BYTES: Final = 8  # unit of fragment offsets, in bytes
# IP protocols with datagrams that may contain TCP segments. Tunnels over UDP are not fragmented.
_PROTOCOLS_WITH_TCP: Final = frozenset({TCP, GRE, IP4_IN_IP, IP6_IN_IP})
_HOP_BY_HOP, _ROUTING, _OPTIONS, _FRAGMENT, _AUTHENTICATION = 0, 43, 60, 44, 51


class _Fragment(NamedTuple):
    """A fragment of an IP datagram. ``key`` identifies the datagram."""

    key: tuple[bytes, ...]
    header: bytes  # IP header of the reassembled datagram
    offset: int
    more: bool
    payload: bytes
    protocol: int


@dataclass
class _PartialDatagram:
    """An incomplete datagram. The memory is bounded by the size of a datagram, even if fragments overlap."""

    header: bytes = b""
    payload: bytearray = field(default_factory=bytearray)
    # One byte for each unit of 8 bytes; it is 1 if the unit was received.
    received_units: bytearray = field(default_factory=bytearray)
    missing_units: int = 0  # units that are missing before the last received unit
    size: int = -1
    protocol: int = 0
    fragments: int = 0
    fragment_bytes: int = 0

    def add(self, part: _Fragment) -> None:
        """Add a fragment. If fragments overlap, the bytes of the earlier one are used."""
        if part.more:  # every fragment except the last has a multiple of 8 bytes, unless the snap length truncated it
            part = part._replace(
                payload=part.payload[: len(part.payload) // _FRAGMENT_UNIT_BYTES * _FRAGMENT_UNIT_BYTES]
            )
        end = part.offset + len(part.payload)
        self.protocol = part.protocol
        self.fragments += 1
        self.fragment_bytes += len(part.payload)
        if part.offset == 0 and not self.header:
            self.header = part.header
        if not part.more and self.size < 0:
            self.size = end
        first, last = part.offset // _FRAGMENT_UNIT_BYTES, (end + _FRAGMENT_UNIT_BYTES - 1) // _FRAGMENT_UNIT_BYTES
        if last > len(self.received_units):
            self.missing_units += last - len(self.received_units)
            self.received_units.extend(bytes(last - len(self.received_units)))
            self.payload.extend(bytes(last * _FRAGMENT_UNIT_BYTES - len(self.payload)))
        new_units = self.received_units.count(0, first, last)
        self.missing_units -= new_units
        if new_units == last - first:
            self.payload[part.offset : end] = part.payload
        elif new_units:
            self._fill_units(part, first, last)
        self.received_units[first:last] = b"\1" * (last - first)

    def _fill_units(self, chunk: _Fragment, first: int, last: int) -> None:
        """Copy a fragment to the 8-byte units of the datagram that have not been received yet."""
        for unit in range(first, last):
            if not self.received_units[unit]:
                part = chunk.payload[unit * _FRAGMENT_UNIT_BYTES - chunk.offset :][:_FRAGMENT_UNIT_BYTES]
                self.payload[unit * _FRAGMENT_UNIT_BYTES : unit * _FRAGMENT_UNIT_BYTES + len(part)] = part

    def join_units(self) -> bytes | None:
        """Return the payload if the datagram is complete, else None."""
        if self.size < 0 or not self.header or self.missing_units or len(self.payload) < self.size:
            return None
        return bytes(self.payload[: self.size])


class Defragmenter:
    """A reassembler of fragmented IP datagrams.

    Attributes:
        waiting: incomplete datagrams.
        unread: counts of the fragments that belong to no complete datagram: [packets, bytes] by (kind, reason).
    """

    def __init__(self) -> None:
        self.waiting: dict[tuple[bytes, ...], _PartialDatagram] = {}
        self.unread: dict[tuple[str, str], list[int]] = {}

    def add(self, packet: bytes) -> bytes | None:
        """Add a fragment, which starts with its IP header. Return the datagram if this fragment completes it."""
        part = _parse_ip4_fragment(packet) if packet[:1] and packet[0] >> 4 == 4 else _parse_ip6_fragment(packet)
        if part is None or part.offset + len(part.payload) > _MAX_DATAGRAM_BYTES:
            self._count_unread(DAMAGED, "inconsistent IP fragments", 1, len(packet))
            return None
        entry = self.waiting.setdefault(part.key, _PartialDatagram())
        entry.add(part)
        payload = entry.join_units()
        if payload is not None:
            del self.waiting[part.key]
            return _set_header_size(entry.header, payload)
        if len(self.waiting) > MAX_DATAGRAMS:
            self._drop_datagram(next(iter(self.waiting)))
        return None

    def finish(self) -> None:
        """Drop all incomplete datagrams and count them as unread."""
        while self.waiting:
            self._drop_datagram(next(iter(self.waiting)))

    def _drop_datagram(self, key: tuple[bytes, ...]) -> None:
        entry = self.waiting.pop(key)
        if entry.protocol in _PROTOCOLS_WITH_TCP:
            self._count_unread(LOST, "IP fragments of an incomplete datagram", entry.fragments, entry.fragment_bytes)
        else:
            self._count_unread(OTHER, "IP fragments of another protocol", entry.fragments, entry.fragment_bytes)

    def _count_unread(self, kind: str, reason: str, packets: int, size: int) -> None:
        counts = self.unread.setdefault((kind, reason), [0, 0])
        counts[0] += packets
        counts[1] += size


def _set_header_size(header: bytes, payload: bytes) -> bytes:
    if header[0] >> 4 == 4:
        total = struct.pack(">H", (len(header) + len(payload)) & 0xFFFF)
        return header[:2] + total + header[4:6] + b"\0\0" + header[8:] + payload
    size = len(header) - 40 + len(payload)
    return header[:4] + struct.pack(">H", size & 0xFFFF) + header[6:] + payload


def _parse_ip4_fragment(packet: bytes) -> _Fragment | None:
    header = (packet[0] & 15) * 4
    if len(packet) < max(header, 20) or header < 20:
        return None
    flags = struct.unpack_from(">H", packet, 6)[0]
    key = (packet[4:6], packet[9:10], packet[12:20])
    return _Fragment(key, packet[:header], (flags & 0x1FFF) * 8, bool(flags & 0x2000), packet[header:], packet[9])


def _parse_ip6_fragment(packet: bytes) -> _Fragment | None:
    """Return a fragment. The fragment's ``header`` consists of the headers before the IPv6 fragment header."""
    if len(packet) < 48:
        return None
    position, next_header, position_of_next = 40, packet[6], 6
    while next_header in (_HOP_BY_HOP, _ROUTING, _OPTIONS, _AUTHENTICATION):
        if position + 8 > len(packet):
            return None
        position_of_next = position
        step = (packet[position + 1] + 2) * 4 if next_header == _AUTHENTICATION else (packet[position + 1] + 1) * 8
        next_header = packet[position]
        position += step
    if next_header != _FRAGMENT or position + 8 > len(packet):
        return None
    flags, number = struct.unpack_from(">HI", packet, position + 2)
    header = bytearray(packet[:position])
    header[position_of_next] = packet[position]
    key = packet[8:40], struct.pack(">I", number)
    return _Fragment(key, bytes(header), flags & 0xFFF8, bool(flags & 1), packet[position + 8 :], packet[position])


@dataclass
class CaptureWindow:
    """A buffer of captured bytes and the table of its segments, starting with those carried over."""

    buf: Bytes
    rows: Ints
    last: bool


@dataclass
class ConnectionTable:
    """All connections seen so far, with a hash table that finds them by their endpoints."""

    table: Ints = field(default_factory=lambda: np.zeros((256, layout.CONNECTION_COLUMN_COUNT), np.int64))
    count: int = 0
    slots: Ints = field(default_factory=lambda: np.zeros(1024, np.int64))

    def grow(self) -> None:
        """Double the capacity."""
        self.table = np.concatenate([self.table, np.zeros_like(self.table)])
        self.slots = np.zeros(len(self.slots) * 2, np.int64)
        kernels.rehash(self.table, self.count, self.slots)

    def select_closed_before(self, time: int) -> npt.NDArray[np.bool_]:
        """Return a mask of connections that were reset, or closed by all sides that sent packets, before ``time``."""
        table = self.table[: self.count]
        side_tables = [table[:, layout.FIRST_SIDE_COLUMN + side * layout.SIDE_COLUMN_COUNT :] for side in (0, 1)]
        ended_masks = [(side[:, layout.ENDED] != 0) | (side[:, layout.SIDE_PACKETS] == 0) for side in side_tables]
        is_closed: npt.NDArray[np.bool_] = ((table[:, layout.RESET] != 0) | (ended_masks[0] & ended_masks[1])) & (
            table[:, layout.LAST_TIME] < time
        )
        return is_closed

    def keep_connections(self, is_kept: npt.NDArray[np.bool_]) -> Ints:
        """Remove the connections outside the mask. Return the new number of each connection, -1 if removed."""
        numbers = np.where(is_kept, np.cumsum(is_kept) - 1, -1)
        count = int(is_kept.sum())
        self.table[:count] = self.table[: self.count][is_kept]
        self.count = count
        self.slots[:] = 0
        kernels.rehash(self.table, self.count, self.slots)
        return numbers


@dataclass
class _PartialWindow:
    """A partly filled capture window: bytes up to ``end``, rows up to ``row``.

    Several small files share one capture window.
    """

    buf: Bytes
    end: int
    rows: Ints
    row: int
    end_limit: int  # position at which the space for file bytes ends


class PacketReader:
    """An iterator over the windows of capture files.

    The caller sets ``carried``, the data with which the next window starts.
    """

    def __init__(
        self,
        files: Iterable[str],
        *,
        share: int = 0,
        shares: int = 1,
        every: bool = False,
        window_bytes: int = WINDOW_BYTES,
        is_alone: bool | None = None,
    ) -> None:
        """Set up the reader; files are opened during iteration.

        Args:
            files: paths of the files of one capture, in order.
            share, shares: index of this reader, from 0, and number of readers, each of which reads a part of the
                connections.
            every: whether packets without payload are returned as well.
            window_bytes: size of a capture window, in bytes.
            is_alone: whether to raise if a file is not a capture, instead of adding an entry to ``unread``. By default,
                true for a single file.
        """
        self.files = list(files)
        self._is_alone = len(self.files) == 1 if is_alone is None else is_alone
        self.share, self.shares, self.every = share, shares, every
        self.window_bytes = window_bytes
        self.connections = ConnectionTable()
        self.counters = np.zeros(layout.COUNTER_COUNT, np.int64)
        # Unread parts of files and unread packets; ``streams`` reports the gaps in connections.
        self.unread: list[UnreadData] = []
        self._returned = 0  # number of entries of ``unread`` that ``take_unread`` has already returned
        self.carried: tuple[Bytes, Ints] = (np.zeros(0, np.uint8), np.zeros((0, layout.PACKET_COLUMN_COUNT), np.int64))
        self.file = 0  # number of the current file
        self._damages = 0
        self._fields = np.zeros(LOCATED_FIELD_COUNT, np.int64)
        self._unread_packets = np.zeros((layout.MAX_UNREAD_KINDS, layout.UNREAD_COLUMN_COUNT), np.int64)
        self._fragments = Defragmenter()
        self._buffers: list[Bytes] = []
        self._open_window: _PartialWindow | None = None  # window that the packets of earlier files fill in part

    def take_unread(self) -> list[UnreadData]:
        """Return the entries for unread files and packets that were added since the last call.

        Every share reads the headers of all files, so only the first share returns entries.
        """
        new_entries = self.unread[self._returned :] if self.share == 0 else []
        self._returned = len(self.unread)
        return new_entries

    def __iter__(self) -> Iterator[CaptureWindow]:
        """Yield at least one capture window. The last window has ``last`` set."""
        for number, path in enumerate(self.files):
            self.file = number
            with open_bytes(path) as file:
                yield from self._read_file(file, path)
        if self._open_window is not None:
            yield self._finish_window(self._open_window)
        self._report_unread_packets()
        self._report_incomplete_fragments()
        yield CaptureWindow(self._create_buffer(0), self.carried[1], last=True)

    def _read_file(self, file: IO[bytes], path: str) -> Iterator[CaptureWindow]:
        cursor = _FileCursor(file, path)
        try:
            cursor.read_header()
        except DecodeError as error:
            if not self._is_alone:  # report this file as unread and continue with the other files
                self._add_damage_entry(0, -1, error.reason)
                return
            raise
        goes_on = True
        while goes_on:
            window = self._extend_window(cursor)
            goes_on = self._scan_window(cursor, window)
            if goes_on or window.end > len(self.carried[0]) + self.window_bytes // 2:
                self._open_window = None
                yield self._finish_window(window)
        self._report_unread_packets()

    def _create_buffer(self, size: int) -> Bytes:
        """Return a buffer that starts with the carried bytes and has space for ``size`` more, plus some spare bytes."""
        carried_bytes, _ = self.carried
        min_bytes = len(carried_bytes) + size + _SPARE_BYTES
        buf = self._buffers.pop(0) if len(self._buffers) > 1 else np.empty(0, np.uint8)
        if len(buf) < min_bytes:
            buf = np.empty(min_bytes, np.uint8)
        self._buffers.append(buf)
        buf[: len(carried_bytes)] = carried_bytes
        return buf

    def _create_rows(self, size: int) -> Ints:
        rows = self.carried[1]
        table = np.empty((len(rows) + size // _ESTIMATED_PACKET_BYTES + 64, layout.PACKET_COLUMN_COUNT), np.int64)
        table[: len(rows)] = rows
        return table

    def _extend_window(self, cursor: _FileCursor) -> _PartialWindow:
        """Add the remaining bytes of the last window, and the next bytes of the file, to a window with free space."""
        if self._open_window is None:
            self._open_window = self._start_window(cursor)
        window = self._open_window
        rest_bytes = len(cursor.unread_bytes)
        if window.end + rest_bytes > window.end_limit:  # the window must have space for the header of another file
            window.end_limit = window.end + rest_bytes
        window.buf[window.end : window.end + rest_bytes] = cursor.unread_bytes
        position = window.end + rest_bytes
        space = window.buf.data[position : window.end_limit]
        read_bytes, problem = read_into(cursor.file, space, cursor.path)
        if problem is not None:
            self._add_damage_entry(cursor.position + rest_bytes + read_bytes, -1, problem.reason)
        cursor.is_at_end = read_bytes < len(space)
        cursor.start, window.end = window.end, position + read_bytes
        return window

    def _start_window(self, cursor: _FileCursor) -> _PartialWindow:
        """Return a window that contains the carried bytes and has space for the bytes that the scan needs."""
        size = max(self.window_bytes, 2 * len(cursor.unread_bytes) if cursor.stuck else len(cursor.unread_bytes))
        size = max(min(size, layout.MAX_PACKET_BYTES * 2 + self.window_bytes), len(cursor.unread_bytes))
        buf, start = self._create_buffer(size), len(self.carried[0])
        return _PartialWindow(buf, start, self._create_rows(size), len(self.carried[1]), start + size)

    def _scan_window(self, cursor: _FileCursor, window: _PartialWindow) -> bool:
        """Scan the packets in a capture window, and store its unscanned bytes in ``cursor``.

        Return whether the file continues.
        """
        buf, end, rows, row = window.buf, window.end, window.rows, window.row
        start = position = cursor.start
        container = cursor.container
        connections = self.connections
        while True:
            first = cursor.number | self.file << FILE_NUMBER_SHIFT
            status, position, number, row, connections.count = kernels.scan_packets(
                buf, position, end, first, container.kind, int(container.little), container.interfaces,
                self.share, self.shares, int(self.every), rows, row, connections.table, connections.count,
                connections.slots, self._fields, self._unread_packets, self.counters,
            )  # fmt: skip
            cursor.number = number & FILE_NUMBER_MASK
            file_position = cursor.position + position - start
            if status == layout.CONNECTIONS_FULL:
                connections.grow()
            elif status == layout.BLOCK and (size := _read_blocks(cursor, buf.data[position:end], file_position)):
                position += size
            elif status == layout.DAMAGED or (status == layout.BLOCK and cursor.reason):
                position = self._skip_damage(cursor, buf, position, end, file_position)
            else:
                break
        cursor.advance(
            buf[position:end], position - start, stuck=position == start and status in (layout.MORE, layout.BLOCK)
        )
        if cursor.is_complete and len(cursor.unread_bytes):
            self._add_damage_entry(cursor.position, len(cursor.unread_bytes), "the file ends inside a packet")
        window.row = row
        return not cursor.is_complete

    def _skip_damage(self, cursor: _FileCursor, buf: Bytes, position: int, end: int, file_position: int) -> int:
        """Return the position after damage: the next record that is followed by another record."""
        container = cursor.container
        reason, cursor.reason = cursor.reason or "no packet starts here: the file is damaged", ""
        result = kernels.find_next_record(
            buf, position + 1, end, container.kind, int(container.little), container.interfaces
        )
        next_position = int(result) if result >= 0 else (end if cursor.is_at_end else max(end - 64, position + 1))
        if (
            cursor.lost_until == file_position
            and self._damages < MAX_DAMAGE_ENTRIES
            and self._returned < len(self.unread)
        ):
            last = self.unread[-1]
            self.unread[-1] = replace(last, size_bytes=(last.size_bytes or 0) + next_position - position)
        else:
            self._add_damage_entry(file_position, next_position - position, reason)
        cursor.lost_until = file_position + next_position - position
        return next_position

    def _add_damage_entry(self, position: int, size: int, reason: str) -> None:
        """Add an entry for damage in the file.

        The number of entries is bounded, because a damaged file may have millions of damaged places.
        """
        entry = UnreadData(DAMAGED, reason, self.files[self.file], position, size)
        if self._damages < MAX_DAMAGE_ENTRIES - 1:
            self.unread.append(entry)
        elif self._damages < MAX_DAMAGE_ENTRIES:
            self.unread.append(replace(entry, size_bytes=-1, reason="further damage, which is not listed"))
        self._damages += 1

    def _report_unread_packets(self) -> None:
        """Add entries for the packets without a TCP segment since the last call."""
        kinds = int(self.counters[layout.UNREAD_KINDS])
        self.unread += list_packet_entries(self._unread_packets[:kinds], self.files)
        self.counters[layout.UNREAD_KINDS] = 0

    def _report_incomplete_fragments(self) -> None:
        """Add entries for the fragments of incomplete datagrams."""
        self._fragments.finish()
        for (kind, reason), (packets, size) in self._fragments.unread.items():
            self.unread.append(UnreadData(kind, reason, self.files[self.file], size_bytes=size, packets=packets))

    def _finish_window(self, window: _PartialWindow) -> CaptureWindow:
        buf, rows = window.buf, window.rows[: window.row]
        if self.counters[layout.FRAGMENTS]:
            buf, rows = self._reassemble_datagrams(buf, window.end, rows)
        return CaptureWindow(buf, rows, last=False)

    def _reassemble_datagrams(self, buf: Bytes, end: int, rows: Ints) -> tuple[Bytes, Ints]:
        """Reassemble fragments, also nested ones, and add the rows of their segments after the other rows."""
        while (is_fragment := rows[:, layout.DIRECTION] == layout.FRAGMENT_DIRECTION).any():
            datagrams = []
            for index in np.flatnonzero(is_fragment).tolist():
                position = int(rows[index, layout.POSITION])
                datagram = self._fragments.add(buf[position : position + int(rows[index, layout.CAPTURED])].tobytes())
                if datagram is not None:
                    datagrams.append((datagram, int(rows[index, layout.TIME]), int(rows[index, layout.NUMBER])))
            rows = rows[~is_fragment]
            if not datagrams:
                break
            data = np.frombuffer(b"".join(datagram_rows[0] for datagram_rows in datagrams), np.uint8)
            if end + len(data) > len(buf):
                buf = np.concatenate([buf[:end], data])
            else:
                buf[end : end + len(data)] = data
            rows = self._scan_datagrams(buf, end, rows, datagrams)
            end += len(data)
        return buf, np.ascontiguousarray(rows)

    def _scan_datagrams(self, buf: Bytes, position: int, rows: Ints, datagrams: list[tuple[bytes, int, int]]) -> Ints:
        count = len(rows)
        table = np.concatenate([rows, np.zeros((len(datagrams) + 1, layout.PACKET_COLUMN_COUNT), np.int64)])
        connections = self.connections
        for data, time, number in datagrams:
            if (connections.count + 1) * 2 > len(connections.slots) or connections.count == len(connections.table):
                connections.grow()
            _, count, connections.count = kernels.process_datagram(
                buf, position, position + len(data), time, number, self.share, self.shares, int(self.every), table,
                count, connections.table, connections.count, connections.slots, self._fields,
                self._unread_packets, self.counters,
            )  # fmt: skip
            position += len(data)
        return table[:count]


class _FileCursor:
    """The read position in a capture file."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        self.file, self.path = file, path
        self.position = 0  # position of the first byte of ``unread_bytes`` in the (decompressed) file
        self.number = 0  # number of packets that were read
        self.unread_bytes: Bytes = np.zeros(0, np.uint8)
        self.start = 0  # position of the first unscanned byte in the window
        self.is_at_end = False
        self.stuck = False
        self.is_complete = False
        self.reason = ""  # reason why the current block is damaged
        self.lost_until = -1  # file position at which the last damage ended
        self.container: CaptureFormat

    def read_header(self) -> None:
        head = bytearray(24)
        read_bytes, problem = read_into(self.file, memoryview(head), self.path)
        if problem is not None and read_bytes < 4:
            raise problem
        self.container = open_container(bytes(head[:read_bytes]), self.path)
        self.position = self.container.start
        self.unread_bytes = np.frombuffer(bytes(head[self.container.start : read_bytes]), np.uint8)

    def advance(self, unread_bytes: Bytes, size: int, *, stuck: bool) -> None:
        """Move ``size`` bytes ahead, and keep the unscanned bytes for the next window."""
        self.position += size
        self.unread_bytes = unread_bytes.copy()
        self.stuck = stuck
        self.is_complete = self.is_at_end and (stuck or not len(unread_bytes))


def _read_blocks(cursor: _FileCursor, blocks: memoryview, position: int) -> int:
    """Read the section and interface blocks at the start of ``blocks`` and return their total size, in bytes.

    The size is 0 if the first block is damaged or incomplete. If the first block is damaged, ``cursor.reason``
    describes the damage.
    """
    size_of_blocks = 0
    try:
        while size := read_block(cursor.container, blocks[size_of_blocks:], position + size_of_blocks, cursor.path):
            size_of_blocks += size
    except DecodeError as error:
        cursor.reason = "" if size_of_blocks else error.reason  # after other blocks, the next call reports the damage
    return size_of_blocks
