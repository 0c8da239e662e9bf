"""Protobuf values, through ``protobuf``: the descriptors of a FileDescriptorSet, or of a schema registry.

Fields are columns by their names; an unknown field (of a newer writer) is passed over, as Protobuf's rules have it.
``google.protobuf.Timestamp`` is an instant, the wrappers (``Int64Value`` ...) are their value or null, an enum is its
name (its number, as text, where it has none). A field without presence is never null. ``Struct`` and its parts, and a
message inside itself, are JSON text, as Protobuf's JSON mapping has them. Groups are refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from kafkaframes.errors import MissingExtraError, OptionError
from kafkaframes.scan.values.columns import ColumnBudget, Row, column_names
from kafkaframes.scan.values.registry import BadValueError

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_INSTANT: Final = "google.protobuf.Timestamp"
_JSON: Final = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))
_MESSAGE, _GROUP, _ENUM, _BYTES = 11, 10, 14, 12  # FieldDescriptorProto.Type
_TYPES: Final[Mapping[int, pa.DataType]] = {
    1: pa.float64(), 2: pa.float32(), 3: pa.int64(), 4: pa.uint64(), 5: pa.int32(), 6: pa.uint64(), 7: pa.uint32(),
    8: pa.bool_(), 9: pa.string(), _BYTES: pa.binary(), 13: pa.uint32(), _ENUM: pa.string(), 15: pa.int32(),
    16: pa.int64(), 17: pa.int32(), 18: pa.int64(),
}  # fmt: skip
# Tables have no unsigned numbers: 32 bits go to int64, 64 bits to 20 digits.
_SIGNED: Final = {pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}
_MICROSECONDS: Final = 1_000_000
_LEAST_INSTANT, _MOST_INSTANT = -(2**63) // _MICROSECONDS, 2**63 // _MICROSECONDS - 1
Take = Callable[[Any], Any]
Unframed = Callable[[bytes], bytes]


def load_library() -> tuple[Any, Any, Any]:
    """Return ``descriptor_pb2``, ``descriptor_pool``, ``message_factory`` of ``google.protobuf``.

    Raises:
        MissingExtraError: they are absent.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise MissingExtraError("`mode` protobuf", "protobuf") from error
    return descriptor_pb2, descriptor_pool, message_factory


def files_of_set(data: bytes) -> list[bytes]:
    """Return the serialized files of a FileDescriptorSet (``protoc --include_imports --descriptor_set_out``).

    Raises:
        OptionError: it is none.
    """
    descriptor_pb2, _, _ = load_library()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(data).file
    except Exception as error:
        raise OptionError(_NO_SET) from error
    if not files:
        raise OptionError(_NO_SET)
    return [one.SerializeToString() for one in files]


_NO_SET: Final = "no FileDescriptorSet: protoc --include_imports --descriptor_set_out=FILE a.proto writes one"


def message_name(files: Sequence[bytes], indexes: Sequence[int]) -> str:
    """Return the full name of the message that a value's indexes lead to in the last of some files.

    Raises:
        BadValueError: they lead nowhere.
    """
    descriptor_pb2, _, _ = load_library()
    file = descriptor_pb2.FileDescriptorProto.FromString(files[-1])
    names = [file.package] if file.package else []
    messages = file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            raise BadValueError(f"message indexes {list(indexes)} lead to no message of its schema")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


class ProtobufDecoder:
    """Decodes Protobuf.

    Args:
        files: serialized FileDescriptorProtos, each behind those that it imports.
        message: the full name of the message; empty for the first one of the last file.
        unframed: given a value, returns the message's bytes.

    Raises:
        OptionError: the message is not there, or has what no column can hold.
        MissingExtraError: protobuf is absent.
    """

    def __init__(self, files: Sequence[bytes], message: str, unframed: Unframed) -> None:
        _, descriptor_pool, message_factory = load_library()
        pool = descriptor_pool.DescriptorPool()
        name = message
        try:
            for entry in files:
                pool.AddSerializedFile(entry)
            name = message or message_name(files, (0,))
            descriptor = pool.FindMessageTypeByName(name)
        except BadValueError:
            raise OptionError("the Protobuf file has no message") from None
        except KeyError:
            raise OptionError(f"no message {name!r} in the Protobuf files: set `message`") from None
        except TypeError as error:
            raise OptionError(f"the Protobuf files do not fit together: {error}") from error
        self._class = message_factory.GetMessageClass(descriptor)
        self._unframed = unframed
        self.message = name
        names = column_names(entry.name for entry in descriptor.fields)
        plan = _Plan()
        columns = [(names[entry.name], *plan.field(entry, entry.name, (name,))) for entry in descriptor.fields]
        self._takes = [(name, take) for name, _, take in columns]
        self.fields: tuple[pa.Field, ...] = tuple(pa.field(name, kind) for name, kind, _ in columns)

    def decode(self, value: bytes) -> Row:
        """Return a value's columns.

        Raises:
            BadValueError: the bytes are no such message.
        """
        payload = self._unframed(value)
        try:
            result = self._class.FromString(payload)
        except Exception as error:  # DecodeError of whichever implementation is installed
            raise BadValueError(f"no Protobuf message {self.message}: {error}") from None
        return {name: take(result) for name, take in self._takes}


