"""Batches to one partition in their order, each once: after a failure the copy's end says what arrived.

One request at a time and partition, so that nothing can be overtaken. Only the mirror writes to a copy: where its end
is not where it should be, somebody else has written, and the mirror stops.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from dataclasses import dataclass

from kafkaframes.client.cluster import ClusterClient, is_retriable
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.offsets import LATEST, ends
from kafkaframes.client.raw import produce_raw
from kafkaframes.errors import BrokerError, NetworkError


@dataclass(frozen=True, slots=True)
class Parcel:
    """Batches that follow each other.

    Attributes:
        data: their bytes.
        ends: of each batch, the position behind it.
        target_ends: of each, the first offset of the copy behind it.
        expected: the base offset that the broker will give the first; None where batches bring their own.
        as_set: several go in one request.
    """

    data: memoryview
    ends: list[int]
    target_ends: list[int]
    expected: int | None = None
    as_set: bool = False

    def start(self, index: int) -> int:
        """The position of a batch."""
        return self.ends[index - 1] if index else 0

    def base(self, index: int) -> int | None:
        """The base offset that a batch will get, if the broker decides."""
        if self.expected is None:
            return None
        return self.target_ends[index - 1] if index else self.expected

    def stop(self, index: int, request_bytes: int) -> int:
        """The batch behind those that go into one request."""
        if not self.as_set:
            return index + 1
        return max(bisect_right(self.ends, self.start(index) + request_bytes), index + 1)


async def end_of(cluster: ClusterClient, partition: TopicPartition) -> int:
    """Return where the copy of a partition ends."""
    return (await ends(cluster, [partition], LATEST))[partition]


async def deliver(
    cluster: ClusterClient, partition: TopicPartition, parcel: Parcel, *, request_bytes: int = 1 << 20
) -> None:
    """Write all batches of a parcel, in order, each once.

    Raises:
        BrokerError: the broker refuses one, or something else writes to the copy.
        NetworkError: it cannot be reached for ``default_api_timeout_ms``.
    """
    index, failures = 0, 0
    patience_s = cluster.settings.default_api_timeout_ms / 1000
    deadline = time.monotonic() + patience_s
    while index < len(parcel.ends):
        try:
            if failures:
                index = await _arrived(cluster, partition, parcel, index)
            index = await _send(cluster, partition, parcel, index, request_bytes)
            failures, deadline = 0, time.monotonic() + patience_s
        except (BrokerError, NetworkError) as error:
            if not is_retriable(error) or time.monotonic() >= deadline:
                raise
            await asyncio.sleep(cluster.backoff_s(failures))
            failures += 1


async def _send(
    cluster: ClusterClient, partition: TopicPartition, parcel: Parcel, index: int, request_bytes: int
) -> int:
    """Send one request; return the batch behind those that it carried."""
    if index == len(parcel.ends):
        return index
    stop = parcel.stop(index, request_bytes)
    part = parcel.data[parcel.start(index) : parcel.ends[stop - 1]]
    base = await produce_raw(cluster, partition, part, as_set=parcel.as_set)
    _check_base(partition, base, parcel.base(index))
    return stop


async def _arrived(cluster: ClusterClient, partition: TopicPartition, parcel: Parcel, index: int) -> int:
    """Return the first batch from ``index`` on that the copy does not have."""
    end = await end_of(cluster, partition)
    arrived = max(bisect_right(parcel.target_ends, end), index)
    if arrived < len(parcel.ends):
        _check_base(partition, end, parcel.base(arrived))
    return arrived


def _check_base(partition: TopicPartition, base: int, expected: int | None) -> None:
    if expected is not None and base != expected:
        raise BrokerError(
            f"{partition} of the target goes on at {base:,}, not at {expected:,}: something else writes to it"
        )
