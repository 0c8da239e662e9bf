"""Kafka's JSON form of messages, as its ``JsonConverter`` classes read and write it (kafka-dump-log, request log).

Names are in camel case, bytes are base64, UUIDs are base64url. Tagged fields that have their default are omitted, and
so are fields that the version lacks. Kafka's peculiarities apply:

* Records are written as an empty text (or as ``<name>SizeInBytes``). The option ``records="base64"`` is an extension
  that keeps the data of records.
* An int8 between 128 and 255 is read as that number minus 128, and 256 as -128. A whole number is not valid as a
  float64. A text is not valid as a number, except infinities and NaN: Kafka writes these as texts but cannot read them;
  this module can.
* Undeclared names are ignored. A field of another version is accepted here; the encoder rejects it.

Undeclared tags are an extension, because Kafka's converters lose them. A struct with undeclared tags ends with
``"_unknownTags": [{"tag": 17, "data": "<base64>"}]``. ``unknown_tags=False`` produces Kafka's own form.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from typing import Any, Final

from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.protocol.messages._reference import is_default
from kafkaframes.protocol.messages.codec import Codec
from kafkaframes.protocol.messages.plan import AbsentField, FieldPlan, StructPlan
from kafkaframes.protocol.messages.structs import FieldInfo, Struct
from kafkaframes.wire.primitives import INTEGER_RANGES, uuid_from_text, uuid_to_text

UNKNOWN_TAGS: Final = "_unknownTags"  # cannot be the name of a field, because field names begin with a letter
RECORDS_FORMS: Final = ("empty", "base64", "size")


def to_json(value: Struct, codec: Codec, *, records: str = "empty", unknown_tags: bool = True) -> dict[str, Any]:
    """Return a message's JSON form at the version of ``codec`` (:meth:`Message.to_json`)."""
    if records not in RECORDS_FORMS:
        raise OptionError(f"records is {records!r}; expected one of {', '.join(RECORDS_FORMS)}")
    return _JsonEncoder(codec, records, unknown_tags).encode_struct(codec.plan.root, value, ())


def from_json(cls: type[Struct], codec: Codec, value: Any) -> Any:
    """Return the message that a JSON form describes, at the version of ``codec`` (:meth:`Message.from_json`)."""
    return _JsonDecoder(codec).decode_struct(cls, codec.plan.root, value, ())


_NON_FINITE_NAMES: Final = (
    "NaN",
    "Infinity",
    "-Infinity",
)  # JSON numbers cannot represent these values; Kafka writes them as strings
_Path = tuple[str | int, ...]


class _JsonEncoder:
    """Converts values to JSON."""

    def __init__(self, codec: Codec, records: str, unknown_tags: bool) -> None:
        self.codec = codec
        self.records = records
        self.unknown_tags = unknown_tags

    def encode_struct(self, plan: StructPlan, value: Any, path: _Path) -> dict[str, Any]:
        for absent in plan.absent:
            self.check_absent(absent, getattr(value, absent.attribute), path)
        out: dict[str, Any] = {}
        tagged_fields = {field.name: field for field in plan.tagged_fields}
        plain_fields = {field.name: field for field in plan.fields}
        order = self.codec.classes[plan.name]._fields  # in declared order, tagged and untagged fields mixed
        for info in order:
            field = plain_fields.get(info.spec.name) or tagged_fields.get(info.spec.name)
            if field is None:
                continue
            item = getattr(value, field.attribute)
            if field.tag is None or not is_default(field, item, self.codec.classes):
                self.encode_field(field, item, out, (*path, field.name))
        if value._tags and self.unknown_tags:
            out[UNKNOWN_TAGS] = [_tag_to_json(tag, data, (*path, UNKNOWN_TAGS)) for tag, data in value._tags]
        return out

    def check_absent(self, field: AbsentField, value: Any, path: _Path) -> None:
        if not field.ignorable and not is_default(field, value, self.codec.classes):
            raise EncodeError(
                f"the value is not the default, but version {self.codec.plan.version} lacks the field",
                path=(*path, field.name),
            )

    def encode_field(self, field: FieldPlan, value: Any, out: dict[str, Any], path: _Path) -> None:
        if value is None and not field.nullable:
            raise EncodeError("null in a field that is not nullable", path=path)
        if field.type == "records" and self.records == "size":
            out[f"{field.json_name}SizeInBytes"] = len(value or b"")
        elif value is None:
            out[field.json_name] = None
        elif field.array:
            out[field.json_name] = [self.encode_value(field, item, (*path, index)) for index, item in enumerate(value)]
        else:
            out[field.json_name] = self.encode_value(field, value, path)

    def encode_value(self, field: FieldPlan, value: Any, path: _Path) -> Any:
        if field.struct is not None:
            return self.encode_struct(field.struct, value, path)
        if field.type == "records" and self.records == "empty":
            return ""
        if field.type in ("bytes", "records"):
            return base64.b64encode(value).decode("ascii")
        if field.type == "float64":
            return _float_to_json(value)
        return uuid_to_text(value) if field.type == "uuid" else value


