"""Encoding of Kafka's primitive types (KIP-482; big endian).

Every reader is ``read_x(buf, position) -> (value, next_position)``, and every writer ``write_x(out, value)`` appends to
a bytearray. Readers are as lenient as Kafka's readers. The message decoder's ``strict`` mode rejects more.

* Any negative length means null. The caller decides whether null is allowed.
* A reader compares a length with the remaining bytes before it allocates memory.
* Text is UTF-8. Malformed bytes become U+FFFD exactly as in Java's decoder, and lone surrogates are written as ``?``.
* A UUID is 16 bytes, most significant byte first. A UUID is never null; all zeros mean that it is not set.
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
from kafkaframes.wire.integers import MAX_INT32, MIN_INT32
from kafkaframes.wire.varint import read_unsigned_varint, write_unsigned_varint


class DeferredBytes:
    """Bytes of a message that are stored outside memory, such as in a file, and are read only when they are sent.

    ``len(part)`` returns the number of bytes, and ``bytes(part)`` reads the bytes.

    ``Message.encode_parts`` passes a part on without reading it.
    """

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def __bytes__(self) -> bytes:
        raise NotImplementedError


Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
Writer: TypeAlias = Callable[[bytearray, Any], None]

NIL_UUID: Final = UUID(int=0)
MAX_STRING_BYTES: Final = 0x7FFF  # also the limit of compact strings in Kafka's generated readers


def read_raw(buf: bytes, position: int, size: int, name: str) -> tuple[bytes, int]:
    """Read ``size`` bytes. ``name`` is the name of the type in error messages.

    Raises:
        TruncatedError: fewer than ``size`` bytes remain.
    """
    end = position + size
    if end > len(buf):
        raise TruncatedError(f"{name} needs {size} bytes; only {len(buf) - position} remain", position=position)
    return bytes(buf[position:end]), end


def _create_fixed_size_codec(fmt: str, name: str) -> tuple[Reader, Writer]:
    layout = struct.Struct(fmt)
    size = layout.size

    def read_value(buf: bytes, position: int) -> tuple[Any, int]:
        if position + size > len(buf):
            raise TruncatedError(f"{name} needs {size} bytes; only {len(buf) - position} remain", position=position)
        return layout.unpack_from(buf, position)[0], position + size

    def write_value(out: bytearray, value: Any) -> None:
        try:
            out += layout.pack(value)
        except (struct.error, TypeError) as error:
            raise EncodeError(f"{value!r} is not a valid {name}: {error}") from error

    return read_value, write_value


#: Type name in a spec -> ``struct`` format character, for types of a fixed size.
STRUCT_FORMATS: Final = {
    "bool": "?",  # every byte other than 0 is true
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
_FIXED_SIZE_CODECS: Final = {
    name: _create_fixed_size_codec(f">{letter}", name) for name, letter in STRUCT_FORMATS.items() if name != "uuid"
}
read_int8, write_int8 = _FIXED_SIZE_CODECS["int8"]
read_int16, _ = _FIXED_SIZE_CODECS["int16"]
read_int32, write_int32 = _FIXED_SIZE_CODECS["int32"]


def read_uuid(buf: bytes, position: int) -> tuple[UUID, int]:
    """Read a UUID of 16 bytes, most significant byte first."""
    raw, position = read_raw(buf, position, 16, "uuid")
    return UUID(bytes=raw), position


def write_uuid(out: bytearray, value: UUID) -> None:
    """Append the 16 bytes of ``value``."""
    if not isinstance(value, UUID):
        raise EncodeError(f"{value!r} is not a uuid.UUID")
    out += value.bytes


def uuid_to_text(value: UUID) -> str:
    """Return Kafka's text of a UUID: 22 characters of base64url (``org.apache.kafka.common.Uuid``)."""
    return base64.urlsafe_b64encode(value.bytes).decode("ascii").rstrip("=")


def uuid_from_text(text: str) -> UUID:
    """Parse Kafka's text of a UUID.

    >>> uuid_to_text(uuid_from_text("H3KKO4NTRPaCWtEmm3vW7A"))
    'H3KKO4NTRPaCWtEmm3vW7A'

    Raises:
        ValueError: ``text`` is not the base64url of 16 bytes.
    """
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is not base64url: {error}") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} has {len(raw)} bytes; a UUID has 16")
    return UUID(bytes=raw)


