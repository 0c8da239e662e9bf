"""File systems for logs: one protocol for local disks and object stores.

All log files are read through a ``FileSystem``; no other module calls ``open``. A path is text with ``/`` as separator,
or a URL. ``get_store`` returns the file system of a path; ``storage/log/discover.py`` adds the view of tiered segments.
If a file is missing or forbidden, or its store fails, the functions raise a ``LogDirError`` with the path. Only
``stat`` returns ``None`` for a missing file. File systems are values: they can be pickled, and they open their
connections in the process that uses them.
"""

from __future__ import annotations

import os
import stat as modes
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from kafkaframes.errors import NOT_SEEKABLE_TEXT, LogDirError, MissingExtraError

_Answer = TypeVar("_Answer")
# Delays before a failed request is repeated, in addition to the retries of the store's own client.
RETRY_DELAYS_SECONDS = (0.1, 0.4, 1.6)
_NON_RETRIABLE_ERRORS = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError)
GLOB_CHARACTERS = frozenset("*?[")
MAX_UNCHECKED_BYTES = 1 << 20  # larger reads are first limited to the file's size
KEY_FILES_OPTION = "key_files"  # private keys for encrypted tiered segments; this is not an option of fsspec
FOLLOW_LINKS_OPTION = "follow_links"  # an option of the local disk
VIEW_SEPARATOR = "!/"  # separator in the path of a tiered segment's file, between the object and the file name
ReadAt = Callable[[int, int], bytes]  # (position, length) -> up to length bytes, fewer at the end of the file


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A directory entry: path, name, size and modification time.

    Attributes:
        size_bytes: size of a file; 0 for a directory.
        mtime_ms: modification time, milliseconds since 1970; None if the store has none.
        is_directory: whether the entry is a directory, or a "folder" of an object store.
    """

    path: str
    name: str
    size_bytes: int = 0
    mtime_ms: int | None = None
    is_directory: bool = False


class FileSystem(Protocol):
    """The file system operations that reading a log needs."""

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name."""

    def stat(self, path: str) -> FileInfo | None:
        """Return the entry of a path; None if it does not exist."""

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on (all by default); fewer at the end of the file."""

    def open(self, path: str) -> AbstractContextManager[ReadAt]:
        """Open a file for many reads: ``with filesystem.open(path) as read_at: read_at(position, length)``."""

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match ``pattern``, sorted."""


def join(directory: str, name: str) -> str:
    """Join a directory path or URL and a name.

    >>> join("s3://bucket/logs/", "orders-0")
    's3://bucket/logs/orders-0'
    """
    return f"{directory.rstrip('/')}/{name}" if directory.rstrip("/") else f"/{name}"


def split_path(path: str) -> tuple[str, str]:
    """Split a path or URL into the directory and the name.

    >>> split_path("/logs/orders-0/")
    ('/logs', 'orders-0')
    >>> split_path("orders-0")
    ('.', 'orders-0')
    """
    directory, slash, name = path.rstrip("/").rpartition("/")
    return (directory or "/", name) if slash else (".", name)


def make_bytes_reader(data: bytes) -> ReadAt:
    """Return a read function for bytes in memory.

    >>> make_bytes_reader(b"abc")(1, 9), make_bytes_reader(b"abc")(1, -1)
    (b'bc', b'bc')
    """
    return lambda position, length: data[position:] if length < 0 else data[position : position + length]


def _name_path_in_errors(path: str, operation: Callable[[], _Answer]) -> _Answer:
    """Call ``operation``; convert an ``OSError`` to a ``LogDirError`` with the path."""
    try:
        return operation()
    except OSError as error:
        raise LogDirError(f"cannot be read: {error.strerror or error}", file=path) from error


