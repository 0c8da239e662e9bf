"""A script for streams groups (KIP-1071) that sends valid and invalid heartbeats and records each response.

Lists are compared without their order, because Kafka's have the order of hash maps.
"""

from __future__ import annotations

import json
import time
from typing import Any

from tests.interop.coordinator_script import ScriptPlayer, plain

from kafkaframes.protocol.messages import message

REQUEST: Any = message("StreamsGroupHeartbeatRequest")
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "5000",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.heartbeat.interval.ms": "5000",
    "group.streams.initial.rebalance.delay.ms": "0",
}
_DELAY_SECONDS = 1.0  # wait because Kafka's coordinator sees topics with a delay


def subtopology(name: str, sources: str = "", **more: Any) -> Any:
    """Return a subtopology. Internal topics are written as ``name`` or ``name:partitions``."""
    internal = {"state_changelog_topics": more.get("logs", ""), "repartition_source_topics": more.get("reads", "")}
    groups = more.get("together", ())
    return REQUEST.Subtopology(
        subtopology_id=name,
        source_topics=sources.split(),
        source_topic_regex=[more["regex"]] if "regex" in more else [],
        repartition_sink_topics=more.get("writes", "").split(),
        copartition_groups=[
            REQUEST.CopartitionGroup(
                source_topics=list(sources), source_topic_regex=[], repartition_source_topics=list(repartition)
            )
            for sources, repartition in groups
        ],
        **{key: [_internal(*text.split(":")) for text in texts.split()] for key, texts in internal.items()},
    )


def _internal(name: str, partitions: str = "0") -> Any:
    configs = [REQUEST.KeyValue(key="cleanup.policy", value="compact")] if "log" in name else []
    return REQUEST.TopicInfo(name=name, partitions=int(partitions), replication_factor=0, topic_configs=configs)


def topology(*subtopologies: Any, epoch: int = 0) -> Any:
    return REQUEST.Topology(epoch=epoch, subtopologies=list(subtopologies))


def counting(group: str) -> Any:
    return topology(
        subtopology("0", "in", writes=f"{group}-rep"), subtopology("1", reads=f"{group}-rep", logs=f"{group}-log")
    )


def owned_tasks(active: dict[str, list[int]], standby: dict[str, list[int]] | None = None) -> dict[str, Any]:
    def rows(tasks: dict[str, list[int]]) -> list[Any]:
        return [REQUEST.TaskIds(subtopology_id=name, partitions=indexes) for name, indexes in tasks.items()]

    return {"active_tasks": rows(active), "standby_tasks": rows(standby or {}), "warmup_tasks": []}


class StreamsPlayer:
    """One broker, and its recorded responses to members of streams groups."""

    def __init__(self, player: ScriptPlayer) -> None:
        self.player = player

    def record_answer(self, label: str, answer: Any) -> None:
        """Record a response, without the order of its lists."""
        self.player.answers.append((f"{len(self.player.answers)} {label}", json.dumps(_sort_nested(plain(answer)))))

    def send_heartbeat(self, label: str, group: str, member: str, epoch: int, **changes: Any) -> Any:
        fields = {
            "group_id": group,
            "member_id": member,
            "member_epoch": epoch,
            "endpoint_information_epoch": 0,
            "rebalance_timeout_ms": -1,
            **dict.fromkeys(("instance_id", "rack_id", "topology", "active_tasks", "standby_tasks", "warmup_tasks")),
            **dict.fromkeys(("process_id", "user_endpoint", "client_tags", "task_offsets", "task_end_offsets")),
        }
        answer = self.player.ask("StreamsGroupHeartbeat", 0, **fields | changes)
        self.record_answer(f"{label} {group} {member} {epoch}", answer)
        return answer

    def join(self, label: str, group: str, member: str = "m", **changes: Any) -> Any:
        fields = {
            "rebalance_timeout_ms": 5_000,
            "topology": counting(group),
            "process_id": f"process-{member}",
            "client_tags": [],
            **owned_tasks({}),
        }
        return self.send_heartbeat(label, group, member, 0, **fields | changes)

    def topic(self, name: str, count: int) -> None:
        row = message("CreateTopicsRequest").CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        creation = self.player.ask("CreateTopics", 7, topics=[row], timeout_ms=20_000)
        assert creation.topics[0].error_code == 0, creation
        time.sleep(_DELAY_SECONDS)

    def describe(self, *groups: str) -> None:
        answer = self.player.ask("StreamsGroupDescribe", 0, group_ids=list(groups), include_authorized_operations=True)
        self.record_answer(f"described {groups}", answer)


