"""A command that is interrupted or loses a process reports it in one line and leaves no file and no process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.processes import processes

import kafkaframes
from kafkaframes import build_records

PACKAGE = str(Path(kafkaframes.__file__).parent)
COMMAND = "from kafkaframes.cli.main import main; main()"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log directory whose compression at the highest level takes a minute, longer than the test waits.

    Its many partitions are small, because Spark finishes the first ones before the interrupt.
    """
    top = tmp_path_factory.mktemp("large") / "log"
    words = np.random.default_rng(1).integers(97, 105, 1 << 20, dtype=np.uint8).tobytes()
    values = [words[at : at + 1000] for at in range(0, len(words), 1000)]
    records = build_records({"value": values, "timestamp": [1] * len(values)}, batch_bytes=1 << 18)
    first = top / "words-0" / f"{0:020d}.log"
    first.parent.mkdir(parents=True)
    first.write_bytes(records)
    for number in range(1, 120):
        (top / f"words-{number}").mkdir()
        os.link(first, top / f"words-{number}" / first.name)
    return top


@pytest.fixture
def start_recompression(log, tmp_path):
    """Start a recompression in its own process group, and return it when it has started some partitions."""
    running = []

    def start(*options, partition_count=1):
        arguments = ["recompress", log, "--codec", "zstd", "--level", "22", "--to", tmp_path / "out", *options]
        errors = (tmp_path.parent / "errors.txt").open("w+")
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *map(str, arguments)], stderr=errors, start_new_session=True
        )
        running.append((process, errors))
        deadline = time.monotonic() + 250
        while len({path.parent.name for path in tmp_path.rglob("*.log*")}) < partition_count:
            assert process.poll() is None, "it was done before it could be stopped"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return process, errors

    yield start
    for process, errors in running:
        if process.poll() is None:
            process.kill()
            process.wait()
        errors.close()


def read_outcome(process, errors):
    """Return the exit status, and the lines other than Spark's log lines."""
    status = process.wait(250)
    errors.seek(0)
    lines = errors.read().splitlines()
    return status, [line for line in lines if " ERROR " not in line and " WARN " not in line and "WARNING" not in line]


def has_traceback_of_package(lines):
    """Return whether a process of this package has printed a traceback.

    While they are stopped, Spark's daemon may report a broken pipe, and the JVM logs tracebacks with words before them.
    """
    is_traceback = False
    for line in lines:
        if line == "Traceback (most recent call last):":
            is_traceback = True
        elif not line.startswith(" "):
            is_traceback = False
        elif is_traceback and PACKAGE in line:
            return True
    return False


def find_processes(process):
    """Return the live processes of a command's session."""
    return [(each.pid, each.arguments) for each in processes() if each.session == process.pid]


def wait_until_gone(process):
    deadline = time.monotonic() + 100
    while find_processes(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not find_processes(process)


@pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=["here", "processes"])
@pytest.mark.parametrize(
    ("number", "status", "lines"),
    [(signal.SIGINT, 130, ["kafkaframes: interrupted"]), (signal.SIGTERM, 143, [])],
    ids=["ctrl-c", "kill"],
)
def test_an_interrupted_command_leaves_no_files_and_processes(
    start_recompression, tmp_path, options, number, status, lines
):
    process, errors = start_recompression(*options)
    if number == signal.SIGINT:  # a terminal sends the signal to all processes of the group
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    assert read_outcome(process, errors) == (status, lines)
    wait_until_gone(process)
    assert list(tmp_path.iterdir()) == []


def test_a_lost_process_is_reported_in_one_line(start_recompression, tmp_path):
    process, errors = start_recompression("--workers", "2")
    victim = next(pid for pid, args in find_processes(process) if "spawn_main" in args)
    os.kill(victim, signal.SIGKILL)
    status, lines = read_outcome(process, errors)
    assert status == 2
    assert [line.split(",")[0] for line in lines] == ["kafkaframes: a worker process was killed"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
@pytest.mark.usefixtures("small_java")
def test_ctrl_c_ends_spark(start_recompression, tmp_path):
    process, errors = start_recompression(
        "--master", "local[2]", partition_count=3
    )  # a task that ended has sent its accumulators
    os.killpg(process.pid, signal.SIGINT)
    status, lines = read_outcome(process, errors)
    assert (status, lines.count("kafkaframes: interrupted")) == (130, 1)  # a JVM that stops may print more lines
    assert not has_traceback_of_package(lines), "\n".join(lines)
    assert not [line for line in lines if "cleanly shutdown Spark JVM" in line]
    wait_until_gone(process)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
@pytest.mark.usefixtures("small_java")
def test_ctrl_c_while_spark_starts_leaves_no_jvm(log, tmp_path):
    """Previously, a partly started JVM outlived the command, because no process stopped it."""
    with (tmp_path.parent / "errors.txt").open("w+") as errors:
        arguments = [sys.executable, "-c", COMMAND, "export", str(log), "--to", str(tmp_path / "out")]
        arguments += ["--master", "local[2]"]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)
        try:
            deadline = time.monotonic() + 250
            while not any("SparkSubmit" in args for _, args in find_processes(process)):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGINT)
            status, lines = read_outcome(process, errors)
            assert (status, lines.count("kafkaframes: interrupted")) == (130, 1)
            assert not [line for line in lines if "Traceback" in line]
            wait_until_gone(process)
        finally:
            process.kill()
            process.wait()
    assert list(tmp_path.iterdir()) == []


def test_a_run_after_a_kill_of_all_processes_starts_again(start_recompression, log, tmp_path):
    process, _ = start_recompression()
    process.kill()
    process.wait()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.kafkaframes-lock", "out.kafkaframes-unfinished"]
    again = [sys.executable, "-c", COMMAND, "recompress", str(log / "words-0"), "--codec", "zstd", "--to"]
    assert subprocess.run([*again, str(tmp_path / "out")], capture_output=True, check=False).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
