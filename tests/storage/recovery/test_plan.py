"""The plan of a recovery, compared with a real broker's recovery, and cases that only made-up directories have."""

import shutil
from pathlib import Path

import pytest
from tests.agreement.kind import Case
from tests.agreement.kinds import unclean

from kafkaframes.errors import LogDirError
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.recovery.plan import FileActionKind, RecoveryPlan, plan_recovery

LOGS = Path(__file__).parents[2] / "data" / "logs"
BEFORE = LOGS / "unclean-half-finished-swap" / "before"


def plan_of(path: Path) -> RecoveryPlan:
    (directory,) = discover(str(path))
    return plan_recovery(directory, directory.partitions[0])


def base(offset: int, suffix: str = "log") -> str:
    return f"{offset:020d}.{suffix}"


@pytest.fixture
def idem(tmp_path):
    """A partition of three segments (bases 0, 84, 170) with the recovery point 84; its broker was killed."""
    shutil.copytree(BEFORE / "idem-0", tmp_path / "idem-0")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nidem 0 84\n")
    for path in (tmp_path / "idem-0").glob("*.cleaned"):
        path.unlink()
    return tmp_path / "idem-0"


def test_the_records_are_those_that_a_broker_kept():
    (case,) = (one for one in unclean._cases(LOGS) if one.name == "unclean-half-finished-swap")
    assert [*unclean.KIND.disagreements(case)] == []


def test_a_missing_truth_is_noticed(tmp_path):
    shutil.copytree(LOGS / "unclean-half-finished-swap", tmp_path / "unclean-half-finished-swap")
    (case,) = unclean._cases(tmp_path)
    assert isinstance(case, Case)
    assert [*unclean.KIND.disagreements(case)]


def test_a_healthy_partition_is_only_rebuilt(idem):
    plan = plan_of(idem)
    assert [segment.is_recovered for segment in plan.segments] == [False, True, True]
    assert {action.kind for action in plan.actions} == {FileActionKind.REBUILD}
    assert (plan.log_start_offset, plan.log_end_offset, plan.bytes_lost) == (0, 245, 0)


def test_after_a_clean_stop_nothing_is_done(idem):
    (idem.parent / ".kafka_cleanshutdown").write_bytes(b"")
    (idem.parent / "meta.properties").write_text("version=1\n")
    plan = plan_of(idem.parent)
    assert plan.actions == ()
    assert plan.log_end_offset == 245


def flip(path: Path, position: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[position] ^= 1
    path.write_bytes(raw)


def test_damage_in_the_middle_costs_all_that_follows(idem):
    flip(idem / base(84), 200)
    plan = plan_of(idem)
    assert [segment.name for segment in plan.segments] == [base(0), base(84)]
    assert plan.segments[-1].size_bytes < 400
    aside = {Path(str(action.to)).name for action in plan.actions if action.kind is FileActionKind.RENAME}
    assert aside == {base(170, f"{kind}.deleted") for kind in ("log", "index", "timeindex")}
    assert plan.log_end_offset == plan.segments[-1].next_offset < 170
    assert plan.bytes_lost > (idem / base(170)).stat().st_size


def test_damage_below_the_recovery_point_is_not_seen(idem):
    flip(idem / base(0), 200)
    plan = plan_of(idem)
    assert plan.log_end_offset == 245
    assert plan.bytes_lost == 0


def test_a_missing_index_brings_recovery_even_below_the_recovery_point(idem):
    (idem / base(0, "index")).unlink()
    flip(idem / base(0), 200)
    plan = plan_of(idem)
    assert plan.segments[0].is_recovered
    assert plan.segments[0].size_bytes < (idem / base(0)).stat().st_size
    assert len(plan.segments) == 3  # Kafka cuts the segment and keeps the later ones


def test_swaps_above_an_unfinished_cleaning_are_dropped(idem):
    shutil.copy(idem / base(84), idem / base(84, "log.swap"))
    shutil.copy(idem / base(84), idem / base(0, "log.cleaned"))
    plan = plan_of(idem)
    assert [Path(action.path).name for action in plan.actions if action.kind is FileActionKind.DELETE] == [
        base(84, "log.swap"),
        base(0, "log.cleaned"),
    ]
    assert plan.log_end_offset == 245


def test_a_log_that_ends_before_its_start_is_emptied(idem):
    (idem.parent / "log-start-offset-checkpoint").write_text("0\n1\nidem 0 900\n")
    plan = plan_of(idem)
    assert [segment.name for segment in plan.segments] == [base(900)]
    assert (plan.log_start_offset, plan.log_end_offset) == (900, 900)


def test_nothing_was_changed(idem):
    before = {path.name: path.read_bytes() for path in idem.iterdir()}
    flip(idem / base(84), 200)
    flip(idem / base(84), 200)
    plan_of(idem)
    assert {path.name: path.read_bytes() for path in idem.iterdir()} == before


def test_a_segment_that_shrinks_meanwhile_is_named(idem):
    (directory,) = discover(str(idem))
    segment = idem / base(84)
    segment.write_bytes(segment.read_bytes()[:100])
    with pytest.raises(LogDirError) as caught:
        plan_recovery(directory, directory.partitions[0])
    assert caught.value.file == str(segment)
    assert caught.value.position == 100
