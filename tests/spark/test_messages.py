"""Spark functions on messages: whole batches through the kernels in the workers, invalid rows as ``_error``."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.functions import when
from tests.protocol.messages.values import make_value

from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages import headers, message
from kafkaframes.spark.functions import decode_message, decode_request, decode_response, encode_message

pytestmark = pytest.mark.spark


def one_task(spark, rows, schema):
    """Create a DataFrame with one partition: then one worker runs the job, and loads the kernels once."""
    return spark.createDataFrame(rows, schema).coalesce(1)


@pytest.fixture(scope="module")
def metadata(spark):
    cls = message("MetadataResponse")
    values = [make_value(cls, 12, seed, unknown_tags=True) for seed in range(6)]
    rows = [(index, value.encode(12)) for index, value in enumerate(values)]
    return one_task(spark, [*rows, (20, b"\x00"), (21, None)], "id int, data binary"), rows


def test_messages_are_decoded_to_structs_and_encoded_again(metadata):
    frame, rows = metadata
    decoded_frame = frame.select("id", decode_message("data", "MetadataResponse", 12).alias("m"))
    whole = when(decoded_frame["m._error"].isNull() & (decoded_frame["id"] < 20), decoded_frame["m"])
    collected_rows = decoded_frame.select(
        "id", "m", encode_message(whole, "MetadataResponse", 12).alias("again")
    ).collect()
    assert sorted((row["id"], bytes(row["again"])) for row in collected_rows if row["again"]) == rows
    messages = {row["id"]: row["m"] for row in collected_rows}
    assert "byte" in messages[20]["_error"]
    assert messages[20]["topics"] is None
    topics = message("MetadataResponse").decode(rows[0][1], 12).topics
    assert [topic["name"] for topic in messages[0]["topics"]] == [topic.name for topic in topics]
    assert [bytes(topic["topicId"]) for topic in messages[0]["topics"]] == [topic.topic_id.bytes for topic in topics]


def test_frames_of_one_api_and_of_any(spark):
    bodies = [
        (message("HeartbeatRequest")(group_id="g", member_id="m"), 4),
        (message("MetadataRequest")(), 12),
    ]
    bodies[0][0].unknown_tags = [(17, b"body")]
    tags = [(99, b"trace")]
    frames = [
        (headers.encode_request(body, version, correlation_id=7, client_id="c", header_tags=tags),)
        for body, version in bodies
    ]
    frame = one_task(spark, [*frames, (b"\x00\x0c\x00\x04",)], "data binary")
    collected_rows = frame.select(
        decode_request("data").alias("any"), decode_request("data", 12, 4).alias("typed")
    ).collect()
    rows = [row["any"] for row in collected_rows]
    assert [row["name"] for row in rows] == ["HeartbeatRequest", "MetadataRequest", None]
    assert json.loads(rows[0]["body"])["groupId"] == "g"
    assert json.loads(rows[0]["body"])["_unknownTags"] == [{"tag": 17, "data": "Ym9keQ=="}]
    assert json.loads(rows[0]["header"])["_unknownTags"] == [{"tag": 99, "data": "dHJhY2U="}]
    assert rows[2]["_error"]
    typed_message = collected_rows[0]["typed"]
    assert (typed_message["header"]["correlationId"], typed_message["body"]["groupId"], typed_message["_error"]) == (
        7,
        "g",
        None,
    )
    assert [row["typed"]["_error"] is None for row in collected_rows] == [True, False, False]


def test_responses_and_the_response_to_an_unknown_version(spark):
    cls = message("ApiVersionsResponse")
    supported_response, old = cls(error_code=0, throttle_time_ms=3), cls(error_code=35)
    frames = [
        (headers.encode_response(supported_response, 4, correlation_id=1),),
        (headers.encode_response(old, 0, correlation_id=2),),
    ]
    frame = one_task(spark, [*frames, (b"",)], "data binary").select(decode_response("data", 18, 4).alias("r"))
    rows = frame.select("r.header.correlationId", "r.body.errorCode", "r._error").collect()
    assert [row[:2] for row in rows] == [(1, 0), (2, 35), (None, None)]
    assert [row[2] is None for row in rows] == [True, True, False]


def test_unknown_names_are_rejected_before_the_job_starts():
    with pytest.raises(OptionError, match="no version 99"):
        decode_message("data", "MetadataResponse", 99)
    with pytest.raises(OptionError):
        decode_response("data", 999, 0)
    with pytest.raises(OptionError, match="or neither"):
        decode_request("data", 3)
