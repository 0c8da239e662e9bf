"""Answers of Kafka 4.3.1 to unusual requests. Each expectation is Kafka's answer to the same request.

The answers were recorded from one KRaft node without an authorizer, with a topic ``orders`` of one partition. The
release serves every version used here. ``tests/interop/random_differential`` sends random requests of this kind.
"""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.broker.direct import DirectBroker

from kafkaframes.broker.requests.api import CloseConnection
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import message
from kafkaframes.records.build import build_records

NIL_ID = UUID(int=0)


@pytest.fixture
def broker():
    broker = DirectBroker(authorizer_class_name="", auto_create_topics_enable="false")
    broker.state.create_topic("orders", 1)
    return broker


def types(name):
    return message(f"{name}Request")


def topic_id(broker):
    return broker.state.topics["orders"].topic_id


def fetch(broker, version, partitions, **fields):
    """Send a Fetch; ``partitions`` maps topic names or ids to partition numbers."""
    request_type = types("Fetch")
    topic_field = "topic_id" if version >= 13 else "topic"
    topics = [
        request_type.FetchTopic(
            **{topic_field: name},
            partitions=[request_type.FetchPartition(partition=number, partition_max_bytes=1000) for number in numbers],
        )
        for name, numbers in partitions.items()
    ]
    return broker.send("Fetch", version, topics=topics, **{"session_epoch": -1, "max_bytes": 1000, **fields})


# ------------------------------------------------------------------------------------------- topics without partitions


def test_produce_drops_topics_without_partitions(broker):
    """Produce 12, topics orders and none, both with an empty list of partitions: the response has no topic."""
    request_type = types("Produce")
    topics = [request_type.TopicProduceData(name=name) for name in ("orders", "none")]
    assert broker.send("Produce", 12, acks=-1, topic_data=topics).responses == []


def test_list_offsets_and_delete_records_drop_topics_without_partitions(broker):
    """ListOffsets 10 and DeleteRecords 2 with empty lists of partitions: the responses have no topic."""
    request_type = types("ListOffsets")
    assert broker.send("ListOffsets", 10, topics=[request_type.ListOffsetsTopic(name="orders")]).topics == []
    request_type = types("DeleteRecords")
    assert broker.send("DeleteRecords", 2, topics=[request_type.DeleteRecordsTopic(name="orders")]).topics == []


def test_offset_commit_drops_topics_without_partitions_unless_they_are_unknown(broker):
    """OffsetCommit 7 of a/b and orders, both with an empty list: a/b is echoed."""
    request_type = types("OffsetCommit")
    topics = [request_type.OffsetCommitRequestTopic(name=name) for name in ("a/b", "orders")]
    rows = broker.send("OffsetCommit", 7, group_id="g", generation_id_or_member_epoch=-1, topics=topics).topics
    assert [(row.name, row.partitions) for row in rows] == [("a/b", [])]


def test_offset_fetch_returns_topics_as_requested(broker):
    """OffsetFetch 7 of orders [], orders [0, 0]: both, the partition twice."""
    row_type = types("OffsetFetch").OffsetFetchRequestTopic
    topics = [row_type(name="orders"), row_type(name="orders", partition_indexes=[0, 0])]
    rows = broker.send("OffsetFetch", 7, group_id="g", topics=topics).topics
    assert [[partition.partition_index for partition in row.partitions] for row in rows] == [[], [0, 0]]


# ----------------------------------------------------------------------------------------------------------- ids, names


def test_offset_fetch_by_the_nil_id_is_unknown(broker):
    """OffsetFetch 10 by the nil id: UNKNOWN_TOPIC_ID for the partition."""
    request_type = types("OffsetFetch")
    topic = request_type.OffsetFetchRequestTopics(topic_id=NIL_ID, partition_indexes=[0])
    (group,) = broker.send(
        "OffsetFetch", 10, groups=[request_type.OffsetFetchRequestGroup(group_id="g", topics=[topic])]
    ).groups
    assert group.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_before_version_12_rejects_topic_ids(broker, version):
    """Metadata 10 and 11 by id: INVALID_REQUEST for the topic, without brokers."""
    row_type = types("Metadata").MetadataRequestTopic
    answer = broker.send("Metadata", version, topics=[row_type(topic_id=topic_id(broker), name="orders")])
    assert ([row.error_code for row in answer.topics], answer.brokers) == ([ErrorCode.INVALID_REQUEST], [])


def test_metadata_with_a_topic_id_ignores_names(broker):
    """Metadata 12 with orders' id and the name x, and with the name orders alone: only the first row, by its id."""
    row_type = types("Metadata").MetadataRequestTopic
    topics = [row_type(topic_id=topic_id(broker), name="x"), row_type(name="orders")]
    rows = broker.send("Metadata", 12, topics=topics).topics
    assert [(row.name, row.error_code) for row in rows] == [("orders", 0)]


def test_share_coordinators_are_found_by_a_full_key_only(broker):
    """FindCoordinator 6 of type 2: g is INVALID_REQUEST, g:id:0 is not."""
    keys = ["g", "g:AAAAAAAAAAAAAAAAAAAAAQ:0"]
    rows = broker.send("FindCoordinator", 6, key_type=2, coordinator_keys=keys).coordinators
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_REQUEST, 0]


def test_describe_producers_rejects_invalid_topic_names(broker):
    """DescribeProducers 0 of a/b: INVALID_TOPIC_EXCEPTION."""
    row_type = types("DescribeProducers").TopicRequest
    (row,) = broker.send("DescribeProducers", 0, topics=[row_type(name="a/b", partition_indexes=[0])]).topics
    assert row.partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


# ---------------------------------------------------------------------------------------------------------------- fetch


