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

    def start(self, place: int) -> int:
        """The position of a batch."""
        return self.ends[place - 1] if place else 0

    def base(self, place: int) -> int | None:
        """The base offset that a batch will get, if the broker decides."""
        if self.expected is None:
            return None
        return self.target_ends[place - 1] if place else self.expected

    def stop(self, place: int, request_bytes: int) -> int:
        """The batch behind those that go into one request."""
        if not self.as_set:
            return place + 1
        return max(bisect_right(self.ends, self.start(place) + request_bytes), place + 1)


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
    place, failures = 0, 0
    patience_s = cluster.settings.default_api_timeout_ms / 1000
    deadline = time.monotonic() + patience_s
    while place < len(parcel.ends):
        try:
            if failures:
                place = await _arrived(cluster, partition, parcel, place)
            place = await _send(cluster, partition, parcel, place, request_bytes)
            failures, deadline = 0, time.monotonic() + patience_s
        except (BrokerError, NetworkError) as error:
            if not is_retriable(error) or time.monotonic() >= deadline:
                raise
            await asyncio.sleep(cluster.backoff_s(failures))
            failures += 1


async def _send(
    cluster: ClusterClient, partition: TopicPartition, parcel: Parcel, place: int, request_bytes: int
) -> int:
    """Send one request; return the batch behind those that it carried."""
    if place == len(parcel.ends):
        return place
    stop = parcel.stop(place, request_bytes)
    part = parcel.data[parcel.start(place) : parcel.ends[stop - 1]]
    base = await produce_raw(cluster, partition, part, as_set=parcel.as_set)
    _check_base(partition, base, parcel.base(place))
    return stop


async def _arrived(cluster: ClusterClient, partition: TopicPartition, parcel: Parcel, place: int) -> int:
    """Return the first batch from ``place`` on that the copy does not have."""
    end = await end_of(cluster, partition)
    found = max(bisect_right(parcel.target_ends, end), place)
    if found < len(parcel.ends):
        _check_base(partition, end, parcel.base(found))
    return found


def _check_base(partition: TopicPartition, found: int, expected: int | None) -> None:
    if expected is not None and found != expected:
        raise BrokerError(
            f"{partition} of the target goes on at {found:,}, not at {expected:,}: something else writes to it"
        )
