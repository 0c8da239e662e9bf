"""Names in a tiered store: where a segment's objects lie, and the paths under which its files are shown.

An object's key is ``<prefix><topic>-<topic id>/<partition>/<base offset>-<segment id>.<suffix>``. Ids are 22
characters of URL-safe base64 that may hold ``-`` and ``_``, so names are split from the right, by width; the prefix
is put in front as it is and may be part of the first folder's name.

A *view path* names a file of the log that the objects hold: the object's path without suffix, ``!/``, the
partition's directory and the file:
``.../00000000000000000480-mVWvRq_YR7C8qGZ6g-ieVg!/orders-0/00000000000000000480.log``.
A worker that is given such a path can read it, and error messages that contain it name the object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kafkaframes.storage.files.filesystem import VIEW_MARK, FileInfo, FileSystem, split_path
from kafkaframes.storage.files.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, TopicPartition
from kafkaframes.wire.integers import MAX_INT32

MANIFEST, LOG, INDEXES = "rsm-manifest", "log", "indexes"
SUFFIXES: Final = (LOG, INDEXES, MANIFEST)
# The last of a UUID's 22 characters carries two bits only.
_ID = r"[A-Za-z0-9_-]{21}[AQgw]"
_OBJECT = re.compile(rf"(?P<offset>[0-9]{{20}})-(?P<id>{_ID})\.(?P<suffix>[a-z-]+)")
_FOLDER = re.compile(rf"(?P<name>.+)-(?P<id>{_ID})", re.DOTALL)
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")
_SEGMENT_VIEW = re.compile(rf"(?P<main>.+/[0-9]{{20}}-{_ID})!/(?P<directory>[^/]+)/(?P<name>[^/]+)", re.DOTALL)
_PARTITION_VIEW = re.compile(
    rf"(?P<folder>.+-{_ID}/[0-9]{{1,10}})!/(?P<directory>[^/]+)(?:/(?P<name>[^/]+))?/?", re.DOTALL
)
_MAX_OFFSET = 2**63 - 1

# What the name of a file of the view ends in -> the name of its bytes in the indexes object.
INDEX_OF_FILE: Final = MappingProxyType(
    {
        "index": "offset",
        "timeindex": "timestamp",
        "txnindex": "transaction",
        "snapshot": "producerSnapshot",
        LEADER_EPOCH_CHECKPOINT: "leaderEpoch",
    }
)


@dataclass(frozen=True, slots=True, order=True)
class ObjectName:
    """The last step of an object's key.

    Attributes:
        segment_id: of this upload of it; another attempt has another id.
        suffix: ``log``, ``indexes`` or ``rsm-manifest``.
    """

    base_offset: int
    segment_id: str
    suffix: str

    @classmethod
    def parse(cls, name: str) -> ObjectName | None:
        """Take a name apart; None when it is not one of these.

        >>> ObjectName.parse("00000000000000000480-mVWvRq_YR7C8qGZ6g-ieVg.log").segment_id
        'mVWvRq_YR7C8qGZ6g-ieVg'
        >>> ObjectName.parse("00000000000000000480.log") is None
        True
        """
        match = _OBJECT.fullmatch(name)
        if match is None or match["suffix"] not in SUFFIXES or int(match["offset"]) > _MAX_OFFSET:
            return None
        return cls(int(match["offset"]), match["id"], match["suffix"])

    @property
    def stem(self) -> str:
        """The name without its suffix: the last step of the main path."""
        return f"{self.base_offset:020d}-{self.segment_id}"


@dataclass(frozen=True, slots=True)
class TopicFolder:
    """The first folder of a key.

    Attributes:
        name: the topic's name, perhaps with the end of a key prefix before it: only a manifest tells them apart.
        topic_id: of the topic; one that is deleted and made again has another.
    """

    name: str
    topic_id: str

    @classmethod
    def parse(cls, name: str) -> TopicFolder | None:
        """Take a name apart; None when it is not one of these.

        >>> TopicFolder.parse("page-views-Q3VD4Tg3QAOmasRur4PghA")
        TopicFolder(name='page-views', topic_id='Q3VD4Tg3QAOmasRur4PghA')
        """
        match = _FOLDER.fullmatch(name)
        return None if match is None else cls(match["name"], match["id"])


def parse_partition(name: str) -> int | None:
    """Return the partition number that a folder is named with; None for any other name.

    >>> parse_partition("12"), parse_partition("012"), parse_partition("orders-0")
    (12, None, None)
    """
    return int(name) if _PARTITION.fullmatch(name) and int(name) <= MAX_INT32 else None


def parse_folder(path: str) -> tuple[TopicFolder, int] | None:
    """Return the topic and partition of a folder, from the last two steps of its path; None for other folders.

    >>> parse_folder("s3://bucket/backup/orders-Q3VD4Tg3QAOmasRur4PghA/7")[1]
    7
    """
    above, last = split_path(path)
    number, topic = parse_partition(last), TopicFolder.parse(split_path(above)[1])
    return None if number is None or topic is None else (topic, number)


@dataclass(frozen=True, slots=True)
class ViewPath:
    """A path of the view, taken apart.

    Attributes:
        main: the objects' path without suffix; for a partition's own files, and its directory, the folder's path.
        directory: the partition's directory as Kafka would name it.
        name: the file; empty for the directory.
    """

    main: str
    directory: str
    name: str = ""

    @classmethod
    def parse(cls, path: str) -> ViewPath | None:
        """Take a path apart; None if it is not a view path.

        >>> ViewPath.parse("/s/orders-Q3VD4Tg3QAOmasRur4PghA/0!/orders-0").directory
        'orders-0'
        >>> ViewPath.parse("/logs/orders-0/00000000000000000480.log") is None
        True
        """
        if VIEW_MARK not in path:
            return None
        match = _SEGMENT_VIEW.fullmatch(path)
        if match is not None:
            return cls(match["main"], match["directory"], match["name"])
        match = _PARTITION_VIEW.fullmatch(path)
        return None if match is None else cls(match["folder"], match["directory"], match["name"] or "")

    def __str__(self) -> str:
        return f"{self.main}{VIEW_MARK}{self.directory}" + (f"/{self.name}" if self.name else "")

    @property
    def is_directory(self) -> bool:
        """Whether it is a partition's directory."""
        return not self.name

    @property
    def is_metadata(self) -> bool:
        """Whether it is ``partition.metadata``, whose content comes from the object's key."""
        return self.name == PARTITION_METADATA

    @property
    def index(self) -> str | None:
        """The manifest's name for this index; None for a ``.log`` and for other files."""
        return INDEX_OF_FILE.get(self.name) or INDEX_OF_FILE.get(self.name.rpartition(".")[2])

    def object(self, suffix: str) -> str:
        """Return the path of one of the segment's objects."""
        return f"{self.main}.{suffix}"


