"""A test that hangs beyond its time limit is reported by name, and the other tests run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE_CONFTEST = """
import tests.hung_tests

tests.hung_tests.CLEAN_UP_TIMEOUT_S = 1
"""
EXAMPLE_TESTS = """
import subprocess, sys, time
import pytest

def start_long_process():
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])

@pytest.fixture
def slow_fixture():
    yield
    with start_long_process():
        pass

def test_that_waits_in_its_clean_up():
    with start_long_process():
        time.sleep(30)

def test_that_fails_before_its_fixture_waits(slow_fixture):
    time.sleep(30)

@pytest.mark.timeout(10)
def test_with_a_longer_limit():
    time.sleep(2.5)

def test_that_passes():
    pass
"""


def run_example(folder, *options):
    command = [sys.executable, "-m", "pytest", "-p", "tests.hung_tests", "-p", "no:cacheprovider", "-n", "1", "-rA"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    return subprocess.run(
        [*command, *options, "test_example.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_other_tests_run_after_a_test_that_does_not_end(tmp_path):
    (tmp_path / "conftest.py").write_text(EXAMPLE_CONFTEST)
    (tmp_path / "test_example.py").write_text(EXAMPLE_TESTS)
    result = run_example(tmp_path, "--timeout", "1")
    outcomes = {
        (words[0], words[1].split("::")[1])
        for line in result.stdout.splitlines()
        if len(words := line.split()) > 1 and "::" in words[1]
    }
    assert outcomes == {
        ("FAILED", "test_that_waits_in_its_clean_up"),
        ("FAILED", "test_that_fails_before_its_fixture_waits"),
        ("PASSED", "test_with_a_longer_limit"),
        ("PASSED", "test_that_passes"),
    }
    assert "in slow_fixture" in result.stderr  # the stacks


@pytest.mark.slow
def test_a_run_without_results_is_interrupted(tmp_path):
    (tmp_path / "conftest.py").write_text("import tests.hung_tests\n\ntests.hung_tests.IDLE_TIMEOUT_S = 8\n")
    (tmp_path / "test_example.py").write_text(
        "import time\n\ndef test_first():\n    pass\n\ndef test_endless():\n    time.sleep(100)\n"
    )
    result = run_example(tmp_path)
    assert result.returncode == pytest.ExitCode.INTERRUPTED, result.stdout
    assert "tests that have started:\n  test_example.py::test_endless\n" in result.stderr
