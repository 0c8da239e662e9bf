"""Format records of ``__remote_log_metadata`` as kafka-dump-log does: ``toString`` of Java objects, not JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkaframes.errors import DecodeError
from kafkaframes.wire.primitives import uuid_to_text

Texts = tuple[str | None, str | None]
Decoder = Callable[[int, bytes | None, bytes | None], Texts]
# Names of RemoteLogSegmentState by number.
_SEGMENT_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
# Names of RemotePartitionDeleteState by number.
_PARTITION_DELETE_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def make_remote_log_metadata_decoder(*, with_index: bool) -> Decoder:
    """Return the decoder of ``__remote_log_metadata``. Records of this topic have no key.

    If ``with_index``, the text of a segment has ``txnIdxEmpty``, as since Kafka 4.0.
    """
    from kafkaframes.protocol.messages import envelopes

    def decode(offset: int, key: bytes | None, value: bytes | None) -> Texts:
        try:
            record = envelopes.decode_metadata_record("__remote_log_metadata", value or b"")
            return None, _FORMATTERS_BY_RECORD_TYPE[record.type](record.value, with_index)
        except DecodeError as error:
            return None, f"Error at offset {offset}, skipping. {error}"

    return decode


def _format_segment(result: Any, with_index: bool) -> str:
    """Return a RemoteLogSegmentMetadata record in the format of Java's ``toString``."""
    texts = {
        "remoteLogSegmentId": _format_segment_id(result.remote_log_segment_id),
        "startOffset": result.start_offset,
        "endOffset": result.end_offset,
        "brokerId": result.broker_id,
        "maxTimestampMs": result.max_timestamp_ms,
        "eventTimestampMs": result.event_timestamp_ms,
    }
    return _format_java_object("RemoteLogSegmentMetadata", texts | _format_common_segment_fields(result, with_index))


def _format_segment_update(result: Any, _: bool) -> str:
    """Return a RemoteLogSegmentMetadataUpdate record in the format of Java's ``toString``."""
    texts = {
        "remoteLogSegmentId": _format_segment_id(result.remote_log_segment_id),
        "customMetadata": _format_custom_metadata(result.custom_metadata),
        "state": _name_state(_SEGMENT_STATES, result.remote_log_segment_state),
        "eventTimestampMs": result.event_timestamp_ms,
        "brokerId": result.broker_id,
    }
    return _format_java_object("RemoteLogSegmentMetadataUpdate", texts)


def _format_partition_deletion(result: Any, _: bool) -> str:
    """Return a RemotePartitionDeleteMetadata record in the format of Java's ``toString``."""
    texts = {
        "topicPartition": _format_topic_partition(result.topic_id_partition),
        "state": _name_state(_PARTITION_DELETE_STATES, result.remote_partition_delete_state),
        "eventTimestampMs": result.event_timestamp_ms,
        "brokerId": result.broker_id,
    }
    return _format_java_object("RemotePartitionDeleteMetadata", texts)


def _format_segment_snapshot(result: Any, with_index: bool) -> str:
    """Return a RemoteLogSegmentMetadataSnapshot record in the format of Java's ``toString``."""
    texts = {
        "segmentId": uuid_to_text(result.segment_id),
        "startOffset": result.start_offset,
        "endOffset": result.end_offset,
        "maxTimestampMs": result.max_timestamp_ms,
    }
    return _format_java_object(
        "RemoteLogSegmentMetadataSnapshot", texts | _format_common_segment_fields(result, with_index)
    )


_FORMATTERS_BY_RECORD_TYPE: Mapping[int, Callable[[Any, bool], str]] = {
    0: _format_segment,
    1: _format_segment_update,
    2: _format_partition_deletion,
    3: _format_segment_snapshot,
}


def _format_common_segment_fields(result: Any, with_index: bool) -> dict[str, object]:
    """Return the texts of the fields that segments and snapshots have in common, by name."""
    epochs = dict(sorted((entry.leader_epoch, entry.offset) for entry in result.segment_leader_epochs))
    texts = {
        "segmentLeaderEpochs": f"{{{', '.join(f'{epoch}={start}' for epoch, start in epochs.items())}}}",
        "segmentSizeInBytes": result.segment_size_in_bytes,
        "customMetadata": _format_custom_metadata(result.custom_metadata),
        "state": _name_state(_SEGMENT_STATES, result.remote_log_segment_state),
    }
    return texts | ({"txnIdxEmpty": "true" if result.txn_index_empty else "false"} if with_index else {})


def _format_java_object(name: str, texts: Mapping[str, object]) -> str:
    """Return an object in the text of Java's ``toString``."""
    return f"{name}{{{', '.join(f'{key}={value}' for key, value in texts.items())}}}"


def _format_segment_id(result: Any) -> str:
    """Return a RemoteLogSegmentId in Java's text."""
    texts = {"topicIdPartition": _format_topic_partition(result.topic_id_partition), "id": uuid_to_text(result.id)}
    return _format_java_object("RemoteLogSegmentId", texts)


def _format_topic_partition(result: Any) -> str:
    """Return a TopicIdPartition in Java's text."""
    return f"{uuid_to_text(result.id)}:{result.name}-{result.partition}"


def _format_custom_metadata(data: bytes | None) -> str:
    """Return custom metadata in Java's text."""
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _name_state(names: tuple[str, ...], number: int) -> str:
    """Return the name of a state. An unknown number raises ``DecodeError``."""
    if not 0 <= number < len(names):
        raise DecodeError(f"unknown state {number}", position=0)
    return names[number]