def test_a_fetch_fails_completely_if_a_row_follows_the_nil_id(broker):
    """Fetch 13: topics by unknown ids are answered after those that are read, and before unknown partitions.

    The response is UNKNOWN_SERVER_ERROR if the nil id has the partitions 0 and 1, or follows partition 9 of orders.
    After another unknown id, and after partition 0 of orders, the nil id is UNKNOWN_TOPIC_ID.
    """
    for partitions in ({topic_id(broker): [0], NIL_ID: [0, 1]}, {topic_id(broker): [9], NIL_ID: [0]}):
        answer = fetch(broker, 13, partitions)
        assert (answer.error_code, answer.responses) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])
    for partitions in ({NIL_ID: [0]}, {UUID(int=7): [0], NIL_ID: [0]}, {NIL_ID: [0], topic_id(broker): [0]}):
        answer = fetch(broker, 13, partitions)
        assert (answer.error_code, answer.responses[-1].partitions[0].error_code) == (0, ErrorCode.UNKNOWN_TOPIC_ID)


def test_a_fetch_session_remembers_the_name_of_a_deleted_topic(broker):
    """Fetch 13 in a session: error 3 after the topic is deleted, error 103 after another topic of its name is
    created.
    """
    session_id = fetch(broker, 13, {topic_id(broker): [0]}, session_epoch=0).session_id
    codes = []
    for epoch in (1, 2):
        if epoch == 1:
            broker.send("DeleteTopics", 5, topic_names=["orders"], timeout_ms=1000)
        else:
            broker.state.create_topic("orders", 1)
        answer = fetch(broker, 13, {}, session_id=session_id, session_epoch=epoch)
        codes.append(answer.responses[0].partitions[0].error_code)
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID]


def test_a_fetch_session_rejects_an_unknown_isolation_level(broker):
    """Fetch 12: a session of orders, then isolation 2 without partitions: -1; the session continues with epoch 2."""
    session_id = fetch(broker, 12, {"orders": [0]}, session_epoch=0).session_id
    answer = fetch(broker, 12, {}, session_id=session_id, session_epoch=1, isolation_level=2)
    assert (answer.error_code, answer.session_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, session_id)
    assert fetch(broker, 12, {}, session_id=session_id, session_epoch=2).error_code == 0


def test_an_offset_below_the_log_start_is_out_of_range_even_if_epochs_diverge(broker):
    """Fetch 12 of offset 0 after epoch 0, in a log that starts at offset 1: OFFSET_OUT_OF_RANGE."""
    request_type = types("Produce")
    row = request_type.PartitionProduceData(index=0, records=build_records({"value": [b"v", b"w"]}))
    broker.send("Produce", 8, acks=-1, topic_data=[request_type.TopicProduceData(name="orders", partition_data=[row])])
    request_type = types("DeleteRecords")
    topic_row = request_type.DeleteRecordsTopic(
        name="orders", partitions=[request_type.DeleteRecordsPartition(partition_index=0, offset=1)]
    )
    broker.send("DeleteRecords", 2, topics=[topic_row])
    request_type = types("Fetch")
    row = request_type.FetchPartition(partition=0, fetch_offset=0, last_fetched_epoch=0, partition_max_bytes=1000)
    topics = [request_type.FetchTopic(topic="orders", partitions=[row])]
    (topic_answer,) = broker.send("Fetch", 12, session_epoch=-1, max_bytes=1000, topics=topics).responses
    assert topic_answer.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_negative_size_fails_if_the_partition_has_records(broker):
    """Fetch 5 of orders-0 with -1 bytes: no error while the log is empty, UNKNOWN_SERVER_ERROR with a record."""
    codes = [fetch(broker, 5, {"orders": [0]}, max_bytes=-1).responses[0].partitions[0].error_code]
    request_type = types("Produce")
    row = request_type.PartitionProduceData(index=0, records=build_records({"key": [b"k"], "value": [b"v"]}))
    broker.send("Produce", 8, acks=-1, topic_data=[request_type.TopicProduceData(name="orders", partition_data=[row])])
    codes.append(fetch(broker, 5, {"orders": [0]}, max_bytes=-1).responses[0].partitions[0].error_code)
    assert codes == [0, ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_fetch_with_data_rejects_an_unknown_isolation_level(broker):
    """Fetch 5 with isolation 2: UNKNOWN_SERVER_ERROR for each partition, unless no partition has data."""
    answer = fetch(broker, 5, {"orders": [0]}, isolation_level=2)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    answer = fetch(broker, 5, {"none": [0]}, isolation_level=2)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_empty_fetch_starts_a_session_and_the_next_one_ends_it(broker):
    """Fetch 11 with session epoch 0 and no partitions: a session; with epoch 1 and none: session 0, no error."""
    session_id = fetch(broker, 11, {}, session_epoch=0).session_id
    assert session_id != 0
    end_answer = fetch(broker, 11, {}, session_id=session_id, session_epoch=1)
    assert (end_answer.error_code, end_answer.session_id) == (0, 0)
    again = fetch(broker, 11, {}, session_id=session_id, session_epoch=2)
    assert again.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_empty_log_has_leader_epoch_0(broker):
    """OffsetForLeaderEpoch 4 of epoch 0, and ListOffsets 10 of -2, in a log without records: epoch 0, offset 0."""
    request_type = types("OffsetForLeaderEpoch")
    topic = request_type.OffsetForLeaderTopic(
        topic="orders", partitions=[request_type.OffsetForLeaderPartition(leader_epoch=0)]
    )
    row = broker.send("OffsetForLeaderEpoch", 4, topics=[topic]).topics[0].partitions[0]
    assert (row.leader_epoch, row.end_offset) == (0, 0)
    request_type = types("ListOffsets")
    topic = request_type.ListOffsetsTopic(name="orders", partitions=[request_type.ListOffsetsPartition(timestamp=-2)])
    row = broker.send("ListOffsets", 10, topics=[topic]).topics[0].partitions[0]
    assert (row.leader_epoch, row.offset) == (0, 0)


def test_list_offsets_rejects_an_unknown_isolation_level(broker):
    """ListOffsets 5 with isolation 2: UNKNOWN_SERVER_ERROR, for unknown topics too."""
    request_type = types("ListOffsets")
    topics = [
        request_type.ListOffsetsTopic(name=name, partitions=[request_type.ListOffsetsPartition(timestamp=-1)])
        for name in ("orders", "none")
    ]
    rows = broker.send("ListOffsets", 5, isolation_level=2, topics=topics).topics
    assert {row.partitions[0].error_code for row in rows} == {ErrorCode.UNKNOWN_SERVER_ERROR}


# -------------------------------------------------------------------------------------------------------------- produce


def test_partition_errors_precede_the_error_for_invalid_acks(broker):
    """Produce 12 with acks 2: INVALID_REQUIRED_ACKS for orders-0, UNKNOWN_TOPIC_OR_PARTITION for orders-7."""
    request_types = types("Produce")
    records = build_records({"value": [b"x"]})
    rows = [request_types.PartitionProduceData(index=one, records=records) for one in (0, 7)]
    topic = request_types.TopicProduceData(name="orders", partition_data=rows)
    rows = broker.send("Produce", 12, acks=2, topic_data=[topic]).responses[0].partition_responses
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_REQUIRED_ACKS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def produce_in_transaction(broker, sequence, producer, *, version=13, values=(b"x",)):
    """Produce one batch of the transaction t to orders; return the error code."""
    request_type = types("Produce")
    producer_fields = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    records = build_records({"value": list(values)}, base_sequence=sequence, transactional=True, **producer_fields)
    rows = [request_type.PartitionProduceData(index=0, records=records)]
    topic = {"topic_id": topic_id(broker)} if version >= 13 else {"name": "orders"}
    topics = [request_type.TopicProduceData(**topic, partition_data=rows)]
    answer = broker.send("Produce", version, acks=-1, transactional_id="t", topic_data=topics)
    return answer.responses[0].partition_responses[0].error_code


@pytest.fixture
def producer(broker):
    broker.state.create_internal_topic("__transaction_state")
    return broker.send("InitProducerId", 5, transactional_id="t", transaction_timeout_ms=60_000, producer_id=-1)


def test_a_transaction_of_version_2_begins_at_sequence_0_in_each_partition(broker, producer):
    """InitProducerId 5, then Produce 13 of a transaction's batch: error 45 from sequence 5, accepted from sequence
    0.
    """
    codes = [produce_in_transaction(broker, sequence, producer) for sequence in (5, 0, 1)]
    assert codes == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 0]


