"""Streams groups (KIP-1071): members, tasks, topologies, timeouts, restarts, with the responses of Kafka 4.3.1."""

from __future__ import annotations

import gzip
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.coordination.groups.support import GROUP_SETTINGS, GroupBench
from tests.coordination.groups.task_assignments import SAVED_ASSIGNMENTS, AssignmentCase, random_cases

from kafkaframes.coordination.groups.commits import OffsetToCommit
from kafkaframes.coordination.groups.members import MemberState
from kafkaframes.coordination.groups.ports import OffsetClient
from kafkaframes.coordination.groups.streams import (
    NO_TASKS,
    InternalTopic,
    StatusCode,
    Subtopology,
    TaskRole,
    Topology,
    TopologyStatus,
    check_topics,
    check_topology,
    configure_topology,
    group_by_subtopology,
)
from kafkaframes.coordination.groups.streams_protocol import (
    StreamsHeartbeatRequest,
    StreamsHeartbeatResult,
    check_request,
)
from kafkaframes.errors import ErrorCode, RefusedError
from kafkaframes.storage.files.names import TopicPartition

COUNTED_TOPOLOGY = Topology(
    0,
    (
        Subtopology("0", ("in",), sinks=("g-rep",)),
        Subtopology("1", repartition_topics=(InternalTopic("g-rep"),), changelog_topics=(InternalTopic("g-log"),)),
    ),
)
MISSING_SOURCE_STATUS = TopologyStatus(StatusCode.MISSING_SOURCE_TOPICS, "Source topics in are missing.")
MISSING_INTERNAL_STATUS = TopologyStatus(
    StatusCode.MISSING_INTERNAL_TOPICS, "Internal topics are missing: g-rep, g-log"
)
DELAYED_STATUS = TopologyStatus(
    StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval."
)
ALL_TASKS = {"0": [0, 1], "1": [0, 1]}


@pytest.fixture
def bench():
    return GroupBench()


@pytest.fixture
def coordinator_with_topics(bench):
    """A coordinator whose broker has all topics of COUNTED_TOPOLOGY."""
    for name in ("in", "g-rep", "g-log"):
        bench.topics.add(name, 2)
    return bench


def tasks(role: TaskRole = TaskRole.ACTIVE, **partitions: list[int]):
    return frozenset((role, name[1:], index) for name, indexes in partitions.items() for index in indexes)


def send_heartbeat(bench: GroupBench, name: str = "m", epoch: int = 0, **changes: Any) -> StreamsHeartbeatResult:
    fields: dict[str, Any] = {} if epoch else join_fields(name)
    request = StreamsHeartbeatRequest("g", name, epoch, **fields | changes)
    if request.topology is not None:
        check_topics(request.topology.topics, lambda topic: topic.startswith("__"))
    check_request(request)
    if request.topology is not None:
        check_topology(request.topology)
    return bench.coordinator.handle_streams_heartbeat(request)


def join_fields(name: str = "m") -> dict[str, Any]:
    nothing = (NO_TASKS, NO_TASKS, NO_TASKS)
    return {
        "topology": COUNTED_TOPOLOGY,
        "rebalance_timeout_ms": 5_000,
        "owned_tasks": nothing,
        "process_id": f"p-{name}",
    }


def owning(active=NO_TASKS, standby=NO_TASKS) -> dict[str, Any]:
    return {"owned_tasks": (active, standby, NO_TASKS)}


def active_of(answer: StreamsHeartbeatResult) -> dict[str, list[int]] | None:
    return None if answer.tasks is None else group_by_subtopology(answer.tasks, TaskRole.ACTIVE)


