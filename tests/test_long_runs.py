"""The results of long tests that tools/long_runs.py stores."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tools.long_runs import main, summarize_output


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    top = tmp_path / "checkout"
    (top / "docs").mkdir(parents=True)
    (top / "code.py").write_text("1\n")
    for command in (
        "git init -q",
        "git add .",
        "git -c user.name=a -c user.email=a@example.com -c commit.gpgsign=false commit -qm first",
    ):
        subprocess.run(command, shell=True, cwd=top, check=True)
    return top


def test_result_of_each_command_is_stored(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = checkout / "docs" / "long_runs.json"
    assert main(["echo 3 schedules, 0 wrong", "echo one; exit 3"], checkout, results) == 1
    rows = json.loads(results.read_text())
    assert {command: (row["status"], row["result"]) for command, row in rows.items()} == {
        "echo 3 schedules, 0 wrong": (0, "3 schedules, 0 wrong"),
        "echo one; exit 3": (3, "one"),
    }
    assert len(rows["echo one; exit 3"]["commit"]) == 8
    assert "failed (exit status 3)" in capsys.readouterr().out


def test_new_run_replaces_the_row_of_the_last_one(checkout: Path) -> None:
    results = checkout / "docs" / "long_runs.json"
    results.write_text(json.dumps({"true": {"result": "old"}, "make fuzz": {"result": "18 scripts"}}))
    assert main(["true"], checkout, results) == 0
    rows = json.loads(results.read_text())
    assert rows["true"]["result"] == "no output"
    assert rows["make fuzz"] == {"result": "18 scripts"}


def test_uncommitted_code_is_rejected(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = checkout / "docs" / "long_runs.json"
    (checkout / "code.py").write_text("2\n")
    assert main(["true"], checkout, results) == 1
    assert "code.py" in capsys.readouterr().err
    assert not results.exists()


def test_results_contain_the_counts_of_pytest_and_of_comparisons() -> None:
    lines = ["....", "in all: 12 agreed, 1 NOT ASKED", "=== 5 passed, 1 skipped in 47.39s ===", "no process is left"]
    assert summarize_output(lines) == "5 passed, 1 skipped; compared with other software: 12 agreed, 1 NOT ASKED"


def test_failed_counts_are_not_hidden_by_a_later_rerun() -> None:
    lines = ["1 failed, 20 passed in 60.1s (0:01:00)", "run again, alone:", "1 passed in 2.0s"]
    assert summarize_output(lines) == "1 failed, 20 passed; 1 passed"


def test_scripts_of_a_fuzz_run_are_counted() -> None:
    assert summarize_output(["== tests/fuzz/a.py", "x", "== tests/fuzz/b.py", "y"]) == "2 scripts"
