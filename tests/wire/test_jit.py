"""The cache of compiled kernels: private, named after all kernel files, safe for processes that start together."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaframes.wire import _jit

LOAD = """
import numba, time
started = time.perf_counter()
from kafkaframes.wire import _kernels
print(time.perf_counter() - started)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKAFRAMES_CACHE_DIR", str(tmp_path))
    _jit.cache_folder.cache_clear()
    yield tmp_path
    _jit.cache_folder.cache_clear()


def test_the_folder_is_named_after_the_content_of_every_kernel_file(folder, tmp_path, monkeypatch):
    before = _jit.cache_folder()
    changed = tmp_path / "_kernels_other.py"
    changed.write_text("# changed")
    monkeypatch.setattr(_jit, "kernel_files", lambda: [changed])
    _jit.cache_folder.cache_clear()
    after = _jit.cache_folder()
    changed.write_text("# changed again")
    _jit.cache_folder.cache_clear()
    assert len({before, after, _jit.cache_folder()}) == 3


def test_a_folder_that_others_may_write_to_is_not_used(folder, monkeypatch):
    chosen = Path(_jit.cache_folder())
    chosen.chmod(0o777)
    _jit.cache_folder.cache_clear()
    assert _jit.cache_folder() != str(chosen)


def test_processes_that_start_together_share_one_cache(tmp_path):
    environment = {**os.environ, "KAFKAFRAMES_CACHE_DIR": str(tmp_path)}

    def start():
        return subprocess.Popen([sys.executable, "-c", LOAD], env=environment, stdout=subprocess.PIPE, text=True)

    for process in [start() for _ in range(3)]:
        process.communicate(timeout=120)
        assert process.returncode == 0
    files = sorted(path.name for path in tmp_path.rglob("*.nb*"))
    assert files
    assert len([name for name in files if name.endswith(".nbi")]) == len(files) / 2  # one signature each

    process = start()
    seconds = float(process.communicate(timeout=120)[0])
    assert process.returncode == 0
    assert seconds < 2  # a warm start; measured 0.2 s, the bound is for busy machines
    assert sorted(path.name for path in tmp_path.rglob("*.nb*")) == files
