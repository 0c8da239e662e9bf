"""Send the requests of ``group_requests`` to a group coordinator, and convert the responses to plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kafkaframes.client.assignors import MemberSubscription
from kafkaframes.client.cluster import Channel, ClusterClient
from kafkaframes.client.group_requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    GroupRequest,
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    SyncGroup,
)
from kafkaframes.client.metadata import TopicPartition, group_by_topic
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages.envelopes import decode_versioned, encode_versioned
from kafkaframes.protocol.messages.objects import Message

_PROTOCOL_TYPE: Final = "consumer"
_SUBSCRIPTION_VERSION: Final = 3  # version of ConsumerProtocolSubscription in JoinGroup requests
_ASSIGNMENT_VERSION: Final = 1  # version of ConsumerProtocolAssignment in SyncGroup requests
_MEMBER_LIST_VERSION: Final = 3  # first version of LeaveGroup with a list of members


class GroupMessages:
    """Sends a consumer's requests to its group coordinator, in versions that the coordinator supports."""

    def __init__(self, cluster: ClusterClient, settings: ConsumerSettings, group_id: str) -> None:
        self._cluster = cluster
        self._settings = settings
        self._group_id = group_id

    async def send_request(self, request: GroupRequest) -> object:
        """Send a request once, and return the response.

        Raises:
            BrokerError: the coordinator rejects the request.
            NetworkError: the coordinator does not respond.
        """
        if isinstance(request, JoinGroup):
            return await self._send_join(request)
        if isinstance(request, SyncGroup):
            return await self._send_sync(request)
        if isinstance(request, Heartbeat):
            await self._send_heartbeat(request)
            return None
        if isinstance(request, LeaveGroup):
            await self._send_leave(request)
            return None
        return await self._send_consumer_heartbeat(request)

    async def _send_to_coordinator(
        self, body: Message, *, timeout_ms: int | None = None, channel: Channel = Channel.REQUESTS
    ) -> Any:
        return await self._cluster.send_to_coordinator(self._group_id, body, timeout_ms=timeout_ms, channel=channel)

    def _check(self, code: int, action: str, message: str | None = None) -> None:
        self._cluster.check_coordinator(code, action, self._group_id, message=message)

    async def _send_join(self, request: JoinGroup) -> JoinGroupResponse:
        settings = self._settings
        cls = settings.message_class("JoinGroupRequest")
        subscription = self._encode_subscription(request)
        body = cls(
            group_id=self._group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=request.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[cls.JoinGroupRequestProtocol(name=name, metadata=subscription) for name in settings.strategies],
        )
        wait_ms = settings.max_poll_interval_ms + settings.request_timeout_ms
        answer = await self._send_to_coordinator(body, timeout_ms=wait_ms, channel=Channel.JOIN)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return JoinGroupResponse(answer.member_id, -1)
        self._check(answer.error_code, f"joining group {self._group_id}")
        is_leader = answer.leader == answer.member_id
        members = {entry.member_id: _read_member(entry) for entry in answer.members} if is_leader else None
        generation, protocol = answer.generation_id, answer.protocol_name
        return JoinGroupResponse(answer.member_id, generation, protocol, members, answer.skip_assignment)

    def _encode_subscription(self, request: JoinGroup) -> bytes:
        cls = self._settings.message_class("ConsumerProtocolSubscription")
        owned_rows = [
            cls.TopicPartition(topic=topic, partitions=sorted(partitions))
            for topic, partitions in sorted(group_by_topic(request.owned_partitions).items())
        ]
        body = cls(topics=list(request.topics), owned_partitions=owned_rows, generation_id=request.generation)
        return encode_versioned(body, _SUBSCRIPTION_VERSION)

    async def _send_sync(self, request: SyncGroup) -> list[TopicPartition]:
        cls = self._settings.message_class("SyncGroupRequest")
        rows = [
            cls.SyncGroupRequestAssignment(member_id=member_id, assignment=self._encode_assignment(partitions))
            for member_id, partitions in (request.assignment or {}).items()
        ]
        body = cls(
            group_id=self._group_id,
            generation_id=request.generation,
            member_id=request.member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=request.protocol,
            assignments=rows,
        )
        answer = await self._send_to_coordinator(body, timeout_ms=self._sync_timeout_ms, channel=Channel.JOIN)
        self._check(answer.error_code, f"the assignment of group {self._group_id}")
        return decode_assignment(answer.assignment)

    @property
    def _sync_timeout_ms(self) -> int:
        return self._settings.max_poll_interval_ms + self._settings.request_timeout_ms

    def _encode_assignment(self, partitions: Sequence[TopicPartition]) -> bytes:
        cls = self._settings.message_class("ConsumerProtocolAssignment")
        rows = [
            cls.TopicPartition(topic=topic, partitions=numbers) for topic, numbers in group_by_topic(partitions).items()
        ]
        return encode_versioned(cls(assigned_partitions=rows, user_data=None), _ASSIGNMENT_VERSION)

    async def _send_heartbeat(self, request: Heartbeat) -> None:
        body = self._settings.message_class("HeartbeatRequest")(
            group_id=self._group_id,
            generation_id=request.generation,
            member_id=request.member_id,
            group_instance_id=self._settings.group_instance_id,
        )
        answer = await self._send_to_coordinator(body)
        self._check(answer.error_code, f"heartbeat of group {self._group_id}")

    async def _send_leave(self, request: LeaveGroup) -> None:
        cls = self._settings.message_class("LeaveGroupRequest")
        async with self._cluster.connect_to_coordinator(self._group_id) as connection:
            version = connection.select_version(cls())
            if version >= _MEMBER_LIST_VERSION:
                body = cls(group_id=self._group_id, members=[cls.MemberIdentity(member_id=request.member_id)])
            else:
                body = cls(group_id=self._group_id, member_id=request.member_id)
            await connection.request(body, version=version)

    async def _send_consumer_heartbeat(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatResponse:
        settings = self._settings
        cls = settings.message_class("ConsumerGroupHeartbeatRequest")
        body = cls(group_id=self._group_id, member_id=request.member_id, member_epoch=request.epoch)
        if request.is_full or request.epoch < 0:
            body.instance_id = settings.group_instance_id
        if request.is_full:
            body.rebalance_timeout_ms = settings.max_poll_interval_ms
            body.server_assignor = settings.group_remote_assignor
            body.rack_id = settings.client_rack or None
        if request.topics is not None:
            body.subscribed_topic_names = list(request.topics)
        if request.owned_partitions is not None:
            body.topic_partitions = [
                cls.TopicPartitions(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in request.owned_partitions
            ]
        answer = await self._send_to_coordinator(body)
        self._check(answer.error_code, f"group {self._group_id}", answer.error_message)
        rows = None if answer.assignment is None else answer.assignment.topic_partitions
        assignment = None if rows is None else tuple((row.topic_id, tuple(row.partitions)) for row in rows)
        interval_s = answer.heartbeat_interval_ms / 1000
        return ConsumerHeartbeatResponse(answer.member_id or "", answer.member_epoch, interval_s, assignment)


def decode_assignment(assignment: bytes) -> list[TopicPartition]:
    """Return the partitions of a ConsumerProtocolAssignment. Empty bytes mean an empty assignment."""
    if not assignment:
        return []
    body, _ = decode_versioned("ConsumerProtocolAssignment", assignment)
    return list(_iterate_partitions(body.assigned_partitions))


def _iterate_partitions(topics: Iterable[Any]) -> Iterable[TopicPartition]:
    return (TopicPartition(topic.topic, partition) for topic in topics for partition in topic.partitions)


def _read_member(row: Any) -> MemberSubscription:
    """Return a member's subscription from a row of a JoinGroup response."""
    body, _ = decode_versioned("ConsumerProtocolSubscription", row.metadata)
    owned_partitions = tuple(_iterate_partitions(body.owned_partitions))
    return MemberSubscription(frozenset(body.topics), owned_partitions, body.generation_id, row.group_instance_id)
