"""The JSON form of unknown tags, which Kafka does not have. ``make agreement`` compares the other parts with Kafka."""

from __future__ import annotations

import base64
import json

import pytest

from kafkaframes.errors import EncodeError
from kafkaframes.protocol.messages import message
from kafkaframes.storage.log.internal_topics import decode_record

VALUE = message("OffsetCommitValue")
FORM = {"offset": 1, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 0}


def test_unknown_tags_are_last_in_their_struct():
    form = VALUE(offset=1, unknown_tags=[(17, b"later")]).to_json(4)
    assert list(form)[-1] == "_unknownTags"
    assert form["_unknownTags"] == [{"tag": 17, "data": base64.b64encode(b"later").decode()}]
    assert "_unknownTags" not in VALUE(offset=1).to_json(4)
    assert VALUE.from_json(form, 4).unknown_tags == [(17, b"later")]


def test_duplicate_tags_of_reference_mode_are_shown_but_not_encoded():
    twice = VALUE().encode(4)[:-1] + bytes.fromhex("02 14 00 14 00")
    value = VALUE.decode(twice, 4)
    assert value.to_json(4)["_unknownTags"] == [{"tag": 20, "data": ""}] * 2
    with pytest.raises(EncodeError, match="unknown tag 20 follows tag 20"):
        VALUE.from_json(value.to_json(4), 4).encode(4)


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        (None, "expected an array, found null"),
        ({}, "expected an array, found an object"),
        ([7], r"expected .*found 7 .*\$._unknownTags\[0\]"),
        ([{"tag": 1}], "found an object"),
        ([{"tag": 1, "data": "", "more": 1}], "found an object"),
        ([{"tag": "1", "data": ""}], "whole number"),
        ([{"tag": True, "data": ""}], "whole number"),
        ([{"tag": 2**31, "data": ""}], "expected a number from"),
        ([{"tag": 1, "data": "%"}], "base64"),
        ([{"tag": 1, "data": 7}], "expected a text"),
    ],
)
def test_an_invalid_list_of_tags_is_rejected_with_its_path(tags, reason):
    with pytest.raises(EncodeError, match=reason):
        VALUE.from_json({**FORM, "_unknownTags": tags}, 4)


@pytest.mark.parametrize(
    ("tag", "version", "reason"),
    [(-1, 4, "expected ascending tags"), (0, 4, "topicId"), (9, 3, "tagged fields are set")],
)
def test_tags_that_cannot_be_encoded_are_rejected(tag, version, reason):
    cls = message("OffsetCommitValue")
    value = cls.from_json({**FORM, "_unknownTags": [{"tag": tag, "data": ""}]}, version)
    with pytest.raises(EncodeError, match=reason):
        value.encode(version)


def test_tag_data_of_another_type_is_an_error():
    with pytest.raises(EncodeError, match="unknown tag 1: expected bytes, found str"):
        VALUE(unknown_tags=[(1, "text")]).to_json(4)


def test_records_of_internal_topics_show_unknown_tags():
    key = bytes.fromhex("0001") + message("OffsetCommitKey")(group="g", topic="t", partition=0).encode(0)
    decoded_record = decode_record("__consumer_offsets", key, b"\x00\x04" + VALUE(unknown_tags=[(17, b"x")]).encode(4))
    assert decoded_record.error is None
    assert '"_unknownTags":[{"tag":17,"data":"eA=="}]' in decoded_record.value


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN"])
def test_numbers_outside_json_are_texts_like_in_kafka(number):
    form = message("ClientQuotaRecord")(value=float(number)).to_json(0)
    assert form["value"] == number
    json.dumps(form, allow_nan=False)
    assert repr(message("ClientQuotaRecord").from_json(form, 0).value) == repr(float(number))


@pytest.mark.parametrize(
    ("given_number", "expected_number"), [(127, 127), (128, 0), (255, 127), (256, -128), (-128, -128)]
)
def test_an_int8_is_read_like_by_the_converter_of_kafka(given_number, expected_number):
    form = message("DescribeConfigsRequest")().to_json(1)
    form["resources"] = [{"resourceType": given_number, "resourceName": "", "configurationKeys": None}]
    assert message("DescribeConfigsRequest").from_json(form, 1).resources[0].resource_type == expected_number


def test_an_int8_above_256_is_rejected():
    form = message("DescribeConfigsRequest")().to_json(1)
    form["resources"] = [{"resourceType": 257, "resourceName": "", "configurationKeys": None}]
    with pytest.raises(EncodeError, match=r"257 is not a valid int8"):
        message("DescribeConfigsRequest").from_json(form, 1)
