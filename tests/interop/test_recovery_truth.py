"""Random logs with random damage are recovered to the same files, byte for byte, as by Kafka's log loading of three
releases.

Damage with which Kafka cannot start is counted and skipped. Some damage is not tested because recovery differs by
design: a clean stop with a damaged log or offset index, from which Kafka takes the end of the log; flipped bits that
are not covered by a CRC; the zeros that a later broker preallocates for a swap file's missing index and does not
remove.
"""

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
from tests.interop.log_judges import SOURCE_FOLDERS, KafkaLogJudge, byte_differences, compile_judge
from tests.interop.made_up_damage import DAMAGE_BY_NAME, bases
from tests.interop.made_up_logs import DAY_MS, NOW_MS, create_writer, write_segments
from tests.storage.releases import release_of_version

from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.producer_state import BEFORE_HORIZONS
from kafkaframes.storage.recovery.plan import plan_recovery
from kafkaframes.storage.recovery.recover import RecoverySettings, recover_to

LOG_COUNT = int(os.environ.get("KAFKAFRAMES_RECOVERY_LOGS", "60"))
SEED = os.environ.get("KAFKAFRAMES_RECOVERY_SEED", "1")
DAMAGE_OF_CLEAN_STOPS = {"tear_last_file", "flipped", "append_zeros", "append_garbage", "empty_active", "spoilt index"}
PREALLOCATED_BYTES = 65_536
MAGICS = ((2,), (2,), (2,), (0, 1, 2), (0,), (1,), (2, 2, 1))


@dataclass
class DamagedLog:
    """A random log, its damage, and the broker's checkpoints."""

    home: Path
    choose: random.Random
    interval: int
    damages: list[str] = field(default_factory=list)
    clean: bool = False
    recovery_point: int | None = None
    log_start: int | None = None
    leader_epoch: int | None = None

    def question(self, judge: KafkaLogJudge, directory: Path) -> dict[str, Any]:
        return {
            "op": "load",
            "directory": directory,
            "now": NOW_MS,
            "clean": int(self.clean),
            "recovery_point": self.recovery_point or 0,
            "log_start": self.log_start or 0,
            "leader_epoch": -1 if self.leader_epoch is None else self.leader_epoch,
            **judge.segment_bytes(10**9),
            "topic:segment.index.bytes": PREALLOCATED_BYTES,
            "topic:index.interval.bytes": self.interval,
        }


def create_log(number: int, home: Path, is_2_8: bool) -> DamagedLog:
    choose = random.Random(f"{SEED}-{number}")
    writer = create_writer(choose, choose.choice(MAGICS))
    if is_2_8:
        writer.horizons = 0.0
    log = DamagedLog(home / str(number), choose, choose.choice((100, 512, 4096)), leader_epoch=50)
    (log.home / "whole" / "t-0").mkdir(parents=True)
    write_segments(writer, log.home / "whole" / "t-0", count=choose.choice((1, 2, 3, 5, 9)))
    return log


def damage(log: DamagedLog, end: int, is_2_8: bool) -> None:
    """Copy the log and damage the copy."""
    choose, target = log.choose, log.home / "damaged"
    shutil.copytree(log.home / "whole", target)
    log.damages = choose.choices(list(DAMAGE_BY_NAME), k=choose.choice((0, 1, 2, 3)))
    for name in log.damages:
        if bases(target / "t-0"):
            DAMAGE_BY_NAME[name](choose, target / "t-0")
    log.clean = choose.random() < 0.25 and not DAMAGE_OF_CLEAN_STOPS.intersection(log.damages)
    base_offsets = bases(target / "t-0") or [0]
    within = choose.randrange(base_offsets[0], end + 1) if end >= base_offsets[0] else end
    log.recovery_point = choose.choice((None, 0, end, choose.choice(base_offsets), within, end + 10))
    log.log_start = choose.choice((None, None, None, None, within, end + 5))
    log.leader_epoch = choose.choice((None, 60))
    if log.clean:
        (target / ".kafka_cleanshutdown").write_bytes(b"")
    for name, value in (("recovery-point", log.recovery_point), ("log-start", log.log_start)):
        if value is not None:
            (target / f"{name}-offset-checkpoint").write_text(f"0\n1\nt 0 {value}\n")


def differences(log: DamagedLog, version: str, ends: list[int]) -> list[str]:
    (directory,) = discover(str(log.home / "damaged"))
    plan = plan_recovery(directory, directory.partitions[0], broker_release=release_of_version(version))
    settings = RecoverySettings(
        NOW_MS,
        index_interval_bytes=log.interval,
        new_leader_epoch=log.leader_epoch,
        producer_id_expiration_ms=DAY_MS,
        broker_release=release_of_version(version),
    )
    recover_to(directory, plan, settings, log.home / "ours")
    for path in (log.home / "kafka" / "t-0").glob("*.index*"):
        if path.read_bytes() == bytes(PREALLOCATED_BYTES):
            path.write_bytes(b"")
    texts = list(byte_differences(log.home / "kafka" / "t-0", log.home / "ours"))
    own_offsets = [plan.log_start_offset, plan.log_end_offset]
    return texts + (
        [] if own_offsets == ends else [f"Kafka's log has the start and end offsets {ends}, ours {own_offsets}"]
    )


@pytest.mark.parametrize("version", SOURCE_FOLDERS)
def test_damaged_logs_are_recovered_as_by_kafka(version: str, oracle: Path, tmp_path: Path) -> None:
    log_judge = compile_judge(real_kafka(oracle), version, tmp_path / "classes")
    is_2_8 = release_of_version(version) == BEFORE_HORIZONS
    logs = [create_log(number, tmp_path / "logs", is_2_8) for number in range(LOG_COUNT)]
    whole = log_judge.answer_questions(
        [log.question(log_judge, log.home / "whole" / "t-0") for log in logs], tmp_path / "work"
    )
    questions = []
    for log, ends in zip(logs, whole, strict=True):
        damage(log, int(ends[1]), is_2_8)
        shutil.copytree(log.home / "damaged", log.home / "kafka")
        questions.append(log.question(log_judge, log.home / "kafka" / "t-0"))
    differences_by_log, failed_ends, damage_counts = {}, [], Counter[str]()
    for log, ends in zip(logs, log_judge.answer_questions(questions, tmp_path / "work"), strict=True):
        if isinstance(ends, str):
            failed_ends.append(ends)
            continue
        damage_counts.update(log.damages)
        texts = differences(log, version, ends)
        if texts:
            differences_by_log[f"{log.home.name} {log.damages} {log}"] = texts
    assert differences_by_log == {}
    assert len(failed_ends) < LOG_COUNT / 10, failed_ends
    assert len(damage_counts) > 15
