"""Consumer groups under random schedules: members join, leave, are removed and poll while records are written.

Invariants: each record below a committed offset was returned, and committed offsets never decrease. At the end, each
partition has one reader, and each record was read.
"""

import asyncio
import os
import random

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition
from kafkaframes.client.cluster import GROUP
from kafkaframes.errors import BrokerError

PARTITION_COUNT = 3
MAX_MEMBERS = 3
STEP_COUNT = 40
SEED_COUNT = 2 if os.environ.get("KAFKAFRAMES_PROFILE", "quick") == "quick" else 60
GROUP_KINDS = {
    "range": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "both": {},
    "consumer": {"group_protocol": "consumer"},
}


class GroupSchedule:
    """A consumer group whose random steps depend only on the seed, except for how long its members wait."""

    def __init__(self, servers: str, name: str, settings: dict[str, str], seed: str) -> None:
        self.random = random.Random(seed)
        self.servers, self.name = servers, name
        self.settings = settings
        self.members: list[AsyncConsumer] = []
        self.written_counts = dict.fromkeys(range(PARTITION_COUNT), 0)
        self.seen_offsets: dict[int, set[int]] = {partition: set() for partition in self.written_counts}
        self.committed_offsets = dict.fromkeys(self.written_counts, 0)

    async def run(self) -> None:
        async with AsyncAdmin(self.servers) as self.admin, AsyncProducer(self.servers) as self.producer:
            try:
                steps = [self.write, self.add_member, self.close_member, self.poll, self.poll, self.poll, self.commit]
                if "group_protocol" not in self.settings:
                    steps.append(self.remove_member)
                for _ in range(STEP_COUNT):
                    await self.random.choice(steps)()
                    await self.check()
                await self.poll_until_settled()
            finally:
                await asyncio.gather(*(member.close() for member in self.members))

    async def write(self) -> None:
        partition = self.random.randrange(PARTITION_COUNT)
        for _ in range(self.random.randint(1, 5)):
            await (await self.producer.send(self.name, b"x", partition=partition))
            self.written_counts[partition] += 1

    async def add_member(self) -> None:
        if len(self.members) < MAX_MEMBERS:
            often = {"heartbeat_interval_ms": 30, "auto_commit_interval_ms": self.random.choice([1, 60_000])}
            soon = {"session_timeout_ms": 1_000, "max_poll_interval_ms": 5_000, "fetch_max_wait_ms": 10}
            many = {"max_poll_records": self.random.choice([1, 3, 500])}
            start = {"group_id": self.name, "auto_offset_reset": "earliest"}
            consumer = AsyncConsumer(self.servers, **often, **soon, **many, **start, **self.settings)
            self.members.append(consumer)
            await consumer.subscribe(self.name)

    async def close_member(self) -> None:
        if self.members:
            member = self.members.pop(self.random.randrange(len(self.members)))
            await member.close(commit=self.random.random() < 0.5)

    async def remove_member(self) -> None:
        """Remove a member as an operator or an expired session does."""
        joined_members = [member for member in self.members if member.group_metadata().member_id]
        if joined_members:
            member = self.random.choice(joined_members).group_metadata()
            cluster = self.admin._cluster
            cls = cluster.settings.message_class("LeaveGroupRequest")
            body = cls(group_id=self.name, members=[cls.MemberIdentity(member_id=member.member_id)])
            await cluster.request(await cluster.find_coordinator(self.name, GROUP), body)

    async def poll(self) -> None:
        if self.members:
            await self.poll_member(self.random.choice(self.members))

    async def poll_member(self, member: AsyncConsumer) -> None:
        for record in await member.poll(self.random.choice([0, 20])):
            self.seen_offsets[record.partition].add(record.offset)

    async def commit(self) -> None:
        if self.members:
            member = self.random.choice(self.members)
            try:
                if member.assignment():
                    await member.commit()
            except BrokerError as error:
                if error.code.name not in (
                    "UNKNOWN_MEMBER_ID",
                    "ILLEGAL_GENERATION",
                    "REBALANCE_IN_PROGRESS",
                    "STALE_MEMBER_EPOCH",
                ):
                    raise

    async def check(self) -> None:
        targets = [TopicPartition(self.name, partition) for partition in self.written_counts]
        for target, entry in (await self.admin.group_offsets(self.name, targets)).items():
            partition = target.partition
            assert entry.offset >= self.committed_offsets[partition], (
                f"{target}: the committed offset decreased from {self.committed_offsets[partition]}"
            )
            assert self.seen_offsets[partition] >= set(range(entry.offset)), (
                f"{target}: committed before the record was returned"
            )
            self.committed_offsets[partition] = entry.offset

    async def poll_until_settled(self) -> None:
        """Poll the members in turn until each record was read and each partition has one reader."""
        await self.write()
        if not self.members:
            await self.add_member()
        async with asyncio.timeout(60):
            while not self.is_settled():
                for member in self.members:
                    await self.poll_member(member)
                await self.check()

    def is_settled(self) -> bool:
        assigned_partitions = sorted(entry.partition for member in self.members for entry in member.assignment())
        whole = all(
            self.seen_offsets[partition] == set(range(count)) for partition, count in self.written_counts.items()
        )
        return whole and assigned_partitions == sorted(self.written_counts)


@pytest.fixture(scope="module")
def servers():
    config = {
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 100,
        "group.consumer.heartbeat.interval.ms": 30,
        "group.consumer.min.heartbeat.interval.ms": 10,
    }
    with Broker(config=config) as broker:
        for kind in GROUP_KINDS:
            for seed in range(SEED_COUNT):
                broker.create_topic(f"{kind}-{seed}", partitions=PARTITION_COUNT)
        yield broker.bootstrap_servers


@pytest.mark.parametrize("seed", range(SEED_COUNT))
@pytest.mark.parametrize("kind", GROUP_KINDS)
def test_nothing_is_lost_and_no_offset_goes_back(kind, seed, servers):
    asyncio.run(GroupSchedule(servers, f"{kind}-{seed}", GROUP_KINDS[kind], f"{kind} {seed}").run())
