"""A script for a broker's coordinators: valid and invalid requests of groups, offsets and transactions at each version.

``broker_script`` plays independent requests. Here each step depends on earlier responses: member ids, generations,
producer ids and epochs. A scenario runs against one broker and yields a list of (label, response), with names instead
of ids that differ between brokers. The test compares two such lists.
"""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from kafkaframes.protocol.framing import ClientConnection
from kafkaframes.protocol.messages import message

SUBSCRIPTION = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")
CLOSED = "CLOSED"
_SECONDS = 15.0
_UNKNOWN_TOPIC = "gone"


class ScriptPlayer:
    """One broker, to which raw requests are sent; its responses are recorded with names instead of its ids."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._peer: tuple[socket.socket, ClientConnection] | None = None
        self.names: dict[str, str] = {}
        self.answers: list[tuple[str, str]] = []
        self.topic_id: UUID | None = None
        self._times: Counter[str] = Counter()

    def close(self) -> None:
        if self._peer is not None:
            self._peer[0].close()
            self._peer = None

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        """Send a request; return the response's body, or CLOSED."""
        if self._peer is None:
            self._peer = socket.create_connection(self._address, _SECONDS), ClientConnection(client_id="test")
        peer, connection = self._peer
        connection.send_request(message(f"{api}Request")(**fields), version)
        peer.sendall(connection.data_to_send())
        while (frame := connection.next_response()) is None:
            data = peer.recv(65536)
            if not data:
                self.close()
                return CLOSED
            connection.receive_data(data)
        return frame.body

    def record_answer(self, label: str, answer: Any) -> Any:
        """Record a response."""
        text = json.dumps(plain(answer), sort_keys=True)
        for value, name in sorted(self.names.items(), key=lambda pair: -len(pair[0])):
            text = text.replace(value, name)
        self._times[label] += 1
        times = self._times[label]
        self.answers.append((label if times == 1 else f"{label} ({times})", text))
        return answer

    def request(self, label: str, api: str, version: int, **fields: Any) -> Any:
        """Send a request, and record the response."""
        return self.record_answer(f"{api} v{version} {label}", self.ask(api, version, **fields))

    def wait_until(self, is_there: Callable[[Any], bool], api: str, version: int, **fields: Any) -> Any:
        """Repeat a request until the response meets a condition, because a broker may have just started."""
        end = time.monotonic() + 60
        while not is_there(answer := self.ask(api, version, **fields)):
            assert time.monotonic() < end, answer
            time.sleep(0.1)
        return answer


