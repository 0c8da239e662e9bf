"""Where a log's bytes come from: one protocol for local disks and object stores.

Every file of a log is read through a ``FileSystem``; nothing else calls ``open``. A path is text with ``/`` between its
steps, or a URL. ``store_of`` returns the file system of a path; ``storage/log/discover.py`` adds the view of tiered
segments. A file that is missing, forbidden, or in a store that fails is a ``LogDirError`` that names the path; only
``stat`` returns ``None`` for a missing file. File systems are values: they pickle, and open their connections in the
process that uses them.
"""

from __future__ import annotations

import os
import stat as modes
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from kafkaframes.errors import LogDirError, MissingExtraError

_Answer = TypeVar("_Answer")
# Waits before a failed request is repeated, in addition to the client's own retries.
RETRY_AFTER_SECONDS = (0.1, 0.4, 1.6)
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError)
MAGIC_CHARACTERS = frozenset("*?[")
MOST_UNCHECKED_BYTES = 1 << 20  # up to this size a read is not compared with the file's size first
KEY_FILES = "key_files"  # not an option of fsspec: private keys of encrypted tiered segments
FOLLOW_LINKS = "follow_links"  # an option of this machine's disk
VIEW_MARK = "!/"  # in the path of a tiered segment's file: before it the object, behind it the file
ReadAt = Callable[[int, int], bytes]  # position, length -> that many bytes, or fewer where the file ends


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One entry of a directory.

    Attributes:
        size_bytes: 0 for a directory.
        mtime_ms: last modification, milliseconds since 1970; None where a store keeps no such time.
        is_directory: true also for the "folders" of an object store.
    """

    path: str
    name: str
    size_bytes: int = 0
    mtime_ms: int | None = None
    is_directory: bool = False


class FileSystem(Protocol):
    """The operations that reading a log needs."""

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name."""

    def stat(self, path: str) -> FileInfo | None:
        """Return one entry; None when nothing is there."""

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on (all by default); fewer where the file ends."""

    def open(self, path: str) -> AbstractContextManager[ReadAt]:
        """Open a file for many reads: ``with filesystem.open(path) as read_at: read_at(position, length)``."""

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match ``pattern``, sorted."""


def join(directory: str, name: str) -> str:
    """Join two steps of a path or URL.

    >>> join("s3://bucket/logs/", "orders-0")
    's3://bucket/logs/orders-0'
    """
    return f"{directory.rstrip('/')}/{name}" if directory.rstrip("/") else f"/{name}"


def split(path: str) -> tuple[str, str]:
    """Split a path or URL into the directory and its last step.

    >>> split("/logs/orders-0/")
    ('/logs', 'orders-0')
    >>> split("orders-0")
    ('.', 'orders-0')
    """
    directory, slash, name = path.rstrip("/").rpartition("/")
    return (directory or "/", name) if slash else (".", name)


def reader_of(data: bytes) -> ReadAt:
    """Return what reads bytes as a file.

    >>> reader_of(b"abc")(1, 9), reader_of(b"abc")(1, -1)
    (b'bc', b'bc')
    """
    return lambda position, length: data[position:] if length < 0 else data[position : position + length]


def _asking(path: str, question: Callable[[], _Answer]) -> _Answer:
    """Call ``question``; turn every failure of the disk into an error that names the path."""
    try:
        return question()
    except OSError as error:
        raise LogDirError(f"cannot be read: {error.strerror or error}", file=path) from error


