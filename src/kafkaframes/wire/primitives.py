"""Kafka's primitive types to and from bytes (KIP-482; big endian). No message knows about this file's callers.

Every reader is ``read_x(buf, position) -> (value, next_position)``, and every writer ``write_x(out, value)`` appends to
a bytearray. Readers are as lenient as Kafka's own; what
``strict`` mode refuses on top of that is decided by the interpreter of plans, not here.

* Any negative length is a null, whatever the number; whether null is allowed is the caller's question.
* No memory is taken from a length before the bytes it promises are known to be there.
* Text is UTF-8: bad bytes become U+FFFD exactly as in Java's decoder, lone surrogates are written as ``?``.
* A uuid is 16 bytes, most significant first; all zeros stand for "none" (a uuid is never null).
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias
from uuid import UUID

from kafkaframes.errors import DecodeError, EncodeError, TruncatedError
from kafkaframes.wire.varint import read_unsigned_varint, write_unsigned_varint


class Part:
    """Bytes that are not in memory: ``len(part)`` is how many there are, ``bytes(part)`` reads them.

    ``Message.encode_parts`` hands a part on as it is; whatever needs its bytes reads them.
    """

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def __bytes__(self) -> bytes:
        raise NotImplementedError


Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
Writer: TypeAlias = Callable[[bytearray, Any], None]

ZERO_UUID: Final = UUID(int=0)
MAX_STRING_BYTES: Final = 0x7FFF  # also for compact strings, whose length could say more (Kafka's generated readers)
_INT32_MIN: Final = -(1 << 31)


def read_raw(buf: bytes, position: int, size: int, what: str) -> tuple[bytes, int]:
    """Read ``size`` bytes; ``what`` names them in the error.

    Raises:
        TruncatedError: fewer are left.
    """
    end = position + size
    if end > len(buf):
        raise TruncatedError(f"{what} of {size} bytes, {len(buf) - position} left", position=position)
    return bytes(buf[position:end]), end


def _fixed(fmt: str, name: str) -> tuple[Reader, Writer]:
    layout = struct.Struct(fmt)
    size = layout.size

    def read(buf: bytes, position: int) -> tuple[Any, int]:
        if position + size > len(buf):
            raise TruncatedError(f"{name} needs {size} bytes, {len(buf) - position} left", position=position)
        return layout.unpack_from(buf, position)[0], position + size

    def write(out: bytearray, value: Any) -> None:
        try:
            out += layout.pack(value)
        except (struct.error, TypeError) as error:
            raise EncodeError(f"{value!r} is no {name}: {error}") from error

    return read, write


#: How ``struct`` names each type of a fixed size, by the type's name in a spec.
FORMATS: Final = {
    "bool": "?",  # any byte but 0 reads as true
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
_FIXED: Final = {name: _fixed(f">{letter}", name) for name, letter in FORMATS.items() if name != "uuid"}
read_int8, write_int8 = _FIXED["int8"]
read_int16, _ = _FIXED["int16"]
read_int32, write_int32 = _FIXED["int32"]


def read_uuid(buf: bytes, position: int) -> tuple[UUID, int]:
    """Read 16 bytes, most significant first."""
    raw, position = read_raw(buf, position, 16, "uuid")
    return UUID(bytes=raw), position


def write_uuid(out: bytearray, value: UUID) -> None:
    """Append the 16 bytes of ``value``."""
    if not isinstance(value, UUID):
        raise EncodeError(f"{value!r} is no uuid.UUID")
    out += value.bytes


def uuid_to_text(value: UUID) -> str:
    """Return Kafka's text of a uuid: 22 characters of base64url (``org.apache.kafka.common.Uuid``)."""
    return base64.urlsafe_b64encode(value.bytes).decode("ascii").rstrip("=")


def uuid_from_text(text: str) -> UUID:
    """Return the uuid that Kafka's text names.

    >>> uuid_to_text(uuid_from_text("H3KKO4NTRPaCWtEmm3vW7A"))
    'H3KKO4NTRPaCWtEmm3vW7A'

    Raises:
        ValueError: ``text`` is not the base64url of 16 bytes.
    """
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is no base64url: {error}") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} holds {len(raw)} bytes, a uuid has 16")
    return UUID(bytes=raw)