def plain(value: Any) -> Any:
    """Return a message as JSON values."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, UUID):
        return str(value)
    if hasattr(value, "_fields"):
        return {info.attribute: plain(getattr(value, info.attribute)) for info in value._fields}
    return value


def prepare(player: ScriptPlayer) -> None:
    """Create the topic, and wait until both coordinators are available."""

    def is_right(answer: Any) -> bool:
        return answer != CLOSED and answer.error_code == 0

    topic = message("CreateTopicsRequest").CreatableTopic(name="orders", num_partitions=2, replication_factor=1)
    creation = player.wait_until(lambda answer: answer != CLOSED, "CreateTopics", 5, topics=[topic], timeout_ms=20_000)
    assert creation.topics[0].error_code in (0, 36), creation
    for kind, key in ((0, "g"), (1, "tx")):
        player.wait_until(is_right, "FindCoordinator", 1, key=key, key_type=kind)
    player.wait_until(is_right, "OffsetFetch", 7, group_id="g", topics=None)
    topic_row = message("MetadataRequest").MetadataRequestTopic(name="orders")
    player.topic_id = player.ask("Metadata", 12, topics=[topic_row]).topics[0].topic_id
    player.names[str(player.topic_id)] = "TOPIC"


# ------------------------------------------------------------------------------------------------------ groups


def join_fields(**changes: Any) -> dict[str, Any]:
    protocol = message("JoinGroupRequest").JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)
    fields = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [protocol],
    }
    return fields | changes


def play_invalid_joins(player: ScriptPlayer) -> None:
    for version in range(10):
        player.request("unknown member", "JoinGroup", version, **join_fields(member_id="x"))
        player.request("no group id", "JoinGroup", version, **join_fields(group_id=""))
        player.request("session", "JoinGroup", version, **join_fields(session_timeout_ms=1, group_id=f"s{version}"))
        player.request("no protocols", "JoinGroup", version, **join_fields(protocols=[], group_id=f"p{version}"))
        player.request("no type", "JoinGroup", version, **join_fields(protocol_type="", group_id=f"t{version}"))


def play_group_life(player: ScriptPlayer, version: int) -> None:
    group = f"group-{version}"
    member_id = join_group(player, version, group)
    sync_group(player, min(version, 5), group, member_id)
    heartbeats(player, min(version, 4), group, member_id)
    player.request("stable", "DescribeGroups", min(version, 5), groups=[group])
    other = message("JoinGroupRequest").JoinGroupRequestProtocol(name="other", metadata=b"")
    player.request("incompatible", "JoinGroup", version, **join_fields(group_id=group, protocols=[other]))
    player.request("other type", "JoinGroup", version, **join_fields(group_id=group, protocol_type="connect"))
    commits(player, min(max(version, 2), 8), group, member_id)
    fetches(player, min(max(version, 1), 9), group, member_id)
    deletes(player, min(version, 2), group, f"simple-{min(max(version, 2), 8)}-{group}")
    leaves(player, min(version, 5), group, member_id)
    player.request("empty", "DescribeGroups", min(version, 5), groups=[group])
    player.request("empty", "Heartbeat", min(version, 4), group_id=group, generation_id=2, member_id=member_id)
    player.request("empty", "JoinGroup", version, **join_fields(group_id=group, member_id=member_id))
    player.request("now", "DeleteGroups", min(version, 2), groups_names=[group])


def join_group(player: ScriptPlayer, version: int, group: str) -> str:
    answer = player.ask("JoinGroup", version, **join_fields(group_id=group))
    player.names[answer.member_id] = f"MEMBER-{group}"
    player.record_answer(f"JoinGroup v{version} {group}", answer)
    if answer.error_code:
        answer = player.request(
            "with id", "JoinGroup", version, **join_fields(group_id=group, member_id=answer.member_id)
        )
    member_id: str = answer.member_id
    player.names[member_id] = f"MEMBER-{group}"
    player.request("completing", "DescribeGroups", min(version, 5), groups=[group])
    player.request("again", "JoinGroup", version, **join_fields(group_id=group, member_id=member_id))
    fields = {"generation_id_or_member_epoch": 1, "member_id": member_id}
    player.request("completing", "OffsetCommit", 8, group_id=group, topics=commit_topics(), **fields)
    return member_id


def sync_group(player: ScriptPlayer, version: int, group: str, member_id: str) -> None:
    names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    fields = {"group_id": group, "generation_id": 1, "member_id": member_id, **names}
    wrong = [{"generation_id": 9}, {"member_id": "x"}, {"group_id": "none"}, {"group_id": ""}]
    wrong += [{"protocol_type": "connect"}, {"protocol_name": "x"}, {"protocol_name": None}] if version >= 5 else []
    for changes in wrong:
        player.request(f"{group} {changes}", "SyncGroup", version, **fields | changes)
    assignment_type = message("SyncGroupRequest").SyncGroupRequestAssignment
    assignments = [
        assignment_type(member_id=member_id, assignment=b"mine"),
        assignment_type(member_id="stranger", assignment=b""),
    ]
    player.request(group, "SyncGroup", version, assignments=assignments, **fields)
    player.request(f"{group} again", "SyncGroup", version, **fields)


def heartbeats(player: ScriptPlayer, version: int, group: str, member_id: str) -> None:
    fields = {"group_id": group, "generation_id": 1, "member_id": member_id}
    wrong: list[dict[str, Any]] = [{"generation_id": 3}, {"member_id": "x"}, {"group_id": "none"}, {"group_id": ""}]
    wrong += [{"group_instance_id": "i"}] if version >= 3 else []
    for changes in ({}, *wrong):
        player.request(f"{group} {changes}", "Heartbeat", version, **fields | changes)


def commit_topics(*, metadata: str = "m", indexes: tuple[int, ...] = (0, 1), name: str = "orders") -> list[Any]:
    request_type = message("OffsetCommitRequest")
    rows = [
        request_type.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=index + 3, committed_metadata=metadata
        )
        for index in indexes
    ]
    return [request_type.OffsetCommitRequestTopic(name=name, partitions=rows)]


def commits(player: ScriptPlayer, version: int, group: str, member_id: str) -> None:
    commit_fields = {
        "group_id": group,
        "generation_id_or_member_epoch": 1,
        "member_id": member_id,
        "topics": commit_topics(),
    }
    simple = f"simple-{version}-{group}"
    nobody = {"generation_id_or_member_epoch": -1, "member_id": ""}
    for label, changes in {
        "right": {},
        "generation": {"generation_id_or_member_epoch": 5},
        "member": {"member_id": "x"},
        "nobody": nobody,
        "no group": {"group_id": "none", "member_id": "x"},
        "simple": {"group_id": simple, **nobody},
        "no group id": {"group_id": "", **nobody},
        "long metadata": {"group_id": simple, **nobody, "topics": commit_topics(metadata="x" * 5_000)},
        "no partition": {"group_id": simple, **nobody, "topics": commit_topics(indexes=(0, 7))},
        "no topic": {"group_id": simple, **nobody, "topics": commit_topics(name=_UNKNOWN_TOPIC)},
    }.items():
        player.request(f"{group} {label}", "OffsetCommit", version, **commit_fields | changes)


def fetches(player: ScriptPlayer, version: int, group: str, member_id: str) -> None:
    request_type = message("OffsetFetchRequest")
    requested_partitions = (("orders", [0, 1, 5]), (_UNKNOWN_TOPIC, [0]))
    for name in (group, "none"):
        if version < 8:
            topics = [
                request_type.OffsetFetchRequestTopic(name=topic, partition_indexes=some)
                for topic, some in requested_partitions
            ]
            player.request(name, "OffsetFetch", version, group_id=name, topics=topics)
            if version >= 2:
                player.request(f"{name} all", "OffsetFetch", version, group_id=name, topics=None)
            continue
        topics = [
            request_type.OffsetFetchRequestTopics(name=topic, partition_indexes=some)
            for topic, some in requested_partitions
        ]
        for fetch_member_id, epoch in (
            ((None, -1), ("x", 1), (member_id, 1), (None, 3)) if version >= 9 else ((None, -1),)
        ):
            fields = {"member_id": fetch_member_id, "member_epoch": epoch} if version >= 9 else {}
            group_row = request_type.OffsetFetchRequestGroup(group_id=name, topics=topics, **fields)
            player.request(
                f"{name} {player.names.get(fetch_member_id or '', fetch_member_id)} {epoch}",
                "OffsetFetch",
                version,
                groups=[group_row],
            )


def deletes(player: ScriptPlayer, version: int, group: str, simple: str) -> None:
    request_type = message("OffsetDeleteRequest")
    rows = [request_type.OffsetDeleteRequestPartition(partition_index=one) for one in (0, 1, 9)]
    topics = [request_type.OffsetDeleteRequestTopic(name="orders", partitions=rows)]
    for name in (group, "none", "", simple):
        player.request(name, "OffsetDelete", 0, group_id=name, topics=topics)
    for name in (group, "none"):
        player.request(name, "DeleteGroups", version, groups_names=[name])


def leaves(player: ScriptPlayer, version: int, group: str, member_id: str) -> None:
    if version < 3:
        for name, leaving_member_id in ((group, "x"), ("none", "x"), ("", "x"), (group, member_id)):
            player.request(
                f"{name} {player.names.get(leaving_member_id, leaving_member_id)}",
                "LeaveGroup",
                version,
                group_id=name,
                member_id=leaving_member_id,
            )
        return
    identity_type = message("LeaveGroupRequest").MemberIdentity
    many = [
        identity_type(member_id="x"),
        identity_type(member_id="", group_instance_id="i"),
        identity_type(member_id=member_id),
    ]
    for name, members in (("none", many[:1]), ("", many[:1]), (group, []), (group, many)):
        player.request(f"{name} {len(members)}", "LeaveGroup", version, group_id=name, members=members)


def play_static_members(player: ScriptPlayer) -> None:
    first = player.ask("JoinGroup", 9, **join_fields(group_id="static", group_instance_id="i"))
    player.names[first.member_id] = "STATIC-1"
    player.record_answer("static", first)
    assignment = message("SyncGroupRequest").SyncGroupRequestAssignment(member_id=first.member_id, assignment=b"x")
    old = {"group_id": "static", "member_id": first.member_id, "group_instance_id": "i"}
    player.request("static", "SyncGroup", 4, generation_id=1, assignments=[assignment], **old)
    for number, version in ((2, 9), (3, 5)):
        rejoin_answer = player.ask("JoinGroup", version, **join_fields(group_id="static", group_instance_id="i"))
        player.names[rejoin_answer.member_id] = f"STATIC-{number}"
        player.record_answer(f"static back v{version}", rejoin_answer)
    player.request("static old", "Heartbeat", 4, generation_id=1, **old)
    player.request("static old", "SyncGroup", 4, generation_id=1, **old)
    player.request("static old", "JoinGroup", 9, **join_fields(**old))
    player.request("static unknown", "JoinGroup", 9, **join_fields(**old | {"group_instance_id": "j"}))
    player.request("", "ListGroups", 4, states_filter=["Stable"])
    player.request("", "ListGroups", 5, types_filter=["classic"], states_filter=["STABLE"])


# ------------------------------------------------------------------------------------------------------ transactions


class TransactionSteps:
    """Requests of a transactional id; recorded epochs are relative to the first epoch."""

    def __init__(self, player: ScriptPlayer) -> None:
        self.player = player
        first = player.wait_until(lambda answer: answer.error_code == 0, "InitProducerId", 4, **self._init())
        self.producer_id, self.base = first.producer_id, first.producer_epoch

    @staticmethod
    def _init(**changes: Any) -> dict[str, Any]:
        return {"transactional_id": "tx", "transaction_timeout_ms": 60_000} | changes

    def _note_answer(self, label: str, answer: Any) -> Any:
        if answer == CLOSED:
            return self.player.record_answer(label, answer)
        epoch = answer.producer_epoch - self.base if answer.producer_epoch >= 0 else -1
        self.player.record_answer(label, [answer.error_code, answer.producer_id == self.producer_id, epoch])
        self.settle()
        return answer

    def init(self, label: str, version: int = 4, **changes: Any) -> Any:
        return self._note_answer(f"init {label}", self.player.ask("InitProducerId", version, **self._init(**changes)))

    def settle(self) -> Any:
        """Wait until the transaction markers are written. Return the coordinator's description."""
        end = time.monotonic() + _SECONDS
        while True:
            (one,) = self.player.ask("DescribeTransactions", 0, transactional_ids=["tx"]).transaction_states
            if not one.transaction_state.startswith("Prepare") or time.monotonic() > end:
                return one
            time.sleep(0.05)

    def state(self, label: str) -> int:
        one = self.settle()
        topics = [(topic.topic, topic.partitions) for topic in one.topics]
        self.player.record_answer(f"state {label}", [one.transaction_state, one.producer_epoch - self.base, topics])
        epoch: int = one.producer_epoch
        return epoch

    def add(self, label: str, version: int, epoch: int, **changes: Any) -> None:
        topic_type = message("AddPartitionsToTxnRequest").AddPartitionsToTxnTopic
        name, indexes = changes.pop("name", "orders"), changes.pop("indexes", [0])
        fields = {
            "v3_and_below_transactional_id": "tx",
            "v3_and_below_producer_id": self.producer_id,
            "v3_and_below_producer_epoch": epoch,
            "v3_and_below_topics": [topic_type(name=name, partitions=indexes)],
        }
        self.player.request(label, "AddPartitionsToTxn", version, **fields | changes)

    def end(self, label: str, version: int, epoch: int, **changes: Any) -> Any:
        fields = {"transactional_id": "tx", "producer_id": self.producer_id, "producer_epoch": epoch, "committed": True}
        return self._note_answer(f"end v{version} {label}", self.player.ask("EndTxn", version, **fields | changes))


