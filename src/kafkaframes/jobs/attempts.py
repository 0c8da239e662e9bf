"""Create and move the output directories of task attempts.

A task may run twice at the same time: Spark repeats it if an executor is lost, and the lost executor may still be
writing. Therefore each attempt writes to its own directory inside the job's unfinished directory. When the driver
receives the result of an attempt, it moves the directory of this attempt. An attempt never creates its parent
directory, so an attempt that outlives its job cannot write.
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


class AttemptResult(NamedTuple, Generic[Result]):
    """The result of a task attempt, and the path of the directory that it wrote."""

    path: str
    result: Result


@contextmanager
def begin_attempt(directory: str | Path, name: str) -> Iterator[Path]:
    """Yield a new empty directory for one attempt, and remove it if the attempt fails.

    Args:
        directory: unfinished directory of the job, which must exist.
        name: name of the new directory.

    Raises:
        LogDirError: the directory cannot be created.
    """
    top = Path(directory, f"{atomic.ATTEMPT_PREFIX}{uuid.uuid4().hex}")
    with atomic.name_path_in_errors(top):
        top.mkdir()
        (top / name).mkdir()
    try:
        yield top / name
    except BaseException:
        shutil.rmtree(top, ignore_errors=True)
        raise


def move_attempt(path: str, target: Path) -> None:
    """Move the output of an attempt to ``target``. If ``target`` is a directory, move the files into it.

    Raises:
        LogDirError: the output cannot be moved, or it is not visible on this machine.
    """
    output = Path(path)
    with atomic.name_path_in_errors(target):
        if target.is_dir():
            for entry in output.iterdir():
                entry.rename(target / entry.name)
            output.rmdir()
        else:
            output.rename(target)
        output.parent.rmdir()
