"""``audit_upgrade``, ``report_traffic`` and ``redact_capture``: the same as the commands, files, and invalid paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.calling import ask

import kafkaframes
from kafkaframes.errors import DecodeError, OptionError

DATA = Path(__file__).parents[1] / "data"
CAPTURE = DATA / "captures" / "raw-oldversions-broker39.pcap"
OLD_LOG = DATA / "examples" / "kafka-2.8-format-1"


def test_an_audit_equals_that_of_the_command(tmp_path):
    result = kafkaframes.audit_upgrade([CAPTURE, OLD_LOG], target="4.0.1")
    command = ask("audit", str(CAPTURE), str(OLD_LOG), "--target", "4.0.1", "--json")
    assert result.to_dict() == json.loads(command.stdout)
    assert (result.report.verdict, result.report.exit_status) == ("removed", command.exit_code)
    assert len(result.report.disk) > 0
    verbose = kafkaframes.audit_upgrade(CAPTURE, target="4.0.1", verbose=True)
    assert len(verbose.lines) > len(result.lines)
    assert str(verbose) == ask("audit", str(CAPTURE), "--target", "4.0.1", "-v").stdout.rstrip("\n")


@pytest.mark.parametrize(("form", "start"), [("html", "<!doctype html"), ("json", "{"), ("text", "Upgrade to ")])
def test_an_audit_is_written_to_a_file(tmp_path, form, start):
    path = tmp_path / "audit"
    kafkaframes.audit_upgrade(CAPTURE, to=path, format=form)
    assert path.read_text().startswith(start)


def test_ports_may_be_text_or_numbers():
    (port,) = {9092} & set(range(9092, 9093))
    texts = [kafkaframes.audit_upgrade(CAPTURE, ports=ports).to_dict() for ports in (str(port), [port], (port,))]
    assert texts[0] == texts[1] == texts[2]
    with pytest.raises(OptionError, match="`ports` 90-x: must be port numbers and ranges"):
        kafkaframes.audit_upgrade(CAPTURE, ports="90-x")


def test_a_traffic_report_equals_that_of_the_command(tmp_path):
    result = kafkaframes.report_traffic(CAPTURE, to=tmp_path / "report.html")
    assert result.to_dict() == json.loads(ask("report", str(CAPTURE), "--json").stdout)
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html")
    assert str(result).splitlines()[-1] == f"written to {tmp_path / 'report.html'}"
    assert result.report.calls > 0
    fixed_pages = []
    for name in ("a.html", "b.html"):
        kafkaframes.report_traffic(CAPTURE, to=tmp_path / name, generated_at_ms=1_760_000_000_000)
        fixed_pages.append((tmp_path / name).read_bytes())
    assert fixed_pages[0] == fixed_pages[1]


def test_a_redacted_capture_has_the_calls_without_names(tmp_path):
    target = tmp_path / "shared.pcapng"
    result = kafkaframes.redact_capture(CAPTURE, target)
    assert result.report.calls == result.to_dict()["calls"] > 0
    assert str(result).startswith(f"{target}: ")
    before, after = (
        kafkaframes.read_capture(path, columns=["apiName", "apiVersion"]).read_all().num_rows
        for path in (CAPTURE, target)
    )
    assert 0 < after <= before
    assert b"raw-client" in CAPTURE.read_bytes()
    assert b"raw-client" not in target.read_bytes()
    with pytest.raises(OptionError, match=r"`to` .*shared\.pcapng: already exists"):
        kafkaframes.redact_capture(CAPTURE, target)
    kept_names = tmp_path / "names.pcapng"
    kafkaframes.redact_capture(CAPTURE, kept_names, keep_client_ids=True)
    assert b"raw-client" in kept_names.read_bytes()


def test_invalid_paths_leave_no_output(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.pcap").write_bytes(b"no capture")
    out = tmp_path / "out"
    for function in (kafkaframes.audit_upgrade, kafkaframes.report_traffic, kafkaframes.redact_capture):
        for path in (tmp_path / "missing.pcap", tmp_path / "empty"):
            with pytest.raises(OptionError, match=r"no such|contains no capture"):
                function(path, to=out)
        with pytest.raises(DecodeError):
            function(tmp_path / "notes.pcap", to=out)
        with pytest.raises(OptionError, match="`paths` is empty"):
            function([], to=out)
        with pytest.raises(OptionError, match="sources are never changed"):
            function(tmp_path / "empty", to=tmp_path / "empty" / "out")
        assert not out.exists()
    for function in (kafkaframes.audit_upgrade, kafkaframes.report_traffic):
        with pytest.raises(OptionError, match="`format` is 'pdf'; expected html or json"):
            function(CAPTURE, to=out, format="pdf")