@dataclass(frozen=True, slots=True)
class LocalFileSystem:
    """Files of this machine.

    Attributes:
        follow_links: whether symbolic links are listed. A link may lead out of the directory that the user named, to
            files that belong to no log, or back to its own directory.
    """

    follow_links: bool = False

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name; one that vanishes meanwhile is left out, links as well
        unless they are followed.
        """
        entries = []
        for entry in _asking(path, lambda: sorted(os.scandir(path), key=lambda raw: raw.name)):
            if entry.is_symlink() and not (self.follow_links and _leads_on(path, entry.path)):
                continue
            try:
                entries.append(_local_info(join(path, entry.name), entry.name, entry.stat()))
            except FileNotFoundError:  # a broker deleted or renamed it meanwhile, or it is a dangling link
                continue
        return entries

    def stat(self, path: str) -> FileInfo | None:
        """Return one entry; None when nothing is there."""
        try:
            raw = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
            raise LogDirError(f"cannot be read: {error}", file=path) from error
        return _local_info(path, split(path)[1], raw)

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; fewer where the file ends."""
        with self.open(path) as read_at:
            return read_at(position, -1 if length is None else length)

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        """Hold the file open: what is renamed or deleted meanwhile can still be read."""
        descriptor = _asking(path, lambda: os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))
        try:
            yield lambda position, length: _asking(path, lambda: _pread(descriptor, position, length))
        finally:
            os.close(descriptor)

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match ``pattern``, sorted; ``**`` matches any number of directories."""
        import glob

        raw = sorted(glob.glob(pattern, recursive=True, include_hidden=False))
        return raw if self.follow_links else [path for path in raw if not _passes_link(pattern, path)]


def _leads_on(directory: str, link: str) -> bool:
    """Say whether a link leads to a directory other than one that contains it."""
    home, target = os.path.realpath(directory), os.path.realpath(link)
    return not (home == target or home.startswith(target.rstrip("/") + "/"))


def _passes_link(pattern: str, path: str) -> bool:
    """Say whether a matched path goes through a symbolic link that the pattern does not name."""
    plain = pattern.split("/")
    fixed = next((index for index, step in enumerate(plain) if has_magic(step)), len(plain))
    steps = path.split("/")
    return any(os.path.islink("/".join(steps[: end + 1])) for end in range(fixed, len(steps)))


def _local_info(path: str, name: str, raw: os.stat_result) -> FileInfo:
    is_directory = modes.S_ISDIR(raw.st_mode)
    return FileInfo(path, name, 0 if is_directory else raw.st_size, raw.st_mtime_ns // 1_000_000, is_directory)


def _pread(descriptor: int, position: int, length: int) -> bytes:
    """Read ``length`` bytes, or all for -1; no more than the file's size is allocated."""
    requested = length
    if not 0 <= length <= MOST_UNCHECKED_BYTES:
        left = max(os.fstat(descriptor).st_size - position, 0)
        requested = left if length < 0 else min(length, left)
    part = os.pread(descriptor, requested, position)
    if len(part) == requested or not part:
        return part
    parts = [part]
    while requested > (have := sum(map(len, parts))) and (
        part := os.pread(descriptor, requested - have, position + have)
    ):
        parts.append(part)
    return b"".join(parts)


