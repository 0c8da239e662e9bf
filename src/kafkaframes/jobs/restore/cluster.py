"""The files of a log directory beside its partitions, as a broker that stopped cleanly leaves them.

``meta.properties``, the offset checkpoints and the marker of a clean shutdown; with it a broker trusts the indexes and
snapshots that lie beside the segments. For a node of its own also what KRaft starts from (``kraft.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafkaframes.errors import OptionError
from kafkaframes.jobs.restore.kraft import TopicLayout, bootstrap_checkpoint, uuid_of
from kafkaframes.jobs.restore.names import DEFAULT_RELEASE
from kafkaframes.storage.files import atomic, names
from kafkaframes.storage.files.checkpoints import (
    CleanShutdown,
    MetaProperties,
    write_clean_shutdown,
    write_meta_properties,
    write_offset_checkpoint,
)
from kafkaframes.storage.files.names import TopicPartition

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
_KRAFT = 1  # the version of meta.properties
_NO_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Ends:
    """Where a restored log begins and ends: offsets."""

    log_start_offset: int
    first_segment_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The node that the directory is meant for; ids are 22 characters of URL-safe base64 or what the cluster has."""

    node_id: int
    cluster_id: str
    directory_id: str
    release: str = DEFAULT_RELEASE


def checkpoint_files(logs: Mapping[TopicPartition, Ends]) -> Iterator[tuple[str, bytes]]:
    """Yield the offset checkpoints: all is flushed and replicated; a start is named where no segment begins there."""
    ends = {partition: one.log_end_offset for partition, one in sorted(logs.items())}
    starts = {
        partition: one.log_start_offset
        for partition, one in sorted(logs.items())
        if one.log_start_offset > one.first_segment_offset
    }
    yield names.RECOVERY_POINT_CHECKPOINT, write_offset_checkpoint(ends)
    yield names.HIGH_WATERMARK_CHECKPOINT, write_offset_checkpoint(ends)
    yield names.LOG_START_CHECKPOINT, write_offset_checkpoint(starts)
    yield names.CLEANER_CHECKPOINT, write_offset_checkpoint({})


def node_files(
    node: Node, topics: Sequence[TopicLayout], *, now_ms: int, next_producer_id: int = 0
) -> Iterator[tuple[str, bytes]]:
    """Yield what makes the directory that of a single KRaft node which has stopped cleanly.

    Raises:
        OptionError: an id is not valid.
    """
    values = {
        "node.id": str(node.node_id),
        "directory.id": node.directory_id,
        "version": str(_KRAFT),
        "cluster.id": node.cluster_id,
    }
    yield names.META_PROPERTIES, write_meta_properties(MetaProperties(values))
    bootstrap = bootstrap_checkpoint(
        topics,
        node_id=node.node_id,
        directory_id=node.directory_id,
        now_ms=now_ms,
        release=node.release,
        next_producer_id=next_producer_id,
    )
    yield BOOTSTRAP_CHECKPOINT, bootstrap
    yield names.CLEAN_SHUTDOWN, write_clean_shutdown(CleanShutdown(_NO_BROKER_EPOCH))


def write_all(directory: Path, contents: Iterator[tuple[str, bytes]]) -> None:
    """Write small files into a directory, each whole or absent.

    Raises:
        LogDirError: the disk is full, or something is forbidden.
    """
    for name, raw in contents:
        with atomic.new_file(directory / name) as out:
            out.write(raw)


def read_topic_ids(text: str, *, file: str | None = None) -> dict[str, str]:
    """Read topics and their ids: what ``kafka-topics --describe`` prints, or lines of a name and an id.

    >>> read_topic_ids("Topic: orders\\tTopicId: AAAAAAAAAAAAAAAAAAAAAQ\\tPartitionCount: 3")
    {'orders': 'AAAAAAAAAAAAAAAAAAAAAQ'}

    Raises:
        OptionError: a line is neither, or an id is not valid.
    """
    topic_ids: dict[str, str] = {}
    for line in text.splitlines():
        words = line.replace("Topic:", " ").replace("TopicId:", " ").split()
        if not words or line.lstrip().startswith("#") or "Partition:" in words:
            continue
        if len(words) < 2 or ("TopicId:" not in line and len(words) > 2):
            raise OptionError(f"{file or 'topic ids'}: {line[:80]!r} is no topic with its id")
        uuid_of(words[1])
        topic_ids[words[0]] = words[1]
    return topic_ids
