"""``kafkaframes acls``, ``users``, ``quotas`` and ``transactions`` against the embedded broker."""

import json

import pytest
from tests.cli.calling import ask_or_raise

from kafkaframes.broker import Broker
from kafkaframes.cli import groups
from kafkaframes.client import Admin, Producer, ShareConsumer, TopicPartition
from kafkaframes.errors import BrokerError, OptionError


def rows_of(run, words):
    return json.loads(run(f"{words} --json").output)


def test_rules_are_created_listed_and_deleted(run):
    assert (
        "created 4 rules"
        in run(
            "acls create --topic cli-a --topic cli-b --allow-principal User:ann --operation Read --operation write"
        ).output
    )
    run("acls create --group cli- --resource-pattern-type prefixed --deny-principal User:ann --host 10.0.0.1")
    rows = rows_of(run, "acls list --principal User:ann")
    assert len(rows) == 5
    assert {row["operation"] for row in rows} == {"read", "write", "all"}
    assert rows_of(run, "acls list --group cli-x --resource-pattern-type match")[0]["permission"] == "deny"
    assert len(rows_of(run, "acls delete --principal User:ann --topic cli-a --yes")) == 2
    run("acls delete --principal User:ann --yes")
    assert rows_of(run, "acls list --principal User:ann") == []


def test_rules_for_producers_and_consumers_equal_those_of_kafka_acls():
    with Broker(config={"super.users": "User:ANONYMOUS"}) as broker:  # a rule of the cluster would exclude this user

        def run(words):
            return ask_or_raise(*words.split(), "-b", broker.bootstrap_servers)

        check_roles(run)


def check_roles(run):
    run("acls create --topic roles --transactional-id roles-t --allow-principal User:pia --producer --idempotent")
    rows = rows_of(run, "acls list --principal User:pia")
    assert {(row["resource_type"], row["operation"]) for row in rows} == {
        ("topic", "write"),
        ("topic", "describe"),
        ("topic", "create"),
        ("transactional_id", "write"),
        ("transactional_id", "describe"),
        ("cluster", "idempotent_write"),
    }
    words = "--topic roles --group roles- --resource-pattern-type prefixed --allow-principal User:cleo --consumer"
    run(f"acls create {words}")
    rows = rows_of(run, "acls list --principal User:cleo")
    assert {(row["resource_type"], row["operation"], row["pattern_type"]) for row in rows} == {
        ("topic", "read", "prefixed"),
        ("topic", "describe", "prefixed"),
        ("group", "read", "prefixed"),
    }


@pytest.mark.parametrize("operation", ["DescribeConfigs", "DESCRIBE_CONFIGS", "describe-configs", "describe_configs"])
def test_operations_have_the_names_of_kafka_tools(run, operation):
    run(f"acls create --topic spelled --allow-principal User:sam --operation {operation}")
    (row,) = rows_of(run, "acls list --topic spelled")
    assert row["operation"] == "describe_configs"
    assert len(rows_of(run, f"acls delete --topic spelled --operation {operation} --yes")) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("acls create --allow-principal User:a", "specify a resource"),
        ("acls create --topic a", "specify a principal"),
        ("acls create --topic a --allow-principal User:a --operation reed", "operation 'reed' does not exist"),
        ("acls delete --yes", "all access rules would be deleted"),
        ("quotas set producer_byte_rate=1", "specify an entity"),
        ("quotas set producer_byte_rate=many --user a", "is not a number"),
        ("quotas set producer_byte_rate=inf --user a", "is not a finite number"),
        ("quotas set producer_byte_rate=1 producer_byte_rate=2 --user a", "producer_byte_rate is given twice"),
        ("quotas set producer_byte_rate=1 --client-id=", "--client-id is empty"),
        ("acls create --topic a --allow-principal alice", "principal 'alice' has no type; expected TYPE:NAME"),
        ("acls list --principal alice", "principal 'alice' has no type"),
        ("acls delete --principal User: --yes", "principal 'User:' has no type"),
        ("acls create --topic a --allow-principal User:a --consumer", "--consumer needs --topic and --group"),
        ("acls create --group a --allow-principal User:a --producer", "--producer needs --topic or --transactional-id"),
        (
            "acls create --topic a --group g --allow-principal User:a --producer",
            "cannot be combined with resources of type group",
        ),
        ("acls create --topic a --allow-principal User:a --idempotent", "--idempotent needs --producer"),
        ("acls create --topic a --allow-principal User:a --producer --operation read", "omit --operation"),
        ("acls create --topic a --allow-principal User:a --deny-principal User:b --producer", "and --deny-principal"),
        ("topics reassign a:0=1 --cancel a:0", "a:0 has a new assignment and --cancel"),
        ("topics reassign a:0=1 a:0=2", "a:0 is given twice"),
        ("topics create a --config b=1 --config b=2", "b is given twice"),
        ("quotas delete --user nobody --yes", "user nobody has no quota at all"),
        ("users set bob", "specify --password-file"),
        ("topics elect --type unclean", "can lose records; specify the partitions"),
        ("topics reassign a:0=one", "must be node ids"),
        ("transactions abort missing:0 --start-offset 0", "without a terminal, confirm with --yes"),
    ],
)
def test_errors_name_missing_and_unknown_items(run, words, message):
    with pytest.raises(OptionError, match=message):
        run(words, stdin=b"")


