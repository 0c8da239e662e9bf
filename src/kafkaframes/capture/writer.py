"""Write captures: pcapng with raw IP packets and TCP segments made up around the bytes of a conversation.

Checksums are left at 0, as captures of one's own machine have them; times are nanoseconds.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from typing import IO, Final

from kafkaframes.capture.layout import ACK, FIN, PSH, RST, SYN

LARGEST_SEGMENT: Final = 60_000
_RAW_IP, _NANOSECONDS = 101, 9
_PACKET: Final = struct.Struct("<IIIIIII")

End = tuple[str, int]


def file_header(application: str) -> bytes:
    """Return the section and interface blocks that a file starts with."""
    options = _option(4, application.encode()) + _option(0, b"")
    size = 28 + len(options)
    section = struct.pack("<IIIHHq", 0x0A0D0D0A, size, 0x1A2B3C4D, 1, 0, -1) + options + struct.pack("<I", size)
    body = struct.pack("<HHI", _RAW_IP, 0, 0) + _option(9, bytes([_NANOSECONDS])) + _option(0, b"")
    return section + struct.pack("<II", 1, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def _record(time_ns: int, packet: bytes) -> bytes:
    padded = len(packet) + (-len(packet) % 4)
    size = 32 + padded
    head = _PACKET.pack(6, size, 0, time_ns >> 32, time_ns & 0xFFFFFFFF, len(packet), len(packet))
    return head + packet.ljust(padded, b"\0") + struct.pack("<I", size)


class Conversation:
    """One TCP connection that is written: keeps the sequence numbers of both sides.

    ``initial`` is that of both SYNs; connections between the same ports must have different ones.
    """

    def __init__(self, client: End, server: End, *, initial: int = 0) -> None:
        self.ends = (client, server)
        self.initial = initial & 0xFFFFFFFF
        self.next = [self.at(0), self.at(0)]  # sequence number of the next byte of each side
        self._addresses = [ipaddress.ip_address(end[0]) for end in self.ends]
        self._is_v4 = all(one.version == 4 for one in self._addresses)

    def at(self, offset: int) -> int:
        """Return the sequence number of a byte of a stream."""
        return (self.initial + 1 + offset) & 0xFFFFFFFF

    def opening(self, time_ns: int) -> bytes:
        """Return the three packets that open it."""
        first = self.at(0)
        steps = ((0, self.initial, 0, SYN), (1, self.initial, first, SYN | ACK), (0, first, first, ACK))
        return b"".join(_record(time_ns, self._packet(*step, b"")) for step in steps)

    def data(self, side: int, data: bytes | memoryview, time_ns: int) -> Iterator[bytes]:
        """Yield the packets that carry bytes of a side (0 the client, 1 the server)."""
        for start in range(0, len(data), LARGEST_SEGMENT):
            part = data[start : start + LARGEST_SEGMENT]
            yield _record(time_ns, self._packet(side, self.next[side], self.next[1 - side], PSH | ACK, part))
            self.next[side] = (self.next[side] + len(part)) & 0xFFFFFFFF

    def skip(self, side: int, size: int) -> None:
        """Leave bytes out: a reader sees that they are missing."""
        self.next[side] = (self.next[side] + size) & 0xFFFFFFFF

    def closing(self, side: int, time_ns: int, *, reset: bool = False) -> bytes:
        """Return the packet with which a side ends."""
        return _record(
            time_ns, self._packet(side, self.next[side], self.next[1 - side], RST if reset else FIN | ACK, b"")
        )

    def _packet(self, side: int, sequence: int, acknowledged: int, flags: int, payload: bytes | memoryview) -> bytes:
        ports = self.ends[side][1], self.ends[1 - side][1]
        tcp = struct.pack(">HHIIBBHHH", *ports, sequence, acknowledged, 0x50, flags, 0xFFFF, 0, 0)
        size = len(tcp) + len(payload)
        if self._is_v4:
            head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + size, 0, 0x4000, 64, 6, 0)
        else:
            head = struct.pack(">IHBB", 0x60000000, size, 6, 64)
        return b"".join([head, self._bytes(side), self._bytes(1 - side), tcp, payload])

    def _bytes(self, side: int) -> bytes:
        address = self._addresses[side]
        if self._is_v4 or address.version == 6:
            return address.packed
        return bytes(10) + b"\xff\xff" + address.packed


class CaptureWriter:
    """Writes a capture into a file that is open for writing."""

    def __init__(self, file: IO[bytes], *, application: str = "kafkaframes") -> None:
        self.file = file
        file.write(file_header(application))

    def write(self, *packets: bytes) -> None:
        """Append packets."""
        for packet in packets:
            self.file.write(packet)
