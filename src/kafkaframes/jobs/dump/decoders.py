"""Kafka's own topics as text: what kafka-dump-log's decoders make of keys and values, and of KRaft's control records.

A decoder takes a record's offset, key and value and returns two texts; None prints nothing. For a record that cannot be
decoded it prints Kafka's message (``Error at offset N, skipping. ...``) and continues. What the versions print
differently stands in the styles: group offsets are JSON since 3.x, transactions since 4.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from kafkaframes.errors import DecodeError, OptionError
from kafkaframes.jobs.dump.chunks import keys_of, values_of
from kafkaframes.jobs.dump.lines import Slices, slices_of
from kafkaframes.jobs.dump.remote_text import remote_log_metadata
from kafkaframes.jobs.dump.styles import Style
from kafkaframes.records.decoded import Decoded

Texts = tuple[str | None, str | None]
RecordDecoder = Callable[[int, bytes | None, bytes | None], Texts]
DELETED = "<DELETE>"
_STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
    "PrepareEpochFence",
)
_MARKER_LABELS = {
    "LEADER_CHANGE": "LeaderChange:",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}


def decoder_for(name: str, style: Style) -> Callable[[Decoded], tuple[Slices, Slices]]:
    """Return what makes the texts of a chunk's keys and values.

    Args:
        name: a flag's name: ``offsets``, ``transaction-log``, ``cluster-metadata``, ...
        style: the version in whose form.

    Raises:
        OptionError: there is no such decoder.
    """
    if name not in DECODERS:
        raise OptionError(f"no decoder {name!r} (known: {', '.join(DECODERS)})")
    decode = DECODERS[name](style)

    def decoded(chunk: Decoded) -> tuple[Slices, Slices]:
        keys, values = keys_of(chunk), values_of(chunk)
        offsets, control = chunk.index.offsets.tolist(), chunk.batches.is_control[chunk.owners].tolist()
        none: Texts = (None, None)
        texts = [
            none if control[row] else decode(offset, keys.at(row), values.at(row)) for row, offset in enumerate(offsets)
        ]
        return _column([key for key, _ in texts]), _column([value for _, value in texts])

    return decoded


def _column(texts: list[str | None]) -> Slices:
    encoded = [None if text is None else text.encode("utf-8", "replace") for text in texts]
    return slices_of(pa.array(encoded, pa.binary()))


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# ------------------------------------------------------------------------------- coordinators, as JSON


def _coordinator(topic: str) -> RecordDecoder:
    from kafkaframes.protocol.messages import envelopes
    from kafkaframes.storage.log.internal_topics import open_members

    def decode(offset: int, key: bytes | None, value: bytes | None) -> Texts:
        if key is None:
            return f"Error at offset {offset}, skipping. the record has no key", None
        try:
            record = envelopes.decode_coordinator_record(topic, key, value)
        except DecodeError as error:
            return f"Error at offset {offset}, skipping. {error}", None
        lowest = record.key.spec.valid_versions.lowest
        key_text = _json({"type": str(record.type), "data": record.key.to_json(lowest, unknown_tags=False)})
        if record.value is None:
            return key_text, DELETED
        data = record.value.to_json(record.value_version, unknown_tags=False)
        open_members(data, unknown_tags=False)
        return key_text, _json({"version": str(record.value_version), "data": data})

    return decode


# ------------------------------------------------------------------------- transactions, as text until 3.9


def _transactions_as_text(offset: int, key: bytes | None, value: bytes | None) -> Texts:
    from kafkaframes.protocol.messages import envelopes

    if key is None:
        return f"Error at offset {offset}, skipping. the record has no key", None
    try:
        record = envelopes.decode_coordinator_record("__transaction_state", key, value)
    except DecodeError as error:
        return f"Error at offset {offset}, skipping. {error}", None
    key_text = f"transaction_metadata::transactionalId={record.key.transactional_id}"
    if record.value is None:
        return key_text, DELETED
    result = record.value
    listed = [(topic.topic, one) for topic in result.transaction_partitions or () for one in topic.partition_ids]
    partitions = ",".join(f"{topic}-{number}" for topic, number in in_hash_order(listed))
    return key_text, (
        f"producerId:{result.producer_id},producerEpoch:{result.producer_epoch},"
        f"state={_state(result.transaction_status)},partitions=[{partitions}],"
        f"txnLastUpdateTimestamp={result.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={result.transaction_timeout_ms}"
    )


def _state(number: int) -> str:
    return _STATES[number] if 0 <= number < len(_STATES) else str(number)


def in_hash_order(partitions: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return topic partitions in the order in which Scala's mutable set gives them, which Kafka printed.

    The set has 16 places or more and doubles them at three quarters; a place is Java's hash, stirred, its lower bits.
    """
    slots = 16
    while len(partitions) >= slots * 3 // 4:
        slots *= 2

    def order(partition: tuple[str, int]) -> tuple[int, int]:
        topic, number = partition
        stirred = _hash(topic, number)
        stirred ^= stirred >> 16
        return stirred & (slots - 1), stirred - 2**32 if stirred >= 2**31 else stirred

    return sorted(partitions, key=order)


