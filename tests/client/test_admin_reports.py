"""Situations from public reports about admin clients, with three nodes that a client may contact in any order."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from uuid import uuid4

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import (
    EARLIEST,
    LATEST,
    Admin,
    AsyncAdmin,
    ConfigEntry,
    Consumer,
    NewTopic,
    Producer,
    QuotaEntity,
    ScramCredential,
    ScramCredentialInfo,
    ShareConsumer,
    TopicPartition,
)
from kafkaframes.errors import (
    BrokerError,
    ErrorCode,
    NetworkError,
    OptionError,
    PartialFailureError,
    UnknownTopicError,
)

REPORTS_0 = TopicPartition("reports", 0)


@pytest.fixture(scope="module")
def broker():
    with Broker(cluster=3, config={"node.id": 0}) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("reports", 1, 3)])
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("reports", b"1").result()
        yield broker


@pytest.fixture
def admin(broker):
    options = {"retry_backoff_ms": 1, "reconnect_backoff_ms": 1, "client_id": f"reports-{uuid4().hex[:6]}"}
    with Admin(broker.bootstrap_servers, **options) as admin:
        yield admin


@pytest.mark.parametrize("node", range(3))
def test_a_topic_is_created_whichever_node_is_contacted_first(node, broker):
    """confluent-kafka-python#1132, aiokafka#939 and #995: NOT_CONTROLLER, depending on the contacted node."""
    name = f"first-{node}"
    with Admin(broker.bootstrap_servers.split(",")[node]) as admin:
        admin.create_topics([name])
        assert name in admin.list_topics()


def test_a_new_topic_is_described_at_once(admin):
    """confluent-kafka-python#459: UNKNOWN_TOPIC_OR_PARTITION shortly after create_topics has returned."""
    for _ in range(20):
        name = f"fresh-{uuid4().hex[:8]}"
        admin.create_topics([NewTopic(name, 3)])
        assert len(admin.describe_topics([name])[name].partitions) == 3


def test_a_group_is_found_at_its_new_coordinator(broker, admin):
    """IBM/sarama#3051: the admin client did not recover after the coordinator of a group had changed."""
    admin.alter_group_offsets("moving", {REPORTS_0: 1})
    for node_id in (2, 0, 1):
        broker.move_coordinator("moving", node_id)
        assert admin.group_offsets("moving")[REPORTS_0].offset == 1
        assert admin.describe_group("moving").state == "Empty"


def test_leaders_are_looked_up_again_after_one_has_left_the_cluster(broker, admin):
    """KAFKA-20673: calls for a partition hung until the timeout because its cached leader was no longer registered."""
    broker.move_leader("reports", 0, 2)
    assert admin.list_offsets({REPORTS_0: LATEST}) == {REPORTS_0: 1}
    broker.stop_node(2)
    try:
        assert admin.list_offsets({REPORTS_0: LATEST}) == {REPORTS_0: 1}
        assert admin.delete_records({REPORTS_0: 0}) == {REPORTS_0: 0}
        assert admin.describe_producers([REPORTS_0])[REPORTS_0]
    finally:
        broker.start_node(2)


