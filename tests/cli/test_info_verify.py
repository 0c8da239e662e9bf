"""``info`` and ``verify`` as people and scripts call them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaframes.cli import workers
from kafkaframes.cli.main import cli
from kafkaframes.cli.text import time_text
from kafkaframes.errors import LogDirError

LOGS = Path(__file__).parents[1] / "data" / "logs"
HEALTHY = str(LOGS / "kraft-4x-transactions")


def ask(*arguments: str):
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


def test_info_says_what_is_there_and_how_it_knows():
    result = ask("info", HEALTHY)
    assert result.exit_code == 0
    assert "node 1" in result.output
    assert "stopped cleanly" in result.output
    assert "payments" in result.output
    assert "from the first and last batch of each segment" in result.output
    (line, _) = (line for line in result.output.splitlines() if line.startswith("payments"))
    assert "703" in line


def test_info_deep_counts_records():
    result = ask("info", "--deep", "--json", HEALTHY)
    (directory,) = map(json.loads, result.output.splitlines())
    assert directory["clean_shutdown"] is True
    manifest = json.loads((LOGS / "kraft-4x-transactions.json").read_text())["partitions"]
    counted = {f"{one['topic']}-{one['partition']}": one for one in directory["partitions"] if not one["state"]}
    for name, truth in manifest.items():
        if name.startswith("__cluster_metadata"):
            continue  # its snapshots are counted in the manifest
        assert counted[name]["batches"] == truth["batches"]
        assert counted[name]["records"] == truth["records"]
        assert counted[name]["control_records"] == truth["control_records"]
        assert len(counted[name]["segments"]) == truth["segments"]


def test_info_by_topic_and_of_one_segment():
    by_topic = ask("info", "--by", "topic", HEALTHY)
    assert sum(line.startswith("payments") for line in by_topic.output.splitlines()) == 1
    segment = next((LOGS / "zk-28-mixed").rglob("*.log"))
    assert "1 topics, 1 partitions, 1 segments" in ask("info", str(segment)).output


def test_info_does_not_load_numba():
    code = "import sys; from kafkaframes.cli.main import cli; cli(['info', sys.argv[1]], standalone_mode=False); "
    code += "assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, HEALTHY], check=True, capture_output=True)


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


@pytest.mark.parametrize("command", ["info", "verify"])
def test_what_is_not_there_is_one_clear_line(command, tmp_path):
    with pytest.raises(LogDirError, match="no such file or directory"):
        ask(command, str(tmp_path / "nothing"))


def test_several_processes_answer_in_order():
    tasks = list(range(40))
    assert [*workers.in_order(str, tasks, size_of=int, workers=2)] == [*map(str, tasks)]


@pytest.mark.parametrize(
    ("timestamp", "text"), [(-1, "–"), (None, "–"), (0, "1970-01-01 00:00:00"), (2**62, f"{2**62} ms")]
)
def test_times_no_calendar_has_are_numbers(timestamp, text):
    assert time_text(timestamp) == text
