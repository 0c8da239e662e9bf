"""Admin methods with several items: each item has its own result, and only items with a retriable error are sent again.

Tables list each method with a valid and an invalid item, and the requests whose first response is partly retriable.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest
from tests.client.admin_calls import PARTITION, ROOT, STRANGER, TOPIC, AdminCallFixture, requests_from, start_broker

from kafkaframes import message_class
from kafkaframes.client import (
    EARLIEST,
    AclBinding,
    AclFilter,
    Admin,
    AsyncAdmin,
    FeatureUpdate,
    QuotaEntity,
    Replica,
    ScramCredential,
    TopicPartition,
)
from kafkaframes.errors import (
    AuthorizationError,
    BrokerError,
    ErrorCode,
    NetworkError,
    PartialFailureError,
    QuotaExceededError,
    TopicExistsError,
    UnknownTopicError,
)

ABSENT = TopicPartition("absent", 0)
GOOD_RULE = AclBinding("topic", "items", "User:items", "read")
BAD_RULE = AclBinding("topic", "items", "no-principal", "read")
GOOD_USER, BAD_USER = QuotaEntity(user="items"), QuotaEntity(user="bad")


class MixedCall(NamedTuple):
    """A call with a good and a bad item.

    Attributes:
        call: calls the method.
        good: item for which the call succeeds.
        bad: item that fails.
        code: error code of the bad item.
        is_done: returns whether the good item took effect.
    """

    call: Callable[[Admin], Any]
    good: Any
    bad: Any
    code: str
    is_done: Callable[[Admin], object] = lambda admin: True


MIXED_CALLS: dict[str, MixedCall] = {
    "create_topics": MixedCall(
        lambda admin: admin.create_topics([TOPIC, "items-1"]),
        "items-1",
        TOPIC,
        "TOPIC_ALREADY_EXISTS",
        lambda admin: "items-1" in admin.list_topics(),
    ),
    "delete_topics": MixedCall(
        lambda admin: admin.delete_topics(["absent", "items-2"]),
        "items-2",
        "absent",
        "UNKNOWN_TOPIC_OR_PARTITION",
        lambda admin: "items-2" not in admin.list_topics(),
    ),
    "create_partitions": MixedCall(
        lambda admin: admin.create_partitions({"items-3": 1, "items-4": 3}),
        "items-4",
        "items-3",
        "INVALID_PARTITIONS",
        lambda admin: len(admin.describe_topics(["items-4"])["items-4"].partitions) == 3,
    ),
    "describe_topics": MixedCall(
        lambda admin: admin.describe_topics(["absent", TOPIC]), TOPIC, "absent", "UNKNOWN_TOPIC_OR_PARTITION"
    ),
    "delete_records": MixedCall(
        lambda admin: admin.delete_records({("items-3", 0): 9, PARTITION: 1}),
        PARTITION,
        TopicPartition("items-3", 0),
        "OFFSET_OUT_OF_RANGE",
        lambda admin: admin.list_offsets({PARTITION: EARLIEST}) == {PARTITION: 1},
    ),
    "list_offsets": MixedCall(
        lambda admin: admin.list_offsets({ABSENT: EARLIEST, PARTITION: EARLIEST}),
        PARTITION,
        ABSENT,
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
    "delete_groups": MixedCall(
        lambda admin: admin.delete_groups(["absent", "items"]),
        "items",
        "absent",
        "GROUP_ID_NOT_FOUND",
        lambda admin: "items" not in [group.group_id for group in admin.list_groups()],
    ),
    "alter_group_offsets": MixedCall(
        lambda admin: admin.alter_group_offsets("items", {ABSENT: 1, PARTITION: 4}),
        PARTITION,
        ABSENT,
        "UNKNOWN_TOPIC_OR_PARTITION",
        lambda admin: admin.group_offsets("items")[PARTITION].offset == 4,
    ),
    "create_acls": MixedCall(
        lambda admin: admin.create_acls([BAD_RULE, GOOD_RULE]),
        GOOD_RULE,
        BAD_RULE,
        "INVALID_REQUEST",
        lambda admin: admin.describe_acls(AclFilter(principal="User:items")) == [GOOD_RULE],
    ),
    "alter_user_scram_credentials": MixedCall(
        lambda admin: admin.alter_user_scram_credentials(
            [ScramCredential("bad", "x", iterations=1), ScramCredential("items", "x")]
        ),
        "items",
        "bad",
        "UNACCEPTABLE_CREDENTIAL",
        lambda admin: "items" in admin.describe_user_scram_credentials(),
    ),
    "describe_user_scram_credentials": MixedCall(
        lambda admin: admin.describe_user_scram_credentials(["absent", "known"]),
        "known",
        "absent",
        "RESOURCE_NOT_FOUND",
    ),
    "alter_client_quotas": MixedCall(
        lambda admin: admin.alter_client_quotas({BAD_USER: {"colour": 1.0}, GOOD_USER: {"producer_byte_rate": 1.0}}),
        GOOD_USER,
        BAD_USER,
        "INVALID_REQUEST",
        lambda admin: GOOD_USER in admin.describe_client_quotas(user="items"),
    ),
    "elect_leaders": MixedCall(
        lambda admin: admin.elect_leaders([ABSENT, PARTITION]), PARTITION, ABSENT, "UNKNOWN_TOPIC_OR_PARTITION"
    ),
    "alter_partition_reassignments": MixedCall(
        lambda admin: admin.alter_partition_reassignments({ABSENT: [0], PARTITION: [2, 1]}),
        PARTITION,
        ABSENT,
        "UNKNOWN_TOPIC_OR_PARTITION",
        lambda admin: admin.describe_topics([TOPIC])[TOPIC].partitions[0].replicas == (2, 1),
    ),
    "describe_log_dirs": MixedCall(lambda admin: admin.describe_log_dirs([99, 1]), 1, 99, "BROKER_ID_NOT_REGISTERED"),
    "describe_transactions": MixedCall(
        lambda admin: admin.describe_transactions(["absent", "payments"]),
        "payments",
        "absent",
        "TRANSACTIONAL_ID_NOT_FOUND",
    ),
    "describe_producers": MixedCall(
        lambda admin: admin.describe_producers([ABSENT, PARTITION]), PARTITION, ABSENT, "UNKNOWN_TOPIC_OR_PARTITION"
    ),
    "alter_share_group_offsets": MixedCall(
        lambda admin: admin.alter_share_group_offsets("items-share", {ABSENT: 0, PARTITION: 0}),
        PARTITION,
        ABSENT,
        "UNKNOWN_TOPIC_OR_PARTITION",
        lambda admin: admin.share_group_offsets("items-share")[PARTITION].start_offset == 0,
    ),
    "delete_share_group_offsets": MixedCall(
        lambda admin: admin.delete_share_group_offsets("items-share", ["absent", TOPIC]),
        TOPIC,
        "absent",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
    "remove_group_members": MixedCall(
        lambda admin: admin.remove_group_members("members", ["absent", "first"]),
        "first",
        "absent",
        "UNKNOWN_MEMBER_ID",
        lambda admin: admin.describe_group("members").members == (),
    ),
}
METHODS_WITHOUT_ITEMS: dict[str, str] = {
    "update_features": "all changes succeed or fail together",
    "describe_replica_log_dirs": "the items are those of describe_log_dirs",
    "alter_replica_log_dirs": "the embedded broker has one log directory; a test below injects a fault",
    "delete_group_offsets": "a fault test below",
    "group_offsets": "a fault test below",
    "delete_acls": "a filter fails only by an injected fault, in a test below",
    "fence_producers": "a fault test below",
    "share_group_offsets": "a fault test below",
    "list_partition_reassignments": "partitions filter the result",
    "list_config_resources": "kinds filter the result",
    "list_groups": "states and types filter the result",
    "list_transactions": "states and producer ids filter the result",
    "create_delegation_token": "renewers are part of one token",
    "describe_delegation_token": "owners filter the result",
    "describe_configs": "one resource",
    "alter_configs": "one resource, whose changes succeed or fail together",
    "add_raft_voter": "endpoints are part of one voter",
}


@pytest.fixture(scope="module")
def scene():
    with start_broker() as broker:
        scene = AdminCallFixture(broker.bootstrap_servers, broker)
        for name in ("items-2", "items-3", "items-4"):
            scene.create_topic(name)
        broker.append(TOPIC, [{"value": b"2"}])
        scene.commit("items")
        scene.root.alter_user_scram_credentials([ScramCredential("known", "x")])
        scene.add_static_member()
        yield scene
        scene.close()


@pytest.fixture
def admin(scene):
    options = {"retry_backoff_ms": 1, "client_id": f"items-{uuid4().hex[:6]}"}
    with Admin(scene.broker.bootstrap_servers, **ROOT, **options) as admin:
        yield admin


def test_each_method_with_several_items_is_tested():
    plural = set()
    for name, method in inspect.getmembers(AsyncAdmin, inspect.iscoroutinefunction):
        kinds = [str(entry.annotation) for entry in inspect.signature(method).parameters.values()]
        if not name.startswith("_") and any(
            kind.startswith(("Iterable", "Mapping", "PartitionMapping")) for kind in kinds
        ):
            plural.add(name)
    assert plural <= MIXED_CALLS.keys() | METHODS_WITHOUT_ITEMS.keys()
    assert not MIXED_CALLS.keys() & METHODS_WITHOUT_ITEMS.keys()


@pytest.mark.parametrize("name", MIXED_CALLS)
def test_a_bad_item_fails_alone(name, admin):
    mixed_call = MIXED_CALLS[name]
    with pytest.raises(PartialFailureError) as failure:
        mixed_call.call(admin)
    results = failure.value.results
    assert results.keys() == {mixed_call.good, mixed_call.bad}
    assert not isinstance(results[mixed_call.good], Exception)
    assert results[mixed_call.bad].code is ErrorCode[mixed_call.code]
    assert failure.value.code is ErrorCode[mixed_call.code]
    assert mixed_call.is_done(admin)


def test_an_except_of_the_class_of_all_errors_catches_a_partial_failure(admin):
    with pytest.raises(TopicExistsError) as failure:
        admin.create_topics([TOPIC, f"new-{uuid4().hex[:6]}"])
    assert isinstance(failure.value, PartialFailureError)
    with pytest.raises(PartialFailureError) as failure:
        admin.create_topics([TOPIC, "a b"])
    assert not isinstance(failure.value, TopicExistsError)
    with pytest.raises(UnknownTopicError):
        admin.describe_topics(["absent", UUID(int=7)])


# ---- retriable errors of some items ---------------------------------------------------------------------------------


class PartlyRetriable(NamedTuple):
    """A request with a retriable error for the second item in its first response.

    Attributes:
        api: API of the request.
        call: calls the method with the items ``a`` and ``b``, or partitions 0 and 1 of the topic ``ab``.
        respond: returns the response rows for (item, error code) pairs.
        items_of: returns the items of a request.
        code: retriable error code.
    """

    api: str
    call: Callable[[Admin], Any]
    respond: Callable[[Any, list[tuple[Any, int]]], Any]
    items_of: Callable[[Any], list[Any]]
    code: str


def _partition_rows(
    cls: Any, topic_class: str, row_class: str, pairs: list[tuple[Any, int]], **fields: Any
) -> list[Any]:
    rows = [getattr(cls, row_class)(partition_index=item, error_code=code, **fields) for item, code in pairs]
    return [getattr(cls, topic_class)(name="ab", partitions=rows)]


_AB = {("ab", 0): 0, ("ab", 1): 0}
PARTLY_RETRIABLE_REQUESTS: list[PartlyRetriable] = [
    PartlyRetriable(
        "CreateTopics",
        lambda admin: admin.create_topics(["a", "b"]),
        lambda cls, pairs: cls(topics=[cls.CreatableTopicResult(name=name, error_code=code) for name, code in pairs]),
        lambda body: [topic.name for topic in body.topics],
        "THROTTLING_QUOTA_EXCEEDED",
    ),
    PartlyRetriable(
        "DeleteTopics",
        lambda admin: admin.delete_topics(["a", "b"]),
        lambda cls, pairs: cls(
            responses=[cls.DeletableTopicResult(name=name, error_code=code) for name, code in pairs]
        ),
        lambda body: [topic.name for topic in body.topics],
        "THROTTLING_QUOTA_EXCEEDED",
    ),
    PartlyRetriable(
        "CreatePartitions",
        lambda admin: admin.create_partitions({"a": 2, "b": 2}),
        lambda cls, pairs: cls(
            results=[cls.CreatePartitionsTopicResult(name=name, error_code=code) for name, code in pairs]
        ),
        lambda body: [topic.name for topic in body.topics],
        "NOT_CONTROLLER",
    ),
    PartlyRetriable(
        "DeleteRecords",
        lambda admin: admin.delete_records(_AB),
        lambda cls, pairs: cls(
            topics=_partition_rows(cls, "DeleteRecordsTopicResult", "DeleteRecordsPartitionResult", pairs)
        ),
        lambda body: [row.partition_index for topic in body.topics for row in topic.partitions],
        "NOT_LEADER_OR_FOLLOWER",
    ),
    PartlyRetriable(
        "ListOffsets",
        lambda admin: admin.list_offsets(_AB),
        lambda cls, pairs: cls(
            topics=_partition_rows(cls, "ListOffsetsTopicResponse", "ListOffsetsPartitionResponse", pairs)
        ),
        lambda body: [row.partition_index for topic in body.topics for row in topic.partitions],
        "OFFSET_NOT_AVAILABLE",
    ),
    PartlyRetriable(
        "DescribeProducers",
        lambda admin: admin.describe_producers(_AB),
        lambda cls, pairs: cls(topics=_partition_rows(cls, "TopicResponse", "PartitionResponse", pairs)),
        lambda body: [number for topic in body.topics for number in topic.partition_indexes],
        "NOT_LEADER_OR_FOLLOWER",
    ),
    PartlyRetriable(
        "DeleteGroups",
        lambda admin: admin.delete_groups(["a", "b"]),
        lambda cls, pairs: cls(
            results=[cls.DeletableGroupResult(group_id=name, error_code=code) for name, code in pairs]
        ),
        lambda body: list(body.groups_names),
        "NOT_COORDINATOR",
    ),
    PartlyRetriable(
        "DescribeTransactions",
        lambda admin: admin.describe_transactions(["a", "b"]),
        lambda cls, pairs: cls(
            transaction_states=[cls.TransactionState(transactional_id=name, error_code=code) for name, code in pairs]
        ),
        lambda body: list(body.transactional_ids),
        "COORDINATOR_LOAD_IN_PROGRESS",
    ),
]


@pytest.fixture(scope="module")
def node():
    """A cluster of one node, which serves all items."""
    with start_broker(1) as broker, Admin(broker.bootstrap_servers, **ROOT) as admin:
        admin.create_topics(["ab"])
        admin.create_partitions({"ab": 2})
        yield broker


@pytest.fixture
def node_admin(node):
    """A client of the cluster ``node``."""
    options = {"retry_backoff_ms": 1, "client_id": f"node-{uuid4().hex[:6]}"}
    with Admin(node.bootstrap_servers, **ROOT, **options) as admin:
        yield admin


@pytest.mark.parametrize("partly", PARTLY_RETRIABLE_REQUESTS, ids=lambda partly: partly.api)
def test_only_items_with_a_retriable_error_are_sent_again(partly, node, node_admin):
    bodies = []

    def respond(request):
        bodies.append(partly.items_of(request.body))
        code = 0 if len(bodies) > 1 else ErrorCode[partly.code]
        last = bodies[0][-1]
        pairs = [(item, code if item == last else 0) for item in bodies[-1]]
        return partly.respond(message_class(f"{partly.api}Response"), pairs)

    with node.on(partly.api, where=requests_from(node_admin)).answer(respond):
        partly.call(node_admin)
    assert len(bodies) == 2
    assert len(bodies[0]) == 2
    assert bodies[1] == bodies[0][-1:]


@pytest.mark.parametrize("partly", PARTLY_RETRIABLE_REQUESTS, ids=lambda partly: partly.api)
def test_a_fatal_error_of_one_item_does_not_repeat_the_request(partly, node, node_admin):
    def respond(request):
        first, second = partly.items_of(request.body)
        return partly.respond(
            message_class(f"{partly.api}Response"), [(first, 0), (second, ErrorCode.UNKNOWN_SERVER_ERROR)]
        )

    with (
        node.on(partly.api, where=requests_from(node_admin)).answer(respond) as rule,
        pytest.raises(PartialFailureError) as failure,
    ):
        partly.call(node_admin)
    assert rule.count == 1
    first, second = failure.value.results.values()
    assert not isinstance(first, Exception)
    assert second.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_throttled_change_waits_for_the_brokers_throttle_time(node, node_admin):
    """KIP-599: as with ``retryOnQuotaViolation`` of Java's Admin, which is true by default."""
    cls = message_class("CreateTopicsResponse")

    def reject(request):
        row = cls.CreatableTopicResult(name="a", error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        return cls(throttle_time_ms=3_600_000, topics=[row])

    with (
        node.on("CreateTopics", where=requests_from(node_admin)).answer(reject) as rule,
        pytest.raises(QuotaExceededError) as error,  # an hour is longer than default.api.timeout.ms
    ):
        node_admin.create_topics(["a"])
    assert rule.count == 1
    assert error.value.throttle_time_ms == 3_600_000


def test_a_lost_broker_fails_alone(scene):
    """Only the lost broker's log directories are unknown; those of the other brokers are returned."""
    options = {"default_api_timeout_ms": 5_000, "retry_backoff_ms": 1, "client_id": "lost"}
    rule = scene.broker.on("DescribeLogDirs", client_id="lost", node_id=1).close()
    with (
        rule,
        Admin(scene.broker.bootstrap_servers, **ROOT, **options) as admin,
        pytest.raises(PartialFailureError) as failure,
    ):
        admin.describe_log_dirs()
    assert isinstance(failure.value, NetworkError)
    assert failure.value.code is None
    assert list(failure.value.errors) == [1]
    assert failure.value.results[0]
    assert failure.value.results[2]


# ---- rows that the embedded broker does not reject ------------------------------------------------------------------


def test_the_rejected_filter_of_a_deletion_of_rules_fails_alone(node, node_admin):
    good, bad = AclFilter(resource_name="good"), AclFilter(resource_name="bad")
    cls = message_class("DeleteAclsResponse")
    rows = [cls.DeleteAclsFilterResult(), cls.DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST)]
    with (
        node.on("DeleteAcls", where=requests_from(node_admin)).answer(lambda request: cls(filter_results=rows)),
        pytest.raises(PartialFailureError) as failure,
    ):
        node_admin.delete_acls([good, bad])
    assert failure.value.results[good] == []
    assert failure.value.errors[bad].code is ErrorCode.INVALID_REQUEST


