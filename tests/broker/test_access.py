"""Access rights: each API checks the rights that it declares, and a denied resource is not revealed."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.broker.conftest import DirectClient
from tests.interop.access_script import CASES, TOPICS, AccessControlledCluster, fields_at, restore
from tests.interop.broker_script import FrameClient

from kafkaframes.broker.dispatch.table import collect_apis, select_release_apis
from kafkaframes.broker.lifecycle.assembly import open_broker
from kafkaframes.broker.requests.api import CloseConnection
from kafkaframes.broker.requests.request import Session
from kafkaframes.broker.security.access import OPERATIONS, OPERATIONS_BY_RESOURCE_TYPE, operation_bits
from kafkaframes.broker.security.acls import ALLOW, DENY, LITERAL, PREFIXED, RESOURCE_TYPES, Acl, AclAuthorizer
from kafkaframes.broker.settings.settings import BrokerSettings
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import message
from kafkaframes.records.build import build_records

ADMIN, ALICE = "User:admin", "User:alice"
APIS_WITHOUT_RIGHTS = {
    "ApiVersions",
    "DescribeCluster",
    "ExpireDelegationToken",  # the holder of a token may expire it
    "GetTelemetrySubscriptions",
    "PushTelemetry",
    "RenewDelegationToken",
    "SaslAuthenticate",
    "SaslHandshake",
}
WHOLE_REQUEST_APIS = [
    pytest.param(api, version, id=f"{api.name}-{version}")
    for api in collect_apis().values()
    for version in range(api.range[0], api.range[1] + 1)
    if any(
        not one.field or one.field.endswith(("group_id", "al_id")) for one in api.list_permissions(version, whole=True)
    )
]


def acl_rule(operation, resource, name, *, permission=ALLOW, pattern=LITERAL, principal=ALICE, host="*"):
    number = 2 if operation == "ALL" else OPERATIONS[operation]
    return Acl(RESOURCE_TYPES[resource], name, pattern, principal, host, number, permission)


class AliceAndAdmin:
    """A broker with ACL rules, an administrator's client, and a client of alice, to whom the rules apply."""

    def __init__(self, make_client, *rules, **more):
        self.access = AclAuthorizer(rules, super_users=[ADMIN])
        self.admin = make_client(access=self.access, **more)
        self.admin.session = Session(number=1, principal=ADMIN, peer="127.0.0.1:1")
        self.alice = DirectClient(self.admin.state, Session(number=2, principal=ALICE, peer="127.0.0.1:2"))


@pytest.fixture
def pair(make_client):
    return lambda *rules, **more: AliceAndAdmin(make_client, *rules, **more)


def test_every_api_declares_its_required_permissions():
    apis = collect_apis().values()
    assert {api.name for api in apis if not api.rights} == APIS_WITHOUT_RIGHTS
    for right in (right for api in apis for right in api.rights):
        assert right.operation in OPERATIONS_BY_RESOURCE_TYPE[right.resource]
        assert right.error.name.endswith("_AUTHORIZATION_FAILED")
        assert not (right.field and right.each)


@pytest.mark.parametrize(("api", "version"), WHOLE_REQUEST_APIS)
def test_a_request_without_the_right_does_not_reach_its_handler(pair, api, version):
    def handle(request, broker):
        raise AssertionError("the handler was called")

    two_clients = pair()
    two_clients.alice.dispatcher.apis = {api.key: replace(api, handle=handle)}
    fields = {permission.field: "x" for permission in api.list_permissions(version, whole=True) if permission.field}
    body = message(f"{api.name}Request")(**fields)
    if api.name == "OffsetCommit":
        body.topics = [message("OffsetCommitRequest").OffsetCommitRequestTopic(name="t")]
    assert two_clients.alice.ask(api.name, version, body=body) is not None


def test_describe_topic_partitions_lists_only_describable_topics(pair):
    two_clients = pair(acl_rule("DESCRIBE", "TOPIC", "open"))
    two_clients.admin.state.create_topic("open", 1)
    two_clients.admin.state.create_topic("secret", 1)
    assert [row.name for row in two_clients.alice.ask("DescribeTopicPartitions", 0).topics] == ["open"]
    assert len(two_clients.admin.ask("DescribeTopicPartitions", 0).topics) == 2