def _sort_nested(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sort_nested(one) for key, one in sorted(value.items())}
    if isinstance(value, list):
        return sorted((_sort_nested(one) for one in value), key=json.dumps)
    return value


def play(host: str, port: int) -> list[tuple[str, str]]:
    """Play all scenarios against one broker."""
    player = ScriptPlayer(host, port)
    try:
        player.wait_until(lambda one: getattr(one, "error_code", 1) == 0, "FindCoordinator", 1, key="g", key_type=0)
        player.wait_until(
            lambda one: one.error_code not in (14, 15, 16),
            "StreamsGroupHeartbeat",
            0,
            group_id="x",
            member_id="m",
            member_epoch=5,
        )
        streams = StreamsPlayer(player)
        play_invalid_heartbeats(streams)
        play_topologies(streams)
        play_member_lives(streams)
        play_many_members(streams)
        play_group_settings(streams)
        return player.answers
    finally:
        player.close()


def play_invalid_heartbeats(streams: StreamsPlayer) -> None:
    some = owned_tasks({"0": [0]})["active_tasks"]
    for changes in (
        {"group_id": ""},
        {"member_id": ""},
        {"instance_id": ""},
        {"instance_id": "i"},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topology": None},
        {"active_tasks": None},
        {"active_tasks": some},
        {"standby_tasks": None},
        {"standby_tasks": some},
        {"warmup_tasks": None},
        {"warmup_tasks": some},
        {"topology": topology(subtopology("0", regex="a.*"))},
        {"topology": topology(subtopology("0", "in", logs="c:3"))},
        {"topology": topology(subtopology("0", "in", logs="c:-1"))},
        {"topology": topology(subtopology("0", "__consumer_offsets"))},
        {"topology": topology(REQUEST.Subtopology(subtopology_id="0", source_topics=["a b"]))},
    ):
        streams.join(str(sorted(changes)), "wrong", **changes)
    for epoch in (5, -1, -2, -3):
        streams.send_heartbeat("no group", "wrong", "m", epoch)
    streams.send_heartbeat("static", "wrong", "m", -2, instance_id="i")


def play_topologies(streams: StreamsPlayer) -> None:
    """Play heartbeats with incomplete and complete topologies."""
    for name, count in (("a3", 3), ("b2", 2), ("c4", 4), ("one", 1)):
        streams.topic(name, count)
    cases = {
        "missing": (subtopology("0", "a3 z1 z2"), subtopology("1", "y9")),
        "unequal": (subtopology("0", "a3 b2", together=[((0, 1), ())]),),
        "both": (
            subtopology("0", "a3 b2", writes="both-r1 both-r2"),
            subtopology("1", reads="both-r1 both-r2", logs="both-log", together=[((), (0, 1))]),
        ),
        "joined": (
            subtopology("0", "b2", writes="joined-r"),
            subtopology("1", "a3", reads="joined-r", together=[((0,), (0,))]),
        ),
        "fixed": (subtopology("0", "b2", writes="fixed-r"), subtopology("1", reads="fixed-r:5", logs="fixed-log")),
        "conflict": (
            subtopology("0", "b2", writes="conflict-r"),
            subtopology("1", "a3", reads="conflict-r:5", together=[((0,), (0,))]),
        ),
        "fixed-unequal": (
            subtopology("0", "b2", writes="f-r1 f-r2"),
            subtopology("1", reads="f-r1:5 f-r2:4", together=[((), (0, 1))]),
        ),
        "existing": (subtopology("0", "b2", logs="one"),),
        "loop": (subtopology("0", "b2"), subtopology("1", reads="loop-r", writes="loop-r")),
        "unwritten": (subtopology("0", "b2"), subtopology("1", reads="unwritten-r")),
        "chain": (
            subtopology("2", "b2 c4", writes="chain-r1"),
            subtopology("1", "a3", reads="chain-r1", writes="chain-r2"),
            subtopology("0", reads="chain-r2", logs="chain-log"),
        ),
        "empty": (),
    }
    for group, subtopologies in cases.items():
        streams.player.names.clear()
        heartbeat = streams.join("topology", group, topology=topology(*subtopologies))
        status = [one.status_code for one in heartbeat.status or ()]
        if 3 in status:  # the names in the text have the order of a hash map
            del streams.player.answers[-1]
        time.sleep(_DELAY_SECONDS if 3 in status else 0)
        streams.send_heartbeat("again", group, "m", heartbeat.member_epoch or 2)
        if group not in ("both", "existing", "conflict", "fixed-unequal"):
            streams.describe(group)