def test_the_replica_without_its_log_directory_fails_alone(node, node_admin):
    cls = message_class("AlterReplicaLogDirsResponse")

    def respond(request):
        rows = [cls.AlterReplicaLogDirPartitionResult(partition_index=0)]
        rows.append(cls.AlterReplicaLogDirPartitionResult(partition_index=1, error_code=ErrorCode.LOG_DIR_NOT_FOUND))
        return cls(results=[cls.AlterReplicaLogDirTopicResult(topic_name="ab", partitions=rows)])

    with (
        node.on("AlterReplicaLogDirs", where=requests_from(node_admin)).answer(respond),
        pytest.raises(PartialFailureError) as failure,
    ):
        node_admin.alter_replica_log_dirs({Replica("ab", 0, 0): "/a", Replica("ab", 1, 0): "/b"})
    assert failure.value.results[Replica("ab", 0, 0)] is None
    assert failure.value.errors[Replica("ab", 1, 0)].code is ErrorCode.LOG_DIR_NOT_FOUND


def test_the_partition_of_a_group_that_may_not_be_read_fails_alone(node, node_admin):
    cls = message_class("OffsetFetchResponse")

    def respond(request):
        (topic,) = request.body.groups[0].topics
        rows = [cls.OffsetFetchResponsePartitions(partition_index=0, committed_offset=5)]
        rows.append(
            cls.OffsetFetchResponsePartitions(partition_index=1, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        )
        topics = [cls.OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=rows)]
        return cls(groups=[cls.OffsetFetchResponseGroup(group_id="g", topics=topics)])

    with (
        node.on("OffsetFetch", where=requests_from(node_admin)).answer(respond),
        pytest.raises(PartialFailureError) as failure,
    ):
        node_admin.group_offsets("g", _AB)
    assert failure.value.results[TopicPartition("ab", 0)].offset == 5
    assert failure.value.errors[TopicPartition("ab", 1)].code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_the_subscribed_topic_of_deleted_offsets_fails_alone(node, node_admin):
    cls = message_class("OffsetDeleteResponse")
    codes = enumerate((0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
    rows = [cls.OffsetDeleteResponsePartition(partition_index=number, error_code=code) for number, code in codes]
    response = cls(topics=[cls.OffsetDeleteResponseTopic(name="ab", partitions=rows)])
    with (
        node.on("OffsetDelete", where=requests_from(node_admin)).answer(lambda request: response),
        pytest.raises(PartialFailureError) as failure,
    ):
        node_admin.delete_group_offsets("g", _AB)
    assert failure.value.results[TopicPartition("ab", 0)] is None
    assert failure.value.errors[TopicPartition("ab", 1)].code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_the_share_partition_that_may_not_be_described_fails_alone(node, node_admin):
    cls = message_class("DescribeShareGroupOffsetsResponse")
    codes = enumerate((0, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    rows = [
        cls.DescribeShareGroupOffsetsResponsePartition(partition_index=number, start_offset=3, error_code=code)
        for number, code in codes
    ]
    topics = [cls.DescribeShareGroupOffsetsResponseTopic(topic_name="ab", partitions=rows)]
    response = cls(groups=[cls.DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=topics)])
    with (
        node.on("DescribeShareGroupOffsets", where=requests_from(node_admin)).answer(lambda request: response),
        pytest.raises(PartialFailureError) as failure,
    ):
        node_admin.share_group_offsets("g", _AB)
    assert failure.value.results[TopicPartition("ab", 0)].start_offset == 3
    assert failure.value.errors[TopicPartition("ab", 1)].code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_the_transactional_id_that_may_not_be_fenced_fails_alone(node, node_admin):
    cls = message_class("InitProducerIdResponse")

    def respond(request):
        is_bad = request.body.transactional_id == "b"
        return cls(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if is_bad else 0, producer_id=7)

    with (
        node.on("InitProducerId", where=requests_from(node_admin)).answer(respond),
        pytest.raises(PartialFailureError) as failure,
    ):
        node_admin.fence_producers(["a", "b"])
    assert failure.value.results["a"].producer_id == 7
    assert failure.value.errors["b"].code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_features_are_changed_together_or_not_at_all(node, node_admin):
    before = node_admin.describe_features().finalized
    with pytest.raises(BrokerError):
        node_admin.update_features(
            {"no.such.feature": FeatureUpdate(1), "metadata.version": FeatureUpdate(7, "unsafe_downgrade")}
        )
    assert node_admin.describe_features().finalized == before


# ---- metadata -------------------------------------------------------------------------------------------------------


def test_topics_are_described_from_the_current_metadata(node):
    """Another client's change is visible at once, although the client knows the topic."""
    name = f"seen-{uuid4().hex[:6]}"
    with Admin(node.bootstrap_servers, **ROOT) as one, Admin(node.bootstrap_servers, **ROOT) as other:
        one.create_topics([name])
        assert len(one.describe_topics([name])[name].partitions) == 1
        other.create_partitions({name: 4})
        assert len(one.describe_topics([name])[name].partitions) == 4


@pytest.mark.parametrize("method", ["describe_topics", "describe_topics by id", "describe_cluster"])
def test_topics_are_described_from_the_current_metadata_even_if_an_older_response_is_pending(node, method):
    name = f"late-{uuid4().hex[:6]}"

    async def play():
        async with AsyncAdmin(node.bootstrap_servers, **ROOT | {"client_id": name}) as admin:
            await admin.create_topics([name])
            topic_id = (await admin.describe_topics([name]))[name].topic_id

            async def count_partitions():
                if method == "describe_cluster":
                    return len((await admin.describe_cluster()).topics[name].partitions)
                key = topic_id if method == "describe_topics by id" else name
                return len((await admin.describe_topics([key]))[name].partitions)

            slow = node.on("Metadata", client_id=name).once().delay(1)
            early = asyncio.create_task(count_partitions())
            await asyncio.to_thread(node.wait_for, lambda: slow.count)
            await admin.create_partitions({name: 4})
            count = await count_partitions()
            await early
            return count

    assert asyncio.run(play()) == 4


def test_the_topics_of_a_call_share_a_metadata_request_and_groups_a_coordinator_request(node, node_admin):
    names = [f"many-{number}" for number in range(20)]
    node_admin.create_topics(names)
    metadata, coordinators, offsets = (
        node.on(api, where=requests_from(node_admin)) for api in ("Metadata", "FindCoordinator", "ListOffsets")
    )
    node_admin.list_offsets({(name, 0): EARLIEST for name in names})
    assert (metadata.count, offsets.count) == (1, 1)
    with pytest.raises(PartialFailureError):
        node_admin.delete_groups(names)
    assert coordinators.count == 1
    for rule in (metadata, coordinators, offsets):
        rule.remove()


# ---- rights to some of the items ------------------------------------------------------------------------------------

MINE, THEIRS = TopicPartition("mine-1", 0), TopicPartition("theirs-1", 0)
PARTLY_ALLOWED_CALLS: dict[str, tuple[Callable[[Admin], Any], Any, Any]] = {
    "create_topics": (lambda admin: admin.create_topics(["theirs-2", "mine-2"]), "mine-2", "theirs-2"),
    "create_partitions": (lambda admin: admin.create_partitions({"theirs-1": 2, "mine-1": 2}), "mine-1", "theirs-1"),
    "describe_topics": (lambda admin: admin.describe_topics(["theirs-1", "mine-1"]), "mine-1", "theirs-1"),
    "list_offsets": (lambda admin: admin.list_offsets({THEIRS: EARLIEST, MINE: EARLIEST}), MINE, THEIRS),
    "delete_records": (lambda admin: admin.delete_records({THEIRS: 0, MINE: 0}), MINE, THEIRS),
    "describe_producers": (lambda admin: admin.describe_producers([THEIRS, MINE]), MINE, THEIRS),
    "alter_group_offsets": (lambda admin: admin.alter_group_offsets("mine-1", {THEIRS: 0, MINE: 0}), MINE, THEIRS),
    "group_offsets": (lambda admin: admin.group_offsets("mine-1", [THEIRS, MINE]), MINE, THEIRS),
    "delete_group_offsets": (lambda admin: admin.delete_group_offsets("mine-1", [THEIRS, MINE]), MINE, THEIRS),
    "alter_share_group_offsets": (
        lambda admin: admin.alter_share_group_offsets("mine-queue", {THEIRS: 0, MINE: 0}),
        MINE,
        THEIRS,
    ),
    "share_group_offsets": (lambda admin: admin.share_group_offsets("mine-queue", [THEIRS, MINE]), MINE, THEIRS),
    "delete_share_group_offsets": (
        lambda admin: admin.delete_share_group_offsets("mine-queue", ["theirs-1", "mine-1"]),
        "mine-1",
        "theirs-1",
    ),
    "delete_groups": (lambda admin: admin.delete_groups(["theirs-1", "mine-1"]), "mine-1", "theirs-1"),
    "fence_producers": (lambda admin: admin.fence_producers(["theirs-1", "mine-1"]), "mine-1", "theirs-1"),
    "describe_transactions": (
        lambda admin: admin.describe_transactions(["theirs-1", "mine-1"]),
        "mine-1",
        "theirs-1",
    ),
    "delete_topics": (lambda admin: admin.delete_topics(["theirs-1", "mine-3"]), "mine-3", "theirs-1"),
}


@pytest.fixture(scope="module")
def partly_allowed():
    """A client on three nodes with all permissions for topics, groups and transactional ids with the prefix
    ``mine-``.
    """
    with start_broker() as broker, Admin(broker.bootstrap_servers, **ROOT) as root:
        root.create_topics(["mine-1", "mine-3", "theirs-1"])
        root.alter_group_offsets("mine-1", {MINE: 0})
        root.alter_share_group_offsets("mine-queue", {MINE: 0})
        root.fence_producers(["mine-1"])
        root.alter_group_offsets("theirs-1", {THEIRS: 0})
        root.create_acls(
            [
                AclBinding(kind, "mine-", "User:stranger", "all", pattern_type="prefixed")
                for kind in ("topic", "group", "transactional_id")
            ]
        )
        with Admin(broker.bootstrap_servers, **STRANGER) as admin:
            yield admin


@pytest.mark.parametrize("name", PARTLY_ALLOWED_CALLS)
def test_items_without_permission_fail_alone(name, partly_allowed):
    call, allowed_result, denied_items = PARTLY_ALLOWED_CALLS[name]
    with pytest.raises(PartialFailureError) as failure:
        call(partly_allowed)
    assert isinstance(failure.value, AuthorizationError)
    assert list(failure.value.errors) == [denied_items]
    assert isinstance(failure.value.errors[denied_items], AuthorizationError)
    assert allowed_result in failure.value.results


def test_offsets_of_a_recreated_topic_are_committed_and_returned(node, node_admin):
    """Requests have topic ids (KIP-848), and the client still caches the id of the deleted topic."""
    node_admin.create_topics(["again"])
    node_admin.describe_topics(["again"])
    with Admin(node.bootstrap_servers, **ROOT) as other:
        other.delete_topics(["again"])
        other.create_topics(["again"])
    partition = TopicPartition("again", 0)
    assert node_admin.group_offsets("again", [partition]) == {}
    node_admin.alter_group_offsets("again", {partition: 5})
    assert node_admin.group_offsets("again", [partition])[partition].offset == 5


def test_the_error_of_a_topic_names_its_id(node_admin):
    topic_id = UUID(int=77)
    with pytest.raises(UnknownTopicError, match=f"topic {topic_id}"):
        node_admin.delete_topics([topic_id])
