"""What a test asks of the coordinators: groups with their members and offsets, transactions. Values, not state."""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.transactions.state import TransactionState
from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages.envelopes import decode_versioned
from kafkaframes.storage.files.names import TopicPartition


class MemberInfo(NamedTuple):
    """A member of a group, as it was when somebody asked.

    Attributes:
        assignment: what it has now, sorted.
    """

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    assignment: tuple[TopicPartition, ...]


class GroupInfo(NamedTuple):
    """A group.

    Attributes:
        type: ``classic``, ``consumer`` or ``share``; empty where only offsets are known.
        state: in Kafka's spelling: ``Stable``.
        offsets: what it has committed, by partition.
    """

    group_id: str
    type: str
    state: str
    members: tuple[MemberInfo, ...]
    offsets: dict[TopicPartition, int]


class TransactionInfo(NamedTuple):
    """A transactional id.

    Attributes:
        state: in Kafka's spelling: ``Ongoing``, ``CompleteCommit``.
        partitions: what the transaction has written to, sorted.
        started_ms: milliseconds since 1970; None where none runs.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    started_ms: int | None

    @property
    def is_open(self) -> bool:
        """Whether it has begun and is not decided yet."""
        return self.state == TransactionState.ONGOING.shown


def groups(state: BrokerState) -> dict[str, GroupInfo]:
    """Return the groups by name, with those that only have offsets."""
    known, committed = state.groups.groups, state.groups.commits.store
    found = {}
    for name in sorted({*known, *committed.committed}):
        group: Any = known.get(name)
        members = () if group is None else tuple(_member(state, one) for one in group.members.values())
        offsets = {where: commit.offset for where, commit in sorted(committed.of_group(name).items())}
        kind, shown = ("", "Empty") if group is None else (group.type, group.state_name)
        found[name] = GroupInfo(name, kind, shown, members, offsets)
    return found


def _member(state: BrokerState, member: Any) -> MemberInfo:
    instance_id = getattr(member, "instance_id", None)
    return MemberInfo(member.member_id, member.client_id, member.client_host, instance_id, _assignment(state, member))


def _assignment(state: BrokerState, member: Any) -> tuple[TopicPartition, ...]:
    if hasattr(member, "assigned"):
        topics = state.topics_by_id
        return tuple(sorted(TopicPartition(topics[at].name, index) for at, index in member.assigned if at in topics))
    try:
        assigned, _ = decode_versioned("ConsumerProtocolAssignment", member.assignment)
    except DecodeError:  # of another protocol: Kafka Connect's, or nothing yet
        return ()
    rows = assigned.assigned_partitions
    return tuple(sorted(TopicPartition(row.topic, index) for row in rows for index in row.partitions))


def transactions(state: BrokerState) -> dict[str, TransactionInfo]:
    """Return the transactional ids, with what their transactions have written to."""
    return {
        one.transactional_id: TransactionInfo(
            one.transactional_id,
            one.state.shown,
            one.producer_id,
            one.producer_epoch,
            tuple(sorted(one.partitions)),
            one.start_ms if one.start_ms >= 0 else None,
        )
        for one in state.transactions.transactions.values()
    }
