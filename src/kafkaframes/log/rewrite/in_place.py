"""Rewrite a log directory where it stands: the new one is made beside it, and they change places; the old one stays.

The broker's own lock is held meanwhile, so none can start. A job that is killed leaves the old directory as it was, or,
between the two renames, complete under the backup's name: the next run finishes the exchange.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.log import names
from kafkaframes.log.broker_lock import take_lock
from kafkaframes.log.rewrite import files
from kafkaframes.log.rewrite.job import JobReport, Runner, convert, one_log, run_here
from kafkaframes.log.rewrite.settings import RewriteSettings

_NEW = ".kafkaframes-new"


def convert_in_place(
    source: str | Path, backup: str | Path, settings: RewriteSettings, *, run: Runner = run_here
) -> JobReport:
    """Rewrite a log directory of this machine; the old one becomes ``backup``, on the same disk.

    Raises:
        LogDirError: a broker has the directory open or left it unclean, the backup exists, or as ``convert``.
        OptionError: the source is no whole log directory, or the backup would lie on another disk.
    """
    old, kept = Path(source).absolute(), Path(backup).absolute()
    new = old.with_name(old.name + _NEW)
    with files.locked(old):
        if not old.exists() and kept.exists() and (new / files.SUCCESS).exists():  # killed between the two renames
            _rename(new, old)
        if kept.exists():
            raise LogDirError("the backup exists already: this directory has been rewritten", file=str(kept))
        _check(old, kept)
        with broker_lock(old):
            if new.exists():  # of a job that was killed; a broker may have written since
                shutil.rmtree(new)
            report = convert(str(old), new, settings, run=run)
            with files.writing(kept):
                kept.parent.mkdir(parents=True, exist_ok=True)
            _rename(old, kept)
            _rename(new, old)
    return replace(report, destination=str(old))


def _rename(one: Path, other: Path) -> None:
    with files.writing(one):
        one.rename(other)
        files.sync(other.parent)


def _check(old: Path, kept: Path) -> None:
    if not old.is_dir() or one_log(str(old)).kind != "directory":
        raise OptionError(f"{old} is no log directory of this machine: in place, a whole one is rewritten")
    if kept.is_relative_to(old):
        raise OptionError(f"the backup {kept} lies in the directory that it is to keep")
    above = next(parent for parent in kept.parents if parent.exists())
    if above.stat().st_dev != old.stat().st_dev or os.path.ismount(old):
        raise OptionError(f"the backup {kept} and {old} must lie on one disk, below its mount point: they are renamed")
    if not (old / names.CLEAN_SHUTDOWN).exists():
        reason = "the broker did not stop cleanly (no .kafka_cleanshutdown): start it and stop it, or recover the log"
        raise LogDirError(reason, file=str(old))


@contextmanager
def broker_lock(directory: Path) -> Iterator[None]:
    """Hold the lock that a broker takes on its directory (Java's ``FileChannel.tryLock``).

    Raises:
        LogDirError: a broker holds it.
    """
    with files.writing(directory / names.BROKER_LOCK):
        let_go = take_lock(str(directory / names.BROKER_LOCK))
        if let_go is None:
            raise LogDirError("a broker has this directory open (.lock)", file=str(directory))
        try:
            yield
        finally:
            let_go()
