"""What flexible versions save: the same values laid out both ways, as KIP-482 has them and as it was before.

Messages as columns in, bytes out; exact, by encoding them again under two plans that differ in nothing else: compact
lengths and a tag section behind each struct, or lengths of two and four bytes and every field in its place. A field
that is tagged in a flexible version stands in the inflexible layout always, which is what KIP-482 set out to end: its
example, the authorized operations of Metadata that nobody asked for, is counted too. Sizes are of bodies, in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import EncodeError
from kafkaframes.protocol.messages.columns import encode_columns
from kafkaframes.protocol.messages.plan import FieldPlan, MessagePlan, StructPlan

_WITH_LENGTH = frozenset({"string", "bytes", "records"})
_OPERATIONS = "AuthorizedOperations"
_OPERATIONS_BYTES = 4


@dataclass
class Layouts:
    """Bytes of messages both ways.

    Attributes:
        messages: how many.
        inflexible, flexible: their bytes in each layout; one of the two is what was sent.
        blank_operations: authorized operations that were not asked for, as (fields) of four bytes each in versions
            where they are mandatory.
        unmeasured: messages that cannot be laid out without tags: they have some that no spec declares.
    """

    messages: int = 0
    inflexible: int = 0
    flexible: int = 0
    blank_operations: int = 0
    unmeasured: int = 0

    def add(self, other: Layouts) -> None:
        """Add what was counted elsewhere."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    @property
    def saved(self) -> int:
        """Bytes that the flexible layout saves; negative where its tag sections cost more."""
        return self.inflexible - self.flexible

    @property
    def blank_bytes(self) -> int:
        """Bytes of operations that nobody asked for."""
        return self.blank_operations * _OPERATIONS_BYTES


def measure(body: pa.StructArray, plan: MessagePlan) -> Layouts:
    """Lay messages of one kind and version out both ways.

    Args:
        body: as ``decode_columns`` gives them, all of them whole.
        plan: of the message and version.
    """
    blank = sum(_blank(body, plan.root))
    try:
        inflexible, flexible = (_size(laid_out(plan, flexible=one), body) for one in (False, True))
    except EncodeError:
        return Layouts(len(body), blank_operations=blank, unmeasured=len(body))
    return Layouts(len(body), inflexible, flexible, blank)


def _size(plan: MessagePlan, body: pa.StructArray) -> int:
    encoded = encode_columns(plan, body)
    ends = np.frombuffer(encoded.buffers()[1], np.int32, len(encoded) + 1, encoded.offset * 4)
    return int(ends[-1] - ends[0])


@lru_cache(maxsize=1024)
def laid_out(plan: MessagePlan, *, flexible: bool) -> MessagePlan:
    """Return the plan of the same fields in flexible or in inflexible layout."""
    done: dict[int, StructPlan] = {}
    root = _struct(plan.root, flexible, done)
    return replace(plan, flexible=flexible, root=root, structs=tuple(done.values()))


def _struct(plan: StructPlan, flexible: bool, done: dict[int, StructPlan]) -> StructPlan:
    if id(plan) not in done:
        here = [_field(one, flexible, done) for one in plan.fields]
        tagged = [_field(one, flexible, done) for one in plan.tagged]
        if flexible:
            made = replace(plan, flexible=True, fields=tuple(here), tagged=tuple(tagged))
        else:
            mandatory = (*here, *(replace(one, tag=None) for one in tagged))
            made = replace(plan, flexible=False, fields=mandatory, tagged=(), refused_tags=())
        something = any(one.struct is None or one.array or one.nullable or one.struct.min_size for one in made.fields)
        done[id(plan)] = replace(made, min_size=int(flexible or something))  # a bound is enough: one byte or none
    return done[id(plan)]


def _field(one: FieldPlan, flexible: bool, done: dict[int, StructPlan]) -> FieldPlan:
    has_length = one.array or one.type in _WITH_LENGTH
    struct = None if one.struct is None else _struct(one.struct, flexible, done)
    return replace(one, compact=flexible and has_length, struct=struct)


def _blank(array: pa.StructArray, plan: StructPlan) -> Iterator[int]:
    """Yield how many mandatory authorized operations are at their default, struct by struct."""
    for one in plan.fields:
        if one.name.endswith(_OPERATIONS) and one.type == "int32":
            yield int(pc.sum(pc.equal(array.field(one.json_name), one.default), min_count=0).as_py())
        elif one.struct is not None:
            child = array.field(one.json_name)
            yield from _blank(child.flatten() if one.array else child, one.struct)
