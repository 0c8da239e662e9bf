"""Performances of members of a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.interop.peers.behaviours import next_to_peers
from tests.interop.peers.interface import Client, Consumer, Record, attempt, wait_for

if TYPE_CHECKING:
    from tests.interop.peers.stage import Stage

MEMBER_SETTINGS = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100, "metadata_max_age_ms": 300}
PATIENCE_S = 40  # with an idle member, some peers notice a rebalance only after seconds


def fill(stage: Stage) -> str:
    """Create a topic with four records in each of three partitions."""
    topic = stage.topic()
    for partition in range(3):
        stage.append(topic, [{"value": b"%d" % number} for number in range(4)], partition=partition)
    return topic


def poll_until(condition: Callable[[], Any], *members: Consumer) -> list[Record]:
    """Poll members in turn until a condition holds; return the records."""
    records: list[Record] = []

    def poll() -> Any:
        for member in members:
            records.extend(member.poll(0.1))
        return condition()

    wait_for(poll, patience_s=PATIENCE_S)
    return records


def numbers_of(member: Consumer) -> list[int]:
    return [number for _, number in member.assignment()]


def poll_until_shared(first_member: Consumer, second_member: Consumer) -> tuple[list[int], list[int]]:
    """Poll two members until both own partitions and do not share one; return their numbers and all partitions."""
    shares = [numbers_of(first_member), numbers_of(second_member)]

    def are_shared() -> bool:
        shares[:] = numbers_of(first_member), numbers_of(second_member)
        return all(shares) and sorted(shares[0] + shares[1]) == [0, 1, 2]

    poll_until(are_shared, first_member, second_member)
    return sorted(map(len, shares)), sorted(shares[0] + shares[1])


@next_to_peers(sees=[[0, 1, 2], [[partition, offset] for partition in range(3) for offset in range(4)]])
def a_single_member_reads_every_partition(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    with client.consumer(group_id=topic, **MEMBER_SETTINGS) as member:
        member.subscribe([topic])
        records = member.read(12)
        return numbers_of(member), sorted((record.partition, record.offset) for record in records)


@next_to_peers(sees=[[1, 2], [0, 1, 2]])
def two_members_share_the_partitions(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    with (
        client.consumer(group_id=topic, **MEMBER_SETTINGS) as one,
        client.consumer(group_id=topic, **MEMBER_SETTINGS) as two,
    ):
        one.subscribe([topic])
        two.subscribe([topic])
        return poll_until_shared(one, two)


@next_to_peers(sees=[0, 1, 2])
def the_partitions_of_a_member_that_leaves_go_to_the_others(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    with client.consumer(group_id=topic, **MEMBER_SETTINGS) as one:
        one.subscribe([topic])
        with client.consumer(group_id=topic, **MEMBER_SETTINGS) as two:
            two.subscribe([topic])
            poll_until_shared(one, two)
        poll_until(lambda: len(one.assignment()) == 3, one)
        return numbers_of(one)


@next_to_peers(sees=["new", "new", "new"])
def close_commits_and_the_next_member_continues(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    with client.consumer(group_id=topic, **MEMBER_SETTINGS) as member:
        member.subscribe([topic])
        member.read(12)
    for partition in range(3):
        stage.append(topic, [{"value": b"new"}], partition=partition)
    with client.consumer(group_id=topic, **MEMBER_SETTINGS) as member:
        member.subscribe([topic])
        return [record.value for record in member.read(3)]


@next_to_peers(sees=[12, 12])
def without_auto_commit_close_commits_nothing(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    counts = []
    for _ in range(2):
        with client.consumer(group_id=topic, enable_auto_commit=False, **MEMBER_SETTINGS) as member:
            member.subscribe([topic])
            counts.append(len(member.read(12)))
    return counts


@next_to_peers(sees=[4, 4, 4])
def commit_without_offsets_commits_the_positions(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    with client.consumer(group_id=topic, enable_auto_commit=False, **MEMBER_SETTINGS) as member:
        member.subscribe([topic])
        member.read(12)
        member.commit()
        return [(member.committed_offset((topic, number)) or (None,))[0] for number in range(3)]


@next_to_peers(sees=[2, None, None])
def committing_one_partition_does_not_change_others(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    with client.consumer(group_id=topic, enable_auto_commit=False, **MEMBER_SETTINGS) as member:
        member.subscribe([topic])
        member.read(12)
        member.commit({(topic, 0): 2})
        return [(member.committed_offset((topic, number)) or (None,))[0] for number in range(3)]


@next_to_peers(sees=[4, 4, 4])
def offsets_are_committed_while_a_member_polls(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    partitions = [(topic, number) for number in range(3)]
    with client.consumer(group_id=topic, auto_commit_interval_ms=50, **MEMBER_SETTINGS) as member:
        member.subscribe([topic])
        member.read(12)
        poll_until(lambda: all(member.committed_offset(partition) for partition in partitions), member)
        return [(member.committed_offset(partition) or (None,))[0] for partition in partitions]


@next_to_peers(sees=["ab"], confluent="a prefix is enough", kafka_python="a prefix is enough", aio="a prefix is enough")
def a_pattern_subscribes_to_whole_names(stage: Stage, client: Client) -> Any:
    prefix = stage.name()
    for name in ("ab", "abc"):
        stage.create_topic(f"{prefix}.{name}")
        stage.append(f"{prefix}.{name}", [{"value": b"v"}])
    with client.consumer(group_id=prefix, **MEMBER_SETTINGS) as member:
        member.subscribe(pattern=prefix.replace(".", "[.]") + "[.]ab")
        records = member.read(1) + member.poll(0.5)
    return sorted({record.topic.rpartition(".")[2] for record in records})


@next_to_peers(sees=["new"])
def a_pattern_matches_topics_that_are_created_later(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.consumer(group_id=topic, **MEMBER_SETTINGS) as member:
        member.subscribe(pattern=f"{topic}.*")
        poll_until(lambda: len(member.assignment()) == 3, member)
        stage.create_topic(f"{topic}-later")
        stage.append(f"{topic}-later", [{"value": b"new"}])
        return [record.value for record in member.read(1, PATIENCE_S)]


@next_to_peers(sees=["no error", ["new"]], confluent="`poll` raises until the topic exists")
def a_subscribed_topic_may_be_created_later(stage: Stage, client: Client) -> Any:
    topic = stage.name()
    with client.consumer(group_id=topic, **MEMBER_SETTINGS) as member:
        member.subscribe([f"{topic}-later"])
        kind = attempt(client, lambda: member.poll(0.5))
        if f"{topic}-later" not in stage.topics():
            stage.create_topic(f"{topic}-later")
        stage.append(f"{topic}-later", [{"value": b"new"}])
        return kind, [record.value for record in member.read(1, PATIENCE_S)]


@next_to_peers(sees=[0, 1, 2, 3], kafka_python="sometimes the new partition is not noticed")
def new_partitions_of_a_topic_are_read(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.consumer(group_id=topic, **MEMBER_SETTINGS) as member, client.admin() as admin:
        member.subscribe([topic])
        poll_until(lambda: len(member.assignment()) == 3, member)
        admin.create_partitions(topic, 4)
        poll_until(lambda: len(member.assignment()) == 4, member)
        return numbers_of(member)


@next_to_peers(sees=[["other"], [0]])
def a_second_subscribe_replaces_the_topics(stage: Stage, client: Client) -> Any:
    topic, other = fill(stage), stage.topic(partitions=1)
    stage.append(other, [{"value": b"other"}])
    with client.consumer(group_id=topic, **MEMBER_SETTINGS) as member:
        member.subscribe([topic])
        member.read(12)
        member.subscribe([other])
        values = [record.value for record in member.read(1, PATIENCE_S)]
        return values, numbers_of(member)


@next_to_peers(sees=[[], 0])
def unsubscribe_releases_every_partition(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    with client.consumer(group_id=topic, **MEMBER_SETTINGS) as member:
        member.subscribe([topic])
        member.read(12)
        member.unsubscribe()

        def has_left() -> bool:
            attempt(client, lambda: member.poll(0.05))
            return stage.member_count(topic) == 0

        wait_for(has_left)
        return member.assignment(), stage.member_count(topic)


@next_to_peers(sees="no error")
def unsubscribe_without_a_subscription_does_nothing(stage: Stage, client: Client) -> Any:
    with client.consumer(group_id=stage.name(), **MEMBER_SETTINGS) as member:
        return attempt(client, member.unsubscribe)


@next_to_peers(sees="refused by the client")
def subscribe_needs_topics_or_a_pattern(stage: Stage, client: Client) -> Any:
    with client.consumer(group_id=stage.name(), **MEMBER_SETTINGS) as member:
        return attempt(client, member.subscribe)


@next_to_peers(
    sees="refused by the client",
    confluent="the constructor requires `group.id`",
    kafka_python="accepted; every partition is read",
    aio="accepted; every partition is read",
)
def subscribe_without_a_group_is_rejected(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.consumer(auto_offset_reset="earliest") as consumer:
        return attempt(client, lambda: consumer.subscribe([topic]))


@next_to_peers(sees="refused by the client", confluent="accepted")
def assign_after_subscribe_is_rejected(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.consumer(group_id=topic, **MEMBER_SETTINGS) as member:
        member.subscribe([topic])
        return attempt(client, lambda: member.assign([(topic, 0)]))


@next_to_peers(sees=[["assign", [0, 1, 2]], ["revoke", [0, 1, 2]]], aio="`stop` does not call `on_revoke`")
def rebalance_callbacks_receive_the_partitions(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    calls: list[Any] = []
    with client.consumer(group_id=topic, **MEMBER_SETTINGS) as member:
        member.subscribe(
            [topic],
            on_assign=lambda partitions: calls.append(("assign", [number for _, number in partitions])),
            on_revoke=lambda partitions: calls.append(("revoke", [number for _, number in partitions])),
        )
        member.read(12)
    return calls


@next_to_peers(sees=[[0, 3], [1, 3], [2, 3]], confluent="KafkaException: `assign` with offsets instead")
def the_assignment_callback_can_seek(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    with client.consumer(group_id=topic, **MEMBER_SETTINGS) as member:
        member.subscribe(
            [topic], on_assign=lambda partitions: [member.seek(partition, 3) for partition in partitions] and None
        )
        records = member.read(3) + member.poll(0.3)
        return sorted((record.partition, record.offset) for record in records)


@next_to_peers(
    sees=[2, 2, 2], kafka_python="KafkaError: only an async listener may commit", aio="`stop` does not call `on_revoke`"
)
def the_revocation_callback_can_commit(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    with client.consumer(group_id=topic, enable_auto_commit=False, **MEMBER_SETTINGS) as member:
        member.subscribe([topic], on_revoke=lambda partitions: member.commit(dict.fromkeys(partitions, 2)))
        member.read(12)
    with client.consumer(group_id=topic, enable_auto_commit=False, **MEMBER_SETTINGS) as member:
        return [(member.committed_offset((topic, number)) or (None,))[0] for number in range(3)]


@next_to_peers(
    sees=["ZeroDivisionError", 12, 2],
    confluent="`on_assign` is not called again",
    kafka_python="raised as KafkaError",
    aio="logged, and nothing is read",
)
def an_exception_in_the_assignment_callback_reaches_the_caller(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    calls: list[Any] = []

    def on_assign(partitions: Any) -> None:
        calls.append(partitions)
        if len(calls) == 1:
            raise ZeroDivisionError

    with client.consumer(group_id=topic, **MEMBER_SETTINGS) as member:
        member.subscribe([topic], on_assign=on_assign)
        kind = attempt(client, lambda: member.read(12, patience_s=5))
        return kind, len(member.read(12, patience_s=5)), len(calls)


@next_to_peers(sees=["UNKNOWN_MEMBER_ID"], confluent="accepted if the group is empty", aio="IllegalStateError")
def commit_by_a_consumer_that_is_not_a_member_is_rejected(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    with client.consumer(group_id=topic, **MEMBER_SETTINGS) as member:
        member.subscribe([topic])
        return [attempt(client, lambda: member.commit({(topic, 0): 1}))]


@next_to_peers(sees=[0, 1, 2])
def a_static_member_returns_with_its_instance_id(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    settings = {"group_id": topic, "group_instance_id": "i", **MEMBER_SETTINGS}
    with client.consumer(**settings) as member:
        member.subscribe([topic])
        member.read(12)
    with client.consumer(**settings) as member:
        member.subscribe([topic])
        poll_until(lambda: len(member.assignment()) == 3, member)
        return numbers_of(member)


@next_to_peers(sees=[12, 12])
def two_groups_read_the_same_records(stage: Stage, client: Client) -> Any:
    topic = fill(stage)
    counts = []
    for group in ("one", "two"):
        with client.consumer(group_id=f"{topic}-{group}", **MEMBER_SETTINGS) as member:
            member.subscribe([topic])
            counts.append(len(member.read(12)))
    return counts
