"""decode, encode, diff, spec show-codec: what a person sees, whole and broken."""

import base64
import json

import pytest
from click.testing import CliRunner
from tests.messages.values import make_value

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.errors import DecodeError, EncodeError, OptionError
from kafkaframes.messages import message
from kafkaframes.messages.annotate import annotate_body
from kafkaframes.messages.headers import encode_request
from kafkaframes.spec import catalog

HEARTBEAT = "00000017 000c0004 00000007 00026d65 00 0267 00000005 026d 00 00"


def run(*arguments, stdin=None):
    result = CliRunner().invoke(cli, arguments, input=stdin)
    return result.exit_code, result.output, result.exception


def test_a_request_names_itself():
    code, text, _ = run("decode", HEARTBEAT)
    assert code == 0, text
    lines = text.splitlines()
    assert lines[:2] == ["# RequestHeader version 2", "# HeartbeatRequest version 4"]
    assert [line.split()[0] for line in lines[2:6]] == ["00000000", "00000004", "00000006", "00000008"]
    assert "0000000c  00 02 6d 65" in text
    assert "RequestHeader.ClientId" in text
    assert lines[8].split() == ["00000011", "02", "67", "HeartbeatRequest.GroupId", "'g'"]


def test_with_and_without_its_size_from_a_file_or_stdin(tmp_path):
    raw = bytes.fromhex(HEARTBEAT)
    (tmp_path / "raw").write_bytes(raw)
    (tmp_path / "hex").write_text(raw.hex(":"))
    expected = json.loads(run("decode", HEARTBEAT, "--json")[1])
    assert expected["HeartbeatRequest"] == {"groupId": "g", "generationId": 5, "memberId": "m", "groupInstanceId": None}
    for arguments, stdin in (
        ((str(tmp_path / "raw"),), None),
        ((str(tmp_path / "hex"),), None),
        ((raw[4:].hex(),), None),
        (("-",), raw),
    ):
        assert json.loads(run("decode", *arguments, "--json", stdin=stdin)[1]) == expected


def test_responses_and_bodies_are_told():
    body = message("MetadataResponse")(cluster_id="c").encode(12)
    response = "0000000900" + body.hex()
    for arguments in (
        (response, "--api", "Metadata", "--version", "12"),
        (response, "--api", "3", "--version", "12"),
        (body.hex(), "--api", "Metadata", "--version", "12", "--body"),
        (body.hex(), "--message", "MetadataResponse", "--version", "12", "--mode", "strict"),
    ):
        code, text, _ = run("decode", *arguments)
        assert (code, "MetadataResponse.ClusterId" in text) == (0, True), text
    assert isinstance(run("decode", response, "--api", "Metadata")[2], OptionError)
    assert isinstance(run("decode", "zz")[2], OptionError)


def test_broken_bytes_are_shown_up_to_the_break():
    code, text, error = run("decode", HEARTBEAT[:-6])
    assert code == 1  # the entry point turns the error into one line and status 2
    assert "HeartbeatRequest.GenerationId" in text
    assert isinstance(error, DecodeError)
    assert "Size " in text  # the frame is shorter than it says, and still known
    code, text, error = run("decode", HEARTBEAT[9:] + "ffff")
    assert "2 bytes not understood" in text
    assert "left over" in str(error)


@pytest.mark.parametrize("name", catalog.names())
def test_every_byte_of_every_message_belongs_to_one_run(name):
    cls = message(name)
    version = cls.spec.valid_versions.highest
    data = make_value(cls, version, 2, unknown_tags=True).encode(version)
    annotated = annotate_body(data, cls, version)
    assert annotated.error is None
    ends = [0, *(run.end for run in annotated.runs)]
    assert [run.start for run in annotated.runs] == ends[:-1]
    assert ends[-1] == len(data)


def test_long_values_are_cut_unless_all_is_asked_for():
    body = message("FetchResponse").PartitionData(records=bytes(300))
    value = message("FetchResponse")(responses=[message("FetchResponse").FetchableTopicResponse(partitions=[body])])
    arguments = ("decode", value.encode(12).hex(), "--message", "FetchResponse", "--version", "12")
    assert "bytes more" in run(*arguments)[1]
    assert "bytes more" not in run(*arguments, "--all")[1]


