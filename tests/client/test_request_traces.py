"""The clients' state machines return the same requests in each process, regardless of the string hash seed."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def trace_requests(hash_seed):
    command = [sys.executable, "-m", "tests.soak.request_traces"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


def test_requests_do_not_depend_on_hashes():
    first, second = trace_requests("1"), trace_requests("2")
    assert len(first) > 60
    assert first == second
