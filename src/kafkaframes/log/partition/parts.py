"""What a partition's log is made of; ``loading`` puts it together."""

from __future__ import annotations

from dataclasses import dataclass

from kafkaframes.log.names import TopicPartition
from kafkaframes.log.partition.disk import OnlineDisk
from kafkaframes.log.partition.epochs import LeaderEpochs
from kafkaframes.log.partition.producers import Producers
from kafkaframes.log.partition.segments import Segments
from kafkaframes.log.partition.settings import LogSettings
from kafkaframes.log.partition.snapshots import Snapshots


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
