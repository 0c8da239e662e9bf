"""Conversion of messages to rows: the Python form (``as_py``) of Arrow structs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kafkaframes.protocol.messages.plan import FieldPlan, StructPlan


def to_row(value: Any, plan: StructPlan, *, top: bool = True, absent: bool = False) -> dict[str, Any]:
    """Return the row of a value at the version of ``plan``. ``absent`` includes fields of other versions."""
    row = {field.json_name: _field_to_plain(getattr(value, field.attribute), field, absent) for field in plan.fields}
    row |= {
        field.json_name: _field_to_plain(getattr(value, field.attribute), field, absent) for field in plan.tagged_fields
    }
    if plan.flexible or (absent and value._tags):
        row["_unknown_tags"] = [{"tag": tag, "data": data} for tag, data in value.unknown_tags]
    for one in plan.absent if absent else ():
        item = getattr(value, one.attribute)
        if item != type(value)._by_attribute[one.attribute].make_default():
            row[f"{one.name[:1].lower()}{one.name[1:]}"] = to_plain_value(item)
    return row | {"_error": None} if top and not absent else row


def to_plain_value(value: Any) -> Any:
    """Return a value of a field that the version lacks, of any type."""
    if isinstance(value, list):
        return [to_plain_value(one) for one in value]
    if isinstance(value, UUID):
        return value.bytes
    if hasattr(value, "_fields"):
        return {info.spec.json_name: to_plain_value(getattr(value, info.attribute)) for info in value._fields}
    return value


def _field_to_plain(value: Any, field: FieldPlan, absent: bool) -> Any:
    if isinstance(value, list):
        return [_element_to_plain(one, field, absent) for one in value]
    return _element_to_plain(value, field, absent)


def _element_to_plain(value: Any, field: FieldPlan, absent: bool) -> Any:
    if value is None:
        return None
    if field.struct is not None:
        return to_row(value, field.struct, top=False, absent=absent)
    return value.bytes if field.type == "uuid" else value
