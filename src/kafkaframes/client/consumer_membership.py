"""A consumer's membership in a group of the consumer protocol (KIP-848): the coordinator shares partitions out.

One request does it all: ConsumerGroupHeartbeat says what is subscribed to and what is held, its answer what should be.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection
from typing import Any, Final
from uuid import UUID

from kafkaframes.client.cluster import GROUP, ClusterClient
from kafkaframes.client.group_offsets import GroupMember
from kafkaframes.client.membership import JOIN_AGAIN, GroupConsumer
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.errors import COORDINATOR_MOVED, BrokerError, ErrorCode, KafkaframesError, NetworkError, broker_error

_JOIN, _LEAVE, _LEAVE_FOR_A_WHILE = 0, -1, -2  # member epochs with a meaning of their own
_FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class ConsumerMembership:
    """One consumer's place in a group."""

    def __init__(
        self, cluster: ClusterClient, settings: ConsumerSettings, topics: Collection[str], consumer: GroupConsumer
    ):
        assert settings.group_id is not None
        self._cluster = cluster
        self._settings = settings
        self._group_id = settings.group_id
        self._topics = sorted(topics)
        self._consumer = consumer
        self._member_id = str(uuid.uuid4())
        self._epoch = _JOIN
        self._due = 0.0
        self._reported: tuple[Any, ...] | None = None  # what the coordinator was told last; it wants changes only

    @property
    def member(self) -> GroupMember:
        """How requests name this member; its epoch stands where classic members have the generation."""
        return GroupMember(self._group_id, self._epoch, self._member_id, self._settings.group_instance_id)

    def refused(self, error: BrokerError) -> None:
        """Tell the coordinator at once where we stand if a commit was refused for what that mends."""
        if error.code in JOIN_AGAIN:
            self._due = 0.0

    def is_due(self) -> bool:
        """Return whether ``update`` has something to do."""
        return time.monotonic() >= self._due

    async def update(self) -> None:
        """Send a heartbeat if one is due, and do as its answer says.

        Raises:
            BrokerError: the coordinator refuses.
        """
        while self.is_due():
            try:
                await self._cluster.retried(self._heartbeat)
            except BrokerError as error:
                if error.code not in _FENCED:
                    raise
                await self._consumer._on_revoked(self._consumer.assignment(), lost=True)
                self._epoch, self._reported, self._due = _JOIN, None, 0.0

    async def _heartbeat(self) -> None:
        cls = self._settings.message("ConsumerGroupHeartbeatRequest")
        body = cls(group_id=self._group_id, member_id=self._member_id, member_epoch=self._epoch)
        held = self._held_by_id()
        if self._reported is None:
            body.instance_id = self._settings.group_instance_id
            body.rebalance_timeout_ms = self._settings.max_poll_interval_ms
            body.subscribed_topic_names = self._topics
            body.server_assignor = self._settings.group_remote_assignor
            body.rack_id = self._settings.client_rack or None
        if self._reported != (held,):
            body.topic_partitions = [
                cls.TopicPartitions(topic_id=topic_id, partitions=list(partitions)) for topic_id, partitions in held
            ]
        answer = await self._requested(body)
        self._reported = (held,)
        self._epoch = answer.member_epoch
        self._member_id = answer.member_id or self._member_id
        self._due = time.monotonic() + answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            await self._take(answer.assignment.topic_partitions)

    def _held_by_id(self) -> tuple[tuple[UUID, tuple[int, ...]], ...]:
        result: dict[UUID, list[int]] = {}
        for entry in self._consumer.assignment():
            result.setdefault(self._cluster.cluster.topic_id(entry.topic), []).append(entry.partition)
        return tuple((topic_id, tuple(sorted(partitions))) for topic_id, partitions in sorted(result.items()))

    async def _take(self, topics: Any) -> None:
        if any(self._cluster.cluster.topic_name(entry.topic_id) is None for entry in topics):
            await self._cluster.refresh(self._topics)
        requested = [
            TopicPartition(name, partition)
            for entry in topics
            if (name := self._cluster.cluster.topic_name(entry.topic_id)) is not None
            for partition in entry.partitions
        ]
        held = set(self._consumer.assignment())
        gone = held - set(requested)
        if gone:
            await self._consumer._on_revoked(gone, lost=False)
        new = [entry for entry in requested if entry not in held]
        await self._consumer._on_assigned(new)
        if gone or new:
            self._due = 0.0  # what we let go others wait for

    async def close(self) -> None:
        """Leave; a static member says that it will be back (KIP-848)."""
        if self._epoch > 0:
            self._epoch = _LEAVE if self._settings.group_instance_id is None else _LEAVE_FOR_A_WHILE
            cls = self._settings.message("ConsumerGroupHeartbeatRequest")
            body = cls(
                group_id=self._group_id,
                member_id=self._member_id,
                member_epoch=self._epoch,
                instance_id=self._settings.group_instance_id,
            )
            try:
                await self._requested(body)
            except KafkaframesError:
                return  # its session will end

    async def _requested(self, body: Any) -> Any:
        broker = await self._cluster.coordinator(self._group_id, GROUP)
        try:
            answer = await self._cluster.request(broker, body)
        except NetworkError:
            self._cluster.forget_coordinator(self._group_id, GROUP)
            raise
        if answer.error_code in COORDINATOR_MOVED:
            self._cluster.forget_coordinator(self._group_id, GROUP)
        if answer.error_code:
            said = f" ({answer.error_message})" if answer.error_message else ""
            raise broker_error(answer.error_code, f"group {self._group_id}{said}")
        return answer
