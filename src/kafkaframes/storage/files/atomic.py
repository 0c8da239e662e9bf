"""Write files and directories atomically: each file or directory is complete or does not exist.

A destination directory is built under a temporary name next to the destination, flushed, and renamed at the end. A lock
file next to the destination excludes a second job. If a job is killed, its temporary directory remains, and the next
job deletes it and starts from the beginning.
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
from kafkaframes.storage.files.filesystem import FileSystem, ReadAt, has_wildcard, plain_path
from kafkaframes.storage.files.local_disk import flush_path
from kafkaframes.storage.files.names import DirectoryName

UNFINISHED, LOCK, PART = ".kafkaframes-unfinished", ".kafkaframes-lock", ".kafkaframes-part"
ATTEMPT_PREFIX = ".kafkaframes-attempt-"  # prefix of the names that task attempts use in an unfinished directory
SUCCESS_FILE = "_SUCCESS"
_COPY_CHUNK_BYTES = 4 << 20  # size of the reads when a file is copied


def open_new(path: Path) -> BinaryIO:
    """Open a new file for writing. All outputs are opened here, so that tests can inject failures."""
    return path.open("wb")


@contextmanager
def name_path_in_errors(path: Path) -> Iterator[None]:
    """Convert an ``OSError`` to an error with the file's path.

    Raises:
        LogDirError: the disk is full, or the user has no permission to write.
    """
    try:
        yield
    except OSError as error:
        raise LogDirError(f"cannot be written: {error.strerror or error}", file=str(path)) from error


@contextmanager
def new_file(path: Path, *, mtime_ms: int | None = None, durable: bool = True) -> Iterator[BinaryIO]:
    """Write a file under a temporary name; rename it when it is complete and flushed.

    Args:
        mtime_ms: modification time of the file, milliseconds since 1970; None selects the current time.
        durable: whether to flush the file to the disk, which is unnecessary if only this job reads it.

    Raises:
        LogDirError: the file cannot be written; the temporary file is deleted.
    """
    # the name contains host and process id, so that two attempts of one task never write the same file
    part = path.with_name(f"{path.name}{PART}-{os.uname().nodename}-{os.getpid()}")
    try:
        with name_path_in_errors(path), open_new(part) as out:
            yield out
            out.flush()
            if durable:
                os.fsync(out.fileno())
        if mtime_ms is not None:
            os.utime(part, ns=(mtime_ms * 1_000_000,) * 2)
        with name_path_in_errors(path):
            part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def open_output(path: str) -> Iterator[BinaryIO]:
    """Open a path that the user specified for writing.

    A file is replaced atomically, but a device or pipe is written directly.

    If the path is a symbolic link, its target is written and the link stays.

    Raises:
        LogDirError: the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with name_path_in_errors(target), target.open("wb") as out:
            yield out
        return
    with new_file(target, durable=False) as out:
        yield out


def write_output(path: str | os.PathLike[str], text: str) -> None:
    """Write a text to a path that the user specified, as ``open_output`` does. Lone surrogates are escaped.

    Raises:
        LogDirError: the file cannot be written.
    """
    with open_output(os.fspath(path)) as out:
        out.write(text.encode("utf-8", "backslashreplace"))


def read_chunks(read_at: ReadAt, position: int = 0) -> Iterator[bytes]:
    """Yield the bytes of a file from a position on."""
    while chunk := read_at(position, _COPY_CHUNK_BYTES):
        yield chunk
        position += len(chunk)


def copy_file(filesystem: FileSystem, source: str, target: Path, *, mtime_ms: int | None) -> None:
    """Copy one file, with its modification time."""
    with filesystem.open(source) as read_at, new_file(target, mtime_ms=mtime_ms) as out:
        out.writelines(read_chunks(read_at))


def copy_tree(filesystem: FileSystem, source: str, target: Path) -> None:
    """Copy a directory recursively."""
    with name_path_in_errors(target):
        target.mkdir(parents=True, exist_ok=True)
    for info in filesystem.list_directory(source):
        if info.is_directory:
            copy_tree(filesystem, info.path, target / info.name)
        else:
            copy_file(filesystem, info.path, target / info.name, mtime_ms=info.mtime_ms)


