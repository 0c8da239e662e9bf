"""``kafkaframes analyze kip-636`` over a request log, which has no sizes."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from kafkaframes.cli.analyze_kip_636 import command

DATA = Path(__file__).parent.parent / "data"


def test_a_request_log_has_no_sizes_and_the_command_says_so():
    result = CliRunner().invoke(command, [str(DATA / "request-logs" / "broker-4.3.1-trace.log.gz")])
    assert result.exit_code == 0, result.output
    assert "0 sizes checked against the wire" in result.output
    assert "Metadata 13" in result.output
