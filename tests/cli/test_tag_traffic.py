"""``kafkaframes analyze tag-header`` over real traffic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaframes.cli.main import cli

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("name", ["captures/share-groups-broker43.pcap.zst", "request-logs/broker-4.3.1-trace.log.gz"])
def test_the_command_over_traffic(name):
    """What it calls adopted is what ``analyze flexible`` says was sent, and the headers before it."""
    runner, path = CliRunner(), str(DATA / name)
    result = runner.invoke(cli, ["analyze", "tag-header", "--json", path])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.output.splitlines()]
    flexible = runner.invoke(cli, ["analyze", "flexible", "--json", path]).output.splitlines()
    sent = {(row["api"], row["api_version"], row["direction"]): row["flexible"] for row in map(json.loads, flexible)}
    measured_rows = [row for row in rows if row["messages"]]
    assert len(measured_rows) > 20
    for row in measured_rows:
        headers = row["adopted"] - sent[row["api"], row["api_version"], row["direction"]]
        if row["direction"] == "response":
            assert headers == row["messages"] * (4 if row["api"] == "ApiVersions" else 5)
        else:
            assert headers > row["messages"] * 11  # key, version, correlation id, client id, tag section
            assert row["sections"] >= 2 * row["messages"]
        assert row["interleaved"] <= row["adopted"]
    versions = [row for row in measured_rows if row["api"] == "ApiVersions" and row["direction"] == "response"]
    assert all(row["adopted"] > row["interleaved"] for row in versions)
    text = runner.invoke(cli, ["analyze", "tag-header", path]).output
    total = {name: sum(row[name] for row in rows) for name in ("adopted", "interleaved", "inflexible")}
    assert f"interleaved draft: {total['interleaved'] - total['adopted']:+} bytes" in text
    assert f"{total['inflexible']} messages have no tag sections, 0 could not be measured" in text
