"""Numbers and keys at their borders; values of any message at any version, each case by rule.

The cases are defaults, the ordinary, the borders, nulls, unknown tags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages import Message
from kafkaframes.protocol.messages.plan import FieldPlan, StructPlan
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
                result, end = read(data, 0)
                yield row | {"value": result, "read": end, "canonical": False}
            except DecodeError as error:
                yield row | {"error": str(error)}


def _borders(bits: int, is_signed: bool) -> list[int]:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    steps = {1 << index for index in range(6, bits)} | {0}
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


DEFAULTS, ORDINARY, LOWEST, HIGHEST, NULLS, TAGS = "defaults", "ordinary", "lowest", "highest", "nulls", "unknown tags"
CASES: Final = (DEFAULTS, ORDINARY, LOWEST, HIGHEST, NULLS, TAGS)
_UNKNOWN_TAGS: Final = ((10_000, b""), (20_000, b"\x00\xff"), (2_000_000, bytes(range(130))))
_MANY: Final = 130  # elements: a compact count of two bytes
_LONG: Final = 200
_DEPTH_OF_MANY: Final = 2  # structs in structs have few elements, or the value grows without end
_BITS: Final[Mapping[str, int]] = MappingProxyType(
    {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
)
_OTHERS: Final[Mapping[str, tuple[Any, Any, Any]]] = MappingProxyType(
    {  # ordinary, lowest, highest
        "bool": (True, False, True),
        "float64": (1.5, -1.7976931348623157e308, 1.7976931348623157e308),
        "uuid": (UUID(int=0x0123456789ABCDEF0123456789ABCDEF), UUID(int=1), UUID(int=2**128 - 1)),
        "string": ("topic-1", "", "Zürich ☃ 𝄞" * 20),
        "bytes": (b"\x01\x02\x03", b"", bytes(range(_LONG))),
        "records": (b"", b"", b""),  # batches have vectors of their own
    }
)
_PATH: Final = {ORDINARY: 0, TAGS: 0, NULLS: 0, LOWEST: 1, HIGHEST: 2}


def make_value(cls: type[Message], version: int, case: str) -> Message | None:
    """Return the value of a case; None where the version has no such case: nothing nullable, no tags, no fields."""
    codec = cls.codec(version)
    plan = codec.plan.root
    if case == DEFAULTS:
        return cls()
    if (case == TAGS and not plan.flexible) or (case == NULLS and not _any_nullable(plan)):
        return None
    made: Message = _Maker(codec.classes, case).struct(plan, 0)
    return made


def _any_nullable(plan: StructPlan) -> bool:
    fields = (*plan.fields, *plan.tagged)
    return any(one.nullable or (one.struct is not None and _any_nullable(one.struct)) for one in fields)


class _Maker:
    """Makes the structs of one case."""

    def __init__(self, classes: Mapping[str, Any], case: str) -> None:
        self._classes = classes
        self._case = case

    def struct(self, plan: StructPlan, depth: int) -> Any:
        fields = {one.attribute: self._field(one, depth) for one in (*plan.fields, *plan.tagged)}
        if self._case == TAGS and plan.flexible:
            fields["unknown_tags"] = list(_UNKNOWN_TAGS)
        return self._classes[plan.name](**fields)

    def _field(self, field: FieldPlan, depth: int) -> Any:
        if self._case == NULLS and field.nullable:
            return None
        if not field.array:
            return self._one(field, depth)
        return [self._one(field, depth) for _ in range(self._count(field, depth))]

    def _count(self, field: FieldPlan, depth: int) -> int:
        if self._case == LOWEST:
            return 0
        if self._case == HIGHEST and field.struct is None and depth < _DEPTH_OF_MANY:
            return _MANY
        return 2 if depth < _DEPTH_OF_MANY else 1

    def _one(self, field: FieldPlan, depth: int) -> Any:
        if field.struct is not None:
            return self.struct(field.struct, depth + 1)
        if field.type in _BITS:
            return _NUMBERS[_PATH[self._case]](_BITS[field.type], field.type.startswith("u"))
        return _OTHERS[field.type][_PATH[self._case]]


_NUMBERS: Final[tuple[Callable[[int, bool], int], ...]] = (
    lambda bits, unsigned: 17,
    lambda bits, unsigned: 0 if unsigned else -(1 << (bits - 1)),
    lambda bits, unsigned: (1 << (bits - (not unsigned))) - 1,
)