def test_records_are_validated_before_their_sequences(broker, producer):
    """Produce 13 from sequence 5 without keys to a compacted topic: INVALID_RECORD, not OUT_OF_ORDER."""
    broker.state.configure_topic(broker.state.topics["orders"], {"cleanup.policy": "compact"})
    assert produce_in_transaction(broker, 5, producer) == ErrorCode.INVALID_RECORD


def test_a_batch_is_out_of_order_until_a_rejected_batch_before_it_is_accepted(broker, producer):
    """AddPartitionsToTxn 3, then Produce 11 from 1 without a required key, from 2, and from 1 again."""
    row_type = types("AddPartitionsToTxn").AddPartitionsToTxnTopic
    producer_fields = {
        "v3_and_below_producer_id": producer.producer_id,
        "v3_and_below_producer_epoch": producer.producer_epoch,
    }
    topics = [row_type(name="orders", partitions=[0])]
    broker.send(
        "AddPartitionsToTxn", 3, v3_and_below_transactional_id="t", **producer_fields, v3_and_below_topics=topics
    )
    orders = broker.state.topics["orders"]
    broker.state.configure_topic(orders, {"cleanup.policy": "compact"})
    codes = [produce_in_transaction(broker, 1, producer, version=11)]
    broker.state.configure_topic(orders, {})
    codes += [produce_in_transaction(broker, sequence, producer, version=11) for sequence in (2, 1)]
    assert codes == [ErrorCode.INVALID_RECORD, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0]


# ------------------------------------------------------------------------------------------------------- administration


@pytest.mark.parametrize("wrong", ["pattern_type_filter", "resource_type_filter", "operation", "permission_type"])
def test_acl_filters_with_unknown_elements_close_the_connection(broker, wrong):
    """DescribeAcls 1 with element 0 in the filter closes the connection; with element 9 it is answered."""
    fields = {"pattern_type_filter": 3, "resource_type_filter": 2, "operation": 3, "permission_type": 3}
    with pytest.raises(CloseConnection):
        broker.send("DescribeAcls", 1, **fields | {wrong: 0})
    assert broker.send("DescribeAcls", 1, **fields | {wrong: 9}).error_code == ErrorCode.SECURITY_DISABLED


def test_describe_topic_partitions_requires_the_cursors_topic_in_the_request(broker):
    """DescribeTopicPartitions 0 of orders: limit -1 is 1; a cursor at another topic is INVALID_REQUEST.

    If an empty name is in the request as well, Kafka fails for all topics (UNKNOWN_SERVER_ERROR); here all are
    INVALID_REQUEST.
    """
    request_type = types("DescribeTopicPartitions")
    topics = [request_type.TopicRequest(name="orders")]
    (row,) = broker.send("DescribeTopicPartitions", 0, topics=topics, response_partition_limit=-1).topics
    assert (row.error_code, len(row.partitions)) == (0, 1)
    cursor = request_type.Cursor(topic_name="p", partition_index=0)
    (row,) = broker.send("DescribeTopicPartitions", 0, topics=topics, cursor=cursor).topics
    assert (row.name, row.error_code) == ("orders", ErrorCode.INVALID_REQUEST)
    rows = broker.send("DescribeTopicPartitions", 0, topics=[*topics, request_type.TopicRequest(name="")]).topics
    assert {row.error_code for row in rows} == {ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_invalid_feature_update_fails_the_whole_request(broker, version):
    """UpdateFeatures 0 to 2, transaction.version to 99: INVALID_UPDATE_VERSION at the top, no rows."""
    row_type = types("UpdateFeatures").FeatureUpdateKey
    updates = [row_type(feature="transaction.version", max_version_level=99)]
    answer = broker.send("UpdateFeatures", version, feature_updates=updates)
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])


