"""A consumer's membership in a group, of the classic protocol or of the consumer protocol.

``update`` is called by the thread that polls; it joins when that is due, and tells the consumer what it gets and
loses through ``GroupConsumer``.

* Classic: join, sync, heartbeat, leave (KIP-62, KIP-345, KIP-394, KIP-429). Heartbeats go out from a task of their own
  while the consumer keeps polling.
* Consumer (KIP-848): the coordinator shares partitions out. One request does it all: ConsumerGroupHeartbeat says what
  is subscribed to and what is held, its answer what should be.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Collection, Iterable
from typing import Any, Final, Protocol
from uuid import UUID

from kafkaframes.client.assignors import ASSIGNORS, COOPERATIVE, Member
from kafkaframes.client.cluster import Channel, ClusterClient, is_retriable
from kafkaframes.client.group_offsets import GroupMember
from kafkaframes.client.loop import background, cancelled
from kafkaframes.client.metadata import TopicPartition, by_topic
from kafkaframes.client.settings import ConsumerSettings, choices
from kafkaframes.errors import BrokerError, ErrorCode, KafkaframesError
from kafkaframes.protocol.messages.envelopes import decode_versioned, encode_versioned
from kafkaframes.protocol.messages.objects import Message

_PROTOCOL_TYPE: Final = "consumer"
_SUBSCRIPTION_VERSION: Final = 3
_ASSIGNMENT_VERSION: Final = 1
_LEAVES_BY_LIST: Final = 3
# A member of a classic group joins again, which mends it.
JOIN_AGAIN: Final = frozenset(
    {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS}
)
_JOIN, _LEAVE, _LEAVE_FOR_A_WHILE = 0, -1, -2  # member epochs with a meaning of their own
_FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class GroupConsumer(Protocol):
    """The consumer that a membership is of."""

    async def _on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Begin with these as well."""

    async def _on_revoked(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        """End with these: commit them first, unless they are lost to others already."""

    def assignment(self) -> list[TopicPartition]:
        """List what is read."""


class _Membership:
    """What both protocols have: a coordinator to ask, and a consumer that gets and loses partitions."""

    def __init__(self, cluster: ClusterClient, settings: ConsumerSettings, consumer: GroupConsumer) -> None:
        assert settings.group_id is not None
        self._cluster = cluster
        self._settings = settings
        self._group_id = settings.group_id
        self._consumer = consumer

    async def _ask(self, body: Message, *, timeout_ms: int | None = None, channel: Channel = Channel.REQUESTS) -> Any:
        return await self._cluster.ask_coordinator(self._group_id, body, timeout_ms=timeout_ms, channel=channel)

    def _check(self, number: int, what: str, said: str | None = None) -> None:
        self._cluster.check_coordinator(number, what, self._group_id, said=said)

    async def _hand_over(self, assigned: list[TopicPartition]) -> tuple[set[TopicPartition], list[TopicPartition]]:
        """Have the consumer end with what it has no more, then begin with what is new; return both."""
        held = set(self._consumer.assignment())
        gone = held - set(assigned)
        if gone:
            await self._consumer._on_revoked(gone, lost=False)
        new = [entry for entry in assigned if entry not in held]
        await self._consumer._on_assigned(new)
        return gone, new


class ClassicMembership(_Membership):
    """One consumer's place in a classic group, whose members share partitions out."""

    def __init__(
        self, cluster: ClusterClient, settings: ConsumerSettings, topics: Collection[str], consumer: GroupConsumer
    ):
        for name in settings.strategies:
            choices("partition_assignment_strategy", name, tuple(ASSIGNORS))
        super().__init__(cluster, settings, consumer)
        self._topics = frozenset(topics)
        self._member_id = ""
        self._generation = -1
        self._must_join = True
        self._fatal: Exception | None = None
        self._heartbeats: asyncio.Task[None] | None = None
        self._polled_at = time.monotonic()
        self._counts: dict[str, int] = {}

    @property
    def member(self) -> GroupMember:
        """How requests name this member."""
        return GroupMember(self._group_id, self._generation, self._member_id, self._settings.group_instance_id)

    def refused(self, error: BrokerError) -> None:
        """Join at the next ``update`` if a commit was refused for what joining mends."""
        self._starts_over(error)

    def is_due(self) -> bool:
        """Note that the consumer polls; return whether ``update`` has something to do."""
        self._polled_at = time.monotonic()
        return self._must_join or self._fatal is not None or self._grew()

    async def update(self) -> None:
        """Join or join again where that is due; it takes as long as other members need to let go.

        Raises:
            BrokerError: another with the same instance id took our place (FENCED_INSTANCE_ID), or the group cannot
                be joined.
        """
        if self._fatal is not None:
            raise self._fatal
        while self._must_join or self._grew():
            await self._join()

    def _grew(self) -> bool:
        """Return whether a topic got partitions since the group's leader (us, or we would not know) shared them out."""
        known = self._cluster.cluster
        return any(len(known.partitions_of(topic)) not in (0, count) for topic, count in self._counts.items())

    # ------------------------------------------------------------------------------------------------------ joining

    async def _join(self) -> None:
        is_lost = self._generation < 0  # we were put out: others have the partitions, and have gone on
        if self._eager or is_lost:
            await self._consumer._on_revoked(self._consumer.assignment(), lost=is_lost)
        try:
            answer = await self._cluster.retried(self._joined, timeout_ms=self._settings.max_poll_interval_ms)
            self._must_join = False
            assigned = await self._cluster.retried(lambda: self._synced(answer))
        except BrokerError as error:
            if not self._starts_over(error):
                raise
            return
        gone, _ = await self._hand_over(assigned)
        self._must_join = self._must_join or (answer.protocol_name in COOPERATIVE and bool(gone))
        if self._heartbeats is None or self._heartbeats.done():
            self._heartbeats = background(self._beat())

    @property
    def _eager(self) -> bool:
        return not all(name in COOPERATIVE for name in self._settings.strategies)

    async def _joined(self) -> Any:
        """Send JoinGroup until the coordinator lets us in."""
        settings = self._settings
        cls = settings.message("JoinGroupRequest")
        body = cls(
            group_id=self._group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[
                cls.JoinGroupRequestProtocol(name=name, metadata=self._subscription()) for name in settings.strategies
            ],
        )
        wait_ms = settings.max_poll_interval_ms + settings.request_timeout_ms
        answer = await self._ask(body, timeout_ms=wait_ms, channel=Channel.JOIN)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = body.member_id = answer.member_id
            answer = await self._ask(body, timeout_ms=wait_ms, channel=Channel.JOIN)
        self._check(answer.error_code, f"joining group {self._group_id}")
        self._member_id, self._generation = answer.member_id, answer.generation_id
        return answer

    def _subscription(self) -> bytes:
        cls = self._settings.message("ConsumerProtocolSubscription")
        held = by_topic(self._consumer.assignment())
        owned = [cls.TopicPartition(topic=topic, partitions=sorted(all_)) for topic, all_ in sorted(held.items())]
        body = cls(topics=sorted(self._topics), owned_partitions=owned, generation_id=self._generation)
        return encode_versioned(body, _SUBSCRIPTION_VERSION)

    async def _synced(self, answer: Any) -> list[TopicPartition]:
        cls = self._settings.message("SyncGroupRequest")
        encoded: Iterable[tuple[str, bytes]] = ()
        if answer.leader == self._member_id and not answer.skip_assignment:
            encoded = (await self._shared_out(answer)).items()
        response = await self._ask(
            cls(
                **self.member._asdict(),
                protocol_type=_PROTOCOL_TYPE,
                protocol_name=answer.protocol_name,
                assignments=[cls.SyncGroupRequestAssignment(member_id=entry, assignment=it) for entry, it in encoded],
            ),
            channel=Channel.JOIN,
        )
        self._check(response.error_code, f"the assignment of group {self._group_id}")
        if not response.assignment:
            return []
        result, _ = decode_versioned("ConsumerProtocolAssignment", response.assignment)
        return [
            TopicPartition(topic.topic, entry) for topic in result.assigned_partitions for entry in topic.partitions
        ]

    async def _shared_out(self, answer: Any) -> dict[str, bytes]:
        """Share partitions out, as the group's leader."""
        members = {entry.member_id: _member(entry) for entry in answer.members}
        topics = frozenset().union(*(entry.topics for entry in members.values()))
        await self._cluster.refresh(topics)
        self._counts = {topic: len(self._cluster.cluster.partitions_of(topic)) for topic in topics}
        shares = ASSIGNORS[answer.protocol_name](members, self._counts)
        cls = self._settings.message("ConsumerProtocolAssignment")
        encoded = {}
        for name, partitions in shares.items():
            assigned = [
                cls.TopicPartition(topic=topic, partitions=all_) for topic, all_ in by_topic(partitions).items()
            ]
            encoded[name] = encode_versioned(cls(assigned_partitions=assigned, user_data=None), _ASSIGNMENT_VERSION)
        return encoded

    # --------------------------------------------------------------------------------------------------- heartbeats

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._settings.heartbeat_interval_ms / 1000)
            if self._must_join:
                continue
            if (time.monotonic() - self._polled_at) * 1000 > self._settings.max_poll_interval_ms:
                with contextlib.suppress(KafkaframesError):
                    await self._leave()  # nobody polls: let others have the partitions (KIP-62)
                self._must_join = True
                continue
            try:
                await self._heartbeat()
            except Exception as error:
                starts_over = isinstance(error, BrokerError) and self._starts_over(error)
                if not starts_over and not is_retriable(error):
                    self._fatal = error  # for who polls next

    async def _heartbeat(self) -> None:
        response = await self._ask(self._settings.message("HeartbeatRequest")(**self.member._asdict()))
        self._check(response.error_code, f"heartbeat of group {self._group_id}")

    def _starts_over(self, error: BrokerError) -> bool:
        """Return whether joining again mends an error; forget what it says is over."""
        if error.code not in JOIN_AGAIN:
            return False
        if error.code != ErrorCode.REBALANCE_IN_PROGRESS:
            self._generation = -1
        if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        self._must_join = True
        return True

    # ------------------------------------------------------------------------------------------------------ leaving

    async def close(self) -> None:
        """Leave the group; a static member stays until its session ends (KIP-345)."""
        await cancelled(self._heartbeats)
        if self._settings.group_instance_id is None:
            with contextlib.suppress(KafkaframesError):
                await self._leave()

    async def _leave(self) -> None:
        if not self._member_id:
            return
        cls = self._settings.message("LeaveGroupRequest")
        async with self._cluster.coordinated(self._group_id) as connection:
            at = connection.version_of(cls())
            if at >= _LEAVES_BY_LIST:
                body = cls(group_id=self._group_id, members=[cls.MemberIdentity(member_id=self._member_id)])
            else:
                body = cls(group_id=self._group_id, member_id=self._member_id)
            await connection.request(body, version=at)
        self._member_id, self._generation = "", -1


def _member(options: Any) -> Member:
    result, _ = decode_versioned("ConsumerProtocolSubscription", options.metadata)
    owned = tuple(TopicPartition(topic.topic, entry) for topic in result.owned_partitions for entry in topic.partitions)
    return Member(frozenset(result.topics), owned, result.generation_id, options.group_instance_id)


class ConsumerMembership(_Membership):
    """One consumer's place in a group of the consumer protocol."""

    def __init__(
        self, cluster: ClusterClient, settings: ConsumerSettings, topics: Collection[str], consumer: GroupConsumer
    ):
        super().__init__(cluster, settings, consumer)
        self._topics = sorted(topics)
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
        gone, new = await self._hand_over(requested)
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
        answer = await self._ask(body)
        self._check(answer.error_code, f"group {self._group_id}", answer.error_message)
        return answer
