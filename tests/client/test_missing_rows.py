"""A response that lacks the result of a requested item is an error, not a success and not an empty result."""

from uuid import uuid4

import pytest

from kafkaframes import message_class
from kafkaframes.broker import Broker
from kafkaframes.client import AclBinding, AclFilter, Admin, Consumer, Producer, Replica, TopicPartition
from kafkaframes.client.administration.users import QuotaEntity, ScramCredential
from kafkaframes.errors import BrokerError, ErrorCode

NUMBERS_0 = TopicPartition("numbers", 0)
ACL_BINDING = AclBinding("topic", "numbers", "User:a", "read", "allow")
ADMIN_CALLS = {
    "AlterPartitionReassignments": lambda admin: admin.alter_partition_reassignments({NUMBERS_0: [0]}),
    "AlterReplicaLogDirs": lambda admin: admin.alter_replica_log_dirs({Replica("numbers", 0, 1): "/logs"}),
    "AlterShareGroupOffsets": lambda admin: admin.alter_share_group_offsets("g", {NUMBERS_0: 0}),
    "AlterUserScramCredentials": lambda admin: admin.alter_user_scram_credentials([ScramCredential("a", "secret")]),
    "AlterClientQuotas": lambda admin: admin.alter_client_quotas({QuotaEntity("a"): {"producer_byte_rate": 1.0}}),
    "CreateAcls": lambda admin: admin.create_acls([ACL_BINDING]),
    "CreatePartitions": lambda admin: admin.create_partitions({"numbers": 4}),
    "CreateTopics": lambda admin: admin.create_topics(["other"]),
    "DeleteAcls": lambda admin: admin.delete_acls([AclFilter()]),
    "DeleteGroups": lambda admin: admin.delete_groups(["g"]),
    "DeleteRecords": lambda admin: admin.delete_records({NUMBERS_0: 0}),
    "DeleteShareGroupOffsets": lambda admin: admin.delete_share_group_offsets("g", ["numbers"]),
    "DeleteTopics": lambda admin: admin.delete_topics(["numbers"]),
    "DescribeConfigs": lambda admin: admin.describe_configs("topic", "numbers"),
    "DescribeGroups": lambda admin: admin.remove_group_members("g"),
    "DescribeProducers": lambda admin: admin.describe_producers([NUMBERS_0]),
    "DescribeShareGroupOffsets": lambda admin: admin.share_group_offsets("g", [NUMBERS_0]),
    "DescribeTransactions": lambda admin: admin.describe_transactions(["t"]),
    "DescribeUserScramCredentials": lambda admin: admin.describe_user_scram_credentials(["a"]),
    "ElectLeaders": lambda admin: admin.elect_leaders([NUMBERS_0]),
    "FindCoordinator": lambda admin: admin.describe_group("g"),
    "IncrementalAlterConfigs": lambda admin: admin.alter_configs("topic", "numbers", {"retention.ms": "1"}),
    "ConsumerGroupDescribe": lambda admin: admin.describe_group("g"),
    "LeaveGroup": lambda admin: admin.remove_group_members("g", ["a"]),
    "ListOffsets": lambda admin: admin.list_offsets({NUMBERS_0: 0}),
    "OffsetCommit": lambda admin: admin.alter_group_offsets("g", {NUMBERS_0: 1}),
    "OffsetDelete": lambda admin: admin.delete_group_offsets("g", [NUMBERS_0]),
    "OffsetFetch": lambda admin: admin.group_offsets("g", [NUMBERS_0]),
    "ShareGroupDescribe": lambda admin: admin.describe_share_group("g"),
    "WriteTxnMarkers": lambda admin: admin.abort_transaction(NUMBERS_0, 1, 0),
}
TRANSACTION_CALLS = {
    "AddPartitionsToTxn": lambda producer: producer.send("numbers", b"1", partition=0).result(60),
    "TxnOffsetCommit": lambda producer: producer.send_offsets_to_transaction({NUMBERS_0: 1}, "g"),
}


@pytest.fixture
def broker(request):
    release = getattr(request, "param", None)
    with Broker(broker_release=release) if release else Broker() as broker:
        broker.create_topic("numbers")
        broker.append("numbers", [{"value": b"1"}])
        yield broker


def omit_results(broker, api):
    """Make the broker answer requests of an API without errors and without results."""

    def respond(request):
        response = message_class(f"{api}Response")()
        # the response has a result for the group but none for its partition
        if api in ("OffsetFetch", "DescribeShareGroupOffsets"):
            group = next(
                value for name, value in vars(message_class(f"{api}Response")).items() if name.endswith("Group")
            )
            response.groups = [group(group_id="g")]
        return response

    return broker.on(api).answer(respond)


@pytest.mark.parametrize("api", ADMIN_CALLS)
def test_an_admin_call_without_a_result_fails(api, broker):
    with Admin(broker.bootstrap_servers) as admin, omit_results(broker, api):
        with pytest.raises(BrokerError, match="the response has") as failure:
            ADMIN_CALLS[api](admin)
        assert failure.value.code is ErrorCode.NONE


# newer brokers add partitions to transactions without a request
@pytest.mark.parametrize("broker", ["3.9"], indirect=True)
@pytest.mark.parametrize("api", TRANSACTION_CALLS)
def test_a_transaction_without_a_result_of_a_partition_fails_and_can_be_aborted(api, broker):
    settings = {"transactional_id": f"t-{uuid4()}"}
    with Producer(broker.bootstrap_servers, **settings) as producer:
        producer.begin_transaction()
        with omit_results(broker, api), pytest.raises(BrokerError, match="the response has no result for numbers"):
            TRANSACTION_CALLS[api](producer)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("numbers", b"2", partition=0)
        producer.commit_transaction()


def test_a_commit_without_a_result_of_a_partition_fails(broker):
    with Consumer(broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe("numbers")
        broker.wait_for(lambda: consumer.poll(100))
        with omit_results(broker, "OffsetCommit"), pytest.raises(BrokerError, match="commit for group g"):
            consumer.commit()


def test_a_consumer_does_not_reset_if_the_response_lacks_its_committed_offset(broker):
    """A reset would read the whole topic again, or skip records written since the last commit."""
    settings = {"group_id": "g", "auto_offset_reset": "earliest", "retry_backoff_ms": 10}
    with Admin(broker.bootstrap_servers) as admin:
        admin.alter_group_offsets("g", {NUMBERS_0: 1})
    broker.append("numbers", [{"value": b"2"}])
    with Consumer(broker.bootstrap_servers, **settings) as consumer:
        with omit_results(broker, "OffsetFetch") as rule:
            consumer.subscribe("numbers")
            with pytest.raises(BrokerError, match="committed offsets of group g"):
                broker.wait_for(lambda: consumer.poll(100))
            assert rule.count
        records = []

        def has_records():
            records.extend(consumer.poll(100))
            return records

        broker.wait_for(has_records)
        assert [record.value for record in records] == [b"2"]