def test_a_page_after_the_largest_partition_number_is_empty(broker):
    """DescribeTopicPartitions 0 of orders from partition 2^31 - 1, two rows at most: none, and a cursor below 0."""
    request_type = types("DescribeTopicPartitions")
    cursor = request_type.Cursor(topic_name="orders", partition_index=2**31 - 1)
    fields = {"topics": [request_type.TopicRequest(name="orders")], "response_partition_limit": 2}
    answer = broker.send("DescribeTopicPartitions", 0, **fields, cursor=cursor)
    assert (answer.topics[0].partitions, answer.next_cursor.partition_index) == ([], -(2**31) + 1)


def test_create_topics_checks_configs_before_replicas_before_partitions(broker):
    """CreateTopics 5: an unknown setting and factor 0: 40; factor 0 and zero partitions: 38; then 37."""
    request_type = types("CreateTopics")
    wrong = [request_type.CreatableTopicConfig(name="no.such", value="1")]
    rows = [
        request_type.CreatableTopic(name="a", num_partitions=1, replication_factor=0, configs=wrong),
        request_type.CreatableTopic(name="b", num_partitions=0, replication_factor=0),
        request_type.CreatableTopic(name="c", num_partitions=0, replication_factor=1),
    ]
    topic_rows = broker.send("CreateTopics", 5, topics=rows, timeout_ms=1000).topics
    codes = [ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_PARTITIONS]
    assert [row.error_code for row in topic_rows] == codes


def test_a_duplicate_topic_name_has_one_result(broker):
    """CreateTopics 5 of a twice and b: INVALID_REQUEST for a, once, and b is there; CreatePartitions 3 of b twice."""
    rows = [types("CreateTopics").CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in "aab"]
    topic_rows = broker.send("CreateTopics", 5, topics=rows, timeout_ms=1000).topics
    assert [(row.name, row.error_code) for row in topic_rows] == [("a", ErrorCode.INVALID_REQUEST), ("b", 0)]
    rows = [types("CreatePartitions").CreatePartitionsTopic(name="b", count=2) for _ in range(2)]
    topic_rows = broker.send("CreatePartitions", 3, topics=rows, timeout_ms=1000).results
    assert [(row.name, row.error_code) for row in topic_rows] == [("b", ErrorCode.INVALID_REQUEST)]


@pytest.mark.parametrize("by", ["name", "topic_id"])
def test_a_topic_listed_twice_is_not_deleted(broker, by):
    """DeleteTopics 6 of orders twice, by name or by id: INVALID_REQUEST, once, and it stays."""
    topic_fields = {"name": "orders"} if by == "name" else {"name": None, "topic_id": topic_id(broker)}
    row_type = types("DeleteTopics").DeleteTopicState
    rows = broker.send(
        "DeleteTopics", 6, topics=[row_type(**topic_fields), row_type(**topic_fields)], timeout_ms=1000
    ).responses
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_REQUEST]
    assert "orders" in broker.state.topics


BATCH = build_records({"value": [b"a"]}, record_format=2)


def produce(broker, version, partitions):
    """Produce; ``partitions``: for each topic pairs of a partition's number and records."""
    request_type = types("Produce")
    topics = [
        request_type.TopicProduceData(
            name=name,
            partition_data=[request_type.PartitionProduceData(index=index, records=data) for index, data in rows],
        )
        for name, rows in partitions.items()
    ]
    return broker.send("Produce", version, acks=-1, timeout_ms=1000, topic_data=topics).responses


def test_of_a_partition_listed_twice_in_produce_the_last_records_are_appended(broker):
    """Produce 9 lists orders-0 with one record and with two, then a third time with invalid records, whose error is
    returned.
    """
    two = build_records({"value": [b"b", b"c"]}, record_format=2)
    log = broker.state.topics["orders"].partitions[0].log
    (topic,) = produce(broker, 9, {"orders": [(0, BATCH), (0, two)]})
    assert [(row.index, row.error_code, row.base_offset) for row in topic.partition_responses] == [(0, 0, 0)]
    assert log.log_end_offset == 2
    (topic,) = produce(broker, 9, {"orders": [(0, BATCH), (0, two), (0, b"")]})
    assert [row.error_code for row in topic.partition_responses] == [ErrorCode.INVALID_RECORD]
    assert log.log_end_offset == 4


def test_of_a_partition_listed_twice_in_delete_records_the_last_offset_applies(broker):
    """DeleteRecords 2 of orders-0, up to 1 and up to 0: one row, and the log start offset does not change."""
    produce(broker, 9, {"orders": [(0, BATCH)]})
    request_type = types("DeleteRecords")
    topics = [
        request_type.DeleteRecordsTopic(
            name="orders", partitions=[request_type.DeleteRecordsPartition(partition_index=0, offset=offset)]
        )
        for offset in (1, 0)
    ]
    (topic,) = broker.send("DeleteRecords", 2, topics=topics).topics
    assert [(row.error_code, row.low_watermark) for row in topic.partitions] == [(0, 0)]


