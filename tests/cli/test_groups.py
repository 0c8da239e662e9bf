"""``kafkaframes groups``: committed offsets and assignments."""

import json

import pytest
from tests.cli.calling import ask
from tests.interop.coordinator_script import ScriptPlayer
from tests.interop.streams_script import SETTINGS, StreamsPlayer

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, ShareConsumer
from kafkaframes.errors import OptionError


def test_committed_offsets_of_a_group_are_shown(run):
    run("topics create watched --partitions 2")
    run("produce watched -p 1", stdin=b"a\nb\nc\n")
    run("groups reset watchers watched:1=1")
    (row,) = json.loads(run("groups describe watchers --json").output)
    assert (row["group"], row["topic"], row["partition"]) == ("watchers", "watched", 1)
    assert (row["committed"], row["log_end_offset"], row["lag"], row["consumer_id"]) == (1, 3, 2, None)
    assert run("consume watched -g watchers -c 2").output == "b\nc\n"
    assert [one["log_end_offset"] for one in json.loads(run("topics describe watched --json").output)] == [0, 3]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_assignments_of_members_are_shown(run, servers, protocol):
    run(f"topics create read-{protocol} --partitions 2")
    settings = {"group_id": f"readers-{protocol}", "group_protocol": protocol, "client_id": "me"}
    with Consumer(servers, **settings) as consumer:
        consumer.subscribe(f"read-{protocol}")
        consumer.poll(1_000)
        rows = json.loads(run(f"groups describe readers-{protocol} --json").output)
        assert [(row["partition"], row["client_id"]) for row in rows] == [(0, "me"), (1, "me")]
        (member,) = json.loads(run(f"groups describe readers-{protocol} --members --json").output)
        assert member["partitions"] == 2


@pytest.mark.parametrize("option", ["", "--members", "--state"])
def test_a_missing_group_is_reported(run, option):
    with pytest.raises(OptionError, match="group nobody does not exist"):
        run(f"groups describe nobody {option}")


@pytest.fixture
def streams_broker():
    """A broker with a streams group of one member, and with a committed offset for a partition of its source topic."""
    with Broker(config=SETTINGS) as broker:
        broker.create_topic("in", 2)
        streams_broker = StreamsPlayer(ScriptPlayer("127.0.0.1", broker.port))
        heartbeat = streams_broker.join("join", "counts")
        streams_broker.send_heartbeat("ready", "counts", "m", heartbeat.member_epoch)
        yield broker
        streams_broker.player.close()


def groups(broker, command):
    result = ask("groups", *command.split(), "-b", broker.bootstrap_servers)
    if result.exception is not None:
        raise result.exception
    return result.output


def test_a_streams_group_has_its_type_state_members_and_tasks(streams_broker):
    (group_row,) = json.loads(groups(streams_broker, "list --json"))
    assert (group_row["group"], group_row["type"]) == ("counts", "streams")
    (state,) = json.loads(groups(streams_broker, "describe counts --state --json"))
    assert (state["state"].lower(), state["members"]) == (group_row["state"].lower(), 1)
    (member,) = json.loads(groups(streams_broker, "describe counts --members --json"))
    assert (member["member"], member["process"]) == ("m", "process-m")
    assert (member["active"], member["standby"], member["warmup"]) == ("0:[0,1];1:[0,1]", "", "")
    rows = json.loads(groups(streams_broker, "describe counts --json"))
    read = {(row["topic"], row["partition"]): row["consumer_id"] for row in rows}
    assert read == {(topic, number): "m" for topic in ("counts-rep", "in") for number in range(2)}
    assert [row["log_end_offset"] for row in rows] == [0, 0, 0, 0]


def test_offsets_of_an_active_streams_group_are_not_reset(streams_broker):
    with pytest.raises(OptionError, match=r"group counts is active .*1 member"):
        groups(streams_broker, "reset counts in:0=0")


def test_groups_of_every_type_are_described_at_once(streams_broker):
    """Members of streams groups have other columns, so the text has a separate table for them."""
    with Admin(streams_broker.bootstrap_servers) as admin:
        admin.alter_group_offsets("stored", {("in", 0): 0})
    settings = {"group_id": "shared", "fetch_max_wait_ms": 100}
    with (
        Consumer(streams_broker.bootstrap_servers, group_id="classic") as consumer,
        ShareConsumer(streams_broker.bootstrap_servers, **settings) as share_consumer,
    ):
        consumer.subscribe("in")
        share_consumer.subscribe("in")
        consumer.poll(1_000)
        streams_broker.wait_for(lambda: len(share_consumer.assignment()) == 2, what="the share group's assignment")
        share_consumer.poll(200)
        members = groups(streams_broker, "describe --members")
        rows = json.loads(groups(streams_broker, "describe --members --json"))
        states = {row["group"]: row for row in json.loads(groups(streams_broker, "describe --state --json"))}
    assert {(row["group"], row.get("partitions")) for row in rows} == {("classic", 2), ("counts", None), ("shared", 2)}
    headers = [line.split() for line in members.splitlines() if line.startswith("group ")]
    assert len({tuple(header) for header in headers}) == 2
    assert {name: row["members"] for name, row in states.items()} == {
        "classic": 1, "counts": 1, "shared": 1, "stored": 0
    }  # fmt: skip
    assert (states["shared"]["state"], states["shared"]["assignment"]) == ("Stable", "simple")
