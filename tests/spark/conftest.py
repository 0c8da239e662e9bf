"""Fixtures for several files of the Spark tests."""

import gc

import fsspec
import pyarrow as pa
import pytest
from tests.spark.topics import ROWS, recreate_topic
from tests.spark.truth import EXAMPLE_LOG_DIR

from kafkaframes.broker import Broker
from kafkaframes.client import Producer
from kafkaframes.testing.plugin import ExternalBroker


@pytest.fixture(scope="module")
def brokers(request):
    """Two embedded brokers, or the cluster of --kafka-bootstrap: then tests that need more than its address are
    skipped.

    ``tests/interop/test_live_topics.py`` runs these files against real Apache Kafka.
    """
    bootstrap_servers = request.config.getoption("--kafka-bootstrap")
    if bootstrap_servers:
        yield ExternalBroker(bootstrap_servers)
        return
    with Broker(cluster=2) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def s3():
    """Return options for a bucket ``backup`` with the shop's orders; the servers of a process share it."""
    server_module = pytest.importorskip("moto.server")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "fs.s3a.endpoint": f"http://{host}:{port}",
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.access.key": "testing",
        "fs.s3a.secret.key": "testing",
    }
    client = {"region_name": "eu-west-1"}
    store = fsspec.filesystem(
        "s3", endpoint_url=f"http://{host}:{port}", key="testing", secret="testing", client_kwargs=client
    )
    store.mkdir("backup")
    for file in (*EXAMPLE_LOG_DIR.glob("orders-*/*"), EXAMPLE_LOG_DIR / "meta.properties"):
        store.put_file(str(file), f"backup/logs/{file.relative_to(EXAMPLE_LOG_DIR)}")
    yield options
    fsspec.asyn.sync(store.loop, store._s3.close) if hasattr(store, "_s3") and store._s3 else None
    server.stop()


@pytest.fixture
def collect_garbage():
    """Collect garbage after a test whose unclosed resources cause warnings: under its own warning filters, not in a
    later test.
    """
    yield
    gc.collect()


@pytest.fixture(scope="module")
def servers(brokers):
    """The bootstrap servers of brokers that the tests of one file share."""
    return brokers.bootstrap_servers


@pytest.fixture(scope="module")
def topic(servers):
    """A topic with three partitions and ``ROWS`` flights."""
    recreate_topic(servers, "flights", 3)
    table = pa.table(
        {
            "key": [f"k{n % 100}" for n in range(ROWS)],
            "value": [f"v{n}" for n in range(ROWS)],
            "timestamp": pa.array([1_700_000_000_000 + n for n in range(ROWS)], pa.int64()),
        }
    )
    with Producer(servers, compression_type="lz4", batch_size=4_000) as producer:
        producer.send_arrow(table, topic="flights")
    return "flights"
