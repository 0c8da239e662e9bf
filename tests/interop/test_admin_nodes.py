"""Admin and Java's Admin work on three Kafka nodes, also while one of them is down."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.client.admin_calls import CALLS, PARTITION, TOPIC, AdminCallFixture
from tests.everyday.clusters import KafkaNodes
from tests.interop import brokers
from tests.interop.test_admin_java import WITHOUT_JAVA_CALL, JavaAdmin, compare, start_java

from kafkaframes.client import EARLIEST, Admin, NewTopic, TopicPartition
from kafkaframes.errors import BrokerError, PartialFailureError

WITH_LOGIN = [name for name in CALLS if name.endswith("_delegation_token")]
GROUPS = [f"group-{number}" for number in range(8)]
TRANSACTIONAL_IDS = [f"id-{number}" for number in range(8)]

__all__ = ["start_java"]


@pytest.fixture(scope="module")
def nodes(kafka: brokers.KafkaFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNodes]:
    """Three nodes, each a broker and a controller."""
    nodes = KafkaNodes(kafka.version, tmp_path_factory.mktemp("kafka"))
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.close()


@pytest.fixture(scope="module")
def scene(nodes: KafkaNodes) -> Iterator[AdminCallFixture]:
    """The cluster in the form that the table of calls requires. All users have all permissions."""
    scene = AdminCallFixture(nodes.bootstrap_servers, login={})
    yield scene
    scene.close()


@pytest.fixture(scope="module")
def java(start_java: Callable[..., JavaAdmin], nodes: KafkaNodes) -> Iterator[JavaAdmin]:
    """Java's Admin."""
    admin = start_java({"bootstrap.servers": nodes.bootstrap_servers})
    yield admin
    admin.close()


@pytest.mark.parametrize("name", [name for name in CALLS if name not in {*WITHOUT_JAVA_CALL, *WITH_LOGIN}])
def test_each_call_on_three_nodes_agrees_with_javas(name, scene, java):
    compare(name, "ANONYMOUS", {}, scene, java)


def test_calls_continue_while_a_node_is_down(nodes, scene):
    """The stopped node is the client's leader, the coordinator of some groups and ids, and perhaps the controller."""
    with Admin(nodes.bootstrap_servers) as admin:
        for group in GROUPS:
            admin.alter_group_offsets(group, {PARTITION: 1})
        admin.fence_producers(TRANSACTIONAL_IDS)
        lost_node = admin.describe_topics([TOPIC])[TOPIC].partitions[0].leader
        nodes.kill(node=lost_node)
        try:
            assert admin.list_offsets({PARTITION: EARLIEST}) == {PARTITION: 0}
            assert admin.delete_records({PARTITION: 0}) == {PARTITION: 0}
            assert admin.describe_producers([PARTITION])[PARTITION]
            assert {group.group_id for group in admin.list_groups()} >= set(GROUPS)
            assert list(admin.fence_producers(TRANSACTIONAL_IDS)) == TRANSACTIONAL_IDS
            assert list(admin.describe_transactions(TRANSACTIONAL_IDS)) == TRANSACTIONAL_IDS
            assert {entry.transactional_id for entry in admin.list_transactions()} >= set(TRANSACTIONAL_IDS)
            admin.create_topics([NewTopic("without-it", 1, 2)])
            admin.create_partitions({"without-it": 2})
            assert admin.list_offsets({TopicPartition("without-it", 1): EARLIEST}) != {}
            with pytest.raises(BrokerError, match="BROKER_ID_NOT_REGISTERED"):
                admin.describe_log_dirs([lost_node])
            assert sorted(admin.describe_log_dirs()) == [node for node in scene.node_ids if node != lost_node]
            with pytest.raises(PartialFailureError) as failure:
                admin.delete_groups([*GROUPS, "never-existed"])
            assert list(failure.value.errors) == ["never-existed"]
            admin.delete_topics(["without-it"])
        finally:
            nodes.start_node(lost_node)
