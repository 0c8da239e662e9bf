"""Performances of producers."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from tests.interop.peers.behaviours import next_to_peers
from tests.interop.peers.interface import Client, attempt, fails, wait_for

if TYPE_CHECKING:
    from tests.interop.peers.stage import Stage


@next_to_peers(sees=[1, 1, 1, 1, 1])
def a_key_always_goes_to_the_same_partition(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        return [
            len({producer.send(topic, b"v", key=key).result().partition for _ in range(3)})
            for key in (b"a", b"b", b"c", b"d", b"e")
        ]


@next_to_peers(sees=[4, 4, 7, 6, 2], confluent="CRC-32 by default; `partitioner=murmur2_random` is Java's")
def a_key_goes_to_the_partition_that_java_chooses(stage: Stage, client: Client) -> Any:
    topic = stage.topic(partitions=10)
    keys = [b"a", b"ab", b"abc", b"123456789", b"\x00 "]
    with client.producer() as producer:
        return [producer.send(topic, b"", key=key).result().partition for key in keys]


@next_to_peers(sees=[0, 1, 2])
def an_explicit_partition_wins_over_the_key(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        return [producer.send(topic, b"v", key=b"k", partition=number).result().partition for number in range(3)]


@next_to_peers(sees=True)
def a_partition_that_does_not_exist_is_rejected(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        producer.send(topic, b"v", partition=0).result()
        return fails(client, lambda: producer.send(topic, b"v", partition=7).result())


@next_to_peers(sees=list(range(50)))
def offsets_of_a_partition_are_consecutive(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        deliveries = [producer.send(topic, b"v", partition=1) for _ in range(50)]
        return [delivery.result().offset for delivery in deliveries]


@next_to_peers(sees=["same topic", 2, 0, 1_500_000_000_000])
def the_result_names_topic_partition_offset_and_time(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        receipt = producer.send(topic, b"v", partition=2, timestamp_ms=1_500_000_000_000).result()
    return (
        "same topic" if receipt.topic == topic else receipt.topic,
        receipt.partition,
        receipt.offset,
        receipt.timestamp,
    )


@next_to_peers(sees=[1_234_567_890_123])
def the_timestamp_that_a_user_gives_is_stored(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        producer.send(topic, b"v", partition=0, timestamp_ms=1_234_567_890_123).result()
    return [record[2] for record in stage.records(topic)]


@next_to_peers(sees=True)
def a_record_without_a_timestamp_gets_the_current_time(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        before = int(time.time() * 1000)
        producer.send(topic, b"v").result()
    return before <= stage.records(topic)[0][2] <= int(time.time() * 1000)


@next_to_peers(sees=[True, True])
def a_topic_with_log_append_time_replaces_the_timestamp(stage: Stage, client: Client) -> Any:
    topic = stage.topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    with client.producer() as producer:
        receipt = producer.send(topic, b"v", timestamp_ms=5).result()
    stored_ms = stage.records(topic)[0][2]
    return before - 1_000 <= stored_ms, receipt.timestamp == stored_ms


@next_to_peers(sees="INVALID_TIMESTAMP")
def a_timestamp_outside_the_limits_of_the_topic_is_rejected(stage: Stage, client: Client) -> Any:
    topic = stage.topic(message_timestamp_before_max_ms=60_000)
    with client.producer() as producer:
        return attempt(client, lambda: producer.send(topic, b"v", timestamp_ms=1_000).result())


@next_to_peers(sees=[["b", "1"], ["a", "2"], ["b", "3"]])
def headers_keep_their_order_and_duplicate_names(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        producer.send(topic, b"v", headers=[("b", b"1"), ("a", b"2"), ("b", b"3")]).result()
    return stage.records(topic)[0][5]


@next_to_peers(
    sees=[["text", "é"], ["null", None], ["empty", ""]],
    kafka_python="headers are a list of pairs",
    aio="headers are a list of pairs",
)
def headers_can_be_a_dict_with_text_and_null_values(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        producer.send(topic, b"v", headers={"text": "é", "null": None, "empty": b""}).result()
    return stage.records(topic)[0][5]


@next_to_peers(sees=[[True, True, True, True], []])
def malformed_headers_are_rejected_before_anything_is_sent(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    malformed_headers: list[Any] = [["malformed_header"], "text", [("a", 1)], 5]
    with client.producer() as producer:
        refusals = [
            fails(client, lambda headers=headers: producer.send(topic, b"v", headers=headers).result())
            for headers in malformed_headers
        ]
    return refusals, stage.values(topic)


@next_to_peers(sees=[[None, "k"], ["", "k"], ["v", None], ["v", ""]])
def null_and_empty_values_and_keys_stay_different(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        for value, key in [(None, b"k"), (b"", b"k"), (b"v", None), (b"v", b"")]:
            producer.send(topic, value, key=key, partition=0).result()
    return [(record[4], record[3]) for record in stage.records(topic)]


@next_to_peers(
    sees=[["ключ", "größe"]], kafka_python="TypeError: bytes, or a serializer", aio="TypeError: bytes, or a serializer"
)
def text_is_sent_as_utf_8(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        producer.send(topic, "größe", key="ключ").result()
    return [(record[3], record[4]) for record in stage.records(topic)]


@next_to_peers(sees=[["refused by the client", "refused by the client"], []])
def a_value_or_key_of_another_type_is_rejected(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        value = attempt(client, lambda: producer.send(topic, {"a": 1}).result())
        key = attempt(client, lambda: producer.send(topic, b"v", key={"a": 1}).result())
    return (value, key), stage.values(topic)


@next_to_peers(sees=[0, True])
def a_topic_is_created_by_the_first_record(stage: Stage, client: Client) -> Any:
    topic = stage.name()
    with client.producer() as producer:
        offset = producer.send(topic, b"v").result().offset
    return offset, topic in stage.topics()


@next_to_peers(
    sees=["INVALID_TOPIC", "INVALID_TOPIC"],
    kafka_python="refused by the client",
    aio="UnknownTopicOrPartitionError after the request timeout",
)
def an_invalid_topic_name_is_rejected(stage: Stage, client: Client) -> Any:
    with client.producer() as producer:
        return [attempt(client, lambda name=name: producer.send(name, b"v").result()) for name in ("a topic", "..")]


@next_to_peers(
    sees=["refused by the client", "refused by the client"],
    aio="UnknownTopicOrPartitionError after the request timeout",
)
def a_topic_name_of_another_type_is_rejected(stage: Stage, client: Client) -> Any:
    with client.producer() as producer:
        return [attempt(client, lambda name=name: producer.send(name, b"v").result()) for name in (None, 5)]


@next_to_peers(sees=[100, 100, 100, 100, 100])
def records_survive_every_codec(stage: Stage, client: Client) -> Any:
    counts = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topic = stage.topic()
        expected_values = [b"value " * 10 + b"%d" % number for number in range(100)]
        with client.producer(compression_type=codec) as producer:
            for value in expected_values:
                producer.send(topic, value, partition=0)
            producer.flush()
        counts.append(len(stage.values(topic)) if stage.values(topic) == expected_values else 0)
    return counts


@next_to_peers(sees="refused by the client")
def an_unknown_codec_is_rejected_by_the_constructor(stage: Stage, client: Client) -> Any:
    return attempt(client, lambda: client.producer(compression_type="brotli"))


@next_to_peers(sees=[True, [500]])
def a_record_above_max_request_size_is_rejected_before_it_is_sent(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(max_request_size=1_000) as producer:
        is_refused = fails(client, lambda: producer.send(topic, b"x" * 1_000).result())
        producer.send(topic, b"x" * 500).result()
    return is_refused, [len(value) for value in stage.values(topic)]


@next_to_peers(
    sees=[0, "MESSAGE_TOO_LARGE", 1],
    confluent="all records of its batch fail",
    kafka_python="the record after it fails, too",
    aio="all records of its batch fail",
)
def a_record_above_the_limit_of_the_topic_fails_alone(stage: Stage, client: Client) -> Any:
    topic = stage.topic(max_message_bytes=500)
    with client.producer(linger_ms=200) as producer:
        deliveries = [producer.send(topic, b"x" * size, partition=0) for size in (10, 2_000, 20)]
        kinds = [attempt(client, delivery.result) for delivery in deliveries]
        return [
            delivery.result().offset if kind == "no error" else kind
            for delivery, kind in zip(deliveries, kinds, strict=True)
        ]


@next_to_peers(
    sees=[f"{number:03}" for number in range(20)],
    confluent="all records of the batch fail",
    kafka_python="`flush` raises UnknownError",
    aio="all records of the batch fail",
)
def a_batch_above_the_limit_of_the_topic_is_split(stage: Stage, client: Client) -> Any:
    topic = stage.topic(max_message_bytes=500)
    with client.producer(linger_ms=1_000) as producer:
        for number in range(20):
            producer.send(topic, b"%03d" % number * 30, partition=0)
        producer.flush()
    return [value[:3] for value in stage.values(topic)]


@next_to_peers(sees=[-1, ["v"]], confluent="the offset is None", kafka_python="the offset is 0")
def the_offset_is_unknown_with_acks_0(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(acks=0) as producer:
        offset = producer.send(topic, b"v", partition=0).result().offset
    wait_for(lambda: stage.values(topic))
    return offset, stage.values(topic)


@next_to_peers(sees=[True] * 20)
def flush_waits_for_every_record(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(linger_ms=3_000) as producer:
        deliveries = [producer.send(topic, b"%d" % number) for number in range(20)]
        producer.flush()
        return [delivery.is_done() for delivery in deliveries]


@next_to_peers(sees="no error")
def flush_without_records_returns(stage: Stage, client: Client) -> Any:
    with client.producer() as producer:
        producer.flush()
        return attempt(client, producer.flush)


@next_to_peers(sees=["v"])
def close_sends_all_pending_records(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(linger_ms=3_000) as producer:
        producer.send(topic, b"v", partition=0)
    return stage.values(topic)


@next_to_peers(sees="refused by the client", confluent="a producer has no `close`")
def send_after_close_is_rejected(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    producer = client.producer()
    producer.send(topic, b"v").result()
    producer.close()
    return attempt(client, lambda: producer.send(topic, b"v"))


@next_to_peers(sees="no error", confluent="a producer has no `close`")
def a_producer_may_be_closed_twice(stage: Stage, client: Client) -> Any:
    producer = client.producer()
    producer.close()
    return attempt(client, producer.close)


@next_to_peers(sees=[[None] * 30, list(range(30))])
def the_delivery_callback_receives_offsets_in_order(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    results: list[Any] = []
    with client.producer() as producer:
        for number in range(30):
            producer.send(topic, b"%d" % number, partition=0, on_delivery=lambda *result: results.append(result))
        producer.flush()
        wait_for(lambda: len(results) == 30)
    return [error for error, _ in results], [receipt.offset for _, receipt in results]


@next_to_peers(sees=[["MESSAGE_TOO_LARGE", None]])
def the_delivery_callback_receives_the_error_of_a_record(stage: Stage, client: Client) -> Any:
    topic = stage.topic(max_message_bytes=100)
    results: list[Any] = []
    with client.producer() as producer:
        producer.send(topic, b"x" * 1_000, on_delivery=lambda *result: results.append(result))
        producer.flush()
        wait_for(lambda: results)
    return [(client.kind(error), receipt) for error, receipt in results]


@next_to_peers(sees=["no error", 1], confluent="`poll` or `flush` raises the exception")
def an_exception_in_the_delivery_callback_does_not_stop_the_producer(stage: Stage, client: Client) -> Any:
    topic = stage.topic()

    def fail(*_: object) -> None:
        raise ZeroDivisionError("of a user")

    with client.producer() as producer:

        def send_and_wait() -> None:
            producer.send(topic, b"1", partition=0, on_delivery=fail).result()
            producer.flush()

        kind = attempt(client, send_and_wait)
        return kind, producer.send(topic, b"2", partition=0).result().offset


@next_to_peers(sees=["1", "2"])
def the_delivery_callback_can_send_records(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        producer.send(topic, b"1", partition=0, on_delivery=lambda *_: producer.send(topic, b"2", partition=0))
        producer.flush()
        wait_for(lambda: len(stage.values(topic)) == 2, patience_s=5)
    return stage.values(topic)


@next_to_peers(sees=[200, True, True])
def threads_share_a_producer(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    names = (b"a", b"b", b"c", b"d")
    with client.producer() as producer:

        def send(name: bytes) -> None:
            for number in range(50):
                producer.send(topic, b"%d" % number, key=name, partition=0)

        threads = [threading.Thread(target=send, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
    records = stage.records(topic)
    in_order = [
        [record[4] for record in records if record[3] == name] == [b"%d" % number for number in range(50)]
        for name in names
    ]
    return len(records), all(in_order), {record[3] for record in records} == set(names)


@next_to_peers(sees=[str(number) for number in range(10)])
def a_tiny_batch_size_sends_each_record_alone(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(batch_size=1) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush()
    return stage.values(topic)


@next_to_peers(sees=[0, 1, 2])
def a_producer_lists_the_partitions_of_a_topic(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        return producer.partitions_for(topic)


@next_to_peers(sees=["refused by the client", "refused by the client"])
def idempotence_with_fewer_acks_is_rejected(stage: Stage, client: Client) -> Any:
    return [attempt(client, lambda acks=acks: client.producer(acks=acks, enable_idempotence=True)) for acks in (0, 1)]


@next_to_peers(sees=[list(range(1, 10)), [str(number) for number in range(10)]])
def a_lost_response_causes_no_duplicates(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(enable_idempotence=True) as producer:
        producer.send(topic, b"0", partition=0).result()
        stage.fault("Produce", "drop_reply", topic=topic, times=1)
        deliveries = [producer.send(topic, b"%d" % number, partition=0) for number in range(1, 10)]
        offsets = [delivery.result().offset for delivery in deliveries]
    return offsets, stage.values(topic)


@next_to_peers(sees=[0, 1, 2])
def records_without_a_key_use_every_partition(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        return sorted({producer.send(topic, bytes(8_000)).result().partition for _ in range(150)})


@next_to_peers(sees=[768_000])
def a_record_of_almost_a_megabyte_is_sent(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        producer.send(topic, bytes(range(256)) * 3_000).result()
    return [len(value) for value in stage.values(topic)]


@next_to_peers(sees=True)
def records_for_an_internal_topic_are_rejected(stage: Stage, client: Client) -> Any:
    topic, group = stage.topic(records=1), stage.name()
    with client.consumer(group_id=group) as consumer:  # creates the internal topic
        consumer.assign([(topic, 0)])
        consumer.commit({(topic, 0): 1})
    with client.producer() as producer:
        return fails(client, lambda: producer.send("__consumer_offsets", b"v", key=b"k").result())


@next_to_peers(sees=3)
def a_new_partition_is_used_after_the_topic_has_grown(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(metadata_max_age_ms=100) as producer, client.admin() as admin:
        producer.send(topic, b"before", partition=0).result()
        admin.create_partitions(topic, 4)
        wait_for(lambda: not fails(client, lambda: producer.send(topic, b"after", partition=3).result()))
        return next(record[0] for record in stage.records(topic) if record[4] == b"after")
