"""Mistakes of new users: misspelt commands, closed pipes, files that are not logs, numbers in JSON."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

import kafkaframes
from kafkaframes.cli.main import cli

LOG = Path(__file__).parents[1] / "data" / "examples" / "kafka-4.3"


def test_a_file_that_is_none_of_a_logs_is_an_error():
    result = CliRunner().invoke(cli, ["dump-log", "/etc/passwd"])
    assert result.exit_code != 0
    assert "is not a segment, an index or a snapshot" in str(result.exception)


@pytest.mark.parametrize("command", ["info", "verify", "report"])
def test_what_cannot_be_read_is_not_called_damaged(tmp_path, monkeypatch, command):
    """A disk that fails: root may read every file, so permissions would show nothing."""
    log = tmp_path / "log" / "t-0"
    log.mkdir(parents=True)
    for kind in ("log", "index", "timeindex"):
        (log / f"{0:020}.{kind}").write_bytes(kafkaframes.build_records([{"value": b"x"}]) if kind == "log" else b"")
    real = os.open

    def failing(path, *arguments, **more):
        if str(path).endswith(".log"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, *arguments, **more)

    monkeypatch.setattr(os, "open", failing)
    options = ["-o", str(tmp_path / "r.html")] if command == "report" else []
    result = CliRunner().invoke(cli, [command, str(tmp_path / "log"), *options, "--workers", "1"])
    assert result.exit_code == 1
    assert "DAMAGED" not in result.output
    assert command == "report" or "unreadable" in result.output.lower()


def test_numbers_in_json_have_units_and_null_for_none(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").touch()
    (partition_row,) = json.loads(CliRunner().invoke(cli, ["info", str(tmp_path), "--json"]).stdout)["partitions"]
    assert partition_row["first_timestamp_ms"] is None
    assert partition_row["segments"][0]["last_offset"] is None
    assert -1 not in [*partition_row.values(), *partition_row["segments"][0].values()]
    whole = json.loads(CliRunner().invoke(cli, ["report", str(LOG), "--json"]).stdout)
    assert None in [one["first_timestamp_ms"] for one in whole["partitions"]]
    assert -1 not in [one[name] for one in whole["partitions"] for name in ("first_timestamp_ms", "last_timestamp_ms")]
