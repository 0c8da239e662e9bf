"""What is served and never changed: a log directory, or a view of several places as one (``served_tree.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.names import TopicPartition


class Remark(NamedTuple):
    """A line for people about what is served; one of severity ``ERROR`` tells of records that are not."""

    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class Served:
    """A log directory to be opened over a disk that keeps what is written in memory.

    Attributes:
        path: the directory, in ``filesystem``.
        filesystem: who has its files.
        was_clean: of logs that are known to end with a whole batch, or not, whatever marker the directory has.
        remarks: what was decided where copies differ, and what a store lacks: the gravest first.
    """

    path: str
    filesystem: FileSystem
    was_clean: Mapping[TopicPartition, bool] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
