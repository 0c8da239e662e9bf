"""Use of a producer."""

import threading
import time

import pyarrow as pa
import pytest
from tests.everyday.behaviours import peers_with

from kafkaframes.broker import Broker
from kafkaframes.client import Producer, TopicPartition
from kafkaframes.errors import BrokerError, EncodeError, KafkaframesError, NetworkError, OptionError, UnknownTopicError


@pytest.fixture(scope="module")
def producer(servers):
    with Producer(servers, linger_ms=0) as producer:
        yield producer


@peers_with(kafka_python="test_default_partitioner", aiokafka="test_default_partitioner")
def test_a_key_always_goes_to_the_same_partition(producer, topic):
    for key in ("a", "b", "c", "d", "e"):
        futures = [producer.send(topic, b"%d" % n, key=key) for n in range(3)]
        assert len({future.result().partition for future in futures}) == 1


@peers_with(
    kafka_python="test_murmur2_java_compatibility",
    aiokafka="test_murmur2_java_compatibility",
    confluent="test_set_partitioner_murmur2",
)
def test_a_key_goes_to_the_partition_that_java_chooses(broker, producer, topic):
    broker.create_topic(f"{topic}-ten", 10)
    keys = [b"", b"a", b"ab", b"abc", b"123456789", b"\x00 "]
    futures = [producer.send(f"{topic}-ten", b"", key=key) for key in keys]
    assert [future.result().partition for future in futures] == [1, 4, 4, 7, 6, 2]


@peers_with(java="testSendToPartition", kafka_python="test_partition_explicit_partition_skips_partitioner")
def test_an_explicit_partition_wins_over_the_key(producer, topic):
    futures = [producer.send(topic, b"v", key=b"k", partition=number) for number in range(3)]
    assert [future.result().partition for future in futures] == [0, 1, 2]


@peers_with(
    java="testInvalidPartition",
    kafka_python="test_partition_explicit_partition_rejects_unknown_partition",
    ours="at once; Java waits for max.block.ms",
)
def test_a_partition_that_does_not_exist_is_rejected(producer, topic):
    with pytest.raises(BrokerError, match="no partition 7"):
        producer.send(topic, b"v", partition=7)


@peers_with(java="testSendOffset", kafka_python="test_kafka_producer_proper_record_metadata")
def test_offsets_of_a_partition_are_consecutive(producer, topic):
    futures = [producer.send(topic, b"%d" % n, partition=1) for n in range(50)]
    assert [future.result().offset for future in futures] == list(range(50))


@peers_with(
    kafka_python="test_kafka_producer_proper_record_metadata",
    aiokafka="test_producer_correct_time_returned",
    java="testSendNonCompressedMessageWithCreateTime",
)
def test_the_result_names_topic_partition_offset_and_time(producer, topic):
    result = producer.send(topic, b"v", partition=2, timestamp_ms=1_500_000_000_000).result()
    assert (result.topic, result.partition, result.offset) == (topic, 2, 0)
    assert result.timestamp == 1_500_000_000_000


@peers_with(confluent="test_produce_timestamp", java="testSendNonCompressedMessageWithCreateTime")
def test_the_timestamp_that_a_user_gives_is_stored(broker, producer, topic):
    producer.send(topic, b"v", partition=0, timestamp_ms=1_234_567_890_123).result()
    assert [record.timestamp for record in broker.records(topic)] == [1_234_567_890_123]


@peers_with(java="testSendNonCompressedMessageWithCreateTime", aiokafka="test_producer_correct_time_returned")
def test_a_record_without_a_timestamp_gets_the_current_time(broker, producer, topic):
    before = int(time.time() * 1000)
    producer.send(topic, b"v").result()
    assert before <= broker.records(topic)[0].timestamp <= int(time.time() * 1000)


