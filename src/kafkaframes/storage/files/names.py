"""Parse and format the names of Kafka's directories and files. This module accesses no files.

The directory of a partition is ``<topic>-<partition>``, or ``<topic>-<partition>.<32 hex digits>-delete`` (``-future``,
``-stray``) if the broker has renamed it. A segment has files ``<base offset, 20 digits>.<kind>``. A second suffix marks
files that are being written, are swapped in or are to be deleted (LogFileUtils, UnifiedLog).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.wire.integers import MAX_INT32, MAX_INT64

OFFSET_DIGITS = 20
EPOCH_DIGITS = 10
SEGMENT_KINDS = ("log", "index", "timeindex", "txnindex")
TEMPORARY_SUFFIXES = ("cleaned", "swap", "deleted", "tmp", "part")
_MAX_TOPIC_LENGTH = 249
_TOPIC_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
DIRECTORY_STATES = ("delete", "future", "stray")

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
BROKER_LOCK_FILE = ".lock"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_CHECKPOINT,
)
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
# Kafka 4.3's Topic.java, and the topic of remote log metadata. Other names that start with two underscores are user
# topics, for example Debezium's heartbeats.
INTERNAL_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "__remote_log_metadata"}
)

_DIRECTORY_PATTERN = re.compile(
    r"(?P<topic>.+)-(?P<partition>[0-9]{1,10})(?:\.(?P<unique_id>[0-9a-f]{32})-(?P<state>[a-z]+))?"
)
_FILE_PATTERN = re.compile(
    r"(?P<offset>[0-9]{20})(?:-(?P<epoch>[0-9]{10}))?\.(?P<kind>[a-z]+)(?:\.(?P<temporary>[a-z.]+))?"
)


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A topic partition: the topic's name and the partition's number.

    Attributes:
        topic: topic name.
        partition: partition number, from 0.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def group_by_topic(
    partitions: Iterable[TopicPartition], entry_of: Callable[[TopicPartition], Any] = attrgetter("partition")
) -> dict[str, list[Any]]:
    """Group partitions by topic, as partition numbers by default.

    >>> group_by_topic([TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("a", 0)])
    {'a': [1, 0], 'b': [0]}
    """
    topics: dict[str, list[Any]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(entry_of(partition))
    return topics


@dataclass(frozen=True, slots=True)
class DirectoryName:
    """The parsed name of a partition directory.

    Attributes:
        state: ``delete``, ``future`` (a move between disks) or ``stray`` if the broker renamed the directory; otherwise
            empty.
        unique_id: 32 hex digits of a renamed directory; otherwise empty.
    """

    topic_partition: TopicPartition
    state: str = ""
    unique_id: str = ""

    @classmethod
    def parse(cls, name: str) -> DirectoryName | None:
        """Parse a directory name; return None if it is not the name of a partition directory.

        Kafka's topic names consist of letters, digits, '.', '_' and '-'. A directory may have other characters in its
        name. Unprintable characters and bytes that are not UTF-8 are escaped in the topic, so it is always valid text.

        >>> DirectoryName.parse("page-views-3")
        DirectoryName(topic_partition=TopicPartition(topic='page-views', partition=3), state='', unique_id='')
        >>> DirectoryName.parse("orders-0.3a400b54ac4a47ee86e55390ecea333b-delete").state
        'delete'
        >>> DirectoryName.parse("remote-log-index-cache") is None
        True
        """
        match = _DIRECTORY_PATTERN.fullmatch(name)
        if match is None or int(match["partition"]) > MAX_INT32:
            return None
        state = match["state"] or ""
        if state and state not in DIRECTORY_STATES:
            return None
        return cls(
            TopicPartition(escape_unprintable(match["topic"]), int(match["partition"])), state, match["unique_id"] or ""
        )

    def __str__(self) -> str:
        return f"{self.topic_partition}.{self.unique_id}-{self.state}" if self.state else str(self.topic_partition)


@dataclass(frozen=True, slots=True)
class FileName:
    """The parsed name of a file with an offset.

    Attributes:
        offset: base offset of the segment; for a snapshot, the offset after the last record that it includes.
        kind: ``log``, ``index``, ``timeindex``, ``txnindex``, ``snapshot`` (producers) or ``checkpoint`` (KRaft).
        temporary: ``cleaned``, ``swap``, ``deleted``, ``tmp`` or ``part``; empty for other files.
        leader_epoch: leader epoch of a KRaft snapshot; None for other files.
    """

    offset: int
    kind: str
    temporary: str = ""
    leader_epoch: int | None = None

    @classmethod
    def parse(cls, name: str) -> FileName | None:
        """Parse a file name; return None for any other name.

        >>> FileName.parse("00000000000000000163.index.swap")
        FileName(offset=163, kind='index', temporary='swap', leader_epoch=None)
        >>> FileName.parse("00000000000000000081-0000000001.checkpoint").leader_epoch
        1
        """
        match = _FILE_PATTERN.fullmatch(name)
        if match is None or int(match["offset"]) > MAX_INT64:
            return None
        kind, temporary, epoch = match["kind"], match["temporary"] or "", match["epoch"]
        is_known_kind = kind == "checkpoint" if epoch else kind in (*SEGMENT_KINDS, "snapshot")
        if not is_known_kind or (temporary and temporary not in TEMPORARY_SUFFIXES):
            return None
        return cls(int(match["offset"]), kind, temporary, int(epoch) if epoch else None)

    def __str__(self) -> str:
        epoch = "" if self.leader_epoch is None else f"-{self.leader_epoch:0{EPOCH_DIGITS}d}"
        temporary = f".{self.temporary}" if self.temporary else ""
        return f"{self.offset:0{OFFSET_DIGITS}d}{epoch}.{self.kind}{temporary}"


def escape_unprintable(text: str) -> str:
    r"""Return untrusted text, for example a file name, as text that is safe to print and to encode.

    Unprintable characters and bytes that are not UTF-8 are escaped, because escape sequences would control a terminal.

    >>> print(escape_unprintable("t\x1b[2J\udce9\u202e x"))
    t\x1b[2J\xe9\u202e x
    """
    if text.isprintable():
        return text
    valid = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in valid)


def name_segment_file(base_offset: int, kind: str) -> str:
    """Return the name of a segment's file.

    >>> name_segment_file(170, "timeindex")
    '00000000000000000170.timeindex'
    """
    return str(FileName(base_offset, kind))


def is_topic_name(name: str) -> bool:
    """Return whether a name is a valid topic name (Kafka's ``Topic.validate``)."""
    return 0 < len(name) <= _MAX_TOPIC_LENGTH and name not in (".", "..") and _TOPIC_CHARACTERS.issuperset(name)


def check_topic_name(name: str) -> None:
    """Raise an error if ``name`` is not a valid topic name (Kafka's ``Topic.validate``).

    Raises:
        OptionError: the name is invalid; the message contains the reason.
    """
    if not is_topic_name(name):
        raise OptionError(
            f"{name[:300]!r} is not a valid topic name; expected 1 to 249 letters, digits, '.', '_' or '-'"
        )


def coordinator_partition(key: str, partitions: int) -> int:
    """Return the partition of a group or transactional id: Java's ``String.hashCode`` modulo the number of partitions.

    >>> coordinator_partition("abc", 50), coordinator_partition("", 50)  # "abc".hashCode() is 96354
    (4, 0)
    """
    raw = key.encode("utf-16-be", "surrogatepass")
    hash_value = 0
    for unit in struct.unpack(f">{len(raw) // 2}H", raw):
        hash_value = (31 * hash_value + unit) & 0xFFFFFFFF
    signed = hash_value - (1 << 32) if hash_value >= 1 << 31 else hash_value
    return 0 if signed == -(1 << 31) else abs(signed) % partitions
