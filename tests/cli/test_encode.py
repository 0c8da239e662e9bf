"""``kafkaframes encode``: the inverse of ``decode``, and its rejected inputs."""

import json

from tests.cli.calling import run_and_describe as run

from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request

HEARTBEAT = "00000017 000c0004 00000007 00026d65 00 0267 00000005 026d 00 00"


def test_encode_is_the_inverse():
    form = '{"groupId": "g", "generationId": 5, "memberId": "m", "groupInstanceId": null}'
    frame_options = ("--frame", "--correlation-id", "7", "--client-id", "me")
    assert run("encode", "HeartbeatRequest", "4", form, *frame_options)[1].strip() == HEARTBEAT.replace(" ", "")
    assert run("encode", "HeartbeatRequest", "4", "-", stdin=form)[1].strip() == HEARTBEAT.replace(" ", "")[34:]
    tagged_hex = run("encode", "HeartbeatRequest", "4", form, "--tag", "5=ff")[1].strip()
    assert tagged_hex.endswith("00" + "01" + "05" + "01" + "ff")
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