WRONG_PRODUCERS = (
    ("id", "transactional_id", "none"),
    ("producer", "producer_id", 99_999),
    ("empty", "transactional_id", ""),
)


def play_invalid_transactions(one: TransactionSteps) -> None:
    for version in range(4):
        one.add("no partition", version, one.base, indexes=[0, 9])
        one.add("no topic", version, one.base, name=_UNKNOWN_TOPIC)
        one.add("epoch", version, one.base + 5)
        for label, field, value in WRONG_PRODUCERS:
            one.add(label, version, one.base, **{f"v3_and_below_{field}": value})
    for version in range(5):
        one.end("nothing", version, one.base)
        one.end("nothing, abort", version, one.base, committed=False)
        one.end("epoch", version, one.base + 5)
        for label, field, value in WRONG_PRODUCERS:
            one.end(label, version, one.base, **{field: value})
    for version in range(5):
        one.init("too long", version, transaction_timeout_ms=900_001)
        one.init("no time", version, transaction_timeout_ms=0)
        one.init("empty", version, transactional_id="")
    one.init("epoch alone", 4, producer_epoch=3)
    one.init("id alone", 4, producer_id=one.producer_id)


def play_transaction_ends(one: TransactionSteps) -> None:
    for commit in (True, False):
        one.add("begin", 3, one.base, indexes=[0, 1])
        one.state("open")
        one.end("first", 3, one.base, committed=commit)
        one.state("ended")
        one.end("again", 3, one.base, committed=commit)
        one.end("other", 3, one.base, committed=not commit)
    one.add("left open", 3, one.base)
    one.init("fences")
    one.state("fenced")
    one.add("old", 3, one.base)
    one.end("old", 3, one.base)
    now = one.init("after").producer_epoch
    producer_fields = {"producer_id": one.producer_id}
    one.init("bump", producer_epoch=now, **producer_fields)
    one.init("bump again", producer_epoch=now, **producer_fields)
    one.init("bump stale", producer_epoch=now - 1, **producer_fields)
    one.init("bump of another", producer_epoch=0, producer_id=99_999)


