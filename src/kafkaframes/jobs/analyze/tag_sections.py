"""What the tag sections of given messages take, and what they would take with other headers of tagged fields.

Messages as columns in, bytes out. Three headers before the value of a tagged field, in bytes:

* adopted: the tag and the length of the value, an unsigned varint each (KIP-482).
* interleaved: one unsigned varlong of both (the KIP's earlier draft, ``wire/tag_header.py``).
* typed: the tag and a type, as the KIP rejects it; the value says itself where it ends. The KIP gives no layout: here a
  type is one byte, which has room for every type of the protocol and an array of each. A reader who does not know the
  type cannot skip the field, which is why it was rejected; that cost is not one of bytes.

Exact: the value of each tagged field is encoded again, and a section within a tagged field shortens the length that
stands before it. A message may be a body, or a frame: header and body (``messages.framed``), each with its sections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from kafkaframes.errors import EncodeError
from kafkaframes.protocol.messages.columns import encode_columns
from kafkaframes.protocol.messages.plan import FieldPlan, MessagePlan, StructPlan
from kafkaframes.records.scan import Ints
from kafkaframes.wire.tag_header import TAG_HEADERS
from kafkaframes.wire.varint import size_of_unsigned_varint

_ADOPTED, _INTERLEAVED = (TAG_HEADERS[name].size for name in ("adopted", "interleaved"))
_TYPE_BYTES: Final = 1
_UNKNOWN: Final = "_unknown_tags"


@dataclass
class TagSections:
    """Tag sections of messages.

    Attributes:
        messages: how many flexible ones were measured.
        inflexible: messages of versions that have no tag sections.
        unmeasured: messages that cannot be read, or not be written again.
        sections, empty: tag sections, one for each struct; those that hold no field and so are one byte.
        tagged_fields: fields in them, those that no spec declares among them.
        adopted, interleaved, typed: bytes of the messages with each header.
    """

    messages: int = 0
    inflexible: int = 0
    unmeasured: int = 0
    sections: int = 0
    empty: int = 0
    tagged_fields: int = 0
    adopted: int = 0
    interleaved: int = 0
    typed: int = 0

    def add(self, other: TagSections) -> None:
        """Add what was counted elsewhere."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


def measure(body: pa.StructArray, plan: MessagePlan) -> TagSections:
    """Measure messages of one kind and version.

    Args:
        body: as ``decode_columns`` gives them, all of them whole.
        plan: of the message and version.
    """
    if not plan.flexible:
        return TagSections(inflexible=len(body))
    found = TagSections(messages=len(body))
    try:
        found.adopted = int(_sizes(plan, body).sum())
        interleaved, typed = _saved(body, plan.root, found).sum(axis=1).tolist()
    except EncodeError:
        return TagSections(unmeasured=len(body))
    found.interleaved, found.typed = found.adopted - interleaved, found.adopted - typed
    return found


def _saved(array: pa.StructArray, plan: StructPlan, found: TagSections) -> Ints:
    """Return what the interleaved and the typed header save in each of some structs; none of these is null."""
    saved = np.zeros((2, len(array)), np.int64)
    for field in plan.fields:
        saved += _inside(array.field(field.json_name), field, found)
    if not plan.flexible or not len(array):
        return saved
    holds = np.zeros(len(array), np.int64)
    for field in plan.tagged:
        child = array.field(field.json_name)
        written = np.flatnonzero(_sizes(_alone(field, tagged=True), _struct_of(field, child)) > 1)
        if len(written):
            child = child.take(pa.array(written))
            lengths = _sizes(_alone(field, tagged=False), _struct_of(field, child))
            tags = np.full(len(written), field.tag, np.int64)
            saved[:, written] += _headers_save(tags, lengths, _inside(child, field, found))
            holds[written] += 1
    saved += _unknown_save(array, holds)
    found.sections += len(array)
    found.empty += int((holds == 0).sum())
    found.tagged_fields += int(holds.sum())
    return saved


