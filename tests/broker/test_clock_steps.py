"""The system clock is changed while clients wait: timeouts and intervals are unaffected, and stored times use the new
time.

Apache Kafka's timers use a monotonic clock as well (``SystemTimer`` on ``Time.hiResClockMs``).
"""

from __future__ import annotations

import pytest
from tests.broker.direct import START_MS, DirectBroker, PendingAnswer

from kafkaframes.broker.state.clock import Clock
from kafkaframes.coordination.transactions.state import TransactionState
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import message
from kafkaframes.records.build import build_records

HOUR_MS = 3_600_000
CLOCK_STEPS_MS = [-HOUR_MS, HOUR_MS]


class SteppedBroker(DirectBroker):
    """A broker with a wall clock and a monotonic clock that the test sets."""

    def __init__(self, data_dir: str | None = None, **config: object) -> None:
        super().__init__(data_dir, **config)
        self.wall_ms, self.monotonic_ms = START_MS, 5_000
        self.clock = Clock(lambda: self.wall_ms, lambda: self.monotonic_ms)
        self.state.logs.abandon()
        self.open()

    def step(self, milliseconds: int) -> None:
        """Set the system's time."""
        self.wall_ms += milliseconds
        self.clock.run_due()

    def wait(self, milliseconds: int) -> None:
        """Advance the clock in steps of one second, and run the broker's timers after each."""
        while milliseconds > 0:
            step_ms = min(milliseconds, 1_000)
            self.wall_ms += step_ms
            self.monotonic_ms += step_ms
            milliseconds -= step_ms
            self.clock.run_due()

    def join(self, member_id: str = "", **fields: object) -> object:
        """Send a JoinGroup of group ``g``."""
        protocols = [message("JoinGroupRequest").JoinGroupRequestProtocol(name="range")]
        member_fields = {
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 3_000,
            "protocol_type": "consumer",
            **fields,
        }
        answer = self.send("JoinGroup", 2, group_id="g", member_id=member_id, protocols=protocols, **member_fields)
        self.clock.run_due()
        return answer.body or answer if isinstance(answer, PendingAnswer) else answer

    def sync(self, join_answer: object) -> None:
        """Send the SyncGroup of the only member."""
        rows = [message("SyncGroupRequest").SyncGroupRequestAssignment(member_id=join_answer.member_id)]
        self.send(
            "SyncGroup",
            1,
            group_id="g",
            generation_id=join_answer.generation_id,
            member_id=join_answer.member_id,
            assignments=rows,
        )

    def heartbeat(self, join_answer: object) -> int:
        """Send a Heartbeat; return the error code."""
        fields = {"generation_id": join_answer.generation_id, "member_id": join_answer.member_id}
        return self.send("Heartbeat", 1, group_id="g", **fields).error_code

    def begin_transaction(self, timeout_ms: int = 60_000) -> object:
        """Begin a transaction of id ``tx`` in topic ``t``."""
        producer = self.send("InitProducerId", 1, transactional_id="tx", transaction_timeout_ms=timeout_ms)
        topic = message("AddPartitionsToTxnRequest").AddPartitionsToTxnTopic(name="t", partitions=[0])
        self.send(
            "AddPartitionsToTxn",
            0,
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[topic],
        )
        return producer

    @property
    def transaction_state(self) -> TransactionState:
        """The state of transactional id ``tx``."""
        return self.state.transactions.transactions["tx"].state


def start_stepped_broker(tmp_path: object = None, **config: object) -> SteppedBroker:
    broker = SteppedBroker(tmp_path and str(tmp_path), group_initial_rebalance_delay_ms=0, **config)
    broker.state.create_topic("t", 1)
    return broker


@pytest.mark.parametrize("step_ms", CLOCK_STEPS_MS)
def test_a_clock_step_does_not_affect_a_rebalance_or_its_members(step_ms):
    broker = start_stepped_broker()
    first = broker.join()
    broker.sync(first)
    second = broker.join()
    assert isinstance(second, PendingAnswer)
    broker.step(step_ms)
    assert second.body is None
    assert broker.heartbeat(first) == ErrorCode.REBALANCE_IN_PROGRESS  # the session has not expired
    broker.wait(3_000)
    assert second.body.error_code == ErrorCode.NONE


@pytest.mark.parametrize("step_ms", CLOCK_STEPS_MS)
def test_a_clock_step_does_not_change_when_a_session_expires(step_ms):
    broker = start_stepped_broker()
    member = broker.join()
    broker.sync(member)
    broker.step(step_ms)
    broker.wait(29_000)
    assert broker.heartbeat(member) == ErrorCode.NONE
    broker.wait(30_000)
    assert broker.heartbeat(member) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("step_ms", CLOCK_STEPS_MS)
