"""The target node of each request of Admin, out of three, before and after a leader, coordinator or controller has
moved.
"""

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import LATEST, Admin, NewTopic, Producer, TopicPartition
from kafkaframes.errors import BrokerError

T_0 = TopicPartition("t", 0)
GROUP, TRANSACTIONAL_ID = "billing", "payments"

TO_LEADER = {
    "DeleteRecords": lambda admin: admin.delete_records({T_0: 0}),
    "ListOffsets": lambda admin: admin.list_offsets({T_0: LATEST}),
    "DescribeProducers": lambda admin: admin.describe_producers([T_0]),
}
TO_GROUP_COORDINATOR = {
    "DescribeGroups": lambda admin: admin.describe_group(GROUP),
    "OffsetFetch": lambda admin: admin.group_offsets(GROUP),
    "OffsetCommit": lambda admin: admin.alter_group_offsets(GROUP, {T_0: 1}),
    "OffsetDelete": lambda admin: admin.delete_group_offsets(GROUP, [T_0]),
}
TO_TRANSACTION_COORDINATOR = {
    "DescribeTransactions": lambda admin: admin.describe_transactions([TRANSACTIONAL_ID]),
    "InitProducerId": lambda admin: admin.fence_producers([TRANSACTIONAL_ID]),
}
TO_CONTROLLER = {
    "CreateTopics": lambda admin, name: admin.create_topics([NewTopic(name, 1, 1)]),
    "CreatePartitions": lambda admin, name: admin.create_partitions({name: 2}),
    "ListPartitionReassignments": lambda admin, name: admin.list_partition_reassignments(),
    "DeleteTopics": lambda admin, name: admin.delete_topics([name]),
}
TO_EVERY_BROKER = {
    "ListGroups": lambda admin: admin.list_groups(),
    "ListTransactions": lambda admin: admin.list_transactions(),
    "DescribeLogDirs": lambda admin: admin.describe_log_dirs(),
}
TO_NAMED_BROKER = {
    "DescribeConfigs": lambda admin, node_id: admin.describe_configs("broker", str(node_id)),
    "DescribeLogDirs": lambda admin, node_id: admin.describe_log_dirs([node_id]),
}


@pytest.fixture(scope="module")
def broker():
    with Broker(cluster=3, config={"node.id": 0}) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1, 3)])
        with Producer(broker.bootstrap_servers, transactional_id=TRANSACTIONAL_ID) as producer:
            producer.begin_transaction()
            producer.send("t", b"1")
            producer.commit_transaction()
        admin.alter_group_offsets(GROUP, {T_0: 1})
        yield broker


@pytest.fixture
def admin(broker):
    with Admin(broker.bootstrap_servers, retry_backoff_ms=1, reconnect_backoff_ms=1) as admin:
        yield admin


def find_requested_nodes(broker, api, call, *arguments) -> list[int]:
    """Call a method; return the nodes that got its requests, in order."""
    rule = broker.on(api).delay(0)
    try:
        call(*arguments)
        return [request.session.node_id for request in rule.requests]
    finally:
        broker.clear_faults()


@pytest.mark.parametrize("api", TO_LEADER)
def test_requests_about_a_partition_go_to_its_leader_and_follow_it(api, broker, admin):
    for leader in (0, 2, 1):
        broker.move_leader("t", 0, leader)
        assert find_requested_nodes(broker, api, TO_LEADER[api], admin)[-1] == leader


@pytest.mark.parametrize("api", TO_GROUP_COORDINATOR)
def test_requests_about_a_group_go_to_its_coordinator_and_follow_it(api, broker, admin):
    for node_id in (0, 2, 1):
        broker.move_coordinator(GROUP, node_id)
        admin.alter_group_offsets(GROUP, {T_0: 1})  # the offset that OffsetDelete deletes
        assert find_requested_nodes(broker, api, TO_GROUP_COORDINATOR[api], admin)[-1] == node_id
        broker.move_coordinator(GROUP, (node_id + 1) % 3)  # the client has cached the old coordinator
        assert find_requested_nodes(broker, api, TO_GROUP_COORDINATOR[api], admin)[-1] == (node_id + 1) % 3


@pytest.mark.parametrize("api", TO_TRANSACTION_COORDINATOR)
def test_requests_about_a_transactional_id_go_to_its_coordinator_and_follow_it(api, broker, admin):
    for node_id in (0, 2, 1):
        broker.move_coordinator(TRANSACTIONAL_ID, node_id, kind="transaction")
        assert find_requested_nodes(broker, api, TO_TRANSACTION_COORDINATOR[api], admin)[-1] == node_id


@pytest.mark.parametrize("api", TO_CONTROLLER)
def test_changes_of_topics_go_to_the_controller_and_to_its_successor(api, broker, admin):
    """The controller is the running node with the lowest id."""
    name = f"changed-by-{api}"
    if api in ("CreatePartitions", "DeleteTopics"):
        for suffix in ("-a", "-b"):
            admin.create_topics([NewTopic(f"{name}{suffix}", 1, 1)])
    assert find_requested_nodes(broker, api, TO_CONTROLLER[api], admin, f"{name}-a") == [0]
    broker.stop_node(0)
    try:
        assert find_requested_nodes(broker, api, TO_CONTROLLER[api], admin, f"{name}-b")[-1] == 1
    finally:
        broker.start_node(0)


@pytest.mark.parametrize("api", TO_EVERY_BROKER)
def test_listings_send_one_request_to_each_running_broker(api, broker, admin):
    assert sorted(find_requested_nodes(broker, api, TO_EVERY_BROKER[api], admin)) == [0, 1, 2]
    broker.stop_node(2)
    try:
        assert sorted(find_requested_nodes(broker, api, TO_EVERY_BROKER[api], admin)) == [0, 1]
    finally:
        broker.start_node(2)


@pytest.mark.parametrize("api", TO_NAMED_BROKER)
def test_requests_about_a_broker_go_to_that_broker(api, broker, admin):
    for node_id in (2, 0, 1):
        assert find_requested_nodes(broker, api, TO_NAMED_BROKER[api], admin, node_id) == [node_id]


def test_a_listing_of_transactions_is_sent_again_while_a_coordinator_loads(broker, admin):
    with broker.on("ListTransactions").error("COORDINATOR_LOAD_IN_PROGRESS").once() as rule:
        admin.list_transactions()
    assert rule.count == 1


def test_the_creation_of_a_token_is_not_sent_again_for_an_error_code(broker, admin):
    """The controller may have created the token after the broker stopped waiting for it."""
    rule = broker.on("CreateDelegationToken").error("REQUEST_TIMED_OUT").once()
    with pytest.raises(BrokerError, match="REQUEST_TIMED_OUT"), rule:
        admin.create_delegation_token()
    assert rule.count == 1
