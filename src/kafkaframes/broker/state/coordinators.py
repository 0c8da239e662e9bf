"""Create a broker's coordinators, and connect them to the broker's clock and internal topics, and to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID, uuid4

from kafkaframes.broker.requests.api import DeferredResponse
from kafkaframes.broker.settings.features import get_transaction_version
from kafkaframes.broker.state.configs import get_group_setting
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import GROUP_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, Topic
from kafkaframes.coordination.groups.coordinator import GroupCoordinator
from kafkaframes.coordination.groups.ports import GroupSettings, LoadedRecord, Record, Timer
from kafkaframes.coordination.groups.share_state import ShareKey, ShareStates
from kafkaframes.coordination.transactions.coordinator import TransactionCoordinator, TransactionSettings
from kafkaframes.errors import KafkaframesError
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.wire.primitives import uuid_to_text


@dataclass(frozen=True, slots=True)
class TopicLog:
    """An internal topic to which a coordinator writes. The first append creates the topic."""

    state: BrokerState
    topic: str

    @property
    def partitions(self) -> int:
        """The number of partitions that the topic has, or will have when it is created."""
        return self.state.get_internal_partition_count(self.topic)

    def append(
        self, partition: int, records: Sequence[Record], *, producer_id: int = -1, producer_epoch: int = -1
    ) -> None:
        """Append records as one batch. A read-only broker keeps the records in memory.

        Raises:
            AppendRefusedError: the producer is fenced.
            StorageError: the disk fails.
        """
        if self.state.is_read_only:
            self.state.records_in_memory.append(self.topic, partition, records, now_ms=self.state.clock.now_ms)
            return
        self.state.internal.append(
            self.topic,
            partition,
            records,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=producer_id >= 0,
        )


@dataclass(frozen=True, slots=True)
class BrokerTopics:
    """The broker's topics, in the form that the group coordinator requires."""

    state: BrokerState

    @property
    def version(self) -> int:
        """A number that changes whenever a topic is created, extended or deleted."""
        return self.state.topics_version

    def names(self) -> Iterable[str]:
        """Return the names of all topics except internal ones, which subscription patterns never match."""
        return [name for name, topic in self.state.topics.items() if not topic.is_internal]

    def find(self, name: str) -> tuple[UUID, int] | None:
        """Return a topic's id and number of partitions; None if it does not exist."""
        topic = self.state.topics.get(name)
        return None if topic is None else (topic.topic_id, len(topic.partitions))


@dataclass(frozen=True, slots=True)
class SessionClock:
    """The broker's clock for coordinators, which drops calls that are due after the log directory is closed.

    A restarted broker has the same clock and new coordinators.
    """

    state: BrokerState

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.state.clock.now_ms

    @property
    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary moment, unaffected by changes of the system time."""
        return self.state.clock.monotonic_ms

    def call_later(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        """Call ``call`` after ``delay_ms`` milliseconds, if the log directory is still open."""

        def call_if_open() -> None:
            if not self.state.logs.is_closed:
                call()

        return self.state.clock.call_later(delay_ms, call_if_open)


def create_coordinators(state: BrokerState) -> None:
    """Create the coordinators, and load their state from the internal topics.

    Raises:
        OptionError: a setting is invalid.
        LogDirError: an internal topic cannot be read.
    """
    clock = SessionClock(state)
    groups = GroupCoordinator(
        clock,
        TopicLog(state, GROUP_OFFSETS),
        GroupSettings.from_config(state.settings.get_text),
        lambda: str(uuid4()),
        BrokerTopics(state),
        new_uuid=lambda: uuid_to_text(uuid4()),
        setting=lambda group_id, name: int(get_group_setting(state, group_id, name)),
    )
    state.groups = groups
    groups.load(_read_stored_records(state, GROUP_OFFSETS))
    transactions = TransactionCoordinator(
        clock,
        TopicLog(state, TRANSACTION_STATE),
        TransactionSettings.from_config(
            state.settings.get_text, transaction_version=get_transaction_version(state.features)
        ),
        state.assign_producer_id,
        _create_marker_writer(state, groups),
        run_steps=state.changes.run_concurrently,
    )
    state.transactions = transactions
    _restore_markers(state)
    transactions.load_transactions(_read_stored_records(state, TRANSACTION_STATE))
    states = ShareStates(clock, TopicLog(state, SHARE_GROUP_STATE), lambda key: _wake_fetches(state, key))
    states.load_states(_read_stored_records(state, SHARE_GROUP_STATE))
    groups.share.start_reading = lambda group_id, epoch, topic_id, index: states.initialize_state(
        ShareKey(group_id, topic_id, index), epoch
    )
    state.share_groups = states
    state.on_topic_deleted.append(lambda topic: _delete_topic_offsets(state, topic))


def _read_stored_records(state: BrokerState, topic: str) -> Iterator[LoadedRecord]:
    """Yield the records of an internal topic, first from its log, then from memory."""
    yield from state.internal.replay(topic)
    yield from state.records_in_memory.replay(topic)


def _restore_markers(state: BrokerState) -> None:
    """Append the transaction markers of earlier starts of a read-only broker, whose logs do not contain them."""
    for topic_partition, marker in tuple(state.records_in_memory.markers()):
        partition = state.partition(topic_partition.topic, topic_partition.partition)
        if partition is not None:
            with suppress(KafkaframesError):  # the directory has changed; reads of the partition report the error
                state.internal.write_marker(
                    partition,
                    commit=marker.is_commit,
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                )


def resolve_patterns_in_thread(state: BrokerState, run: Callable[[Callable[[], None]], DeferredResponse]) -> None:
    """Resolve subscription patterns in a thread, through ``run``."""

    def run_in_thread(work: Callable[[], None], finish: Callable[[], None]) -> None:
        run(work).call_when_complete(lambda _: finish())

    state.groups.consumer.patterns.run_in_thread = run_in_thread


def _create_marker_writer(state: BrokerState, groups: GroupCoordinator) -> Callable[..., None]:
    """Return a function that writes transaction markers and, in ``__consumer_offsets``, completes offset commits."""

    def write_marker(
        topic_partition: TopicPartition, *, commit: bool, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        partition = state.partition(topic_partition.topic, topic_partition.partition)
        if partition is not None:
            state.internal.write_marker(
                partition,
                commit=commit,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
            )
        if state.is_read_only:
            state.records_in_memory.add_marker(
                topic_partition,
                commit=commit,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                now_ms=state.clock.now_ms,
            )
        if topic_partition.topic == GROUP_OFFSETS:
            groups.end_transaction(topic_partition.partition, producer_id, commit=commit)

    return write_marker


def _wake_fetches(state: BrokerState, key: ShareKey) -> None:
    """Wake share fetches that wait for a partition whose records may be available again."""
    topic = state.topics_by_id.get(key.topic_id)
    partition = None if topic is None else topic.partition(key.partition)
    if partition is not None:
        partition.notify()


def _delete_topic_offsets(state: BrokerState, topic: Topic) -> None:
    """Delete all groups' offsets in a deleted topic, as Kafka does (OffsetMetadataManager)."""
    with suppress(KafkaframesError):  # if the log is not available, the offsets expire
        state.groups.commits.delete_topic_offsets(topic.name)
        state.groups.delete_share_topic(topic.topic_id)
        state.share_groups.delete_states(topic_id=topic.topic_id)
