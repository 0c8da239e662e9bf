"""Records of internal topics: round trips of every type, conventions before and since 4.0, and invalid records."""

import pytest
from tests.protocol.messages.values import make_value

from kafkaframes.errors import DecodeError, EncodeError, OptionError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import (
    COORDINATOR_TOPICS,
    METADATA_TOPICS,
    decode_coordinator_record,
    decode_metadata_record,
    decode_versioned,
    encode_coordinator_record,
    encode_metadata_record,
    encode_versioned,
    record_names,
)

COORDINATOR_RECORDS = [
    pytest.param(topic, number, name, id=name)
    for topic, module in COORDINATOR_TOPICS.items()
    for number, name in record_names(module, "coordinator-key").items()
    if message(name).spec.type == "coordinator-key"
]
METADATA_RECORDS = [
    pytest.param(topic, name, id=name)
    for topic, module in METADATA_TOPICS.items()
    for name in record_names(module, "metadata").values()
]


@pytest.mark.parametrize(("topic", "number", "name"), COORDINATOR_RECORDS)
def test_every_coordinator_record_survives_a_round_trip(topic, number, name):
    key = make_value(message(name), 0, 0)
    value_cls = message(name.removesuffix("Key") + "Value")
    for version in value_cls.spec.valid_versions:
        value = make_value(value_cls, version, 0)
        raw_key, raw_value = encode_coordinator_record(key, value, version)
        record = decode_coordinator_record(topic, raw_key, raw_value, mode="strict")
        assert (record.type, record.key, record.value, record.value_version) == (number, key, value, version)
    raw_key, tombstone = encode_coordinator_record(key, None, None)
    assert tombstone is None
    assert decode_coordinator_record(topic, raw_key, None).value is None


@pytest.mark.parametrize(("topic", "name"), METADATA_RECORDS)
def test_every_metadata_record_survives_a_round_trip(topic, name):
    cls = message(name)
    for version in cls.spec.valid_versions:
        value = make_value(cls, version, 0)
        data = encode_metadata_record(value, version)
        record = decode_metadata_record(topic, data, mode="strict")
        assert (record.type, record.version, record.value) == (cls.spec.api_key, version, value)
        with pytest.raises(DecodeError, match="bytes remain"):
            decode_metadata_record(topic, data + b"!")


def test_an_offset_commit_has_the_specified_bytes():
    # key: type 1, "g", "t", partition 2; value version 1: offset 5, metadata "", commit time 7, expires 8
    key = bytes.fromhex("0001 0001 67 0001 74 00000002")
    value = bytes.fromhex("0001 0000000000000005 0000 0000000000000007 0000000000000008")
    record = decode_coordinator_record("__consumer_offsets", key, value)
    assert (record.key.group, record.key.topic, record.key.partition) == ("g", "t", 2)
    assert (record.value.offset, record.value.expire_timestamp, record.value_version) == (5, 8, 1)
    # the oldest keys, type 0, are also before newer values
    oldest = decode_coordinator_record("__consumer_offsets", b"\0\0" + key[2:], value)
    assert (type(oldest.key).__name__, oldest.value) == ("LegacyOffsetCommitKey", record.value)


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("00", None, "$.key"),
        ("7fff", None, "no record of type 32767"),
        ("0001 0001 67", None, "$.key.topic"),
        ("0001 0001 67 0001 74 00000002", "", "$.value"),
        ("0001 0001 67 0001 74 00000002", "0063", "expected 0-4"),
        ("0001 0001 67 0001 74 00000002 00", None, "bytes remain"),
    ],
)
def test_an_invalid_coordinator_record_has_an_error_position(key, value, place):
    with pytest.raises(DecodeError) as caught:
        decode_coordinator_record(
            "__consumer_offsets", bytes.fromhex(key), None if value is None else bytes.fromhex(value)
        )
    assert place in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ("", "varint"),
        ("00 00 00", "frame version 0"),
        ("02", "version 2"),
        ("01 7f 00", "type 127"),
        ("01 14 09 00", "expected 0"),
    ],
)
def test_an_invalid_metadata_record_has_an_error_position(raw, place):
    with pytest.raises(DecodeError) as caught:
        decode_metadata_record("__cluster_metadata", bytes.fromhex(raw))
    assert place in str(caught.value)


def test_versioned_values_of_the_consumer_protocol_are_decoded():
    cls = message("ConsumerProtocolSubscription")
    value = cls(topics=["a"], user_data=b"x")
    data = encode_versioned(value, 1)
    assert decode_versioned(cls.__name__, data) == (value, 1)
    newer = b"\x00\x63" + cls(topics=["a"]).encode(3) + b"of a later version"
    assert decode_versioned(cls.__name__, newer) == (cls(topics=["a"]), 99)
    for broken_bytes in (data + b"!", data[:-1], b"\xff\xff", b""):
        with pytest.raises(DecodeError):
            decode_versioned(cls.__name__, broken_bytes)


def test_other_topics_and_messages_are_rejected():
    with pytest.raises(OptionError, match="__consumer_offsets"):
        decode_coordinator_record("orders", b"", None)
    with pytest.raises(OptionError, match="__cluster_metadata"):
        decode_metadata_record("orders", b"")
    with pytest.raises(EncodeError):
        encode_coordinator_record(message("OffsetCommitValue")(), None, None)
    with pytest.raises(EncodeError):
        encode_metadata_record(message("OffsetCommitValue")(), 0)
