"""Decode the records of Kafka's internal topics, and KRaft's control records, to the text of kafka-dump-log.

A decoder takes a record's offset, key and value and returns two texts. None prints nothing. For a record that cannot be
decoded it returns Kafka's message (``Error at offset N, skipping. ...``) and the dump continues. Differences between
Differences between Kafka versions are settings of the style: group offsets are JSON since 3.x, transactions since 4.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from kafkaframes.errors import DecodeError, OptionError
from kafkaframes.jobs.dump.chunks import get_keys, get_values
from kafkaframes.jobs.dump.lines import BytesSlices, view_binary_array
from kafkaframes.jobs.dump.remote_log_metadata import Decoder, Texts, make_remote_log_metadata_decoder
from kafkaframes.jobs.dump.styles import OutputStyle
from kafkaframes.records.decoded import DecodedBatches

DELETED_VALUE_TEXT = "<DELETE>"
# Names of transaction states by number.
_TRANSACTION_STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
    "PrepareEpochFence",
)
# First word of each KRaft control record's text.
_MARKER_LABELS = {
    "LEADER_CHANGE": "LeaderChange:",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}


def find_decoder(name: str, style: OutputStyle) -> Callable[[DecodedBatches], tuple[BytesSlices, BytesSlices]]:
    """Return the decoder of a chunk's keys and values for a name in ``DECODERS``."""
    if name not in DECODERS:
        raise OptionError(f"unknown decoder {name!r}; expected one of {', '.join(DECODERS)}")
    decode = DECODERS[name](style)

    def decode_chunk(chunk: DecodedBatches) -> tuple[BytesSlices, BytesSlices]:
        keys, values = get_keys(chunk), get_values(chunk)
        offsets, control = chunk.index.offsets.tolist(), chunk.batches.is_control[chunk.owners].tolist()
        no_text: Texts = (None, None)
        texts = [
            no_text if control[row] else decode(offset, keys.value_at(row), values.value_at(row))
            for row, offset in enumerate(offsets)
        ]
        return _to_text_column([key for key, _ in texts]), _to_text_column([value for _, value in texts])

    return decode_chunk


def _to_text_column(texts: list[str | None]) -> BytesSlices:
    """Return texts as a bytes column in UTF-8."""
    utf8_texts = [None if text is None else text.encode("utf-8", "replace") for text in texts]
    return view_binary_array(pa.array(utf8_texts, pa.binary()))


def _encode_json(value: Any) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# ------------------------------------------------------------------------------- coordinators, as JSON


def _decode_coordinator_records(topic: str, texts_of: Callable[[Any], Texts]) -> Decoder:
    """Return the decoder of a coordinator's topic. ``texts_of`` formats a decoded record."""
    from kafkaframes.protocol.messages import envelopes

    def decode(offset: int, key: bytes | None, value: bytes | None) -> Texts:
        if key is None:
            return f"Error at offset {offset}, skipping. the record has no key", None
        try:
            record = envelopes.decode_coordinator_record(topic, key, value)
        except DecodeError as error:
            return f"Error at offset {offset}, skipping. {error}", None
        return texts_of(record)

    return decode


def _format_as_json(record: Any) -> Texts:
    """Return the key and the value of a coordinator's record as JSON."""

    from kafkaframes.storage.log.internal_topics import decode_members

    min_version = record.key.spec.valid_versions.lowest
    key_text = _encode_json({"type": str(record.type), "data": record.key.to_json(min_version, unknown_tags=False)})
    if record.value is None:
        return key_text, DELETED_VALUE_TEXT
    data = record.value.to_json(record.value_version, unknown_tags=False)
    decode_members(data, unknown_tags=False)
    return key_text, _encode_json({"version": str(record.value_version), "data": data})


# ------------------------------------------------------------------------- transactions, as text until 3.9


def _format_transaction(record: Any) -> Texts:
    """Return the key and the value of a ``__transaction_state`` record as Kafka's tool prints them."""
    key_text = f"transaction_metadata::transactionalId={record.key.transactional_id}"
    if record.value is None:
        return key_text, DELETED_VALUE_TEXT
    result = record.value
    partition_list = [
        (topic.topic, partition_id)
        for topic in result.transaction_partitions or ()
        for partition_id in topic.partition_ids
    ]
    partitions = ",".join(f"{topic}-{number}" for topic, number in sort_by_scala_hash(partition_list))
    return key_text, (
        f"producerId:{result.producer_id},producerEpoch:{result.producer_epoch},"
        f"state={_name_transaction_state(result.transaction_status)},partitions=[{partitions}],"
        f"txnLastUpdateTimestamp={result.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={result.transaction_timeout_ms}"
    )


def _name_transaction_state(number: int) -> str:
    """Return the name of a transaction state; its number if it is unknown."""
    return _TRANSACTION_STATES[number] if 0 <= number < len(_TRANSACTION_STATES) else str(number)


