"""Rewrites on Spark: the same files as in one process, the same errors."""

from pathlib import Path

import pytest

from kafkaframes.errors import LogDirError
from kafkaframes.log.cleaner import CleanerSettings
from kafkaframes.log.rewrite import RewriteSettings, convert
from kafkaframes.log.rewrite.compaction import compact, prove_gone
from kafkaframes.records.build import build_records
from kafkaframes.spark.jobs import runner

LOGS = Path(__file__).parents[1] / "data" / "logs"


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and file.name != "_SUCCESS"
    }


def test_conversion_and_compaction_are_those_of_one_process(spark, tmp_path):
    run = runner(spark)
    up = RewriteSettings(magic=2)
    here = convert(str(LOGS / "zk-0102-v1"), tmp_path / "here", up)
    there = convert(str(LOGS / "zk-0102-v1"), tmp_path / "there", up, run=run)
    assert there.partitions == here.partitions
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    settings = CleanerSettings(now_ms=10**15)
    here = compact(str(tmp_path / "here"), tmp_path / "compact-here", settings, topics=["*"])
    there = compact(str(tmp_path / "here"), tmp_path / "compact-there", settings, topics=["*"], run=run)
    assert there.partitions == here.partitions
    assert contents(tmp_path / "compact-there") == contents(tmp_path / "compact-here")
    assert prove_gone(str(tmp_path / "here"), b"no such key", run=run).is_gone


def test_damage_is_the_same_error_and_leaves_nothing(spark, tmp_path):
    (tmp_path / "in-0").mkdir()
    data = build_records({"value": [b"a"]}) + b"\0" * 40
    (tmp_path / "in-0" / f"{0:020}.log").write_bytes(data)
    with pytest.raises(LogDirError, match="nothing was written") as caught:
        convert(str(tmp_path / "in-0"), tmp_path / "out", RewriteSettings(codec=1), run=runner(spark))
    assert caught.value.file == str(tmp_path / "in-0" / f"{0:020}.log")
    assert {path.name for path in tmp_path.iterdir()} == {"in-0"}