def test_encode_is_the_inverse():
    form = '{"groupId": "g", "generationId": 5, "memberId": "m", "groupInstanceId": null}'
    framed = ("--frame", "--correlation-id", "7", "--client-id", "me")
    assert run("encode", "HeartbeatRequest", "4", form, *framed)[1].strip() == HEARTBEAT.replace(" ", "")
    assert run("encode", "HeartbeatRequest", "4", "-", stdin=form)[1].strip() == HEARTBEAT.replace(" ", "")[34:]
    tagged = run("encode", "HeartbeatRequest", "4", form, "--tag", "5=ff")[1].strip()
    assert tagged.endswith("00" + "01" + "05" + "01" + "ff")
    response = '{"throttleTimeMs": 0, "errorCode": 0}'
    assert (
        run("encode", "HeartbeatResponse", "4", response, "--header")[1].strip() == "0000000000" + "000000000000" + "00"
    )
    for bad, kind in (("{", OptionError), ("nowhere.json", OptionError), ("{}", EncodeError)):
        assert isinstance(run("encode", "HeartbeatRequest", "4", bad)[2], kind)
    assert isinstance(run("encode", "HeartbeatRequest", "4", form, "--tag", "x")[2], OptionError)


def test_unknown_tags_survive_json_in_header_body_and_structs():
    cls = message("OffsetCommitRequest")
    topic = cls.OffsetCommitRequestTopic(name="t", unknown_tags=[(17, b"in a struct"), (2**31 - 2, b"")])
    body = cls(group_id="g", topics=[topic], unknown_tags=[(3, bytes(range(256)))])
    frame = encode_request(body, 9, client_id="c", header_tags=[(10_001, b"trace")])
    forms = json.loads(run("decode", frame.hex(), "--json")[1])
    assert forms["RequestHeader"]["_unknownTags"] == [{"tag": 10_001, "data": "dHJhY2U="}]
    assert [one["tag"] for one in forms["OffsetCommitRequest"]["topics"][0]["_unknownTags"]] == [17, 2**31 - 2]
    text = json.dumps(forms["OffsetCommitRequest"])
    assert run("encode", "OffsetCommitRequest", "9", text)[1].strip() == body.encode(9).hex()
    both = run("encode", "OffsetCommitRequest", "9", text, "--tag", "1=ff", "--tag", "9=")[1].strip()
    assert [tag for tag, _ in cls.decode(bytes.fromhex(both), 9).unknown_tags] == [1, 3, 9]
    assert "tag 3" in str(run("encode", "OffsetCommitRequest", "9", text, "--tag", "3=ff")[2])


def test_diff_shows_what_differs():
    other = (
        HEARTBEAT.replace("00000005", "00000006").replace("00026d65 00", "00026d65 01 0501ff").replace("17", "1a", 1)
    )
    code, text, _ = run("diff", HEARTBEAT, other)
    assert code == 1
    assert "HeartbeatRequest.GenerationId" in text
    assert "RequestHeader (tag)" in text
    assert "GroupId" not in text
    assert run("diff", HEARTBEAT, HEARTBEAT)[:2] == (0, "")
    assert "GroupId" in run("diff", HEARTBEAT, HEARTBEAT, "--all")[1]
    assert "! right: " in run("diff", HEARTBEAT, HEARTBEAT[:-6])[1]


def test_show_codec_prints_the_functions():
    text = run("spec", "show-codec", "MetadataResponse", "12")[1]
    assert "def read_MetadataResponseTopic_array(buf, p, end, count):" in text
    assert "def write_MetadataResponse(o, put):" in text
    compile(text, "codec", "exec")


def test_records_are_known_by_their_magic_and_drawn_byte_by_byte(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(kafkaframes.build_records({"value": [b"v", b"w"], "timestamp": [1000, 1300]}, codec="gzip"))
    code, text, _ = run("decode", str(path))
    assert code == 0, text
    assert "batches[0].attributes" in text
    assert "# batches[0].records, decompressed:" in text
    assert "300 -> 1300  zig-zag of 600, 11011000 00000100" in text
    assert "zig-zag" not in run("decode", str(path), "--depth", "1")[1]


def test_damaged_records_are_drawn_up_to_the_damage(tmp_path):
    data = bytearray(kafkaframes.build_records({"value": [b"v", b"w"]}))
    data[61] = 0x7F  # a negative length
    (tmp_path / "batch").write_bytes(data)
    code, text, error = run("decode", str(tmp_path / "batch"), "--records")
    assert code != 0
    assert isinstance(error, DecodeError)
    assert "wrong: the bytes give" in text
    assert "bytes not understood" in text


def test_batches_inside_a_produce_request_unfold():
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