def test_a_clock_step_does_not_change_when_a_transaction_times_out(step_ms):
    broker = start_stepped_broker()
    broker.begin_transaction()
    broker.step(step_ms)
    broker.wait(55_000)
    assert broker.transaction_state is TransactionState.ONGOING
    broker.wait(16_000)  # the timeout and one interval of the timeout check
    assert broker.transaction_state is not TransactionState.ONGOING


@pytest.mark.parametrize(("down_ms", "left_ms"), [(20_000, 30_000), (-HOUR_MS, 60_000), (HOUR_MS, 0)])
def test_a_loaded_transaction_keeps_its_remaining_timeout(tmp_path, down_ms, left_ms):
    broker = start_stepped_broker(tmp_path)
    broker.begin_transaction()
    broker.wait(10_000)
    broker.wall_ms += down_ms
    broker.kill()
    if left_ms:
        broker.wait(left_ms - 1_000)
        assert broker.transaction_state is TransactionState.ONGOING
    broker.wait(12_000)
    assert broker.transaction_state is not TransactionState.ONGOING


def test_a_committed_offset_expires_by_its_stored_wall_clock_time():
    """``offsets.retention.minutes`` is compared with stored times, as in Kafka."""
    broker = start_stepped_broker(offsets_retention_minutes=30)
    types = message("OffsetCommitRequest")
    row = types.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topic = types.OffsetCommitRequestTopic(name="t", partitions=[row])
    broker.send("OffsetCommit", 2, group_id="g", topics=[topic])
    broker.step(HOUR_MS)
    broker.wait(11 * 60_000)  # one offsets.retention.check.interval.ms
    topics = [message("OffsetFetchRequest").OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    answer = broker.send("OffsetFetch", 1, group_id="g", topics=topics)
    assert answer.topics[0].partitions[0].committed_offset == -1


@pytest.mark.parametrize("step_ms", CLOCK_STEPS_MS)
def test_a_clock_step_does_not_change_when_deleted_files_are_removed(tmp_path, step_ms):
    from kafkaframes.broker.lifecycle.maintenance import Maintenance

    broker = start_stepped_broker(tmp_path, log_segment_delete_delay_ms=60_000)
    Maintenance(broker.state)
    broker.state.topics["t"].partitions[0].log.append_as_leader(
        build_records({"value": [b"v"], "timestamp": [START_MS]}), leader_epoch=0, now_ms=START_MS
    )
    broker.wait(2_000)
    broker.send("DeleteTopics", 1, topic_names=["t"], timeout_ms=1000)
    broker.step(step_ms)

    def directories() -> list[str]:
        return [path.name for path in tmp_path.iterdir() if path.name.endswith("-delete")]

    broker.wait(57_000)
    assert len(directories()) == 1
    broker.wait(5_000)
    assert directories() == []


@pytest.mark.parametrize("step_ms", CLOCK_STEPS_MS)
def test_a_clock_step_does_not_change_when_a_consumer_group_is_assigned(step_ms):
    broker = start_stepped_broker(
        group_consumer_assignment_interval_ms=10_000, group_consumer_min_assignment_interval_ms=0
    )

    def heartbeat(member: str, epoch: int = 0) -> object:
        joins = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
        fields = joins if epoch == 0 else {}
        return broker.send("ConsumerGroupHeartbeat", 0, group_id="c", member_id=member, member_epoch=epoch, **fields)

    first = heartbeat("")
    heartbeat("")
    group = broker.state.groups.groups["c"]
    before = group.assignment_epoch
    assert group.epoch == before + 1
    broker.step(step_ms)
    heartbeat(first.member_id, first.member_epoch)
    assert group.assignment_epoch == before
    broker.wait(10_000)
    heartbeat(first.member_id, first.member_epoch)
    assert group.assignment_epoch == group.epoch == before + 1


def test_advance_moves_the_wall_clock_and_the_monotonic_clock():
    clock = Clock(lambda: 1_000, lambda: 50)
    calls = []
    clock.call_later(2_000, lambda: calls.append((clock.now_ms, clock.monotonic_ms)))
    clock.advance(3)
    assert calls == [(3_000, 2_050)]
    assert (clock.now_ms, clock.monotonic_ms) == (4_000, 3_050)


def test_a_frozen_clock_stops_the_wall_clock_and_the_monotonic_clock():
    times = [1_000, 50]
    clock = Clock(lambda: times[0], lambda: times[1], is_frozen=True)
    times[:] = [9_000, 9_000]
    clock.advance(1)
    assert (clock.now_ms, clock.monotonic_ms) == (2_000, 1_050)
