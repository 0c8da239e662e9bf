"""Names in a tiered store: the keys of a segment's objects, and the paths under which its files are presented.

An object's key is ``<prefix><topic>-<topic id>/<partition>/<base offset>-<segment id>.<suffix>``. Ids are 22
characters of URL-safe base64, which may contain ``-`` and ``_``. Names are therefore split from the right, by width.
The prefix is prepended without a separator and may be a part of the first folder's name.

A *view path* is the path of a log file whose content is stored in the objects. A view path consists of the object's
path
without suffix, ``!/``, the partition's directory and the file name:
``.../00000000000000000480-mVWvRq_YR7C8qGZ6g-ieVg!/orders-0/00000000000000000480.log``. A worker needs only this path to
read the file, and error messages with the path identify the object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kafkaframes.storage.files.filesystem import VIEW_SEPARATOR, FileInfo, FileSystem, split_path
from kafkaframes.storage.files.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, TopicPartition
from kafkaframes.wire.integers import MAX_INT32, MAX_INT64

MANIFEST, LOG, INDEXES = "rsm-manifest", "log", "indexes"
OBJECT_SUFFIXES: Final = (LOG, INDEXES, MANIFEST)
# The last of a UUID's 22 characters has only two bits.
_ID_PATTERN = r"[A-Za-z0-9_-]{21}[AQgw]"
_OBJECT_PATTERN = re.compile(rf"(?P<offset>[0-9]{{20}})-(?P<id>{_ID_PATTERN})\.(?P<suffix>[a-z-]+)")
_FOLDER_PATTERN = re.compile(rf"(?P<name>.+)-(?P<id>{_ID_PATTERN})", re.DOTALL)
_PARTITION_PATTERN = re.compile(r"0|[1-9][0-9]{0,9}")
_SEGMENT_VIEW_PATTERN = re.compile(
    rf"(?P<main>.+/[0-9]{{20}}-{_ID_PATTERN})!/(?P<directory>[^/]+)/(?P<name>[^/]+)", re.DOTALL
)
_PARTITION_VIEW_PATTERN = re.compile(
    rf"(?P<folder>.+-{_ID_PATTERN}/[0-9]{{1,10}})!/(?P<directory>[^/]+)(?:/(?P<name>[^/]+))?/?", re.DOTALL
)

# Suffix of an index file in the view -> name of the index in the indexes object.
INDEX_BY_SUFFIX: Final = MappingProxyType(
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
    """The last component of an object's key.

    Attributes:
        segment_id: id of this upload of the segment; each upload attempt has another id.
        suffix: ``log``, ``indexes`` or ``rsm-manifest``.
    """

    base_offset: int
    segment_id: str
    suffix: str

    @classmethod
    def parse(cls, name: str) -> ObjectName | None:
        """Parse the name of an object; return None for any other name.

        >>> ObjectName.parse("00000000000000000480-mVWvRq_YR7C8qGZ6g-ieVg.log").segment_id
        'mVWvRq_YR7C8qGZ6g-ieVg'
        >>> ObjectName.parse("00000000000000000480.log") is None
        True
        """
        match = _OBJECT_PATTERN.fullmatch(name)
        if match is None or match["suffix"] not in OBJECT_SUFFIXES or int(match["offset"]) > MAX_INT64:
            return None
        return cls(int(match["offset"]), match["id"], match["suffix"])

    @property
    def stem(self) -> str:
        """The name without its suffix, which is the last component of the main path."""
        return f"{self.base_offset:020d}-{self.segment_id}"


@dataclass(frozen=True, slots=True)
class TopicFolder:
    """The first folder of an object's key: topic name and topic id.

    Attributes:
        name: topic name, possibly after the end of a key prefix. Only a manifest shows where the prefix ends.
        topic_id: topic id; a topic that is deleted and created again gets another id.
    """

    name: str
    topic_id: str

    @classmethod
    def parse(cls, name: str) -> TopicFolder | None:
        """Parse the name of a topic folder; return None for any other name.

        >>> TopicFolder.parse("page-views-Q3VD4Tg3QAOmasRur4PghA")
        TopicFolder(name='page-views', topic_id='Q3VD4Tg3QAOmasRur4PghA')
        """
        match = _FOLDER_PATTERN.fullmatch(name)
        return None if match is None else cls(match["name"], match["id"])


def parse_partition(name: str) -> int | None:
    """Return the partition number of a folder name; None for any other name.

    >>> parse_partition("12"), parse_partition("012"), parse_partition("orders-0")
    (12, None, None)
    """
    return int(name) if _PARTITION_PATTERN.fullmatch(name) and int(name) <= MAX_INT32 else None


def parse_folder(path: str) -> tuple[TopicFolder, int] | None:
    """Return the topic and partition of a folder, from the last two components of its path; None for other folders.

    >>> parse_folder("s3://bucket/backup/orders-Q3VD4Tg3QAOmasRur4PghA/7")[1]
    7
    """
    above, last = split_path(path)
    number, topic = parse_partition(last), TopicFolder.parse(split_path(above)[1])
    return None if number is None or topic is None else (topic, number)


@dataclass(frozen=True, slots=True)
class ViewPath:
    """The components of the path under which a log file of a tiered store is presented: a *view path*, see above.

    Attributes:
        main: path of the segment's objects without suffix; for a partition's directory and the files that belong to no
            segment, the path of the partition's folder in the store.
        directory: Kafka's name of the partition's directory.
        name: name of the log file; empty for the directory.
    """

    main: str
    directory: str
    name: str = ""

    @classmethod
    def parse(cls, path: str) -> ViewPath | None:
        """Parse a view path; return None for any other path.

        >>> ViewPath.parse("/s/orders-Q3VD4Tg3QAOmasRur4PghA/0!/orders-0").directory
        'orders-0'
        >>> ViewPath.parse("/logs/orders-0/00000000000000000480.log") is None
        True
        """
        if VIEW_SEPARATOR not in path:
            return None
        match = _SEGMENT_VIEW_PATTERN.fullmatch(path)
        if match is not None:
            return cls(match["main"], match["directory"], match["name"])
        match = _PARTITION_VIEW_PATTERN.fullmatch(path)
        return None if match is None else cls(match["folder"], match["directory"], match["name"] or "")

    def __str__(self) -> str:
        return f"{self.main}{VIEW_SEPARATOR}{self.directory}" + (f"/{self.name}" if self.name else "")

    @property
    def is_directory(self) -> bool:
        """Whether the path is that of a partition's directory."""
        return not self.name

    @property
    def is_metadata(self) -> bool:
        """Whether the file is ``partition.metadata``, whose content is derived from the object's key."""
        return self.name == PARTITION_METADATA

    @property
    def index(self) -> str | None:
        """The index's name in the manifest; None for a ``.log`` and for other files."""
        return INDEX_BY_SUFFIX.get(self.name) or INDEX_BY_SUFFIX.get(self.name.rpartition(".")[2])

    def object_path(self, suffix: str) -> str:
        """Return the path of one of the segment's objects."""
        return f"{self.main}.{suffix}"