def play_member_lives(streams: StreamsPlayer) -> None:
    group = "life"
    streams.join("no source", group)
    streams.send_heartbeat("no source", group, "m", 2)
    streams.topic("in", 2)
    missing = streams.send_heartbeat("source", group, "m", 2)
    assert [one.status_code for one in missing.status] == [3], missing
    del streams.player.answers[-1]  # the names in the text have the order of a hash map
    time.sleep(_DELAY_SECONDS)
    everything = {"0": [0, 1], "1": [0, 1]}
    epoch = streams.send_heartbeat("ready", group, "m", missing.member_epoch).member_epoch
    streams.send_heartbeat("all", group, "m", epoch, **owned_tasks(everything))
    endpoint = REQUEST.Endpoint(host="h", port=9)
    second = streams.join("second", group, "n", user_endpoint=endpoint).member_epoch
    streams.send_heartbeat("gives up", group, "m", epoch, **owned_tasks(everything))
    streams.send_heartbeat("waits", group, "n", second)
    streams.send_heartbeat("still", group, "m", epoch, **owned_tasks(everything))
    half = {"0": [0], "1": [0]}
    epoch = streams.send_heartbeat("gave up", group, "m", epoch, **owned_tasks(half)).member_epoch
    streams.send_heartbeat("gets", group, "n", second)
    streams.describe(group, "none", "")
    epoch = streams.send_heartbeat(
        "endpoint", group, "m", epoch, user_endpoint=REQUEST.Endpoint(host="h1", port=8)
    ).member_epoch
    second = streams.send_heartbeat("after endpoint", group, "n", second).member_epoch
    streams.send_heartbeat("greater", group, "m", 99)
    streams.send_heartbeat("smaller", group, "m", 1)
    streams.send_heartbeat("unknown", group, "x", 1)
    streams.send_heartbeat("topology again", group, "m", epoch, topology=counting(group))
    streams.join("other topology", group, "o", topology=topology(subtopology("0", "in"), epoch=1))
    streams.join("rejoins", group, "m")
    play_commits(streams.player, streams, group, epoch)
    streams.record_answer(
        "listed", streams.player.ask("ListGroups", 5, states_filter=[], types_filter=["streams"]).error_code
    )
    streams.record_answer("deleted", streams.player.ask("DeleteGroups", 2, groups_names=[group]))
    streams.record_answer("classic", streams.player.ask("DescribeGroups", 6, groups=[group]))
    streams.record_answer("consumer", streams.player.ask("ConsumerGroupDescribe", 0, group_ids=[group]))
    streams.send_heartbeat("shutdown", group, "m", epoch, shutdown_application=True)
    streams.send_heartbeat("hears of it", group, "n", second)
    streams.send_heartbeat("leaves", group, "n", -1)
    streams.send_heartbeat("alone", group, "m", epoch)
    streams.send_heartbeat("alone again", group, "m", epoch + 1)
    streams.send_heartbeat("leaves", group, "m", -1)
    streams.describe(group)
    streams.record_answer("deleted", streams.player.ask("DeleteGroups", 2, groups_names=[group]))
    streams.describe(group)