def play_ends_of_version_2(one: TransactionSteps) -> None:
    epoch = one.state("before version 2")
    one.end("nothing", 5, epoch)
    answer = one.end("nothing, abort", 5, epoch, committed=False)
    if answer == CLOSED:
        return
    one.end("abort again", 5, epoch, committed=False)
    one.end("commit of it", 5, epoch)
    now = answer.producer_epoch
    one.add("begin", 3, now)
    then = one.end("commit", 5, now).producer_epoch
    one.end("commit again", 5, now)
    one.end("abort of it", 5, now, committed=False)
    one.end("nothing more", 5, then)
    one.end("stale", 5, epoch)
    one.state("after version 2")


def play_transaction_offsets(one: TransactionSteps) -> None:
    player, epoch = one.player, one.state("before offsets")
    producer_fields = {
        "transactional_id": "tx",
        "group_id": "tg",
        "producer_id": one.producer_id,
        "producer_epoch": epoch,
    }
    request_type = message("TxnOffsetCommitRequest")
    rows = [request_type.TxnOffsetCommitRequestPartition(partition_index=i, committed_offset=4) for i in (0, 8)]
    topics = [request_type.TxnOffsetCommitRequestTopic(name="orders", partitions=rows)]
    for version in range(5):
        player.request("not added", "TxnOffsetCommit", version, topics=topics, **producer_fields)
    for version in range(4):
        for label, field, value in (*WRONG_PRODUCERS, ("epoch", "producer_epoch", epoch + 5)):
            player.request(label, "AddOffsetsToTxn", version, **producer_fields | {field: value})
    player.request("", "AddOffsetsToTxn", 3, **producer_fields)
    player.request("", "TxnOffsetCommit", 3, topics=topics, **producer_fields)
    stranger = {"member_id": "x", "generation_id_or_member_epoch": 1}
    player.request("stranger", "TxnOffsetCommit", 3, topics=topics, **producer_fields | stranger)
    topic_row = message("OffsetFetchRequest").OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1])
    for stable in (True, False):
        player.request(f"stable {stable}", "OffsetFetch", 7, group_id="tg", topics=[topic_row], require_stable=stable)
    one.end("offsets", 3, epoch)
    time.sleep(0.5)
    player.request("ended", "OffsetFetch", 7, group_id="tg", topics=[topic_row], require_stable=True)
    player.request("odd", "ListTransactions", 1, state_filters=["Odd"])
    player.request("none", "DescribeTransactions", 0, transactional_ids=["none", ""])


