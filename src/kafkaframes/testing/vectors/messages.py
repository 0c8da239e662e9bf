"""Vectors of messages: every message in every version, undamaged and damaged, with the expected result.

Each message has several cases of values: defaults, ordinary values, limits, nulls, and unknown tags.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from kafkaframes.errors import DecodeError, EncodeError
from kafkaframes.protocol.messages import Message, class_of
from kafkaframes.protocol.messages.headers import encode_request, encode_response
from kafkaframes.protocol.messages.plan import FieldPlan, StructPlan
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.model import MessageSpec
from kafkaframes.wire import varint

Row = dict[str, Any]
_CORRELATION_ID = 0x01020304
_CLIENT_ID = "client-1"
_INVALID_OR_OVERLONG_VARINTS: Final = (
    b"",
    b"\x80",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\x01",
    b"\x80" * 10 + b"\x01",
    b"\x80\x00",
    b"\xff\x80\x00",
)
_WriteVarint = Callable[[bytearray, int], None]
_ReadVarint = Callable[[bytes, int], tuple[int, int]]
_VARINT_KINDS: Final[dict[str, tuple[_WriteVarint, _ReadVarint, int, bool]]] = {
    "unsigned varint": (varint.write_unsigned_varint, varint.read_unsigned_varint, 32, False),
    "varint": (varint.write_varint, varint.read_varint, 32, True),
    "unsigned varlong": (varint.write_unsigned_varlong, varint.read_unsigned_varlong, 64, False),
    "varlong": (varint.write_varlong, varint.read_varlong, 64, True),
}
DEFAULTS, ORDINARY, LOWEST, HIGHEST, NULLS, TAGS = "defaults", "ordinary", "lowest", "highest", "nulls", "unknown tags"
CASE_NAMES: Final = (DEFAULTS, ORDINARY, LOWEST, HIGHEST, NULLS, TAGS)
_UNKNOWN_TAGS: Final = ((10_000, b""), (20_000, b"\x00\xff"), (2_000_000, bytes(range(130))))
_LONG_LIST_LENGTH: Final = 130  # number of elements with a compact count of two bytes
_LONG_TEXT_LENGTH: Final = 200
_MAX_LONG_LIST_DEPTH: Final = 2  # deeper structs have few elements, because values would grow exponentially
_BITS_BY_TYPE: Final[Mapping[str, int]] = MappingProxyType(
    {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
)
_VALUES_BY_TYPE: Final[Mapping[str, tuple[Any, Any, Any]]] = MappingProxyType(
    {  # ordinary, lowest, highest
        "bool": (True, False, True),
        "float64": (1.5, -1.7976931348623157e308, 1.7976931348623157e308),
        "uuid": (UUID(int=0x0123456789ABCDEF0123456789ABCDEF), UUID(int=1), UUID(int=2**128 - 1)),
        "string": ("topic-1", "", "Zürich ☃ 𝄞" * 20),
        "bytes": (b"\x01\x02\x03", b"", bytes(range(_LONG_TEXT_LENGTH))),
        "records": (b"", b"", b""),  # empty, because batches have their own vectors
    }
)
_VALUE_INDEX_BY_CASE: Final = {ORDINARY: 0, TAGS: 0, NULLS: 0, LOWEST: 1, HIGHEST: 2}


def list_catalog_specs() -> list[MessageSpec]:
    """Return the specs of all messages in the catalog."""
    return [catalog.load_spec(name) for name in catalog.list_names()]


def _iterate_versions(specs: Iterable[MessageSpec]) -> Iterator[tuple[MessageSpec, int]]:
    for spec in specs:
        for version in spec.valid_versions:
            yield spec, version


def generate_value_rows(specs: Iterable[MessageSpec]) -> Iterator[Row]:
    """Yield the JSON form and the bytes of each message, in each version and case."""
    for spec, version in _iterate_versions(specs):
        cls = class_of(spec)
        for case in CASE_NAMES:
            value = create_value(cls, version, case)
            if value is not None:
                row = _describe_case(spec, version, case)
                try:
                    yield row | {
                        "json": value.to_json(version, unknown_tags=False),
                        **_encode_tags(value),
                        **_encode_bytes(value, version),
                    }
                except EncodeError as error:  # a default value that this version cannot encode
                    yield row | {"error": str(error)}


def _describe_case(spec: MessageSpec, version: int, case: str) -> Row:
    """Return the fields of a row that identify the message, its version and the case."""
    kind = str(spec.type)
    key = {} if spec.api_key is None else {"api_key": spec.api_key}
    return {"message": spec.name, "type": kind, "version": version, **key, "case": case}


def _encode_tags(value: Message) -> Row:
    tags = [[tag, b64encode(data).decode()] for tag, data in value.unknown_tags]
    return {"unknown_tags": tags} if tags else {}


def _encode_bytes(value: Message, version: int) -> Row:
    data = value.encode(version)
    return {"bytes": data.hex(), "size": len(data)}


def generate_damaged_rows(specs: Iterable[MessageSpec]) -> Iterator[Row]:
    """Yield ordinary messages that are truncated, have an extra byte or a flipped bit, with the error or the result."""
    for spec, version in _iterate_versions(specs):
        cls = class_of(spec)
        value = create_value(cls, version, ORDINARY)
        assert value is not None
        data = value.encode(version)
        for damage, damaged_data in _damage_message(data):
            row = _describe_case(spec, version, damage) | {"bytes": damaged_data.hex()}
            try:
                result, end = cls.decode_prefix(damaged_data, version)
            except DecodeError as error:
                yield row | {"error": str(error)}
            else:
                yield row | {
                    "json": result.to_json(version, unknown_tags=False),
                    **_encode_tags(result),
                    "remaining": len(damaged_data) - end,
                }


def _damage_message(data: bytes) -> Iterator[tuple[str, bytes]]:
    if data:
        yield "the last byte is missing", data[:-1]
        yield "the second half is missing", data[: len(data) // 2]
        yield "the first byte is 0x7f", b"\x7f" + data[1:]
        position = len(data) // 2
        yield "an unterminated varint in the middle", data[:position] + b"\xff" * 6 + data[position:]
    yield "an extra byte at the end", data + b"\x01"


def generate_frame_rows(specs: Iterable[MessageSpec]) -> Iterator[Row]:
    """Yield each request and response in each version, with its header."""
    for spec, version in _iterate_versions(specs):
        if spec.api_key is None or str(spec.type) not in ("request", "response"):
            continue
        value = create_value(class_of(spec), version, ORDINARY)
        assert value is not None
        if str(spec.type) == "request":
            data = encode_request(value, version, correlation_id=_CORRELATION_ID, client_id=_CLIENT_ID)
            values: Row = {"client_id": _CLIENT_ID}
        else:
            data, values = encode_response(value, version, correlation_id=_CORRELATION_ID), {}
        body = len(value.encode(version))
        row = _describe_case(spec, version, ORDINARY) | {"correlation_id": _CORRELATION_ID, **values}
        yield row | {"header_size": len(data) - body, "bytes": data.hex()}


def create_value(cls: type[Message], version: int, case: str) -> Message | None:
    """Return the value of a test case; None if the version cannot have it.

    Some versions have no nullable fields, no tags or no fields.
    """
    codec = cls.codec(version)
    plan = codec.plan.root
    if case == DEFAULTS:
        return cls()
    if (case == TAGS and not plan.flexible) or (case == NULLS and not _has_nullable_field(plan)):
        return None
    message_value: Message = _StructBuilder(codec.classes, case).build_struct(plan, 0)
    return message_value


def _has_nullable_field(plan: StructPlan) -> bool:
    fields = (*plan.fields, *plan.tagged_fields)
    return any(field.nullable or (field.struct is not None and _has_nullable_field(field.struct)) for field in fields)


class _StructBuilder:
    """Builds the structs of a message with the values of one test case, such as ``nulls``."""

    def __init__(self, classes: Mapping[str, Any], case: str) -> None:
        self._classes = classes
        self._case = case

    def build_struct(self, plan: StructPlan, depth: int) -> Any:
        fields = {field.attribute: self._build_field(field, depth) for field in (*plan.fields, *plan.tagged_fields)}
        if self._case == TAGS and plan.flexible:
            fields["unknown_tags"] = list(_UNKNOWN_TAGS)
        return self._classes[plan.name](**fields)

    def _build_field(self, field: FieldPlan, depth: int) -> Any:
        if self._case == NULLS and field.nullable:
            return None
        if not field.array:
            return self._build_element(field, depth)
        return [self._build_element(field, depth) for _ in range(self._choose_count(field, depth))]

    def _choose_count(self, field: FieldPlan, depth: int) -> int:
        """Return how many elements an array gets; arrays in deep structs get fewer."""
        if self._case == LOWEST:
            return 0
        if self._case == HIGHEST and field.struct is None and depth < _MAX_LONG_LIST_DEPTH:
            return _LONG_LIST_LENGTH
        return 2 if depth < _MAX_LONG_LIST_DEPTH else 1

    def _build_element(self, field: FieldPlan, depth: int) -> Any:
        if field.struct is not None:
            return self.build_struct(field.struct, depth + 1)
        if field.type in _BITS_BY_TYPE:
            return _NUMBER_FUNCTION_BY_VALUE_INDEX[_VALUE_INDEX_BY_CASE[self._case]](
                _BITS_BY_TYPE[field.type], field.type.startswith("u")
            )
        return _VALUES_BY_TYPE[field.type][_VALUE_INDEX_BY_CASE[self._case]]


_NUMBER_FUNCTION_BY_VALUE_INDEX: Final[tuple[Callable[[int, bool], int], ...]] = (
    lambda bits, unsigned: 17,
    lambda bits, unsigned: 0 if unsigned else -(1 << (bits - 1)),
    lambda bits, unsigned: (1 << (bits - (not unsigned))) - 1,
)


def generate_varint_rows() -> Iterator[Row]:
    """Yield numbers around each change of the encoded size, and bytes that are an invalid or overlong varint."""
    for kind, (write, read, bits, is_signed) in _VARINT_KINDS.items():
        for value in _generate_boundaries(bits, is_signed):
            out = bytearray()
            write(out, value)
            yield {"kind": kind, "value": value, "bytes": out.hex()}
        for data in _INVALID_OR_OVERLONG_VARINTS:
            row: Row = {"kind": kind, "bytes": data.hex()}
            try:
                result, end = read(data, 0)
                yield row | {"value": result, "read": end, "canonical": False}
            except DecodeError as error:
                yield row | {"error": str(error)}


def _generate_boundaries(bits: int, is_signed: bool) -> list[int]:
    """Return the numbers next to each change of the encoded size of a varint, in order."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    steps = {1 << index for index in range(6, bits)} | {0}
    neighbour = {sign * step + offset for step in steps for offset in (-1, 0, 1) for sign in (1, -1)} | {low, high}
    return sorted(value for value in neighbour if low <= value <= high)
