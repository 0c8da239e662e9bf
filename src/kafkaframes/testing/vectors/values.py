"""Values of any message at any version, each case by rule: defaults, the ordinary, the borders, nulls, unknown tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from kafkaframes.protocol.messages import Message
from kafkaframes.protocol.messages.plan import FieldPlan, StructPlan

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
_PLACE: Final = {ORDINARY: 0, TAGS: 0, NULLS: 0, LOWEST: 1, HIGHEST: 2}


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
            return _NUMBERS[_PLACE[self._case]](_BITS[field.type], field.type.startswith("u"))
        return _OTHERS[field.type][_PLACE[self._case]]


_NUMBERS: Final[tuple[Callable[[int, bool], int], ...]] = (
    lambda bits, unsigned: 17,
    lambda bits, unsigned: 0 if unsigned else -(1 << (bits - 1)),
    lambda bits, unsigned: (1 << (bits - (not unsigned))) - 1,
)