def sort_by_scala_hash(partitions: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return topic partitions in the iteration order of Scala's mutable ``HashSet``, which Kafka printed.

    The set has at least 16 slots. The number of slots is doubled when three quarters are used. The slot of a partition
    is the low bits of its mixed Java hash code.
    """
    slots = 16
    while len(partitions) >= slots * 3 // 4:
        slots *= 2

    def order(partition: tuple[str, int]) -> tuple[int, int]:
        topic, number = partition
        hash_value = _compute_java_hash(topic, number)
        hash_value ^= hash_value >> 16
        return hash_value & (slots - 1), hash_value - 2**32 if hash_value >= 2**31 else hash_value

    return sorted(partitions, key=order)


def _compute_java_hash(topic: str, partition: int) -> int:
    """Return ``TopicPartition.hashCode`` as an unsigned number."""
    text = np.frombuffer(topic.encode("utf-16-be"), ">u2").tolist()
    topic_hash = 0
    for code_unit in text:
        topic_hash = (31 * topic_hash + code_unit) & 0xFFFFFFFF
    return (31 * (31 + partition) + topic_hash) & 0xFFFFFFFF


# ------------------------------------------------------------------------------ group offsets as text, 2.8


def _format_offset_commit(record: Any) -> Texts:
    """Return the key and the value of a ``__consumer_offsets`` record as Kafka's tool prints them."""
    result = record.value
    if record.type in (0, 1):
        key_text = f"offset_commit::group={record.key.group},partition={record.key.topic}-{record.key.partition}"
        if result is None:
            return key_text, DELETED_VALUE_TEXT
        return key_text, f"offset={result.offset}" + (f",metadata={result.metadata}" if result.metadata else "")
    if record.type == 2:
        return f"group_metadata::group={record.key.group}", DELETED_VALUE_TEXT if result is None else _format_group(
            result
        )
    return f"unknown::version={record.type}", None


def _format_group(group: Any) -> str:
    """Return a consumer group's metadata as Kafka's tool prints it."""
    members = ",".join(
        f"{member.member_id}={_format_assignment(group.protocol_type, member)}" for member in group.members
    )
    return _encode_json(
        {
            "protocolType": group.protocol_type or "",
            "protocol": group.protocol,
            "generationId": group.generation,
            "assignment": f"{{{members}}}",
        }
    )


def _format_assignment(protocol_type: str, member: Any) -> str:
    """Return a member's assignment in Kafka's text; hexadecimal digits if it is not a consumer assignment."""

    from kafkaframes.protocol.messages.envelopes import decode_versioned
    from kafkaframes.storage.log.internal_topics import CONSUMER_PROTOCOL_TYPE

    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return bytes(member.assignment).hex().upper()
    try:
        assignment, _ = decode_versioned("ConsumerProtocolAssignment", bytes(member.assignment))
    except DecodeError:
        return bytes(member.assignment).hex().upper()
    partition_list = [
        f"{topic.topic}-{partition_id}" for topic in assignment.assigned_partitions for partition_id in topic.partitions
    ]
    user_data = f":{bytes(assignment.user_data).hex().upper()}" if assignment.user_data else ""
    return f"[{', '.join(partition_list)}]{user_data}"


# --------------------------------------------------------------------------------------- KRaft's metadata


def _decode_metadata_record(offset: int, key: bytes | None, value: bytes | None) -> Texts:
    """Return None as the key of a ``__cluster_metadata`` record, and its value as JSON or an error text."""

    from kafkaframes.protocol.messages import envelopes

    try:
        record = envelopes.decode_metadata_record("__cluster_metadata", value or b"")
    except DecodeError as error:
        return None, f"Error at {offset}, skipping. {error}"
    name = _to_snake_case(type(record.value).spec.name)
    data = record.value.to_json(record.version, unknown_tags=False)
    return None, _encode_json({"type": name, "version": record.version, "data": data})


def _to_snake_case(name: str) -> str:
    """Return a record's name in the spelling of Kafka's enum.

    >>> _to_snake_case("ZkMigrationStateRecord")
    'ZK_MIGRATION_STATE_RECORD'
    """
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name).lstrip("_")


def format_control_record(kind: str, value: bytes | None) -> str | None:
    """Return a KRaft control record in Kafka's text; None for other types and for unreadable records."""

    from kafkaframes.storage.log.internal_topics import decode_control_value

    if kind not in _MARKER_LABELS or value is None:
        return None
    control_record = decode_control_value(kind, value, unknown_tags=False)
    return None if control_record.value is None else f"{_MARKER_LABELS[kind]} {control_record.value}"


DECODERS: Mapping[str, Callable[[OutputStyle], Decoder]] = {
    "offsets": lambda style: _decode_coordinator_records(
        "__consumer_offsets", _format_as_json if style.json_offsets else _format_offset_commit
    ),
    "transaction-log": lambda style: _decode_coordinator_records(
        "__transaction_state", _format_as_json if style.json_transactions else _format_transaction
    ),
    "cluster-metadata": lambda style: _decode_metadata_record,
    "remote-log-metadata": lambda style: make_remote_log_metadata_decoder(with_index=style.remote_transaction_index),
    "share-group-state": lambda style: _decode_coordinator_records("__share_group_state", _format_as_json),
}
