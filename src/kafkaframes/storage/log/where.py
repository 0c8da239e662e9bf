"""Find the file system of a path: the local disk, a store, or the view of tiered segments in a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files.filesystem import KEY_FILES, VIEW_MARK, FileSystem, split, store_of
from kafkaframes.storage.files.names import segment_file_name


def filesystem_for(path: str, *, options: Mapping[str, Any] | None = None) -> FileSystem:
    """Return the file system of ``path``: a URL's store, this machine's disk, or a view of tiered segments.

    Args:
        path: a path, or a URL such as ``s3://bucket/logs``.
        options: handed to the store's constructor (fsspec's names); ``key_files`` is for encrypted tiered segments.
    """
    store_options = dict(options or {})
    key_files = store_options.pop(KEY_FILES, ())
    filesystem = store_of(path, options=store_options)
    if VIEW_MARK in path:
        from kafkaframes.storage.tiered import view  # decompression and manifests: only where a path needs them
        from kafkaframes.storage.tiered.names import ViewPath

        return view.view_over(filesystem, key_files) if ViewPath.parse(path) is not None else filesystem
    return filesystem


def object_view(path: str, *, options: Mapping[str, Any] | None = None) -> str:
    """Return the view path of a segment whose ``.log`` object is named; any other path as it is.

    Raises:
        LogDirError: the object has no manifest, or one that cannot be read.
    """
    from kafkaframes.storage.tiered import names, view

    name = names.ObjectName.parse(split(path)[1])
    if name is None or name.suffix != names.LOG:
        return path
    main = path.removesuffix(f".{names.LOG}")
    filesystem = view.view_over(filesystem_for(path, options=options))
    if filesystem.inner.stat(f"{main}.{names.MANIFEST}") is None:
        raise LogDirError("an object without a manifest, which would say how to read it", file=path)
    owner = filesystem.manifest(main).metadata.topic_partition
    return str(names.ViewPath(main, str(owner), segment_file_name(name.base_offset, names.LOG)))


def view_object(path: str) -> str:
    """Return the ``.log`` object of a view path, as ``discover`` takes it; any other path as it is."""
    if VIEW_MARK not in path:
        return path
    from kafkaframes.storage.tiered import names

    view = names.ViewPath.parse(path)
    return path if view is None else view.object(names.LOG)
