"""Put IP datagrams together that were sent in fragments (RFC 791, 3.2; RFC 8200, 4.5). They are rare, so in Python."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MOST_DATAGRAMS: Final = 1024  # that wait for fragments at a time; the oldest is given up
_LARGEST: Final = 65535
_HOP_BY_HOP, _ROUTING, _OPTIONS, _FRAGMENT, _AUTHENTICATION = 0, 43, 60, 44, 51


class _Piece(NamedTuple):
    key: tuple[bytes, ...]
    header: bytes  # what the whole datagram starts with
    offset: int
    more: bool
    payload: bytes


@dataclass
class _Waiting:
    header: bytes = b""
    pieces: dict[int, bytes] = field(default_factory=dict)
    size: int = -1


class Defragmenter:
    """Fragments in, whole datagrams out."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[bytes, ...], _Waiting] = {}

    def add(self, packet: bytes) -> bytes | None:
        """Take a fragment, from its IP header on; return the datagram if it is the last that was missing."""
        piece = _version_4(packet) if packet[:1] and packet[0] >> 4 == 4 else _version_6(packet)
        if piece is None or piece.offset + len(piece.payload) > _LARGEST:
            return None
        entry = self.waiting.setdefault(piece.key, _Waiting())
        entry.pieces.setdefault(piece.offset, piece.payload)
        if piece.offset == 0:
            entry.header = piece.header
        if not piece.more:
            entry.size = piece.offset + len(piece.payload)
        payload = _joined(entry)
        if payload is not None:
            del self.waiting[piece.key]
            return _with_size(entry.header, payload)
        if len(self.waiting) > MOST_DATAGRAMS:
            self.waiting.pop(next(iter(self.waiting)))
        return None


def _joined(entry: _Waiting) -> bytes | None:
    if entry.size < 0 or not entry.header:
        return None
    out = bytearray()
    for offset in sorted(entry.pieces):
        if offset > len(out):
            return None
        out += entry.pieces[offset][len(out) - offset :]
    return bytes(out[: entry.size]) if len(out) >= entry.size else None


def _with_size(header: bytes, payload: bytes) -> bytes:
    if header[0] >> 4 == 4:
        total = struct.pack(">H", (len(header) + len(payload)) & 0xFFFF)
        return header[:2] + total + header[4:6] + b"\0\0" + header[8:] + payload
    size = len(header) - 40 + len(payload)
    return header[:4] + struct.pack(">H", size & 0xFFFF) + header[6:] + payload


def _version_4(packet: bytes) -> _Piece | None:
    header = (packet[0] & 15) * 4
    if len(packet) < max(header, 20) or header < 20:
        return None
    flags = struct.unpack_from(">H", packet, 6)[0]
    key = (packet[4:6], packet[9:10], packet[12:20])
    return _Piece(key, packet[:header], (flags & 0x1FFF) * 8, bool(flags & 0x2000), packet[header:])


def _version_6(packet: bytes) -> _Piece | None:
    """Return the piece; the header of the whole is what stands before the fragment header, which is taken out."""
    if len(packet) < 48:
        return None
    at, following, place_of_next = 40, packet[6], 6
    while following in (_HOP_BY_HOP, _ROUTING, _OPTIONS, _AUTHENTICATION):
        if at + 8 > len(packet):
            return None
        place_of_next = at
        step = (packet[at + 1] + 2) * 4 if following == _AUTHENTICATION else (packet[at + 1] + 1) * 8
        following = packet[at]
        at += step
    if following != _FRAGMENT or at + 8 > len(packet):
        return None
    flags, number = struct.unpack_from(">HI", packet, at + 2)
    header = bytearray(packet[:at])
    header[place_of_next] = packet[at]
    return _Piece(
        (packet[8:40], struct.pack(">I", number)), bytes(header), flags & 0xFFF8, bool(flags & 1), packet[at + 8 :]
    )
