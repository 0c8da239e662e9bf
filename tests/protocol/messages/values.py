"""Values of any message at any version, drawn at random from its plan; the same seed gives the same value."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

from kafkaframes.protocol.messages import Message
from kafkaframes.protocol.messages.plan import FieldPlan, StructPlan
from kafkaframes.protocol.spec import catalog

INTEGER_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
TEXTS = ("", "a", "topic-1", "Zürich ☃", "𝄞 clef", "y" * 126, "y" * 127, "z" * 300)


def list_message_versions() -> list[tuple[str, int]]:
    """Return every (message, version) of the catalog."""
    return [(name, version) for name in catalog.list_names() for version in catalog.load_spec(name).valid_versions]


def make_value(cls: type[Message], version: int, seed: int, *, unknown_tags: bool = False, plain: bool = False) -> Any:
    """Return a value of ``cls`` that version ``version`` can write.

    ``plain`` omits values that other libraries do not accept: error codes, null in optional fields, long texts.
    """
    codec = cls.codec(version)
    return _ValueMaker(codec.classes, random.Random(f"{cls.__name__}{version}{seed}"), unknown_tags, plain).struct(
        codec.plan.root
    )


class _ValueMaker:
    def __init__(self, classes: dict[str, Any], rng: random.Random, unknown_tags: bool, plain: bool) -> None:
        self.classes, self.rng, self.with_tags, self.plain = classes, rng, unknown_tags, plain

    def struct(self, plan: StructPlan) -> Any:
        fields = {field.attribute: self.field(field) for field in plan.fields}
        fields |= {field.attribute: self.field(field) for field in plan.tagged_fields if self.rng.random() < 0.6}
        if self.with_tags and plan.flexible and self.rng.random() < 0.7:
            tags = sorted(self.rng.sample(range(100, 100_000), self.rng.randint(1, 3)))
            fields["unknown_tags"] = [(tag, self.rng.randbytes(self.rng.randint(0, 200))) for tag in tags]
        return self.classes[plan.name](**fields)

    def field(self, field: FieldPlan) -> Any:
        if field.nullable and self.rng.random() < 0.2:
            return None
        if field.array:
            most = 2 if field.type == "struct" else self.rng.choice((3, 3, 3, 130))
            return [self.one(field) for _ in range(self.rng.randint(0, most))]
        return self.one(field)

    def one(self, field: FieldPlan) -> Any:
        rng = self.rng
        if field.struct is not None:
            return self.struct(field.struct)
        if field.type in INTEGER_RANGES:
            low, high = INTEGER_RANGES[field.type]
            if self.plain:
                return 0 if field.name.endswith("ErrorCode") else rng.randint(0, 100)
            return rng.choice((0, 1, low, high, rng.randint(low, high), rng.randint(0, min(high, 100))))
        makers = {
            "bool": lambda: rng.random() < 0.5,
            "float64": lambda: rng.choice((0.0, 1.5, -2.25e300, float("inf"), rng.random())),
            "uuid": lambda: UUID(int=rng.choice((0, 1, rng.getrandbits(128)))),
            "string": lambda: rng.choice(TEXTS[1:3] if self.plain else TEXTS),
            "bytes": lambda: rng.randbytes(rng.choice((0, 1, 20, 127, 300))),
            "records": lambda: b"" if self.plain else rng.randbytes(rng.choice((0, 1, 20, 127, 300))),
        }
        return makers[field.type]()
