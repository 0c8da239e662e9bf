"""What a partition's log is made of; ``loading`` puts it together."""

from __future__ import annotations

from dataclasses import dataclass

from kafkaframes.files.disk import OnlineDisk
from kafkaframes.files.names import TopicPartition
from kafkaframes.partition.epochs import LeaderEpochs
from kafkaframes.partition.producers import Producers
from kafkaframes.partition.segments import Segments
from kafkaframes.partition.settings import LogSettings
from kafkaframes.partition.snapshots import Snapshots


@dataclass(slots=True, kw_only=True)
class Parts:
    """The state of one log; its owner is ``PartitionLog``."""

    disk: OnlineDisk
    directory: str
    topic_partition: TopicPartition
    settings: LogSettings
    segments: Segments
    epochs: LeaderEpochs
    producers: Producers
    snapshots: Snapshots
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    now_ms: int
    topic_id: str | None = None
