"""A share consumer's session with one node: partitions, epoch, records that wait for acknowledgement (KIP-932). No I/O.

A node keeps the partitions of a session between requests, as with fetch sessions (KIP-227). Requests of a session are
numbered, so there is one request at a time. If its outcome is unknown, the session starts again with epoch 0: the node
releases the records that the session had acquired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from kafkaframes.errors import ErrorCode

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_MAX_EPOCH: Final = 2**31 - 1
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)  # acknowledgement types of the protocol
ACKNOWLEDGEMENTS: Final = {"accept": ACCEPT, "release": RELEASE, "reject": REJECT}
#: Errors after which a node has no session of this member: it begins again.
SESSION_LOST: Final = frozenset({ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH})


class PartitionId(NamedTuple):
    """A partition by its topic's id."""

    topic_id: UUID
    partition: int


class AcknowledgementBatch(NamedTuple):
    """Consecutive offsets and their acknowledgement types: one for all, or one for each offset."""

    first_offset: int
    last_offset: int
    types: list[int]


class ShareSessionRequest(NamedTuple):
    """What a ShareFetch says of the session.

    Attributes:
        added: partitions that are new in the session.
        forgotten: partitions that leave it.
        acknowledgements: by partition, sorted by offset.
    """

    epoch: int
    added: list[PartitionId]
    forgotten: list[PartitionId]
    acknowledgements: dict[PartitionId, list[AcknowledgementBatch]]


@dataclass(slots=True)
class ShareSession:
    """One node's session.

    Attributes:
        epoch: of the next request.
        partitions: partitions that the node has in the session.
        pending: acknowledgement types of records, by partition and offset, that are not sent yet.
    """

    epoch: int = INITIAL_EPOCH
    partitions: set[PartitionId] = field(default_factory=set)
    pending: dict[PartitionId, dict[int, int]] = field(default_factory=dict)

    def acknowledge(self, partition: PartitionId, offsets: Iterable[int], kind: int) -> None:
        """Add acknowledgements; they are sent with the next request."""
        self.pending.setdefault(partition, {}).update(dict.fromkeys(offsets, kind))

    @property
    def is_open(self) -> bool:
        """Whether the node has a session."""
        return self.epoch != INITIAL_EPOCH

    def take_pending(self) -> dict[PartitionId, dict[int, int]]:
        """Return the acknowledgements to send, and keep none of them."""
        pending, self.pending = self.pending, {}
        return pending

    def begin_request(
        self, assigned: Iterable[PartitionId], pending: Mapping[PartitionId, dict[int, int]]
    ) -> ShareSessionRequest:
        """Return what to send for these partitions. The first request of a session carries no acknowledgements."""
        partitions = set(assigned)
        if not self.is_open:
            return ShareSessionRequest(INITIAL_EPOCH, sorted(partitions), [], {})
        batches = {partition: list(to_batches(kinds)) for partition, kinds in pending.items() if kinds}
        added, forgotten = sorted(partitions - self.partitions), sorted(self.partitions - partitions)
        return ShareSessionRequest(self.epoch, added, forgotten, batches)

    def accept_response(self, assigned: Iterable[PartitionId]) -> None:
        """Take that the node has carried the request out."""
        self.partitions = set(assigned)
        self.advance()

    def advance(self) -> None:
        """Number the next request."""
        self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1

    def reset(self) -> None:
        """Begin again: the node has no session, or what became of a request is unknown."""
        self.epoch = INITIAL_EPOCH
        self.partitions.clear()


def to_batches(kinds: Mapping[int, int]) -> Iterator[AcknowledgementBatch]:
    """Yield acknowledgements as batches of consecutive offsets; a batch of one type names it once.

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
