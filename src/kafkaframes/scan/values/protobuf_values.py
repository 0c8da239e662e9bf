"""A decoder of Protobuf values that uses the library ``protobuf``, with a FileDescriptorSet or a registry's schema.

Columns have the names of the fields. Unknown fields, of a newer writer, are ignored, as Protobuf specifies.
``google.protobuf.Timestamp`` becomes an instant. A wrapper (``Int64Value`` ...) becomes its value or null. An enum
value becomes its name, or its number as text if it has no name. A field without presence is never null. ``Struct``, its
parts and recursive messages are JSON text, by Protobuf's JSON mapping. Groups are rejected with an error that names the
field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from kafkaframes.errors import MissingExtraError, OptionError
from kafkaframes.scan.values.columns import ColumnBudget, Row, choose_column_names
from kafkaframes.scan.values.registry import BadValueError

TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")
_WRAPPER_TYPES: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_TIMESTAMP_MESSAGE: Final = "google.protobuf.Timestamp"
_JSON_MESSAGES: Final = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))
_MESSAGE, _GROUP, _ENUM, _BYTES = 11, 10, 14, 12  # FieldDescriptorProto.Type
_ARROW_TYPES: Final[Mapping[int, pa.DataType]] = {
    1: pa.float64(), 2: pa.float32(), 3: pa.int64(), 4: pa.uint64(), 5: pa.int32(), 6: pa.uint64(), 7: pa.uint32(),
    8: pa.bool_(), 9: pa.string(), _BYTES: pa.binary(), 13: pa.uint32(), _ENUM: pa.string(), 15: pa.int32(),
    16: pa.int64(), 17: pa.int32(), 18: pa.int64(),
}  # fmt: skip
# Tables have no unsigned numbers: 32 bits become int64, and 64 bits become decimals of 20 digits.
_SIGNED_TYPE_BY_UNSIGNED: Final = {pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}
_MICROSECONDS_PER_SECOND: Final = 1_000_000
_MIN_INSTANT_SECONDS, _MAX_INSTANT_SECONDS = -(2**63) // _MICROSECONDS_PER_SECOND, 2**63 // _MICROSECONDS_PER_SECOND - 1
Take = Callable[[Any], Any]
RemoveFrame = Callable[[bytes], bytes]


def load_library() -> tuple[Any, Any, Any]:
    """Return ``descriptor_pb2``, ``descriptor_pool`` and ``message_factory`` of ``google.protobuf``.

    Raises:
        MissingExtraError: The library is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise MissingExtraError("`mode` protobuf", "protobuf") from error
    return descriptor_pb2, descriptor_pool, message_factory


def parse_descriptor_set(data: bytes) -> list[bytes]:
    """Return the serialized files of a FileDescriptorSet (``protoc --include_imports --descriptor_set_out``).

    Raises:
        OptionError: The bytes are not a FileDescriptorSet.
    """
    descriptor_pb2, _, _ = load_library()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(data).file
    except Exception as error:
        raise OptionError(_DESCRIPTOR_SET_ADVICE) from error
    if not files:
        raise OptionError(_DESCRIPTOR_SET_ADVICE)
    return [file.SerializeToString() for file in files]


_DESCRIPTOR_SET_ADVICE: Final = (
    "not a FileDescriptorSet; create one with protoc --include_imports --descriptor_set_out=FILE a.proto"
)


def find_message_name(files: Sequence[bytes], indexes: Sequence[int]) -> str:
    """Return the full name of the message to which a value's message indexes refer, in the last file.

    Raises:
        BadValueError: An index does not exist.
    """
    descriptor_pb2, _, _ = load_library()
    file = descriptor_pb2.FileDescriptorProto.FromString(files[-1])
    names = [file.package] if file.package else []
    messages = file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            raise BadValueError(f"the schema has no message with the indexes {list(indexes)}")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


class ProtobufDecoder:
    """A decoder of Protobuf values.

    Args:
        files: Serialized FileDescriptorProtos, each after its imports.
        message: Full name of the message. Empty: the first message in the last file.
        remove_frame: Function that returns the message bytes of a value.

    Raises:
        OptionError: The message does not exist, or columns cannot represent a field.
        MissingExtraError: The library protobuf is not installed.
    """

    def __init__(self, files: Sequence[bytes], message: str, remove_frame: RemoveFrame) -> None:
        _, descriptor_pool, message_factory = load_library()
        pool = descriptor_pool.DescriptorPool()
        name = message
        try:
            for entry in files:
                pool.AddSerializedFile(entry)
            name = message or find_message_name(files, (0,))
            descriptor = pool.FindMessageTypeByName(name)
        except BadValueError:
            raise OptionError("the Protobuf file has no message") from None
        except KeyError:
            raise OptionError(f"message {name!r} does not exist in the Protobuf files; set `message`") from None
        except TypeError as error:
            raise OptionError(f"the Protobuf files are inconsistent: {error}") from error
        self._class = message_factory.GetMessageClass(descriptor)
        self._remove_frame = remove_frame
        self.message = name
        names = choose_column_names(entry.name for entry in descriptor.fields)
        plan = _MessagePlanner()
        columns = [(names[entry.name], *plan.plan_field(entry, entry.name, (name,))) for entry in descriptor.fields]
        self._takes = [(name, take) for name, _, take in columns]
        self.fields: tuple[pa.Field, ...] = tuple(pa.field(name, kind) for name, kind, _ in columns)

    def decode(self, value: bytes) -> Row:
        """Return the columns of a value.

        Raises:
            BadValueError: The bytes are not a message of this type.
        """
        payload = self._remove_frame(value)
        try:
            result = self._class.FromString(payload)
        except Exception as error:  # DecodeError differs between implementations of protobuf
            raise BadValueError(f"not a Protobuf message {self.message}: {error}") from None
        return {name: take(result) for name, take in self._takes}


