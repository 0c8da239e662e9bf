"""Jobs on Spark: the same files and errors as in one process."""

import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.compact.compaction import compact
from kafkaframes.jobs.compact.key_search import search_for_key
from kafkaframes.jobs.compact.stages import SecondPassTask
from kafkaframes.jobs.convert.job import convert
from kafkaframes.jobs.repair.repair import plan_repair, write_repaired
from kafkaframes.jobs.settings import ConvertSettings, RecompressSettings
from kafkaframes.records.build import build_records
from kafkaframes.spark.runtime.jobs import create_runner, create_split_settings
from kafkaframes.storage.cleaner import CleanerSettings
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.recovery.recover import RecoverySettings

LOGS = Path(__file__).parents[1] / "data" / "logs"


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and file.name != "_SUCCESS"
    }


def test_conversion_and_compaction_equal_those_of_one_process(spark, tmp_path):
    run = create_runner(spark)
    up = ConvertSettings(record_format=2)
    here = convert(str(LOGS / "zk-0102-v1"), tmp_path / "here", up)
    there = convert(str(LOGS / "zk-0102-v1"), tmp_path / "there", up, run=run)
    assert there.partitions == here.partitions
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    settings = CleanerSettings(now_ms=10**15)
    here = compact(str(tmp_path / "here"), tmp_path / "compact-here", settings, topics=["*"])
    there = compact(str(tmp_path / "here"), tmp_path / "compact-there", settings, topics=["*"], run=run)
    assert there.partitions == here.partitions
    assert contents(tmp_path / "compact-there") == contents(tmp_path / "compact-here")
    assert search_for_key(str(tmp_path / "here"), b"no such key", run=run).is_gone


@pytest.mark.parametrize("as_kafka", [False, True])
def test_a_repair_equals_that_of_one_process(spark, tmp_path, as_kafka):
    (damaged_dir,) = discover(str(LOGS / "unclean-flipped-bit-active" / "before"))
    settings, run = RecoverySettings(10**12), create_runner(spark)
    here, there = plan_repair(damaged_dir, as_kafka=as_kafka), plan_repair(damaged_dir, as_kafka=as_kafka, run=run)
    assert [one.as_json() for one in there] == [one.as_json() for one in here]
    assert sum(one.bytes_lost for one in here) > 0
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    write_repaired(damaged_dir, here, settings, tmp_path / "here")
    write_repaired(damaged_dir, there, settings, tmp_path / "there", run=run)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def write_topic(path: Path) -> Path:
    """Write a partition of several segments in which every third record has the key of an earlier one."""
    path.mkdir()
    for base in range(0, 4000, 500):
        offsets = list(range(base, base + 500))
        keys = [b"key-%d" % (offset * 7 % 1333) for offset in offsets]
        data = build_records({"offset": offsets, "key": keys, "value": keys}, codec="lz4", batch_bytes=2000)
        (path / f"{base:020}.log").write_bytes(data)
    return path


def test_a_staged_compaction_on_spark_writes_the_same_files(spark, tmp_path):
    source = str(write_topic(tmp_path / "t-0"))
    settings = CleanerSettings(now_ms=10**15, segment_bytes=20_000)
    here = compact(source, tmp_path / "here", settings)
    work_split = replace(
        create_split_settings(spark),
        above_bytes=0,
        chunk_bytes=5_000,
        run_entries=300,
        judge_entries=1500,
        here_bytes=0,
    )
    there = compact(source, tmp_path / "there", settings, run=create_runner(spark), work_split=work_split)
    assert there.partitions == here.partitions
    assert here.partitions[0].records_kept == 1333
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    dry_result = compact(source, None, settings, run=create_runner(spark), work_split=work_split, scratch=tmp_path)
    assert dry_result.partitions == compact(source, None, settings).partitions
    assert {path.name for path in tmp_path.iterdir()} == {"t-0", "here", "there"}


@dataclass(frozen=True)
class WorkerKillingTask:
    """A task that kills the process of its worker."""

    size_bytes: int = 0

    def execute(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_fails_the_job_without_output_and_the_next_run_succeeds(spark, tmp_path):
    source = str(write_topic(tmp_path / "t-0"))
    settings = CleanerSettings(now_ms=10**15)
    work_split = replace(create_split_settings(spark), above_bytes=0, here_bytes=0)

    def run_and_kill_workers(function, tasks):
        return create_runner(spark)(
            function, [WorkerKillingTask() if isinstance(task, SecondPassTask) else task for task in tasks]
        )

    with pytest.raises(Exception, match=r"SparkException|exited unexpectedly|crashed"):
        compact(source, tmp_path / "out", settings, run=run_and_kill_workers, work_split=work_split)
    assert {path.name for path in tmp_path.iterdir()} == {"t-0"}
    compact(source, tmp_path / "out", settings, run=create_runner(spark), work_split=work_split)
    assert (tmp_path / "out" / "_SUCCESS").exists()


def test_damage_is_the_same_error_without_output(spark, tmp_path):
    (tmp_path / "in-0").mkdir()
    data = build_records({"value": [b"a"]}) + b"\0" * 40
    (tmp_path / "in-0" / f"{0:020}.log").write_bytes(data)
    with pytest.raises(LogDirError, match="nothing was written") as caught:
        convert(str(tmp_path / "in-0"), tmp_path / "out", RecompressSettings(codec="gzip"), run=create_runner(spark))
    assert caught.value.file == str(tmp_path / "in-0" / f"{0:020}.log")
    assert {path.name for path in tmp_path.iterdir()} == {"in-0"}