def error_code_of(call: Any, *arguments: Any, **options: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        call(*arguments, **options)
    return caught.value


def test_a_group_waits_for_its_source_topics_then_for_its_internal_topics(bench):
    """The expected epochs, statuses and tasks are those with which Kafka 4.3.1 responded to these heartbeats."""
    join_answer = send_heartbeat(bench)
    assert (join_answer.epoch, join_answer.tasks, join_answer.statuses, join_answer.missing) == (
        2,
        NO_TASKS,
        (MISSING_SOURCE_STATUS,),
        (),
    )
    assert bench.group().state_name == "NotReady"
    bench.topics.add("in", 2)
    bench.clock.advance(2)
    answer = send_heartbeat(bench, epoch=2)
    assert (answer.epoch, answer.tasks, answer.statuses) == (3, None, (MISSING_INTERNAL_STATUS,))
    assert [(topic.name, topic.partitions) for topic in answer.missing] == [("g-rep", 2), ("g-log", 2)]
    for topic in answer.missing:
        bench.topics.add(topic.name, topic.partitions)
    bench.clock.advance(2)
    answer = send_heartbeat(bench, epoch=3)
    assert (answer.epoch, active_of(answer), answer.statuses) == (4, ALL_TASKS, ())
    assert (bench.group().state_name, bench.group().type) == ("Stable", "streams")
    assert send_heartbeat(bench, epoch=4).tasks is None


def test_a_second_member_gets_tasks_after_the_first_has_revoked_them(coordinator_with_topics):
    assert active_of(send_heartbeat(coordinator_with_topics)) == ALL_TASKS
    coordinator_with_topics.clock.advance(2)
    join_answer = send_heartbeat(coordinator_with_topics, "n", user_endpoint=("h", 9))
    assert (join_answer.epoch, join_answer.tasks, join_answer.endpoint_epoch, join_answer.sends_endpoints) == (
        3,
        NO_TASKS,
        1,
        True,
    )
    everything = tasks(_0=[0, 1], _1=[0, 1])
    answer = send_heartbeat(coordinator_with_topics, epoch=2, **owning(everything))
    assert (answer.epoch, active_of(answer)) == (2, {"0": [0], "1": [0]})
    assert coordinator_with_topics.group().members["m"].state is MemberState.UNREVOKED_PARTITIONS
    assert send_heartbeat(coordinator_with_topics, "n", 3).tasks is None  # not revoked yet
    answer = send_heartbeat(coordinator_with_topics, epoch=2, **owning(tasks(_0=[0], _1=[0])))
    assert (answer.epoch, answer.tasks) == (3, None)
    answer = send_heartbeat(coordinator_with_topics, "n", 3)
    assert (active_of(answer), answer.endpoint_epoch) == ({"0": [1], "1": [1]}, 2)
    assert coordinator_with_topics.group().state_name == "Stable"


def test_assignments_wait_for_the_assignment_interval(coordinator_with_topics):
    send_heartbeat(coordinator_with_topics)
    answer = send_heartbeat(coordinator_with_topics, "n")
    assert (answer.epoch, answer.tasks, answer.statuses) == (2, NO_TASKS, (DELAYED_STATUS,))
    assert coordinator_with_topics.group().state_name == "Assigning"
    coordinator_with_topics.clock.advance(1)
    assert send_heartbeat(coordinator_with_topics, "n", 2).epoch == 3


def test_the_first_assignment_waits_for_more_members(coordinator_with_topics):
    coordinator_with_topics.coordinator.streams.setting = lambda _, name: (
        3_000 if "initial" in name else GROUP_SETTINGS[name]
    )
    status = TopologyStatus(
        StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."
    )
    for name in "mn":
        assert (
            send_heartbeat(coordinator_with_topics, name).epoch,
            send_heartbeat(coordinator_with_topics, name, 1).statuses,
        ) == (
            1,
            (status,),
        )
    coordinator_with_topics.clock.advance(3)
    shares = [active_of(send_heartbeat(coordinator_with_topics, name, 1)) for name in "mn"]
    assert shares == [{"0": [1], "1": [1]}, {"0": [0], "1": [0]}]


def test_standby_tasks_are_assigned_for_stateful_subtopologies_in_other_processes(coordinator_with_topics):
    standbys = {"streams.num.standby.replicas": 1}
    coordinator_with_topics.coordinator.streams.setting = lambda group_id, name: {**GROUP_SETTINGS, **standbys}[name]
    send_heartbeat(coordinator_with_topics)
    coordinator_with_topics.clock.advance(2)
    join_answer = send_heartbeat(coordinator_with_topics, "n")
    assert join_answer.tasks == tasks(TaskRole.STANDBY, _1=[0])
    send_heartbeat(coordinator_with_topics, epoch=2, **owning(tasks(_0=[0, 1], _1=[0, 1])))
    answer = send_heartbeat(coordinator_with_topics, epoch=2, **owning(tasks(_0=[0], _1=[0])))
    # the member's process must first revoke the task that it can keep as a standby
    assert (answer.epoch, answer.tasks) == (3, None)
    assert send_heartbeat(coordinator_with_topics, epoch=3).tasks == tasks(_0=[0], _1=[0]) | tasks(
        TaskRole.STANDBY, _1=[1]
    )
    standbys["streams.num.standby.replicas"] = 0
    coordinator_with_topics.clock.advance(2)
    assert send_heartbeat(coordinator_with_topics, epoch=3, **owning(tasks(_0=[0], _1=[0]))).tasks == tasks(
        _0=[0], _1=[0]
    )


def test_members_leave_and_time_out(coordinator_with_topics):
    send_heartbeat(coordinator_with_topics)
    assert send_heartbeat(coordinator_with_topics, epoch=-1) == StreamsHeartbeatResult("m", -1)
    assert coordinator_with_topics.group().state_name == "Empty"
    assert active_of(send_heartbeat(coordinator_with_topics)) == {}  # its interval
    coordinator_with_topics.clock.advance(2)
    assert active_of(send_heartbeat(coordinator_with_topics, epoch=2)) == ALL_TASKS
    coordinator_with_topics.clock.advance(44)
    assert active_of(send_heartbeat(coordinator_with_topics, "n")) == {}
    coordinator_with_topics.clock.advance(2)
    assert list(coordinator_with_topics.group().members) == ["n"]
    answer = send_heartbeat(coordinator_with_topics, "n", coordinator_with_topics.group().members["n"].epoch)
    assert active_of(answer) == ALL_TASKS


def test_a_member_that_does_not_revoke_in_time_is_fenced(coordinator_with_topics):
    send_heartbeat(coordinator_with_topics)
    coordinator_with_topics.clock.advance(2)
    send_heartbeat(coordinator_with_topics, "n")
    send_heartbeat(coordinator_with_topics, epoch=2, **owning(tasks(_0=[0, 1], _1=[0, 1])))
    coordinator_with_topics.clock.advance(4)
    send_heartbeat(coordinator_with_topics, epoch=2, **owning(tasks(_0=[0, 1], _1=[0, 1])))
    coordinator_with_topics.clock.advance(2)
    assert error_code_of(send_heartbeat, coordinator_with_topics, epoch=2).code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_shutdown_request_is_sent_to_all_members(coordinator_with_topics):
    send_heartbeat(coordinator_with_topics)
    send_heartbeat(coordinator_with_topics, "n")
    detail = "Streams group member m encountered a fatal error and requested a shutdown for the entire application."
    status = TopologyStatus(StatusCode.SHUTDOWN_APPLICATION, detail)
    assert send_heartbeat(coordinator_with_topics, epoch=2, shuts_down=True).statuses[-1] == status
    assert send_heartbeat(coordinator_with_topics, "n", 2).statuses == (DELAYED_STATUS, status)
    send_heartbeat(coordinator_with_topics, epoch=-1)
    send_heartbeat(coordinator_with_topics, "n", -1)
    assert status not in send_heartbeat(coordinator_with_topics, "o").statuses


def test_the_state_survives_a_restart(coordinator_with_topics):
    send_heartbeat(coordinator_with_topics, user_endpoint=("h", 9), client_tags=(("zone", "a"),), rack_id="r")
    coordinator_with_topics.clock.advance(2)
    send_heartbeat(coordinator_with_topics, "n")
    send_heartbeat(coordinator_with_topics, epoch=2, **owning(tasks(_0=[0, 1], _1=[0, 1])))
    before = coordinator_with_topics.group()
    coordinator_with_topics.restart()
    for name in ("members", "targets", "topology", "epoch", "assignment_epoch", "metadata_hash", "configured_topology"):
        assert getattr(coordinator_with_topics.group(), name) == getattr(before, name), name
    assert coordinator_with_topics.group().state_name == "Reconciling"
    assert send_heartbeat(coordinator_with_topics, epoch=2, **owning(tasks(_0=[0], _1=[0]))).epoch == 3
    coordinator_with_topics.clock.advance(46)
    assert coordinator_with_topics.group().state_name == "Empty"
    coordinator_with_topics.coordinator.delete_group("g")
    coordinator_with_topics.restart()
    assert coordinator_with_topics.coordinator.groups == {}


def test_invalid_heartbeats_are_rejected(coordinator_with_topics):
    nothing = NO_TASKS, NO_TASKS, NO_TASKS
    some = tasks(_0=[0])
    for changes, code in (
        ({"instance_id": "i"}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topology": None}, ErrorCode.INVALID_REQUEST),
        ({"owned_tasks": (None, *nothing[1:])}, ErrorCode.INVALID_REQUEST),
        ({"owned_tasks": (some, *nothing[1:])}, ErrorCode.INVALID_REQUEST),
        ({"owned_tasks": (NO_TASKS, some, NO_TASKS)}, ErrorCode.INVALID_REQUEST),
        ({"owned_tasks": (NO_TASKS, NO_TASKS, some)}, ErrorCode.INVALID_REQUEST),
        ({"has_regex": True}, ErrorCode.INVALID_REQUEST),
        ({"topology": COUNTED_TOPOLOGY._replace(epoch=-1)}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"topology": Topology(0, COUNTED_TOPOLOGY.subtopologies * 2)}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"topology": Topology(0, (Subtopology("0", ("a b",)),))}, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ({"topology": Topology(0, (Subtopology("0", ("__consumer_offsets",)),))}, ErrorCode.STREAMS_INVALID_TOPOLOGY),
    ):
        assert error_code_of(send_heartbeat, coordinator_with_topics, **changes).code == code, changes
    assert error_code_of(send_heartbeat, coordinator_with_topics, epoch=1).reason == "Streams group g not found."
    for epoch in (-2, -3):
        assert error_code_of(send_heartbeat, coordinator_with_topics, epoch=epoch).code == ErrorCode.INVALID_REQUEST
    send_heartbeat(coordinator_with_topics)
    assert error_code_of(send_heartbeat, coordinator_with_topics, epoch=1).code == ErrorCode.FENCED_MEMBER_EPOCH
    assert error_code_of(send_heartbeat, coordinator_with_topics, epoch=9).code == ErrorCode.FENCED_MEMBER_EPOCH
    assert error_code_of(send_heartbeat, coordinator_with_topics, "x", 2).code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        error_code_of(send_heartbeat, coordinator_with_topics, epoch=2, topology=COUNTED_TOPOLOGY).code
        == ErrorCode.INVALID_REQUEST
    )
    other = error_code_of(send_heartbeat, coordinator_with_topics, "n", topology=COUNTED_TOPOLOGY._replace(epoch=1))
    assert (other.code, other.reason) == (ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    assert list(coordinator_with_topics.group().members) == ["m"]


def test_a_group_of_another_type_is_not_changed(coordinator_with_topics):
    member_id = coordinator_with_topics.new_id()
    coordinator_with_topics.join(member_id)
    assert error_code_of(send_heartbeat, coordinator_with_topics).code == ErrorCode.GROUP_ID_NOT_FOUND
    assert coordinator_with_topics.group().type == "classic"


def test_offsets_are_committed_with_the_member_epoch(coordinator_with_topics):
    send_heartbeat(coordinator_with_topics)
    offsets = {TopicPartition("in", 0): OffsetToCommit(3)}
    errors = coordinator_with_topics.coordinator.commit(OffsetClient("g", "m", None, 2), offsets)
    assert errors == {TopicPartition("in", 0): ErrorCode.NONE}
    for committer, code in (
        (OffsetClient("g"), ErrorCode.UNKNOWN_MEMBER_ID),
        (OffsetClient("g", "m", None, 1), ErrorCode.STALE_MEMBER_EPOCH),
        (OffsetClient("g", "x", None, 2), ErrorCode.UNKNOWN_MEMBER_ID),
        (OffsetClient("g", "m", None, 2, supports_epoch_errors=False), ErrorCode.UNSUPPORTED_VERSION),
    ):
        assert error_code_of(coordinator_with_topics.coordinator.commit, committer, offsets).code == code
    assert (
        coordinator_with_topics.group().is_subscribed_to("in"),
        coordinator_with_topics.group().is_subscribed_to("g-log"),
    ) == (True, False)


# ---------------------------------------------------------------------------------------------------- topologies


@pytest.mark.parametrize(
    ("subtopologies", "expected_detail"),
    [
        (
            (Subtopology("0", ("z2", "z1", "a3")), Subtopology("1", ("y9",))),
            "Source topics y9, z1, z2 are missing.",
        ),
        (
            (Subtopology("0", ("a3", "b2"), copartition_groups=((("a3", "b2"), ()),)),),
            "Following topics do not have the same number of partitions: [{a3=3, b2=2}]",
        ),
        (
            (
                Subtopology("0", ("b2",), sinks=("r",)),
                Subtopology("1", ("a3",), (), (InternalTopic("r", 5),), (), ((("a3",), ("r",)),)),
            ),
            "Number of partitions [5] of repartition topic [r] doesn't match number of partitions [3] of the source"
            " topic.",
        ),
        (
            (
                Subtopology("0", ("b2",), sinks=("q", "r")),
                Subtopology("1", (), (), (InternalTopic("q", 5), InternalTopic("r", 4)), (), (((), ("q", "r")),)),
            ),
            "Following topics do not have the same number of partitions: [{q=5, r=4}]",
        ),
        (
            (Subtopology("0", ("b2",), changelog_topics=(InternalTopic("one"),)),),
            "Existing topic one has different number of partitions: expected 2, found 1",
        ),
        (
            (Subtopology("0", ("b2",), changelog_topics=tuple(InternalTopic(name) for name in "pqrs")),),
            "Internal topics are missing: p, q, r and 1 additional topics",
        ),
    ],
)
def test_topology_errors_have_kafkas_texts(subtopologies, expected_detail):
    counts = {"a3": 3, "b2": 2, "one": 1}
    configuration = configure_topology(Topology(0, subtopologies), counts.get)
    assert (configuration.status.detail, configuration.tasks) == (expected_detail, {})


@pytest.mark.parametrize(
    ("subtopologies", "counts"),
    [
        (
            (
                Subtopology("0", (), (), (InternalTopic("r2"),), (InternalTopic("l"),)),
                Subtopology("1", ("a3",), ("r2",), (InternalTopic("r1"),)),
                Subtopology("2", ("b2", "c4"), ("r1",)),
            ),
            {"r1": 4, "r2": 3, "l": 3},
        ),
        (
            (
                Subtopology("0", ("b2",), ("r1",)),
                Subtopology("1", ("a3",), (), (InternalTopic("r1"),), (InternalTopic("l"),), ((("a3",), ("r1",)),)),
            ),
            {"r1": 3, "l": 3},
        ),
        (
            (
                Subtopology("0", ("a3", "b2"), ("r1", "r2")),
                Subtopology("1", (), (), (InternalTopic("r1"), InternalTopic("r2", 5)), (), (((), ("r1", "r2")),)),
            ),
            {"r1": 5, "r2": 5},
        ),
    ],
)
def test_internal_topics_have_as_many_partitions_as_their_sources(subtopologies, counts):
    configuration = configure_topology(Topology(0, subtopologies), {"a3": 3, "b2": 2, "c4": 4}.get)
    assert configuration.counts == counts
    assert {topic.name: topic.partitions for topic in configuration.missing} == counts


def test_a_topology_without_a_partition_count_is_rejected():
    loop = Topology(0, (Subtopology("0", ("b2",)), Subtopology("1", (), ("r",), (InternalTopic("r"),))))
    nobody = Topology(0, (Subtopology("0", ("b2",)), Subtopology("1", (), (), (InternalTopic("r"),))))
    for topology, text in ((loop, "loops"), (nobody, "never used as a sink")):
        error = error_code_of(configure_topology, topology, {"b2": 2}.get)
        assert error.code == ErrorCode.STREAMS_INVALID_TOPOLOGY
        assert text in error.reason


# ---------------------------------------------------------------------------------------------------- assignor


def test_tasks_are_assigned_as_in_kafka():
    """The expected assignments are those of Kafka 4.3.1's StickyTaskAssignor, saved by
    tests/interop/streams_assignments.py.
    """
    lines = gzip.decompress(SAVED_ASSIGNMENTS.read_bytes()).decode().splitlines()
    assert len(lines) == 300
    for line in lines:
        assert AssignmentCase.parse(line).answer() == line.split("\t")[3], line


@given(st.integers(0, 2**32))
def test_each_task_has_one_owner_and_standbys_in_other_processes(seed):
    for case in islice(random_cases(seed), 5):
        assignment = case.assign_tasks()
        assert set(assignment) == set(case.members)
        everything = {(name, index) for name, (count, _) in case.subtopologies.items() for index in range(count)}
        active = [task[1:] for tasks in assignment.values() for task in tasks if task[0] is TaskRole.ACTIVE]
        assert sorted(active) == sorted(everything)
        processes = {process for process, _ in case.members.values()}
        for one in everything:
            holders = [case.members[key][0] for key, tasks in assignment.items() for task in tasks if task[1:] == one]
            copies = 1 + case.standby_count * case.subtopologies[one[0]][1]
            assert len(holders) == len(set(holders)) == min(copies, len(processes))


@given(st.integers(0, 2**32))
def test_active_tasks_are_sticky(seed):
    case = next(random_cases(seed))
    first = case.assign_tasks()
    members = {key: (process, first[key]) for key, (process, _) in case.members.items()}
    again = case._replace(members=members).assign_tasks()
    for key, tasks in first.items():
        assert {task for task in tasks if task[0] is TaskRole.ACTIVE} <= again[key]