def _inside(child: pa.Array, field: FieldPlan, found: TagSections) -> Ints:
    """Return what is saved in the structs of a field, by the struct that holds it."""
    if field.struct is None:
        return np.zeros((2, len(child)), np.int64)
    if field.array:
        counts = child.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        owners, inner = np.repeat(np.arange(len(child)), counts), child.flatten()
    else:
        owners = np.flatnonzero(child.is_valid().to_numpy(zero_copy_only=False))
        inner = child.take(pa.array(owners))
    return _summed(_saved(inner, field.struct, found), owners, len(child))


def _unknown_save(array: pa.StructArray, holds: Ints) -> Ints:
    """Return what is saved at the fields that no spec declares, and count them."""
    saved = np.zeros((2, len(array)), np.int64)
    if array.type.get_field_index(_UNKNOWN) < 0:
        return saved
    lists = array.field(_UNKNOWN)
    counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    if counts.any():
        owners, inner = np.repeat(np.arange(len(array)), counts), lists.flatten()
        tags = inner.field(0).to_numpy(zero_copy_only=False).astype(np.int64)
        lengths = np.array([len(data) for data in inner.field(1).to_pylist()], np.int64)
        saved = _summed(_headers_save(tags, lengths, np.zeros((2, len(tags)), np.int64)), owners, len(array))
        holds += counts
    return saved


def _summed(saved: Ints, owners: Ints, count: int) -> Ints:
    """Return what is saved in parts as sums by their owners."""
    sums = np.zeros((2, count), np.int64)
    for row, part in zip(sums, saved, strict=True):
        np.add.at(row, owners, part)
    return sums


def _headers_save(tags: Ints, lengths: Ints, inside: Ints) -> Ints:
    """Return what the headers of some fields save, with what is saved within their values."""
    adopted = _each(_ADOPTED, tags, lengths)
    interleaved = _each(_INTERLEAVED, tags, lengths - inside[0])
    typed = _each(lambda tag, _: size_of_unsigned_varint(tag) + _TYPE_BYTES, tags, lengths)
    return inside + np.stack([adopted - interleaved, adopted - typed])


def _each(size: Callable[[int, int], int], tags: Ints, lengths: Ints) -> Ints:
    """Return the size of each header; one that comes often is asked for once."""
    pairs, which = np.unique(np.stack([tags, lengths], axis=1), axis=0, return_inverse=True)
    return np.array([size(tag, length) for tag, length in pairs.tolist()], np.int64)[which.ravel()]


def _struct_of(field: FieldPlan, child: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays([child], [field.json_name])


def _sizes(plan: MessagePlan, array: pa.StructArray) -> Ints:
    """Return how many bytes each row takes."""
    encoded = encode_columns(plan, array)
    ends = np.frombuffer(encoded.buffers()[1], np.int32, len(encoded) + 1, encoded.offset * 4).astype(np.int64)
    return ends[1:] - ends[:-1]


@lru_cache(maxsize=1024)
def _alone(field: FieldPlan, *, tagged: bool) -> MessagePlan:
    """Return the plan of a message that has one field alone: as its only tag, or in its place without any."""
    here, tags = ((), (field,)) if tagged else ((replace(field, tag=None),), ())
    root = StructPlan(
        name=field.name, flexible=tagged, fields=here, tagged=tags, refused_tags=(), absent=(), min_size=int(tagged)
    )
    below = _structs(field.struct)
    return MessagePlan(field.name, "data", None, 0, tagged, root, (*below, root))


def _structs(plan: StructPlan | None) -> tuple[StructPlan, ...]:
    """Return a struct and those in it, children first."""
    if plan is None:
        return ()
    below = [one for field in (*plan.fields, *plan.tagged) for one in _structs(field.struct)]
    return tuple({id(one): one for one in (*below, plan)}.values())
