"""Directories for the attempts of tasks that write one.

A task may run twice, and at the same time: Spark runs it again if a worker or an executor is lost, and the lost one may
go on writing. So each attempt writes into a directory of its own in the job's unfinished directory, and the driver
moves the result of the attempt whose answer it has received. An attempt never creates its parent, so that one that
outlives its job finds no place to write to.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from kafkaframes.storage.files import atomic

Result = TypeVar("Result")


class Attempt(NamedTuple, Generic[Result]):
    """What an attempt of a task has returned, and the directory that it wrote."""

    path: str
    result: Result


@contextmanager
def begin_attempt(directory: str | Path, name: str) -> Iterator[Path]:
    """Yield a new empty directory called ``name``, for one attempt; it is removed if the attempt fails.

    Args:
        directory: of the job; it has to exist.

    Raises:
        LogDirError: it cannot be created.
    """
    top = Path(directory, f"{atomic.ATTEMPT}{uuid.uuid4().hex}")
    with atomic.writing(top):
        top.mkdir()
        (top / name).mkdir()
    try:
        yield top / name
    except BaseException:
        shutil.rmtree(top, ignore_errors=True)
        raise


def move_attempt(path: str, target: Path) -> None:
    """Move what an attempt has written to ``target``; into it, if that is a directory already.

    Raises:
        LogDirError: it cannot be moved, or this machine does not see what the attempt wrote.
    """
    written = Path(path)
    with atomic.writing(target):
        if target.is_dir():
            for entry in written.iterdir():
                entry.rename(target / entry.name)
            written.rmdir()
        else:
            written.rename(target)
        written.parent.rmdir()
