"""What lies in a tiered store: the folders of partitions, and the objects of each upload, from listings alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kafkaframes.storage.files.filesystem import FileInfo, FileSystem, split
from kafkaframes.storage.tiered.names import ObjectName, TopicFolder, parse_folder, parse_partition

Objects = Mapping[str, FileInfo]  # suffix -> object


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """The folder of one partition.

    Attributes:
        path: of the folder.
        topic: its topic's folder, by name.
        partition: its number.
        uploads: by the objects' name without suffix: the objects that are there.
        named: the user named single objects, so none of them is left out, and no other one is expected.
    """

    path: str
    topic: TopicFolder
    partition: int
    uploads: Mapping[str, Objects]
    named: bool = False


@dataclass(frozen=True, slots=True)
class Store:
    """Folders found in one place.

    Attributes:
        path: the place.
        filesystem: holds its objects.
    """

    path: str
    filesystem: FileSystem
    folders: tuple[PartitionFolder, ...]


def find_store(filesystem: FileSystem, path: str, entries: Iterable[FileInfo]) -> Store | None:
    """Return the tiered store under a directory; None if there is none.

    The directory may be the store, the folder of a topic in it, or the folder of a partition.

    Args:
        filesystem, path: of the directory.
        entries: what was listed there.
    """
    listed = list(entries)
    own, above = parse_folder(path), TopicFolder.parse(split(path)[1])
    if own is not None and any(ObjectName.parse(entry.name) for entry in listed):
        return Store(split(split(path)[0])[0], filesystem, (_folder(path, *own, listed),))
    folders = list(_partitions(filesystem, above, listed)) if above is not None else []
    if folders:
        return Store(split(path)[0], filesystem, tuple(folders))
    for entry in listed:
        topic = TopicFolder.parse(entry.name) if entry.is_directory else None
        if topic is not None:
            folders += _partitions(filesystem, topic, filesystem.list_directory(entry.path))
    return Store(path, filesystem, tuple(folders)) if folders else None


def _partitions(filesystem: FileSystem, topic: TopicFolder, entries: Iterable[FileInfo]) -> Iterator[PartitionFolder]:
    for entry in entries:
        number = parse_partition(entry.name) if entry.is_directory else None
        if number is not None:
            folder = _folder(entry.path, topic, number, filesystem.list_directory(entry.path))
            if folder.uploads:
                yield folder


def _folder(path: str, topic: TopicFolder, partition: int, entries: Iterable[FileInfo]) -> PartitionFolder:
    return PartitionFolder(path.rstrip("/"), topic, partition, _uploads(entries))


def _uploads(entries: Iterable[FileInfo]) -> dict[str, dict[str, FileInfo]]:
    uploads: dict[str, dict[str, FileInfo]] = {}
    for entry in entries:
        name = ObjectName.parse(entry.name)
        if name is not None and not entry.is_directory:
            uploads.setdefault(name.stem, {})[name.suffix] = entry
    return uploads


def named_objects(filesystem: FileSystem, directory: str, object_names: Iterable[str]) -> Store | None:
    """Return a store that consists of the named objects' uploads; None if one is not the name of such an object.

    They need not lie in a partition's folder: copied objects are still whole in their manifest.
    """
    stems = {name.stem if (name := ObjectName.parse(one)) is not None else None for one in object_names}
    if None in stems:
        return None
    uploads = _uploads(filesystem.list_directory(directory))
    topic, partition = parse_folder(directory) or (TopicFolder("", ""), 0)
    chosen = {stem: objects for stem, objects in uploads.items() if stem in stems}
    return Store(directory, filesystem, (PartitionFolder(directory, topic, partition, chosen, named=True),))