def _hash(topic: str, partition: int) -> int:
    """Return ``TopicPartition.hashCode`` without its sign."""
    text = np.frombuffer(topic.encode("utf-16-be"), ">u2").tolist()
    of_topic = 0
    for unit in text:
        of_topic = (31 * of_topic + unit) & 0xFFFFFFFF
    return (31 * (31 + partition) + of_topic) & 0xFFFFFFFF


# ------------------------------------------------------------------------------ group offsets as text, 2.8


def _offsets_as_text(offset: int, key: bytes | None, value: bytes | None) -> Texts:
    from kafkaframes.protocol.messages import envelopes

    if key is None:
        return f"Error at offset {offset}, skipping. the record has no key", None
    try:
        record = envelopes.decode_coordinator_record("__consumer_offsets", key, value)
    except DecodeError as error:
        return f"Error at offset {offset}, skipping. {error}", None
    result = record.value
    if record.type in (0, 1):
        key_text = f"offset_commit::group={record.key.group},partition={record.key.topic}-{record.key.partition}"
        if result is None:
            return key_text, DELETED
        return key_text, f"offset={result.offset}" + (f",metadata={result.metadata}" if result.metadata else "")
    if record.type == 2:
        return f"group_metadata::group={record.key.group}", DELETED if result is None else _group_text(result)
    return f"unknown::version={record.type}", None


def _group_text(group: Any) -> str:
    members = ",".join(f"{one.member_id}={_assignment_text(group.protocol_type, one)}" for one in group.members)
    return _json(
        {
            "protocolType": group.protocol_type or "",
            "protocol": group.protocol,
            "generationId": group.generation,
            "assignment": f"{{{members}}}",
        }
    )


def _assignment_text(protocol_type: str, member: Any) -> str:
    from kafkaframes.protocol.messages.envelopes import decode_versioned
    from kafkaframes.storage.log.internal_topics import CONSUMER

    if protocol_type != CONSUMER:
        return bytes(member.assignment).hex().upper()
    try:
        assigned, _ = decode_versioned("ConsumerProtocolAssignment", bytes(member.assignment))
    except DecodeError:
        return bytes(member.assignment).hex().upper()
    listed = [f"{topic.topic}-{one}" for topic in assigned.assigned_partitions for one in topic.partitions]
    user_data = f":{bytes(assigned.user_data).hex().upper()}" if assigned.user_data else ""
    return f"[{', '.join(listed)}]{user_data}"


# --------------------------------------------------------------------------------------- KRaft's metadata


def _metadata(offset: int, key: bytes | None, value: bytes | None) -> Texts:
    from kafkaframes.protocol.messages import envelopes

    try:
        record = envelopes.decode_metadata_record("__cluster_metadata", value or b"")
    except DecodeError as error:
        return None, f"Error at {offset}, skipping. {error}"
    name = _snake(type(record.value).spec.name)
    data = record.value.to_json(record.version, unknown_tags=False)
    return None, _json({"type": name, "version": record.version, "data": data})


def _snake(name: str) -> str:
    """Return a record's name as Kafka's enum has it.

    >>> _snake("ZkMigrationStateRecord")
    'ZK_MIGRATION_STATE_RECORD'
    """
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name).lstrip("_")


def control_json(kind: str, value: bytes | None) -> str | None:
    """Return a control record of KRaft as Kafka prints it; None for other kinds and unreadable ones."""

    from kafkaframes.storage.log.internal_topics import open_control_value

    if kind not in _MARKER_LABELS or value is None:
        return None
    opened = open_control_value(kind, value, unknown_tags=False)
    return None if opened.value is None else f"{_MARKER_LABELS[kind]} {opened.value}"


DECODERS: Mapping[str, Callable[[Style], RecordDecoder]] = {
    "offsets": lambda style: _coordinator("__consumer_offsets") if style.json_offsets else _offsets_as_text,
    "transaction-log": lambda style: (
        _coordinator("__transaction_state") if style.json_transactions else _transactions_as_text
    ),
    "cluster-metadata": lambda style: _metadata,
    "remote-log-metadata": lambda style: remote_log_metadata(with_index=style.remote_transaction_index),
    "share-group-state": lambda style: _coordinator("__share_group_state"),
}
