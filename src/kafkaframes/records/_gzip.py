"""Read and write gzip as Kafka does, which uses Java's ``GZIPInputStream`` with an 8 KiB input buffer.

* A stream may have several members. Bytes after a member that are not a member header are ignored, and so are up to
  18 bytes after a trailer.
* A member's CRC and length are verified after its last byte was delivered. If the CRC or the length does not match,
  the records are delivered before the error is reported.
* Reserved flags in the header are ignored. The header's CRC is verified if the header contains one.

ISA-L decompresses intact streams (three times as fast as zlib). Streams that ISA-L rejects are read again with zlib, in
Java's read sizes. libdeflate compresses: its output is not larger than zlib's at the same level, and takes half the
time.
"""

from __future__ import annotations

import struct
import zlib

import deflate
from isal import isal_zlib

from kafkaframes.records._delivery import DamagedStreamError

BUFFER_SIZE = 16 * 1024  # bytes per read of Kafka's decompressing stream
_INPUT_BUFFER_BYTES = 8 * 1024
_HEADER_START_WITHOUT_FLAGS = b"\x1f\x8b\x08\x00"  # magic, method (deflate), no optional header fields
_HEADER_CRC, _EXTRA, _NAME, _COMMENT = 0x02, 0x04, 0x08, 0x10
_HEADER_SIZE, _TRAILER_SIZE = 10, 8
_EMPTY_MEMBER_BYTES = 18  # header and trailer of a member with an empty body
# The header that Java 16 and later write: no time, no flags, unknown operating system.
_JAVA_HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
DEFAULT_LEVEL = 6
# Streams with a higher ratio are only read in steps: they may be decompression bombs, which should not be decompressed
# twice.
_USUAL_SIZE, _USUAL_RATIO = 65536, 32


def decompress_whole(payload: bytes, _magic: int, limit_bytes: int) -> bytes | None:
    """Return the content of a stream that is one intact member, or ``None``."""
    if payload[:4] != _HEADER_START_WITHOUT_FLAGS:
        return None
    limit_bytes = min(limit_bytes, _USUAL_SIZE + _USUAL_RATIO * len(payload))
    member = isal_zlib.decompressobj(31)
    try:
        data: bytes = member.decompress(payload, limit_bytes + 1)
    except isal_zlib.error:  # type: ignore[misc]
        return None
    if not member.eof or member.unused_data or len(data) > limit_bytes:
        return None
    return data


class GzipStream:
    """A gzip stream with the read sizes of ``GZIPInputStream``."""

    def __init__(self, payload: bytes, _magic: int, _limit_bytes: int) -> None:
        self._payload = payload
        self._fed = 0
        self._is_at_end = False
        self._pending = b""
        self._crc = 0
        self._size = 0
        self._begin_body(_find_header_end(payload, 0))

    def read(self, size: int) -> bytes:
        """Return the result of one ``inflate`` call. At the end of a member, continue with the next."""
        while not self._is_at_end:
            part = self._inflate(size)
            if part:
                self._crc = zlib.crc32(part, self._crc)
                self._size += len(part)
                return part
            self._open_next_member()
        return b""

    def _begin_body(self, position: int) -> None:
        """Start to read a member's body at ``position``, with the bytes that are already in the input buffer."""
        self._inflater = zlib.decompressobj(-15)
        self._crc = 0
        self._size = 0
        self._pending = self._payload[position : self._fed]
        self._fed = max(self._fed, position)

    def _inflate(self, size: int) -> bytes:
        """Inflate until there is output. Return ``b""`` at the end of the member's body."""
        while not self._inflater.eof:
            try:
                part = self._inflater.decompress(self._pending, size)
            except zlib.error as error:
                raise DamagedStreamError(f"gzip: {error}") from None
            self._pending = self._inflater.unconsumed_tail
            if part or self._inflater.eof:
                return part
            if not self._pending:
                self._fill_input()
        return b""

    def _fill_input(self) -> None:
        self._pending = self._payload[self._fed : self._fed + _INPUT_BUFFER_BYTES]
        if not self._pending:
            raise DamagedStreamError("gzip: the stream is truncated in a member's body")
        self._fed += len(self._pending)

    def _open_next_member(self) -> None:
        """Verify the trailer and open the next member, if one follows."""
        trailer = self._fed - len(self._inflater.unused_data)
        position = trailer + _TRAILER_SIZE
        if position > len(self._payload):
            raise DamagedStreamError("gzip: the stream is truncated in a member's trailer")
        if struct.unpack_from("<II", self._payload, trailer) != (self._crc, self._size & 0xFFFFFFFF):
            raise DamagedStreamError("gzip: the trailer's CRC or length does not match")
        self._is_at_end = True
        unread = len(self._payload) > max(self._fed, position)
        if not unread and self._fed - position <= _EMPTY_MEMBER_BYTES:
            return
        try:
            body = _find_header_end(self._payload, position)
        except DamagedStreamError:
            return
        self._is_at_end = False
        self._begin_body(body)


def _find_header_end(payload: bytes, start: int) -> int:
    """Return the position after the header of the member at ``start`` (RFC 1952)."""
    header = payload[start : start + _HEADER_SIZE]
    if len(header) < _HEADER_SIZE:
        raise DamagedStreamError("gzip: the stream is truncated in a member's header")
    if header[:2] != b"\x1f\x8b":
        raise DamagedStreamError("gzip: not in gzip format")
    if header[2] != 8:
        raise DamagedStreamError(f"gzip: unknown compression method {header[2]}; expected 8 (deflate)")
    flags = header[3]
    position = start + _HEADER_SIZE
    if flags & _EXTRA:
        position += 2 + int.from_bytes(payload[position : position + 2], "little")
    for text in (_NAME, _COMMENT):
        if flags & text:
            position = payload.find(b"\0", position) + 1 or len(payload) + 1
    if flags & _HEADER_CRC:
        header_crc = int.from_bytes(payload[position : position + 2], "little")
        if header_crc != zlib.crc32(payload[start:position]) & 0xFFFF:
            raise DamagedStreamError("gzip: the header's CRC does not match")
        position += 2
    if position > len(payload):
        raise DamagedStreamError("gzip: the stream is truncated in a member's header")
    return position


def compress(data: bytes, level: int | None, _magic: int) -> bytes:
    """Return one gzip member with Java's header; ``level`` is -1 or 0 to 9 (KIP-390), None is the default."""
    body = deflate.deflate_compress(data, DEFAULT_LEVEL if level in (None, -1) else level)
    return b"".join((_JAVA_HEADER, body, struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)))