# Python and Java both put one U+FFFD for each longest broken prefix, but for an encoded surrogate (``ed a0..bf``): Java
# replaces all of it by one, Python each of its bytes. No other sequence holds an ``ed`` behind its first byte.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def java_text(data: bytes) -> str:
    """Decode UTF-8 as ``new String(bytes, UTF_8)`` does, which never fails: one U+FFFD for each malformed sequence.

    >>> java_text(b"a\\xffb"), java_text(b"\\xed\\xa0\\x80")
    ('a\\ufffdb', '\\ufffd')
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", data).decode(errors="replace")


def text_to_utf8(text: str) -> bytes:
    """Encode UTF-8 as Java's ``getBytes(UTF_8)`` does: a lone surrogate becomes ``?``."""
    if not isinstance(text, str):
        raise EncodeError(f"{text!r} is no str")
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass").encode("utf-8", "replace")


def _minus_one(value: int) -> int:
    return value - 1 if value != _INT32_MIN else -1 - _INT32_MIN  # Java's int wraps around


def read_compact_length(buf: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint holding length + 1; negative means null (so does any varint from 2^31 on)."""
    value, position = read_unsigned_varint(buf, position)
    return _minus_one(value), position


def write_compact_length(out: bytearray, length: int) -> None:
    """Append length + 1 as an unsigned varint; -1 is null."""
    write_unsigned_varint(out, length + 1)


def _sized(
    length_of: tuple[Reader, Writer], from_raw: Callable[[bytes], Any], to_raw: Callable[[Any], bytes], what: str
) -> tuple[Reader, Writer]:
    """Make the pair for a nullable value of ``length`` bytes; both read and write null."""
    read_length, write_length = length_of
    most = MAX_STRING_BYTES if what == "string" else (1 << 31) - 1

    def read(buf: bytes, position: int) -> tuple[Any, int]:
        length, start = read_length(buf, position)
        if length < 0:
            return None, start
        if length > most:
            raise DecodeError(f"{what} of {length} bytes, the most is {most}", position=position)
        raw, end = read_raw(buf, start, length, what)
        return from_raw(raw), end

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            write_length(out, -1)
            return
        raw = to_raw(value)
        if len(raw) > most:
            raise EncodeError(f"{what} of {len(raw)} bytes, the most is {most}")
        write_length(out, len(raw))
        out += raw

    return read, write


def _same(value: bytes) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise EncodeError(f"{value!r} is no bytes")
    return bytes(value)


FIXED_SIZE: Final = {name: struct.calcsize(f">{letter}") for name, letter in FORMATS.items()}
INTEGER_RANGES: Final = {
    name: (0, (1 << 8 * size) - 1) if name.startswith("u") else (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1)
    for name, size in FIXED_SIZE.items()
    if "int" in name
}
# type name in a spec -> (read, write), of a version that is not flexible, then of one that is
PRIMITIVES: Final[dict[str, tuple[Reader, Writer]]] = {
    **_FIXED,
    "uuid": (read_uuid, write_uuid),
    "string": _sized(_FIXED["int16"], java_text, text_to_utf8, "string"),
    "bytes": _sized(_FIXED["int32"], _same, _same, "bytes"),
    "records": _sized(_FIXED["int32"], _same, _same, "bytes"),  # KIP-482's RECORDS: bytes on the wire
}
_COMPACT_LENGTH: Final = (read_compact_length, write_compact_length)
COMPACT_PRIMITIVES: Final[dict[str, tuple[Reader, Writer]]] = PRIMITIVES | {
    "string": _sized(_COMPACT_LENGTH, java_text, text_to_utf8, "string"),
    "bytes": _sized(_COMPACT_LENGTH, _same, _same, "bytes"),
    "records": _sized(_COMPACT_LENGTH, _same, _same, "bytes"),
}