# Python and Java both replace each longest malformed prefix with one U+FFFD. They differ in an encoded surrogate
# (``ed a0..bf``): Java uses one for the whole sequence, and Python one for each byte. No
# other sequence contains ``ed`` after its start.
_SURROGATE_PATTERN = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_java_text(data: bytes) -> str:
    """Decode UTF-8 like Java's ``new String(bytes, UTF_8)``: each malformed sequence becomes one U+FFFD.

    >>> decode_java_text(b"a\\xffb"), decode_java_text(b"\\xed\\xa0\\x80")
    ('a\\ufffdb', '\\ufffd')
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE_PATTERN.sub(b"\xff", data).decode(errors="replace")


def encode_java_text(text: str) -> bytes:
    """Encode UTF-8 like Java's ``getBytes(UTF_8)``: a lone surrogate becomes ``?``."""
    if not isinstance(text, str):
        raise EncodeError(f"{text!r} is not a str")
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass").encode("utf-8", "replace")


def _minus_one(value: int) -> int:
    return value - 1 if value != MIN_INT32 else -1 - MIN_INT32  # like Java's int, which wraps around


def read_compact_length(buf: bytes, position: int) -> tuple[int, int]:
    """Read a compact length: an unsigned varint of length + 1.

    A negative result means null, as for varints of 2^31 and above.
    """
    value, position = read_unsigned_varint(buf, position)
    return _minus_one(value), position


def write_compact_length(out: bytearray, length: int) -> None:
    """Append length + 1 as an unsigned varint. A length of -1 means null."""
    write_unsigned_varint(out, length + 1)


def _create_nullable_codec(
    length_type: tuple[Reader, Writer], from_raw: Callable[[bytes], Any], to_raw: Callable[[Any], bytes], name: str
) -> tuple[Reader, Writer]:
    """Return the reader and the writer of a nullable type that is encoded as its length and its bytes."""
    read_length, write_length = length_type
    max_bytes = MAX_STRING_BYTES if name == "string" else MAX_INT32

    def read_value(buf: bytes, position: int) -> tuple[Any, int]:
        length, start = read_length(buf, position)
        if length < 0:
            return None, start
        if length > max_bytes:
            raise DecodeError(f"{name} value has {length} bytes; the maximum is {max_bytes}", position=position)
        raw, end = read_raw(buf, start, length, name)
        return from_raw(raw), end

    def write_value(out: bytearray, value: Any) -> None:
        if value is None:
            write_length(out, -1)
            return
        raw = to_raw(value)
        if len(raw) > max_bytes:
            raise EncodeError(f"{name} value has {len(raw)} bytes; the maximum is {max_bytes}")
        write_length(out, len(raw))
        out += raw

    return read_value, write_value


def _to_bytes(value: bytes) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise EncodeError(f"{value!r} is not bytes")
    return bytes(value)


SIZE_BY_FIXED_TYPE: Final = {name: struct.calcsize(f">{letter}") for name, letter in STRUCT_FORMATS.items()}
INTEGER_RANGES: Final = {
    name: (0, (1 << 8 * size) - 1) if name.startswith("u") else (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1)
    for name, size in SIZE_BY_FIXED_TYPE.items()
    if "int" in name
}
# type name in a spec -> (reader, writer); PRIMITIVE_CODECS for versions that are not flexible, COMPACT_PRIMITIVE_CODECS
# for flexible versions
PRIMITIVE_CODECS: Final[dict[str, tuple[Reader, Writer]]] = {
    **_FIXED_SIZE_CODECS,
    "uuid": (read_uuid, write_uuid),
    "string": _create_nullable_codec(_FIXED_SIZE_CODECS["int16"], decode_java_text, encode_java_text, "string"),
    "bytes": _create_nullable_codec(_FIXED_SIZE_CODECS["int32"], _to_bytes, _to_bytes, "bytes"),
    "records": _create_nullable_codec(
        _FIXED_SIZE_CODECS["int32"], _to_bytes, _to_bytes, "bytes"
    ),  # KIP-482's RECORDS, encoded as bytes
}
_COMPACT_LENGTH_CODEC: Final = (read_compact_length, write_compact_length)
COMPACT_PRIMITIVE_CODECS: Final[dict[str, tuple[Reader, Writer]]] = PRIMITIVE_CODECS | {
    "string": _create_nullable_codec(_COMPACT_LENGTH_CODEC, decode_java_text, encode_java_text, "string"),
    "bytes": _create_nullable_codec(_COMPACT_LENGTH_CODEC, _to_bytes, _to_bytes, "bytes"),
    "records": _create_nullable_codec(_COMPACT_LENGTH_CODEC, _to_bytes, _to_bytes, "bytes"),
}