@dataclass(frozen=True, slots=True)
class LocalFileSystem:
    """The local file system.

    Attributes:
        follow_links: whether symbolic links are listed. The target of a link may be outside the directory that the user
            selected, may not belong to a log, or may be a directory that contains the link.
    """

    follow_links: bool = False

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name.

        Files that are deleted during the call are omitted. Symbolic links are omitted unless they are followed.
        """
        entries = []
        for entry in _name_path_in_errors(path, lambda: sorted(os.scandir(path), key=lambda raw: raw.name)):
            if entry.is_symlink() and not (self.follow_links and _leads_outside(path, entry.path)):
                continue
            try:
                entries.append(_to_file_info(join(path, entry.name), entry.name, entry.stat()))
            except FileNotFoundError:  # a broker has deleted or renamed the file, or the path is a dangling link
                continue
            except OSError as error:  # the directory has no permission to search (chmod a-x)
                raise LogDirError(f"cannot be read: {error.strerror or error}", file=entry.path) from error
        return entries

    def stat(self, path: str) -> FileInfo | None:
        """Return the entry of a path; None if it does not exist."""
        try:
            raw = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
            raise LogDirError(f"cannot be read: {error}", file=path) from error
        if modes.S_ISFIFO(raw.st_mode) or modes.S_ISCHR(raw.st_mode) or modes.S_ISSOCK(raw.st_mode):
            raise LogDirError(NOT_SEEKABLE_TEXT, file=path)  # its size is 0, so it would look like an empty file
        return _to_file_info(path, split_path(path)[1], raw)

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; fewer at the end of the file."""
        with self.open(path) as read_at:
            return read_at(position, -1 if length is None else length)

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        """Open a file for many reads, which also work after the file is renamed or deleted."""
        descriptor = _name_path_in_errors(path, lambda: os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))
        try:
            yield lambda position, length: _name_path_in_errors(path, lambda: _pread(descriptor, position, length))
        finally:
            os.close(descriptor)

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match ``pattern``, sorted; ``**`` matches any number of directories."""
        import glob

        raw = sorted(glob.glob(pattern, recursive=True, include_hidden=False))
        return raw if self.follow_links else [path for path in raw if not _passes_link(pattern, path)]


def _leads_outside(directory: str, link: str) -> bool:
    """Return whether a link's target is a directory that does not contain the link."""
    home, target = os.path.realpath(directory), os.path.realpath(link)
    return not (home == target or home.startswith(target.rstrip("/") + "/"))


def _passes_link(pattern: str, path: str) -> bool:
    """Return whether a matched path contains a symbolic link in a step that the pattern matched with a wildcard."""
    plain = pattern.split("/")
    first_pattern = next((index for index, step in enumerate(plain) if has_wildcard(step)), len(plain))
    steps = path.split("/")
    return any(os.path.islink("/".join(steps[: end + 1])) for end in range(first_pattern, len(steps)))


