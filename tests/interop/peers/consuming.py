"""Performances of consumers that read partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tests.interop.peers.behaviours import next_to_peers
from tests.interop.peers.interface import Client, Record, attempt, fails, wait_for

if TYPE_CHECKING:
    from tests.interop.peers.stage import Stage

EARLIEST = {"auto_offset_reset": "earliest"}


def offsets_of(records: Iterable[Record]) -> list[int]:
    return [record.offset for record in records]


@next_to_peers(sees=[[number, str(number)] for number in range(10)])
def an_assigned_partition_is_read_from_its_beginning(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        return [(record.offset, record.value) for record in consumer.read(10)]


@next_to_peers(sees=["new"])
def latest_reads_only_new_records(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(auto_offset_reset="latest") as consumer:
        consumer.assign([(topic, 0)])
        consumer.poll(1.0)
        stage.append(topic, [{"value": b"new"}])
        return [record.value for record in consumer.read(1)]


@next_to_peers(sees="no offset")
def reading_fails_without_an_offset_and_a_reset_policy(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)

    def read() -> None:
        with client.consumer(auto_offset_reset="none", group_id=stage.name()) as consumer:
            consumer.assign([(topic, 0)])
            consumer.read(1, patience_s=5)

    return attempt(client, read)


@next_to_peers(sees=[list(range(first, 10)) for first in (0, 3, 7, 9)])
def seek_reads_from_exactly_that_offset(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    answers = []
    for offset in (0, 3, 7, 9):
        with client.consumer(**EARLIEST) as consumer:
            consumer.assign([(topic, 0)])
            consumer.seek((topic, 0), offset)
            answers.append(offsets_of(consumer.read(10 - offset)))
    return answers


@next_to_peers(sees=[[80], list(range(81, 100))])
def seek_into_a_compressed_batch_returns_no_older_records(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(compression_type="gzip", linger_ms=1_000) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush()
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 80)
        first = consumer.poll(10, max_records=1)
        return offsets_of(first), offsets_of(consumer.read(19))


@next_to_peers(sees=[8, 9])
def seek_back_reads_records_again(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        consumer.read(10)
        consumer.seek((topic, 0), 8)
        return offsets_of(consumer.read(2))


@next_to_peers(sees=6, confluent="unknown (-1001) before the first record")
def the_position_after_a_seek_is_the_offset(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 6)
        return consumer.position((topic, 0))


@next_to_peers(sees="refused by the client", confluent="accepted")
def seek_to_a_negative_offset_is_rejected(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        consumer.read(1)
        return attempt(client, lambda: consumer.seek((topic, 0), -7))


@next_to_peers(sees=["refused by the client"] * 4, confluent="`position`, `pause` and `resume` accept it")
def a_partition_that_is_not_assigned_is_rejected(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        consumer.read(10)
        other = (topic, 1)
        calls = (
            lambda: consumer.position(other),
            lambda: consumer.pause(other),
            lambda: consumer.resume(other),
            lambda: consumer.seek_to_end(other),
        )
        return [attempt(client, call) for call in calls]


@next_to_peers(sees=list(range(10)))
def seek_to_beginning_reads_everything_again(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        consumer.read(10)
        consumer.seek_to_beginning((topic, 0))
        return offsets_of(consumer.read(10))


@next_to_peers(sees=[10])
def seek_to_end_skips_all_existing_records(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_end((topic, 0))
        consumer.poll(1.0)
        stage.append(topic, [{"value": b"new"}])
        return offsets_of(consumer.read(1))


@next_to_peers(sees=list(range(10)))
def an_offset_beyond_the_end_is_reset_to_earliest(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 1_000)
        return offsets_of(consumer.read(10))


@next_to_peers(sees=[10])
def an_offset_beyond_the_end_is_reset_to_latest(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(auto_offset_reset="latest") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 1_000)
        consumer.poll(1.5)
        consumer.poll(0.5)
        stage.append(topic, [{"value": b"new"}])
        return offsets_of(consumer.read(1))


@next_to_peers(
    sees=["OFFSET_OUT_OF_RANGE", [9]], confluent="after the error, `seek` is refused until the next `assign`"
)
def an_offset_beyond_the_end_is_an_error_without_a_reset_policy(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    group = {"group_id": stage.name(), "enable_auto_commit": False}
    with client.consumer(**group, **EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        consumer.commit({(topic, 0): 1_000})
    with client.consumer(auto_offset_reset="none", **group) as consumer:
        consumer.assign([(topic, 0)])
        kind = attempt(client, lambda: consumer.read(1, patience_s=10))
        consumer.seek((topic, 0), 9)
        return kind, offsets_of(consumer.read(1))


@next_to_peers(sees=[[0, 1, 2], True], confluent="no such setting; `consume` takes a number")
def a_poll_returns_at_most_max_poll_records(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(max_poll_records=3, **EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        polls = [offsets_of(consumer.poll(5)) for _ in range(6)]
    polls = [poll for poll in polls if poll]
    return polls[0], all(len(poll) <= 3 for poll in polls)


@next_to_peers(sees=[0, 4], confluent="unknown (-1001) before the first record")
def the_position_follows_the_records_that_poll_returns(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        first = consumer.position((topic, 0))
        wait_for(lambda: consumer.poll(1, max_records=4))
        return first, consumer.position((topic, 0))


@next_to_peers(sees=list(range(10)))
def repeated_polls_with_a_timeout_of_zero_return_all_records(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    records: list[Record] = []
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        wait_for(lambda: records.extend(consumer.poll(0)) or len(records) == 10)
    return offsets_of(records)


@next_to_peers(sees=[])
def poll_of_an_empty_partition_returns_nothing(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        return consumer.poll(0.5)


@next_to_peers(sees="no error", aio="`getmany` waits for an assignment")
def poll_without_an_assignment_returns_nothing(stage: Stage, client: Client) -> Any:
    with client.consumer(**EARLIEST) as consumer:
        return attempt(client, lambda: consumer.poll(0.1))


@next_to_peers(sees=[[0, 1], [], list(range(2, 10))])
def a_paused_partition_returns_nothing_until_it_is_resumed(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        first: list[Record] = []
        wait_for(lambda: first.extend(consumer.poll(1, max_records=2 - len(first))) or len(first) == 2)
        consumer.pause((topic, 0))
        paused_records = consumer.poll(0.5)
        consumer.resume((topic, 0))
        return offsets_of(first), paused_records, offsets_of(consumer.read(8))


@next_to_peers(sees=[0, 4], confluent="unknown (-1001) before the first record")
def a_paused_partition_has_a_position(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        consumer.pause((topic, 0))
        first = consumer.position((topic, 0))
        consumer.seek((topic, 0), 4)
        return first, consumer.position((topic, 0))


@next_to_peers(sees=[[1, 1, 1], []])
def other_partitions_continue_while_one_is_paused(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    stage.append(topic, [{"value": b"v"}] * 3, partition=1)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        consumer.pause((topic, 0))
        records = consumer.read(3)
        return [record.partition for record in records], consumer.poll(0.5)


@next_to_peers(sees=[number * 1_000 for number in range(1, 11)])
def timestamps_are_returned_in_milliseconds(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        return [record.timestamp for record in consumer.read(10)]


@next_to_peers(sees=[["b", "1"], ["a", None], ["b", "3"]])
def headers_are_returned_in_their_order(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    stage.append(topic, [{"value": b"v", "headers": [("b", b"1"), ("a", None), ("b", b"3")]}])
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        return consumer.read(1)[0].headers


@next_to_peers(sees=[[None, ""], ["", None]])
def null_and_empty_values_are_returned_unchanged(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    stage.append(topic, [{"key": None, "value": b""}, {"key": b"", "value": None}])
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        return [(record.key, record.value) for record in consumer.read(2)]


@next_to_peers(sees=[0, 0, 1, 5, 9])
def offsets_are_found_by_time(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer() as consumer:
        return [consumer.offset_for_time((topic, 0), time) for time in (0, 1_000, 1_001, 5_500, 10_000)]


@next_to_peers(sees=-1, kafka_python="None", aio="None")
def a_time_after_the_last_record_has_no_offset(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer() as consumer:
        return consumer.offset_for_time((topic, 0), 10_001)


@next_to_peers(sees=[[0, 10], [0, 0]])
def beginning_and_end_offsets_need_no_assignment(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer() as consumer:
        return [
            (consumer.beginning_offset(partition), consumer.end_offset(partition))
            for partition in ((topic, 0), (topic, 2))
        ]


@next_to_peers(sees=[0, 1, 2], aio="None for a topic that is not subscribed")
def partitions_of_a_topic_are_listed(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.consumer() as consumer:
        return consumer.partitions_for(topic)


@next_to_peers(sees="INVALID_TOPIC", kafka_python="None", aio="None")
def partitions_of_an_invalid_topic_are_an_error(stage: Stage, client: Client) -> Any:
    with client.consumer() as consumer:
        return attempt(client, lambda: consumer.partitions_for(";3# ads,{234"))


@next_to_peers(sees=[True, False], confluent="internal topics are listed")
def topics_are_listed_without_internal_ones(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=1)
    with client.consumer(group_id=stage.name()) as consumer:
        consumer.assign([(topic, 0)])
        consumer.commit({(topic, 0): 1})
        topics = consumer.topics()
    return topic in topics, "__consumer_offsets" in topics


@next_to_peers(sees=[[1], ["other"]])
def a_second_assign_replaces_the_first(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    stage.append(topic, [{"value": b"other"}], partition=1)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        consumer.read(10)
        consumer.assign([(topic, 1)])
        assignment = [partition for _, partition in consumer.assignment()]
        return assignment, [record.value for record in consumer.read(1)]


@next_to_peers(
    sees=list(range(4, 10)),
    confluent="it is read again from the committed offset",
    aio="it is read again from its beginning",
)
def a_partition_in_both_assignments_keeps_its_position(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        first: list[Record] = []
        wait_for(lambda: first.extend(consumer.poll(1, max_records=4 - len(first))) or len(first) == 4)
        consumer.assign([(topic, 0), (topic, 1)])
        return offsets_of(consumer.read(6))


@next_to_peers(sees=[[], []])
def an_empty_assignment_reads_nothing(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        consumer.assign([])
        return consumer.assignment(), consumer.poll(0.3)


@next_to_peers(sees=[7, 8, 9], kafka_python="`seek` after `assign`", aio="`seek` after `assign`")
def assign_accepts_start_offsets(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign({(topic, 0): 7})
        return offsets_of(consumer.read(3))


@next_to_peers(sees=[5, 6, 7, 8, 9])
def assign_with_a_group_begins_at_the_committed_offset(stage: Stage, client: Client) -> Any:
    topic, group = stage.topic(records=10), stage.name()
    with client.consumer(group_id=group, enable_auto_commit=False, **EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        consumer.commit({(topic, 0): 5})
    with client.consumer(group_id=group, enable_auto_commit=False, **EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        return offsets_of(consumer.read(5))


@next_to_peers(sees=["refused by the client", "refused by the client"], confluent="the constructor requires `group.id`")
def commit_without_a_group_is_rejected(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        calls = (lambda: consumer.commit({(topic, 0): 1}), lambda: consumer.committed_offset((topic, 0)))
        return [attempt(client, call) for call in calls]


@next_to_peers(sees=[5, "größe"], aio="`committed` returns no metadata")
def committed_offsets_keep_their_metadata(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(group_id=stage.name(), enable_auto_commit=False) as consumer:
        consumer.assign([(topic, 0)])
        consumer.commit({(topic, 0): (5, "größe")})
        return consumer.committed_offset((topic, 0))


@next_to_peers(sees=None)
def a_partition_without_a_committed_offset_is_not_in_the_result(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(group_id=stage.name(), enable_auto_commit=False) as consumer:
        return consumer.committed_offset((topic, 0))


@next_to_peers(sees=[50_000])
def a_record_above_the_fetch_size_is_read(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    stage.append(topic, [{"value": b"x" * 50_000}])
    with client.consumer(max_partition_fetch_bytes=1_000, **EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        return [len(record.value) for record in consumer.read(1)]


@next_to_peers(sees=[[10, 5_000, 10]] * 3)
def small_fetches_of_many_partitions_skip_nothing(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    for number in range(3):
        for size in (10, 5_000, 10):
            stage.append(topic, [{"value": b"x" * size}], partition=number)
    with client.consumer(max_partition_fetch_bytes=1_000, **EARLIEST) as consumer:
        consumer.assign([(topic, number) for number in range(3)])
        records = consumer.read(9)
    return [[len(record.value) for record in records if record.partition == number] for number in range(3)]


@next_to_peers(sees=[list(range(10))] * 3)
def records_of_a_partition_are_returned_in_order(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    for number in range(30):
        stage.append(topic, [{"value": b"%d" % number}], partition=number % 3)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, number) for number in range(3)])
        records = consumer.read(30)
    return [offsets_of(record for record in records if record.partition == number) for number in range(3)]


@next_to_peers(sees=[4, 5, 6, 7, 8, 9])
def a_partition_with_offset_gaps_is_read_to_its_end(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.admin() as admin, client.consumer(**EARLIEST) as consumer:
        admin.delete_records((topic, 0), 4)
        consumer.assign([(topic, 0)])
        return offsets_of(consumer.read(6))


@next_to_peers(sees="refused by the client")
def a_closed_consumer_is_rejected(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer() as consumer:
        consumer.assign([(topic, 0)])
    return attempt(client, lambda: consumer.poll(0))


@next_to_peers(sees="no error")
def a_consumer_may_be_closed_twice(stage: Stage, client: Client) -> Any:
    consumer = client.consumer()
    consumer.close()
    return attempt(client, consumer.close)


@next_to_peers(sees=list(range(10)), confluent="a consumer is not iterable")
def a_for_loop_reads_records_in_order(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    offsets = []
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        for record in consumer.iterate():
            offsets.append(record.offset)
            if len(offsets) == 10:
                break
    return offsets


@next_to_peers(sees=[4, list(range(4, 10))], confluent="a consumer is not iterable")
def leaving_a_for_loop_skips_nothing(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        for record in consumer.iterate():
            if record.offset == 3:
                break
        return consumer.position((topic, 0)), offsets_of(consumer.read(6))


@next_to_peers(sees=["corrupt", []], confluent="returned as it is: `check.crcs` is off by default")
def a_damaged_batch_is_an_error_and_is_not_skipped(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=5)
    stage.fault("Fetch", "corrupt", topic=topic)
    records: list[Record] = []
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        kind = attempt(client, lambda: records.extend(consumer.read(5, patience_s=5)))
    return kind, offsets_of(records)


@next_to_peers(
    sees=[True, True, True],
    kafka_python="an unknown `auto_offset_reset` is accepted",
    aio="an unknown `auto_offset_reset` is accepted",
)
def a_wrong_setting_is_rejected_by_the_constructor(stage: Stage, client: Client) -> Any:
    wrong = [{"auto_offset_reset": "newest"}, {"isolation_level": "read"}, {"colour": "red"}]
    return [fails(client, lambda settings=settings: client.consumer(**settings).close()) for settings in wrong]


@next_to_peers(sees=[0, 1, 1])
def offsets_of_many_partitions_are_found_by_time(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    for number in range(3):
        times = [1_000 + number, 5_000]
        stage.append(topic, [{"value": b"v", "timestamp": time} for time in times], partition=number)
    with client.consumer() as consumer:
        times_ms = [1_000, 1_002, 1_003]
        return [consumer.offset_for_time((topic, number), time) for number, time in enumerate(times_ms)]
