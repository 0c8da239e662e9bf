"""The directory that an export writes, and its journal: what is done, so that the next run does the rest.

    DIR/topic=orders/partition=0/00000000000000000000.parquet
    DIR/_kafkaframes/export.json      what was asked for; another run has to ask for the same
    DIR/_kafkaframes/journal/*.jsonl  a line for each segment that is done; one file a worker's task
    DIR/_kafkaframes/tmp/             files that are being written
    DIR/_kafkaframes/summary.json     of the last run that ended
    DIR/_SUCCESS                      everything is done

Readers of Parquet (Spark, Arrow, DuckDB) leave alone names that begin with an underscore.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from kafkaframes.errors import OptionError

OWN = "_kafkaframes"
TEMPORARY = f"{OWN}/tmp"
JOURNAL = f"{OWN}/journal"
SUCCESS = "_SUCCESS"


class JournalWriter:
    """Appends lines to a file of its own, which is made with the first line."""

    def __init__(self, to: str) -> None:
        self._path = Path(to, JOURNAL, f"{uuid.uuid4().hex}.jsonl")
        self._descriptor: int | None = None

    def record(self, values: dict[str, Any]) -> None:
        """Append one line; a process that is killed afterwards does not lose it."""
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(self._descriptor, (json.dumps(values) + "\n").encode())

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


def read_journal(to: str) -> Iterator[dict[str, Any]]:
    """Yield what was recorded, oldest files first; a line that was cut short, or is no object, is left out."""
    for path in sorted(Path(to, JOURNAL).glob("*.jsonl"), key=lambda path: (path.stat().st_mtime_ns, path.name)):
        for line in path.read_bytes().splitlines():
            try:
                values = json.loads(line)
            except ValueError:
                continue
            if isinstance(values, dict):
                yield values


@contextmanager
def open_destination(to: str, requested: dict[str, Any], *, overwrite: bool = False) -> Iterator[None]:
    """Make the destination ready and keep other exports out of it meanwhile.

    Args:
        to: a directory that is new, empty, or an earlier export.
        requested: what has to be the same in every run (``Settings.fingerprint``).
        overwrite: remove an earlier export first.

    Raises:
        OptionError: it cannot be written, is something else, was asked for differently, or is being written.
    """
    root = Path(to)
    try:
        _check_is_ours(root)
        root.mkdir(parents=True, exist_ok=True)
        (root / OWN).mkdir(exist_ok=True)
        with open(root / OWN / "lock", "w") as lock:
            _lock(lock.fileno(), to)
            if overwrite:
                _clear(root)
            _prepare(root, requested)
            yield
            shutil.rmtree(root / TEMPORARY, ignore_errors=True)
    except OSError as error:
        raise OptionError(f"`to` {to}: cannot be written: {error.strerror or error}") from error


def _check_is_ours(root: Path) -> None:
    if root.is_dir() and not (root / OWN).is_dir() and any(root.iterdir()):
        raise OptionError(f"`to` {root}: holds other files, but no earlier export")


def _lock(descriptor: int, to: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OptionError(f"`to` {to}: another export is writing there") from None


def _clear(root: Path) -> None:
    (root / SUCCESS).unlink(missing_ok=True)
    for path in (*root.glob("topic=*"), root / JOURNAL):
        shutil.rmtree(path, ignore_errors=True)
    (root / OWN / "export.json").unlink(missing_ok=True)


def _prepare(root: Path, requested: dict[str, Any]) -> None:
    known = root / OWN / "export.json"
    if known.exists():
        if (before := _parsed(known)) != requested:
            differs = ", ".join(sorted(name for name in requested if before.get(name) != requested[name]))
            raise OptionError(f"`to` {root}: an earlier run had other settings ({differs}); `overwrite` replaces it")
    else:
        write_whole(known, json.dumps(requested))
    shutil.rmtree(root / TEMPORARY, ignore_errors=True)  # of a run that was killed
    (root / TEMPORARY).mkdir()
    (root / JOURNAL).mkdir(exist_ok=True)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_bytes())
    except ValueError:
        values = None
    return values if isinstance(values, dict) else {}


def flush(paths: Iterable[Path]) -> None:
    """Have files and their directories on the disk, as far as a power failure goes.

    Once at the end, not for each file as it appears: that took a third of the time of an export of small segments. A
    file that a power failure cut is noticed by its size and exported again.
    """
    listed = list(paths)
    for path in (*listed, *sorted({path.parent for path in listed})):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_whole(path: Path, text: str) -> None:
    """Write a small file that is there as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    temporary.write_text(text)
    os.replace(temporary, path)
