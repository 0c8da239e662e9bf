"""``kafkaframes diff`` of two encodings."""

from tests.cli.calling import run_and_describe as run

HEARTBEAT = "00000017 000c0004 00000007 00026d65 00 0267 00000005 026d 00 00"


def test_diff_shows_the_differences():
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