def play_many_members(streams: StreamsPlayer) -> None:
    """Play members of several processes with standby tasks, and record the assignments before and after a member
    leaves.
    """
    group = "many"
    configure(streams, group, "streams.num.standby.replicas", "1")
    for name in ("in4", f"{group}-rep", f"{group}-log"):
        streams.topic(name, 4)
    parts = (
        subtopology("0", "in4", writes=f"{group}-rep"),
        subtopology("1", reads=f"{group}-rep", logs=f"{group}-log"),
    )
    owns: dict[str, dict[str, Any]] = {}
    epochs: dict[str, int] = {}

    def hear(member: str, answer: Any) -> None:
        epochs[member] = answer.member_epoch
        if answer.active_tasks is not None:
            rows = {name: getattr(answer, name) for name in ("active_tasks", "standby_tasks")}
            tasks = [{row.subtopology_id: row.partitions for row in some} for some in rows.values()]
            owns[member] = owned_tasks(*tasks)

    def settle(label: str) -> None:
        for _ in range(4):
            for member in list(epochs):
                beaten = streams.send_heartbeat(label, group, member, epochs[member], **owns[member])
                hear(member, beaten)

    for member, process in (("one", "a"), ("two", "a"), ("three", "b"), ("four", "c")):
        hear(member, streams.join("joins", group, member, process_id=process, topology=topology(*parts)))
        settle(f"with {member}")
    streams.describe(group)
    streams.send_heartbeat("leaves", group, "three", -1)
    del epochs["three"]
    settle("without three")
    configure(streams, group, "streams.num.standby.replicas", "2")
    settle("more standbys")
    streams.describe(group)


def configure(streams: StreamsPlayer, group: str, name: str, value: str) -> None:
    types: Any = message("IncrementalAlterConfigsRequest")
    row = types.AlterableConfig(name=name, config_operation=0, value=value)
    resource = types.AlterConfigsResource(resource_type=32, resource_name=group, configs=[row])
    answer = streams.player.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
    streams.record_answer(f"{name}={value} {group}", [response.error_code for response in answer.responses])
    time.sleep(_DELAY_SECONDS)


def play_group_settings(streams: StreamsPlayer) -> None:
    """Play heartbeats in groups with group-specific intervals."""
    nobody = dict.fromkeys(("instance_id", "rack_id"))
    for kind in ("consumer", "share", "streams"):
        group = f"own-{kind}"
        for name, value in (("heartbeat.interval.ms", "7000"), ("assignment.interval.ms", "15000")):
            configure(streams, group, f"{kind}.{name}", value)
        for wrong in ("1", "90000"):
            configure(streams, group, f"{kind}.session.timeout.ms", wrong)
        for member in ("m", "n"):
            if kind == "streams":
                streams.join("own settings", group, member, topology=topology(subtopology("0", "in4")))
                continue
            fields = {"group_id": group, "member_id": member, "member_epoch": 0, "subscribed_topic_names": ["in4"]}
            if kind == "consumer":
                fields |= {"rebalance_timeout_ms": 5_000, "topic_partitions": [], **nobody}
            answer = streams.player.ask(f"{kind.capitalize()}GroupHeartbeat", 1, **fields)
            assigned_partitions = answer.assignment and [row.partitions for row in answer.assignment.topic_partitions]
            answer_values = [answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms, assigned_partitions]
            streams.record_answer(f"own settings {group} {member}", answer_values)


def play_commits(player: ScriptPlayer, streams: StreamsPlayer, group: str, epoch: int) -> None:
    request_type: Any = message("OffsetCommitRequest")
    fetch: Any = message("OffsetFetchRequest")
    for version, member, of_epoch in (
        (9, "", -1),
        (9, "m", 1),
        (9, "m", epoch),
        (9, "m", 99),
        (9, "x", 3),
        (8, "m", 1),
    ):
        row = request_type.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        topics = [request_type.OffsetCommitRequestTopic(name="in", partitions=[row])]
        fields = {"group_id": group, "generation_id_or_member_epoch": of_epoch, "member_id": member}
        streams.record_answer(
            f"commit v{version} {member} {of_epoch}", player.ask("OffsetCommit", version, topics=topics, **fields)
        )
    for member, of_epoch in (("", -1), ("m", 1), ("m", epoch), ("x", 3), (None, -1)):
        row = fetch.OffsetFetchRequestGroup(group_id=group, member_id=member, member_epoch=of_epoch, topics=None)
        streams.record_answer(f"fetch {member} {of_epoch}", player.ask("OffsetFetch", 9, groups=[row]))
