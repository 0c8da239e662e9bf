"""Locks that show which run owns which data files on a disk, so that the next run removes those of a killed one.

Each run keeps a file ``_kafkaframes/runs/RUN.json`` locked while it writes and commits. The operating system takes the
lock away with the process, however it ends. A file without a lock belongs to a dead run; its data files (their names
end with the run's name) are removed if the table's log says that the run never committed, and named otherwise. Some
mounted file systems do not show the locks of other machines: a run of another one is called dead after a week only.

In a store there are no locks: there Delta's VACUUM and Iceberg's ``remove_orphan_files`` do it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkaframes.jobs.export.journal import OWN

RUNS = f"{OWN}/runs"
STAGED = f"{OWN}/staged"  # files that a commit takes up, and that are no data files themselves
FOREIGN_SECONDS = 7 * 24 * 3600
HasCommitted = Callable[[str, int | None], bool | None]


@dataclass(frozen=True, slots=True)
class Orphans:
    """What dead runs left: removed files, and files of which it is not known whether a commit names them."""

    removed: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()


@contextmanager
def claim(root: str, run: str, *, since: int | None) -> Iterator[None]:
    """Hold a run's lock; its file goes when the run ends in order, by error or not.

    Args:
        root: below which the table's data files lie.
        run: the name that ends the names of its data files.
        since: the table's version before it.
    """
    if "://" in root:
        yield
        return
    path = Path(root, RUNS, f"{run}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        json.dump({"since": since, "host": socket.gethostname()}, file)
        file.flush()
        yield
        path.unlink(missing_ok=True)


def files_of(root: str, run: str) -> set[str]:
    """Return the data files of a run, wherever the format puts them; none in a store."""
    if "://" in root:
        return set()
    return {
        str(path)
        for below in ("", "data/", f"{STAGED}/")
        for path in Path(root).glob(f"{below}topic=*/partition=*/*-{run}.parquet")
    }


def remove_orphans(root: str, has_committed: HasCommitted) -> Orphans:
    """Remove what dead runs left.

    Args:
        has_committed: says of a run and the version before it whether it committed; None where that cannot be known.
    """
    removed: list[str] = []
    doubtful: list[str] = []
    if "://" in root:
        return Orphans()
    for path in sorted(Path(root, RUNS).glob("*.json")):
        with _dead(path) as said:
            if said is None:
                continue
            files, since = _remaining(root, path.stem, removed), said.get("since")
            committed = has_committed(path.stem, since if isinstance(since, int) else None) if files else True
            if committed is False:
                for file in files:
                    Path(file).unlink(missing_ok=True)
                removed += files
            if committed is None:
                doubtful += files
            else:
                path.unlink(missing_ok=True)
    return Orphans(tuple(removed), tuple(doubtful))


def _remaining(root: str, run: str, removed: list[str]) -> list[str]:
    """Remove what a dead run left staged, whether it committed or not; return its other files."""
    files = sorted(files_of(root, run))
    staged = [file for file in files if Path(file).is_relative_to(Path(root, STAGED))]
    for file in staged:
        Path(file).unlink(missing_ok=True)
    removed += staged
    return [file for file in files if file not in staged]


@contextmanager
def _dead(path: Path) -> Iterator[dict[str, Any] | None]:
    """Lock a run's file and yield what it says; None where its owner holds it, or may hold it on another machine."""
    try:
        file = open(path, "r+")  # noqa: SIM115 (closed below)
    except FileNotFoundError:
        yield None
        return
    with file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        said = _said(file.read())
        is_ours = said.get("host", socket.gethostname()) == socket.gethostname()
        age = time.time() - os.fstat(file.fileno()).st_mtime
        yield said if is_ours or age > FOREIGN_SECONDS else None


def _said(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    return said if isinstance(said, dict) else {}
