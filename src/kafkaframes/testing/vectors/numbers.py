"""Vectors of numbers: varints, the hash of keys, and the partitions of coordinators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kafkaframes.errors import DecodeError
from kafkaframes.records.partitioner import murmur2, partition_of
from kafkaframes.storage.files.names import coordinator_partition
from kafkaframes.wire import varint

Row = dict[str, Any]
_TEXTS: Final = (
    b"",
    b"a",
    b"21",
    b"foobar",
    b"a-little-bit-long-string",
    b"twelve bytes",
    b"a key of forty-one bytes, which is no four",
)
_KEYS: Final = (*_TEXTS, b"\x00\xff\x80\x7f", bytes(range(256)))
_GROUPS: Final = ("", "a", "billing", "Zürich", "𝄞", "a-group-with-a-long-name-0123456789" * 3)
_BROKEN: Final = (
    b"",
    b"\x80",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\x01",
    b"\x80" * 10 + b"\x01",
    b"\x80\x00",
    b"\xff\x80\x00",
)
_Write = Callable[[bytearray, int], None]
_Read = Callable[[bytes, int], tuple[int, int]]
_KINDS: Final[dict[str, tuple[_Write, _Read, int, bool]]] = {
    "unsigned varint": (varint.write_unsigned_varint, varint.read_unsigned_varint, 32, False),
    "varint": (varint.write_varint, varint.read_varint, 32, True),
    "unsigned varlong": (varint.write_unsigned_varlong, varint.read_unsigned_varlong, 64, False),
    "varlong": (varint.write_varlong, varint.read_varlong, 64, True),
}


def varint_rows() -> Iterator[Row]:
    """Yield numbers around each change of length in bytes, and bytes that are no varint or a needlessly long one."""
    for kind, (write, read, bits, is_signed) in _KINDS.items():
        for value in _borders(bits, is_signed):
            out = bytearray()
            write(out, value)
            yield {"kind": kind, "value": value, "bytes": out.hex()}
        for data in _BROKEN:
            row: Row = {"kind": kind, "bytes": data.hex()}
            try:
                found, end = read(data, 0)
                yield row | {"value": found, "read": end, "canonical": False}
            except DecodeError as error:
                yield row | {"error": str(error)}


def _borders(bits: int, is_signed: bool) -> list[int]:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    steps = {1 << place for place in range(6, bits)} | {0}
    near = {sign * step + by for step in steps for by in (-1, 0, 1) for sign in (1, -1)} | {low, high}
    return sorted(value for value in near if low <= value <= high)


def key_rows() -> Iterator[Row]:
    """Yield keys with their murmur2 hash, and the partition that Kafka's default partitioner gives them."""
    for key in _KEYS:
        partitions = {str(count): partition_of(key, count) for count in (1, 3, 12, 100)}
        yield {"key": key.hex(), "murmur2": murmur2(key), "partition_of": partitions}


def coordinator_rows() -> Iterator[Row]:
    """Yield groups and transactional ids with the partition of the internal topic that is theirs."""
    for name in _GROUPS:
        yield {"id": name, "partition_of": {str(count): coordinator_partition(name, count) for count in (1, 50, 7)}}
