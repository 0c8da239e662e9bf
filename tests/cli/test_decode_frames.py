"""Bytes named on the command line, and which message they are."""

import json

from tests.cli.calling import run_and_describe as run

from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages import message

HEARTBEAT = "00000017 000c0004 00000007 00026d65 00 0267 00000005 026d 00 00"


def test_frames_are_read_with_or_without_size_from_a_file_or_stdin(tmp_path):
    raw = bytes.fromhex(HEARTBEAT)
    (tmp_path / "raw").write_bytes(raw)
    (tmp_path / "hex").write_text(raw.hex(":"))
    expected_json = json.loads(run("decode", HEARTBEAT, "--json")[1])
    assert expected_json["HeartbeatRequest"] == {
        "groupId": "g",
        "generationId": 5,
        "memberId": "m",
        "groupInstanceId": None,
    }
    for arguments, stdin in (
        ((str(tmp_path / "raw"),), None),
        ((str(tmp_path / "hex"),), None),
        ((raw[4:].hex(),), None),
        (("-",), raw),
    ):
        assert json.loads(run("decode", *arguments, "--json", stdin=stdin)[1]) == expected_json


def test_responses_and_bodies_are_decoded_on_request():
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