@pytest.mark.parametrize("code", ["NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "FENCED_LEADER_EPOCH"])
@pytest.mark.parametrize("api", ["DeleteRecords", "ListOffsets"])
def test_requests_to_a_former_leader_are_sent_again(api, code, broker, admin):
    """kafka-python#2976, KAFKA-8982: delete_records and list_partition_offsets failed after a leader election."""
    with broker.on(api).error(code).times(2) as rule:  # the rule applies until it is removed
        if api == "DeleteRecords":
            assert admin.delete_records({REPORTS_0: 0}) == {REPORTS_0: 0}
        else:
            assert admin.list_offsets({REPORTS_0: EARLIEST}) == {REPORTS_0: 0}
    assert rule.count == 2


def test_the_offsets_of_a_group_that_does_not_exist_are_empty(admin):
    """confluent-kafka-python#1982: list_consumer_group_offsets of an unknown group ended the process."""
    assert admin.group_offsets("never-existed") == {}
    assert admin.group_offsets("never-existed", [REPORTS_0]) == {}


def test_offsets_of_a_topic_that_does_not_exist_are_an_error(admin):
    """kafkajs#314: fetchTopicOffsets read a field of undefined."""
    with pytest.raises(UnknownTopicError):
        admin.list_offsets({TopicPartition("never-existed", 0): LATEST})


def test_the_configuration_of_a_group_is_described(admin):
    """confluent-kafka-python#1033: the group's resource type had the wrong number, and the broker rejected it."""
    admin.alter_configs("group", "tuned", {"consumer.session.timeout.ms": "50000"})
    assert admin.describe_configs("group", "tuned")["consumer.session.timeout.ms"].value == "50000"


@pytest.mark.parametrize("node_id", range(3))
def test_broker_configs_are_described_and_changed_at_that_broker(node_id, broker, admin):
    """IBM/sarama#1571, kafkajs#649: the client sent the request to the controller."""
    with broker.on("DescribeConfigs", optional=True) as descriptions:
        admin.describe_configs("broker", str(node_id))
    with broker.on("IncrementalAlterConfigs", optional=True) as changes:
        admin.alter_configs("broker", str(node_id), {"log.cleaner.backoff.ms": "9000"})
    assert [request.session.node_id for request in (*descriptions.requests, *changes.requests)] == [node_id, node_id]


def test_share_group_offsets_are_requested_from_the_group_coordinator(broker, admin):
    """franz-go#1330: the client sent the request to the share coordinator, and Kafka 4.2 answered INVALID_REQUEST."""
    admin.alter_share_group_offsets("queue", {REPORTS_0: 0})
    for node_id in (2, 0, 1):
        broker.move_coordinator("queue", node_id)
        assert admin.share_group_offsets("queue")[REPORTS_0].start_offset == 0
        admin.alter_share_group_offsets("queue", {REPORTS_0: 0})
    admin.delete_share_group_offsets("queue", ["reports"])


def test_log_directories_of_other_brokers_are_returned_if_one_broker_is_starting(broker):
    """akhq#1490: one broker that was registered but not ready hid the sizes of all topics."""
    rule = broker.on("DescribeLogDirs", client_id="limited", node_id=2).ignore()
    limited_admin = Admin(broker.bootstrap_servers, client_id="limited", default_api_timeout_ms=2_000)
    with limited_admin, rule, pytest.raises(PartialFailureError) as failure:
        limited_admin.describe_log_dirs()
    assert sorted(failure.value.results) == [0, 1, 2]
    assert list(failure.value.errors) == [2]


def test_list_groups_times_out_if_no_broker_can_be_reached(broker):
    """librdkafka#3705: list_groups hung while the cluster was unavailable."""
    with Admin("127.0.0.1:1", default_api_timeout_ms=300) as admin, pytest.raises(NetworkError):
        admin.list_groups()


def test_each_mechanism_of_a_user_is_listed_and_set_in_a_separate_request(admin):
    """confluent-kafka-python#1575: only the last of a user's results was returned.

    Controllers accept one change per user in a request, and reject the user otherwise (``ScramControlManager``).
    """
    sha_256, sha_512 = (ScramCredential("ann", "x", mechanism) for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"))
    with pytest.raises(PartialFailureError) as failure:
        admin.alter_user_scram_credentials([sha_256, sha_512, ScramCredential("bob", "x")])
    assert failure.value.results["bob"] is None
    assert failure.value.errors["ann"].code is ErrorCode.DUPLICATE_RESOURCE
    admin.alter_user_scram_credentials([sha_256])
    admin.alter_user_scram_credentials([sha_512])
    assert admin.describe_user_scram_credentials(["ann"])["ann"] == (
        ScramCredentialInfo("SCRAM-SHA-256", 4096),
        ScramCredentialInfo("SCRAM-SHA-512", 4096),
    )
    with pytest.raises(BrokerError) as failure:
        admin.describe_user_scram_credentials(["ann", "ann"])
    assert failure.value.code is ErrorCode.DUPLICATE_RESOURCE


def test_list_groups_is_complete_while_a_coordinator_is_lost(broker, admin):
    """redpanda#3432: groups of a lost node were missing.

    The client sends the request to all nodes again, because the lost node's groups move to them.
    """
    names = [f"listed-{number}" for number in range(12)]
    for name in names:
        admin.alter_group_offsets(name, {REPORTS_0: 1})
    assert set(names) <= {group.group_id for group in admin.list_groups()}
    with broker.on("ListGroups", node_id=2).close().once():
        assert set(names) <= {group.group_id for group in admin.list_groups()}
    broker.stop_node(2)
    try:
        assert set(names) <= {group.group_id for group in admin.list_groups()}
    finally:
        broker.start_node(2)


@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.delete_topics("ab"),
        lambda admin: admin.create_topics("ab"),
        lambda admin: admin.describe_topics("ab"),
        lambda admin: admin.delete_groups("ab"),
        lambda admin: admin.list_groups(states="Stable"),
        lambda admin: admin.describe_configs("topic", "reports", keys="retention.ms"),
        lambda admin: admin.describe_user_scram_credentials("ann"),
        lambda admin: admin.fence_producers("ab"),
        lambda admin: admin.describe_transactions("ab"),
        lambda admin: admin.delete_share_group_offsets("queue", "ab"),
        lambda admin: admin.remove_group_members("g", "ab"),
        lambda admin: admin.create_delegation_token("User:bob"),
        lambda admin: admin.list_config_resources("topic"),
    ],
)
def test_one_name_in_place_of_a_list_is_an_error(call, admin):
    """confluent-kafka rejects it: the characters are other names, and delete_topics("ab") would delete a and b."""
    with pytest.raises(OptionError, match="expected a list, such as"):
        call(admin)


def test_an_empty_list_of_users_selects_no_user(admin):
    """Brokers return every user for it, so a program that describes and deletes its own users would delete others."""
    admin.alter_user_scram_credentials([ScramCredential("eve", "x")])
    assert admin.describe_user_scram_credentials([]) == {}
    assert "eve" in admin.describe_user_scram_credentials()
    with pytest.raises(OptionError, match="password of user 'eve' is not text"):
        admin.alter_user_scram_credentials([ScramCredential("eve", b"x")])


def test_replicas_are_assigned_to_brokers(admin):
    """kafkajs#1162, dpkp/kafka-python#3146: assignments could not be sent, or were sent next to the counts."""
    admin.create_topics([NewTopic("placed", replica_assignments=[[2, 0], [1, 2]])])
    admin.create_partitions({"placed": 4}, assignments={"placed": [[0, 1], [1, 0]]})
    partitions = admin.describe_topics(["placed"])["placed"].partitions
    assert [tuple(partitions[number].replicas) for number in range(4)] == [(2, 0), (1, 2), (0, 1), (1, 0)]
    with pytest.raises(BrokerError) as failure:
        admin.create_partitions({"placed": 6}, assignments={"placed": [[0, 1]]})
    assert failure.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    with pytest.raises(OptionError, match="topic other has no count"):
        admin.create_partitions({"placed": 6}, assignments={"other": [[0, 1]]})


def test_settings_may_be_numbers_and_booleans(admin):
    """Peers accept them. Here, an integer failed when the request was encoded, without the name of the setting."""
    configs = {"retention.ms": 60_000, "unclean.leader.election.enable": True, "min.cleanable.dirty.ratio": 0.25}
    admin.create_topics([NewTopic("typed", 1, 1, configs)])
    entries = admin.describe_configs("topic", "typed", keys=list(configs))
    assert {name: entry.value for name, entry in entries.items()} == {
        "retention.ms": "60000",
        "unclean.leader.election.enable": "true",
        "min.cleanable.dirty.ratio": "0.25",
    }
    admin.alter_configs("topic", "typed", {"retention.ms": 70_000, "unclean.leader.election.enable": False})
    entries = admin.describe_configs("topic", "typed", keys=list(configs))
    assert [entries[name].value for name in list(configs)[:2]] == ["70000", "false"]
    with pytest.raises(OptionError, match=r"cleanup.policy is \['compact'\]; expected text"):
        admin.alter_configs("topic", "typed", append={"cleanup.policy": ["compact"]})


def test_an_empty_list_of_setting_names_is_answered_with_all_settings(admin):
    """Kafka 4.3.1 also answers an empty list with all settings."""
    assert admin.describe_configs("topic", "reports", keys=[]) == admin.describe_configs("topic", "reports")


def test_the_last_stable_offset_is_listed(broker, admin):
    """segmentio/kafka-go#407, klag-exporter#104: the high watermark is beyond what read_committed reads."""
    admin.create_topics([NewTopic("open", 1)])
    partition = TopicPartition("open", 0)
    with Producer(broker.bootstrap_servers, transactional_id="open") as producer:
        producer.begin_transaction()
        producer.send("open", b"1").result()
        assert admin.list_offsets({partition: LATEST}) == {partition: 1}
        assert admin.list_offsets({partition: LATEST}, isolation_level="read_committed") == {partition: 0}
        producer.commit_transaction()
    with pytest.raises(OptionError, match="isolation_level is 'committed'"):
        admin.list_offsets({partition: LATEST}, isolation_level="committed")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_of_a_group_with_members_are_rejected_with_the_reason(protocol, broker, admin):
    """confluent-kafka-dotnet#2119, confluent-kafka-go#1138: UNKNOWN_MEMBER_ID alone does not say what to do."""
    options = {"group_id": f"busy-{protocol}", "group_protocol": protocol, "auto_offset_reset": "earliest"}
    with Consumer(broker.bootstrap_servers, **options) as consumer:
        consumer.subscribe(["reports"])
        assert consumer.poll(20_000)
        with pytest.raises(BrokerError, match=f"group busy-{protocol} has members; stop its consumers first"):
            admin.alter_group_offsets(f"busy-{protocol}", {REPORTS_0: 0})


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_all_members_of_a_group_are_removed(protocol, broker, admin):
    """KAFKA-18188: members with the consumer protocol were not found, and could not be removed."""
    options = {"group_id": f"left-{protocol}", "group_protocol": protocol, "auto_offset_reset": "earliest"}
    with Consumer(broker.bootstrap_servers, **options) as consumer:
        consumer.subscribe(["reports"])
        assert consumer.poll(20_000)
        (member,) = admin.describe_group(f"left-{protocol}").members
        admin.remove_group_members(f"left-{protocol}")
        assert member not in admin.describe_group(f"left-{protocol}").members


@pytest.mark.parametrize("offset", [EARLIEST, LATEST])
@pytest.mark.parametrize("way", ["group", "share", "commit", "transaction"])
def test_negative_offsets_are_not_committed(way, offset, broker, admin):
    """DataDog/integrations-core#24165: brokers store the constants, and consumers of the group fail or start over."""
    with ExitStack() as stack:
        if way == "group":
            commit = partial(admin.alter_group_offsets, "negative")
        elif way == "share":
            commit = partial(admin.alter_share_group_offsets, "negative-share")
        elif way == "commit":
            commit = stack.enter_context(Consumer(broker.bootstrap_servers, group_id="negative")).commit
        else:
            producer = stack.enter_context(Producer(broker.bootstrap_servers, transactional_id=f"negative{offset}"))
            producer.begin_transaction()
            stack.callback(producer.abort_transaction)
            commit = partial(producer.send_offsets_to_transaction, group="negative")
        with pytest.raises(OptionError, match=f"offset {offset} of reports-0 is negative"):
            commit({REPORTS_0: offset})


def test_unknown_states_and_types_of_groups_are_errors(admin):
    """Brokers ignore unknown names, so a misspelled filter looks like a cluster without groups (KIP-518, KIP-848)."""
    with pytest.raises(OptionError, match="states: 'Sleeping' does not exist; expected one of"):
        admin.list_groups(states=["Sleeping"])
    with pytest.raises(OptionError, match="types: 'simple' does not exist; expected one of classic"):
        admin.list_groups(types=["simple"])
    admin.alter_group_offsets("listed", {REPORTS_0: 1})
    assert "listed" in {group.group_id for group in admin.list_groups(states=["empty"], types=["CLASSIC"])}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value"),
        ("producer_byte_rate", 0, "Quota producer_byte_rate must be greater than 0"),
        ("nope", 1, "Invalid configuration key nope"),
    ],
)
def test_rejected_quotas_have_kafkas_reason(key, value, message, admin):
    with pytest.raises(BrokerError, match=message):
        admin.alter_client_quotas({QuotaEntity(user="u"): {key: value}})


