"""The text form in which brokers before 2.7 print messages: ``{topics=[{topic=orders,partitions=[0]}],acks=-1}``.

Texts are not quoted, so one with a comma or a bracket in it cannot be told apart; such a value is kept as it can be.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kafkaframes.protocol.messages.plan import FieldPlan, StructPlan

_NAME: Final = re.compile(r"([A-Za-z_]\w*)=")
_INTEGER: Final = re.compile(r"-?\d+")
_SIZE: Final = re.compile(r"(?:size|sizeInBytes|buffer)=(\d+)|lim=(\d+)|records\((\d+)")
MOST_DEPTH: Final = 64


def parse_struct(text: str) -> dict[str, Any]:
    """Return a struct's fields: texts, lists and structs; numbers are still texts.

    >>> parse_struct("{api_key=3,topics=[orders,{a=1}],client_id=x y}")
    {'api_key': '3', 'topics': ['orders', {'a': '1'}], 'client_id': 'x y'}

    Raises:
        ValueError: it is no such text.
    """
    value, _ = _value(text, 0, 0)
    if not isinstance(value, dict):
        raise ValueError("no struct in braces")
    return value


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if depth > MOST_DEPTH:
        raise ValueError("structs within structs, too many")
    if text.startswith("{", at):
        return _struct(text, at + 1, depth)
    if text.startswith("[", at):
        return _list(text, at + 1, depth)
    return _plain(text, at)


def _struct(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    result: dict[str, Any] = {}
    while at < len(text) and text[at] != "}":
        match = _NAME.match(text, at)
        if match is None:
            end = min((index for index in (text.find(",", at), text.find("}", at)) if index >= 0), default=len(text))
            at = end + (text[end : end + 1] == ",")
            continue
        result[match.group(1)], at = _value(text, match.end(), depth + 1)
        if text.startswith(",", at):
            at += 1
    return result, at + 1


def _list(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    result = []
    while at < len(text) and text[at] != "]":
        value, at = _value(text, at, depth + 1)
        result.append(value)
        if text.startswith(",", at):
            at += 1
    return result, at + 1


def _plain(text: str, at: int) -> tuple[str, int]:
    """Take a value up to the comma or bracket that ends it; brackets within it (java.nio.HeapByteBuffer[...]) pair."""
    start, depth = at, 0
    while at < len(text):
        char = text[at]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0:
                break
            depth -= 1
        elif char == "," and depth == 0:
            break
        at += 1
    return text[start:at], at


def typed(value: dict[str, Any], plan: StructPlan | None) -> dict[str, Any]:
    """Return the fields under their names in JSON, with the types of the plan; what it does not have is guessed."""
    fields = {} if plan is None else {field.json_name: field for field in (*plan.fields, *plan.tagged)}
    result: dict[str, Any] = {}
    for name, entry in value.items():
        if name == "_tagged_fields":
            continue
        json_name = _camel(name)
        field = fields.get(json_name)
        if (field is not None and field.type == "records") or name in ("record_set", "records"):
            result[f"{json_name}SizeInBytes"] = _size(entry)
        else:
            result[json_name] = _typed_value(entry, field)
    return result


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _size(text: Any) -> int | None:
    match = _SIZE.search(str(text))
    return next((int(one) for one in match.groups() if one), None) if match else None


def _typed_value(value: Any, field: FieldPlan | None) -> Any:
    if isinstance(value, dict):
        return typed(value, None if field is None else field.struct)
    if isinstance(value, list):
        return [_typed_value(one, field) for one in value]
    if value == "null":
        return None
    kind = None if field is None else field.type
    if kind in ("string", "uuid", "bytes"):
        return value
    if kind == "bool" or value in ("true", "false"):
        return value == "true"
    return int(value) if _INTEGER.fullmatch(value) else value
