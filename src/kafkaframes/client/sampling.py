"""Look at a few batches of a partition, to estimate what the rest is like: the bytes and records that offsets hold."""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.sync import Consumer


class Sample(NamedTuple):
    """The batches that one fetch has brought.

    Attributes:
        offsets: how many offsets they take, from the one on that was asked for; at least 1.
        records: how many records they hold, as their headers say it; a message of format 0 or 1 counts as one.
        size_bytes: as the broker holds them.
        first_timestamp: of the first batch, in milliseconds since 1970; negative where it has none.
    """

    offsets: int
    records: int
    size_bytes: int
    first_timestamp: int

    @property
    def bytes_per_offset(self) -> float:
        """How many bytes an offset takes; offsets without records count."""
        return self.size_bytes / self.offsets


def sample(consumer: Consumer, target: TopicPartition, offset: int, *, wait_ms: int = 2_000) -> Sample | None:
    """Return the batches at an offset; None where none came in time.

    Args:
        consumer: of no group; it is assigned anew. Its ``max_partition_fetch_bytes`` is about how much comes.
        target: the partition.
        offset: from which on.
        wait_ms: how long to wait.

    Raises:
        BrokerError: the partition cannot be read from there.
        NetworkError: its leader cannot be reached.
    """
    consumer.assign({target: offset})
    fetched = consumer.fetch(wait_ms)
    if fetched is None or fetched.partition != target or fetched.next_offset <= offset:
        return None
    batches, offsets = fetched.batches, fetched.next_offset - offset
    records = int(batches.column("count").clip(min=1).sum())
    size_bytes, first = int(batches.column("size").sum()), int(batches.column("base_timestamp")[0])
    return Sample(offsets, min(records, offsets), size_bytes, first)
