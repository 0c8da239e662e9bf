"""Compute the sizes of messages from their columns, for several schemes of tagged fields, and fit columns to a plan.

These schemes of the header before a tagged field's value are compared:

* adopted: the tag and the value's length, an unsigned varint each (KIP-482).
* interleaved: one unsigned varlong of both (an earlier draft of the KIP, ``wire/varint.py``).
* typed: the tag and a type, from which the end of the value follows. The KIP rejects this scheme, and does not specify
  a layout. In this model a type is one byte, which has space for all types of the protocol and for arrays of them.
* escape: as adopted, but an empty section has no bytes. The KIP rejects this scheme, and does not specify a layout. In
  this model, an escape byte before the struct announces a tag section, which therefore takes one more byte. A struct
  that begins with the escape byte would have to double that byte. The model neglects these structs: they are one in 256
  if first bytes are random.
* all tagged: no field is mandatory, and each field has the header of the adopted scheme. Strings and bytes have no
  length prefix, because the header has their length. Fields are numbered in order, and tagged fields follow. Formerly
  mandatory fields are all written, because the KIP refers to fields that are always used. Null has the size of an empty
  text.

Sizes are exact: values of tagged fields are encoded again, and a smaller section inside a tagged field reduces the
length before it. A message is a body, or a frame of header and body (``messages.framed``). Header and body have their
own tag sections.

For proposals that move fields into tag sections, the moved fields, the set ones and the savings are counted too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.protocol.messages._program import UNKNOWN_TAGS_COLUMN
from kafkaframes.protocol.messages.columns import encode_columns
from kafkaframes.protocol.messages.plan import FieldPlan, MessagePlan, StructPlan
from kafkaframes.records.scan import Ints
from kafkaframes.wire.primitives import SIZE_BY_FIXED_TYPE
from kafkaframes.wire.varint import TAG_HEADERS, size_of_unsigned_varint

HeaderSize: TypeAlias = Callable[[int, int], int]  # size of a header, from the tag and the length of its value
MakeColumn: TypeAlias = Callable[
    [pa.StructArray, FieldPlan], pa.Array
]  # creates the column of a new field, from the structs that contain the field
ADOPTED, INTERLEAVED, ESCAPE, ALL_TAGGED = "adopted", "interleaved", "escape", "all tagged"
HEADER_SIZE_BY_SCHEME: Final[Mapping[str, HeaderSize]] = {
    **{name: header.size for name, header in TAG_HEADERS.items()},
    "typed": lambda tag, _: size_of_unsigned_varint(tag) + 1,
}


def compute_sizes(plan: MessagePlan, array: pa.StructArray) -> Ints:
    """Return the size of each message in bytes. ``array`` has a row per message, as ``decode_columns`` returns them.

    Raises:
        EncodeError: a message cannot be encoded with this plan. ``rows`` has the numbers of these messages.
    """
    encoded_rows = encode_columns(plan, array)
    ends = np.frombuffer(encoded_rows.buffers()[1], np.int32, len(encoded_rows) + 1, encoded_rows.offset * 4).astype(
        np.int64
    )
    return ends[1:] - ends[:-1]


def count_saved_bytes(
    scheme: str, plan: MessagePlan, array: pa.StructArray, counts: Counter[str] | None = None
) -> Ints:
    """Return how many bytes another scheme for tagged fields saves in each message, compared to the adopted scheme.

    Args:
        scheme: scheme of tagged fields: a name in ``HEADER_SIZE_BY_SCHEME``, or ``escape`` or ``all tagged``.
        plan, array: the messages, as in :func:`compute_sizes`.
        counts: counter to which the numbers of tag sections, of empty sections and of the fields in them are added.
    """
    return _SavingsCalculator(scheme, Counter() if counts is None else counts).compute_savings(array, plan.root)


class _SavingsCalculator:
    """Calculates the bytes that a scheme for tagged fields saves, compared to the adopted scheme."""

    def __init__(self, scheme: str, counts: Counter[str]) -> None:
        self.scheme = scheme
        self.header = HEADER_SIZE_BY_SCHEME.get(scheme, HEADER_SIZE_BY_SCHEME[ADOPTED])
        self.counts = counts

    def compute_savings(self, array: pa.StructArray, plan: StructPlan) -> Ints:
        """Return the bytes saved in each struct. Structs must not be null."""
        saved_bytes = np.zeros(len(array), np.int64)
        if not len(array):
            return saved_bytes
        mandatory = plan.fields if self.scheme == ALL_TAGGED and plan.flexible else ()
        for tag, field in enumerate(plan.fields):
            child = array.field(field.json_name)
            saved_in_field = self.compute_nested_savings(child, field)
            if mandatory:
                lengths = compute_single_field_sizes(field, child, is_tagged=False)
                saved_in_field += self.compute_prefix_savings(child, field, lengths)
                saved_bytes -= _compute_header_sizes(self.header, np.full(len(child), tag), lengths - saved_in_field)
            saved_bytes += saved_in_field
        if not plan.flexible:
            return saved_bytes
        fields = np.zeros(len(array), np.int64)
        for field in plan.tagged_fields:
            child = array.field(field.json_name)
            written_rows = np.flatnonzero(compute_single_field_sizes(field, child, is_tagged=True) > 1)
            if len(written_rows):
                child = child.take(pa.array(written_rows))
                lengths = compute_single_field_sizes(field, child, is_tagged=False)
                tags = np.full(len(written_rows), field.tag, np.int64)
                saved_in_field = self.compute_nested_savings(child, field) + self.compute_prefix_savings(
                    child, field, lengths
                )
                saved_bytes[written_rows] += self.compute_header_savings(
                    tags, lengths, saved_in_field, first=len(mandatory)
                )
                fields[written_rows] += 1
        saved_bytes += self.compute_unknown_field_savings(array, fields, first=len(mandatory))
        if self.scheme == ESCAPE:
            saved_bytes += np.where(fields == 0, 1, -1)
        if mandatory:
            saved_bytes += _compute_header_sizes(_compute_count_sizes, fields, fields) - _compute_header_sizes(
                _compute_count_sizes, fields + len(mandatory), fields
            )
        self.counts.update(
            {"sections": len(array), "empty sections": int((fields == 0).sum()), "tagged fields": int(fields.sum())}
        )
        return saved_bytes

    def compute_nested_savings(self, child: pa.Array, field: FieldPlan) -> Ints:
        """Return the bytes saved in the nested structs of a field, summed by parent struct."""
        if field.struct is None:
            return np.zeros(len(child), np.int64)
        inner, owners = flatten_structs(child, field)
        return _sum_by_owner(self.compute_savings(inner, field.struct), owners, len(child))

    def compute_prefix_savings(self, child: pa.Array, field: FieldPlan, lengths: Ints) -> Ints:
        """Return the savings from omitting length prefixes of strings and bytes, if the field's header has the
        length."""
        if self.scheme != ALL_TAGGED or field.array or field.type not in ("string", "bytes", "records"):
            return np.zeros(len(child), np.int64)
        texts: Ints = pc.binary_length(child).fill_null(0).to_numpy(zero_copy_only=False)
        return lengths - texts

    def compute_unknown_field_savings(self, array: pa.StructArray, fields: Ints, *, first: int) -> Ints:
        """Return the savings in fields that are not in the spec, and count them."""
        if array.type.get_field_index(UNKNOWN_TAGS_COLUMN) < 0:
            return np.zeros(len(array), np.int64)
        lists = array.field(UNKNOWN_TAGS_COLUMN)
        counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        if not counts.any():
            return np.zeros(len(array), np.int64)
        inner = lists.flatten()
        tags = inner.field(0).to_numpy(zero_copy_only=False).astype(np.int64)
        lengths = np.array([len(data) for data in inner.field(1).to_pylist()], np.int64)
        fields += counts
        saved_bytes = self.compute_header_savings(tags, lengths, np.zeros(len(tags), np.int64), first=first)
        return _sum_by_owner(saved_bytes, np.repeat(np.arange(len(array)), counts), len(array))

    def compute_header_savings(self, tags: Ints, lengths: Ints, saved_bytes: Ints, *, first: int) -> Ints:
        """Return the savings in the headers of tagged fields, plus the savings in their values (``saved_bytes``).

        Tags begin at ``first``.
        """
        new_sizes = _compute_header_sizes(self.header, tags + first, lengths - saved_bytes)
        return saved_bytes + _compute_header_sizes(HEADER_SIZE_BY_SCHEME[ADOPTED], tags, lengths) - new_sizes


def flatten_structs(child: pa.Array, field: FieldPlan) -> tuple[pa.StructArray, Ints]:
    """Return the structs in a field's column, and the row of each struct's parent. Null values have no structs."""
    if field.array:
        counts = child.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        return child.flatten(), np.repeat(np.arange(len(child)), counts)
    if not child.null_count:
        return child, np.arange(len(child))
    owners = np.flatnonzero(child.is_valid().to_numpy(zero_copy_only=False))
    return child.take(pa.array(owners)), owners


def _sum_by_owner(values: Ints, owners: Ints, count: int) -> Ints:
    """Return the sum of the values for each owner row from 0 to ``count - 1``; 0 for a row without values."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, owners, values)
    return sums


