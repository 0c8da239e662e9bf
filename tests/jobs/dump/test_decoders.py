"""Kafka's internal topics as text: examples in each version's format. The kind ``dumplog`` compares real ones."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import OptionError
from kafkaframes.jobs.dump.decoders import DECODERS, find_decoder, format_control_record, sort_by_scala_hash
from kafkaframes.jobs.dump.styles import STYLES
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import encode_coordinator_record, encode_metadata_record, encode_versioned


def group_record(assignment: bytes, protocol_type: str = "consumer"):
    cls = message("GroupMetadataValue")
    member = {"memberId": "m", "groupInstanceId": None, "clientId": "c", "clientHost": "/h", "rebalanceTimeout": 1}
    member |= {"sessionTimeout": 1, "subscription": "", "assignment": b64encode(assignment).decode()}
    group = {"protocolType": protocol_type, "generation": 3, "protocol": "range", "leader": "m", "members": [member]}
    value = cls.from_json(group | {"currentStateTimestamp": 1}, 3)
    return encode_coordinator_record(message("GroupMetadataKey")(group="g"), value, 3)


ASSIGNED_PARTITIONS = {"assignedPartitions": [{"topic": "in", "partitions": [0, 1]}], "userData": None}
ASSIGNMENT = encode_versioned(message("ConsumerProtocolAssignment").from_json(ASSIGNED_PARTITIONS, 1), 1)


def test_a_group_is_printed_in_the_format_of_2_8():
    decode = DECODERS["offsets"](STYLES["2.8"])
    assert decode(0, *group_record(ASSIGNMENT)) == (
        "group_metadata::group=g",
        '{"protocolType":"consumer","protocol":"range","generationId":3,"assignment":"{m=[in-0, in-1]}"}',
    )
    assert '{m=BEEF}"' in decode(0, *group_record(b"\xbe\xef", "connect"))[1]


def test_a_group_in_json_has_its_decoded_members():
    decode = DECODERS["offsets"](STYLES["4.3"])
    key, value = decode(0, *group_record(ASSIGNMENT))
    assert key == '{"type":"2","data":{"group":"g"}}'
    assert (
        '"subscription":"","assignment":{"assignedPartitions":[{"topic":"in","partitions":[0,1]}],"userData":null}'
        in value
    )
    assert '"assignment":"vu8="' in decode(0, *group_record(b"\xbe\xef", "connect"))[1]


def test_a_tombstone_is_printed():
    key, _ = encode_coordinator_record(message("OffsetCommitKey")(group="g", topic="t", partition=1), None, None)
    for style, text in (("4.3", '{"type":"1","data":{"group":"g","topic":"t","partition":1}}'),):
        assert DECODERS["offsets"](STYLES[style])(0, key, None) == (text, "<DELETE>")
    assert DECODERS["offsets"](STYLES["2.8"])(0, key, None) == ("offset_commit::group=g,partition=t-1", "<DELETE>")


def test_metadata_records_have_kafkas_names():
    raw = encode_metadata_record(message("NoOpRecord")(), 0)
    decode = DECODERS["cluster-metadata"](STYLES["4.3"])
    assert decode(5, None, raw) == (None, '{"type":"NO_OP_RECORD","version":0,"data":{}}')


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("name", DECODERS)
@given(key=st.none() | st.binary(max_size=40), value=st.none() | st.binary(max_size=60))
def test_any_bytes_are_decoded_to_texts(name, style, key, value):
    texts = DECODERS[name](style)(7, key, value)
    assert len(texts) == 2
    assert all(text is None or isinstance(text, str) for text in texts)


@given(
    kind=st.sampled_from(["LEADER_CHANGE", "SNAPSHOT_HEADER", "KRAFT_VOTERS", "COMMIT"]), value=st.binary(max_size=40)
)
def test_any_control_record_is_decoded_to_text_or_none(kind, value):
    text = format_control_record(kind, value)
    assert text is None or text.endswith("}")


def test_partitions_have_the_order_of_scalas_set():
    assert sort_by_scala_hash([("tx", 0), ("tx", 1)]) == [("tx", 1), ("tx", 0)]
    many = [("t", number) for number in range(40)]
    assert sorted(sort_by_scala_hash(many)) == many


def test_an_unknown_decoder_is_rejected():
    with pytest.raises(OptionError, match="expected one of offsets, transaction-log"):
        find_decoder("avro", STYLES["4.3"])
