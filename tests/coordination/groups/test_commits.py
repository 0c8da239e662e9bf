"""Committed offsets: permissions, fetches, transactions, deletion, retention, restarts."""

import pytest
from tests.coordination.groups.support import GroupBench

from kafkaframes.coordination.groups.commits import CommittedOffset, OffsetToCommit
from kafkaframes.coordination.groups.ports import OffsetClient, ProducerIdentity
from kafkaframes.errors import ErrorCode, RefusedError
from kafkaframes.storage.files.names import TopicPartition, coordinator_partition

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
CLIENT_WITHOUT_MEMBER = OffsetClient("g")


@pytest.fixture
def bench():
    return GroupBench()


def fetch_committed(bench, *partitions, **options):
    return list(bench.coordinator.commits.fetch(CLIENT_WITHOUT_MEMBER, partitions or (T0,), **options).values())


def error_code_of(call, *arguments, **options):
    with pytest.raises(RefusedError) as caught:
        call(*arguments, **options)
    return caught.value.code


def test_a_commit_is_stored_fetched_and_survives_a_restart(bench):
    offsets = {T0: OffsetToCommit(7, 3, "mine"), T1: OffsetToCommit(0)}
    assert bench.coordinator.commit(CLIENT_WITHOUT_MEMBER, offsets) == {T0: 0, T1: 0}
    for _ in range(2):
        assert fetch_committed(bench, T0, T1) == [CommittedOffset(7, 3, "mine"), CommittedOffset(0, -1, "")]
        assert fetch_committed(bench, TopicPartition("orders", 2)) == [CommittedOffset(-1, -1, "", 0)]
        assert bench.coordinator.commits.fetch(CLIENT_WITHOUT_MEMBER, None).keys() == {T0, T1}
        assert bench.coordinator.commits.fetch(OffsetClient("other"), None) == {}
        bench.restart()
    assert {row.partition for row in bench.log.rows} == {coordinator_partition("g", 50)}


def test_a_commit_with_too_much_metadata_still_creates_its_group(bench):
    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert bench.coordinator.commit(CLIENT_WITHOUT_MEMBER, {T0: OffsetToCommit(1, -1, "x" * 5_000)}) == {T0: code}
    assert bench.group().state_name == "Empty"


def test_a_member_commits_with_its_generation(bench):
    join_answer = bench.member()
    commit = bench.coordinator.commit
    client = OffsetClient("g", join_answer.member_id, None, 1)
    assert commit(client, {T0: OffsetToCommit(1)}) == {T0: 0}
    assert error_code_of(commit, client._replace(generation=2), {T0: OffsetToCommit(1)}) == ErrorCode.ILLEGAL_GENERATION
    assert error_code_of(commit, client._replace(member_id="x"), {T0: OffsetToCommit(1)}) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error_code_of(commit, CLIENT_WITHOUT_MEMBER, {T0: OffsetToCommit(1)}) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        error_code_of(commit, client._replace(instance_id="x"), {T0: OffsetToCommit(1)}) == ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_a_commit_extends_the_session_of_its_member(bench):
    join_answer = bench.member()
    for _ in range(3):
        bench.clock.advance(9)
        bench.coordinator.commit(OffsetClient("g", join_answer.member_id, None, 1), {T0: OffsetToCommit(1)})
    assert join_answer.member_id in bench.group().members


def test_commits_between_join_and_sync_are_rejected(bench):
    answers = bench.join(bench.new_id())
    bench.clock.run_due()
    client = OffsetClient("g", answers[0].member_id, None, 1)
    assert error_code_of(bench.coordinator.commit, client, {T0: OffsetToCommit(1)}) == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("supports_epoch_errors", "code"), [(True, ErrorCode.GROUP_ID_NOT_FOUND), (False, ErrorCode.ILLEGAL_GENERATION)]
)
def test_a_member_of_an_unknown_group_cannot_commit(bench, supports_epoch_errors, code):
    client = OffsetClient("g", "m", None, 1, supports_epoch_errors)
    assert error_code_of(bench.coordinator.commit, client, {T0: OffsetToCommit(1)}) == code