class _Plan:
    """Plans the columns of one message; each method returns a type, and what takes its value out of a message."""

    def __init__(self) -> None:
        self._budget = ColumnBudget("Protobuf")

    def field(self, field: Any, path: str, within: tuple[str, ...]) -> tuple[pa.DataType, Take]:
        """Plan a field: ``path`` is where it is, ``within`` are the messages that contain it."""
        if field.type == _GROUP:
            raise OptionError(f"Protobuf, {path}: a group has no column")
        name = field.name
        if _is_map(field):
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            (key_type, of_key), (value_type, of_value) = self._one(key, path, within), self._one(value, path, within)
            return pa.map_(key_type, value_type), lambda message: [
                (of_key(one), of_value(getattr(message, name)[one])) for one in getattr(message, name)
            ]
        kind, convert = self._one(field, path, within)
        if field.is_repeated if hasattr(field, "is_repeated") else field.label == 3:
            return pa.list_(pa.field("element", kind)), lambda message: [convert(one) for one in getattr(message, name)]
        if field.has_presence:
            return kind, lambda message: convert(getattr(message, name)) if message.HasField(name) else None
        return kind, lambda message: convert(getattr(message, name))

    def _one(self, field: Any, path: str, within: tuple[str, ...]) -> tuple[pa.DataType, Take]:
        """Plan one element of a field."""
        descriptor = field.message_type if field.type == _MESSAGE else None
        named = field.containing_type if descriptor is None else descriptor
        self._budget.add(path, named.full_name, len(within))
        if field.type == _ENUM:
            names = {number: one.name for number, one in field.enum_type.values_by_number.items()}
            return pa.string(), lambda number: names.get(number, str(number))
        if descriptor is None:
            kind = _TYPES[field.type]
            return _SIGNED.get(kind, kind), _same
        if descriptor.full_name == _INSTANT:
            return TIMESTAMP, _microseconds
        if descriptor.full_name in _WRAPPERS:
            kind = _TYPES[descriptor.fields_by_name["value"].type]
            return _SIGNED.get(kind, kind), lambda message: message.value
        if descriptor.full_name in _JSON or descriptor.full_name in within:
            return pa.string(), _json_text
        return self._struct(descriptor, path, within)

    def _struct(self, descriptor: Any, path: str, within: tuple[str, ...]) -> tuple[pa.DataType, Take]:
        if not descriptor.fields:
            return pa.bool_(), lambda message: True  # only whether it is there
        inner = (*within, descriptor.full_name)
        names = column_names((one.name for one in descriptor.fields), reserved=())
        parts = [(names[one.name], *self.field(one, f"{path}.{one.name}", inner)) for one in descriptor.fields]
        kind = pa.struct([pa.field(name, one) for name, one, _ in parts])
        return kind, lambda message: {name: take(message) for name, _, take in parts}


def _is_map(field: Any) -> bool:
    return field.type == _MESSAGE and bool(field.message_type.GetOptions().map_entry)


def _json_text(message: Any) -> str:
    """Return a message by Protobuf's JSON mapping, under the names of its fields.

    Raises:
        BadValueError: JSON cannot say it: a number that is not finite, an ``Any`` of an unknown message.
    """
    from google.protobuf import json_format

    try:
        value = json_format.MessageToDict(message, preserving_proto_field_name=True)
    except Exception as error:  # of the library's own, or TypeError, ValueError
        raise BadValueError(f"{message.DESCRIPTOR.full_name} has no JSON: {error}") from None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _same(value: Any) -> Any:
    return value


def _microseconds(instant: Any) -> int:
    if not _LEAST_INSTANT <= instant.seconds <= _MOST_INSTANT:
        raise BadValueError(f"{instant.seconds} seconds (Timestamp) are beyond the range of a column")
    return int(instant.seconds * _MICROSECONDS + instant.nanos // 1000)
