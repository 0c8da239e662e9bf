"""The record accumulator: each record is in one batch, in order, and the sending task is woken in time."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkaframes.client import accumulator as module
from kafkaframes.client.accumulator import Accumulator
from kafkaframes.client.batches import PartResult
from kafkaframes.client.metadata import Cluster, PartitionMetadata, TopicMetadata, TopicPartition
from kafkaframes.client.record_futures import ThreadResults
from kafkaframes.client.settings import ProducerSettings
from kafkaframes.errors import ErrorCode, NetworkError
from kafkaframes.records.partitioner import partition_of
from kafkaframes.wire.primitives import NIL_UUID

BATCH, BUFFER, LINGER_S, MAX_AGE_S = 100, 450, 0.005, 300.0
TOPICS = st.sampled_from("ab")


class AccumulatorMachine(RuleBasedStateMachine):
    """A Hypothesis state machine of a producer's threads and its event loop.

    Attributes:
        waiting: added records that were not drained yet, by partition, in order.
        is_woken: whether ``wake`` was called since ``drain``.
        timer: time at which the event loop drains without being woken.
    """

    def __init__(self):
        super().__init__()
        self.now = 1_000.0
        self.number = 0
        self.waiting: dict[TopicPartition, list[tuple[bytes, int, float]]] = {}
        self.futures: dict[bytes, object] = {}
        self.is_woken = False
        self.timer: float | None = None
        self.is_closed = False
        self.open_topics = {"a", "b"}
        self.monkeypatch = pytest.MonkeyPatch()
        self.monkeypatch.setattr(module.time, "monotonic", lambda: self.now)

    def teardown(self):
        self.monkeypatch.undo()

    @initialize(seed=st.integers(0, 99), count=st.integers(1, 3))
    def begin(self, seed, count):
        settings = ProducerSettings(
            bootstrap_servers="a:1", batch_size=BATCH, buffer_memory=BUFFER, linger_ms=5, metadata_max_age_ms=300_000
        )
        self.cluster = Cluster()
        self.accumulator = Accumulator(settings, self.cluster, wake=self.wake)
        self.accumulator.results = ThreadResults
        self.accumulator.may_open = lambda target: target.topic in self.open_topics
        self.accumulator._random.seed(seed)
        self.update_metadata("a", count)

    def wake(self):
        assert not self.accumulator._lock.locked()
        self.is_woken = True

    @rule(topic=TOPICS, count=st.integers(1, 3))
    def metadata_come(self, topic, count):
        self.update_metadata(topic, count)

    def update_metadata(self, topic, count):
        """Receive new metadata with the same number of partitions or more."""
        if self.is_closed:
            return
        before = self.cluster.topics.get(topic)
        count = max(count, len(before.partitions) if before else 1)
        partitions = {n: PartitionMetadata(n, 1, 0, (1,), (1,), ErrorCode.NONE) for n in range(count)}
        self.cluster.topics[topic] = TopicMetadata(topic, NIL_UUID, False, partitions, ErrorCode.NONE)
        self.cluster.updated_at = self.now
        self.accumulator.update_topic(topic)

    @rule(topic=TOPICS)
    def forget(self, topic):
        self.cluster.topics.pop(topic, None)

    @rule(topics=st.sets(TOPICS))
    def add_to_transaction(self, topics):
        """Add the partitions of these topics to the transaction."""
        self.open_topics = topics

    @rule(
        topic=TOPICS,
        sizes=st.lists(st.sampled_from([1, 30, 60, 100, 150]), min_size=1, max_size=8),
        key=st.none() | st.sampled_from([b"", b"k", b"key"]),
        partition=st.none() | st.integers(0, 2),
    )
    def add(self, topic, sizes, key, partition):
        for size in sizes:
            self.add_one(topic, size, key, partition)

    def add_one(self, topic, size, key, partition):
        value = b"%d" % self.number
        used_bytes = sum(size for rows in self.waiting.values() for _, size, _ in rows) + self.accumulator.built_bytes
        self.number += 1
        future = self.accumulator.add((topic, key, value, (), partition, 0, size))
        if future is None:
            return
        assert not self.is_closed
        assert used_bytes == 0 or used_bytes + size <= BUFFER
        topic_state = self.accumulator._topics[topic]
        (target,) = (
            batch.target for batch in topic_state.open_batches.values() if batch.values and batch.values[-1] == value
        )
        if partition is not None or key is not None:
            expected_partition = partition if partition is not None else partition_of(key, len(topic_state.targets))
            assert target == TopicPartition(topic, expected_partition)
        self.waiting.setdefault(target, []).append((value, size, self.now))
        self.futures[value] = future

    @rule(seconds=st.sampled_from([0.0, 0.001, LINGER_S, MAX_AGE_S]))
    def go_on(self, seconds):
        self.now += seconds

    @precondition(lambda self: self.is_woken or (self.timer is not None and self.timer <= self.now))
    @rule()
    def drain(self):
        self.take_batches(self.now)

    @rule()
    def drain_all(self):
        """Drain all batches, as a flush or a record without free memory does."""
        self.take_batches(None)
        assert not any(self.waiting.values())

    def take_batches(self, now):
        self.is_woken = False
        drained_batches, self.timer = self.accumulator.drain(now)
        for batch in drained_batches:
            rows = self.waiting[batch.target]
            assert batch.values == [value for value, _, _ in rows[: len(batch.values)]]
            assert batch.size == sum(size for _, size, _ in rows[: len(batch.values)])
            assert batch.size <= BATCH or len(batch.values) == 1
            del rows[: len(batch.values)]
            self.accumulator.built_bytes += batch.size
            batch.results.set_results([PartResult(0, len(batch.values), self.number)])
            offsets = [self.futures.pop(value).result(0).offset for value in batch.values]
            assert offsets == list(range(self.number, self.number + len(offsets)))
        if now is not None:  # expired batches are removed
            assert all(now - rows[0][2] < LINGER_S for rows in self.waiting.values() if rows)

    @rule()
    def answer_all(self):
        self.accumulator.built_bytes = 0

    @rule()
    def expire_linger(self):
        self.accumulator.end_linger_time()
        self.take_batches(self.now)
        assert not any(self.waiting.values())

    @precondition(lambda self: self.number > 20)
    @rule()
    def close(self):
        """Close as the producer does: drop pending records, and reject new ones."""
        for batch in self.accumulator.close():
            batch.results.drop(NetworkError("closed"))
            for value in batch.values:
                assert isinstance(self.futures.pop(value).exception(0), NetworkError)
        self.waiting.clear()
        self.is_closed = True

    @invariant()
    def counts_pending_records(self):
        if self.number:
            assert self.accumulator.size_bytes == sum(size for rows in self.waiting.values() for _, size, _ in rows)

    @invariant()
    def wakes_for_pending_records(self):
        """Full batches are drained immediately, other batches after their linger time."""
        for rows in self.waiting.values():
            if rows and not self.is_woken:
                assert self.timer is not None
                assert self.timer <= rows[0][2] + LINGER_S + 1e-9
                assert sum(size for _, size, _ in rows) <= BATCH or len(rows) == 1


TestGathers = AccumulatorMachine.TestCase
TestGathers.settings = settings(max_examples=max(300, settings.default.max_examples))
