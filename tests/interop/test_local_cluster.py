"""With executors in separate processes, which are killed in each step, and with a full disk, compaction writes the same
files as a single process.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

JOB = """
    import os, signal, subprocess, sys
    from dataclasses import dataclass, replace
    from pathlib import Path
    import kafkaframes
    from kafkaframes.storage.cleaner import CleanerSettings
    from kafkaframes.jobs.compact.compaction import compact
    from kafkaframes.errors import LogDirError
    from kafkaframes.jobs.compact.stages import JudgeTask, SecondPassTask, FirstPassTask
    from kafkaframes.spark.runtime import jobs

    @dataclass(frozen=True)
    class KillsItsExecutorOnce:
        task: FirstPassTask | JudgeTask | SecondPassTask
        size_bytes: int = 0

        def execute(self):
            from pyspark import TaskContext
            if TaskContext.get().attemptNumber() == 0:
                daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
                os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
            return self.task.execute()

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
        killed.append(type(tasks[0]).__name__)
        return run(function, [KillsItsExecutorOnce(tasks[0]), *tasks[1:]])

    small = dict(above_bytes=0, chunk_bytes=8000, run_entries=500, judge_entries=1000, here_bytes=0)
    split = replace(jobs.split(spark), workers=2, **small)
    compact(str(top / "t-0"), top / "many", settings, run=deadly, split=split)
    compact(str(top / "t-0"), None, settings, run=run, split=split, scratch=top)
    for kilobytes in (40, 200, 10_000) if sys.argv[2] == "small disk" else ():
        subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", str(top / "disk")], check=True)
        try:
            compact(str(top / "t-0"), top / "disk" / "out", settings, run=run, split=split)
            kept = {one.name: one.read_bytes() for one in (top / "disk" / "out").iterdir() if one.name != "_SUCCESS"}
            print("the same", kept == {one.name: one.read_bytes() for one in (top / "many").glob("*0*")})
        except LogDirError as error:
            assert not list((top / "disk").iterdir()), list((top / "disk").iterdir())
            print("full", "No space left on device" in str(error))
    spark.range(0, 1000, numPartitions=4).selectExpr("cast(id as string) as value").write.format("kafka-log").option(
        "topic", "t"
    ).mode("append").save(str(top / "written"))
    print("killed", killed, "rows", spark.read.format("kafka-log").load(str(top / "written")).count())
    spark.stop()
"""


def contents(path: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in path.iterdir() if entry.name != "_SUCCESS"}


@pytest.mark.timeout(1200)
def test_killed_executors_are_replaced_and_a_full_disk_is_reported_and_files_are_equal(tmp_path):
    source = str(Path(__file__).parents[2] / "src")
    (tmp_path / "disk").mkdir()
    mount, shell_command = f"mount -t tmpfs none {shlex.quote(str(tmp_path / 'disk'))}", ["unshare", "-rm", "sh", "-c"]
    has_disk = (
        shutil.which("unshare")
        and not subprocess.run([*shell_command, mount], capture_output=True, check=False).returncode
    )
    job = [sys.executable, "-c", textwrap.dedent(JOB), str(tmp_path), "small disk" if has_disk else ""]
    process = subprocess.run(
        [*shell_command, f"{mount} && exec {shlex.join(job)}"] if has_disk else job,
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    assert "killed ['SplitPointsTask', 'FirstPassTask', 'JudgeTask', 'SecondPassTask'] rows 1000" in process.stdout
    assert "Lost executor" in process.stderr + process.stdout
    assert contents(tmp_path / "many") == contents(tmp_path / "alone")
    assert {path.name for path in tmp_path.iterdir()} == {"t-0", "alone", "many", "written", "disk"}
    if has_disk:
        assert [line for line in process.stdout.splitlines() if line.startswith(("full", "the same"))] == [
            "full True",
            "full True",
            "the same True",
        ]