def test_users_are_set_listed_and_deleted(run, tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.write_text("a password\n")
    secret.chmod(0o644)
    with pytest.raises(OptionError, match=r"has mode 0644.*chmod 600"):
        run(f"users set cara --password-file {secret}")
    assert rows_of(run, "users list") == []
    secret.chmod(0o600)
    run(f"users set cara --password-file {secret} --iterations 8192")
    monkeypatch.setenv("KAFKAFRAMES_NEW_PASSWORD", "x")
    run("users set cara --mechanism SCRAM-SHA-256")
    assert rows_of(run, "users list cara") == [
        {"user": "cara", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"user": "cara", "mechanism": "SCRAM-SHA-512", "iterations": 8192},
    ]
    run("users delete cara --yes")
    with pytest.raises(BrokerError, match="RESOURCE_NOT_FOUND"):
        run("users list cara")


def test_quotas_are_set_listed_and_deleted(run):
    run("quotas set producer_byte_rate=1024 consumer_byte_rate=2048 --user dora --client-id <default>")
    row = {"user": "dora", "client_id": "<default>", "ip": None, "setting": "consumer_byte_rate", "value": 2048.0}
    assert row in rows_of(run, "quotas list")
    assert [one["setting"] for one in rows_of(run, "quotas list --user dora")] == [
        "consumer_byte_rate",
        "producer_byte_rate",
    ]
    assert rows_of(run, "quotas list --user dora --client-id other") == []
    with pytest.raises(BrokerError, match=r"quotas of user dora, client-id <default> \(.*no_such_quota"):
        run("quotas set no_such_quota=1 --user dora --client-id <default>")
    run("quotas delete consumer_byte_rate --user dora --client-id <default> --yes")
    assert [one["setting"] for one in rows_of(run, "quotas list") if one["user"] == "dora"] == ["producer_byte_rate"]
    run("quotas delete --user dora --client-id <default> --yes")
    assert [one for one in rows_of(run, "quotas list") if one["user"] == "dora"] == []


def test_an_open_transaction_is_shown_but_not_as_hanging(run, servers):
    run("topics create tx-topic --partitions 1")
    with Producer(servers, transactional_id="tx-cli") as producer:
        producer.begin_transaction()
        producer.send("tx-topic", b"open", partition=0).result()
        assert "tx-cli" in [one["transactional_id"] for one in rows_of(run, "transactions list --state ongoing")]
        (row,) = rows_of(run, "transactions describe tx-cli")
        assert (row["state"], row["partitions"]) == ("Ongoing", "tx-topic-0")
        (row,) = rows_of(run, "transactions producers tx-topic:0")
        assert row["transaction_start_offset"] == 0
        assert rows_of(run, "transactions find-hanging tx-topic") == []
        with pytest.raises(OptionError, match="it is not hanging"):
            run("transactions abort tx-topic:0 --start-offset 0 --yes")
        with pytest.raises(OptionError, match="no open transaction that starts at offset 7"):
            run("transactions abort tx-topic:0 --start-offset 7 --yes")
        run("transactions terminate tx-cli --yes")
    (row,) = rows_of(run, "transactions producers tx-topic:0")
    assert row["transaction_start_offset"] is None


def test_leaders_replicas_and_reassignments_are_shown_and_changed(run):
    run("topics create placed --partitions 2")
    run("produce placed", stdin=b"one record\n")
    rows = rows_of(run, "topics describe placed --replicas")
    assert [(row["partition"], row["leader"]) for row in rows] == [(0, "yes"), (1, "yes")]
    assert sum(row["size_bytes"] for row in rows) > 0
    assert [row["elected"] for row in rows_of(run, "topics elect placed:0 placed:1")] == ["not needed", "not needed"]
    assert rows_of(run, "topics reassign") == []
    with pytest.raises(BrokerError, match="INVALID_REPLICA_ASSIGNMENT"):
        run("topics reassign placed:0=99")


def test_a_share_group_shows_its_start_offsets(run, servers):
    run("topics create shared --partitions 1")
    with Admin(servers) as admin:
        admin.alter_share_group_offsets("workers", {TopicPartition("shared", 0): 0})
    (row,) = rows_of(run, "groups describe workers")
    assert (row["topic"], row["committed"], row["log_end_offset"]) == ("shared", 0, 0)


def test_groups_without_a_description_are_listed_once(run, servers, monkeypatch):
    calls = []
    list_groups = Admin.list_groups

    def count(self, *arguments, **options):
        calls.append(arguments)
        return list_groups(self, *arguments, **options)

    run("topics create listed-once --partitions 1")
    names = [f"once-{number}" for number in range(4)]
    for name in names:
        run(f"groups reset {name} listed-once:0=0")
    monkeypatch.setattr(Admin, "list_groups", count)
    monkeypatch.setattr(groups, "_describe_group", lambda admin, name: None)
    assert {row["group"] for row in rows_of(run, f"groups describe {' '.join(names)}")} == set(names)
    assert len(calls) == 1
    assert set(names) <= {row["group"] for row in rows_of(run, "groups describe")}
    assert len(calls) == 2


def test_offsets_that_are_not_committed_are_not_deleted(run):
    run("topics create kept-offsets --partitions 2")
    run("groups reset keepers kept-offsets:0=0")
    for words in ("kept-offsets:1", "kept-offsets:0,1"):
        with pytest.raises(OptionError, match="group keepers has no committed offsets for kept-offsets-1; nothing was"):
            run(f"groups delete-offsets keepers {words}")
    assert len(rows_of(run, "groups describe keepers")) == 1
    run("groups delete-offsets keepers kept-offsets")
    assert "no committed offsets" in run("groups describe keepers").stderr


def test_offsets_outside_of_a_log_are_reported(run):
    run("topics create short-log --partitions 1")
    run("produce short-log", stdin=b"1\n2\n")
    result = run("groups reset far short-log:0=5")
    assert "short-log-0: offset 5 is outside of the log, which has offsets 0 to 2" in result.stderr
    assert "outside" not in run("groups reset far short-log:0=2").stderr


def test_subscriptions_of_client_metrics_are_settings(run):
    run("configs set client-metrics cli-metrics metrics=org.apache.kafka.producer. interval.ms=1000")
    assert {"kind": "client-metrics", "name": "cli-metrics"} in rows_of(run, "configs list client-metrics")
    values = {row["name"]: row["value"] for row in rows_of(run, "configs show client-metrics cli-metrics")}
    assert values == {"interval.ms": "1000", "metrics": "org.apache.kafka.producer."}
    run("configs set client-metrics cli-metrics metrics= interval.ms=")
    assert rows_of(run, "configs list client-metrics") == []


def test_groups_are_listed_by_type_and_state(run, servers):
    run("topics create kinds --partitions 1")
    run("groups reset plain-kind kinds:0=0")
    with Admin(servers) as admin:
        admin.alter_share_group_offsets("share-kind", {TopicPartition("kinds", 0): 0})
    names = {row["group"] for row in rows_of(run, "groups list --type share")}
    assert "share-kind" in names
    assert "plain-kind" not in names
    assert {"share-kind", "plain-kind"} <= {row["group"] for row in rows_of(run, "groups list --state Empty")}
    assert rows_of(run, "groups list --type share --state Stable") == []


def test_offsets_of_a_share_group_are_reset_and_deleted(run, servers):
    run("topics create share-reset --partitions 2")
    run("produce share-reset -p 0", stdin=b"1\n2\n3\n")
    with Admin(servers) as admin:
        admin.alter_share_group_offsets("resetters", {TopicPartition("share-reset", 0): 0})
    run("groups reset resetters share-reset:0=2")
    assert [row["committed"] for row in rows_of(run, "groups describe resetters")] == [2]
    assert "share-reset-0 would be at 1" in run("groups reset resetters --all-topics --shift-by -1 --dry-run").output
    run("groups reset resetters --topic share-reset --to-latest")
    assert [row["committed"] for row in rows_of(run, "groups describe resetters")] == [3, 0]
    with pytest.raises(OptionError, match="deleted for whole topics only"):
        run("groups delete-offsets resetters share-reset:0")
    run("groups delete-offsets resetters share-reset")
    assert rows_of(run, "groups describe resetters") == []
    (row,) = [one for one in rows_of(run, "groups list") if one["group"] == "resetters"]
    assert row["type"] == "share"


def test_offsets_of_an_active_share_group_are_not_reset(run, servers):
    run("topics create share-busy --partitions 1")
    with ShareConsumer(servers, group_id="busy") as consumer:
        consumer.subscribe("share-busy")
        consumer.poll(100)
        with pytest.raises(OptionError, match="group busy is active"):
            run("groups reset busy share-busy:0=0")


def test_a_preferred_leader_is_elected_again():
    with Broker(cluster=3) as broker:

        def run(words):
            return ask_or_raise(*words.split(), "-b", broker.bootstrap_servers)

        run("topics create elections --partitions 1 --replication-factor 3")
        (row,) = rows_of(run, "topics describe elections")
        preferred_leader = row["leader"]
        other = next(int(number) for number in row["replicas"].split(",") if int(number) != preferred_leader)
        broker.move_leader("elections", 0, other)
        assert [row["elected"] for row in rows_of(run, "topics elect")] == ["yes"]
        (row,) = rows_of(run, "topics describe elections")
        assert row["leader"] == preferred_leader
        assert rows_of(run, "topics elect") == []
        run(f"topics reassign elections:0={other}")
        (row,) = rows_of(run, "topics describe elections --replicas")
        assert (row["broker"], row["leader"]) == (other, "yes")
