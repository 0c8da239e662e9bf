"""``explain_message``, ``explain_records``, ``compare_messages`` and ``encode_message`` match the commands."""

from __future__ import annotations

import json

import pytest
from tests.cli.calling import ask

import kafkaframes
from kafkaframes.errors import DecodeError, OptionError, SpecError
from kafkaframes.protocol import compare_messages, encode_message, explain_message, explain_records

VALUES = {"topics": None, "allowAutoTopicCreation": True, "includeTopicAuthorizedOperations": False}


def test_a_request_is_encoded_and_explained():
    frame = encode_message("MetadataRequest", 12, VALUES, frame=True, correlation_id=7, client_id="me")
    explanation = explain_message(frame)
    assert explanation.error is None
    (header_name, _, header), (name, version, body) = explanation.messages
    assert (header_name, header.correlation_id, header.client_id) == ("RequestHeader", 7, "me")
    assert (name, version, body.topics) == ("MetadataRequest", 12, None)
    assert b"".join(frame[field.start : field.end] for field in explanation.fields) == frame
    assert repr(explanation) == ask("decode", frame.hex()).stdout.rstrip("\n")
    assert explanation.to_dict() == json.loads(ask("decode", frame.hex(), "--json").stdout)
    body_bytes = encode_message("MetadataRequest", 12, VALUES)
    assert frame.endswith(body_bytes)
    assert ask("encode", "MetadataRequest", "12", json.dumps(VALUES)).stdout.strip() == body_bytes.hex()


def test_truncated_bytes_are_explained_up_to_the_error():
    frame = encode_message("MetadataRequest", 12, VALUES, header=True)
    for size in range(len(frame)):
        explanation = explain_message(frame[:size])
        assert isinstance(explanation.error, DecodeError)
        assert explanation.position <= size
    with pytest.raises(OptionError, match="`version` is needed"):
        explain_message(b"", api="Metadata")
    with pytest.raises(SpecError):
        explain_message(b"", message="NoMessage", version=1)


def test_encodings_are_compared_field_by_field():
    first = encode_message("MetadataRequest", 12, VALUES)
    second = encode_message("MetadataRequest", 12, VALUES | {"allowAutoTopicCreation": False})
    assert compare_messages(first, first, message="MetadataRequest", version=12).is_equal
    comparison = compare_messages(first, second, message="MetadataRequest", version=12)
    assert not comparison.is_equal
    (line,) = comparison.lines()
    assert "AllowAutoTopicCreation" in line
    assert len(list(comparison.lines(all_fields=True))) == len(comparison.pairs)
    command = ask("diff", first.hex(), second.hex(), "--message", "MetadataRequest", "--version", "12")
    assert (command.exit_code, command.stdout.strip()) == (1, line.strip())
    comparison = compare_messages(first, first[:-1], message="MetadataRequest", version=12)
    assert not comparison.is_equal
    assert list(comparison.lines())[-1].startswith("! right: ")


def test_records_are_explained_with_their_damage():
    batch = kafkaframes.build_records({"key": [b"k"] * 3, "value": [b"v"] * 3}, codec="gzip")
    explanation = explain_records(batch)
    assert explanation.error is None
    assert [part.title == "" for part in explanation.parts] == [True, False]  # the batch, and its decompressed records
    assert len(explain_records(batch, depth=1).parts) == 1
    assert len(explanation.to_dict()["batches"][0]["records"]) == 3
    assert explanation.to_dict()["error"] is None
    assert explain_records(batch[:-1]).error is not None
    assert explain_records(batch[:-1]).to_dict()["error"] is not None