def test_an_unknown_partition_of_an_internal_topic_is_reported_as_unknown(broker):
    """DeleteRecords 2 of __consumer_offsets 0 and 99: INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION."""
    broker.state.create_internal_topic("__consumer_offsets")
    request_type = types("DeleteRecords")
    rows = [request_type.DeleteRecordsPartition(partition_index=index, offset=0) for index in (0, 99)]
    topic = request_type.DeleteRecordsTopic(name="__consumer_offsets", partitions=rows)
    (topic_answer,) = broker.send("DeleteRecords", 2, topics=[topic]).topics
    assert [row.error_code for row in topic_answer.partitions] == [
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_list_offsets_rejects_a_partition_listed_twice(broker):
    """ListOffsets 5 lists orders-0 twice and orders-1, as two topics: one topic is answered, with INVALID_REQUEST
    once, and 3.
    """
    request_type = types("ListOffsets")
    rows = [request_type.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1, 0)]
    topics = [request_type.ListOffsetsTopic(name="orders", partitions=some) for some in (rows[:2], rows[2:])]
    (topic_answer,) = broker.send("ListOffsets", 5, topics=topics).topics
    errors = [(row.partition_index, row.error_code) for row in topic_answer.partitions]
    assert errors == [(0, ErrorCode.INVALID_REQUEST), (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_loggers_are_described_only_for_a_named_broker(broker):
    """DescribeConfigs 4 of type 8: INVALID_REQUEST without a resource name; loggers are returned for broker 1."""
    row_type = types("DescribeConfigs").DescribeConfigsResource
    rows = [row_type(resource_type=8, resource_name=name) for name in ("", "1")]
    results = broker.send("DescribeConfigs", 4, resources=rows).results
    assert [row.error_code for row in results] == [ErrorCode.INVALID_REQUEST, 0]


def alter_configs(broker, *resources, operation=0):
    """IncrementalAlterConfigs 1 of resources (type, name, setting, value); return the error codes."""
    request_type = types("IncrementalAlterConfigs")
    operations = operation if isinstance(operation, list) else [operation] * len(resources)
    rows = [
        request_type.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[request_type.AlterableConfig(name=key, value=value, config_operation=operation_code)],
        )
        for (kind, name, key, value), operation_code in zip(resources, operations, strict=True)
    ]
    return [row.error_code for row in broker.send("IncrementalAlterConfigs", 1, resources=rows).responses]


def test_topic_configs_are_validated_before_the_topic_is_looked_up(broker):
    """For an unknown topic: error 40 for an invalid value, 3 for a valid one. For a/b: 17, also by DescribeConfigs."""
    assert alter_configs(broker, (2, "none", "retention.ms", "x")) == [ErrorCode.INVALID_CONFIG]
    assert alter_configs(broker, (2, "none", "retention.ms", "5")) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert alter_configs(broker, (2, "", "retention.ms", "5")) == [ErrorCode.INVALID_REQUEST]
    assert alter_configs(broker, (2, "", "retention.ms", "5"), operation=3) == [ErrorCode.INVALID_CONFIG]
    assert alter_configs(broker, (4, "1", "log.retention.ms", "5"), operation=9) == [ErrorCode.INVALID_REQUEST]
    assert alter_configs(broker, (2, "a/b", "retention.ms", "5")) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    row = types("DescribeConfigs").DescribeConfigsResource(resource_type=2, resource_name="a/b")
    (result,) = broker.send("DescribeConfigs", 4, resources=[row]).results
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_one_invalid_resource_fails_the_whole_config_request(broker):
    """DescribeConfigs of type 99 and of orders: 42 for both; a duplicate resource: 42; operation 9: Kafka answers
    -1.
    """
    row_type = types("DescribeConfigs").DescribeConfigsResource
    rows = [row_type(resource_type=kind, resource_name="orders") for kind in (99, 2)]
    results = broker.send("DescribeConfigs", 4, resources=rows).results
    assert [row.error_code for row in results] == [ErrorCode.INVALID_REQUEST] * 2
    orders = (2, "orders", "retention.ms", "5")
    broker.state.create_topic("other", 1)
    assert alter_configs(broker, orders, orders) == [ErrorCode.INVALID_REQUEST] * 2
    assert alter_configs(broker, orders, (2, "other", "flush.ms", "5"), operation=9) == [ErrorCode.INVALID_REQUEST] * 2
    codes = alter_configs(broker, (2, "other", "flush.ms", None), orders, operation=[9, 3])
    # Kafka stops its validation at an operation without a value
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG]


def test_log_levels_are_validated(broker):
    """IncrementalAlterConfigs 1 of type 8: error 0 for kafka=DEBUG, 40 for LOUD and for max.message.bytes, 42 for
    broker 7.
    """
    wrong = [("1", "kafka", "LOUD"), ("1", "max.message.bytes", "5"), ("7", "kafka", "DEBUG")]
    codes = [alter_configs(broker, (8, *one))[0] for one in [("1", "kafka", "DEBUG"), *wrong]]
    assert codes == [0, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST]
    assert alter_configs(broker, (8, "1", "max.message.bytes", "5"), operation=1) == [ErrorCode.INVALID_CONFIG]
    assert alter_configs(broker, (8, "1", "root", None), operation=1) == [ErrorCode.INVALID_REQUEST]


def test_an_empty_salted_password_is_rejected(broker):
    """AlterUserScramCredentials 0: Kafka answers -1 because HMAC does not accept an empty key; here 93, and nothing
    is stored.
    """
    upsertion_type = types("AlterUserScramCredentials").ScramCredentialUpsertion
    row = upsertion_type(name="u", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"")
    (result,) = broker.send("AlterUserScramCredentials", 0, upsertions=[row]).results
    assert (result.error_code, broker.state.credentials.scram) == (ErrorCode.UNACCEPTABLE_CREDENTIAL, {})


def test_an_election_without_partitions_succeeds_for_any_type(broker):
    """ElectLeaders 2 of type 2 with an empty list: no error."""
    assert broker.send("ElectLeaders", 2, election_type=2, topic_partitions=[]).error_code == 0