@peers_with(
    java="testSendNonCompressedMessageWithLogAppendTime", kafka_python="test_kafka_producer_proper_record_metadata"
)
def test_a_topic_with_log_append_time_replaces_the_timestamp(broker, producer, topic):
    broker.configure_topic(topic, **{"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    result = producer.send(topic, b"v", timestamp_ms=5).result()
    assert before - 1_000 <= result.timestamp
    assert broker.records(topic)[0].timestamp == result.timestamp


@peers_with(java="testSendWithInvalidBeforeAndAfterTimestamp")
def test_a_timestamp_outside_the_limits_of_the_topic_is_rejected(broker, producer, topic):
    broker.configure_topic(topic, **{"message.timestamp.before.max.ms": 60_000})
    with pytest.raises(BrokerError, match="INVALID_TIMESTAMP"):
        producer.send(topic, b"v", timestamp_ms=1_000).result()


@peers_with(java="testHeaders", aiokafka="test_producer_send_with_headers", confluent="test_produce_headers")
def test_headers_keep_their_order_and_duplicate_names(broker, producer, topic):
    producer.send(topic, b"v", headers=[("b", b"1"), ("a", b"2"), ("b", b"3")]).result()
    assert list(broker.records(topic)[0].headers) == [(b"b", b"1"), (b"a", b"2"), (b"b", b"3")]


@peers_with(confluent="test_produce_headers")
def test_headers_can_be_a_dict_with_text_and_null_values(broker, producer, topic):
    producer.send(topic, b"v", headers={"text": "é", "null": None, "empty": b""}).result()
    expected_headers = [(b"text", "é".encode()), (b"null", None), (b"empty", b"")]
    assert list(broker.records(topic)[0].headers) == expected_headers


@peers_with(confluent="test_produce_headers")
@pytest.mark.parametrize("headers", [["malformed_header"], "text", [("a", 1)], [(1, b"v")], 5])
def test_malformed_headers_are_rejected_before_anything_is_sent(broker, producer, topic, headers):
    with pytest.raises(EncodeError, match="header"):
        producer.send(topic, b"v", headers=headers)
    assert broker.records(topic) == []


@peers_with(confluent="test_zero_byte_and_null_key_value", kafka_python="test_end_to_end")
def test_null_and_empty_values_and_keys_stay_different(broker, producer, topic):
    for value, key in [(None, b"k"), (b"", b"k"), (b"v", None), (b"v", b"")]:
        producer.send(topic, value, key=key, partition=0).result()
    values = [(record.value, record.key) for record in broker.records(topic)]
    assert values == [(None, b"k"), (b"", b"k"), (b"v", None), (b"v", b"")]


@peers_with(confluent="test_produce_batch_encoding_and_unicode")
def test_text_is_sent_as_utf_8(broker, producer, topic):
    producer.send(topic, "größe", key="ключ").result()
    record = broker.records(topic)[0]
    assert (record.key.decode(), record.value.decode()) == ("ключ", "größe")


@peers_with(
    java="testWrongSerializer",
    confluent="test_producer_bool_value",
    aiokafka="test_producer_send_with_serializer",
    ours="EncodeError names the argument",
)
@pytest.mark.parametrize("argument", ["value", "key"])
def test_a_value_or_key_of_another_type_is_rejected(producer, topic, argument):
    with pytest.raises(EncodeError, match=f"{argument} is a dict"):
        producer.send(topic, **{argument: {"a": 1}})


@peers_with(java="testAutoCreateTopic", kafka_python="test_end_to_end")
def test_a_topic_is_created_by_the_first_record(broker, producer, topic):
    assert producer.send(f"{topic}-new", b"v").result().offset == 0
    assert f"{topic}-new" in broker.topics


@pytest.mark.embedded
@peers_with(java="testNonExistentTopic", aiokafka="test_producer_notopic", ours="the error names the topic")
def test_a_missing_topic_is_an_error_without_auto_creation():
    with (
        Broker(config={"auto.create.topics.enable": "false"}) as broker,
        Producer(broker.bootstrap_servers, max_block_ms=300, retry_backoff_ms=10) as producer,
        pytest.raises(KafkaframesError, match="absent"),
    ):
        producer.send("absent", b"v").result()


@peers_with(java="testSendToInvalidTopic")
@pytest.mark.parametrize("name", ["a topic", "a/b", "..", "x" * 250])
def test_an_invalid_topic_name_is_rejected(producer, name):
    with pytest.raises(BrokerError, match="INVALID_TOPIC"):
        producer.send(name, b"v").result()


@peers_with(java="testNullTopicName", confluent="test_basic_api")
@pytest.mark.parametrize("name", [None, "", 5])
def test_a_topic_name_of_another_type_is_rejected(producer, name):
    with pytest.raises(EncodeError, match="topic is"):
        producer.send(name, b"v")


@peers_with(
    java="testCompression",
    aiokafka="test_producer_send_with_compression",
    kafka_python="test_end_to_end",
    confluent="test_produce_with_compression",
)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_survive_every_codec(broker, servers, topic, codec):
    with Producer(servers, compression_type=codec) as producer:
        for number in range(100):
            producer.send(topic, b"value " * 10 + b"%d" % number, partition=0)
    assert [record.value for record in broker.records(topic)] == [b"value " * 10 + b"%d" % n for n in range(100)]


@peers_with(aiokafka="test_producer_arguments")
def test_an_unknown_codec_is_rejected_by_the_constructor(servers):
    with pytest.raises(OptionError, match="compression_type"):
        Producer(servers, compression_type="brotli")


@peers_with(java="testTooLargeRecordWithAckOne", aiokafka="test_producer_send_error")
def test_a_record_above_max_request_size_is_rejected_before_it_is_sent(broker, servers, topic):
    with Producer(servers, max_request_size=1_000) as producer:
        with pytest.raises(EncodeError, match="max_request_size"):
            producer.send(topic, b"x" * 1_000)
        producer.send(topic, b"x" * 500).result()
    assert len(broker.records(topic)) == 1


@peers_with(
    java="testPartitionTooLargeForReplicationWithAckAll",
    kafka_python="test_complete_batch_single_record_fails_normally",
)
def test_a_record_above_the_limit_of_the_topic_fails_alone(broker, producer, topic):
    broker.configure_topic(topic, **{"max.message.bytes": 500})
    futures = [producer.send(topic, b"x" * size, partition=0) for size in (10, 2_000, 20)]
    assert futures[0].result().offset == 0
    with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
        futures[1].result()
    assert futures[2].result().offset == 1


@peers_with(kafka_python="test_end_to_end_split_and_complete", java="testSendRecordBatchWithMaxRequestSizeAndHigher")
def test_a_batch_above_the_limit_of_the_topic_is_split(broker, servers, topic):
    broker.configure_topic(topic, **{"max.message.bytes": 500})
    with Producer(servers, linger_ms=1_000) as producer:
        for number in range(20):
            producer.send(topic, b"%03d" % number * 30, partition=0)
    assert [record.value[:3] for record in broker.records(topic)] == [b"%03d" % number for number in range(20)]


@peers_with(aiokafka="test_producer_send_noack", kafka_python="test_produce_acks_0_fire_and_forget")
def test_the_offset_is_unknown_with_acks_0(broker, servers, topic):
    with Producer(servers, acks=0) as producer:
        assert producer.send(topic, b"v", partition=0).result().offset == -1
    broker.wait_for(lambda: broker.records(topic))


@peers_with(java="testFlush", aiokafka="test_producer_flush_test", confluent="test_basic_api")
def test_flush_waits_for_every_record(servers, topic):
    with Producer(servers, linger_ms=60_000) as producer:
        futures = [producer.send(topic, b"%d" % n) for n in range(20)]
        producer.flush()
        assert all(future.done() for future in futures)


@peers_with(confluent="test_flush_empty_queue_returns_immediately")
def test_flush_without_records_returns(producer):
    producer.flush()
    producer.flush()


@peers_with(java="testClose", kafka_python="test_kafka_producer_context_manager_closes_on_exit")
def test_close_sends_all_pending_records(broker, servers, topic):
    producer = Producer(servers, linger_ms=60_000)
    future = producer.send(topic, b"v", partition=0)
    producer.close()
    assert future.result().offset == 0
    assert len(broker.records(topic)) == 1


@peers_with(java="testCloseWithZeroTimeoutFromCallerThread", confluent="test_purge")
def test_close_without_flush_fails_pending_records(broker, servers, topic):
    producer = Producer(servers, linger_ms=60_000)
    future = producer.send(topic, b"v")
    producer.close(flush=False)
    with pytest.raises(NetworkError, match="closed"):
        future.result()
    assert broker.records(topic) == []


@peers_with(java="testSendAfterClosed", aiokafka="test_producer_start", confluent="test_producer_close")
def test_send_after_close_is_rejected(servers, topic):
    producer = Producer(servers)
    producer.send(topic, b"v").result()
    producer.close()
    with pytest.raises(NetworkError, match="closed"):
        producer.send(topic, b"v")


@peers_with(confluent="test_producer_context_manager_after_exit", java="testClose")
def test_a_producer_may_be_closed_twice(servers):
    producer = Producer(servers)
    producer.close()
    producer.close()


@peers_with(confluent="test_producer_context_manager_exception_propagation")
def test_an_exception_propagates_out_of_the_with_block(servers, topic):
    producer = Producer(servers)

    def send_and_fail():
        with producer:
            producer.send(topic, b"v")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        send_and_fail()


@peers_with(confluent="test_basic_api", java="testFlushCompleteSendOfInflightBatches")
def test_the_delivery_callback_receives_offsets_in_order(servers, topic):
    results = []
    with Producer(servers) as producer:
        for number in range(30):
            producer.send(topic, b"%d" % number, partition=0, on_delivery=lambda *result: results.append(result))
    assert [error for error, _ in results] == [None] * 30
    assert [metadata.offset for _, metadata in results] == list(range(30))


@peers_with(confluent="test_dr_msg_errstr", java="testCallbackAndInterceptorHandleError")
def test_the_delivery_callback_receives_the_error_of_a_record(broker, servers, topic):
    broker.configure_topic(topic, **{"max.message.bytes": 100})
    results = []
    with Producer(servers) as producer:
        producer.send(topic, b"x" * 1_000, on_delivery=lambda *result: results.append(result))
    ((error, metadata),) = results
    assert isinstance(error, BrokerError)
    assert metadata is None


@peers_with(
    confluent="test_callback_exception_no_system_error",
    ours="the exception is logged; confluent-kafka raises it from poll or flush",
)
def test_an_exception_in_the_delivery_callback_does_not_stop_the_producer(servers, topic, caplog):
    def fail(*_):
        raise ZeroDivisionError("of a user")

    with Producer(servers) as producer:
        producer.send(topic, b"1", partition=0, on_delivery=fail).result()
        producer.flush()
        assert producer.send(topic, b"2", partition=0).result().offset == 1
    assert "of a user" in caplog.text


@peers_with(java="testCloseWithZeroTimeoutFromSenderThread")
def test_the_delivery_callback_can_send_records(broker, servers, topic):
    with Producer(servers) as producer:
        producer.send(topic, b"1", partition=0, on_delivery=lambda *_: producer.send(topic, b"2", partition=0))
        producer.flush()
    assert [record.value for record in broker.records(topic)] == [b"1", b"2"]


@peers_with(confluent="test_thread_safety", kafka_python="test_kafka_producer_thread_close")
def test_threads_share_a_producer(broker, servers, topic):
    with Producer(servers) as producer:

        def send(name):
            for number in range(50):
                producer.send(topic, b"%d" % number, key=name, partition=0)

        threads = [threading.Thread(target=send, args=(name,)) for name in (b"a", b"b", b"c", b"d")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    records = broker.records(topic)
    assert len(records) == 200
    for name in (b"a", b"b", b"c", b"d"):
        assert [record.value for record in records if record.key == name] == [b"%d" % n for n in range(50)]


@peers_with(java="testBatchSizeZero")
@pytest.mark.parametrize("batch_size", [0, 1])
def test_a_tiny_batch_size_sends_each_record_alone(broker, servers, topic, batch_size):
    with Producer(servers, batch_size=batch_size) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0)
    assert [record.value for record in broker.records(topic)] == [b"%d" % number for number in range(10)]


@peers_with(java="testMetadataFetch", kafka_python="test_default_partitioner_unknown_topic")
def test_a_producer_lists_the_partitions_of_a_topic(producer, topic):
    assert producer.partitions_for(topic) == [TopicPartition(topic, number) for number in range(3)]


@peers_with(kafka_python="test_bare_construct_is_idempotent", java="testAcksAndIdempotenceForIdempotentProducers")
def test_a_producer_is_idempotent_by_default(producer):
    assert producer.identity.producer_id >= 0


@peers_with(
    kafka_python="test_acks_1_silently_disables",
    java="testAcksAndIdempotenceForIdempotentProducers",
    aiokafka="test_producer_idempotence_configuration",
)
@pytest.mark.parametrize("acks", [0, 1, "1"])
def test_fewer_acks_turn_idempotence_off(servers, acks):
    with Producer(servers, acks=acks) as producer:
        assert producer.identity.producer_id == -1


@peers_with(
    kafka_python="test_acks_1_conflicts",
    java="testAcksAndIdempotenceForIdempotentProducers",
    aiokafka="test_producer_idempotence_configuration",
)
@pytest.mark.parametrize("acks", [0, 1])
def test_idempotence_with_fewer_acks_is_rejected(servers, acks):
    with pytest.raises(OptionError, match="acks"):
        Producer(servers, acks=acks, enable_idempotence=True)


@pytest.mark.embedded
@peers_with(aiokafka="test_producer_indempotence_no_duplicates", kafka_python="test_idempotent_producer")
def test_a_lost_response_causes_no_duplicates(broker, servers, topic):
    with Producer(servers, retry_backoff_ms=10) as producer:
        producer.send(topic, b"0", partition=0).result()
        with broker.on("Produce", topic=topic).once().drop_reply():
            futures = [producer.send(topic, b"%d" % number, partition=0) for number in range(1, 10)]
            assert [future.result().offset for future in futures] == list(range(1, 10))
    assert [record.value for record in broker.records(topic)] == [b"%d" % number for number in range(10)]


@peers_with(
    confluent="test_produce_batch_basic_types_and_data",
    aiokafka="test_producer_send_batch",
    ours="an Arrow table; the result has a row for each batch",
)
def test_many_records_are_sent_in_one_call(broker, producer, topic):
    table = pa.table({"key": ["a", "b", None], "value": [b"1", None, b"3"], "partition": [0, 0, 0]})
    written_rows = producer.send_arrow(table, topic=topic)
    assert written_rows["count"].to_pylist() == [3]
    assert [(record.key, record.value) for record in broker.records(topic)] == [
        (b"a", b"1"),
        (b"b", None),
        (None, b"3"),
    ]


@peers_with(aiokafka="test_producer_send_empty_batch", confluent="test_produce_batch_input_validation")
def test_an_empty_batch_sends_nothing(broker, producer, topic):
    assert producer.send_arrow(pa.table({"value": pa.array([], pa.binary())}), topic=topic).num_rows == 0
    assert broker.records(topic) == []


@peers_with(java="testSendBeforeAndAfterPartitionExpansion")
def test_a_new_partition_is_used_after_the_topic_has_grown(broker, servers, admin, topic):
    with Producer(servers, metadata_max_age_ms=20, linger_ms=0, batch_size=1) as producer:
        producer.send(topic, b"before", partition=0).result()
        admin.create_partitions({topic: 4})
        broker.wait_for(lambda: producer.send(topic, b"after").result().partition == 3, timeout=30)


@peers_with(aiokafka="test_default_partitioner", kafka_python="test_null_key_sticks_until_on_new_batch")
def test_records_without_a_key_use_every_partition(producer, topic):
    """Two records fill a batch. The chance that 150 batches miss one of three partitions is below 1e-25."""
    assert {producer.send(topic, bytes(8_000)).result().partition for _ in range(300)} == {0, 1, 2}


@peers_with(java="testCannotSendToInternalTopic")
def test_records_for_an_internal_topic_are_rejected(producer, admin):
    with pytest.raises((BrokerError, UnknownTopicError)):
        producer.send("__consumer_offsets", b"v", key=b"k").result()


@peers_with(aiokafka="test_large_messages")
def test_a_record_of_almost_a_megabyte_is_sent(broker, producer, topic):
    value = bytes(range(256)) * 4_000
    producer.send(topic, value).result()
    assert broker.records(topic)[0].value == value
