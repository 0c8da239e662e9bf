"""Fields that a proposal moves into the tag section: how many there are, how many are set, what the others save."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkaframes.jobs.analyze.sizes import all_fields, alone_sizes, default_size, elements
from kafkaframes.protocol.messages.plan import FieldPlan, StructPlan
from kafkaframes.records.scan import Ints

#: The first moved field of each struct, and those that are set; what the moved fields that are not set took before.
LEAD, LEAD_SET, GAINED = "moved", "moved and set", "bytes of unset"
_EMPTY_SECTION: Final = 1


class Moved(NamedTuple):
    """The values of a field that is mandatory before and a tag after.

    Attributes:
        field: as it was; ``to`` as it is to be.
        is_lead: it is the first of its struct.
        values: its values; ``rows`` the message that each is of.
    """

    field: FieldPlan
    to: FieldPlan
    is_lead: bool
    values: pa.Array
    rows: Ints


def moved_fields(array: pa.StructArray, before: StructPlan, after: StructPlan) -> Iterator[Moved]:
    """Yield the fields of messages that are mandatory before and tagged after, struct by struct."""
    return _moved(array, before, after, np.arange(len(array)))


def _moved(array: pa.StructArray, before: StructPlan, after: StructPlan, rows: Ints) -> Iterator[Moved]:
    tags = {field.json_name: field for field in after.tagged}
    new, is_lead = all_fields(after), True
    for field in (*before.fields, *before.tagged):
        name = field.json_name
        if field.tag is None and name in tags:
            yield Moved(field, tags[name], is_lead, array.field(name), rows)
            is_lead = False
        if field.struct is not None and name in new and (struct := new[name].struct) is not None:
            inner, owners = elements(array.field(name), field)
            yield from _moved(inner, field.struct, struct, rows[owners])


def mandatory_fields(
    array: pa.StructArray, plan: StructPlan, chosen: Callable[[FieldPlan], bool], rows: Ints | None = None
) -> Iterator[tuple[FieldPlan, pa.Array, Ints]]:
    """Yield the mandatory fields that are chosen: their values, and the message that each value is of."""
    rows = np.arange(len(array)) if rows is None else rows
    for field in plan.fields:
        if chosen(field):
            yield field, array.field(field.json_name), rows
        elif field.struct is not None:
            inner, owners = elements(array.field(field.json_name), field)
            yield from mandatory_fields(inner, field.struct, chosen, rows[owners])


def is_set(field: FieldPlan, values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which values of a field are not its default."""
    if field.default is None:
        return np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
    if isinstance(field.default, int):
        return np.asarray(values.to_numpy(zero_copy_only=False) != field.default)
    return alone_sizes(field, values, tagged=True) > _EMPTY_SECTION


def count_moved(
    array: pa.StructArray, before: StructPlan, after: StructPlan, add: Callable[[str, Ints, Ints], None]
) -> None:
    """Count the moved fields: ``add`` takes a name, the messages and a number for each of them."""
    for field, to, is_lead, values, rows in moved_fields(array, before, after):
        is_written = is_set(to, values)
        ones = np.ones(len(rows), np.int64)
        word = "array" if field.array else field.type
        add(word, rows, ones)
        add(f"{word} set", rows[is_written], ones[is_written])
        if is_lead:
            add(LEAD, rows, ones)
            add(LEAD_SET, rows[is_written], ones[is_written])
        unset = rows[~is_written]
        add(GAINED, unset, np.full(len(unset), default_size(field)))
