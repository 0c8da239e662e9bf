"""``kafkaframes acls``, ``users``, ``quotas`` and ``transactions`` against the embedded broker."""

import json

import pytest

from kafkaframes.client import Admin, Producer, TopicPartition
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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("acls create --allow-principal User:a", "name a resource"),
        ("acls create --topic a", "name a principal"),
        ("acls create --topic a --allow-principal User:a --operation reed", "operation 'reed' does not exist"),
        ("acls delete --yes", "all access rules would be deleted"),
        ("quotas set producer_byte_rate=1", "name an entity"),
        ("quotas set producer_byte_rate=many --user a", "is not a number"),
        ("quotas delete --user nobody --yes", "user nobody has no quota at all"),
        ("users set bob", "give --password-file"),
        ("topics elect --type unclean", "can lose records: name the partitions"),
        ("topics reassign a:0=one", "must be node ids"),
        ("transactions abort missing:0 --start-offset 0", "without a terminal, --yes"),
    ],
)
def test_what_is_missing_or_unknown_is_named(run, words, message):
    with pytest.raises(OptionError, match=message):
        run(words, stdin=b"")


def test_users_are_set_listed_and_deleted(run, tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.write_text("a password\n")
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
    run("quotas delete consumer_byte_rate --user dora --client-id <default> --yes")
    assert [one["setting"] for one in rows_of(run, "quotas list") if one["user"] == "dora"] == ["producer_byte_rate"]
    run("quotas delete --user dora --client-id <default> --yes")
    assert [one for one in rows_of(run, "quotas list") if one["user"] == "dora"] == []


def test_an_open_transaction_is_shown_and_is_not_taken_for_a_hanging_one(run, servers):
    run("topics create tx-topic --partitions 1")
    with Producer(servers, transactional_id="tx-cli") as producer:
        producer.begin_transaction()
        producer.send("tx-topic", b"open", partition=0).result()
        assert "tx-cli" in [one["transactional_id"] for one in rows_of(run, "transactions list --state Ongoing")]
        (row,) = rows_of(run, "transactions describe tx-cli")
        assert (row["state"], row["partitions"]) == ("Ongoing", "tx-topic-0")
        (row,) = rows_of(run, "transactions producers tx-topic:0")
        assert row["transaction_start_offset"] == 0
        assert rows_of(run, "transactions find-hanging tx-topic") == []
        with pytest.raises(OptionError, match="it does not hang"):
            run("transactions abort tx-topic:0 --start-offset 0 --yes")
        with pytest.raises(OptionError, match="no open transaction that starts at offset 7"):
            run("transactions abort tx-topic:0 --start-offset 7 --yes")
        run("transactions terminate tx-cli --yes")
    (row,) = rows_of(run, "transactions producers tx-topic:0")
    assert row["transaction_start_offset"] is None


def test_leaders_replicas_and_reassignments(run):
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
