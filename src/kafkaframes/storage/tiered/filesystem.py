"""Tiered segments as files of a log directory: a file system on top of the one that contains the objects.

A view path (``names.ViewPath``) identifies its objects. A worker in another process therefore needs only the path: it
reads the manifest and the requested ranges. ``view.py`` selects the segments of each log once. The resulting listings
are stored here and are not pickled with a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafkaframes.errors import DamagedChunkError, LogDirError
from kafkaframes.storage.files.checkpoints import PartitionMetadata, write_partition_metadata
from kafkaframes.storage.files.filesystem import (
    DelegatingFileSystem,
    FileInfo,
    FileSystem,
    ReadAt,
    get_store,
    make_bytes_reader,
    split_path,
)
from kafkaframes.storage.tiered import names
from kafkaframes.storage.tiered.chunks import (
    AES_IV_BYTES,
    AES_TAG_BYTES,
    ChunkReader,
    Decrypt,
    UnreadableError,
    make_decryptor,
)
from kafkaframes.storage.tiered.encryption_keys import MAX_KEY_FILE_BYTES, unwrap_data_key
from kafkaframes.storage.tiered.manifest import MAX_MANIFEST_BYTES, Manifest, parse_manifest
from kafkaframes.storage.tiered.names import ViewPath


@dataclass(frozen=True)
class TieredFileSystem(DelegatingFileSystem):
    """A file system that serves view paths, and passes every other path to the inner file system.

    Attributes:
        list_again: function that lists a directory of the view in a process that has only its path
            (``view.list_partition``).
        key_files: files of private RSA keys, ``path`` or ``id=path``; each reading process opens them.
        listings: entries of the view's directories, by path.
        manifests: manifests that were read, by the path of their objects without suffix.
    """

    inner: FileSystem
    list_again: Callable[[TieredFileSystem, ViewPath], list[FileInfo]] = field(compare=False, repr=False)
    key_files: tuple[str, ...] = ()
    listings: Mapping[str, tuple[FileInfo, ...]] = field(default_factory=dict, compare=False, repr=False)
    manifests: dict[str, Manifest] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without listings and manifests, because a task must not carry the whole store's listing."""
        state = {"inner": self.inner, "list_again": self.list_again, "key_files": self.key_files}
        return state | {"listings": {}, "manifests": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory. Entries of the view have Kafka's names."""
        if path in self.listings:
            return list(self.listings[path])
        view = ViewPath.parse(path)
        if view is None:
            return self.inner.list_directory(path)
        return self.list_again(self, view)

    def stat(self, path: str) -> FileInfo | None:
        """Return the entry of a path; None if it does not exist or its manifest is missing."""
        view = ViewPath.parse(path)
        if view is None:
            return self.inner.stat(path)
        if view.is_directory or view.is_metadata:
            info = self.inner.stat(view.main)
            size = 0 if view.is_directory else len(_make_partition_metadata(view))
            return info and FileInfo(path, split_path(path)[1], size, info.mtime_ms, view.is_directory)
        if view.main not in self.manifests and self.inner.stat(view.object_path(names.MANIFEST)) is None:
            return None
        info = self.inner.stat(view.object_path(names.INDEXES if view.index else names.LOG))
        size_bytes = self._compute_file_size(view, self.read_manifest(view.main))
        if info is None or size_bytes is None:
            return None
        return FileInfo(path, view.name, size_bytes, info.mtime_ms)

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; fewer at the end of the file."""
        with self.open(path) as read_at:
            return read_at(position, -1 if length is None else length)

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        """Open a file. Ranges of a segment are fetched on request; an index is fetched whole."""
        view = ViewPath.parse(path)
        if view is None:
            with self.inner.open(path) as read_at:
                yield read_at
        elif view.is_metadata or view.index:
            yield make_bytes_reader(
                _make_partition_metadata(view) if view.is_metadata else self._read_index(view, path)
            )
        elif view.is_directory or not view.name.endswith(f".{names.LOG}"):
            raise LogDirError("not a file of a tiered segment", file=path)
        else:
            manifest = self.read_manifest(view.main)
            with self.inner.open(view.object_path(names.LOG)) as source:
                read_at = self._open_segment(view, manifest, source)
                try:
                    yield read_at
                finally:
                    if isinstance(read_at, ChunkReader):
                        read_at.close()

    def read_manifest(self, main: str) -> Manifest:
        """Return the manifest of a segment.

        Raises:
            LogDirError: the manifest is missing, or the object is not a manifest.
        """
        if main not in self.manifests:
            file = f"{main}.{names.MANIFEST}"
            raw = self.inner.read(file, length=MAX_MANIFEST_BYTES + 1)
            self.manifests[main] = parse_manifest(raw, file=file)
        return self.manifests[main]

    def make_segment_decryptor(self, manifest: Manifest, *, file: str) -> Decrypt | None:
        """Return the function that decrypts a segment's chunks and indexes; None if they are not encrypted.

        Raises:
            LogDirError: none of the key files decrypts the segment's key.
            OptionError, MissingExtraError: same as ``encryption_keys.unwrap_data_key``.
        """
        if manifest.encryption is None:
            return None

        def read(path: str) -> bytes:
            return get_store(path).read(path, length=MAX_KEY_FILE_BYTES)

        key = unwrap_data_key(manifest.encryption, self.key_files, read, file=file)
        return make_decryptor(key, manifest.encryption.aad)

    def count_fetched_bytes(self, path: str, start: int, end: int) -> int:
        """Return the number of bytes to fetch from the object for a segment's bytes from ``start`` to ``end``."""
        view = ViewPath.parse(path)
        if view is None:
            return end - start
        manifest = self.read_manifest(view.main)
        return max(end - start, 0) if manifest.is_plain else manifest.chunks.count_stored_bytes(start, end)

    def _compute_file_size(self, view: ViewPath, manifest: Manifest) -> int | None:
        if view.index is None:
            return manifest.size_bytes if view.name.endswith(f".{names.LOG}") else None
        return index_size(manifest, view.index)

    def _read_index(self, view: ViewPath, path: str) -> bytes:
        manifest, name, file = self.read_manifest(view.main), view.index or "", view.object_path(names.INDEXES)
        if name not in manifest.indexes:
            raise LogDirError(f"the segment has no {name} index", file=path)
        index_range = manifest.indexes[name]
        if index_range.size == 0:
            return b""
        decrypt = self.make_segment_decryptor(manifest, file=file)
        index_bytes = self.inner.read(file, position=index_range.position, length=index_range.size)
        return decode_index(index_bytes, manifest, name, decrypt=decrypt, file=file)

    def _open_segment(self, view: ViewPath, manifest: Manifest, source: ReadAt) -> ReadAt:
        file = view.object_path(names.LOG)
        if manifest.is_plain:
            return _limit_reader(source, manifest.size_bytes, file)
        return ChunkReader(source, manifest, decrypt=self.make_segment_decryptor(manifest, file=file), file=file)


def _limit_reader(source: ReadAt, size_bytes: int, file: str) -> ReadAt:
    """Return a reader of an object that is identical to the segment, limited to the size in the manifest."""

    def read_at(position: int, length: int) -> bytes:
        end = size_bytes if length < 0 else min(position + length, size_bytes)
        if position >= end:
            return b""
        data = source(position, end - position)
        if len(data) < end - position:
            cut = position + len(data)
            reason = f"the object is truncated: its manifest states {size_bytes} bytes"
            raise DamagedChunkError(reason, position=cut, file=file, lost=(cut, size_bytes))
        return data

    return read_at


def _make_partition_metadata(view: ViewPath) -> bytes:
    """Return the content of ``partition.metadata``, with the topic id from the objects' key."""
    owner = names.parse_folder(view.main)
    if owner is None:
        raise LogDirError("not the folder of a partition's segments", file=view.main)
    return write_partition_metadata(PartitionMetadata(owner[0].topic_id))


def index_size(manifest: Manifest, name: str) -> int | None:
    """Return the original size of an index file; None if the segment has no index with this name."""
    index_range = manifest.indexes.get(name)
    if index_range is None or index_range.size == 0:  # an empty index is stored without any bytes, even without an IV
        return None if index_range is None else 0
    return max(index_range.size - (AES_IV_BYTES + AES_TAG_BYTES if manifest.encryption else 0), 0)


def decode_index(stored_bytes: bytes, manifest: Manifest, name: str, *, decrypt: Decrypt | None, file: str) -> bytes:
    """Decrypt and decompress an index; return the broker's original bytes.

    Args:
        stored_bytes: content of the index's range in the object.
        file: path of the object, for errors.

    Raises:
        LogDirError: the object ends before the index, or the index cannot be decrypted.
    """
    index_range = manifest.indexes[name]
    if len(stored_bytes) < index_range.size:
        reason = f"the {name} index is truncated: {len(stored_bytes)} of its {index_range.size} bytes"
        raise LogDirError(reason, position=index_range.position, file=file)
    if decrypt is None or not stored_bytes:
        return stored_bytes
    try:
        return decrypt(stored_bytes)
    except UnreadableError as problem:
        raise LogDirError(f"the {name} index: {problem}", position=index_range.position, file=file) from None
