"""Encode and decode messages inside records of Kafka's internal topics, including the bytes around them.

* ``__consumer_offsets``, ``__transaction_state``, ``__share_group_state`` (coordinator records): the key is an int16
  record type and a body of version 0. The value is an int16 version and a body, or null for a tombstone. Before 4.0,
  the record type was called the version of the key, with the same bytes.
* ``__cluster_metadata`` and ``__remote_log_metadata``: the value is an unsigned varint frame version (1), API key and
  version, and a body.
* Consumer protocol subscriptions and assignments, principals, transaction markers: an int16 version and a body.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from kafkaframes.errors import DecodeError, EncodeError, OptionError
from kafkaframes.protocol.messages.codec import reject_surplus
from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.messages.registry import message
from kafkaframes.protocol.spec import catalog
from kafkaframes.wire.primitives import read_int16
from kafkaframes.wire.varint import read_unsigned_varint, write_unsigned_varint

COORDINATOR_TOPICS: Final = MappingProxyType(
    {
        "__consumer_offsets": "kafka-group-coordinator",
        "__transaction_state": "kafka-transaction-coordinator",
        "__share_group_state": "kafka-share-coordinator",
    }
)
METADATA_TOPICS: Final = MappingProxyType(
    {"__cluster_metadata": "kafka-metadata", "__remote_log_metadata": "kafka-storage"}
)
FRAME_VERSION: Final = 1
_OLD_GROUP_TYPES: Final = {9: "ShareGroupPartitionMetadata"}  # 3.9 and 4.0 only; its specs have no API key


@dataclass(slots=True)
class CoordinatorRecord:
    """A coordinator record; ``value`` and ``value_version`` are None for a tombstone."""

    type: int
    key: Any
    value: Any
    value_version: int | None


@dataclass(slots=True)
class MetadataRecord:
    """A record of KRaft's metadata log or of remote log metadata."""

    type: int
    version: int
    value: Any


@cache
def record_names(module: str, type_: str) -> dict[int, str]:
    """Return a module's record names by type; for a type that was reused, the current name."""
    names: dict[int, str] = {}
    for number, outline in catalog.list_records(module):
        is_current = not catalog.find_entry(outline.name).current_versions.is_empty
        if outline.type == type_ and (number not in names or is_current):
            names[number] = outline.name
    if module == "kafka-group-coordinator":
        suffix = "Key" if type_ == "coordinator-key" else "Value"
        names |= {number: name + suffix for number, name in _OLD_GROUP_TYPES.items()}
    return names


def decode_coordinator_record(
    topic: str, key: bytes, value: bytes | None, *, mode: str = "reference"
) -> CoordinatorRecord:
    """Decode a record of a coordinator's topic.

    Raises:
        DecodeError: the type or version is unknown, or the bytes are invalid; ``path`` begins with ``key`` or
            ``value``.
        OptionError: ``topic`` is not a coordinator's topic.
    """
    module = _find_module(topic, COORDINATOR_TOPICS)
    number, name, cls = _find_key_class(module, key)
    decoded_key = _decode_whole(cls, key, cls.spec.valid_versions.lowest, 2, mode, "key")
    if value is None:
        return CoordinatorRecord(number, decoded_key, None, None)
    version, position = _read_leading_int16(value, "value")
    value_name = record_names(module, "coordinator-value").get(number)
    if value_name == "LegacyOffsetCommitValue" and version > 0:
        value_name = "OffsetCommitValue"  # key type 0 can also precede a value of a newer version
    if value_name is None:
        raise DecodeError(f"{topic} has no value for records of type {number} ({name})", position=0, path=("value",))
    decoded_value = _decode_whole(message(value_name), value, version, position, mode, "value")
    return CoordinatorRecord(number, decoded_key, decoded_value, version)


def _find_key_class(module: str, key: bytes) -> tuple[int, str, type[Message]]:
    """Return the type number of a coordinator record, the name of the type, and the class of its key."""
    number, _ = _read_leading_int16(key, "key")
    name = record_names(module, "coordinator-key").get(number)
    if name is None:
        raise DecodeError(f"{module} has no record of type {number}", position=0, path=("key",))
    return number, name, message(name)


