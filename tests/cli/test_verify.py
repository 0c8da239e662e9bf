"""``verify`` as people and scripts call it."""

import json
import shutil
from pathlib import Path

from click.testing import CliRunner

from kafkaframes.cli.main import cli

LOGS = Path(__file__).parents[1] / "data" / "logs"
HEALTHY = str(LOGS / "kraft-4x-transactions")


def ask(*arguments: str):
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


def test_verify_is_sound_or_not_by_exit_status(tmp_path):
    assert ask("verify", HEALTHY).exit_code == 0
    log = tmp_path / "log"
    shutil.copytree(HEALTHY, log)
    (log / "payments-0" / "leader-epoch-checkpoint").write_text("nonsense")
    assert ask("verify", str(log)).exit_code == 0
    assert ask("verify", "--strict", str(log)).exit_code == 1
    segment = next(path for path in sorted((log / "payments-0").glob("*.log")) if path.stat().st_size > 300)
    raw = bytearray(segment.read_bytes())
    raw[150] ^= 1
    segment.write_bytes(raw)
    result = ask("verify", str(log))
    assert result.exit_code == 1
    assert "error: crc" in result.output
    assert "DAMAGED" in result.output
    report = json.loads(ask("verify", "--json", str(log)).output)
    assert report["sound"] is False
    assert {one["check"] for one in report["findings"]} >= {"crc", "small-file"}
    crc = next(one for one in report["findings"] if one["check"] == "crc")
    assert crc["file"] == str(segment)
    assert crc["severity"] == "error"


def test_verify_prints_twenty_of_a_kind(tmp_path):
    partition = tmp_path / "t-0"
    partition.mkdir()
    for number in range(30):
        (partition / f"{number:020d}.log.deleted").write_bytes(b"")
    (partition / f"{50:020d}.log").write_bytes(b"")
    assert "and 10 more (--all)" in ask("verify", str(tmp_path)).output
    assert "more (--all)" not in ask("verify", "--all", str(tmp_path)).output