def test_delete_topics_reveals_an_unknown_topic_only_with_describe_permission(pair):
    two_clients = pair(acl_rule("DESCRIBE", "TOPIC", "seen", pattern=PREFIXED))
    for name in ("seen-1", "secret"):
        two_clients.admin.state.create_topic(name, 1)
    rows = two_clients.alice.ask("DeleteTopics", 5, topic_names=["seen-1", "seen-2", "secret", "gone"]).responses
    codes = {row.name: row.error_code for row in rows}
    denied_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes == {
        "seen-1": denied_code,
        "seen-2": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "secret": denied_code,
        "gone": denied_code,
    }
    state = message("DeleteTopicsRequest").DeleteTopicState
    ids = [two_clients.admin.state.topics[name].topic_id for name in ("seen-1", "secret")]
    rows = two_clients.alice.ask(
        "DeleteTopics", 6, topics=[state(name=None, topic_id=topic_id) for topic_id in ids]
    ).responses
    assert [(row.name, row.error_code) for row in rows] == [("seen-1", denied_code), (None, denied_code)]


class TestPatterns:
    """Subscriptions by regular expression assign only topics that the member may describe."""

    def beat(self, client, member, **fields):
        fields = {"rebalance_timeout_ms": 5000, "topic_partitions": []} | fields
        return client.ask("ConsumerGroupHeartbeat", 1, group_id="g", member_id=member, **fields)

    def ids(self, answer):
        return {row.topic_id for row in answer.assignment.topic_partitions}

    @pytest.fixture
    def two_clients(self, pair):
        two_clients = pair(acl_rule("READ", "GROUP", "g"), acl_rule("DESCRIBE", "TOPIC", "a-open"))
        for name in ("a-open", "a-secret"):
            two_clients.admin.state.create_topic(name, 1)
        two_clients.admin.state.groups.consumer.patterns.run_in_thread = lambda work, finish: (work(), finish())
        return two_clients

    def test_a_topic_without_describe_permission_is_not_assigned(self, two_clients):
        answer = self.beat(two_clients.alice, "m", member_epoch=0, subscribed_topic_regex="a-.*")
        assert self.ids(answer) == {two_clients.admin.state.topics["a-open"].topic_id}

    def test_members_with_the_same_pattern_are_assigned_their_own_describable_topics(self, two_clients):
        admin = self.beat(two_clients.admin, "root", member_epoch=0, subscribed_topic_regex="a-.*")
        assert len(self.ids(admin)) == 2
        epoch = self.beat(two_clients.alice, "m", member_epoch=0, subscribed_topic_regex="a-.*").member_epoch
        for _ in range(4):
            topics = two_clients.admin.state.topics
            owned_partitions = [{"topic_id": topics[name].topic_id, "partitions": [0]} for name in ("a-secret",)]
            rows = [
                message("ConsumerGroupHeartbeatRequest").TopicPartitions(**partition) for partition in owned_partitions
            ]
            admin = self.beat(two_clients.admin, "root", member_epoch=admin.member_epoch, topic_partitions=rows)
            answer = self.beat(two_clients.alice, "m", member_epoch=epoch, subscribed_topic_regex="a-.*")
            epoch = answer.member_epoch
            assert self.ids(answer) <= {topics["a-open"].topic_id}
        group = two_clients.admin.state.groups.groups["g"]
        target_topics = {key: {topic for topic, _ in target} for key, target in group.targets.items()}
        assert topics["a-secret"].topic_id not in target_topics["m"]
        assert topics["a-secret"].topic_id in target_topics["root"]

    def test_a_topic_is_revoked_after_describe_permission_is_removed(self, two_clients):
        epoch = self.beat(two_clients.alice, "m", member_epoch=0, subscribed_topic_regex="a-.*").member_epoch
        two_clients.access.add(acl_rule("DESCRIBE", "TOPIC", "a-open", permission=DENY))
        answer = self.beat(two_clients.alice, "m", member_epoch=epoch, subscribed_topic_regex="a-.*")
        assert self.ids(answer) == set()