# ------------------------------------------------------------------------------------------------------ consumer groups

_QUIET = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None, "topic_partitions": None}


def send_heartbeat(player: ScriptPlayer, label: str, **changes: Any) -> Any:
    fields = {
        "group_id": "cg",
        "member_id": "m1",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
    }
    if changes.get("member_epoch", 0):
        fields |= _QUIET
    answer = player.ask("ConsumerGroupHeartbeat", 1, **fields | changes)
    if answer != CLOSED and answer.assignment is not None:
        for row in answer.assignment.topic_partitions:
            row.partitions.sort()
    return player.record_answer(f"beat {label}", answer)


def play_invalid_heartbeats(player: ScriptPlayer) -> None:
    owned_partitions = [
        message("ConsumerGroupHeartbeatRequest").TopicPartitions(topic_id=player.topic_id, partitions=[0])
    ]
    for changes in (
        {"member_epoch": 3},
        {"member_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"topic_partitions": owned_partitions},
        {"subscribed_topic_names": None},
        {"instance_id": ""},
        {"rack_id": ""},
        {"member_epoch": -2},
        {"member_epoch": -3},
        {"server_assignor": "best"},
        {"group_id": ""},
    ):
        send_heartbeat(player, " ".join(changes), **changes)


def play_consumer_groups(player: ScriptPlayer) -> None:
    play_invalid_heartbeats(player)
    joined_now = send_heartbeat(player, "join")
    if joined_now == CLOSED:
        return
    epoch = joined_now.member_epoch
    send_heartbeat(player, "quiet", member_epoch=epoch)
    send_heartbeat(player, "ahead", member_epoch=epoch + 5)
    send_heartbeat(player, "join again")
    send_heartbeat(player, "stranger", member_id="zz", member_epoch=1)
    player.request("consumer group", "DescribeGroups", 6, groups=["cg"])
    player.request("consumer group", "Heartbeat", 4, group_id="cg", generation_id=1, member_id="m1")
    other = join_fields(group_id="cg", protocol_type="connect")
    player.request("consumer group", "JoinGroup", 9, **other)
    for version, requested_member_id, member_epoch in (
        (9, "m1", 0),
        (8, "m1", epoch),
        (9, "zz", epoch),
        (9, "", -1),
        (9, "m1", epoch),
    ):
        fields = {
            "member_id": requested_member_id,
            "generation_id_or_member_epoch": member_epoch,
            "topics": commit_topics(),
        }
        player.request(
            f"cg {requested_member_id} {member_epoch - epoch}", "OffsetCommit", version, group_id="cg", **fields
        )
    player.request("cg", "DeleteGroups", 2, groups_names=["cg"])
    send_heartbeat(player, "leave", member_epoch=-1)
    send_heartbeat(player, "leave again", member_epoch=-1)
    static = {"group_id": "scg", "instance_id": "i"}
    send_heartbeat(player, "static", **static)
    send_heartbeat(player, "static taken", member_id="m9", **static)
    send_heartbeat(player, "static away", member_epoch=-2, **static)
    send_heartbeat(player, "static back", member_id="m9", **static)
    send_heartbeat(player, "static old", member_epoch=epoch, **static)
    send_heartbeat(player, "static unknown", member_id="m9", member_epoch=epoch, **static | {"instance_id": "j"})


def play(host: str, port: int) -> list[tuple[str, str]]:
    """Play all scenarios against one broker. Return the broker's response for each step."""
    player = ScriptPlayer(host, port)
    prepare(player)
    play_invalid_joins(player)
    for version in range(10):
        play_group_life(player, version)
    play_static_members(player)
    one = TransactionSteps(player)
    for part in (play_invalid_transactions, play_transaction_ends, play_ends_of_version_2, play_transaction_offsets):
        part(one)
    play_consumer_groups(player)
    player.close()
    return player.answers


def differences(ours: list[tuple[str, str]], theirs: list[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield the label and both responses of each step that differs."""
    our_answers = dict(ours)
    for label, text in theirs:
        if our_answers.get(label) != text:
            yield label, our_answers.get(label, "not played"), text
