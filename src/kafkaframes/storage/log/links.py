"""Find symbolic links under the paths of a log, to report that they are not followed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from kafkaframes.storage.files.filesystem import LocalFileSystem, has_magic, plain_path
from kafkaframes.storage.log.discover import NESTED_DEPTH


def links_under(paths: Iterable[str]) -> list[str]:
    """Return the symbolic links in local directories, as deep as logs are searched for.

    A path that is a link itself is followed, because the user named it.
    """
    disk = LocalFileSystem()
    links: dict[str, None] = {}
    for pattern in paths:
        path = plain_path(pattern)
        if "://" in path:
            continue
        starts = disk.glob(path) if has_magic(path) and not os.path.exists(path) else [path]
        for start in starts:
            links |= dict.fromkeys(_below(start, NESTED_DEPTH + 1))
    return list(links)


def _below(directory: str, depth: int) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        return  # reading the log will report why the directory cannot be read
    for entry in entries:
        if entry.is_symlink():
            yield entry.path
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path, depth - 1)