def _to_file_info(path: str, name: str, raw: os.stat_result) -> FileInfo:
    is_directory = modes.S_ISDIR(raw.st_mode)
    return FileInfo(path, name, 0 if is_directory else raw.st_size, raw.st_mtime_ns // 1_000_000, is_directory)


def _pread(descriptor: int, position: int, length: int) -> bytes:
    """Read ``length`` bytes, or the rest of the file for -1, without allocating more than the file's size."""
    length_to_read = length
    if not 0 <= length <= MAX_UNCHECKED_BYTES:
        remaining_bytes = max(os.fstat(descriptor).st_size - position, 0)
        length_to_read = remaining_bytes if length < 0 else min(length, remaining_bytes)
    part = os.pread(descriptor, length_to_read, position)
    if len(part) == length_to_read or not part:
        return part
    parts = [part]
    while length_to_read > (read_bytes := sum(map(len, parts))) and (
        part := os.pread(descriptor, length_to_read - read_bytes, position + read_bytes)
    ):
        parts.append(part)
    return b"".join(parts)


@dataclass(frozen=True)
class FsspecFileSystem:
    """An object store that fsspec supports, by URL: ``s3://``, ``gs://``, ``hdfs://``, ``memory://``, ...

    Attributes:
        options: arguments of the store's constructor (``endpoint_url``, ``key``, ``secret``, ``anon``, ...).
        store: an existing fsspec file system to use; it must be picklable if other processes read from it.
    """

    protocol: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    store: Any = None

    def _open_store(self) -> Any:
        if self.store is not None:
            return self.store
        try:
            import fsspec

            return fsspec.filesystem(self.protocol, **self.options)
        except ImportError as error:
            raise MissingExtraError(f"reading {self.protocol}:// ", "remote") from error
        except ValueError as error:
            raise LogDirError(f"fsspec has no file system for {self.protocol}:// ({error})") from error

    def _run_with_retries(self, path: str, request: Callable[[Any], _Answer]) -> _Answer:
        store = self._open_store()
        for wait_seconds in (*RETRY_DELAYS_SECONDS, None):
            try:
                return request(store)
            except Exception as error:  # each store has its own exceptions (botocore's, aiohttp's, pyarrow's)
                if wait_seconds is None or isinstance(error, _NON_RETRIABLE_ERRORS):
                    raise LogDirError(f"cannot be read: {type(error).__name__}: {error}", file=path) from error
                time.sleep(wait_seconds)
        raise AssertionError("the last attempt returns or raises")

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name, without using cached listings."""

        def list_entries(store: Any) -> list[FileInfo]:
            store.invalidate_cache()
            entries = [self._to_file_info(path, raw) for raw in store.ls(path, detail=True)]
            return [entry for entry in entries if entry.name and entry.path.rstrip("/") != path.rstrip("/")]

        return sorted(self._run_with_retries(path, list_entries), key=lambda entry: entry.name)

    def stat(self, path: str) -> FileInfo | None:
        """Return the entry of a path; None if it does not exist."""

        def request_entry(store: Any) -> FileInfo | None:
            try:
                raw = self._to_file_info(split_path(path)[0], store.info(path))
            except FileNotFoundError:
                return None
            return FileInfo(path, raw.name, raw.size_bytes, raw.mtime_ms, raw.is_directory)

        return self._run_with_retries(path, request_entry)

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; fewer at the end of the file."""

        if position == 0 and length is None:
            return self._run_with_retries(path, lambda store: bytes(store.cat_file(path)))
        with self.open(path) as read_at:
            return read_at(position, -1 if length is None else length)

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        """Open one object for ranged reads; its size is requested once."""
        size_bytes = self._run_with_retries(path, lambda store: int(store.info(path)["size"]))

        def read_at(position: int, length: int) -> bytes:
            end = size_bytes if length < 0 else min(size_bytes, position + length)
            if position >= end:  # for a range past the end, stores return an error or more than requested
                return b""
            return self._run_with_retries(path, lambda store: _read_range(store, path, position, end))

        yield read_at

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match ``pattern``, sorted."""
        return self._run_with_retries(
            pattern, lambda store: sorted(store.unstrip_protocol(raw) for raw in store.glob(pattern))
        )

    def _to_file_info(self, directory: str, raw: Mapping[str, Any]) -> FileInfo:
        name = split_path(str(raw["name"]))[1]
        is_directory = raw.get("type") == "directory"
        size_bytes = 0 if is_directory else int(raw.get("size") or 0)
        return FileInfo(join(directory, name), name, size_bytes, _modification_time_ms(raw), is_directory)


def _read_range(store: Any, path: str, start: int, end: int) -> bytes:
    arrow = getattr(store, "fs", None)
    if arrow is None or not hasattr(arrow, "open_input_file"):
        return bytes(store.cat_file(path, start=start, end=end))
    with arrow.open_input_file(path) as file:  # fsspec's wrapper of pyarrow opens streams that cannot seek
        return bytes(file.read_at(end - start, start))


def _modification_time_ms(raw: Mapping[str, Any]) -> int | None:
    """Return the modification time. Object stores use different keys for the modification time."""
    for name in ("mtime", "LastModified", "last_modified", "updated", "modificationTime", "created"):
        value: Any = raw.get(name)
        if isinstance(value, int | float):
            return int(value * 1000)
        if hasattr(value, "timestamp"):
            return int(value.timestamp() * 1000)
    return None


def get_store(path: str, *, options: Mapping[str, Any] | None = None) -> FileSystem:
    """Return the file system of ``path``: the object store of a URL, or the local disk.

    Args:
        options: arguments of the store's constructor, with the names of fsspec; ``follow_links`` is for the local disk.
    """
    protocol, mark, _ = path.partition("://")
    store_options = dict(options or {})
    follow_links = bool(store_options.pop(FOLLOW_LINKS_OPTION, False))
    return FsspecFileSystem(protocol, store_options) if mark and protocol != "file" else LocalFileSystem(follow_links)


def storage_options(
    key_files: Sequence[str], *, follow_links: bool, store: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the options for reading sources, as ``get_store`` and ``discover`` accept them.

    >>> storage_options(["key.pem"], follow_links=False, store={"anon": True})
    {'anon': True, 'key_files': ('key.pem',)}

    Args:
        key_files: private keys for encrypted tiered segments.
        follow_links: whether to follow symbolic links on the local disk.
        store: arguments for fsspec's file system.
    """
    options = dict(store or {})
    if key_files:
        options[KEY_FILES_OPTION] = tuple(key_files)
    if follow_links:
        options[FOLLOW_LINKS_OPTION] = True
    return options


def plain_path(path: str) -> str:
    """Return the path that the file system expects: ``file:///x`` becomes ``/x``, other URLs are unchanged."""
    return path.removeprefix("file://") if path.startswith("file://") else path


def wrap_filesystem(filesystem: Any) -> FileSystem:
    """Return a pyarrow or fsspec file system as a ``FileSystem``; a ``FileSystem`` is returned unchanged."""
    if hasattr(filesystem, "list_directory"):
        return filesystem  # type: ignore[no-any-return]
    if hasattr(filesystem, "get_file_info"):  # pyarrow.fs.FileSystem
        from fsspec.implementations.arrow import ArrowFSWrapper

        filesystem = ArrowFSWrapper(filesystem)
    return FsspecFileSystem(str(getattr(filesystem, "protocol", "given")), store=filesystem)


def has_wildcard(path: str) -> bool:
    """Return whether ``path`` has a wildcard of ``glob``."""
    return not GLOB_CHARACTERS.isdisjoint(path)


class DelegatingFileSystem:
    """A file system that delegates to ``inner``; subclasses override the operations that differ."""

    __slots__ = ()
    inner: FileSystem

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name."""
        return self.inner.list_directory(path)

    def stat(self, path: str) -> FileInfo | None:
        """Return the entry of a path; None if it does not exist."""
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
