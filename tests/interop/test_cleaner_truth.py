"""Random logs are cleaned as by Kafka's log cleaners of three releases, in rounds with appends in between."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.interop.brokers import real_kafka
from tests.interop.log_judges import (
    SOURCE_FOLDERS,
    KafkaLogJudge,
    byte_differences,
    cleaned_differences,
    compile_judge,
    copy_times,
)
from tests.interop.made_up_logs import DAY_MS, NOW_MS, RandomLogWriter, create_writer, write_segments
from tests.storage.releases import release_of_version

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.compact.staged_compaction import PartitionCompaction, SplitSettings, clean_partitions
from kafkaframes.jobs.job import run_here
from kafkaframes.storage.cleaner import CleanerSettings, CleaningResult, clean_partition
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.producer_state import BEFORE_HORIZONS
from kafkaframes.storage.recovery.plan import plan_recovery
from kafkaframes.storage.recovery.recover import RecoverySettings, recover_to

LOG_COUNT = int(os.environ.get("KAFKAFRAMES_CLEANER_LOGS", "40"))
SEED = os.environ.get("KAFKAFRAMES_CLEANER_SEED", "1")
ROUNDS = 3
MAGICS = ((2,), (2,), (2,), (0, 1, 2), (0,), (1,), (2, 2, 1), (1, 2))
SPLIT_SETTINGS = SplitSettings(secret=(1, 2), above_bytes=0, chunk_bytes=2000, run_entries=100, judge_entries=500)
DELETE_DELAY_CONFIG = {"wait": 60_000}  # let a broker's delayed deletions, a minute later, take place


@dataclass
class CleanedLog:
    """A random log in all rounds."""

    number: int
    home: Path
    choose: random.Random
    writer: RandomLogWriter
    settings: dict[str, int]
    now: int = NOW_MS
    dirty: int | None = None
    high_watermark: int | None = None
    log_start: int = 0
    path: Path = field(default_factory=Path)

    def step(self, name: str) -> Path:
        """Copy the log to the directory of the next step."""
        target = self.home / name
        shutil.copytree(self.path, target)
        copy_times(self.path / "t-0", target / "t-0")
        self.path = target
        return target / "t-0"


def create_log(number: int, home: Path, version: str) -> CleanedLog:
    choose = random.Random(f"{SEED}-{number}")
    writer = create_writer(choose, choose.choice(MAGICS))
    if release_of_version(version) == BEFORE_HORIZONS:
        writer.horizons = 0.0
    settings = {
        "segment_bytes": choose.choice((2000, 12_000, 72_000, 10**9)),
        "index_bytes": choose.choice((240, 2400, 65_536, 65_536)),
        "index_interval_bytes": choose.choice((100, 512, 4096)),
        "delete_retention_ms": choose.choice((0, 0, 2000, DAY_MS)),
        "min_compaction_lag_ms": choose.choice((0, 0, 0, 0, 0, 1000, DAY_MS // 2)),
    }
    return CleanedLog(number, home / str(number), choose, writer, settings)


def question(log: CleanedLog, judge: KafkaLogJudge, directory: Path, **more: Any) -> dict[str, Any]:
    settings = log.settings
    return {
        "directory": directory,
        "now": log.now,
        "log_start": log.log_start,
        **judge.segment_bytes(settings["segment_bytes"]),
        "topic:segment.index.bytes": settings["index_bytes"],
        "topic:index.interval.bytes": settings["index_interval_bytes"],
        "topic:delete.retention.ms": settings["delete_retention_ms"],
        "topic:min.compaction.lag.ms": settings["min_compaction_lag_ms"],
        "topic:cleanup.policy": "compact",
        "topic:max.message.bytes": 10**7,
        **more,
    }


def append_segments(log: CleanedLog, number: int) -> Path:
    """Append segments as log files only. A broker creates their other files in the next step."""
    if number:
        log.step(f"grown-{number}")
        for path in (log.path / "t-0").glob("*.deleted"):
            path.unlink()
        if log.choose.random() < 0.1:  # an admin client has deleted records
            log.log_start = log.choose.randrange(log.log_start, log.writer.offset + 1)
            (log.path / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {log.log_start}\n")
    else:
        log.path = log.home / "made"
        (log.path / "t-0").mkdir(parents=True)
    write_segments(log.writer, log.path / "t-0", count=log.choose.choice((0, 1, 2, 4) if number else (1, 2, 3, 5, 9)))
    return log.path / "t-0"


def load_logs(logs: list[CleanedLog], judge: KafkaLogJudge, number: int) -> dict[str, list[str]]:
    """Let Kafka and this package load the logs, which creates the missing files."""
    appended_dirs = {log.number: append_segments(log, number) for log in logs}
    sources = {log.number: log.path for log in logs}
    large = {"topic:segment.index.bytes": 65_536, "leader_epoch": 50 + number}
    questions = [question(log, judge, log.step(f"loaded-{number}"), op="load", clean=0, **large) for log in logs]
    answers = judge.answer_questions(questions, logs[0].home.parent / "work")
    differences_by_log = {}
    for log, answer in zip(logs, answers, strict=True):
        assert not isinstance(answer, str), answer
        (directory,) = discover(str(sources[log.number]))
        settings = RecoverySettings(
            log.now,
            index_interval_bytes=log.settings["index_interval_bytes"],
            new_leader_epoch=50 + number,
            producer_id_expiration_ms=DAY_MS,
            broker_release=release_of_version(judge.version),
        )
        ours = log.home / f"ours-loaded-{number}" / "t-0"
        recover_to(directory, plan_recovery(directory, directory.partitions[0]), settings, ours)
        differences_by_log[f"{log.number}, load {number}"] = list(byte_differences(log.path / "t-0", ours))
        copy_times(appended_dirs[log.number], log.path / "t-0")
    return differences_by_log


def clean_logs(
    logs: list[CleanedLog], judge: KafkaLogJudge, number: int, outcomes: Counter[str]
) -> dict[str, list[str]]:
    """Let Kafka and this package clean the logs. The next round continues with Kafka's results, except for logs that it
    could not clean.
    """
    sources = {log.number: log.path for log in logs}
    questions = []
    for log in logs:
        log.high_watermark = log.choose.randrange(log.writer.offset + 1) if log.choose.random() < 0.08 else None
        optional_fields = {"dirty": log.dirty, "high_watermark": log.high_watermark}
        more = {key: value for key, value in optional_fields.items() if value is not None}
        buffer = log.choose.choice((524_288, 1024))
        asked_for = {"op": "clean", "clean": 1, "io_buffer": buffer, **DELETE_DELAY_CONFIG, **more}
        questions.append(question(log, judge, log.step(f"cleaned-{number}"), **asked_for))
    differences_by_log = {}
    for log, answer in zip(list(logs), judge.answer_questions(questions, logs[0].home.parent / "work"), strict=True):
        if isinstance(answer, str) and "to a full" in answer:  # brokers do not have such small indexes
            logs.remove(log)
            continue
        ours = clean_with_ours(log, sources[log.number], judge.version, number)
        outcomes["refused" if isinstance(ours, LogDirError) else "cleaned" if ours else "nothing to clean"] += 1
        if isinstance(answer, str) or isinstance(ours, LogDirError):
            logs.remove(log)
            texts = [] if isinstance(answer, str) and isinstance(ours, LogDirError) else [f"{answer}, ours: {ours}"]
        else:
            texts = list(differences(log, answer[2], ours))
        differences_by_log[f"{log.number}, round {number}"] = texts
        log.now += log.choose.choice((0, 1000, 3000, DAY_MS // 2, 2 * DAY_MS))
        log.writer.clock += log.choose.choice((0, 0, DAY_MS))
    return differences_by_log


def clean_with_ours(log: CleanedLog, source: Path, version: str, number: int) -> CleaningResult | LogDirError | None:
    (directory,) = discover(str(source))
    settings = CleanerSettings(
        now_ms=log.now,
        broker_release=release_of_version(version),
        first_dirty_offset=log.dirty,
        high_watermark=log.high_watermark,
        expiration_ms=DAY_MS,
        **log.settings,
    )
    target = log.home / f"ours-{number}" / "t-0"
    try:
        alone = clean_partition(directory.filesystem, directory.partitions[0], settings, target)
    except LogDirError as error:
        return error
    if alone is not None and log.number % 4 == 0:
        many = log.home / f"many-{number}" / "t-0"
        clean_partitions(
            [PartitionCompaction(directory.filesystem, directory.partitions[0], many)],
            settings,
            SPLIT_SETTINGS,
            run_here,
        )
        assert list(byte_differences(target, many)) == []
    return alone


def differences(log: CleanedLog, end_offset: int, ours: CleaningResult | None) -> list[str]:
    own_end_offset = -1 if ours is None else ours.end_offset
    if own_end_offset != end_offset:
        return [f"Kafka cleaned up to {end_offset}, this package up to {own_end_offset}"]
    if ours is None:
        return []
    log.dirty = end_offset
    return list(cleaned_differences(log.path / "t-0", ours.directory))


@pytest.mark.parametrize("version", SOURCE_FOLDERS)
def test_random_logs_are_cleaned_as_by_kafka(version: str, oracle: Path, tmp_path: Path) -> None:
    """All files of each round are equal: records, batch headers, names, transaction indexes and producer snapshots."""
    log_judge = compile_judge(real_kafka(oracle), version, tmp_path / "classes")
    logs = [create_log(number, tmp_path / "logs", version) for number in range(LOG_COUNT)]
    outcomes: Counter[str] = Counter()
    differences_by_log: dict[str, list[str]] = {}
    for number in range(ROUNDS):
        differences_by_log |= load_logs(logs, log_judge, number)
        differences_by_log |= clean_logs(logs, log_judge, number, outcomes)
    assert {name: texts for name, texts in differences_by_log.items() if texts} == {}
    assert outcomes["cleaned"] > LOG_COUNT // 2 < len(differences_by_log)
    assert outcomes["nothing to clean"]
