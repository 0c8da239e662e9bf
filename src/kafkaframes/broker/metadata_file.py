"""What a broker knows beside its logs, in one small file of its data directory: ``kafkaframes.broker.json``.

Topics with their ids and settings, the broker's dynamic settings, users, access rules, quotas, and the next producer
id. KRaft has these in ``__cluster_metadata``; a log directory that another broker opens does not need the file, which
Kafka leaves alone. It is replaced as a whole, so that a crash leaves the old one or the new one. Only its owner may
read it: it has the keys of SCRAM users, with which their passwords can be guessed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from kafkaframes.broker.metadata_form import FormError, check_form
from kafkaframes.errors import LogDirError
from kafkaframes.storage.files.disk import OnlineDisk, keep_file
from kafkaframes.storage.files.filesystem import join

FILE_NAME = "kafkaframes.broker.json"
PRODUCER_ID_BLOCK = 1_000


@dataclass(slots=True)
class StoredTopic:
    """A topic in the file."""

    topic_id: str
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class StoredMetadata:
    """The file's content.

    Attributes:
        next_producer_id: below which every id may have been given away.
        configs: the broker's dynamic settings.
        entities: of client quotas, users, access rules ...: whatever API files keep, by a name of theirs.
    """

    version: int = 1
    cluster_id: str = ""
    next_producer_id: int = 0
    topics: dict[str, StoredTopic] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict, repr=False)
    entities: dict[str, Any] = field(default_factory=dict, repr=False)


def read_metadata(disk: OnlineDisk, directory: str) -> StoredMetadata | None:
    """Read the file; None where there is none.

    Raises:
        LogDirError: it is not one of ours; names the field.
    """
    path = join(directory, FILE_NAME)
    if disk.stat(path) is None:
        return None
    try:
        values = json.loads(disk.read(path))
        check_form(values, "")
    except (ValueError, RecursionError, FormError) as error:
        raise LogDirError(f"is no metadata of a broker: {error}", file=path) from None
    topics = {name: StoredTopic(**topic) for name, topic in values.pop("topics").items()}
    return StoredMetadata(topics=topics, **values)


def write_metadata(disk: OnlineDisk, directory: str, metadata: StoredMetadata) -> None:
    """Replace the file.

    Raises:
        StorageError: the disk fails.
    """
    values = vars_of(metadata) | {"topics": {name: vars_of(topic) for name, topic in metadata.topics.items()}}
    raw = json.dumps(values, sort_keys=True).encode() + b"\n"  # with an indent it takes ten times as long
    keep_file(disk, join(directory, FILE_NAME), raw, is_private=True)


def vars_of(value: StoredMetadata | StoredTopic) -> dict[str, Any]:
    """Return the fields of a value by name, without the copies of all within that ``asdict`` makes."""
    return {name: getattr(value, name) for name in value.__slots__}


def protect_metadata(disk: OnlineDisk, directory: str) -> None:
    """Let only the owner read a file that is there, whatever mode it has.

    Raises:
        StorageError: the disk fails.
    """
    disk.open_file(join(directory, FILE_NAME), is_private=True).close()