def encode_coordinator_record(key: Message, value: Message | None, value_version: int | None) -> tuple[bytes, Any]:
    """Return key and value of a coordinator record; the value is None for a tombstone.

    Raises:
        EncodeError: ``key`` is not a coordinator's key, or a value cannot be encoded.
    """
    number = key.spec.api_key
    if key.spec.type != "coordinator-key" or number is None:
        raise EncodeError(f"{key.spec.name} is not the key of a coordinator record")
    key_bytes = number.to_bytes(2) + key.encode(0)
    if value is None or value_version is None:
        return key_bytes, None
    return key_bytes, encode_versioned(value, value_version)


def decode_metadata_record(topic: str, value: bytes, *, mode: str = "reference") -> MetadataRecord:
    """Decode a record value of ``__cluster_metadata`` or ``__remote_log_metadata``.

    Raises:
        DecodeError: the frame version is not 1, the type or version is unknown, the bytes are invalid, or bytes follow
            the record.
        OptionError: ``topic`` is not a topic with metadata records.
    """
    module = _find_module(topic, METADATA_TOPICS)
    frame, position = read_unsigned_varint(value, 0)
    if frame != FRAME_VERSION:
        raise DecodeError(f"unsupported frame version {frame}; expected {FRAME_VERSION}", position=0)
    number, at_version = read_unsigned_varint(value, position)
    version, start = read_unsigned_varint(value, at_version)
    name = record_names(module, "metadata").get(number)
    if name is None:
        raise DecodeError(f"{topic} has no record of type {number}", position=position)
    return MetadataRecord(number, version, _decode_whole(message(name), value, version, start, mode, "value"))


def encode_metadata_record(value: Message, version: int) -> bytes:
    """Return the bytes of a metadata record, including the frame.

    Raises:
        EncodeError: the message is not a metadata record, or cannot be encoded.
    """
    if value.spec.type != "metadata" or value.spec.api_key is None:
        raise EncodeError(f"{value.spec.name} is not a metadata record")
    out = bytearray()
    for number in (FRAME_VERSION, value.spec.api_key, version):
        write_unsigned_varint(out, number)
    return bytes(out) + value.encode(version)


def decode_versioned(name: str, data: bytes) -> tuple[Any, int]:
    """Decode an int16 version and a body (``ConsumerProtocolSubscription`` ...); return value and version.

    A version above the highest known version is decoded like the highest known version, and additional bytes are
    ignored, as in Kafka's consumers.

    Raises:
        DecodeError: the version is negative, or the bytes are invalid.
    """
    cls = message(name)
    version, position = _read_leading_int16(data, name)
    highest = cls.spec.valid_versions.highest
    value, end = cls.decode_prefix(data, min(version, highest), position=position)
    return (value if version > highest else reject_surplus(data, value, end)), version


def encode_versioned(value: Message, version: int) -> bytes:
    """Encode a value as an int16 version and a body.

    Raises:
        EncodeError: the value cannot be encoded at that version.
    """
    return version.to_bytes(2, signed=True) + value.encode(version)


def _find_module(topic: str, table: Any) -> str:
    """Return the Kafka jar that defines a topic's records."""
    if topic not in table:
        raise OptionError(f"unknown topic {topic!r}; expected one of {', '.join(table)}")
    return str(table[topic])


def _read_leading_int16(data: bytes, step: str) -> tuple[int, int]:
    try:
        number, position = read_int16(data, 0)
    except DecodeError as error:
        raise error.within(step) from None
    return number, position


def _decode_whole(cls: type[Message], data: bytes, version: int, position: int, mode: str, step: str) -> Any:
    """Decode a message that must end where ``data`` does; ``step`` is ``key`` or ``value`` in errors."""
    try:
        value, end = cls.decode_prefix(data, version, position=position, mode=mode)
        return reject_surplus(data, value, end)
    except DecodeError as error:
        raise error.within(step) from None
