"""The reports of ``audit``, ``redact`` and ``report`` about unreadable or partly readable captures and request logs."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
from pathlib import Path

import pytest
import zstandard
from tests.capture.wrappings import (
    ARP,
    CALL_COUNT,
    HTTP_MESSAGES,
    IP4,
    LLDP,
    MACSEC,
    TLS_MESSAGES,
    build_pcap,
    ethernet,
    packets4,
    pktap,
    sll,
    tag,
)
from tests.cli.calling import ask

from kafkaframes.errors import DecodeError

LOGS = Path(__file__).parent.parent / "data" / "request-logs"
FRAMES = [ethernet(IP4, one) for one in packets4()]
TLS_FRAMES = [ethernet(IP4, one) for one in packets4(messages=TLS_MESSAGES, server_port=9093)]
HTTP_FRAMES = [ethernet(IP4, one) for one in packets4(messages=HTTP_MESSAGES, server_port=80)]
OTHER_FRAMES = [ethernet(ARP, bytes(28)), ethernet(LLDP, bytes(40)), ethernet(38, b"\x42\x42\x03" + bytes(35))]
OLD_CALL = struct.pack(">hhih", 1, 3, 7, 1) + b"c" + bytes(40)
OLD_FETCH = [ethernet(IP4, one) for one in packets4(messages=[(True, struct.pack(">i", len(OLD_CALL)) + OLD_CALL)])]

UNREADABLE_CAPTURES = {
    "TLS": build_pcap(TLS_FRAMES),
    "HTTP": build_pcap(HTTP_FRAMES),
    "Wi-Fi": build_pcap([bytes(24) + one for one in packets4()], 105),
    "PKTAP of Wi-Fi": build_pcap([pktap(127, one) for one in packets4()], 258),
    "MACsec": build_pcap([ethernet(MACSEC, one) for one in packets4()]),
    "packets cut to 60 bytes": build_pcap(FRAMES, snap=60),
    "packets cut to 20 bytes": build_pcap(FRAMES, snap=20),
    "ARP": build_pcap(OTHER_FRAMES),
    "no packets": build_pcap([]),
}
PARTLY_READABLE_CAPTURES = {
    "TLS": build_pcap(FRAMES + TLS_FRAMES),
    "MACsec": build_pcap([*FRAMES, ethernet(MACSEC, bytes(60))]),
    "an unknown ethertype": build_pcap([sll(IP4, one) for one in packets4()] + [sll(0x4321, bytes(60))], 113),
    "a lost packet": build_pcap(FRAMES[:6] + FRAMES[7:]),
    "a damaged record": build_pcap(FRAMES) + b"\xff" * 40 + build_pcap(FRAMES)[24:],
    "a file that is cut": build_pcap(FRAMES)[:-7],
    "a gzip file that is cut": gzip.compress(build_pcap(FRAMES * 40))[:-40],
    "a zstd file that is cut": zstandard.ZstdCompressor(write_checksum=True).compress(build_pcap(FRAMES * 40))[:-3],
}
READABLE_CAPTURES = {
    "Kafka": build_pcap(FRAMES),
    "Kafka in a VLAN, cooked": build_pcap([sll(0x8100, tag(5, IP4) + one) for one in packets4()], 113),
    "other protocols": build_pcap([*OTHER_FRAMES, *FRAMES, *HTTP_FRAMES]),
    "a start in mid-connection": build_pcap([ethernet(IP4, one) for one in packets4(opening=False)]),
}


def write(tmp_path, raw, name="x.pcap"):
    path = tmp_path / name
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("name", UNREADABLE_CAPTURES)
def test_an_audit_without_readable_traffic_does_not_succeed(name, tmp_path):
    path = write(tmp_path, UNREADABLE_CAPTURES[name])
    as_json = ask("audit", path, "--json", "--target", "4.0.1")
    report = json.loads(as_json.stdout)
    assert (as_json.exit_code, report["exitStatus"], report["judged"]) == (5, 5, "nothing")
    assert report["verdict"] != "fine"
    assert as_json.stdout.splitlines()[1] == ' "judged": "nothing",'
    text = ask("audit", path)
    assert text.exit_code == 5
    assert text.stdout.splitlines()[0].startswith(
        "Nothing was checked: no request or record of the input could be read"
    )
    assert "fine" not in text.stdout
    page = tmp_path / "x.html"
    assert ask("audit", path, "-o", page).exit_code == 5
    assert "Nothing was checked: " in page.read_text()
    assert page.read_text().index("Nothing was checked: ") < page.read_text().index("<h2>Clients")


@pytest.mark.parametrize("name", UNREADABLE_CAPTURES)
def test_redact_and_report_without_readable_traffic_have_the_status_of_damage(name, tmp_path):
    path, out, page = write(tmp_path, UNREADABLE_CAPTURES[name]), tmp_path / "out.pcapng", tmp_path / "out.html"
    redact_result = ask("redact", path, "-o", out)
    assert (redact_result.exit_code, out.exists()) == (1, True)
    assert "the input has no Kafka calls" in redact_result.stderr
    report_result = ask("report", path, "-o", page)
    assert report_result.exit_code == 1
    assert "Nothing was checked: " in report_result.stdout
    assert "Nothing was checked: " in page.read_text()


@pytest.mark.parametrize("name", PARTLY_READABLE_CAPTURES)
def test_a_partial_audit_is_reported_in_the_first_line(name, tmp_path):
    path = write(tmp_path, PARTLY_READABLE_CAPTURES[name])
    as_json = ask("audit", path, "--json", "--target", "4.0.1")
    report = json.loads(as_json.stdout)
    assert (as_json.exit_code, report["judged"], report["verdict"]) == (0, "part", "fine")
    assert report["unread"]
    assert ask("audit", path, "--strict").exit_code == 5
    text = ask("audit", path)
    assert text.stdout.startswith("Part of the input was checked. Not read: ")
    page = tmp_path / "x.html"
    ask("audit", path, "-o", page)
    assert "Part of the input was checked. Not read: " in page.read_text()


@pytest.mark.parametrize("name", PARTLY_READABLE_CAPTURES)
def test_partial_redact_and_report_have_the_status_of_damage(name, tmp_path):
    path = write(tmp_path, PARTLY_READABLE_CAPTURES[name])
    redact_result = ask("redact", path, "-o", tmp_path / "out.pcapng")
    assert redact_result.exit_code == 1
    assert "not read: " in redact_result.stderr
    report_result = ask("report", path, "--json")
    report = json.loads(report_result.stdout)
    assert (report_result.exit_code, report["judged"], bool(report["unread"])) == (1, "part", True)
    assert next(iter(report)) == "judged"
    assert "Part of the input was checked. Not read: " in report_result.stderr


@pytest.mark.parametrize("name", READABLE_CAPTURES)
def test_a_complete_audit_has_no_such_line(name, tmp_path):
    path = write(tmp_path, READABLE_CAPTURES[name])
    report = json.loads(ask("audit", path, "--json", "--strict", "--target", "4.0.1").stdout)
    assert (report["judged"], report["verdict"], report["exitStatus"], report["unread"]) == ("all", "fine", 0, [])
    assert ask("audit", path).stdout.startswith("Upgrade to ")
    assert ask("redact", path, "-o", tmp_path / "out.pcapng").exit_code == 0
    assert ask("report", path, "-o", tmp_path / "out.html").exit_code == 0
    assert report["clients"][0]["findings"][0]["count"] == CALL_COUNT


def test_a_verdict_keeps_its_status_in_a_partial_audit(tmp_path):
    path = write(tmp_path, build_pcap(OLD_FETCH + TLS_FRAMES))
    assert ask("audit", path, "--target", "4.0.1").exit_code == 4
    assert ask("audit", path, "--target", "3.9.1").exit_code == 3
    assert ask("audit", path, "--target", "4.0.1", "--strict").exit_code == 5


def test_other_packets_are_a_note(tmp_path):
    text = ask("audit", write(tmp_path, READABLE_CAPTURES["other protocols"])).stdout
    assert "note: not read, because the verdict does not depend on it: 1 packet: ethertype 0x0806 (ARP)" in text
    assert "1 connection: another protocol over TCP" in text


LOG_LINES = gzip.decompress((LOGS / "broker-3.9.1-trace-old-clients.log.gz").read_bytes())


@pytest.mark.parametrize(
    ("raw", "name", "words"),
    [
        (b"", "request.log", "the file is empty"),
        (gzip.compress(b"", mtime=0), "request.log.gz", "the file is empty"),
        (gzip.compress(LOG_LINES, mtime=0)[:9], "request.log.gz", "the gzip data end early"),
        (b"Completed request:nothing of the kind\n", "request.log", "1 line: a completed request that cannot be read"),
    ],
)
def test_an_unreadable_request_log_does_not_succeed(raw, name, words, tmp_path):
    result = ask("audit", write(tmp_path, raw, name))
    assert result.exit_code == 5
    assert "Nothing was checked: " in result.stdout
    assert words in result.stdout


@pytest.mark.parametrize(
    "raw",
    [b"[2026-11-22 03:39:05,139] INFO started (kafka.server.KafkaServer)\n", b"\n\n", b"\x89PNG\r\n\x1a\n" + bytes(90)],
)
def test_a_single_foreign_file_is_rejected_and_one_of_several_is_reported(raw, tmp_path):
    path = write(tmp_path, raw, "server.log")
    assert isinstance(ask("audit", path).exception, DecodeError)
    good = write(tmp_path, LOG_LINES, "request.log")
    for others in ([good, path], [path, good], [write(tmp_path, build_pcap(FRAMES)), path]):
        report = json.loads(ask("audit", *others, "--json").stdout)
        assert report["judged"] == "part"
        assert [entry["file"] for entry in report["unread"]] == [str(path)]


@pytest.mark.parametrize("share", [0.3, 0.6, 0.99])
def test_a_truncated_compressed_request_log_is_partly_audited(share, tmp_path):
    raw = (LOGS / "broker-3.9.1-trace-old-clients.log.gz").read_bytes()
    report = json.loads(ask("audit", write(tmp_path, raw[: int(share * len(raw))], "request.log.gz"), "--json").stdout)
    assert report["judged"] == "part"
    assert any("end early" in entry["reason"] for entry in report["unread"])


def test_unreadable_lines_of_a_request_log_are_counted(tmp_path):
    bad = b'Completed request:{"requestHeader":{"requestApiKey":"x","requestApiVersion":[],"correlationId":1}}\n'
    path = write(tmp_path, LOG_LINES + bad * 3, "request.log")
    report = json.loads(ask("audit", path, "--json").stdout)
    assert report["judged"] == "part"
    assert [(entry["lines"], entry["kind"]) for entry in report["unread"]] == [(3, "damaged")]
    whole = write(tmp_path, LOG_LINES, "whole.log")
    assert json.loads(ask("audit", whole, "--json").stdout)["judged"] == "all"
    assert ask("report", path, "-o", tmp_path / "out.html").exit_code == 1
    assert ask("report", whole, "-o", tmp_path / "out.html").exit_code == 0


def test_a_log_directory_with_damaged_segments_is_partly_audited(tmp_path):
    source = Path(__file__).parents[2] / "examples" / "logs"
    logs = tmp_path / "logs"
    shutil.copytree(source, logs)
    assert json.loads(ask("audit", logs, "--json").stdout)["judged"] == "all"
    segment = next(path for path in sorted(logs.rglob("*.log")) if path.stat().st_size > 1000)
    raw = segment.read_bytes()
    segment.write_bytes(raw + bytes(4096))  # preallocated
    assert json.loads(ask("audit", logs, "--json").stdout)["judged"] == "all"
    segment.write_bytes(raw[: len(raw) - 5])
    report = json.loads(ask("audit", logs, "--json").stdout)
    assert report["judged"] == "part"
    assert report["unread"][0]["file"] == str(segment)
    assert "bytes after the last batch" in report["unread"][0]["reason"]


@pytest.mark.parametrize("words", [("analyze", "records"), ("spec", "propose", "kip-636")])
def test_partial_measurements_have_the_status_of_damage(words, tmp_path):
    path = write(tmp_path, PARTLY_READABLE_CAPTURES["TLS"])
    result = ask(*words, path)
    assert (result.exit_code, result.stderr) == (1, "kafkaframes: not read: 1 connection: encrypted (TLS)\n")
    assert result.stdout
    whole = ask(*words, write(tmp_path, READABLE_CAPTURES["Kafka"], "whole.pcap"))
    assert (whole.exit_code, whole.stderr) == (0, "")


def test_the_error_for_a_missing_path_is_equal_in_all_commands(tmp_path):
    missing = tmp_path / "missing"
    commands = (
        ["audit"],
        ["redact", "-o", tmp_path / "out"],
        ["report"],
        ["info"],
        ["verify"],
        ["spec", "propose", "kip-636"],
    )
    assert {str(ask(*command, missing).exception) for command in commands} == {
        f"no such file or directory (at {missing})"
    }
