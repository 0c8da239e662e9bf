"""Repair as a job: into a new directory with a report in it, or in the log's place; to run it twice does nothing more.

What is kept is decided in ``repair.py``; ``storage/files/atomic.py`` makes a directory appear as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.convert.in_place import broker_lock, exchange
from kafkaframes.jobs.convert.job import Log
from kafkaframes.jobs.job import Done, Runner, done_once, run_here
from kafkaframes.jobs.repair.repair import plan_repair, write_repaired
from kafkaframes.storage.files import atomic
from kafkaframes.storage.files.directory import LogDirectory
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.recovery.recover import RecoverySettings

_REPAIRED = ".kafkaframes-repaired"


@dataclass(slots=True)
class RepairReport(Done):
    """What a repair kept and lost, or would.

    Attributes:
        partitions: of each partition its ``bytes_lost``, ``actions`` on its files, and per segment what is ``lost``
            and which ``holes`` in the offsets that leaves.
    """

    partitions: list[dict[str, Any]] = field(default_factory=list)


def repair_directory(
    source: str | Path,
    destination: str | Path | None,
    settings: RecoverySettings,
    *,
    as_kafka: bool = False,
    run: Runner = run_here,
) -> RepairReport:
    """Write the log directory ``source`` into ``destination`` with every good batch; ``None``: say what would be lost.

    Args:
        source: a log directory of this machine; it is only read.
        destination: does not exist; it appears, complete, at the end.
        settings: of the broker and its topics, and the clock.
        as_kafka: cut each log off where Kafka's recovery would.
        run: carries tasks out, one for each partition.

    Returns:
        The report; that of the run that finished, if an earlier one did with the same source and settings.

    Raises:
        LogDirError: a broker has the source open; something cannot be read or written, or exists; nothing is left
            behind.
        OptionError: the source is not one log directory, or the destination lies in it.
    """
    path = str(source).rstrip("/") or "/"
    with broker_lock(Path(path), create=False):
        return _repaired(path, None if destination is None else Path(destination), settings, as_kafka, run)


def repair_in_place(
    source: str | Path,
    backup: str | Path,
    settings: RecoverySettings,
    *,
    as_kafka: bool = False,
    run: Runner = run_here,
) -> RepairReport:
    """Repair a log directory; the old one becomes ``backup``, on the same disk.

    Raises:
        LogDirError: as ``repair_directory``, or the backup exists.
        OptionError: as ``repair_directory``, or the backup would lie on another disk.
    """
    old = Path(source).absolute()

    def make(new: Path) -> RepairReport:
        return _repaired(str(old), new, settings, as_kafka, run)

    report = exchange(old, Path(backup).absolute(), make, suffix=_REPAIRED, create_lock=False)
    return replace(report, destination=str(old))


def _repaired(
    source: str, destination: Path | None, settings: RecoverySettings, as_kafka: bool, run: Runner
) -> RepairReport:
    if destination is not None:
        atomic.refuse_inside(destination, [source])
    directory = _only(source)
    requested = {"as_kafka": as_kafka, "index_interval_bytes": settings.index_interval_bytes}
    report = RepairReport(source, str(destination or ""), requested, Log(source, "directory", directory).fingerprint)
    if destination is None:
        report.partitions = [one.as_json() for one in plan_repair(directory, as_kafka=as_kafka, run=run)]
        return report

    def fill(empty: Path) -> None:
        repairs = plan_repair(directory, as_kafka=as_kafka, run=run)
        write_repaired(directory, repairs, settings, empty, run=run)
        report.partitions = [one.as_json() for one in repairs]

    return done_once(report, fill)


def _only(path: str) -> LogDirectory:
    directories = discover(path)
    if len(directories) != 1 or directories[0].path.rstrip("/") != path.rstrip("/"):
        raise OptionError(f"{path} is not one log directory; it holds {', '.join(one.path for one in directories[:5])}")
    return directories[0]
