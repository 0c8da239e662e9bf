"""Decoded records of Kafka's own topics: an example of every topic, and no bytes raise an exception."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.dump.test_decoders import ASSIGNED_PARTITIONS, ASSIGNMENT, group_record

from kafkaframes.errors import OptionError
from kafkaframes.jobs.dump.decoders import DECODERS
from kafkaframes.jobs.dump.styles import STYLES
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import encode_coordinator_record, encode_metadata_record
from kafkaframes.records.fields import CONTROL_TYPES
from kafkaframes.storage.log.internal_topics import (
    CONTROL_VALUE_MESSAGES,
    READABLE_TOPICS,
    InternalRecord,
    decode_control_record,
    decode_record,
)

KEY = message("OffsetCommitKey")(group="g", topic="t", partition=1)
VALUE = message("OffsetCommitValue")(offset=7, commit_timestamp=5)
# A record of a Kafka 4.3 cluster, and its text in kafka-dump-log 4.3.1 and 3.9.1 (which omits the last field).
REMOTE_SEGMENT = {
    "remoteLogSegmentId": {
        "topicIdPartition": {"name": "orders-short", "id": "IcZ1KKnsRKWa-qx9t1wPjg", "partition": 0},
        "id": "zFY6EBxZTk61Bmk0FuyYBQ",
    },
    "startOffset": 0,
    "endOffset": 329,
    "brokerId": 1,
    "maxTimestampMs": 1760001060786,
    "eventTimestampMs": 1795259996947,
    "segmentLeaderEpochs": [{"leaderEpoch": 2, "offset": 100}, {"leaderEpoch": 0, "offset": 0}],
    "segmentSizeInBytes": 56814,
    "customMetadata": "AAEC",
    "remoteLogSegmentState": 0,
}
REMOTE_SEGMENT_ID = (
    "RemoteLogSegmentId{topicIdPartition=IcZ1KKnsRKWa-qx9t1wPjg:orders-short-0, id=zFY6EBxZTk61Bmk0FuyYBQ}"
)
REMOTE_SEGMENT_TEXTS = (
    f"RemoteLogSegmentMetadata{{remoteLogSegmentId={REMOTE_SEGMENT_ID}, startOffset=0, endOffset=329, brokerId=1, "
    "maxTimestampMs=1760001060786, eventTimestampMs=1795259996947, segmentLeaderEpochs={0=0, 2=100}, "
    "segmentSizeInBytes=56814, customMetadata=Optional[CustomMetadata{3 bytes}], state=COPY_SEGMENT_STARTED"
)


def remote(name: str, data: dict) -> bytes:
    return encode_metadata_record(message(name).from_json(data, 0), 0)


def test_offset_commits_tombstones_and_invalid_values_are_decoded():
    key, value = encode_coordinator_record(KEY, VALUE, 3)
    decoded_record = decode_record("__consumer_offsets", key, value)
    assert decoded_record[:2] == ("OffsetCommit", 3)
    assert json.loads(decoded_record.key) == {"group": "g", "topic": "t", "partition": 1}
    assert json.loads(decoded_record.value)["offset"] == 7
    assert decode_record("__consumer_offsets", key, None) == decoded_record._replace(version=None, value=None)
    broken_record = decode_record("__consumer_offsets", key, value[:-1])
    assert broken_record[:4] == ("OffsetCommit", None, decoded_record.key, None)
    assert "$.value" in broken_record.error or "value" in broken_record.error


def test_members_of_a_consumer_group_are_decoded():
    decoded_record = decode_record("__consumer_offsets", *group_record(ASSIGNMENT))
    assert json.loads(decoded_record.value)["members"][0]["assignment"] == ASSIGNED_PARTITIONS
    other = decode_record("__consumer_offsets", *group_record(b"\xbe\xef", "connect"))
    assert json.loads(other.value)["members"][0]["assignment"] == "vu8="


def test_cluster_and_remote_log_metadata_are_decoded():
    assert decode_record("__cluster_metadata", None, encode_metadata_record(message("NoOpRecord")(), 0)) == (
        InternalRecord("NoOpRecord", 0, None, "{}")
    )
    decoded_record = decode_record(
        "__remote_log_metadata", None, remote("RemoteLogSegmentMetadataRecord", REMOTE_SEGMENT)
    )
    assert decoded_record.type == "RemoteLogSegmentMetadataRecord"
    assert json.loads(decoded_record.value) == REMOTE_SEGMENT


@pytest.mark.parametrize("kind", CONTROL_VALUE_MESSAGES)
def test_control_records_are_decoded(kind):
    key = b"\0\0" + CONTROL_TYPES.index(kind).to_bytes(2)
    body = message(CONTROL_VALUE_MESSAGES[kind])().encode(0)
    value = b"\0\0" + body if kind in ("ABORT", "COMMIT") else body
    decoded_record = decode_control_record(key, value)
    assert decoded_record[:2] == (kind, 0)
    assert isinstance(json.loads(decoded_record.value), dict)
    assert decoded_record.error is None
    assert decode_control_record(key, value[:1]).error
    assert decode_control_record(b"\0\0\x7f\0", value) == InternalRecord("UNKNOWN")
    assert decode_control_record(None, value).error


def test_other_topics_are_rejected():
    with pytest.raises(OptionError, match="orders"):
        decode_record("orders", b"", b"")


@given(st.sampled_from(READABLE_TOPICS), st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=60))
def test_any_bytes_are_decoded_without_an_exception(topic, key, value):
    decoded_record = decode_record(topic, key, value)
    assert (decoded_record.error is None) == (
        decoded_record.type is not None and (decoded_record.value is not None or value is None)
    )
    assert isinstance(decode_control_record(key, value), InternalRecord)


def test_remote_log_metadata_has_the_text_of_kafka():
    raw = remote("RemoteLogSegmentMetadataRecord", REMOTE_SEGMENT)
    decode = {name: DECODERS["remote-log-metadata"](STYLES[name]) for name in ("4.3", "3.9")}
    assert decode["4.3"](0, None, raw) == (None, REMOTE_SEGMENT_TEXTS + ", txnIdxEmpty=false}")
    assert decode["3.9"](0, None, raw) == (None, REMOTE_SEGMENT_TEXTS + "}")
    update = {name: REMOTE_SEGMENT[name] for name in ("remoteLogSegmentId", "brokerId", "eventTimestampMs")}
    raw = remote("RemoteLogSegmentMetadataUpdateRecord", update | {"customMetadata": None, "remoteLogSegmentState": 3})
    assert decode["4.3"](0, None, raw)[1] == (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={REMOTE_SEGMENT_ID}, customMetadata=Optional.empty, "
        "state=DELETE_SEGMENT_FINISHED, eventTimestampMs=1795259996947, brokerId=1}"
    )
    deleted_partition = {"topicIdPartition": REMOTE_SEGMENT["remoteLogSegmentId"]["topicIdPartition"], "brokerId": 1}
    deleted_partition |= {"eventTimestampMs": 5, "remotePartitionDeleteState": 1}
    assert decode["4.3"](0, None, remote("RemotePartitionDeleteMetadataRecord", deleted_partition))[1] == (
        "RemotePartitionDeleteMetadata{topicPartition=IcZ1KKnsRKWa-qx9t1wPjg:orders-short-0, "
        "state=DELETE_PARTITION_STARTED, eventTimestampMs=5, brokerId=1}"
    )
    deleted_partition["remotePartitionDeleteState"] = 9
    bad = decode["4.3"](7, None, remote("RemotePartitionDeleteMetadataRecord", deleted_partition))[1]
    assert bad.startswith("Error at offset 7, skipping. ")