def sync_directories(top: Path) -> None:
    """Flush the entries of a directory and of its subdirectories."""
    for directory, _, _ in os.walk(top):
        flush_path(directory)


def reject_nested_destination(destination: Path, sources: Iterable[str]) -> None:
    """Reject a destination inside a source, because sources are never changed and a copy would copy itself endlessly.

    All commands that write files call this function. A source comprises its directory and everything in it. If the
    source is a segment or a partition directory, it also comprises the parent directories up to the broker's log
    directory, which has ``meta.properties``: Kafka does not start if a log directory contains an unknown directory
    (LogManager.loadLogs).

    Args:
        sources: paths, URLs or patterns.

    Raises:
        OptionError: the destination is inside a source; the message has both paths.
    """
    target = Path(os.path.realpath(destination))
    for source in sources:
        path = plain_path(source)
        matches = glob.glob(path, recursive=True) if has_wildcard(path) and not os.path.exists(path) else [path]
        for match in matches if "://" not in path else []:
            if target.is_relative_to(_find_containing_directory(Path(os.path.realpath(match)))):
                raise OptionError(
                    f"{destination} is inside the source {match}; sources are never changed, so specify another "
                    "destination"
                )


def _find_containing_directory(source: Path) -> Path:
    """Return the directory that a source belongs to: a file's partition, or a partition's log directory."""
    if source.is_file() and DirectoryName.parse(source.parent.name) is not None:
        source = source.parent
    is_partition = DirectoryName.parse(source.name) is not None
    return source.parent if is_partition and (source.parent / "meta.properties").is_file() else source


@contextmanager
def hold_lock(destination: Path) -> Iterator[None]:
    """Hold the lock of a destination, for one job at a time.

    The operating system releases the lock when the process ends.

    Raises:
        LogDirError: another job holds the lock.
        OptionError: the destination has no name (``.`` or ``/``), so it already exists.
    """
    if destination.name in ("", ".."):
        raise OptionError(f"{str(destination)!r} already exists; specify a new path")
    path = destination.with_name(destination.name + LOCK)
    with name_path_in_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino
        except OSError:
            is_locked = False
        if not is_locked:
            raise LogDirError("another job is writing to this directory", file=str(destination))
        try:
            yield
        finally:
            # The file is deleted while the lock is held, so that a process that has just opened it notices the
            # deletion.
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


@contextmanager
def write_directory(destination: Path) -> Iterator[Path]:
    """Yield an empty directory and rename it to ``destination`` at the end; delete it after a failure.

    Raises:
        LogDirError: the directory cannot be written, or another process has created the destination.
    """
    path = destination.with_name(destination.name + UNFINISHED)
    with name_path_in_errors(path):
        if path.exists():  # no other job holds the lock, so a killed job left this path
            shutil.rmtree(path)
        path.mkdir(parents=True)
    try:
        yield path
        with name_path_in_errors(destination):
            _remove_attempts(path)
            sync_directories(path)
            path.rename(destination)
            _remove_attempts(destination)  # lost workers may have written until the rename, but cannot continue now
            flush_path(destination.parent)
    except BaseException:
        _rename_and_remove(path)
        raise


def _remove_attempts(directory: Path) -> None:
    """Remove the files that task attempts of lost workers have left."""
    for attempt in directory.glob(f"{ATTEMPT_PREFIX}*"):
        shutil.rmtree(attempt, ignore_errors=True)
    for left_over in directory.rglob(f"*{PART}-*"):
        left_over.unlink(missing_ok=True)


def _rename_and_remove(path: Path) -> None:
    """Rename a directory and then remove it, so that a running attempt cannot create new files in it."""
    renamed_path = path.with_name(f"{path.name}-{uuid.uuid4().hex}")
    with suppress(OSError):
        path.rename(renamed_path)
        path = renamed_path
    shutil.rmtree(path, ignore_errors=True)
