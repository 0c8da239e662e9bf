"""The command ``kafkaframes convert``."""

import pytest
from tests.cli.calling import ask_or_raise as run
from tests.jobs.convert.test_convert import LOGS, records, without_timestamp_type

from kafkaframes.errors import OptionError


def test_the_command_converts_a_log(tmp_path):
    result = run("convert", LOGS / "zk-0102-v1", "--record-format", "v2", "--to", tmp_path / "out")
    assert result.exit_code == 0
    assert f"done: {tmp_path / 'out'}" in result.output
    assert records(tmp_path / "out") == without_timestamp_type(records(LOGS / "zk-0102-v1"))
    again = run("convert", LOGS / "zk-0102-v1", "--record-format", "v2", "--to", tmp_path / "out")
    assert "done before" in again.output


def test_a_format_can_be_the_target(tmp_path):
    old = LOGS / "zk-0102-v1"
    assert run("convert", old, "--to", "v2", "--to", tmp_path / "out").exit_code == 0
    assert "done before" in run("convert", old, "--record-format", "v2", "--to", tmp_path / "out").output
    for wrong, message in (
        (("--to", tmp_path / "new"), "specify --record-format: v0, v1, v2"),
        (("--to", "v2"), "specify --to DIR"),
        (("--to", "v2", "--to", "a", "--to", "b"), "specify --to DIR once, not a, b"),
    ):
        with pytest.raises(OptionError, match=message):
            run("convert", old, *wrong)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_losses_are_reported(tmp_path):
    transactions = LOGS / "kraft-4x-transactions"
    result = run(
        "convert",
        transactions,
        "--record-format",
        "v1",
        "--codec",
        "gzip",
        "--on-loss",
        "warn",
        "--to",
        tmp_path / "out",
    )
    assert "warning: lost: " in result.stderr
    assert "control batches" in result.stderr
