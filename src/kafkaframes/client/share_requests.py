"""The requests and responses of a share consumer's state machine, independent of protocol versions (KIP-932).

``share_task`` sends the requests to brokers as the messages of ``share_messages``. The schedules of
``tests/soak/share_schedules.py`` send the same messages to a simulated cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kafkaframes.client.group_requests import FetchMetadata, TopicPartitionsById
from kafkaframes.client.metadata import Node
from kafkaframes.client.share_session import PartitionId
from kafkaframes.errors import BrokerError

JOIN_EPOCH, LEAVE_EPOCH = 0, -1  # special member epochs
Acknowledgements = Mapping[PartitionId, Mapping[int, int]]  # acknowledgement types by partition and offset
_NO_DELIVERY_COUNTS: Final[Mapping[int, int]] = MappingProxyType({})


class ShareHeartbeat(NamedTuple):
    """A ShareGroupHeartbeat request.

    Attributes:
        epoch: member epoch, ``JOIN_EPOCH`` or ``LEAVE_EPOCH``.
        topics: names of the subscribed topics; None if unchanged.
    """

    epoch: int
    topics: tuple[str, ...] | None = None


class ShareHeartbeatResponse(NamedTuple):
    """A ShareGroupHeartbeat response.

    Attributes:
        interval_s: heartbeat interval, in seconds.
        assignment: assigned partitions by topic id; None if unchanged.
    """

    epoch: int
    interval_s: float
    assignment: TopicPartitionsById | None = None


class ShareFetch(NamedTuple):
    """A ShareFetch request to one node.

    Attributes:
        epoch: session epoch; 0 starts a session.
        added_partitions: partitions to add to the session.
        removed_partitions: partitions to remove from the session.
        acknowledgements: acknowledgements to send with the request.
    """

    node: Node
    epoch: int
    added_partitions: Sequence[PartitionId]
    removed_partitions: Sequence[PartitionId]
    acknowledgements: Acknowledgements


class AcquiredRecords(NamedTuple):
    """Acquired records of one Arrow batch.

    Attributes:
        offsets: offsets of the records, in order.
        batch: the records, with the default columns.
    """

    offsets: Sequence[int]
    batch: Any


class ShareFetchRow(NamedTuple):
    """A partition of a ShareFetch response.

    Attributes:
        error: error with which the leader rejected the fetch; None if it accepted the fetch.
        acknowledge_error: error for the acknowledgements; none of the acknowledgements took effect.
        deliveries: delivery counts of the acquired offsets, including offsets without a record.
        batches: the acquired records.
        damage: error that prevented the client from decoding the other acquired records.
    """

    error: BrokerError | None = None
    acknowledge_error: BrokerError | None = None
    deliveries: Mapping[int, int] = _NO_DELIVERY_COUNTS
    batches: Sequence[AcquiredRecords] = ()
    damage: Exception | None = None


class ShareFetchResponse(NamedTuple):
    """A ShareFetch response.

    Attributes:
        lock_s: lock duration of a record, in seconds; 0 if the response does not specify it.
    """

    rows: Mapping[PartitionId, ShareFetchRow]
    lock_s: float = 0.0


class ShareAcknowledge(NamedTuple):
    """A ShareAcknowledge request to one node.

    Attributes:
        epoch: session epoch; -1 ends the session.
        is_renewal: whether the acknowledgements are renewals (KIP-1222).
    """

    node: Node
    epoch: int
    acknowledgements: Acknowledgements
    is_renewal: bool = False


class ShareAcknowledgeResponse(NamedTuple):
    """A ShareAcknowledge response.

    Attributes:
        rows: the error for each partition in the response; None if the partition's acknowledgements took effect.
    """

    rows: Mapping[PartitionId, BrokerError | None]


NodeRequest = ShareFetch | ShareAcknowledge
ShareRequest = ShareHeartbeat | ShareFetch | ShareAcknowledge | FetchMetadata
