"""Run a repair as a job: into a new directory with a report, or in place.

A second run with the same settings does nothing.

``repair.py`` decides which batches are kept. ``storage/files/atomic.py`` creates the directory atomically.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.convert.job import SourceLog, exchange_directories, hold_broker_lock
from kafkaframes.jobs.job import JobOutputReport, Runner, run_here, run_once
from kafkaframes.jobs.repair.repair import plan_repair, write_repaired
from kafkaframes.storage.files import atomic
from kafkaframes.storage.files.directory import LogDirectory
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.recovery.recover import RecoverySettings

_NEW_DIRECTORY_SUFFIX = ".kafkaframes-repaired"


@dataclass(slots=True)
class RepairReport(JobOutputReport):
    """The report of a repair. Without a destination it describes what the repair would do.

    Attributes:
        partitions: for each partition, ``bytes_lost``, ``actions`` on its files, and for each segment the ``losses``
            bytes and the resulting ``holes`` in the offsets.
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
    """Write the valid batches of ``source`` to ``destination``.

    If ``None``, the function only reports the batches that would be lost.

    Args:
        source: a local log directory, which is not modified.
        destination: output directory, which must not exist. The directory is created only when its contents are
            complete.
        settings: settings of the broker and its topics, and the current time.
        as_kafka: whether to truncate each log where Kafka's recovery would.
        run: function that runs the tasks.

    Returns:
        The report. If an earlier run with the same source and settings has finished, the result is its report.

    Raises:
        LogDirError: a broker is using the source, a file cannot be read or written, or the destination exists.
            Incomplete output is removed.
        OptionError: the source is not a single log directory, or the destination is inside it.
    """
    path = str(source).rstrip("/") or "/"
    with hold_broker_lock(Path(path), create=False):
        return _repair_directory(path, None if destination is None else Path(destination), settings, as_kafka, run)


def repair_in_place(
    source: str | Path,
    backup: str | Path,
    settings: RecoverySettings,
    *,
    as_kafka: bool = False,
    run: Runner = run_here,
) -> RepairReport:
    """Repair a log directory in place. The old directory becomes ``backup``, on the same disk.

    Raises:
        LogDirError: as for ``repair_directory``, or the backup exists.
        OptionError: as for ``repair_directory``, or the backup would be on another disk.
    """
    source_path, backup_path = Path(source).absolute(), Path(backup).absolute()
    write_repaired_log = partial(_repair_directory, str(source_path), settings=settings, as_kafka=as_kafka, run=run)
    return replace(
        exchange_directories(
            source_path, backup_path, write_repaired_log, suffix=_NEW_DIRECTORY_SUFFIX, create_lock=False
        ),
        destination=str(source_path),
    )


def _repair_directory(
    source: str, destination: Path | None, settings: RecoverySettings, as_kafka: bool, run: Runner
) -> RepairReport:
    """Repair a log directory into a new directory, or only report the batches that would be lost."""
    if destination is not None:
        atomic.reject_nested_destination(destination, [source])
    directory = _find_only_directory(source)
    settings_json = {"as_kafka": as_kafka, "index_interval_bytes": settings.index_interval_bytes}
    report = RepairReport(
        source, str(destination or ""), settings_json, SourceLog(source, "directory", directory).fingerprint
    )
    if destination is None:
        report.partitions = [
            partition_repair.as_json() for partition_repair in plan_repair(directory, as_kafka=as_kafka, run=run)
        ]
        return report

    def fill(empty: Path) -> None:
        repairs = plan_repair(directory, as_kafka=as_kafka, run=run)
        write_repaired(directory, repairs, settings, empty, run=run)
        report.partitions = [partition_repair.as_json() for partition_repair in repairs]

    return run_once(report, fill)


def _find_only_directory(path: str) -> LogDirectory:
    """Return the log directory at a path. A path with several log directories raises an error."""
    directories = discover(path)
    if len(directories) != 1 or directories[0].path.rstrip("/") != path.rstrip("/"):
        raise OptionError(
            f"{path} is not a single log directory; it contains "
            f"{', '.join(directory.path for directory in directories[:5])}"
        )
    return directories[0]
