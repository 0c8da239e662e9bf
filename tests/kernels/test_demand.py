"""Compilation on demand: once for all processes, only imported modules, with one line of output."""

import os
import subprocess
import sys

import numpy as np
import pytest

from kafkaframes.errors import KafkaframesError
from kafkaframes.kernels import demand, workers

CALL = """
import numpy as np
from kafkaframes.jobs.report import _kernels
keys = np.frombuffer(b"abcdefgh", np.uint8)
hashes = np.zeros(2, np.int64)
_kernels.hash_keys(keys, np.array([0, 4]), np.array([4, 4], np.int32), hashes)
print(*hashes)
"""


@pytest.fixture
def start(tmp_path):
    """Start processes that share an empty cache."""
    processes = []

    def run(code=CALL, **variables):
        environment = {**os.environ, "KAFKAFRAMES_CACHE_DIR": str(tmp_path / "cache"), **variables}
        command = [sys.executable, "-c", code]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def finish(process):
    out, err = process.communicate(timeout=250)
    assert process.returncode == 0, err
    return out, err


def test_concurrent_processes_compile_imported_modules_once(start, tmp_path, require_compiler):
    results = [finish(process) for process in [start() for _ in range(3)]]
    assert len({out for out, _ in results}) == 1
    lines = "".join(err for _, err in results)
    assert lines.count("compiling kernels") == 1
    files = sorted(path.name.partition("-")[0] for path in (tmp_path / "cache").glob("*.so"))
    assert files == ["jobs.report._kernels", "wire._kernels"]
    assert finish(start()) == (results[0][0], "")


@pytest.fixture(scope="module")
def hashes():
    """The expected hashes, from the kernels of this process."""
    from kafkaframes.jobs.report import _kernels

    result = np.zeros(2, np.int64)
    _kernels.hash_keys(np.frombuffer(b"abcdefgh", np.uint8), np.array([0, 4]), np.array([4, 4], np.int32), result)
    return " ".join(map(str, result)) + "\n"


def test_without_a_c_compiler_numbas_cache_is_used(start, tmp_path, hashes):
    out, err = finish(start(KAFKAFRAMES_CC="no-such-compiler"))
    assert out == hashes
    assert err.count("compiling kernels") == 1
    assert not list((tmp_path / "cache").glob("*.so"))
    assert len(list((tmp_path / "cache").glob("numba-*/complete-*"))) == 2
    assert finish(start(KAFKAFRAMES_CC="no-such-compiler")) == (hashes, "")


def test_numbas_cache_depends_on_path_and_modification_time(tmp_path, monkeypatch):
    names = set()
    for folder in ("here", "there"):
        monkeypatch.setattr(demand.directories, "PACKAGE_DIRECTORY", tmp_path / folder)
        source = tmp_path / folder / "near" / "_kernels_a.py"
        source.parent.mkdir(parents=True)
        source.write_text("import numpy as np")
        for seconds in (1, 2):
            os.utime(source, (seconds, seconds))
            names.add(demand.make_numba_folder_name("kafkaframes.near._kernels_a"))
        assert demand.make_numba_folder_name("kafkaframes.near._kernels_a") in names
    assert len(names) == 4


def test_a_processor_below_the_target_gets_its_own_kernels(start, tmp_path, hashes):
    out, _ = finish(start(KAFKAFRAMES_TARGET="this-machine"))
    assert out == hashes
    assert not list((tmp_path / "cache").glob("*.so"))


def test_without_a_cache_folder_kernels_are_compiled_in_memory(start, tmp_path, hashes):
    code = "from kafkaframes.kernels import directories; directories.cache_folders = lambda: iter(())\n" + CALL
    out, err = finish(start(code))
    assert out == hashes
    assert "no cache folder" in err


def test_waiting_for_a_lock_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(demand, "MAX_LOCK_WAIT_SECONDS", 0.3)
    messages = []
    with demand.hold_cache_lock(tmp_path, messages.append), demand.hold_cache_lock(tmp_path, messages.append):
        pass
    assert messages == ["waiting for another process that compiles kernels"]


def test_a_failed_compiler_is_reported(tmp_path, monkeypatch, require_compiler):
    monkeypatch.setenv("KAFKAFRAMES_CC", "false")
    demand.find_c_compiler.cache_clear()
    with pytest.raises(demand.CompilerError, match="false failed"):
        demand.link_library(b"", "", tmp_path / "x.so")
    demand.find_c_compiler.cache_clear()


def test_other_jobs_are_finished_after_a_failure(tmp_path):
    jobs = [("os:mkdir", str(tmp_path / "made")), ("os:rmdir", str(tmp_path / "none"))]
    finished_jobs = []
    with pytest.raises(KafkaframesError, match="kernels could not be compiled"):
        workers.run_jobs(jobs, on_done=finished_jobs.append)
    assert (tmp_path / "made").is_dir()
    assert finished_jobs == jobs[:1]