def test_an_election_of_an_unknown_type_is_rejected_for_each_partition(broker):
    """ElectLeaders 1 of type -1: INVALID_REQUEST at the top and for the partition; without partitions, at the top."""
    topic_row = types("ElectLeaders").TopicPartitions(topic="orders", partitions=[0])
    answer = broker.send("ElectLeaders", 1, election_type=-1, topic_partitions=[topic_row])
    row = answer.replica_election_results[0].partition_result[0]
    assert (answer.error_code, row.error_code) == (ErrorCode.INVALID_REQUEST,) * 2
    none = broker.send("ElectLeaders", 1, election_type=2, topic_partitions=None)
    assert (none.error_code, none.replica_election_results) == (ErrorCode.INVALID_REQUEST, [])


def alter_quota(broker, kind, name, key, value, *, remove=False):
    request_type = types("AlterClientQuotas")
    entry = request_type.EntryData(
        entity=[request_type.EntityData(entity_type=kind, entity_name=name)],
        ops=[request_type.OpData(key=key, value=value, remove=remove)],
    )
    return broker.send("AlterClientQuotas", 1, entries=[entry]).entries[0].error_code


def test_a_quota_must_be_positive_and_valid_for_its_entity(broker):
    """AlterClientQuotas 1: valid values are set, and any key can be removed."""
    wrong = ErrorCode.INVALID_REQUEST
    assert alter_quota(broker, "user", "u", "consumer_byte_rate", 5.5) == wrong
    assert alter_quota(broker, "user", "u", "request_percentage", 5.5) == 0
    assert alter_quota(broker, "user", "u", "producer_byte_rate", -1.0) == wrong
    assert alter_quota(broker, "user", "", "producer_byte_rate", 1.0) == wrong
    assert alter_quota(broker, "user", "u", "connection_creation_rate", 1.0) == wrong
    assert alter_quota(broker, "user", "u", "producer_byte_rate", float("inf")) == wrong
    assert alter_quota(broker, "ip", "x", "connection_creation_rate", 1.0, remove=True) == wrong
    assert alter_quota(broker, "user", "u", "no.such", 0.0, remove=True) == 0


@pytest.mark.parametrize(
    ("kind", "match_type", "match", "expected_code"),
    [("user", 0, None, 42), ("user", 1, "u", 42), ("user", 3, None, 42), ("", 2, None, 42), ("x", 2, None, 35)],
)
def test_quota_filters_are_validated(broker, kind, match_type, match, expected_code):
    """DescribeClientQuotas 1 with one component."""
    row_type = types("DescribeClientQuotas").ComponentData
    component = row_type(entity_type=kind, match_type=match_type, match=match)
    answer = broker.send("DescribeClientQuotas", 1, components=[component])
    assert (answer.error_code, answer.entries) == (expected_code, None)


def test_the_first_invalid_change_of_a_scram_user_is_reported(broker):
    """AlterUserScramCredentials 0: a user without a name; a missing credential that is deleted twice."""
    deletion_type = types("AlterUserScramCredentials").ScramCredentialDeletion
    deletions = [
        deletion_type(name="", mechanism=3),
        deletion_type(name="u", mechanism=1),
        deletion_type(name="u", mechanism=1),
    ]
    rows = broker.send("AlterUserScramCredentials", 0, deletions=deletions).results
    assert [row.error_code for row in rows] == [ErrorCode.UNACCEPTABLE_CREDENTIAL, ErrorCode.RESOURCE_NOT_FOUND]


def test_log_directories_are_checked_before_partitions(broker):
    """AlterReplicaLogDirs 2 to an unknown directory: LOG_DIR_NOT_FOUND even for an unknown partition."""
    request_type = types("AlterReplicaLogDirs")
    topic = request_type.AlterReplicaLogDirTopic(name="none", partitions=[0])
    answer = broker.send(
        "AlterReplicaLogDirs", 2, dirs=[request_type.AlterReplicaLogDir(path="/no/such", topics=[topic])]
    )
    assert answer.results[0].partitions[0].error_code == ErrorCode.LOG_DIR_NOT_FOUND


def test_verify_only_reports_unknown_partitions(broker):
    """AddPartitionsToTxn 4, verify only, orders-0 and orders-7: OPERATION_NOT_ATTEMPTED, UNKNOWN_TOPIC_OR_PARTITION."""
    request_type = types("AddPartitionsToTxn")
    topic = request_type.AddPartitionsToTxnTopic(name="orders", partitions=[0, 7])
    row = request_type.AddPartitionsToTxnTransaction(transactional_id="t", verify_only=True, topics=[topic])
    (result,) = broker.send("AddPartitionsToTxn", 4, transactions=[row]).results_by_transaction
    codes = {
        partition_result.partition_index: partition_result.partition_error_code
        for partition_result in result.topic_results[0].results_by_partition
    }
    assert codes == {0: ErrorCode.OPERATION_NOT_ATTEMPTED, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_new_partitions_must_have_one_replica_each(broker):
    """CreatePartitions 1 with replicas 1 and 2 for one partition: INVALID_REPLICA_ASSIGNMENT."""
    request_type = types("CreatePartitions")
    topic = request_type.CreatePartitionsTopic(
        name="orders", count=2, assignments=[request_type.CreatePartitionsAssignment(broker_ids=[1, 2])]
    )
    (row,) = broker.send("CreatePartitions", 1, topics=[topic]).results
    assert row.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


# --------------------------------------------------------------------------------------------------------- share groups


def test_altering_offsets_creates_a_share_group(broker):
    """AlterShareGroupOffsets 0 of a missing group creates it, empty, at epoch 1."""
    request_type = types("AlterShareGroupOffsets")
    row = request_type.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    topic = request_type.AlterShareGroupOffsetsRequestTopic(topic_name="orders", partitions=[row])
    answer = broker.send("AlterShareGroupOffsets", 0, group_id="s", topics=[topic])
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)
    (group,) = broker.send("ShareGroupDescribe", 1, group_ids=["s"]).groups
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Empty", 1, 1)


