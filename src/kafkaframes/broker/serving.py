"""``--serve``: what lies under paths as one log directory; a directory as it is, a tiered store, several copies.

A broker opens what it is given by path. Where a log lies elsewhere (segments in a store, a partition in several
copies, several disks), ``copies.served_tree`` gives each file a name in one directory; it is imported only then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from kafkaframes.broker.metadata_file import FILE_NAME
from kafkaframes.errors import OptionError
from kafkaframes.storage.copies.decisions import MERGE, REPLICAS
from kafkaframes.storage.copies.served import Remark, Served
from kafkaframes.storage.files.directory import LogDirectory
from kafkaframes.storage.files.filesystem import VIEW_MARK, plain_path
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.names import META_PROPERTIES
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.where import filesystem_for
from kafkaframes.storage.partition import LogManager

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


def paths_of(given: Paths | None) -> tuple[str, ...]:
    """Return what is to be served as texts; nothing for None."""
    if given is None:
        return ()
    return (fspath(given),) if isinstance(given, str | PathLike) else tuple(fspath(path) for path in given)


def serve_paths(paths: Sequence[str], *, replicas: str = MERGE, options: Mapping[str, Any] | None = None) -> Served:
    """Show what lies under paths as one log directory.

    Args:
        paths: log directories, partitions' directories, directories of such, tiered stores; on a disk or by URL.
        replicas: ``merge``: of several copies of a partition one log is made, as ``read_records`` does; ``all``: a
            broker has each partition once, so that several copies are refused.
        options: of the stores.

    Raises:
        LogDirError: a path holds nothing of Kafka's, or copies are of different topics or clusters.
        OptionError: no path, no such word for ``replicas``, or several copies although they are not to be merged.
    """
    if not paths or replicas not in REPLICAS:
        raise OptionError(f"directories are served with replicas {' or '.join(REPLICAS)}, not {replicas!r}")
    storage = dict(options or {})
    found = discover(paths, options=storage)
    plain = plain_path(paths[0]).rstrip("/")
    if len(paths) == len(found) == 1 and found[0].path == plain and not _is_of_store(found[0]):
        return Served(plain, filesystem_for(plain, options=storage))
    from kafkaframes.storage.copies.served_tree import show_as_one

    named = {plain_path(path).rstrip("/") for path in paths}
    root_files = (META_PROPERTIES, FILE_NAME)
    return show_as_one(found, named, merge=replicas == MERGE, options=storage, root_files=root_files)


def not_served(logs: LogManager) -> tuple[Remark, ...]:
    """Say what lies in a log directory and is not served: logs that cannot be read, what recovery cuts off, and what a
    reader has met since; then which small files are treated as missing, because they cannot be read.

    A broker keeps the batches of a segment up to the first that is not whole, and nothing behind it (LogLoader).
    """
    lines = [f"error: not served: {one}" for one in logs.unreadable.values()]
    for key, log in logs.logs.items():
        if log.state.bytes_lost:
            at = log.state.whole_until
            where = f", from byte {at[1]:,} of {at[0]} on" if at is not None else ""
            what = f"error: {key}: {log.state.bytes_lost:,} bytes are not served{where}"
            lines.append(f"{what}: a broker's recovery drops them; kafkaframes repair keeps their whole batches")
        for path, position in log.state.torn.items():
            what = f"error: {key}: {path} cannot be read from byte {position:,} on"
            lines.append(f"{what}: a batch there is longer than the file; kafkaframes repair keeps what follows it")
    ignored = [f"warning: left out: {problem}" for problem in logs.problems]
    return (
        *(Remark(Severity.ERROR, line) for line in lines),
        *(Remark(Severity.WARNING, line) for line in ignored),
    )


def _is_of_store(directory: LogDirectory) -> bool:
    return any(VIEW_MARK in one.directory for one in directory.partitions)
