"""The state of a share session with one node (KIP-932): epoch, partitions and pending acknowledgements. No I/O.

A node remembers the partitions of a session between requests, as in a fetch session (KIP-227). The requests of
a session are numbered, so only one may be in flight. If the result of a request is unknown, the client opens a new
session with epoch 0, and the node releases the records that the old session had acquired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from kafkaframes.errors import ErrorCode
from kafkaframes.wire.integers import MAX_INT32

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)  # acknowledgement types of the protocol
ACKNOWLEDGEMENT_TYPES: Final = {"accept": ACCEPT, "release": RELEASE, "reject": REJECT}
# After one of these errors, the node no longer has this session, and the client opens a new one.
SESSION_LOST_ERRORS: Final = frozenset({ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH})


class PartitionId(NamedTuple):
    """A partition, identified by its topic id."""

    topic_id: UUID
    partition: int


class AcknowledgementBatch(NamedTuple):
    """Consecutive offsets and their acknowledgement types: one type for all offsets, or one for each offset."""

    first_offset: int
    last_offset: int
    types: list[int]


@dataclass(slots=True)
class ShareSession:
    """The share session with one node.

    Attributes:
        epoch: session epoch of the next request.
        number: number of sessions that were lost. A record must be acknowledged in the session that acquired it.
        partitions: partitions that the node has in the session.
        pending: unsent acknowledgement types, by partition and offset.
    """

    epoch: int = INITIAL_EPOCH
    number: int = 0
    partitions: set[PartitionId] = field(default_factory=set)
    pending: dict[PartitionId, dict[int, int]] = field(default_factory=dict)

    def acknowledge(self, partition: PartitionId, offsets: Iterable[int], kind: int) -> None:
        """Add acknowledgements to send with the next request."""
        self.pending.setdefault(partition, {}).update(dict.fromkeys(offsets, kind))

    @property
    def is_open(self) -> bool:
        """Whether the node has a session."""
        return self.epoch != INITIAL_EPOCH

    def take_pending(self) -> dict[PartitionId, dict[int, int]]:
        """Remove and return the pending acknowledgements."""
        pending, self.pending = self.pending, {}
        return pending

    def plan_changes(self, assigned_partitions: Iterable[PartitionId]) -> tuple[list[PartitionId], list[PartitionId]]:
        """Return the partitions to add to the session, and those to remove from it, sorted."""
        partitions = set(assigned_partitions)
        return sorted(partitions - self.partitions), sorted(self.partitions - partitions)

    def advance(self) -> None:
        """Increment the epoch for the next request."""
        self.epoch = 1 if self.epoch == MAX_INT32 else self.epoch + 1

    def reset(self) -> None:
        """Start over with a new session, because the node has lost it or the result of a request is unknown."""
        self.epoch = INITIAL_EPOCH
        self.number += 1
        self.partitions.clear()


def to_batches(kinds: Mapping[int, int]) -> Iterator[AcknowledgementBatch]:
    """Yield acknowledgements as batches of consecutive offsets. A batch lists its type once if all its types are equal.

    >>> [tuple(batch) for batch in to_batches({7: 1, 5: 1, 6: 2, 9: 1})]
    [(5, 7, [1, 2, 1]), (9, 9, [1])]
    """
    offsets = sorted(kinds)
    first = 0
    for index, offset in enumerate(offsets):
        if index + 1 == len(offsets) or offsets[index + 1] != offset + 1:
            types = [kinds[number] for number in offsets[first : index + 1]]
            is_uniform = len(set(types)) == 1
            yield AcknowledgementBatch(offsets[first], offset, types[:1] if is_uniform else types)
            first = index + 1
