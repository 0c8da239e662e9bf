"""What compiles: once for all processes that start together, only what is imported, said in one line."""

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
    """Start processes with an empty cache of their own."""
    started = []

    def run(code=CALL, **more):
        environment = {**os.environ, "KAFKAFRAMES_CACHE_DIR": str(tmp_path / "cache"), **more}
        command = [sys.executable, "-c", code]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def finish(process):
    out, err = process.communicate(timeout=250)
    assert process.returncode == 0, err
    return out, err


def test_processes_that_start_together_compile_once_and_what_they_import_only(start, tmp_path, compiled_ahead):
    told = [finish(process) for process in [start() for _ in range(3)]]
    assert len({out for out, _ in told}) == 1
    lines = "".join(err for _, err in told)
    assert lines.count("compiling kernels") == 1
    files = sorted(path.name.partition("-")[0] for path in (tmp_path / "cache").glob("*.so"))
    assert files == ["jobs.report._kernels", "wire._kernels"]
    assert finish(start()) == (told[0][0], "")  # nothing is left to be said


@pytest.fixture(scope="module")
def hashes():
    """The same hashes from this process's kernels."""
    from kafkaframes.jobs.report import _kernels

    result = np.zeros(2, np.int64)
    _kernels.hash_keys(np.frombuffer(b"abcdefgh", np.uint8), np.array([0, 4]), np.array([4, 4], np.int32), result)
    return " ".join(map(str, result)) + "\n"


def test_without_a_c_compiler_numbas_cache_takes_its_place(start, tmp_path, hashes):
    out, err = finish(start(KAFKAFRAMES_CC="no-such-compiler"))
    assert out == hashes
    assert err.count("compiling kernels") == 1
    assert not list((tmp_path / "cache").glob("*.so"))
    assert len(list((tmp_path / "cache").glob("numba-*/complete-*"))) == 2
    assert finish(start(KAFKAFRAMES_CC="no-such-compiler")) == (hashes, "")


def test_numbas_cache_of_sources_that_lie_elsewhere_or_are_newer_is_not_taken_for_theirs(tmp_path, monkeypatch):
    names = set()
    for folder in ("here", "there"):
        monkeypatch.setattr(demand.directories, "PACKAGE", tmp_path / folder)
        source = tmp_path / folder / "near" / "_kernels_a.py"
        source.parent.mkdir(parents=True)
        source.write_text("import numpy as np")
        for seconds in (1, 2):
            os.utime(source, (seconds, seconds))
            names.add(demand.numba_name("kafkaframes.near._kernels_a"))
        assert demand.numba_name("kafkaframes.near._kernels_a") in names
    assert len(names) == 4


def test_a_processor_below_the_target_gets_kernels_of_its_own(start, tmp_path, hashes):
    out, _ = finish(start(KAFKAFRAMES_TARGET="this-machine"))
    assert out == hashes
    assert not list((tmp_path / "cache").glob("*.so"))


def test_without_any_folder_it_is_compiled_in_memory_and_said(start, tmp_path, hashes):
    code = "from kafkaframes.kernels import directories; directories.caches = lambda: iter(())\n" + CALL
    out, err = finish(start(code))
    assert out == hashes
    assert "no folder for kernels" in err


def test_a_lock_whose_holder_hangs_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(demand, "LONGEST_WAIT_SECONDS", 0.3)
    said = []
    with demand.alone(tmp_path, said.append), demand.alone(tmp_path, said.append):
        pass
    assert said == ["waiting for another process that compiles kernels"]


def test_a_compiler_that_fails_says_so(tmp_path, monkeypatch, compiled_ahead):
    monkeypatch.setenv("KAFKAFRAMES_CC", "false")
    demand.compiler.cache_clear()
    with pytest.raises(demand.LinkError, match="false failed"):
        demand.link(b"", "", tmp_path / "x.so")
    demand.compiler.cache_clear()


def test_a_job_that_fails_is_one_line_and_the_others_are_done(tmp_path):
    jobs = [("os:mkdir", str(tmp_path / "made")), ("os:rmdir", str(tmp_path / "none"))]
    done = []
    with pytest.raises(KafkaframesError, match="kernels could not be compiled"):
        workers.run(jobs, done=done.append)
    assert (tmp_path / "made").is_dir()
    assert done == jobs[:1]
