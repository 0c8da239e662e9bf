"""Fixtures for tests of several commands."""

from pathlib import Path

import pytest
from tests.cli.calling import ask

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.records.build import build_end_transaction


@pytest.fixture
def close_catalogs(monkeypatch):
    """pyiceberg leaves connections to SQLite to the garbage collector, which warns."""
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    opened_catalogs = []
    init = catalogs.SqlCatalog.__init__

    def noting(self, *arguments, **options):
        init(self, *arguments, **options)
        opened_catalogs.append(self)

    monkeypatch.setattr(catalogs.SqlCatalog, "__init__", noting)
    yield
    for catalog in opened_catalogs:
        catalog.close()


@pytest.fixture(scope="module")
def broker():
    with Broker() as running_broker:
        yield running_broker


@pytest.fixture
def topic(broker, request):
    name = f"t-{abs(hash(request.node.nodeid)) % 10**9}"
    broker.create_topic(name, partitions=2)
    return name


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    columns = {
        "timestamp": [1_760_000_000_000, 1_760_000_000_500, -1],
        "key": [b"a", None, b"b\xff"],
        "value": [b'say "hi", ok', b"", None],
        "headers": [[("h", b"1"), ("n", None)], [], [("é", b"\xff")]],
    }
    marker = build_end_transaction(commit=True, offset=3, timestamp=7, producer_id=4, producer_epoch=1)
    partition = tmp_path / "logs" / "orders-2"
    partition.mkdir(parents=True)
    (partition / "00000000000000000000.log").write_bytes(kafkaframes.build_records(columns) + marker)
    return str(tmp_path / "logs")


@pytest.fixture
def spec_here(tmp_path, monkeypatch):
    """Call ``kafkaframes spec`` in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: ask("spec", *arguments)


@pytest.fixture(scope="module")
def servers(broker):
    """The bootstrap servers of a broker that the tests of one file share."""
    return broker.bootstrap_servers


@pytest.fixture
def run(servers):
    """Call a command of the client on that broker; raise what it raises."""

    def call(command, *arguments, stdin=None):
        result = ask(*command.split(), "-b", servers, *arguments, stdin=stdin)
        if result.exception is not None:
            raise result.exception
        return result

    return call
