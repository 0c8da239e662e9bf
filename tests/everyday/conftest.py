"""One cluster for the tests of a module, and a topic for each test; ``clusters`` chooses the cluster."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from tests.everyday import clusters
from tests.everyday.outcomes import RESULTS

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.client import Admin


@pytest.fixture(scope="session")
def real_cluster(tmp_path_factory):
    """The real cluster of this run."""
    if clusters.SERVERS is not None:
        yield clusters.RealCluster(clusters.SERVERS)
        return
    nodes = clusters.KafkaNodes(clusters.COLUMN, tmp_path_factory.mktemp("kafka"))
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.close()


@pytest.fixture(scope="module")
def broker(request):
    if clusters.IS_REAL:
        yield request.getfixturevalue("real_cluster")
        return
    with Broker(config=clusters.GROUPS_WITHOUT_DELAY, security=Security(authorizer=True)) as broker:
        yield broker


@pytest.fixture(scope="module")
def nodes(request):
    """A cluster of three nodes that tests may kill and start again."""
    if clusters.IS_REAL:
        yield request.getfixturevalue("real_cluster")
        return
    with clusters.EmbeddedNodes() as broker:
        yield broker


@pytest.fixture(scope="module")
def servers(broker):
    return broker.bootstrap_servers


@pytest.fixture(scope="module")
def admin(servers):
    with Admin(servers) as admin:
        yield admin


def _name_of_topic(request):
    return request.node.name.translate(str.maketrans("[]", "--"))[:200]


@pytest.fixture
def topic(broker, request):
    """Name of a topic with three partitions."""
    name = _name_of_topic(request)
    broker.create_topic(name, 3)
    return name


@pytest.fixture
def replicated_topic(nodes, request):
    """Name of a topic with one partition on the cluster with nodes that tests kill."""
    name = _name_of_topic(request)
    nodes.create_topic(name, 1)
    return name


def pytest_collection_modifyitems(items):
    """Skip tests that the cluster of this run does not support."""
    for item in items:
        if not hasattr(getattr(item, "function", None), "behaviour"):
            continue
        if clusters.IS_REAL and item.get_closest_marker("embedded"):
            item.add_marker(pytest.mark.skip(reason="needs faults or settings of the embedded broker"))
        protocol = item.callspec.params.get("protocol") if hasattr(item, "callspec") else None
        if clusters.COLUMN == "3.9.1" and (protocol == "consumer" or item.get_closest_marker("kafka_4")):
            item.add_marker(pytest.mark.skip(reason="needs Kafka 4.0 or later"))
        if clusters.SERVERS is not None and "nodes" in item.fixturenames:
            item.add_marker(pytest.mark.skip(reason="would kill nodes of a cluster that was already running"))


_OUTCOMES: dict[str, Counter[str]] = {}


def pytest_runtest_logreport(report):
    """Count the outcomes of each behaviour; a test that is skipped in its body counts as skipped."""
    path, _, name = report.nodeid.partition("::")
    if Path(path).parent.name == "everyday" and (report.when == "call" or report.outcome != "passed"):
        key = f"{Path(path).stem}::{name.partition('[')[0]}"
        _OUTCOMES.setdefault(key, Counter())[report.outcome] += 1


def pytest_sessionfinish():
    """Write the outcomes of this run to the results file, for docs/everyday.json."""
    if RESULTS in os.environ:
        Path(os.environ[RESULTS]).write_text(json.dumps(_OUTCOMES))