def _compute_count_sizes(count: int, _: int) -> int:
    """Return the size of a tag section's field count, in bytes."""
    return size_of_unsigned_varint(count)


def _compute_header_sizes(size: HeaderSize, tags: Ints, lengths: Ints) -> Ints:
    """Return the size of each header. Frequent headers are computed once."""
    pairs, pair_numbers = np.unique(np.stack([tags, lengths], axis=1), axis=0, return_inverse=True)
    return np.array([size(tag, length) for tag, length in pairs.tolist()], np.int64)[pair_numbers.ravel()]


def compute_single_field_sizes(field: FieldPlan, child: pa.Array, *, is_tagged: bool) -> Ints:
    """Return the size of each value as a mandatory field, or as the only tagged field.

    A tagged default value is not written, so its size is that of the empty tag section: 1.
    """
    if not is_tagged and not field.array and field.type in SIZE_BY_FIXED_TYPE:
        return np.full(len(child), SIZE_BY_FIXED_TYPE[field.type], np.int64)
    return compute_sizes(
        _plan_single_field(field, is_tagged=is_tagged), pa.StructArray.from_arrays([child], [field.json_name])
    )


@lru_cache(maxsize=1024)
def compute_default_size(field: FieldPlan) -> int:
    """Return the size of a field's default value in bytes, if the field is mandatory."""
    return int(compute_sizes(_plan_single_field(field, is_tagged=False), pa.array([{}], pa.struct([])))[0])


