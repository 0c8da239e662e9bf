"""Members of classic groups: a removed member commits nothing, and every read counts as a poll."""

import asyncio
import time

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, AsyncConsumer, Consumer, Producer, TopicPartition
from kafkaframes.client.cluster import GROUP, ClusterClient
from kafkaframes.client.group_offsets import GroupMember
from kafkaframes.errors import BrokerError

NUMBERS_0 = TopicPartition("numbers", 0)


@pytest.fixture
def broker():
    with Broker() as broker:
        broker.create_topic("numbers")
        with Producer(broker.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("numbers", b"%d" % number)
        yield broker


async def remove_member(cluster: ClusterClient, member: GroupMember) -> None:
    """Remove a member, as an operator or an expired session does."""
    cls = cluster.settings.message_class("LeaveGroupRequest")
    body = cls(group_id=member.group_id, members=[cls.MemberIdentity(member_id=member.member_id)])
    answer = await cluster.request(await cluster.find_coordinator(member.group_id, GROUP), body)
    assert [entry.error_code for entry in answer.members] == [0]


@pytest.mark.parametrize("by", ["heartbeat", "commit"])
@pytest.mark.parametrize("strategies", ["range", "cooperative-sticky", "range,cooperative-sticky"])
def test_a_removed_member_commits_nothing_and_continues_at_the_groups_offsets(strategies, by, broker):
    """As in Kafka's consumer: its partitions were lost, and other members may have committed later offsets."""
    settings = {
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "partition_assignment_strategy": strategies,
        "max_poll_records": 3,
        "heartbeat_interval_ms": 20 if by == "heartbeat" else 3_000,
    }
    revoked_partitions = []
    with Consumer(broker.bootstrap_servers, **settings) as slow, Admin(broker.bootstrap_servers) as admin:
        slow.subscribe("numbers", on_revoke=revoked_partitions.extend)
        broker.wait_for(lambda: [record.offset for record in slow.poll(100)] == [0, 1, 2])
        member = slow.group_metadata()
        admin._loop.call(remove_member(admin._twin._cluster, member))
        with Consumer(broker.bootstrap_servers, **settings) as other:
            other.subscribe("numbers")
            seen_records = []
            broker.wait_for(lambda: seen_records.extend(other.poll(100)) or len(seen_records) == 10)
        assert slow.committed([NUMBERS_0])[NUMBERS_0].offset == 10
        if by == "commit":
            with pytest.raises(BrokerError, match="UNKNOWN_MEMBER_ID"):
                slow.commit()
        broker.wait_for(lambda: slow.group_metadata().generation_id < 0)
        # the group is empty now and would accept the commit
        with pytest.raises(BrokerError, match="UNKNOWN_MEMBER_ID"):
            slow.commit()
        assert slow.committed([NUMBERS_0])[NUMBERS_0].offset == 10
        again = []
        broker.wait_for(lambda: again.extend(slow.poll(50)) or slow.assignment() == [NUMBERS_0])
        again += slow.poll(50)
        assert again == []
        assert slow.position(NUMBERS_0) == 10
        assert revoked_partitions == [NUMBERS_0]
        assert slow.committed([NUMBERS_0])[NUMBERS_0].offset == 10


@pytest.mark.parametrize("reads", ["poll", "for", "async for"])
def test_taking_buffered_records_counts_as_a_poll(reads, broker):
    """Rebalances and commits do not wait until the last record of a fetch is returned."""
    settings = {
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "max_poll_records": 1,
        "max_poll_interval_ms": 1_000,
        "heartbeat_interval_ms": 20,
        "auto_commit_interval_ms": 50,
    }
    seen_records: list[tuple[str, int]] = []

    def look(twin: AsyncConsumer, offset: int) -> None:
        seen_records.append((twin.group_metadata().member_id, offset))

    async def run() -> None:
        async with AsyncConsumer(broker.bootstrap_servers, **settings) as consumer:
            await consumer.subscribe("numbers")
            async for record in consumer:
                look(consumer, record.offset)
                await asyncio.sleep(0.2)
                if record.offset == 9:
                    break

    with Consumer(broker.bootstrap_servers, **settings) as other:
        if reads == "async for":
            asyncio.run(run())
        else:
            with Consumer(broker.bootstrap_servers, **settings) as consumer:
                consumer.subscribe("numbers")
                polled_records = (record for _ in range(10_000) for record in consumer.poll(100))
                for record in consumer if reads == "for" else polled_records:
                    look(consumer._twin, record.offset)
                    time.sleep(0.2)
                    if record.offset == 9:
                        assert other.committed([NUMBERS_0])[NUMBERS_0].offset > 5
                        break
    assert [offset for _, offset in seen_records] == list(range(10))
    assert len({member for member, _ in seen_records}) == 1