class _MessagePlanner:
    """The planner of a message's columns. Methods return a type, and a function that reads the value of a message."""

    def __init__(self) -> None:
        self._budget = ColumnBudget("Protobuf")

    def plan_field(self, field: Any, path: str, within: tuple[str, ...]) -> tuple[pa.DataType, Take]:
        """Plan the column of a field at ``path``.

        ``within`` contains the names of the messages that enclose the field.
        """
        if field.type == _GROUP:
            raise OptionError(f"Protobuf, {path}: groups are not supported")
        name = field.name
        if _is_map(field):
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            (key_type, read_key), (value_type, read_value) = (
                self._plan_element(key, path, within),
                self._plan_element(value, path, within),
            )
            return pa.map_(key_type, value_type), lambda message: [
                (read_key(item), read_value(getattr(message, name)[item])) for item in getattr(message, name)
            ]
        kind, convert = self._plan_element(field, path, within)
        if field.is_repeated if hasattr(field, "is_repeated") else field.label == 3:
            return pa.list_(pa.field("element", kind)), lambda message: [
                convert(item) for item in getattr(message, name)
            ]
        if field.has_presence:
            return kind, lambda message: convert(getattr(message, name)) if message.HasField(name) else None
        return kind, lambda message: convert(getattr(message, name))

    def _plan_element(self, field: Any, path: str, within: tuple[str, ...]) -> tuple[pa.DataType, Take]:
        """Plan the type of one element of a field."""
        descriptor = field.message_type if field.type == _MESSAGE else None
        message_type = field.containing_type if descriptor is None else descriptor
        self._budget.add_column(path, message_type.full_name, len(within))
        if field.type == _ENUM:
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return pa.string(), lambda number: names.get(number, str(number))
        if descriptor is None:
            kind = _ARROW_TYPES[field.type]
            return _SIGNED_TYPE_BY_UNSIGNED.get(kind, kind), _same
        if descriptor.full_name == _TIMESTAMP_MESSAGE:
            return TIMESTAMP_TYPE, _to_microseconds
        if descriptor.full_name in _WRAPPER_TYPES:
            kind = _ARROW_TYPES[descriptor.fields_by_name["value"].type]
            return _SIGNED_TYPE_BY_UNSIGNED.get(kind, kind), lambda message: message.value
        if descriptor.full_name in _JSON_MESSAGES or descriptor.full_name in within:
            return pa.string(), _to_json_text
        return self._plan_struct(descriptor, path, within)

    def _plan_struct(self, descriptor: Any, path: str, within: tuple[str, ...]) -> tuple[pa.DataType, Take]:
        """Return the struct type of a message, and a function that reads its fields."""
        if not descriptor.fields:
            return pa.bool_(), lambda message: True  # a message without fields: only its presence matters
        inner = (*within, descriptor.full_name)
        names = choose_column_names((field.name for field in descriptor.fields), reserved_names=())
        parts = [
            (names[field.name], *self.plan_field(field, f"{path}.{field.name}", inner)) for field in descriptor.fields
        ]
        kind = pa.struct([pa.field(name, field) for name, field, _ in parts])
        return kind, lambda message: {name: take(message) for name, _, take in parts}


def _is_map(field: Any) -> bool:
    return field.type == _MESSAGE and bool(field.message_type.GetOptions().map_entry)


def _to_json_text(message: Any) -> str:
    """Return a message by Protobuf's JSON mapping, with the names of the .proto fields.

    Raises:
        BadValueError: JSON cannot represent it: a number is not finite, or an ``Any`` has an unknown message.
    """
    from google.protobuf import json_format

    try:
        value = json_format.MessageToDict(message, preserving_proto_field_name=True)
    except Exception as error:  # the library's own exceptions, TypeError or ValueError
        raise BadValueError(f"{message.DESCRIPTOR.full_name} cannot be converted to JSON: {error}") from None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _same(value: Any) -> Any:
    return value


def _to_microseconds(instant: Any) -> int:
    if not _MIN_INSTANT_SECONDS <= instant.seconds <= _MAX_INSTANT_SECONDS:
        raise BadValueError(f"{instant.seconds} seconds (Timestamp) are beyond the range of a column")
    return int(instant.seconds * _MICROSECONDS_PER_SECOND + instant.nanos // 1000)
