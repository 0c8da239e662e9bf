"""Each task of each job may run twice and be killed halfway, as Spark's tasks: the result is that of one run.

Spark repeats a task if its worker or executor is lost, which may have written some or all of its files.
"""

import hashlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaframes.jobs.compact.compaction import compact
from kafkaframes.jobs.compact.staged_compaction import SplitSettings
from kafkaframes.jobs.convert.job import convert
from kafkaframes.jobs.export.planning import plan_export
from kafkaframes.jobs.export.run import export_segments
from kafkaframes.jobs.export.task import ExportTaskSettings
from kafkaframes.jobs.job import run_here
from kafkaframes.jobs.restore.job import restore_segments
from kafkaframes.jobs.restore.parquet import restore_parquet
from kafkaframes.jobs.restore.settings import RestoreSettings
from kafkaframes.jobs.settings import ConvertSettings
from kafkaframes.records.build import build_records
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.storage.cleaner import CleanerSettings
from kafkaframes.storage.files import atomic

NOW_MS = 1_700_000_000_000
PARTITIONS, SEGMENTS, RECORDS = 2, 3, 40
CLEANER = CleanerSettings(now_ms=NOW_MS, segment_bytes=600)
STAGED = SplitSettings(secret=(1, 2), above_bytes=0, chunk_bytes=400, run_entries=20, judge_entries=20, here_bytes=0)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log directory with some segments and repeated keys."""
    top = tmp_path_factory.mktemp("source") / "log"
    for number in range(PARTITIONS):
        partition = top / f"orders-{number}"
        partition.mkdir(parents=True)
        for segment in range(SEGMENTS):
            base = segment * RECORDS
            columns = {
                "key": [b"%d" % (at % 7) for at in range(RECORDS)],
                "value": [b"%d" % (base + at) for at in range(RECORDS)],
                "timestamp": [NOW_MS] * RECORDS,
            }
            raw = build_records(columns, base_offset=base, batch_bytes=200)
            (partition / f"{base:020}.log").write_bytes(raw)
    return top


@pytest.fixture(scope="module")
def exported_dir(log, tmp_path_factory):
    return write_export(log, tmp_path_factory.mktemp("parquet") / "out", run_here)


def write_export(log, to, run):
    options = ReadOptions((str(log),))
    export_segments(plan_export(options).tasks, ExportTaskSettings(str(to)), run=run)
    return to


def ids():
    numbers = iter(range(1, 100))
    return lambda: f"{next(numbers):022}"


def restore(log, to, run):
    restore_segments(str(log), to, RestoreSettings(), now_ms=NOW_MS, new_id=ids(), run=run)


def restore_rows(exported_dir, to, run):
    restore_parquet(str(exported_dir), to, RestoreSettings(), now_ms=NOW_MS, new_id=ids(), run=run)


def compact_all(source, to, run):
    compact(str(source), to, CLEANER, topics=("orders",), run=run)


def compact_staged(source, to, run):
    compact(str(source), to, CLEANER, topics=("orders",), run=run, work_split=STAGED)


def convert_all(log, to, run):
    convert(str(log), str(to), ConvertSettings(record_format=1), run=run)


JOBS = {
    "restore": restore,
    "restore from Parquet": restore_rows,
    "compact": compact_all,
    "compact in stages": compact_staged,
    "compact one partition": lambda log, to, run: compact_all(log / "orders-0", to, run),
    "convert": convert_all,
    "export": write_export,
}


def content_of(directory):
    """Digests of all files, except ``_SUCCESS``, reports and journals, which contain the destination."""
    assert not list(directory.rglob(f"*{atomic.PART}*"))
    assert not list(directory.rglob(f"{atomic.ATTEMPT_PREFIX}*"))
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != atomic.SUCCESS_FILE and "_kafkaframes" not in path.parts
    }


def copy(task):
    """Return a task as another process receives it."""
    return pickle.loads(pickle.dumps(task))


def run_twice(function, tasks):
    """Run each task twice, and return the results of the first attempts."""
    for task in tasks:
        first = function(copy(task))
        function(copy(task))
        yield first


def run_again(function, tasks):
    """Run each task twice, and return the results of the second attempts."""
    for task in tasks:
        function(copy(task))
        yield function(copy(task))


KILLED = 9
HALFWAY = """
import os, pickle, sys
with open(sys.argv[1], "rb") as file:
    function, task = pickle.load(file)
left = int(sys.argv[2])
def count(event, arguments):
    global left
    writes = event in ("os.mkdir", "os.rename") or (event == "open" and isinstance(arguments[2], int)
        and arguments[2] & (os.O_WRONLY | os.O_RDWR) and sys.argv[3] in str(arguments[0]))
    if writes:
        left -= 1
        if left < 0:
            os._exit(9)
sys.addaudithook(count)
function(task)
"""


def kill_halfway(tmp_path, writes):
    """Return a runner that kills an attempt at the first task after some writes, and then runs the task again."""

    def run(function, tasks):
        for number, task in enumerate(tasks):
            if number == 0:
                path = tmp_path / "task.pickle"
                path.write_bytes(pickle.dumps((function, task)))
                command = [sys.executable, "-c", HALFWAY, str(path), str(writes), "result"]
                process = subprocess.run(command, capture_output=True, text=True, timeout=300)
                kill_results.append(process.returncode == KILLED)
                assert process.returncode in (0, KILLED), process.stderr
            yield function(copy(task))

    kill_results = []
    run.killed = kill_results
    return run


@pytest.fixture(scope="module")
def expected_results(log, exported_dir, tmp_path_factory):
    """The result of each job if every task runs once."""
    top = tmp_path_factory.mktemp("once")
    contents = {}
    for name, job in JOBS.items():
        job(exported_dir if name == "restore from Parquet" else log, top / name.replace(" ", "-"), run_here)
        contents[name] = content_of(top / name.replace(" ", "-"))
        assert contents[name]
    return contents


@pytest.mark.parametrize("run", [run_twice, run_again])
@pytest.mark.parametrize("name", JOBS)
def test_a_task_that_runs_twice_does_not_change_the_result(log, exported_dir, expected_results, tmp_path, name, run):
    JOBS[name](exported_dir if name == "restore from Parquet" else log, tmp_path / "result", run)
    assert content_of(tmp_path / "result") == expected_results[name]
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


@pytest.mark.parametrize("name", JOBS)
def test_an_attempt_killed_halfway_does_not_change_the_result(log, exported_dir, expected_results, tmp_path, name):
    result = tmp_path / "work" / "result"
    result.parent.mkdir()
    run = kill_halfway(tmp_path, writes=3)
    JOBS[name](exported_dir if name == "restore from Parquet" else log, result, run)
    assert any(run.killed)
    assert content_of(result) == expected_results[name]
    assert [path.name for path in result.parent.iterdir()] == ["result"]


def test_an_attempt_that_outlives_its_job_leaves_no_files(log, tmp_path):
    """The lost executor still runs: it continues after the job has ended."""
    late = []

    def run(function, tasks):
        for task in tasks:
            late.append((function, copy(task)))
            yield function(copy(task))

    restore(log, tmp_path / "result", run)
    before = content_of(tmp_path / "result")
    for function, task in late:
        with pytest.raises(Exception, match="cannot be written"):
            function(task)
    assert content_of(tmp_path / "result") == before
    assert [path.name for path in Path(tmp_path).iterdir()] == ["result"]