def test_only_the_partition_with_too_long_metadata_is_rejected(bench):
    offsets = {T0: OffsetToCommit(1, -1, "x" * 4097), T1: OffsetToCommit(1, -1, "x" * 4096)}
    assert bench.coordinator.commit(CLIENT_WITHOUT_MEMBER, offsets) == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE, T1: 0}
    assert fetch_committed(bench) == [CommittedOffset()]


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("restarts", [True, False])
def test_transactional_offsets_are_pending_until_the_marker(bench, commits, restarts):
    bench.coordinator.commit(CLIENT_WITHOUT_MEMBER, {T0: OffsetToCommit(1)})
    stage = bench.coordinator.commits.commit_in_transaction
    assert stage(CLIENT_WITHOUT_MEMBER, {T0: OffsetToCommit(9, 2, "txn")}, ProducerIdentity(77, 0)) == {T0: 0}
    if restarts:
        bench.restart()
    assert fetch_committed(bench) == [CommittedOffset(1)]
    assert fetch_committed(bench, T0, T1, require_stable=True) == [
        CommittedOffset(error=ErrorCode.UNSTABLE_OFFSET_COMMIT),
        CommittedOffset(),
    ]
    bench.coordinator.end_transaction(coordinator_partition("g", 50), 77, commit=commits)
    assert fetch_committed(bench, require_stable=True) == [
        CommittedOffset(9, 2, "txn") if commits else CommittedOffset(1)
    ]


def test_a_later_plain_commit_overrides_a_pending_transactional_one(bench):
    bench.coordinator.commits.commit_in_transaction(
        CLIENT_WITHOUT_MEMBER, {T0: OffsetToCommit(9)}, ProducerIdentity(77, 0)
    )
    bench.coordinator.commit(CLIENT_WITHOUT_MEMBER, {T0: OffsetToCommit(20)})
    bench.coordinator.end_transaction(coordinator_partition("g", 50), 77, commit=True)
    assert fetch_committed(bench) == [CommittedOffset(20)]


def test_a_transaction_commits_offsets_without_a_member_id_or_with_that_of_a_member(bench):
    join_answer = bench.member()
    stage = bench.coordinator.commits.commit_in_transaction
    stage(CLIENT_WITHOUT_MEMBER, {T0: OffsetToCommit(1)}, ProducerIdentity(7, 0))
    stage(OffsetClient("g", join_answer.member_id, None, 1), {T0: OffsetToCommit(1)}, ProducerIdentity(7, 0))
    late = OffsetClient("g", join_answer.member_id, None, 0)
    assert error_code_of(stage, late, {T0: OffsetToCommit(1)}, ProducerIdentity(7, 0)) == ErrorCode.ILLEGAL_GENERATION


def test_a_marker_ends_pending_commits_of_its_own_partition_only(bench):
    other = next(name for name in "abcdef" if coordinator_partition(name, 50) != coordinator_partition("g", 50))
    stage = bench.coordinator.commits.commit_in_transaction
    for name in ("g", other):
        stage(OffsetClient(name), {T0: OffsetToCommit(5)}, ProducerIdentity(7, 0))
    bench.coordinator.end_transaction(coordinator_partition("g", 50), 7, commit=True)
    fetch = bench.coordinator.commits.fetch
    assert fetch(OffsetClient("g"), [T0])[T0].offset == 5
    assert fetch(OffsetClient(other), [T0])[T0].offset == -1


def test_offsets_of_topics_with_subscribers_are_not_deleted(bench):
    bench.coordinator.commit(
        CLIENT_WITHOUT_MEMBER, {T0: OffsetToCommit(1), TopicPartition("other", 0): OffsetToCommit(2)}
    )
    bench.member()
    delete = bench.coordinator.commits.delete
    assert delete("g", [T0, TopicPartition("other", 0)]) == {
        T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        TopicPartition("other", 0): 0,
    }
    bench.restart()
    assert bench.coordinator.commits.fetch(CLIENT_WITHOUT_MEMBER, None).keys() == {T0}
    assert error_code_of(delete, "nobody", [T0]) == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_connect_workers_are_not_deleted_while_they_are_members(bench):
    bench.member(protocol_type="connect")
    assert error_code_of(bench.coordinator.commits.delete, "g", [T0]) == ErrorCode.NON_EMPTY_GROUP


