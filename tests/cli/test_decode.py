"""``kafkaframes decode``: the text for valid and invalid bytes."""

import base64
import json

import pytest
from tests.cli.calling import run_and_describe as run
from tests.protocol.messages.values import make_value

import kafkaframes
from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.annotate import annotate_body
from kafkaframes.protocol.messages.headers import encode_request
from kafkaframes.protocol.spec import catalog

HEARTBEAT = "00000017 000c0004 00000007 00026d65 00 0267 00000005 026d 00 00"


def test_a_request_frame_is_identified_by_its_header():
    code, text, _ = run("decode", HEARTBEAT)
    assert code == 0, text
    lines = text.splitlines()
    assert lines[:2] == ["# RequestHeader version 2", "# HeartbeatRequest version 4"]
    assert [line.split()[0] for line in lines[2:6]] == ["00000000", "00000004", "00000006", "00000008"]
    assert "0000000c  00 02 6d 65" in text
    assert "RequestHeader.ClientId" in text
    assert lines[8].split() == ["00000011", "02", "67", "HeartbeatRequest.GroupId", "'g'"]


def test_invalid_bytes_are_shown_up_to_the_error():
    code, text, error = run("decode", HEARTBEAT[:-6])
    assert code == 1  # click's status; the program's entry point prints one line and exits with status 2
    assert "HeartbeatRequest.GenerationId" in text
    assert isinstance(error, DecodeError)
    assert "Size " in text  # the frame is shorter than its size, and still recognized
    code, text, error = run("decode", HEARTBEAT[9:] + "ffff")
    assert "2 bytes not understood" in text
    assert "bytes remain" in str(error)


def test_the_field_name_of_an_older_release_is_next_to_the_current_one():
    fetch = message("FetchRequest")
    topic = fetch.FetchTopic(topic="t", partitions=[fetch.FetchPartition(partition=0)])
    frame = encode_request(fetch(topics=[topic]), 11, client_id="x").hex()
    code, text, _ = run("decode", frame, "--names-of", "2.6")
    assert code == 0
    assert "FetchRequest.Topics[0].Topic = Name in 2.6 " in text
    assert "FetchRequest.Topics[0].Partitions = FetchPartitions in 2.6 (count)" in text
    assert run("decode", frame, "--names-of", "4.4")[1] == run("decode", frame)[1]


@pytest.mark.parametrize("name", catalog.list_names())
def test_every_byte_of_every_message_belongs_to_one_run(name):
    cls = message(name)
    version = cls.spec.valid_versions.highest
    data = make_value(cls, version, 2, unknown_tags=True).encode(version)
    annotated_body = annotate_body(data, cls, version)
    assert annotated_body.error is None
    ends = [0, *(run.end for run in annotated_body.runs)]
    assert [run.start for run in annotated_body.runs] == ends[:-1]
    assert ends[-1] == len(data)


def test_long_values_are_truncated_by_default():
    body = message("FetchResponse").PartitionData(records=bytes(300))
    value = message("FetchResponse")(responses=[message("FetchResponse").FetchableTopicResponse(partitions=[body])])
    arguments = ("decode", value.encode(12).hex(), "--message", "FetchResponse", "--version", "12")
    assert "bytes more" in run(*arguments)[1]
    assert "bytes more" not in run(*arguments, "--all")[1]


def test_records_are_recognised_by_their_magic_and_shown_byte_by_byte(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(kafkaframes.build_records({"value": [b"v", b"w"], "timestamp": [1000, 1300]}, codec="gzip"))
    code, text, _ = run("decode", str(path))
    assert code == 0, text
    assert "batches[0].attributes" in text
    assert "# batches[0].records, decompressed:" in text
    assert "300 -> 1300  zig-zag of 600, 11011000 00000100" in text
    assert "zig-zag" not in run("decode", str(path), "--depth", "1")[1]


def test_json_of_records_lists_their_batches(tmp_path):
    path = tmp_path / "batch"
    rows = {"key": [b"k", None], "value": [b"v", b"w"], "headers": [[("h", b"1")], []], "timestamp": [1000, 1300]}
    path.write_bytes(kafkaframes.build_records(rows, codec="gzip"))
    (batch,) = json.loads(run("decode", str(path), "--records", "--json")[1])
    assert (batch["magic"], batch["codec"], batch["baseOffset"], batch["damage"]) == (2, "gzip", 0, None)
    assert [(one["offset"], one["timestamp"], one["key"], one["value"]) for one in batch["records"]] == [
        (0, 1000, "aw==", "dg=="),
        (1, 1300, None, "dw=="),
    ]
    assert batch["records"][0]["headers"] == [{"rawKey": "aA==", "value": "MQ=="}]
    path.write_bytes(path.read_bytes() + b"rest")
    code, text, error = run("decode", str(path), "--records", "--json")
    assert (code, len(json.loads(text))) == (1, 1)
    assert isinstance(error, DecodeError)


def test_damaged_records_are_shown_up_to_the_damage(tmp_path):
    data = bytearray(kafkaframes.build_records({"value": [b"v", b"w"]}))
    data[61] = 0x7F  # a negative length
    (tmp_path / "batch").write_bytes(data)
    code, text, error = run("decode", str(tmp_path / "batch"), "--records")
    assert code != 0
    assert isinstance(error, DecodeError)
    assert "wrong: computed" in text
    assert "bytes not understood" in text


def test_batches_inside_a_produce_request_are_shown():
    records = kafkaframes.build_records({"value": [b"hello"]})
    partition = {"index": 0, "records": base64.b64encode(records).decode()}
    topic = {"name": "t", "partitionData": [partition]}
    form = {"transactionalId": None, "acks": 1, "timeoutMs": 5, "topicData": [topic]}
    body = message("ProduceRequest").from_json(form, 9).encode(9)
    plain = run("decode", body.hex(), "--message", "ProduceRequest", "--version", "9")[1]
    assert "value_length" not in plain
    code, text, _ = run("decode", body.hex(), "--message", "ProduceRequest", "--version", "9", "--depth", "2")
    assert code == 0, text
    assert "batches[0].records[0].value_length" in text
    start = body.index(records)
    assert f"{start:08x}  00 00 00 00 00 00 00 00" in text
    assert "0 -> 0  zig-zag of 0, 00000000" in text
