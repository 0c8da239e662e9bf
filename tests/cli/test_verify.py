"""The command ``verify``, with text and JSON output."""

import json
import shutil
from pathlib import Path

from tests.cli.calling import ask_or_raise as ask

LOGS = Path(__file__).parents[1] / "data" / "logs"
HEALTHY = str(LOGS / "kraft-4x-transactions")


def test_the_exit_status_depends_on_the_findings(tmp_path):
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