def test_group_members_are_hidden_without_describe_permission_for_their_topics(pair):
    two_clients = pair(acl_rule("DESCRIBE", "GROUP", "*"))
    two_clients.admin.state.create_topic("secret", 1)
    fields = {"rebalance_timeout_ms": 5000, "topic_partitions": []}
    two_clients.admin.ask(
        "ConsumerGroupHeartbeat",
        1,
        group_id="g",
        member_id=str(uuid4()),
        subscribed_topic_names=["secret"],
        **fields,
    )
    two_clients.admin.ask(
        "ShareGroupHeartbeat", 1, group_id="s", member_id=str(uuid4()), subscribed_topic_names=["secret"]
    )
    for api, group in (("ConsumerGroupDescribe", "g"), ("ShareGroupDescribe", "s")):
        version = collect_apis()[message(f"{api}Request").spec.api_key].range[1]
        (row,) = two_clients.alice.ask(api, version, group_ids=[group]).groups
        assert (row.error_code, row.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
        (row,) = two_clients.admin.ask(api, version, group_ids=[group]).groups
        assert len(row.members) == 1


def test_groups_before_kafka_4_hide_no_topics_and_have_no_settings(pair):
    two_clients = pair(acl_rule("READ", "GROUP", "*"), acl_rule("ALTER_CONFIGS", "GROUP", "*"))
    two_clients.admin.state.create_topic("secret", 1)
    two_clients.alice.dispatcher.apis = select_release_apis("3.9", two_clients.admin.state.settings).apis
    fields = {"rebalance_timeout_ms": 5000, "topic_partitions": [], "subscribed_topic_names": ["secret"]}
    assert two_clients.alice.ask("ConsumerGroupHeartbeat", 0, group_id="g", **fields).error_code == 0
    (row,) = two_clients.alice.ask(
        "ConsumerGroupDescribe", 0, group_ids=["g"], include_authorized_operations=True
    ).groups
    assert (row.error_code, row.authorized_operations) == (0, operation_bits(("READ", "DESCRIBE")))
    for api in ("DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs"):
        resource = getattr(message(f"{api}Request"), f"{api.removeprefix('Incremental')}Resource")
        answer = two_clients.alice.ask(api, 0, resources=[resource(resource_type=32, resource_name="g")])
        (row,) = answer.results if api == "DescribeConfigs" else answer.responses
        assert row.error_code == ErrorCode.INVALID_REQUEST


class DirectSession(FrameClient):
    """A client without sockets, with the interface that ``tests/interop/access_script.py`` expects."""

    def __init__(self, client):
        super().__init__(0)
        self.client = client

    def ask(self, name, version, body, *, timeout=20.0):
        return self.client.ask(name, version, body=body)


FIRST_OFFSET = 0x5EC0DE5EC0DE0000  # offset of a record in the hidden topic; no other 8-byte number has this value
ALL_CASES = [
    (api, version, number)
    for api in collect_apis().values()
    if api.name in CASES
    for version in range(api.range[0], api.range[1] + 1)
    for number, one in enumerate(CASES[api.name])
    if version >= one.first
]
# Operations that reveal a topic's id or offsets: all except those for its settings.
REVEALING_OPERATIONS = tuple(
    one for one in OPERATIONS_BY_RESOURCE_TYPE["TOPIC"] if one not in ("CREATE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
)
RULES_WITHOUT_ACCESS = {
    "nobody": (),
    "the other topic": (
        *(acl_rule("ALL", resource, "*") for resource in ("GROUP", "TRANSACTIONAL_ID")),
        acl_rule("ALL", "TOPIC", "open"),
    ),
    "all resources except the topic": (
        *(acl_rule("ALL", resource, "*") for resource in ("GROUP", "TRANSACTIONAL_ID", "TOPIC")),
        acl_rule("ALL", "TOPIC", "secret", permission=DENY),
    ),
    "only its settings": (acl_rule("DESCRIBE_CONFIGS", "TOPIC", "*"), acl_rule("ALL", "GROUP", "*")),
}
ANY_RULE = (
    st.builds(
        acl_rule,
        st.sampled_from(("ALL", *OPERATIONS_BY_RESOURCE_TYPE["TOPIC"])),
        st.just("TOPIC"),
        st.sampled_from(("open", "secret", "*")),
        permission=st.sampled_from((ALLOW, DENY)),
    )
    | st.builds(
        acl_rule,
        st.sampled_from(("ALL", "READ", "DESCRIBE", "DELETE")),
        st.just("GROUP"),
        st.sampled_from(("*", "g-new")),
    )
    | st.builds(acl_rule, st.sampled_from(("ALL", "WRITE", "DESCRIBE")), st.just("TRANSACTIONAL_ID"), st.just("*"))
)


@pytest.fixture(scope="module")
def cluster():
    state = open_broker(settings=BrokerSettings({}))
    state.access = AclAuthorizer(super_users=[ADMIN])
    admin = DirectClient(state, Session(number=1, principal=ADMIN, peer="127.0.0.1:1"))
    cluster = AccessControlledCluster(DirectSession(admin), {})
    cluster.create_resources()
    state.configure_topic(state.topics["secret"], {"kafkaframes.on.noncontiguous": "keep"})
    assert admin.produce(build_records({"value": [b"x"]}, base_offset=FIRST_OFFSET), topic="secret").error_code == 0
    yield cluster
    state.logs.abandon()


class TestHiddenTopics:
    """An answer does not contain a topic's name, id or offsets unless the client has a permission that reveals them.

    Cluster permissions reveal topics (DescribeLogDirs, ListConfigResources). Clients in these tests do not have them.
    """

    def check(self, cluster, rules, api, version, number):
        state = cluster.admin.client.state
        for name in TOPICS:  # a request may have deleted it
            if name not in state.topics:
                state.create_topic(name, 2)
        state.access = AclAuthorizer(rules, super_users=[ADMIN])
        session = Session(number=2, principal=ALICE, peer="127.0.0.1:2")
        if any(state.access.allows(session, needle_api, "TOPIC", "secret") for needle_api in REVEALING_OPERATIONS):
            return
        alice = DirectClient(state, session)
        if api.name == "DeleteTopics":
            restore(cluster)
        body = fields_at(api.name, version, CASES[api.name][number].make(cluster, version, str(uuid4())))
        try:
            answer = alice.ask(api.name, version, body=body)
        except CloseConnection:
            return
        raw = b"" if answer is None else answer.encode(version)
        for needle in self.needles(state):
            assert needle not in raw or needle in alice.last_request.data, (
                f"the answer of {api.name} {version} reveals {needle!r}"
            )

    def needles(self, state):
        yield b"secret"
        yield state.topics["secret"].topic_id.bytes
        for offset in (FIRST_OFFSET, FIRST_OFFSET + 1):
            yield offset.to_bytes(8, "big")

    @pytest.mark.parametrize("rules", RULES_WITHOUT_ACCESS.values(), ids=RULES_WITHOUT_ACCESS)
    @pytest.mark.parametrize("name", sorted({api.name for api, _, _ in ALL_CASES}))
    def test_answers_do_not_reveal_a_hidden_topic(self, cluster, rules, name):
        for api, version, number in ALL_CASES:
            if api.name == name:
                self.check(cluster, rules, api, version, number)

    @given(st.lists(ANY_RULE, max_size=5), st.sampled_from(ALL_CASES))
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_nothing_whatever_the_rules_are(self, cluster, rules, case):
        self.check(cluster, rules, *case)

    def test_the_search_finds_a_topic_that_is_not_hidden(self, cluster):
        answer = cluster.admin.client.ask("Metadata", 12, topics=None).encode(12)
        name, topic_id, *_ = self.needles(cluster.admin.client.state)
        assert name in answer
        assert topic_id in answer
        partition = cluster.admin.client.fetch(FIRST_OFFSET, topic="secret", version=11)
        assert partition.high_watermark == FIRST_OFFSET + 1