@pytest.mark.parametrize("method", ["renew_delegation_token", "expire_delegation_token"])
def test_the_base64_text_of_a_token_is_rejected_without_showing_it(method, admin):
    """Kafka's command takes the HMAC of a delegation token in base64. The error of the encoder contained the secret."""
    with pytest.raises(OptionError, match="hmac is not bytes") as failure:
        getattr(admin, method)("aGlkZGVuNw==")
    assert "aGlkZGVuNw" not in str(failure.value)
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "id"}
    with pytest.raises(
        OptionError, match="sasl_password is not text; the password of a delegation token is"
    ) as failure:
        Admin("a:1", sasl_password=b"hidden7", sasl_tokenauth=True, **login)
    assert "hidden7" not in str(failure.value)


@pytest.mark.parametrize("kind", ["share", "consumer"])
def test_the_id_of_a_group_of_another_type_is_an_error_of_poll(kind, broker, admin):
    """librdkafka#5471 and #5514: members joined for ever, and polls returned nothing, without an error."""
    if kind == "share":
        admin.alter_group_offsets("taken-by-consumers", {REPORTS_0: 0})
        client = ShareConsumer(broker.bootstrap_servers, group_id="taken-by-consumers")
    else:
        admin.alter_share_group_offsets("taken-by-share", {REPORTS_0: 0})
        client = Consumer(broker.bootstrap_servers, group_id="taken-by-share", group_protocol="consumer")
    with client:
        client.subscribe(["reports"])
        with pytest.raises(BrokerError, match=f"is not a {kind} group") as failure:
            client.poll(20_000)
        assert failure.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_values_of_all_levels_are_described(admin):
    """provectus/kafka-ui#701, confluentinc/kafka-rest#677: which value would be in effect without the topic's own?"""
    admin.create_topics([NewTopic("levels", 1, 1, {"retention.ms": 60_000})])
    plain = admin.describe_configs("topic", "levels", keys=["retention.ms"])["retention.ms"]
    entry = admin.describe_configs("topic", "levels", keys=["retention.ms"], include_synonyms=True)["retention.ms"]
    assert plain.synonyms == ()
    assert entry.synonyms[0] == ("retention.ms", "60000", 1)
    assert entry._replace(synonyms=()) == plain
    assert {synonym.source for synonym in entry.synonyms[1:]} <= {3, 4, 5}
    admin.alter_configs("topic", "levels", {"retention.ms": None})
    remaining_entry = admin.describe_configs("topic", "levels", keys=["retention.ms"], include_synonyms=True)[
        "retention.ms"
    ]
    assert remaining_entry.synonyms == entry.synonyms[1:]