def directory_view(folder: str, topic_partition: TopicPartition) -> str:
    """Return the view path of a partition's directory.

    >>> directory_view("/s/orders-Q3VD4Tg3QAOmasRur4PghA/0", TopicPartition("orders", 0))
    '/s/orders-Q3VD4Tg3QAOmasRur4PghA/0!/orders-0'
    """
    return str(ViewPath(folder.rstrip("/"), str(topic_partition)))


# ---------------------------------------------------------------------------------------------------------------------
# What lies in a tiered store: the folders of partitions, and the objects of each upload, from listings alone.

Objects = Mapping[str, FileInfo]  # suffix -> object


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """The folder of one partition.

    Attributes:
        uploads: by the objects' name without suffix: the objects that are there.
        is_selected_by_name: the user named single objects, so none of them is left out, and no other one is expected.
    """

    path: str
    topic: TopicFolder
    partition: int
    uploads: Mapping[str, Objects]
    is_selected_by_name: bool = False


@dataclass(frozen=True, slots=True)
class Store:
    """Folders found in one place."""

    path: str
    filesystem: FileSystem
    folders: tuple[PartitionFolder, ...]


def find_store(filesystem: FileSystem, path: str, entries: Iterable[FileInfo]) -> Store | None:
    """Return the tiered store under a directory; None if there is none.

    The directory may be the store, the folder of a topic in it, or the folder of a partition.
    """
    listed = list(entries)
    own, above = parse_folder(path), TopicFolder.parse(split_path(path)[1])
    if own is not None and any(ObjectName.parse(entry.name) for entry in listed):
        return Store(split_path(split_path(path)[0])[0], filesystem, (_folder(path, *own, listed),))
    folders = list(_partitions(filesystem, above, listed)) if above is not None else []
    if folders:
        return Store(split_path(path)[0], filesystem, tuple(folders))
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


def store_of_objects(filesystem: FileSystem, directory: str, object_names: Iterable[str]) -> Store | None:
    """Return a store that consists of the named objects' uploads; None if one is not the name of such an object.

    They need not lie in a partition's folder: copied objects are still whole in their manifest.
    """
    stems = {name.stem if (name := ObjectName.parse(one)) is not None else None for one in object_names}
    if None in stems:
        return None
    uploads = _uploads(filesystem.list_directory(directory))
    topic, partition = parse_folder(directory) or (TopicFolder("", ""), 0)
    selected_uploads = {stem: objects for stem, objects in uploads.items() if stem in stems}
    return Store(
        directory,
        filesystem,
        (PartitionFolder(directory, topic, partition, selected_uploads, is_selected_by_name=True),),
    )
