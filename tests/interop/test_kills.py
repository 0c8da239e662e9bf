"""Acknowledged records survive kill -9 during appends, alternately of this package's process and of Kafka's broker.

After each kill, the other process opens the directory. A broker recovers the directory to the same records as this
package's recovery of a copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from tests.interop import brokers
from tests.interop.brokers import check_directory, errors_in, read
from tests.interop.conftest import ROOT
from tests.interop.test_partition_log import SERVER_SETTINGS, TOPICS, now_ms, open_manager, users, write_bootstrap

AcknowledgedRecords = set[tuple[str, int, int]]
ISOLATIONS = ("read_uncommitted", "read_committed")


def run_until_killed(command: list[str], at_least: int, kill=None) -> AcknowledgedRecords:
    """Run a process that prints acknowledged records. Kill the process, or its broker, while it works."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True) as child:
        watchdog = threading.Timer(200, child.kill)
        watchdog.start()
        try:
            for line in child.stdout:
                lines.append(line)
                if len(lines) == at_least:
                    (kill or child.kill)()
                    child.kill()
        finally:
            child.kill()
            watchdog.cancel()
        error_text = child.stderr.read()
    assert len(lines) >= at_least, error_text[-2000:]
    whole = [line.split() for line in lines if line.endswith("\n")]
    return {(topic, int(partition), int(offset)) for topic, partition, offset in whole}


def append_until_killed(data: Path, life: int) -> AcknowledgedRecords:
    command = [sys.executable, "-m", "tests.interop.appender", str(data), str(life)]
    return run_until_killed(command, 230 + 7 * life)


def recover_copy(data: Path, copy: Path) -> dict[str, brokers.ClientResults]:
    """Recover a copy, and return the records that consumers get."""
    shutil.copytree(data, copy)
    manager = open_manager(copy)
    assert not manager.was_clean
    manager.close(now_ms=now_ms())
    return {level: users(brokers.read_expected_records(copy, isolation=level)) for level in ISOLATIONS}


def offsets_of(records) -> AcknowledgedRecords:
    return {(*partition, row[0]) for partition, rows in records.items() for row in rows}


def test_acknowledged_records_survive(kafka, java_command, java, tmp_path):
    data = tmp_path / "data"
    acknowledged_records = append_until_killed(data, 1)
    write_bootstrap(data)
    expected_records = recover_copy(data, tmp_path / "copy-1")
    assert acknowledged_records <= offsets_of(expected_records["read_uncommitted"])
    assert len(expected_records["read_committed"]["payments", 0]) < len(
        expected_records["read_uncommitted"]["payments", 0]
    )
    node = kafka(tmp_path, SERVER_SETTINGS)
    with node:
        assert {level: users(read(java, node, isolation=level).records) for level in ISOLATIONS} == expected_records
        targets = [f"{topic}:{number}" for topic, (_, count) in TOPICS.items() for number in range(count)]
        flood = java_command("Flood", node.bootstrap, *targets)
        acknowledged_records |= run_until_killed(flood, 3000, kill=node.kill)
        acknowledged_records |= append_until_killed(data, 2)
        expected_records = recover_copy(data, tmp_path / "copy-2")
        assert acknowledged_records <= offsets_of(expected_records["read_uncommitted"])
        node.start()
        assert {level: users(read(java, node, isolation=level).records) for level in ISOLATIONS} == expected_records
        node.stop()
        log_text = (tmp_path / "kafka.out").read_text()
    assert log_text.count("Recovering unflushed segment") >= 2 * 3
    assert "stray" not in log_text
    assert errors_in(log_text) == []
    check_directory(data)
