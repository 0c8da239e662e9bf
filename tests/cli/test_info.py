"""The command ``info``, with text and JSON output."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaframes.cli.main import cli
from kafkaframes.errors import LogDirError

LOGS = Path(__file__).parents[1] / "data" / "logs"
HEALTHY = str(LOGS / "kraft-4x-transactions")


def ask(*arguments: str):
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


def test_info_describes_the_log_and_its_evidence():
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
    (directory,) = map(json.loads, result.stdout.splitlines())
    assert directory["clean_shutdown"] is True
    manifest = json.loads((LOGS / "kraft-4x-transactions.json").read_text())["partitions"]
    partitions = {f"{one['topic']}-{one['partition']}": one for one in directory["partitions"] if not one["state"]}
    for name, truth in manifest.items():
        if name.startswith("__cluster_metadata"):
            continue  # the manifest also counts its snapshots
        assert partitions[name]["batches"] == truth["batches"]
        assert partitions[name]["records"] == truth["records"]
        assert partitions[name]["control_records"] == truth["control_records"]
        assert len(partitions[name]["segments"]) == truth["segments"]


def test_info_describes_selected_topics_and_one_segment():
    by_topic = ask("info", "--by", "topic", HEALTHY)
    assert sum(line.startswith("payments") for line in by_topic.output.splitlines()) == 1
    segment = next((LOGS / "zk-28-mixed").rglob("*.log"))
    assert "1 topic, 1 partition, 1 segment," in ask("info", str(segment)).output


def test_info_reads_headers_without_numba_and_numpy():
    code = "import sys; from kafkaframes.cli.main import cli; cli(['info', sys.argv[1]], standalone_mode=False); "
    code += "assert not {'numba', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code, HEALTHY], check=True, capture_output=True)


@pytest.mark.parametrize("command", ["info", "verify"])
def test_the_error_for_a_missing_path_is_one_line(command, tmp_path):
    with pytest.raises(LogDirError, match="no such file or directory"):
        ask(command, str(tmp_path / "nothing"))


def test_info_reports_why_a_segment_is_unreadable(tmp_path, monkeypatch):
    from kafkaframes.storage.files.filesystem import LocalFileSystem

    def refuse(self, path):
        raise LogDirError("cannot be read: Permission denied", file=path)

    monkeypatch.setattr(LocalFileSystem, "open", refuse)
    (tmp_path / "t-0").mkdir()
    for base in range(25):
        (tmp_path / "t-0" / f"{base:020}.log").write_bytes(b"x" * 100)
    result = CliRunner().invoke(cli, ["info", str(tmp_path)])
    assert result.exit_code == 1
    assert f"not read: cannot be read: Permission denied (at {tmp_path}/t-0/{0:020}.log)" in result.output
    assert "not read: and 5 more" in result.output