def test_offsets_of_a_missing_share_group_are_minus_one(broker):
    """DescribeShareGroupOffsets 1 of orders-9: no error, -1; DeleteShareGroupOffsets 0 of "": INVALID_GROUP_ID."""
    request_type = types("DescribeShareGroupOffsets")
    topic = request_type.DescribeShareGroupOffsetsRequestTopic(topic_name="orders", partitions=[9])
    group = request_type.DescribeShareGroupOffsetsRequestGroup(group_id="s", topics=[topic])
    (group_row,) = broker.send("DescribeShareGroupOffsets", 1, groups=[group]).groups
    assert (group_row.error_code, group_row.topics[0].partitions[0].start_offset) == (0, -1)
    assert broker.send("DeleteShareGroupOffsets", 0, group_id="").error_code == ErrorCode.INVALID_GROUP_ID


def test_a_new_share_session_rejects_acknowledgements(broker):
    """ShareFetch 1 with epoch 0 and acknowledgements, or from a member with a too long id: INVALID_REQUEST."""
    request_type = types("ShareFetch")
    batch = request_type.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    row = request_type.FetchPartition(partition_index=0, acknowledgement_batches=[batch])
    topic = request_type.FetchTopic(topic_id=topic_id(broker), partitions=[row])
    for member_id, topics in (("m", [topic]), ("m" * 37, [])):
        answer = broker.send("ShareFetch", 1, group_id="s", member_id=member_id, topics=topics)
        assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_new_share_session_ignores_forgotten_topics(broker):
    """ShareFetch 2 with epoch 0 lists orders-0 both as fetched and as forgotten: the answer has a row for orders-0."""
    broker.send("ShareGroupHeartbeat", 1, group_id="s", member_id="m", subscribed_topic_names=["orders"])
    request_type = types("ShareFetch")
    topic = request_type.FetchTopic(
        topic_id=topic_id(broker), partitions=[request_type.FetchPartition(partition_index=0)]
    )
    forgotten_topic = request_type.ForgottenTopic(topic_id=topic_id(broker), partitions=[0])
    first = {"share_session_epoch": 0, "topics": [topic], "forgotten_topics_data": [forgotten_topic]}
    produce(broker, 9, {"orders": [(0, BATCH)]})
    reset = types("IncrementalAlterConfigs")
    config = reset.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    row = reset.AlterConfigsResource(resource_type=32, resource_name="s", configs=[config])
    broker.send("IncrementalAlterConfigs", 1, resources=[row])
    member_fields = {"group_id": "s", "member_id": "m", "max_bytes": 1000, "max_records": 9, "batch_size": 9}
    (topic_answer,) = broker.send("ShareFetch", 2, **member_fields, **first).responses
    assert [row.partition_index for row in topic_answer.partitions] == [0]


def test_a_share_group_member_id_has_at_most_36_characters(broker):
    """ShareGroupHeartbeat 1 with a member id of 37 characters: INVALID_REQUEST."""
    fields = {"group_id": "s", "member_epoch": 0, "subscribed_topic_names": ["orders"]}
    codes = [broker.send("ShareGroupHeartbeat", 1, member_id="m" * size, **fields).error_code for size in (36, 37)]
    assert codes == [0, ErrorCode.INVALID_REQUEST]


# ------------------------------------------------------------------------------------------- groups of different kinds


def join(broker, group_id, **fields):
    """Send a JoinGroup 5; return the answer's error and member id."""
    protocol = types("JoinGroup").JoinGroupRequestProtocol(name="range", metadata=b"")
    member_fields = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        **fields,
    }
    answer = broker.send("JoinGroup", 5, group_id=group_id, protocols=[protocol], **member_fields)
    return answer.error_code, answer.member_id


def send_heartbeat(broker, group_id, epoch, topics=()):
    """Send a ConsumerGroupHeartbeat 1 of the member m."""
    fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": list(topics), "topic_partitions": []}
    return broker.send("ConsumerGroupHeartbeat", 1, group_id=group_id, member_id="m", member_epoch=epoch, **fields)


def test_a_new_group_is_at_epoch_1_if_its_first_member_subscribes_to_nothing(broker):
    """ConsumerGroupHeartbeat 1 of a new group, without topics: epoch 1; with topics: 2."""
    assert [
        send_heartbeat(broker, "none", 0).member_epoch,
        send_heartbeat(broker, "some", 0, ["orders"]).member_epoch,
    ] == [1, 2]


def test_offset_fetch_rejects_an_empty_member_id_of_a_consumer_group(broker):
    """OffsetFetch 10 of a consumer group with members: "" is UNKNOWN_MEMBER_ID; null means no member and is
    accepted.
    """
    send_heartbeat(broker, "g", 0, ["orders"])
    request_type = types("OffsetFetch")
    for member_id, code in (("", ErrorCode.UNKNOWN_MEMBER_ID), (None, 0)):
        group = request_type.OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=-1, topics=None)
        assert broker.send("OffsetFetch", 10, groups=[group]).groups[0].error_code == code


def test_a_classic_member_with_an_unknown_id_replaces_an_empty_consumer_group(broker):
    """JoinGroup 5 with a member id to an empty consumer group: UNKNOWN_MEMBER_ID, and the group is deleted."""
    send_heartbeat(broker, "g", 0, ["orders"])
    send_heartbeat(broker, "g", -1)
    assert join(broker, "g", member_id="nobody") == (ErrorCode.UNKNOWN_MEMBER_ID, "nobody")
    assert broker.send("ListGroups", 4).groups == []


