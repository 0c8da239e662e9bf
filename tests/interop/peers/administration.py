"""Performances of admin clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.interop.peers.behaviours import next_to_peers
from tests.interop.peers.interface import Client, attempt, fails, wait_for

if TYPE_CHECKING:
    from tests.interop.peers.stage import Stage


@next_to_peers(sees=[4, "60000"])
def a_topic_is_created_with_partitions_and_settings(stage: Stage, client: Client) -> Any:
    topic = stage.name()
    with client.admin() as admin:
        admin.create_topic(topic, 4, configs={"retention.ms": "60000"})
        return admin.partition_count(topic), admin.config(topic, "retention.ms")


@next_to_peers(sees=["TOPIC_ALREADY_EXISTS", 3])
def an_existing_topic_is_not_created_again(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.admin() as admin:
        return attempt(client, lambda: admin.create_topic(topic)), admin.partition_count(topic)


@next_to_peers(sees=["TOPIC_ALREADY_EXISTS", True])
def the_other_topics_of_a_request_are_created_although_one_exists(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.admin() as admin:
        kind = attempt(client, lambda: admin.create_topics([f"{topic}-1", topic, f"{topic}-2"]))
    return kind, {f"{topic}-1", f"{topic}-2"} <= set(stage.topics())


@next_to_peers(sees=["no error", False])
def validate_only_creates_nothing(stage: Stage, client: Client) -> Any:
    topic = stage.name()
    with client.admin() as admin:
        kind = attempt(client, lambda: admin.create_topic(topic, validate_only=True))
    return kind, topic in stage.topics()


@next_to_peers(sees=["INVALID_TOPIC", "INVALID_TOPIC"])
def an_invalid_name_of_a_new_topic_is_rejected(stage: Stage, client: Client) -> Any:
    with client.admin() as admin:
        return [attempt(client, lambda name=name: admin.create_topic(name)) for name in ("a b", "x" * 250)]


@next_to_peers(sees=["INVALID_PARTITIONS", "INVALID_REPLICATION_FACTOR", "INVALID_CONFIG", "INVALID_CONFIG"])
def a_topic_with_invalid_counts_is_rejected(stage: Stage, client: Client) -> Any:
    topic = stage.name()
    with client.admin() as admin:
        calls = (
            lambda: admin.create_topic(topic, 0),
            lambda: admin.create_topic(topic, replicas=7),
            lambda: admin.create_topic(topic, configs={"retention.ms": "long"}),
            lambda: admin.create_topic(topic, configs={"colour": "red"}),
        )
        return [attempt(client, call) for call in calls]


@next_to_peers(sees=["no error", True])
def a_topic_name_may_have_249_characters(stage: Stage, client: Client) -> Any:
    name = (stage.name() + "x" * 249)[:249]
    with client.admin() as admin:
        return attempt(client, lambda: admin.create_topic(name)), name in admin.list_topics()


@next_to_peers(sees=["no error", False])
def a_deleted_topic_is_gone(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.admin() as admin:
        return attempt(client, lambda: admin.delete_topics([topic])), topic in admin.list_topics()


@next_to_peers(sees=["UNKNOWN_TOPIC_OR_PARTITION", False])
def the_other_topics_are_deleted_although_one_is_missing(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.admin() as admin:
        kind = attempt(client, lambda: admin.delete_topics(["absent", topic]))
    return kind, topic in stage.topics()


@next_to_peers(sees=[0, 10])
def a_topic_that_is_created_again_has_a_new_id_and_is_empty(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.admin() as admin, client.consumer() as consumer:
        first = consumer.end_offset((topic, 0))
        admin.delete_topics([topic])
        admin.create_topic(topic)
        return consumer.end_offset((topic, 0)), first


@next_to_peers(sees=["no error", 5])
def partitions_can_be_added_to_a_topic(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.admin() as admin:
        kind = attempt(client, lambda: admin.create_partitions(topic, 5))
        return kind, admin.partition_count(topic)


@next_to_peers(sees=[["INVALID_PARTITIONS"] * 3, 3], confluent="the client refuses 0")
def partitions_cannot_be_removed_from_a_topic(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.admin() as admin:
        kinds = [attempt(client, lambda count=count: admin.create_partitions(topic, count)) for count in (2, 3, 0)]
        return kinds, admin.partition_count(topic)


@next_to_peers(sees=1)
def the_cluster_is_described(stage: Stage, client: Client) -> Any:
    with client.admin() as admin:
        return admin.broker_count()


@next_to_peers(sees=["6000", "2000000"], aio="the others are reset to their defaults")
def one_setting_is_changed_and_the_others_stay(stage: Stage, client: Client) -> Any:
    topic = stage.topic(retention_ms=5_000, segment_bytes=2_000_000)
    with client.admin() as admin:
        admin.alter_config(topic, "retention.ms", "6000")
        return admin.config(topic, "retention.ms"), admin.config(topic, "segment.bytes")


@next_to_peers(sees=[True, True, "5000"])
def a_wrong_setting_changes_nothing(stage: Stage, client: Client) -> Any:
    topic = stage.topic(retention_ms=5_000)
    with client.admin() as admin:
        refusals = [
            fails(client, lambda name=name, value=value: admin.alter_config(topic, name, value))
            for name, value in (("colour", "red"), ("retention.ms", "long"))
        ]
        return *refusals, admin.config(topic, "retention.ms")


@next_to_peers(sees=[4, 4])
def records_before_an_offset_are_deleted(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.admin() as admin, client.consumer() as consumer:
        return admin.delete_records((topic, 0), 4), consumer.beginning_offset((topic, 0))


@next_to_peers(sees=[10, 10])
def all_records_of_a_partition_are_deleted(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.admin() as admin, client.consumer() as consumer:
        return admin.delete_records((topic, 0), -1), consumer.beginning_offset((topic, 0))


@next_to_peers(sees=["OFFSET_OUT_OF_RANGE", 0])
def records_beyond_the_end_cannot_be_deleted(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.admin() as admin, client.consumer() as consumer:
        return attempt(client, lambda: admin.delete_records((topic, 0), 11)), consumer.beginning_offset((topic, 0))


@next_to_peers(sees=[True, ["Stable", 1]])
def a_group_is_listed_and_described_with_its_members(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=1)
    with client.admin() as admin, client.consumer(group_id=topic, auto_offset_reset="earliest") as member:
        member.subscribe([topic])
        wait_for(lambda: member.poll(0.1) or len(member.assignment()) == 3)
        return topic in admin.groups(), admin.group_state(topic)


@next_to_peers(sees=[[3, 5], 4], aio="no such method")
def offsets_of_a_group_are_changed_and_listed(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.admin() as admin:
        admin.alter_group_offset(topic, (topic, 0), 3)
        admin.alter_group_offset(topic, (topic, 2), 5)
        offsets = admin.group_offsets(topic)
        admin.alter_group_offset(topic, (topic, 0), 4)
        return [offsets[topic, 0], offsets[topic, 2]], admin.group_offsets(topic)[topic, 0]


@next_to_peers(sees=["no error", False], aio="no such method")
def an_empty_group_is_deleted(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.admin() as admin:
        admin.alter_group_offset(topic, (topic, 0), 3)
        return attempt(client, lambda: admin.delete_group(topic)), topic in admin.groups()


@next_to_peers(sees="GROUP_ID_NOT_FOUND", aio="no such method")
def a_missing_group_cannot_be_deleted(stage: Stage, client: Client) -> Any:
    with client.admin() as admin:
        return attempt(client, lambda: admin.delete_group("absent"))


@next_to_peers(sees=["NON_EMPTY_GROUP", "UNKNOWN_MEMBER_ID"], aio="no such method")
def the_offsets_of_a_group_with_members_cannot_be_changed(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=1)
    with client.admin() as admin, client.consumer(group_id=topic, auto_offset_reset="earliest") as member:
        member.subscribe([topic])
        wait_for(lambda: member.poll(0.1) or len(member.assignment()) == 3)
        calls = (lambda: admin.delete_group(topic), lambda: admin.alter_group_offset(topic, (topic, 0), 3))
        return [attempt(client, call) for call in calls]
