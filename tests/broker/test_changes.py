"""Topics with many partitions are created one partition at a time. Other requests are answered in between, and see
either no partition or all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.direct import DirectBroker, PendingAnswer
from tests.broker.test_handle import ask

from kafkaframes import build_records
from kafkaframes.broker import Broker
from kafkaframes.broker.apis.produce import append_to_partition, read_sent_records
from kafkaframes.broker.requests.api import DeferredResponse
from kafkaframes.broker.state import state
from kafkaframes.broker.state.changes import ChangeQueue, finish_steps, run_once
from kafkaframes.broker.state.metadata_file import write_metadata
from kafkaframes.errors import ErrorCode, LogDirError, OptionError, StorageError
from kafkaframes.protocol.messages import message
from kafkaframes.wire.primitives import uuid_to_text


class PendingCalls:
    """Calls that a broker has scheduled on its event loop; tests run them one at a time."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def take(self) -> None:
        """Give one turn."""
        self.due.pop(0)()

    def take_all(self) -> None:
        while self.due:
            self.take()


@pytest.fixture
def turns():
    return PendingCalls()


@pytest.fixture
def broker(tmp_path, turns):
    broker = DirectBroker(str(tmp_path), auto_create_topics_enable="true")
    broker.state.changes.next_turn = turns.due.append
    yield broker
    broker.state.logs.abandon()