def test_groups_of_other_types_reject_classic_members_without_a_member_id(broker):
    """JoinGroup 5 to an empty share group, and with protocol type connect to a consumer group: error 23, no member
    id.
    """
    broker.send("ShareGroupHeartbeat", 1, group_id="s", member_id="m", subscribed_topic_names=["orders"])
    broker.send("ShareGroupHeartbeat", 1, group_id="s", member_id="m", member_epoch=-1)
    send_heartbeat(broker, "g", 0, ["orders"])
    refusal = ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""
    assert [join(broker, "s"), join(broker, "s", member_id="nobody")] == [refusal, refusal]
    assert join(broker, "g", member_id="nobody", protocol_type="connect") == refusal


def test_a_classic_member_of_a_consumer_group_gets_a_base64_uuid_as_its_id(broker):
    """JoinGroup 5 to a consumer group: MEMBER_ID_REQUIRED with 22 characters, without the client's id in front."""
    send_heartbeat(broker, "g", 0, ["orders"])
    code, member_id = join(broker, "g")
    assert (code, len(member_id)) == (ErrorCode.MEMBER_ID_REQUIRED, 22)


def test_a_joining_member_must_not_own_topics_even_without_partitions(broker):
    """ConsumerGroupHeartbeat 1 that joins and lists an owned topic without partitions: INVALID_REQUEST."""
    row = types("ConsumerGroupHeartbeat").TopicPartitions(topic_id=topic_id(broker))
    fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [], "topic_partitions": [row]}
    answer = broker.send("ConsumerGroupHeartbeat", 1, group_id="g", member_id="m", member_epoch=0, **fields)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_share_group_offsets_create_a_group_but_not_over_a_group_of_another_type(broker):
    """AlterShareGroupOffsets 0: no error for a missing group, GROUP_ID_NOT_FOUND for a consumer group."""
    request_type = types("AlterShareGroupOffsets")
    send_heartbeat(broker, "g", 0, ["orders"])
    codes = []
    for group_id, name, index in (("s", "orders", 0), ("g", "none", 0), ("s", "orders", -1)):
        row = request_type.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=1)
        topic = request_type.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[row])
        codes.append(broker.send("AlterShareGroupOffsets", 0, group_id=group_id, topics=[topic]).error_code)
    assert codes == [0, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST]
    (group_row,) = broker.send("ShareGroupDescribe", 1, group_ids=["s"]).groups
    assert (group_row.group_state, group_row.group_epoch, group_row.assignment_epoch) == ("Empty", 1, 1)


def test_leave_group_removes_members_of_the_consumer_protocol(broker):
    """LeaveGroup 4 lists a consumer protocol member twice: no error for either entry."""
    send_heartbeat(broker, "g", 0, ["orders"])
    members = [types("LeaveGroup").MemberIdentity(member_id="m")] * 2
    assert [member.error_code for member in broker.send("LeaveGroup", 4, group_id="g", members=members).members] == [
        0,
        0,
    ]


def test_offset_delete_drops_topics_without_partitions_unless_they_are_unknown(broker):
    """OffsetDelete 0 of orders [], none []: none is echoed."""
    send_heartbeat(broker, "g", 0, ["orders"])
    request_type = types("OffsetDelete")
    topics = [request_type.OffsetDeleteRequestTopic(name=name) for name in ("orders", "none")]
    assert [topic.name for topic in broker.send("OffsetDelete", 0, group_id="g", topics=topics).topics] == ["none"]


# ------------------------------------------------------------------------------------------------- epochs and sequences


def test_earlier_epochs_of_an_empty_log_end_at_its_end(broker):
    """OffsetForLeaderEpoch 4 of epochs 0 and -2: (0, 0), (-2, 0); Fetch 12 after epoch 0: no error."""
    request_type = types("OffsetForLeaderEpoch")
    rows = [request_type.OffsetForLeaderPartition(partition=0, leader_epoch=epoch) for epoch in (0, -2)]
    topic = request_type.OffsetForLeaderTopic(topic="orders", partitions=rows)
    (topic_answer,) = broker.send("OffsetForLeaderEpoch", 4, topics=[topic]).topics
    assert [(partition.leader_epoch, partition.end_offset) for partition in topic_answer.partitions] == [
        (0, 0),
        (-2, 0),
    ]
    request_type = types("Fetch")
    row = request_type.FetchPartition(partition=0, last_fetched_epoch=0, partition_max_bytes=1000)
    topics = [request_type.FetchTopic(topic="orders", partitions=[row])]
    (fetched_topic,) = broker.send("Fetch", 12, session_epoch=-1, max_bytes=1000, topics=topics).responses
    assert fetched_topic.partitions[0].error_code == 0


def test_a_batch_after_a_rejected_transactional_batch_is_out_of_order(broker):
    """Produce 8: sequence 0 in a missing transaction, then 3 and 0 without a transaction: errors 48 or 49, 45 and 0."""
    request_type = types("Produce")

    def send(sequence, *, transactional):
        records = build_records(
            {"key": [b"k"], "value": [b"v"]},
            producer_id=987_654_321,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=transactional,
        )
        row = request_type.PartitionProduceData(index=0, records=records)
        topics = [request_type.TopicProduceData(name="orders", partition_data=[row])]
        answer = broker.send("Produce", 8, transactional_id="t", acks=-1, topic_data=topics)
        return answer.responses[0].partition_responses[0].error_code

    assert send(0, transactional=True) != 0
    assert send(3, transactional=False) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(0, transactional=False) == 0


def test_a_quota_is_set_at_most_once_per_request(broker):
    """AlterClientQuotas 1 with request_percentage twice: INVALID_REQUEST."""
    request_type = types("AlterClientQuotas")
    ops = [request_type.OpData(key="request_percentage", value=value) for value in (1000.0, 5.5)]
    row = request_type.EntryData(entity=[request_type.EntityData(entity_type="user", entity_name="u")], ops=ops)
    (entry_row,) = broker.send("AlterClientQuotas", 1, entries=[row]).entries
    assert entry_row.error_code == ErrorCode.INVALID_REQUEST
