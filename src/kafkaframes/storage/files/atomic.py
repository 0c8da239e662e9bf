"""Write files so that each is whole or absent, and a directory so that it is whole or absent.

A destination is built under another name beside it, flushed, and renamed at the end; a lock file beside it holds off a
second job. A killed job leaves the directory under its other name; the next job removes it and starts again.
"""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.storage.files.filesystem import FileSystem, ReadAt, has_magic, plain_path
from kafkaframes.storage.files.local_disk import flush_path
from kafkaframes.storage.files.names import DirectoryName

UNFINISHED, LOCK, PART = ".kafkaframes-unfinished", ".kafkaframes-lock", ".kafkaframes-part"
ATTEMPT = ".kafkaframes-attempt-"  # begins the names of what attempts of tasks write in an unfinished directory
SUCCESS = "_SUCCESS"
_CHUNK_BYTES = 4 << 20


def open_new(path: Path) -> BinaryIO:
    """Open a new file for writing. Every output is opened here, so that a test can make it fail."""
    return path.open("wb")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure of the disk into an error that names the file.

    Raises:
        LogDirError: the disk is full, or the user may not write there.
    """
    try:
        yield
    except OSError as error:
        raise LogDirError(f"cannot be written: {error.strerror or error}", file=str(path)) from error


@contextmanager
def new_file(path: Path, *, mtime_ms: int | None = None, durable: bool = True) -> Iterator[BinaryIO]:
    """Write a file under a temporary name; it gets its final name and time when it is complete and flushed.

    Args:
        durable: flush it to the disk; not needed for files that only the rest of this job reads.

    Raises:
        LogDirError: it cannot be written. No file is left behind then.
    """
    # the name has host and process, so that two attempts at one task never write the same file
    part = path.with_name(f"{path.name}{PART}-{os.uname().nodename}-{os.getpid()}")
    try:
        with writing(path), open_new(part) as out:
            yield out
            out.flush()
            if durable:
                os.fsync(out.fileno())
        if mtime_ms is not None:
            os.utime(part, ns=(mtime_ms * 1_000_000,) * 2)
        with writing(path):
            part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def named_file(path: str) -> Iterator[BinaryIO]:
    """Write what a user has named: a file is whole or absent, a device or a pipe is written to as it is.

    A file that a symbolic link leads to is written, and the link stays.

    Raises:
        LogDirError: it cannot be written.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with writing(target), target.open("wb") as out:
            yield out
        return
    with new_file(target, durable=False) as out:
        yield out


def chunks(read_at: ReadAt, position: int = 0) -> Iterator[bytes]:
    """Yield the bytes of a file from a position on."""
    while chunk := read_at(position, _CHUNK_BYTES):
        yield chunk
        position += len(chunk)


def copy_file(filesystem: FileSystem, source: str, target: Path, *, mtime_ms: int | None) -> None:
    """Copy one file with its time."""
    with filesystem.open(source) as read_at, new_file(target, mtime_ms=mtime_ms) as out:
        out.writelines(chunks(read_at))


def copy_tree(filesystem: FileSystem, source: str, target: Path) -> None:
    """Copy a directory as it is."""
    with writing(target):
        target.mkdir(parents=True, exist_ok=True)
    for info in filesystem.list_directory(source):
        if info.is_directory:
            copy_tree(filesystem, info.path, target / info.name)
        else:
            copy_file(filesystem, info.path, target / info.name, mtime_ms=info.mtime_ms)


def sync_directories(top: Path) -> None:
    """Flush the entries of a directory and of those below it."""
    for directory, _, _ in os.walk(top):
        flush_path(directory)


def refuse_inside(destination: Path, sources: Iterable[str]) -> None:
    """Refuse a destination inside a source: sources are only read, and a copy would copy itself without end.

    Every command that writes calls this. A source is a directory and what lies in it. For a segment or a partition's
    directory that is named by itself it is also the directory around it, up to a broker's log directory (one with
    ``meta.properties``): Kafka does not start on one that holds a directory of another kind (LogManager.loadLogs).

    Args:
        sources: paths, URLs or patterns.

    Raises:
        OptionError: names both.
    """
    target = Path(os.path.realpath(destination))
    for source in sources:
        path = plain_path(source)
        matches = glob.glob(path, recursive=True) if has_magic(path) and not os.path.exists(path) else [path]
        for match in matches if "://" not in path else []:
            if target.is_relative_to(_read_with(Path(os.path.realpath(match)))):
                raise OptionError(f"{destination} lies in the source {match}, which is only read")


def _read_with(source: Path) -> Path:
    """Return the directory that a source is a part of: a file's partition, a partition's log directory."""
    if source.is_file() and DirectoryName.parse(source.parent.name) is not None:
        source = source.parent
    is_partition = DirectoryName.parse(source.name) is not None
    return source.parent if is_partition and (source.parent / "meta.properties").is_file() else source


@contextmanager
def locked(destination: Path) -> Iterator[None]:
    """Hold the lock of a destination: one job at a time. The system releases it when the process ends.

    Raises:
        LogDirError: another job holds it.
        OptionError: it has no name, as ``.`` and ``/`` have none: it is there already.
    """
    if destination.name in ("", ".."):
        raise OptionError(f"{str(destination)!r} is there already: name a new one")
    path = destination.with_name(destination.name + LOCK)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino
        except OSError:
            taken = False
        if not taken:
            raise LogDirError("another job is writing here", file=str(destination))
        try:
            yield
        finally:
            # While the lock is held, so that a process that opened the file meanwhile notices that it is gone.
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


@contextmanager
def unfinished(destination: Path) -> Iterator[Path]:
    """Yield an empty directory that is renamed to ``destination`` at the end; it is removed if something fails.

    Raises:
        LogDirError: it cannot be written, or the destination appeared meanwhile.
    """
    path = destination.with_name(destination.name + UNFINISHED)
    with writing(path):
        if path.exists():  # left by a job that was killed: this job holds the lock
            shutil.rmtree(path)
        path.mkdir(parents=True)
    try:
        yield path
        with writing(destination):
            _remove_attempts(path)
            sync_directories(path)
            path.rename(destination)
            _remove_attempts(destination)  # of lost workers that were still at it; they find no place to write to now
            flush_path(destination.parent)
    except BaseException:
        _remove_renamed(path)
        raise


def _remove_attempts(directory: Path) -> None:
    """Remove what attempts whose workers were lost have left."""
    for attempt in directory.glob(f"{ATTEMPT}*"):
        shutil.rmtree(attempt, ignore_errors=True)
    for left_over in directory.rglob(f"*{PART}-*"):
        left_over.unlink(missing_ok=True)


def _remove_renamed(path: Path) -> None:
    """Remove a directory under another name, so that an attempt that is still running creates no file in it again."""
    removed = path.with_name(f"{path.name}-{uuid.uuid4().hex}")
    with suppress(OSError):
        path.rename(removed)
        path = removed
    shutil.rmtree(path, ignore_errors=True)
