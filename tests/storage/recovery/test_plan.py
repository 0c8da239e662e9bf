"""Recovery plans, compared with the recovery of a real broker, and cases that only artificial directories contain."""

import shutil
from pathlib import Path

import pytest
from tests.agreement.kind import Case
from tests.agreement.kinds import unclean

from kafkaframes.errors import LogDirError
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.recovery.plan import FileActionKind, RecoveryPlan, plan_recovery

LOGS = Path(__file__).parents[2] / "data" / "logs"
LOG_BEFORE_RECOVERY = LOGS / "unclean-half-finished-swap" / "before"


def plan_recovery_of(path: Path) -> RecoveryPlan:
    (directory,) = discover(str(path))
    return plan_recovery(directory, directory.partitions[0])


def base(offset: int, suffix: str = "log") -> str:
    return f"{offset:020d}.{suffix}"


@pytest.fixture
def killed_partition(tmp_path):
    """A partition of three segments (bases 0, 84, 170) with the recovery point 84; its broker was killed."""
    shutil.copytree(LOG_BEFORE_RECOVERY / "idem-0", tmp_path / "idem-0")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nidem 0 84\n")
    for path in (tmp_path / "idem-0").glob("*.cleaned"):
        path.unlink()
    return tmp_path / "idem-0"


def test_the_plan_keeps_the_records_that_a_broker_kept():
    (case,) = (one for one in unclean._yield_cases(LOGS) if one.name == "unclean-half-finished-swap")
    assert [*unclean.KIND.disagreements(case)] == []


def test_a_missing_broker_recovery_is_detected(tmp_path):
    shutil.copytree(LOGS / "unclean-half-finished-swap", tmp_path / "unclean-half-finished-swap")
    (case,) = unclean._yield_cases(tmp_path)
    assert isinstance(case, Case)
    assert [*unclean.KIND.disagreements(case)]


def test_a_healthy_partition_is_only_rebuilt(killed_partition):
    plan = plan_recovery_of(killed_partition)
    assert [segment.is_recovered for segment in plan.segments] == [False, True, True]
    assert {action.kind for action in plan.actions} == {FileActionKind.REBUILD}
    assert (plan.log_start_offset, plan.log_end_offset, plan.bytes_lost) == (0, 245, 0)


def test_after_a_clean_stop_nothing_is_done(killed_partition):
    (killed_partition.parent / ".kafka_cleanshutdown").write_bytes(b"")
    (killed_partition.parent / "meta.properties").write_text("version=1\n")
    plan = plan_recovery_of(killed_partition.parent)
    assert plan.actions == ()
    assert plan.log_end_offset == 245


def flip_byte(path: Path, position: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[position] ^= 1
    path.write_bytes(raw)


def test_damage_in_the_middle_truncates_the_rest(killed_partition):
    flip_byte(killed_partition / base(84), 200)
    plan = plan_recovery_of(killed_partition)
    assert [segment.name for segment in plan.segments] == [base(0), base(84)]
    assert plan.segments[-1].size_bytes < 400
    aside = {Path(str(action.to)).name for action in plan.actions if action.kind is FileActionKind.RENAME}
    assert aside == {base(170, f"{kind}.deleted") for kind in ("log", "index", "timeindex")}
    assert plan.log_end_offset == plan.segments[-1].next_offset < 170
    assert plan.bytes_lost > (killed_partition / base(170)).stat().st_size


def test_damage_below_the_recovery_point_is_not_detected(killed_partition):
    flip_byte(killed_partition / base(0), 200)
    plan = plan_recovery_of(killed_partition)
    assert plan.log_end_offset == 245
    assert plan.bytes_lost == 0


def test_a_missing_index_is_rebuilt_even_below_the_recovery_point(killed_partition):
    (killed_partition / base(0, "index")).unlink()
    flip_byte(killed_partition / base(0), 200)
    plan = plan_recovery_of(killed_partition)
    assert plan.segments[0].is_recovered
    assert plan.segments[0].size_bytes < (killed_partition / base(0)).stat().st_size
    assert len(plan.segments) == 3  # Kafka truncates the segment and keeps the later ones


def test_swaps_above_an_unfinished_cleaning_are_dropped(killed_partition):
    shutil.copy(killed_partition / base(84), killed_partition / base(84, "log.swap"))
    shutil.copy(killed_partition / base(84), killed_partition / base(0, "log.cleaned"))
    plan = plan_recovery_of(killed_partition)
    assert [Path(action.path).name for action in plan.actions if action.kind is FileActionKind.DELETE] == [
        base(84, "log.swap"),
        base(0, "log.cleaned"),
    ]
    assert plan.log_end_offset == 245


def test_a_log_that_ends_before_its_start_is_emptied(killed_partition):
    (killed_partition.parent / "log-start-offset-checkpoint").write_text("0\n1\nidem 0 900\n")
    plan = plan_recovery_of(killed_partition)
    assert [segment.name for segment in plan.segments] == [base(900)]
    assert (plan.log_start_offset, plan.log_end_offset) == (900, 900)


def test_planning_does_not_change_files(killed_partition):
    before = {path.name: path.read_bytes() for path in killed_partition.iterdir()}
    flip_byte(killed_partition / base(84), 200)
    flip_byte(killed_partition / base(84), 200)
    plan_recovery_of(killed_partition)
    assert {path.name: path.read_bytes() for path in killed_partition.iterdir()} == before


def test_a_segment_that_shrinks_during_the_planning_is_reported(killed_partition):
    (directory,) = discover(str(killed_partition))
    segment = killed_partition / base(84)
    segment.write_bytes(segment.read_bytes()[:100])
    with pytest.raises(LogDirError) as caught:
        plan_recovery(directory, directory.partitions[0])
    assert caught.value.file == str(segment)
    assert caught.value.position == 100
