"""Executors that are processes of their own, one of them killed: compaction has the files of one process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

JOB = """
    import os, signal, sys
    from dataclasses import dataclass, replace
    from pathlib import Path
    import kafkaframes
    from kafkaframes.log.cleaner import CleanerSettings
    from kafkaframes.log.rewrite.compaction import compact
    from kafkaframes.log.rewrite.stages import RewriteTask
    from kafkaframes.spark import jobs

    @dataclass(frozen=True)
    class KillsItsExecutorOnce:
        task: RewriteTask
        size_bytes: int = 0

        def carry_out(self):
            from pyspark import TaskContext
            if TaskContext.get().attemptNumber() == 0:
                daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
                os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
            return self.task.carry_out()

    top = Path(sys.argv[1])
    (top / "t-0").mkdir()
    for base in range(0, 8000, 1000):
        offsets = list(range(base, base + 1000))
        keys = [b"key-%d" % (offset * 7 % 2501) for offset in offsets]
        data = kafkaframes.build_records({"offset": offsets, "key": keys, "value": keys}, codec="lz4")
        (top / "t-0" / f"{base:020}.log").write_bytes(data)
    settings = CleanerSettings(now_ms=10**15)
    compact(str(top / "t-0"), top / "alone", settings)
    spark = kafkaframes.spark.session("compaction", master="local-cluster[2,1,1024]")
    run, killed = jobs.runner(spark), []

    def deadly(function, tasks):
        first = next((place for place, one in enumerate(tasks) if isinstance(one, RewriteTask)), None)
        if first is not None:
            killed.append(first)
            tasks = [KillsItsExecutorOnce(one) if place == first else one for place, one in enumerate(tasks)]
        return run(function, tasks)

    split = replace(jobs.split(spark), above_bytes=0, chunk_bytes=8000, run_entries=500, here_bytes=0)
    compact(str(top / "t-0"), top / "many", settings, run=deadly, split=split)
    spark.range(0, 1000, numPartitions=4).selectExpr("cast(id as string) as value").write.format("kafka-log").option(
        "topic", "t"
    ).mode("append").save(str(top / "written"))
    print("killed", len(killed), "rows", spark.read.format("kafka-log").load(str(top / "written")).count())
    spark.stop()
"""


def contents(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.iterdir() if one.name != "_SUCCESS"}


def test_an_executor_that_is_killed_is_replaced_and_the_files_are_the_same(tmp_path):
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(JOB), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "killed 1 rows 1000" in done.stdout
    assert "Lost executor" in done.stderr + done.stdout
    assert contents(tmp_path / "many") == contents(tmp_path / "alone")
    assert {one.name for one in tmp_path.iterdir()} == {"t-0", "alone", "many", "written"}