def create(broker: DirectBroker, *topics: tuple[str, int], **configs: str) -> Any:
    types = message("CreateTopicsRequest")
    settings = [types.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
    rows = [
        types.CreatableTopic(name=name, num_partitions=count, replication_factor=1, configs=settings)
        for name, count in topics
    ]
    return broker.send("CreateTopics", 7, topics=rows, timeout_ms=1000)


def partition_counts(broker: DirectBroker) -> dict[str, int]:
    return {topic.name: len(topic.partitions) for topic in broker.send("Metadata", 9, topics=None).topics}


def error_codes_of(answer: Any) -> list[int]:
    body = answer.body if isinstance(answer, PendingAnswer) else answer
    return [result.error_code for result in (body.topics if hasattr(body, "topics") else body.results)]


def test_a_topic_is_visible_only_when_all_its_partitions_exist(broker, turns):
    answer = create(broker, ("orders", 4), **{"retention.ms": "1234"})
    while turns.due:
        assert answer.body is None
        assert partition_counts(broker) == {}
        turns.take()
    assert error_codes_of(answer) == [0]
    assert partition_counts(broker) == {"orders": 4}
    assert {partition.log.settings.retention_ms for partition in broker.state.partitions()} == {1234}
    broker.kill()
    assert partition_counts(broker) == {"orders": 4}


def test_topic_changes_run_in_the_order_of_their_requests(broker, turns):
    types = message("CreatePartitionsRequest")
    rows = [types.CreatePartitionsTopic(name="orders", count=4, assignments=None)]
    creation = create(broker, ("orders", 2))
    again = create(broker, ("orders", 1))
    more = broker.send("CreatePartitions", 3, topics=rows, timeout_ms=1000, validate_only=False)
    deletion = broker.send("DeleteTopics", 5, topic_names=["orders"], timeout_ms=1000)
    anew = create(broker, ("orders", 3))
    turns.take_all()
    assert (error_codes_of(creation), error_codes_of(again), error_codes_of(more)) == (
        [0],
        [ErrorCode.TOPIC_ALREADY_EXISTS],
        [0],
    )
    assert [response.error_code for response in deletion.body.responses] == [0]
    assert error_codes_of(anew) == [0]
    assert partition_counts(broker) == {"orders": 3}


def test_a_topic_under_creation_is_not_created_by_another_request(broker, turns):
    answer = create(broker, ("orders", 3))
    types = message("MetadataRequest")
    rows = [types.MetadataRequestTopic(name="orders")]
    pending_answer = broker.send("Metadata", 9, topics=rows, allow_auto_topic_creation=True)
    assert pending_answer.body is None
    with pytest.raises(OptionError, match="is being changed"):
        broker.state.create_topic("orders", 1)
    turns.take_all()
    assert error_codes_of(answer) == [0]
    assert (error_codes_of(pending_answer), len(pending_answer.body.topics[0].partitions)) == ([0], 3)


def metadata_write_counts(monkeypatch) -> list[int]:
    counts: list[int] = []

    def count(disk, directory, metadata):
        counts.append(len(metadata.topics))
        write_metadata(disk, directory, metadata)

    monkeypatch.setattr(state, "write_metadata", count)
    return counts


def test_topics_auto_created_by_metadata_are_created_in_steps_and_stored_with_one_write(broker, turns, monkeypatch):
    write_counts = metadata_write_counts(monkeypatch)
    types = message("MetadataRequest")
    names = [f"t-{number}" for number in range(50)]
    rows = [types.MetadataRequestTopic(name=name) for name in [*names, *names, "a b"]]
    answer = broker.send("Metadata", 9, topics=rows, allow_auto_topic_creation=True)
    taken_turns = 0
    while turns.due:
        assert (answer.body, partition_counts(broker)) == (None, {})
        turns.take()
        taken_turns += 1
    assert error_codes_of(answer) == [0] * 50 + [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert taken_turns >= 50
    assert write_counts == [50]
    broker.kill()
    assert partition_counts(broker) == dict.fromkeys(names, 1)


def test_a_request_for_many_topics_writes_the_metadata_once(broker, turns, monkeypatch):
    write_counts = metadata_write_counts(monkeypatch)
    names = [f"t-{number}" for number in range(30)]
    creation = create(broker, *((name, 2) for name in names), ("t_0", 1), ("x.y", 1), ("x y", 1))
    turns.take_all()
    assert error_codes_of(creation) == [0] * 32 + [ErrorCode.INVALID_TOPIC_EXCEPTION]
    types = message("CreatePartitionsRequest")
    rows = [types.CreatePartitionsTopic(name=name, count=3, assignments=None) for name in names]
    more = broker.send("CreatePartitions", 3, topics=rows, timeout_ms=1000, validate_only=False)
    turns.take_all()
    assert error_codes_of(more) == [0] * 30
    deletion = broker.send("DeleteTopics", 5, topic_names=[*names, "never-made"], timeout_ms=1000)
    turns.take_all()
    assert [response.error_code for response in deletion.body.responses] == [0] * 30 + [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
    assert write_counts == [32, 32, 2]


def test_a_disk_failure_at_the_end_of_a_request_fails_all_its_topics(broker, turns, monkeypatch):
    def fail(disk, directory, metadata):
        raise StorageError("full")

    monkeypatch.setattr(state, "write_metadata", fail)
    creation = create(broker, ("a", 1), ("b", 1), ("c", 0))
    types = message("MetadataRequest")
    rows = [types.MetadataRequestTopic(name="d")]
    seen_by_name = broker.send("Metadata", 9, topics=rows, allow_auto_topic_creation=True)
    turns.take_all()
    storage_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert error_codes_of(creation) == [storage_error, storage_error, ErrorCode.INVALID_PARTITIONS]
    assert error_codes_of(seen_by_name) == [storage_error]


def test_a_topic_is_invisible_from_the_first_step_of_its_deletion(broker, turns):
    remaining_partition, *other_partitions = broker.state.create_topic("orders", 4).partitions
    append_to_partition(broker.state, other_partitions[2], read_sent_records(build_records({"value": [b"v"]})), acks=1)
    answer = broker.send("DeleteTopics", 5, topic_names=["orders"], timeout_ms=1000)
    assert answer.body is None
    assert partition_counts(broker) == {}
    assert remaining_partition.is_offline
    broker.kill()
    assert partition_counts(broker) == {}
    assert [file_name.split(".")[0] for file_name in os.listdir(broker.state.logs.path) if "-delete" in file_name] == [
        "orders-3"
    ]


def test_after_a_crash_unwritten_partitions_are_empty_and_written_ones_are_required(broker):
    topic = broker.state.create_topic("orders", 4)
    append_to_partition(broker.state, topic.partitions[2], read_sent_records(build_records({"value": [b"v"]})), acks=1)
    for _ in range(2):
        broker.kill()
        assert partition_counts(broker) == {"orders": 4}
        assert [partition.log.log_end_offset for partition in broker.state.topics["orders"].partitions] == [0, 0, 1, 0]
        assert {one.log.topic_id for one in broker.state.partitions()} == {uuid_to_text(topic.topic_id)}
        assert [one for one in os.listdir(broker.state.logs.path) if one.startswith("orders-")] == ["orders-2"]
    broker.state.logs.close(now_ms=0)
    os.rename(os.path.join(broker.state.logs.path, "orders-2"), os.path.join(broker.state.logs.path, "elsewhere"))
    with pytest.raises(LogDirError, match=r"orders lacks partitions \[2\], which had records"):
        broker.open()


def test_a_change_continues_without_a_waiting_request(turns):
    changes, events = ChangeQueue(), []
    changes.next_turn = turns.due.append

    def steps():
        yield
        events.append(1)
        return None

    answer = changes.run(steps())
    assert isinstance(answer, DeferredResponse)
    answer.abandon()
    turns.take_all()
    assert events == [1]


def test_a_failed_change_does_not_block_the_next_one(turns):
    changes = ChangeQueue()
    changes.next_turn = turns.due.append

    def failing_steps():
        yield
        raise ZeroDivisionError

    first, second = changes.run(failing_steps()), changes.run(run_once(lambda: None))
    turns.take_all()
    assert isinstance(first.error, ZeroDivisionError)
    assert second.is_done
    with pytest.raises(ZeroDivisionError):
        changes.run(run_once(lambda: 1 / 0))


def test_no_change_runs_after_the_broker_has_closed(turns):
    changes, events = ChangeQueue(), []
    changes.next_turn = turns.due.append

    def steps():
        try:
            yield
        finally:
            events.append("ended")

    changes.run(steps())
    changes.stop()
    turns.take_all()
    assert events == ["ended"]
    assert finish_steps(run_once(lambda: 5)) == 5


def test_a_running_broker_answers_other_requests_while_it_creates_a_large_topic():
    with Broker(journal=False) as broker:
        assert broker.call(lambda state: state.changes.next_turn) is not None
        types = message("CreateTopicsRequest")
        topics = [types.CreatableTopic(name="orders", num_partitions=20, replication_factor=1)]
        assert error_codes_of(ask(broker.port, "CreateTopics", 4, topics=topics)) == [0]
        assert broker.topics["orders"].partitions == 20
