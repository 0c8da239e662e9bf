"""Decode records of Kafka's internal topics: their type, their version, and the key and value in Kafka's JSON form.

The topics are ``__consumer_offsets``, ``__transaction_state``, ``__share_group_state``, ``__cluster_metadata`` and
``__remote_log_metadata``. Invalid bytes do not raise an exception. The field ``error`` describes the fault, and the
other fields contain the part of the record that can be decoded. Subscriptions and assignments of consumer groups are
decoded; the data of other protocol types stays base64.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kafkaframes.errors import CorruptRecordError, DecodeError, OptionError
from kafkaframes.protocol.messages import envelopes, message
from kafkaframes.records.fields import END_MARKER_TYPES, parse_control_type
from kafkaframes.wire.primitives import read_int16

READABLE_TOPICS: Final = (*envelopes.COORDINATOR_TOPICS, *envelopes.METADATA_TOPICS)
CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_MEMBER_FIELDS: Final = (
    ("subscription", "ConsumerProtocolSubscription"),
    ("assignment", "ConsumerProtocolAssignment"),
)
# Name of the message in the value of a control record, by record type (KIP-98, KIP-595, KIP-630, KIP-853).
CONTROL_VALUE_MESSAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ABORT": "EndTxnMarker",
        "COMMIT": "EndTxnMarker",
        "LEADER_CHANGE": "LeaderChangeMessage",
        "SNAPSHOT_HEADER": "SnapshotHeaderRecord",
        "SNAPSHOT_FOOTER": "SnapshotFooterRecord",
        "KRAFT_VERSION": "KRaftVersionRecord",
        "KRAFT_VOTERS": "VotersRecord",
    }
)


class InternalRecord(NamedTuple):
    """One decoded record of an internal topic.

    Attributes:
        type: name of the message without Key or Value (``OffsetCommit``, ``TopicRecord``), or the type of a control
            record (``COMMIT``); None if unknown.
        version: version of the value's schema; None for a tombstone.
        key, value: JSON texts. The key of a metadata record and the value of a tombstone are None.
        error: reason why the record cannot be decoded; None for a valid record.
    """

    type: str | None = None
    version: int | None = None
    key: str | None = None
    value: str | None = None
    error: str | None = None


def decode_record(topic: str, key: bytes | None, value: bytes | None) -> InternalRecord:
    """Decode a record of one of ``READABLE_TOPICS``.

    Raises:
        OptionError: the topic is not one of ``READABLE_TOPICS``.
    """
    if topic in envelopes.COORDINATOR_TOPICS:
        return _decode_coordinator_record(topic, key, value)
    if topic in envelopes.METADATA_TOPICS:
        return _decode_metadata_record(topic, value)
    raise OptionError(f"{topic!r} is not an internal topic; expected one of {', '.join(READABLE_TOPICS)}")


def _decode_coordinator_record(topic: str, key: bytes | None, value: bytes | None) -> InternalRecord:
    if key is None:
        return InternalRecord(error="the record has no key")
    try:
        record = envelopes.decode_coordinator_record(topic, key, None)
    except DecodeError as error:
        return InternalRecord(error=str(error))
    spec = record.key.spec
    internal_record = InternalRecord(
        spec.name.removesuffix("Key"), key=_text(record.key.to_json(spec.valid_versions.lowest))
    )
    if value is None:
        return internal_record
    try:
        record = envelopes.decode_coordinator_record(topic, key, value)
    except DecodeError as error:
        return internal_record._replace(error=str(error))
    data = record.value.to_json(record.value_version)
    decode_members(data)
    return internal_record._replace(version=record.value_version, value=_text(data))


def _decode_metadata_record(topic: str, value: bytes | None) -> InternalRecord:
    if value is None:
        return InternalRecord(error="the record has no value")
    try:
        record = envelopes.decode_metadata_record(topic, value)
    except DecodeError as error:
        return InternalRecord(error=str(error))
    data = record.value.to_json(record.version)
    return InternalRecord(type(record.value).spec.name, record.version, value=_text(data))


def decode_control_record(key: bytes | None, value: bytes | None) -> InternalRecord:
    """Decode a control record (a transaction marker or a KRaft record); the value of an unknown type is None."""
    try:
        kind = parse_control_type(key)
    except CorruptRecordError as error:
        return InternalRecord(error=str(error))
    return decode_control_value(kind, value)


def decode_control_value(kind: str, value: bytes | None, *, unknown_tags: bool = True) -> InternalRecord:
    """Decode the value of a control record of type ``kind``; the values of KRaft records start with their version."""
    name = CONTROL_VALUE_MESSAGES.get(kind)
    if name is None or value is None:
        return InternalRecord(kind)
    try:
        if kind in END_MARKER_TYPES:
            decoded, version = envelopes.decode_versioned(name, value)
        else:
            version, _ = read_int16(value, 0)
            cls = message(name)
            decoded = cls.decode(value, min(version, cls.spec.valid_versions.highest))
    except DecodeError as error:
        return InternalRecord(kind, error=str(error))
    known_version = min(version, decoded.spec.valid_versions.highest)
    return InternalRecord(kind, version, value=_text(decoded.to_json(known_version, unknown_tags=unknown_tags)))


def decode_members(data: dict[str, Any], *, unknown_tags: bool = True) -> None:
    """Decode the consumers' subscriptions and assignments in a group's JSON, in place; other protocols stay base64."""
    if data.get("protocolType") != CONSUMER_PROTOCOL_TYPE:
        return
    for member in data.get("members", ()):
        for field, name in _MEMBER_FIELDS:
            try:
                value, version = envelopes.decode_versioned(name, b64decode(member[field] or ""))
                known_version = min(version, value.spec.valid_versions.highest)
                member[field] = value.to_json(known_version, unknown_tags=unknown_tags)
            except (DecodeError, KeyError):
                continue


def _text(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)