@lru_cache(maxsize=1024)
def _plan_single_field(field: FieldPlan, *, is_tagged: bool) -> MessagePlan:
    """Return the plan of a message that has only this field."""
    mandatory, tags = ((), (replace(field, tag=field.tag or 0),)) if is_tagged else ((replace(field, tag=None),), ())
    root = StructPlan(
        name=field.name,
        flexible=is_tagged,
        fields=mandatory,
        tagged_fields=tags,
        refused_tags=(),
        absent=(),
        min_size=is_tagged,
    )
    return MessagePlan(field.name, "data", None, 0, is_tagged, root, (*_list_structs(field.struct), root))


def _list_structs(plan: StructPlan | None) -> tuple[StructPlan, ...]:
    """Return a struct and its nested structs, children first."""
    if plan is None:
        return ()
    nested_structs = [struct for field in (*plan.fields, *plan.tagged_fields) for struct in _list_structs(field.struct)]
    return tuple({id(struct): struct for struct in (*nested_structs, plan)}.values())


# ---- another plan ---------------------------------------------------------------------------------------------------


def map_fields_by_column(plan: StructPlan) -> dict[str, FieldPlan]:
    """Return a struct's mandatory and tagged fields by column name."""
    return {field.json_name: field for field in (*plan.fields, *plan.tagged_fields)}


def fit_columns(
    array: pa.StructArray, plan: StructPlan, values: Mapping[str, MakeColumn], path: str = ""
) -> pa.StructArray:
    """Return columns without the fields that ``plan`` lacks, and with values for its new fields.

    Args:
        array: the messages, or the structs at ``path``.
        values: functions that make the column of a new field, by path (``topics.owner``). Other new fields are omitted,
            so they have their default.
    """
    fields, columns = map_fields_by_column(plan), {}
    for index, name in enumerate(column.name for column in array.type):
        if name in fields:
            columns[name] = _fit_field(array.field(index), fields[name], values, f"{path}{name}")
        elif name == UNKNOWN_TAGS_COLUMN:
            columns[name] = array.field(index)
    for name in fields.keys() - columns.keys():
        if f"{path}{name}" in values:
            columns[name] = values[f"{path}{name}"](array, fields[name])
    mask = array.is_null() if array.null_count else None
    if not columns:
        return pa.array([{}] * len(array), pa.struct([])) if mask is None else array
    return pa.StructArray.from_arrays(list(columns.values()), list(columns), mask=mask)


def _fit_field(child: pa.Array, field: FieldPlan, values: Mapping[str, MakeColumn], path: str) -> pa.Array:
    """Return a field's column with the nested columns of the new layout."""
    if field.struct is None or pa.types.is_struct(child.type) == field.array:
        return child
    if not field.array:
        return fit_columns(child, field.struct, values, f"{path}.")
    counts = child.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    inner = fit_columns(child.flatten(), field.struct, values, f"{path}.")
    missing = np.append(child.is_null().to_numpy(zero_copy_only=False), False)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32(), mask=missing), inner)


