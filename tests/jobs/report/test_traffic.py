"""The page on recorded traffic: its numbers equal those of the calls, and texts of clients are escaped."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.capture.own_specs import write_specs, write_traffic

from kafkaframes.capture.files import is_traffic
from kafkaframes.capture.reader import read_capture
from kafkaframes.cli.report import command
from kafkaframes.jobs.report.traffic import make_traffic_report
from kafkaframes.jobs.report.traffic_page import build_traffic_page

DATA = Path(__file__).parents[2] / "data"
SASL = DATA / "captures" / "sasl-raw-tokens-broker39.pcap.gz"
LOSS = DATA / "captures" / "mangled-loss.pcapng.zst"
LOG = DATA / "request-logs" / "broker-3.9.1-trace-old-clients.log.gz"


def test_the_numbers_equal_those_of_the_calls():
    report = make_traffic_report([str(LOSS)])
    rows = read_capture(str(LOSS)).read_all().to_pylist()
    assert report.calls == len(rows)
    assert sum(api.request_bytes for api in report.apis.values()) == sum(row["requestSizeBytes"] or 0 for row in rows)
    codes = [(row["apiName"], one["code"]) for row in rows for one in row["errors"] or []]
    assert sum(report.error_codes.values()) == len(codes)
    assert sum(report.gaps.values()) == 17
    assert report.connections["kafka"] == 64
    assert report.incomplete == sum(row["_error"] is not None for row in rows)


def test_the_callers_specs_name_and_decode_their_apis(tmp_path):
    folder = write_specs(tmp_path / "specs", greet=300)
    trace = write_traffic(tmp_path / "own.pcapng", folder)
    out = tmp_path / "traffic.json"
    assert CliRunner().invoke(command, [trace, "--specs", str(folder), "-o", str(out)]).exit_code == 0
    values = json.loads(out.read_text())
    apis = [(one["api"], one["version"], one["calls"], one["errors"]) for one in values["apis"]]
    assert apis == [("Greet", 0, 1, 0), ("Greet", 1, 1, 1), ("Heartbeat", 4, 1, 1), ("Heartbeat", 5, 1, 1)]
    assert values["incompleteCalls"] == 0
    audit = make_traffic_report([trace], specs=folder).audit
    assert audit is not None
    assert "Greet 1" in {finding.subject for client in audit.clients for finding in client.findings}
    result = CliRunner().invoke(command, [str(folder), "--specs", str(folder)])
    assert "--specs requires captures or request logs" in str(result.exception)


def test_quantiles_of_latency_are_near_the_truth():
    report = make_traffic_report([str(SASL)])
    rows = read_capture(str(SASL)).read_all().to_pylist()
    for (name, version), one in report.apis.items():
        true = sorted(
            row["latencyMs"]
            for row in rows
            if (row["apiName"], row["apiVersion"]) == (name, version) and row["latencyMs"]
        )
        if len(true) >= 5:
            assert one.find_latency_quantile(0.5) == pytest.approx(true[(len(true) - 1) // 2], rel=0.1)


@pytest.mark.parametrize("path", [SASL, LOG])
def test_the_page_is_complete_offline_and_safe(path, tmp_path):
    out = tmp_path / "traffic.html"
    result = CliRunner().invoke(command, [str(path), "-o", str(out), "--generated-at", "2026-11-22T00:00:00"])
    assert result.exit_code == 0, result.output
    text = out.read_text()
    assert not re.search(r"(?:src|href)=\"(?!#)", text)
    assert "alice-secret" not in text
    for section in ("bytes", "time", "apis", "errors", "clients", "kip-636", "connections"):
        assert f'id="{section}"' in text
    assert "removed" in text


def test_names_chosen_by_clients_are_shown_as_text():
    report = make_traffic_report([str(SASL)])
    (key, one) = next(iter(report.apis.items()))
    report.apis["<script>alert(1)</script>", 0] = one
    report.gaps["<b>"] += 1
    text = build_traffic_page(report, version="0", generated_at=0)
    assert "<script>alert" not in text
    assert "<b><b>" not in text
    assert key in report.apis


def test_json_has_the_same_numbers():
    result = CliRunner().invoke(command, [str(SASL), "--json"])
    assert json.loads(result.stdout)["calls"] == 290


def test_traffic_is_distinguished_from_logs(tmp_path):
    assert is_traffic(str(SASL))
    assert is_traffic(str(LOG))
    assert is_traffic(str(DATA / "captures"))
    segment = tmp_path / "00000000000000000000.log"
    segment.touch()
    assert not is_traffic(str(segment))
    assert not is_traffic(str(tmp_path))
    assert not is_traffic("s3://bucket/trace.pcap")
