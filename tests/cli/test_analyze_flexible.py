"""``kafkaframes analyze flexible``: one of its two layouts is what was sent."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from click.testing import CliRunner

from kafkaframes.cli.main import cli
from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.spec import catalog

DATA = Path(__file__).parents[1] / "data"


def test_the_command_over_a_capture_and_a_request_log():
    """What it says was sent is what ``analyze kip-636`` checks against the wire."""
    runner, capture = CliRunner(), str(DATA / "captures" / "raw-oldversions-broker39.pcap")
    result = runner.invoke(cli, ["analyze", "flexible", "--json", capture])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.output.splitlines()]
    sent = {}
    for row in rows:
        assert row["saved"] == row["inflexible"] - row["flexible"]
        cls = message(catalog.api(row["api_key"]).response)
        if row["direction"] == "response":
            layout = "flexible" if cls.spec.is_flexible(row["api_version"]) else "inflexible"
            sent[row["api_key"], row["api_version"]] = row[layout]
    checked = [
        json.loads(line) for line in runner.invoke(cli, ["analyze", "kip-636", "--json", capture]).output.splitlines()
    ]
    wire = Counter()
    for row in checked:  # a row a client
        if row["kind"] != "raised":
            wire[row["api_key"], row["api_version"]] += row["bytesBefore"]
    assert len(sent) > 20
    assert {key: size for key, size in sent.items() if key[0] != 18} == {
        key: size for key, size in wire.items() if key[0] != 18
    }
    assert {row["direction"] for row in rows} == {"request", "response"}
    log = runner.invoke(cli, ["analyze", "flexible", str(DATA / "request-logs" / "broker-4.3.1-trace.log.gz")])
    assert "Metadata 13 response" in log.output
    assert log.exit_code == 0
    assert isinstance(runner.invoke(cli, ["analyze", "flexible", "--ports", "x", capture]).exception, OptionError)