def directory_view_path(folder: str, topic_partition: TopicPartition) -> str:
    """Return the view path of a partition's directory.

    >>> directory_view_path("/s/orders-Q3VD4Tg3QAOmasRur4PghA/0", TopicPartition("orders", 0))
    '/s/orders-Q3VD4Tg3QAOmasRur4PghA/0!/orders-0'
    """
    return str(ViewPath(folder.rstrip("/"), str(topic_partition)))


# ---------------------------------------------------------------------------------------------------------------------
# Content of a tiered store, from listings only: the folders of partitions, and the objects of each upload.

Objects = Mapping[str, FileInfo]  # suffix -> object


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """The folder with the uploads of one partition.

    Attributes:
        uploads: existing objects of each upload, by the objects' name without suffix.
        is_selected_by_name: whether the user named single objects. If True, all named objects are read, and no other
            objects are expected.
    """

    path: str
    topic: TopicFolder
    partition: int
    uploads: Mapping[str, Objects]
    is_selected_by_name: bool = False


@dataclass(frozen=True, slots=True)
class TieredObjectStore:
    """A tiered store: the partition folders found under one path."""

    path: str
    filesystem: FileSystem
    folders: tuple[PartitionFolder, ...]


def find_store(filesystem: FileSystem, path: str, entries: Iterable[FileInfo]) -> TieredObjectStore | None:
    """Return the tiered store under a directory; None if it contains none.

    The directory may be the store, a topic folder in it, or a partition folder.
    """
    listed = list(entries)
    folder_key, above = parse_folder(path), TopicFolder.parse(split_path(path)[1])
    if folder_key is not None and any(ObjectName.parse(entry.name) for entry in listed):
        return TieredObjectStore(split_path(split_path(path)[0])[0], filesystem, (_folder(path, *folder_key, listed),))
    folders = list(_find_partitions(filesystem, above, listed)) if above is not None else []
    if folders:
        return TieredObjectStore(split_path(path)[0], filesystem, tuple(folders))
    for entry in listed:
        topic = TopicFolder.parse(entry.name) if entry.is_directory else None
        if topic is not None:
            folders += _find_partitions(filesystem, topic, filesystem.list_directory(entry.path))
    return TieredObjectStore(path, filesystem, tuple(folders)) if folders else None


def _find_partitions(
    filesystem: FileSystem, topic: TopicFolder, entries: Iterable[FileInfo]
) -> Iterator[PartitionFolder]:
    for entry in entries:
        number = parse_partition(entry.name) if entry.is_directory else None
        if number is not None:
            folder = _folder(entry.path, topic, number, filesystem.list_directory(entry.path))
            if folder.uploads:
                yield folder


def _folder(path: str, topic: TopicFolder, partition: int, entries: Iterable[FileInfo]) -> PartitionFolder:
    return PartitionFolder(path.rstrip("/"), topic, partition, _group_uploads(entries))


def _group_uploads(entries: Iterable[FileInfo]) -> dict[str, dict[str, FileInfo]]:
    uploads: dict[str, dict[str, FileInfo]] = {}
    for entry in entries:
        name = ObjectName.parse(entry.name)
        if name is not None and not entry.is_directory:
            uploads.setdefault(name.stem, {})[name.suffix] = entry
    return uploads


def make_store_from_objects(
    filesystem: FileSystem, directory: str, object_names: Iterable[str]
) -> TieredObjectStore | None:
    """Return a store with the uploads of the named objects; None if a name is not that of an object.

    The objects need not be in a partition folder, because copied objects still have the metadata in their manifest.
    """
    stems = {name.stem if (name := ObjectName.parse(object_name)) is not None else None for object_name in object_names}
    if None in stems:
        return None
    uploads = _group_uploads(filesystem.list_directory(directory))
    topic, partition = parse_folder(directory) or (TopicFolder("", ""), 0)
    selected_uploads = {stem: objects for stem, objects in uploads.items() if stem in stems}
    return TieredObjectStore(
        directory,
        filesystem,
        (PartitionFolder(directory, topic, partition, selected_uploads, is_selected_by_name=True),),
    )