#: Names of counts: structs with a moved field, structs whose first moved field has a value, and the former size of
#: moved fields without a value.
LEAD, LEAD_SET, GAINED = "moved", "moved and set", "bytes of unset"
_EMPTY_SECTION_BYTES: Final = 1  # size of a tagged section without fields


def _find_moved_fields(
    array: pa.StructArray, before: StructPlan, after: StructPlan, rows: Ints
) -> Iterator[tuple[FieldPlan, FieldPlan, bool, pa.Array, Ints]]:
    """Yield the fields that are mandatory before and tagged after, struct by struct.

    Yields:
        The field before, the field after, whether it is the first of its struct, its values, and their message rows.
    """
    tags = {field.json_name: field for field in after.tagged_fields}
    fields_after, is_first = map_fields_by_column(after), True
    for field in (*before.fields, *before.tagged_fields):
        name = field.json_name
        if field.tag is None and name in tags:
            yield field, tags[name], is_first, array.field(name), rows
            is_first = False
        if field.struct is not None and name in fields_after and (struct := fields_after[name].struct) is not None:
            inner, owners = flatten_structs(array.field(name), field)
            yield from _find_moved_fields(inner, field.struct, struct, rows[owners])


def iterate_fields(
    array: pa.StructArray, plan: StructPlan, rows: Ints | None = None, path: str = ""
) -> Iterator[tuple[str, FieldPlan, pa.Array, Ints]]:
    """Yield (path, field, values, message row of each value) for each field of messages and their nested structs."""
    rows = np.arange(len(array)) if rows is None else rows
    for field in (*plan.fields, *plan.tagged_fields):
        values, field_path = array.field(field.json_name), f"{path}{field.name}"
        yield field_path, field, values, rows
        if field.struct is not None:
            inner, owners = flatten_structs(values, field)
            yield from iterate_fields(inner, field.struct, rows[owners], f"{field_path}.")


NULL_LENGTH: Final = -1  # length of a null array, string or byte field
_LENGTH_KIND_BY_TYPE: Final = {"string": "strings", "bytes": "bytes", "records": "records"}


def iterate_lengths(array: pa.StructArray, plan: StructPlan) -> Iterator[tuple[str, Ints, Ints]]:
    """Yield the lengths in messages: elements of arrays, bytes of strings, byte fields and record sets.

    A tagged field at its default is not on the wire, so it has no length here. Strings within an array of strings are
    elements, and their own lengths follow.

    Yields:
        Kind (``arrays``, ``strings``, ``bytes`` or ``records``), the lengths (``NULL_LENGTH`` for null), and the row of
        the message that each length is in.
    """
    for _, field, values, rows in iterate_fields(array, plan):
        if field.tag is not None:
            is_sent = mask_set_values(field, values)
            values, rows = values.filter(pa.array(is_sent)), rows[is_sent]
        if field.array:
            yield "arrays", _fill_null_lengths(values.value_lengths()), rows
            counts = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
            values, rows = values.flatten(), np.repeat(rows, counts)
        if field.struct is None and field.type in _LENGTH_KIND_BY_TYPE:
            yield _LENGTH_KIND_BY_TYPE[field.type], _fill_null_lengths(pc.binary_length(values)), rows


def _fill_null_lengths(lengths: pa.Array) -> Ints:
    """Return lengths as numbers, with ``NULL_LENGTH`` for null."""
    return np.asarray(lengths.fill_null(NULL_LENGTH).to_numpy(zero_copy_only=False), np.int64)


def mask_set_values(field: FieldPlan, values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return a flag for each value of a field: whether it differs from the default."""
    if field.default is None:
        return np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
    if isinstance(field.default, int):
        return np.asarray(values.to_numpy(zero_copy_only=False) != field.default)
    return compute_single_field_sizes(field, values, is_tagged=True) > _EMPTY_SECTION_BYTES


def count_moved_fields(
    array: pa.StructArray, before: StructPlan, after: StructPlan, add: Callable[[str, Ints, Ints], None]
) -> None:
    """Count the fields that move into tag sections.

    Args:
        add: function that receives the name of a count, the rows of messages, and the number to add for each row.
    """
    for field, field_after, is_first, values, rows in _find_moved_fields(array, before, after, np.arange(len(array))):
        is_written = mask_set_values(field_after, values)
        one_per_row = np.ones(len(rows), np.int64)
        word = "array" if field.array else field.type
        add(word, rows, one_per_row)
        add(f"{word} set", rows[is_written], one_per_row[is_written])
        if is_first:
            add(LEAD, rows, one_per_row)
            add(LEAD_SET, rows[is_written], one_per_row[is_written])
        unset = rows[~is_written]
        add(GAINED, unset, np.full(len(unset), compute_default_size(field)))