@dataclass(frozen=True)
class FsspecFileSystem:
    """Any store that fsspec knows, by URL: ``s3://``, ``gs://``, ``hdfs://``, ``memory://``, ...

    Attributes:
        options: what the store's own constructor takes (``endpoint_url``, ``key``, ``secret``, ``anon``, ...).
        made: an fsspec file system to use instead; it must be picklable if other processes are to read.
    """

    protocol: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    made: Any = None

    def _store(self) -> Any:
        if self.made is not None:
            return self.made
        try:
            import fsspec

            return fsspec.filesystem(self.protocol, **self.options)
        except ImportError as error:
            raise MissingExtraError(f"reading {self.protocol}:// ", "remote") from error
        except ValueError as error:
            raise LogDirError(f"no file system is known for {self.protocol}:// ({error})") from error

    def _ask(self, path: str, question: Callable[[Any], _Answer]) -> _Answer:
        store = self._store()
        for wait_seconds in (*RETRY_AFTER_SECONDS, None):
            try:
                return question(store)
            except Exception as error:  # each store has its own exceptions (botocore's, aiohttp's, pyarrow's)
                if wait_seconds is None or isinstance(error, _FINAL):
                    raise LogDirError(f"cannot be read: {type(error).__name__}: {error}", file=path) from error
                time.sleep(wait_seconds)
        raise AssertionError("the last attempt returns or raises")

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name, freshly asked for."""

        def question(store: Any) -> list[FileInfo]:
            store.invalidate_cache()
            listed = [self._info(path, raw) for raw in store.ls(path, detail=True)]
            return [entry for entry in listed if entry.name and entry.path.rstrip("/") != path.rstrip("/")]

        return sorted(self._ask(path, question), key=lambda entry: entry.name)

    def stat(self, path: str) -> FileInfo | None:
        """Return one entry; None when nothing is there."""

        def question(store: Any) -> FileInfo | None:
            try:
                raw = self._info(split(path)[0], store.info(path))
            except FileNotFoundError:
                return None
            return FileInfo(path, raw.name, raw.size_bytes, raw.mtime_ms, raw.is_directory)

        return self._ask(path, question)

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; fewer where the file ends."""

        if position == 0 and length is None:
            return self._ask(path, lambda store: bytes(store.cat_file(path)))
        with self.open(path) as read_at:
            return read_at(position, -1 if length is None else length)

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        """Open one object for ranged reads; its size is requested once."""
        size_bytes = self._ask(path, lambda store: int(store.info(path)["size"]))

        def read_at(position: int, length: int) -> bytes:
            end = size_bytes if length < 0 else min(size_bytes, position + length)
            if position >= end:  # stores answer a range past the end with an error, or with more
                return b""
            return self._ask(path, lambda store: _range(store, path, position, end))

        yield read_at

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match ``pattern``, sorted."""
        return self._ask(pattern, lambda store: sorted(store.unstrip_protocol(raw) for raw in store.glob(pattern)))

    def _info(self, directory: str, raw: Mapping[str, Any]) -> FileInfo:
        name = split(str(raw["name"]))[1]
        is_directory = raw.get("type") == "directory"
        size_bytes = 0 if is_directory else int(raw.get("size") or 0)
        return FileInfo(join(directory, name), name, size_bytes, _store_mtime_ms(raw), is_directory)


def _range(store: Any, path: str, start: int, end: int) -> bytes:
    arrow = getattr(store, "fs", None)
    if arrow is None or not hasattr(arrow, "open_input_file"):
        return bytes(store.cat_file(path, start=start, end=end))
    with arrow.open_input_file(path) as file:  # fsspec's wrapper of pyarrow opens streams that cannot seek
        return bytes(file.read_at(end - start, start))


def _store_mtime_ms(raw: Mapping[str, Any]) -> int | None:
    """Return the modification time under whichever name the store gives it."""
    for name in ("mtime", "LastModified", "last_modified", "updated", "modificationTime", "created"):
        value: Any = raw.get(name)
        if isinstance(value, int | float):
            return int(value * 1000)
        if hasattr(value, "timestamp"):
            return int(value.timestamp() * 1000)
    return None


def store_of(path: str, *, options: Mapping[str, Any] | None = None) -> FileSystem:
    """Return the file system of ``path``: the store of a URL, or this machine's disk.

    Args:
        options: handed to the store's constructor (fsspec's names); ``follow_links`` is for this machine's disk.
    """
    protocol, mark, _ = path.partition("://")
    chosen = dict(options or {})
    follow_links = bool(chosen.pop(FOLLOW_LINKS, False))
    return FsspecFileSystem(protocol, chosen) if mark and protocol != "file" else LocalFileSystem(follow_links)


def plain_path(path: str) -> str:
    """Return ``path`` as its file system wants it: ``file:///x`` is ``/x``, other URLs stay as they are."""
    return path.removeprefix("file://") if path.startswith("file://") else path


def wrap(filesystem: Any) -> FileSystem:
    """Return a pyarrow or fsspec file system as a ``FileSystem``; one that is a ``FileSystem`` already as it is."""
    if hasattr(filesystem, "list_directory"):
        return filesystem  # type: ignore[no-any-return]
    if hasattr(filesystem, "get_file_info"):  # pyarrow.fs.FileSystem
        from fsspec.implementations.arrow import ArrowFSWrapper

        filesystem = ArrowFSWrapper(filesystem)
    return FsspecFileSystem(str(getattr(filesystem, "protocol", "given")), made=filesystem)


def has_magic(path: str) -> bool:
    """Say whether ``path`` has a wildcard of ``glob``."""
    return not MAGIC_CHARACTERS.isdisjoint(path)


class FileSystemOver:
    """Hands every question on to ``inner``; a class on top of it writes only what it answers otherwise."""

    __slots__ = ()
    inner: FileSystem

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name."""
        return self.inner.list_directory(path)

    def stat(self, path: str) -> FileInfo | None:
        """Return one entry; None when nothing is there."""
        return self.inner.stat(path)

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on."""
        return self.inner.read(path, position=position, length=length)

    def open(self, path: str) -> AbstractContextManager[ReadAt]:
        """Open a file for many reads."""
        return self.inner.open(path)

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match ``pattern``, sorted."""
        return self.inner.glob(pattern)