def test_a_group_is_deleted_with_its_offsets(bench):
    join_answer = bench.member()
    bench.coordinator.commit(OffsetClient("g", join_answer.member_id, None, 1), {T0: OffsetToCommit(1)})
    assert error_code_of(bench.coordinator.delete_group, "g") == ErrorCode.NON_EMPTY_GROUP
    bench.clock.advance(11)
    bench.coordinator.delete_group("g")
    assert error_code_of(bench.coordinator.delete_group, "g") == ErrorCode.GROUP_ID_NOT_FOUND
    bench.restart()
    assert bench.coordinator.groups == {}
    assert fetch_committed(bench) == [CommittedOffset()]


def test_offsets_of_empty_and_of_simple_groups_expire(bench):
    week_s = 10_080 * 60
    join_answer = bench.member()
    client = OffsetClient("g", join_answer.member_id, None, 1)
    bench.coordinator.commit(client, {T0: OffsetToCommit(1), TopicPartition("gone", 0): OffsetToCommit(1)})
    bench.coordinator.commit(OffsetClient("lonely"), {T0: OffsetToCommit(1)})
    for _ in range(week_s // 9 + 100):
        bench.clock.advance(9)
        bench.coordinator.heartbeat("g", join_answer.member_id, None, 1)
    # the topic orders has a subscriber; the topic gone no longer has one
    assert bench.coordinator.commits.fetch(CLIENT_WITHOUT_MEMBER, None).keys() == {T0}
    assert "lonely" not in bench.coordinator.groups
    bench.clock.advance(week_s)
    # the group has been empty for less than the retention time, because the session had to expire first
    assert fetch_committed(bench) == [CommittedOffset(1)]
    bench.clock.advance(700)
    assert bench.coordinator.groups == {}
    bench.restart()
    assert bench.coordinator.groups == {}


def test_a_commit_may_set_its_own_retention_time(bench):
    bench.coordinator.commit(CLIENT_WITHOUT_MEMBER, {T0: OffsetToCommit(1)}, retention_ms=60_000)
    bench.restart()
    bench.clock.advance(599)
    assert fetch_committed(bench) == [CommittedOffset(1)]
    bench.clock.advance(2)
    assert fetch_committed(bench) == [CommittedOffset()]


def test_groups_are_listed_by_state_and_type(bench):
    bench.member()
    bench.coordinator.commit(OffsetClient("lonely"), {T0: OffsetToCommit(1)})
    list_groups = bench.coordinator.list_groups
    assert {(group.group_id, group.state_name, group.protocol_type_name, group.type) for group in list_groups()} == {
        ("g", "Stable", "consumer", "classic"),
        ("lonely", "Empty", "", "classic"),
    }
    assert [group.group_id for group in list_groups(states=["stable"])] == ["g"]
    assert [group.group_id for group in list_groups(states=["EMPTY"], types=["Classic"])] == ["lonely"]
    assert list_groups(types=["share"]) == []


def test_unreadable_records_are_counted_and_skipped(bench):
    bench.coordinator.commit(CLIENT_WITHOUT_MEMBER, {T0: OffsetToCommit(1)})
    bench.log.rows.insert(0, bench.log.rows[0]._replace(key=b"\x00\x63broken"))
    bench.log.rows.insert(0, bench.log.rows[1]._replace(value=b"\x00\x03\x00"))
    bench.restart()
    assert bench.coordinator.undecodable_count == 2
    assert fetch_committed(bench) == [CommittedOffset(1)]


def test_offsets_of_a_deleted_topic_are_removed_from_every_group(bench):
    for name in ("g", "h"):
        bench.coordinator.commit(
            OffsetClient(name), {T0: OffsetToCommit(1), TopicPartition("other", 0): OffsetToCommit(1)}
        )
    bench.coordinator.commits.delete_topic_offsets("orders")
    bench.restart()
    for name in ("g", "h"):
        assert bench.coordinator.commits.fetch(OffsetClient(name), None).keys() == {TopicPartition("other", 0)}