@pytest.fixture
def old_admin():
    """Admin of a broker without IncrementalAlterConfigs, which replaces whole configurations."""
    with Broker(broker_release="2.2") as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topics(["old"])
        yield admin


def test_static_settings_of_an_old_broker_do_not_become_dynamic(old_admin):
    """kafka-configs.sh sends only dynamic values again (KIP-226): the values of server.properties would be pinned."""
    before = old_admin.describe_configs("broker", "1")
    old_admin.alter_configs("broker", "1", {"log.cleaner.threads": 2})
    after = old_admin.describe_configs("broker", "1")
    assert after.pop("log.cleaner.threads").source == 2
    assert {name: entry.source for name, entry in after.items()} == {
        name: entry.source for name, entry in before.items() if name in after
    }
    old_admin.alter_configs("topic", "old", {"retention.ms": 1_000})
    old_admin.alter_configs("topic", "old", {"segment.ms": 2_000})
    entries = old_admin.describe_configs("topic", "old")
    assert {name for name, entry in entries.items() if entry.source == 1} == {"retention.ms", "segment.ms"}


def test_secret_settings_of_an_old_broker_are_not_lost(old_admin, monkeypatch):
    """kafkajs#1517, apache/kafka#12065: brokers do not return secrets, and a whole configuration without them removes
    them."""

    async def describe(*_, **__):
        return {"ssl.keystore.password": ConfigEntry("ssl.keystore.password", None, False, False, True, 2)}

    monkeypatch.setattr(AsyncAdmin, "describe_configs", describe)
    with pytest.raises(OptionError, match=r"would lose the secret value of ssl\.keystore\.password"):
        old_admin.alter_configs("broker", "1", {"log.cleaner.threads": 2})