class _JsonDecoder:
    """Converts JSON to values."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.version = codec.plan.version
        self.plans = {plan.name: plan for plan in codec.plan.structs}

    def decode_struct(self, cls: type[Struct], plan: StructPlan | None, value: Any, path: _Path) -> Any:
        if not isinstance(value, dict):
            raise EncodeError(f"expected an object, found {_describe_kind(value)}", path=path)
        if plan is None:
            raise EncodeError(f"version {self.version} has no {cls.__name__}", path=path)
        mandatory = {field.name: field for field in plan.fields}
        fields = {}
        for info in cls._fields:
            name = info.spec.json_name
            if name in value:
                fields[info.attribute] = self.decode_field(info, value[name], (*path, info.spec.name))
            elif info.spec.name in mandatory:
                raise EncodeError(
                    f"{name} is missing; version {self.version} requires it", path=(*path, info.spec.name)
                )
        if UNKNOWN_TAGS in value:
            fields["unknown_tags"] = _decode_tags(value[UNKNOWN_TAGS], (*path, UNKNOWN_TAGS))
        return cls(**fields)

    def decode_field(self, info: FieldInfo, value: Any, path: _Path) -> Any:
        spec = info.spec
        if value is None:
            if spec.nullable_versions.is_empty:
                raise EncodeError("null in a field that is not nullable", path=path)
            return None
        if not spec.type.is_array:
            return self.decode_value(info, value, path)
        if not isinstance(value, list):
            raise EncodeError(f"expected an array, found {_describe_kind(value)}", path=path)
        return [self.decode_value(info, item, (*path, index)) for index, item in enumerate(value)]

    def decode_value(self, info: FieldInfo, value: Any, path: _Path) -> Any:
        if info.struct is not None:
            return self.decode_struct(info.struct, self.plans.get(info.struct.__name__), value, path)
        try:
            return _PRIMITIVE_PARSERS[info.spec.type.name](value)
        except (ValueError, binascii.Error) as error:
            raise EncodeError(
                f"{_describe_kind(value)} is not a valid {info.spec.type.name}: {error}", path=path
            ) from None


def _float_to_json(value: Any) -> Any:
    if value != value:
        return "NaN"
    return "Infinity" if value == math.inf else "-Infinity" if value == -math.inf else value


def _tag_to_json(tag: int, data: bytes, path: _Path) -> dict[str, Any]:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise EncodeError(f"unknown tag {tag}: expected bytes, found {type(data).__name__}", path=path)
    return {"tag": tag, "data": base64.b64encode(data).decode("ascii")}


def _decode_tags(value: Any, path: _Path) -> list[tuple[int, bytes]]:
    """Return the unknown tags of a struct; the encoder validates their order and numbers."""
    if not isinstance(value, list):
        raise EncodeError(f"expected an array, found {_describe_kind(value)}", path=path)
    tags = []
    for index, element in enumerate(value):
        if not isinstance(element, dict) or element.keys() != {"tag", "data"}:
            raise EncodeError(
                f'expected {{"tag": ..., "data": ...}}, found {_describe_kind(element)}', path=(*path, index)
            )
        try:
            tags.append((_PRIMITIVE_PARSERS["int32"](element["tag"]), _PRIMITIVE_PARSERS["bytes"](element["data"])))
        except ValueError as error:
            raise EncodeError(f"expected a tag and base64 data: {error}", path=(*path, index)) from None
    return tags


def _describe_kind(value: Any) -> str:
    kinds = {dict: "an object", list: "an array", type(None): "null"}
    return kinds.get(type(value), repr(value)[:60])


def _make_number_parser(name: str) -> Callable[[Any], int]:
    low, high = INTEGER_RANGES[name]

    def parse_number(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError("expected a whole number")
        number = value
        if name == "int8" and high < value <= 256:  # as in Kafka's jsonNodeToByte, whose cast wraps 256 - 128
            number = value - 128 if value < 256 else low
        if not low <= number <= high:
            raise ValueError(f"expected a number from {low} to {high}")
        return number

    return parse_number


def _make_type_check(kind: type, description: str) -> Callable[[Any], Any]:
    def check_type(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError(f"expected {description}")
        return value

    return check_type


def _parse_float(value: Any) -> float:
    if value in _NON_FINITE_NAMES:
        return float(value)
    if not isinstance(value, float):
        raise ValueError("expected a number with a fraction")
    return value


_text = _make_type_check(str, "a text")
_PRIMITIVE_PARSERS: Final[dict[str, Callable[[Any], Any]]] = {
    **{name: _make_number_parser(name) for name in INTEGER_RANGES},
    "bool": _make_type_check(bool, "true or false"),
    "float64": _parse_float,
    "string": _text,
    "uuid": lambda value: uuid_from_text(_text(value)),
    "bytes": lambda value: base64.b64decode(_text(value), validate=True),
    "records": lambda value: base64.b64decode(_text(value), validate=True),
}
