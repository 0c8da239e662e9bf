"""``kafkaframes analyze tag-header``: its tables."""

from __future__ import annotations

import json

from click.testing import CliRunner

from kafkaframes.cli.analyze import print_tag_header_sizes as command
from kafkaframes.jobs.analyze.scale import TAG_HEADER_SCHEMES


def test_the_command_prints_tables_and_json():
    runner = CliRunner()
    text = runner.invoke(command, ["--length", "4", "--tag", "5", "--message", "ProduceResponse"]).output
    assert "1/2*" in text
    assert "2 tagged fields: the draft's header is smaller for 1 of them, by 1 byte in total" in text
    lines = runner.invoke(command, ["--length", "16", "--tag", "7", "--message", "VoteResponse", "--json"]).output
    rows = [json.loads(line) for line in lines.splitlines()]
    assert [row["kind"] for row in rows] == ["header", "field", "message"]
    assert rows[0]["written"] == "aa02"
    assert set(rows[2]["filled"]) == set(TAG_HEADER_SCHEMES)
    result = runner.invoke(command, ["--message", "SaslHandshakeRequest"])
    assert "no version has tagged fields" in str(result.exception)
