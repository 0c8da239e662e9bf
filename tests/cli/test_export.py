"""The command ``export`` in several processes, on Spark and after a kill, and ``verify`` on Spark."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.cli.export_calls import ask, files, write_damaged_log
from tests.processes import processes
from tests.spark.truth import EXAMPLE_LOG_DIR, LOGS, rows_of

import kafkaframes
from kafkaframes.cli import verify as cli_verify
from kafkaframes.cli.main import cli
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.storage.log.discover import discover


def test_an_export_in_several_processes_has_the_records_of_kafka(tmp_path):
    result = ask(LOGS, "--to", tmp_path / "out", "--isolation", "read_uncommitted", "--workers", "2", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["records"], report["complete"]) == (17_418, True)
    assert "__consumer_offsets" in report["internal_topics"]
    for topic in ("orders", "payments"):
        truth = [(partition, offset, stamp) for partition, offset, stamp, *_ in rows_of(EXAMPLE_LOG_DIR, topic)]
        exported_rows = []
        for path in (tmp_path / "out" / f"topic={topic}").glob("*/*.parquet"):
            partition = int(path.parent.name.removeprefix("partition="))
            rows = pq.ParquetFile(path).read(["offset", "timestamp"]).to_pylist()
            exported_rows += [(partition, row["offset"], round(row["timestamp"].timestamp() * 1000)) for row in rows]
        assert sorted(exported_rows) == sorted(truth)
    again = ask(LOGS, "--to", tmp_path / "out", "--isolation", "read_uncommitted")
    assert "26 were exported by earlier runs" in again.output


@pytest.fixture(scope="module")
def big_log(tmp_path_factory):
    """A log with sixteen segments of about 8 MB."""
    log = tmp_path_factory.mktemp("big") / "t-0"
    log.mkdir()
    raw = kafkaframes.build_records([{"value": os.urandom(1000)} for _ in range(500)])
    for number in range(16):
        (log / f"{number:020}.log").write_bytes(raw * 16)
    return log


def _children(pid):
    return [each.pid for each in processes() if each.parent == pid]


def _is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# The command's own process waits before its last report, so that there is time to kill it.
WAITING_EXPORT = """
import time
from kafkaframes.cli.main import main
from kafkaframes.jobs.export import run
run.sum_results = lambda *_: time.sleep(600)
main()
"""


def test_a_killed_export_leaves_no_partial_file_and_continues(big_log, tmp_path):
    to = tmp_path / "out"
    child = subprocess.Popen([sys.executable, "-c", WAITING_EXPORT, "export", big_log, "--to", to, "--workers", "2"])
    deadline = time.monotonic() + 250
    while not list(to.glob("topic=*/*/*")) and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    workers = _children(child.pid)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert child.returncode == -signal.SIGKILL, "it was done before it could be killed"
    half = files(to)  # each file is complete
    assert len(half) > 0
    assert not (to / "_SUCCESS").exists()
    while any(map(_is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_is_alive, workers)), "workers outlived the process that started them"
    assert ask(big_log, "--to", to, "--workers", "1").exit_code == 0
    assert ask(big_log, "--to", tmp_path / "at-once", "--workers", "1").exit_code == 0
    whole, expected_files = files(to), files(tmp_path / "at-once")
    assert (to / "_SUCCESS").exists()
    assert whole == expected_files
    assert sum(len(table) for table in whole.values()) == 16 * 16 * 500
    assert all(whole[name] == table for name, table in half.items())
    assert not list((to / "_kafkaframes").glob("tmp/*"))


@pytest.mark.spark
def test_the_command_runs_on_spark(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(type(spark), "stop", lambda self: None)  # the session of all tests is used
    result = ask(EXAMPLE_LOG_DIR, "--to", tmp_path / "out", "--topic", "payments", "--master", "local[2]")
    assert result.exit_code == 0, result.output
    assert "1,047 records" in result.output


@pytest.mark.spark
def test_verify_on_spark_gives_an_equal_report(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    log = write_damaged_log(tmp_path)
    here = verify(discover([str(log), str(EXAMPLE_LOG_DIR)])).as_json()
    result = CliRunner().invoke(cli, ["verify", str(log), str(EXAMPLE_LOG_DIR), "--master", "local[2]", "--json"])
    assert result.exit_code == cli_verify.EXIT_DAMAGED
    assert json.loads(result.stdout) == here
    assert here["sound"] is False
