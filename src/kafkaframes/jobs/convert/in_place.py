"""Rewrite a log directory where it stands: the new one is made beside it, and they change places; the old one stays.

The broker's own lock is held meanwhile, so none can start. A job that is killed leaves the old directory as it was, or,
between the two renames, complete under the backup's name: the next run finishes the exchange.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.jobs.convert.job import JobReport, convert, one_log
from kafkaframes.jobs.job import Runner, run_here
from kafkaframes.jobs.settings import RewriteSettings
from kafkaframes.storage.files import atomic, names
from kafkaframes.storage.files.broker_lock import take_lock

_NEW = ".kafkaframes-new"
_Report = TypeVar("_Report")


def convert_in_place(
    source: str | Path, backup: str | Path, settings: RewriteSettings, *, run: Runner = run_here
) -> JobReport:
    """Rewrite a log directory of this machine; the old one becomes ``backup``, on the same disk.

    Raises:
        LogDirError: a broker has the directory open or left it unclean, the backup exists, or as ``convert``.
        OptionError: the source is no whole log directory, or the backup would lie on another disk.
    """
    old = Path(source).absolute()

    def make(new: Path) -> JobReport:
        return convert(str(old), new, settings, run=run)

    return replace(exchange(old, Path(backup).absolute(), make, check=_check), destination=str(old))


def exchange(
    old: Path,
    kept: Path,
    make: Callable[[Path], _Report],
    *,
    check: Callable[[Path], None] = lambda _: None,
    suffix: str = _NEW,
    create_lock: bool = True,
) -> _Report:
    """Have ``make`` write a new directory beside ``old``, and let them change places; ``old`` becomes ``kept``.

    Args:
        check: refuses an ``old`` that is not fit, before anything is written.
        suffix: of the new directory's name while it is beside.
        create_lock: take a broker's lock also where the directory has no ``.lock`` yet.

    Raises:
        LogDirError: a broker or another job has the directory, ``kept`` exists, or a rename fails.
        OptionError: ``old`` is no directory, or both do not lie on one disk.
    """
    new = old.with_name(old.name + suffix)
    with atomic.locked(old):
        if not old.exists() and kept.exists() and (new / atomic.SUCCESS).exists():  # killed between the two renames
            _rename(new, old)
        if kept.exists():
            raise LogDirError("the backup exists already: this directory has been rewritten", file=str(kept))
        _check_disks(old, kept)
        check(old)
        with broker_lock(old, create=create_lock):
            if new.exists():  # of a job that was killed; a broker may have written since
                shutil.rmtree(new)
            report = make(new)
            with atomic.writing(kept):
                kept.parent.mkdir(parents=True, exist_ok=True)
            _rename(old, kept)
            _rename(new, old)
    return report


def _rename(entry: Path, other: Path) -> None:
    with atomic.writing(entry):
        entry.rename(other)
        atomic.sync(other.parent)


def _check_disks(old: Path, kept: Path) -> None:
    if not old.exists():
        raise LogDirError("no such file or directory", file=str(old))
    if not old.is_dir():
        raise OptionError(f"{old} is no log directory of this machine: in place, a whole one is rewritten")
    atomic.refuse_inside(kept, [str(old)])
    above = next(parent for parent in kept.parents if parent.exists())
    if above.stat().st_dev != old.stat().st_dev or os.path.ismount(old):
        raise OptionError(f"the backup {kept} and {old} must lie on one disk, below its mount point: they are renamed")


def _check(old: Path) -> None:
    if one_log(str(old)).kind != "directory":
        raise OptionError(f"{old} is no log directory of this machine: in place, a whole one is rewritten")
    if not (old / names.CLEAN_SHUTDOWN).exists():
        reason = "the broker did not stop cleanly (no .kafka_cleanshutdown): start it and stop it, or recover the log"
        raise LogDirError(reason, file=str(old))


@contextmanager
def broker_lock(directory: Path, *, create: bool = True) -> Iterator[None]:
    """Hold the lock that a broker takes on its directory (Java's ``FileChannel.tryLock``).

    Args:
        create: make the file where there is none; otherwise nothing is held then.

    Raises:
        LogDirError: a broker holds it, or the file cannot be opened.
    """
    path = directory / names.BROKER_LOCK
    if not create and not path.exists():
        yield
        return
    try:
        release = take_lock(str(path), create=create)
    except OSError as error:
        raise LogDirError(f"cannot be opened: {error.strerror}", file=str(path)) from error
    if release is None:
        raise LogDirError("a broker has this directory open: stop it first", file=str(path))
    try:
        yield
    finally:
        release()
