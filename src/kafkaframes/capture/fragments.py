"""Put IP datagrams together that were sent in fragments (RFC 791, 3.2; RFC 8200, 4.5). They are rare, so in Python."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MOST_DATAGRAMS: Final = 1024  # that wait for fragments at a time; the oldest is given up
_LARGEST: Final = 65535
_UNIT: Final = 8  # bytes that offsets of fragments are counted in
_HOP_BY_HOP, _ROUTING, _OPTIONS, _FRAGMENT, _AUTHENTICATION = 0, 43, 60, 44, 51


class _Fragment(NamedTuple):
    key: tuple[bytes, ...]
    header: bytes  # what the whole datagram starts with
    offset: int
    more: bool
    payload: bytes


@dataclass
class _Waiting:
    """A datagram of which fragments are missing; its memory is bounded by a datagram's size, however they overlap."""

    header: bytes = b""
    payload: bytearray = field(default_factory=bytearray)
    there: bytearray = field(default_factory=bytearray)  # 1 for each 8 bytes that are there: offsets count these
    missing: int = 0  # of the 8 bytes up to the furthest that is there
    size: int = -1

    def add(self, part: _Fragment) -> None:
        """Take a fragment; where two overlap, the first that came counts."""
        if part.more:  # all but the last are multiples of 8, unless they were cut
            part = part._replace(payload=part.payload[: len(part.payload) // _UNIT * _UNIT])
        end = part.offset + len(part.payload)
        if part.offset == 0 and not self.header:
            self.header = part.header
        if not part.more and self.size < 0:
            self.size = end
        first, last = part.offset // _UNIT, (end + _UNIT - 1) // _UNIT
        if last > len(self.there):
            self.missing += last - len(self.there)
            self.there.extend(bytes(last - len(self.there)))
            self.payload.extend(bytes(last * _UNIT - len(self.payload)))
        new = self.there.count(0, first, last)
        self.missing -= new
        if new == last - first:
            self.payload[part.offset : end] = part.payload
        elif new:
            self._fill(part, first, last)
        self.there[first:last] = b"\1" * (last - first)

    def _fill(self, chunk: _Fragment, first: int, last: int) -> None:
        for unit in range(first, last):
            if not self.there[unit]:
                part = chunk.payload[unit * _UNIT - chunk.offset :][:_UNIT]
                self.payload[unit * _UNIT : unit * _UNIT + len(part)] = part

    def whole(self) -> bytes | None:
        """Return the payload if nothing is missing."""
        if self.size < 0 or not self.header or self.missing or len(self.payload) < self.size:
            return None
        return bytes(self.payload[: self.size])


class Defragmenter:
    """Fragments in, whole datagrams out."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[bytes, ...], _Waiting] = {}

    def add(self, packet: bytes) -> bytes | None:
        """Take a fragment, from its IP header on; return the datagram if it is the last that was missing."""
        part = _version_4(packet) if packet[:1] and packet[0] >> 4 == 4 else _version_6(packet)
        if part is None or part.offset + len(part.payload) > _LARGEST:
            return None
        entry = self.waiting.setdefault(part.key, _Waiting())
        entry.add(part)
        payload = entry.whole()
        if payload is not None:
            del self.waiting[part.key]
            return _with_size(entry.header, payload)
        if len(self.waiting) > MOST_DATAGRAMS:
            self.waiting.pop(next(iter(self.waiting)))
        return None


def _with_size(header: bytes, payload: bytes) -> bytes:
    if header[0] >> 4 == 4:
        total = struct.pack(">H", (len(header) + len(payload)) & 0xFFFF)
        return header[:2] + total + header[4:6] + b"\0\0" + header[8:] + payload
    size = len(header) - 40 + len(payload)
    return header[:4] + struct.pack(">H", size & 0xFFFF) + header[6:] + payload


def _version_4(packet: bytes) -> _Fragment | None:
    header = (packet[0] & 15) * 4
    if len(packet) < max(header, 20) or header < 20:
        return None
    flags = struct.unpack_from(">H", packet, 6)[0]
    key = (packet[4:6], packet[9:10], packet[12:20])
    return _Fragment(key, packet[:header], (flags & 0x1FFF) * 8, bool(flags & 0x2000), packet[header:])


def _version_6(packet: bytes) -> _Fragment | None:
    """Return the part; the header of the whole is what stands before the fragment header, which is taken out."""
    if len(packet) < 48:
        return None
    at, following, position_of_next = 40, packet[6], 6
    while following in (_HOP_BY_HOP, _ROUTING, _OPTIONS, _AUTHENTICATION):
        if at + 8 > len(packet):
            return None
        position_of_next = at
        step = (packet[at + 1] + 2) * 4 if following == _AUTHENTICATION else (packet[at + 1] + 1) * 8
        following = packet[at]
        at += step
    if following != _FRAGMENT or at + 8 > len(packet):
        return None
    flags, number = struct.unpack_from(">HI", packet, at + 2)
    header = bytearray(packet[:at])
    header[position_of_next] = packet[at]
    return _Fragment(
        (packet[8:40], struct.pack(">I", number)), bytes(header), flags & 0xFFF8, bool(flags & 1), packet[at + 8 :]
    )
