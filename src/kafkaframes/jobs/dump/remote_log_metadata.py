"""Records of ``__remote_log_metadata`` in the text of kafka-dump-log: ``toString`` of Java objects, not JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkaframes.errors import DecodeError
from kafkaframes.wire.primitives import uuid_to_text

Texts = tuple[str | None, str | None]
Decoder = Callable[[int, bytes | None, bytes | None], Texts]
_COPY_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
_DELETE_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def remote_log_metadata(*, with_index: bool) -> Decoder:
    """Return the decoder of ``__remote_log_metadata``. Its records have no key.

    If ``with_index``, the text of a segment has ``txnIdxEmpty``, as since Kafka 4.0.
    """
    from kafkaframes.protocol.messages import envelopes

    def decode(offset: int, key: bytes | None, value: bytes | None) -> Texts:
        try:
            record = envelopes.decode_metadata_record("__remote_log_metadata", value or b"")
            return None, _REMOTE_TEXTS[record.type](record.value, with_index)
        except DecodeError as error:
            return None, f"Error at offset {offset}, skipping. {error}"

    return decode


def _remote_segment(result: Any, with_index: bool) -> str:
    texts = {
        "remoteLogSegmentId": _segment_id(result.remote_log_segment_id),
        "startOffset": result.start_offset,
        "endOffset": result.end_offset,
        "brokerId": result.broker_id,
        "maxTimestampMs": result.max_timestamp_ms,
        "eventTimestampMs": result.event_timestamp_ms,
    }
    return _java("RemoteLogSegmentMetadata", texts | _of_segment(result, with_index))


def _remote_update(result: Any, _: bool) -> str:
    texts = {
        "remoteLogSegmentId": _segment_id(result.remote_log_segment_id),
        "customMetadata": _custom(result.custom_metadata),
        "state": _format_names(_COPY_STATES, result.remote_log_segment_state),
        "eventTimestampMs": result.event_timestamp_ms,
        "brokerId": result.broker_id,
    }
    return _java("RemoteLogSegmentMetadataUpdate", texts)


def _remote_deletion(result: Any, _: bool) -> str:
    texts = {
        "topicPartition": _topic_partition(result.topic_id_partition),
        "state": _format_names(_DELETE_STATES, result.remote_partition_delete_state),
        "eventTimestampMs": result.event_timestamp_ms,
        "brokerId": result.broker_id,
    }
    return _java("RemotePartitionDeleteMetadata", texts)


def _remote_snapshot(result: Any, with_index: bool) -> str:
    texts = {
        "segmentId": uuid_to_text(result.segment_id),
        "startOffset": result.start_offset,
        "endOffset": result.end_offset,
        "maxTimestampMs": result.max_timestamp_ms,
    }
    return _java("RemoteLogSegmentMetadataSnapshot", texts | _of_segment(result, with_index))


_REMOTE_TEXTS: Mapping[int, Callable[[Any, bool], str]] = {
    0: _remote_segment,
    1: _remote_update,
    2: _remote_deletion,
    3: _remote_snapshot,
}


def _of_segment(result: Any, with_index: bool) -> dict[str, object]:
    epochs = dict(sorted((one.leader_epoch, one.offset) for one in result.segment_leader_epochs))
    texts = {
        "segmentLeaderEpochs": f"{{{', '.join(f'{epoch}={start}' for epoch, start in epochs.items())}}}",
        "segmentSizeInBytes": result.segment_size_in_bytes,
        "customMetadata": _custom(result.custom_metadata),
        "state": _format_names(_COPY_STATES, result.remote_log_segment_state),
    }
    return texts | ({"txnIdxEmpty": "true" if result.txn_index_empty else "false"} if with_index else {})


def _java(name: str, texts: Mapping[str, object]) -> str:
    return f"{name}{{{', '.join(f'{key}={value}' for key, value in texts.items())}}}"


def _segment_id(result: Any) -> str:
    texts = {"topicIdPartition": _topic_partition(result.topic_id_partition), "id": uuid_to_text(result.id)}
    return _java("RemoteLogSegmentId", texts)


def _topic_partition(result: Any) -> str:
    return f"{uuid_to_text(result.id)}:{result.name}-{result.partition}"


def _custom(data: bytes | None) -> str:
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _format_names(names: tuple[str, ...], number: int) -> str:
    if not 0 <= number < len(names):
        raise DecodeError(f"unknown state {number}", position=0)
    return names[number]
