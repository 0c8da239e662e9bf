"""State written by an earlier commit is continued: no record is lost or duplicated, and no state is rejected.

``write_states.py`` specifies how the states in ``tests/data/upgrades`` were written, and by which commit. About 6,000
names changed since then. Stored names must not change: JSON keys, file names, columns, and table properties.
"""

import base64
import json
import re
import time
from collections import Counter

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.upgrades.states import unpack_states
from tests.upgrades.stored_names import PAGE, format_list, read_all_names

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.state.clock import Clock
from kafkaframes.client import (
    Admin,
    CommittedOffset,
    Consumer,
    Producer,
    QuotaEntity,
    ShareConsumer,
    TopicPartition,
)
from kafkaframes.errors import LogDirError, OptionError

WAIT_MS = 60_000
BROKER_TIME = 1_700_001_060_000  # a minute after the start of the earlier broker: its states have not expired
BROKER_CONFIG = {
    "log.index.size.max.bytes": "65536",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "delegation.token.secret.key": "of this cluster",
    "super.users": "User:admin",
    "group.initial.rebalance.delay.ms": "0",
}
ADMIN_LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "admin",
    "sasl_password": "secret",
}
ALL_NUMBERS = [*range(240)]
ABORTED_NUMBERS = range(120, 140)
COMMITTED_NUMBERS = [number for number in ALL_NUMBERS if number not in ABORTED_NUMBERS]
LATEST_NUMBERS = range(233, 240)  # the last value of each key


@pytest.fixture
def unpack_fixture(tmp_path):
    """Return a function that unpacks states. Paths in them become those of this test."""

    def unpack_here(*names):
        unpack_states(tmp_path, *names)
        return tmp_path

    return unpack_here


def number_of(value):
    return int(re.fullmatch(rb"value (\d+)", bytes(value))[1])


def assert_each_number_once(numbers, expected_numbers):
    """Assert that each record exists exactly once."""
    counts = Counter(numbers)
    assert not [number for number, count in counts.items() if count > 1], "duplicate records"
    assert sorted(counts) == sorted(expected_numbers)


# -------------------------------------------------------------------------------------------------------------- exports


def read_exported_numbers(root):
    for path in root.glob("topic=*/*/*"):
        if path.suffix == ".parquet":
            values = pq.ParquetFile(path).read().column("value").to_pylist()
        elif path.suffix == ".json":
            values = [json.loads(line)["value"].encode() for line in path.read_text().splitlines()]
        else:
            values = map(base64.b64decode, pyarrow.csv.read_csv(path).column("value").to_pylist())
        yield from map(number_of, values)


@pytest.mark.parametrize(
    ("name", "finished_segments", "options"),
    [
        ("parquet", 6, {}),
        ("stopped", 3, {}),
        ("csv", 6, {"format": "csv", "base64": True}),
        ("json", 6, {"format": "json", "key_regex": "k[0-4]"}),
    ],
)
def test_an_export_is_continued(unpack_fixture, name, finished_segments, options):
    root = unpack_fixture("logs", "exports")
    earlier_files = {path: path.stat().st_ino for path in (root / name).glob("topic=*/*/*")}
    options = {"isolation": "read_uncommitted", **options}
    outcome = kafkaframes.export_log(root / "log-1", root / name, **options).report
    assert (outcome.resumed, outcome.exported) == (finished_segments, 6 - finished_segments)
    assert {path: path.stat().st_ino for path in earlier_files} == earlier_files
    expected_numbers = [number for number in ALL_NUMBERS if name != "json" or number % 7 < 5]
    assert_each_number_once(read_exported_numbers(root / name), [number for number in expected_numbers if number < 160])
    assert kafkaframes.export_log(root / "log-2", root / name, **options).report.resumed == 4
    assert_each_number_once(read_exported_numbers(root / name), expected_numbers)
    assert kafkaframes.export_log(root / "log-2", root / name, **options).report.exported == 0


def test_an_export_with_another_isolation_level_is_rejected(unpack_fixture):
    root = unpack_fixture("logs", "exports")
    with pytest.raises(OptionError, match="`isolation` was read_uncommitted and is read_committed"):
        kafkaframes.export_log(root / "log-1", root / "parquet")


@pytest.mark.parametrize("source", ["parquet", "backup.parquet"])
def test_an_exported_backup_is_restored(unpack_fixture, source):
    root = unpack_fixture("exports")
    kafkaframes.restore_log(root / source, root / "restored")
    table = kafkaframes.scan_log(root / "restored", topics="orders").to_arrow()
    assert_each_number_once(map(number_of, table["value"].to_pylist()), range(160))
    assert {(row["headers"][0]["key"], row["headers"][0]["value"]) for row in table.to_pylist()} == {
        ("number", b"%d" % number) for number in range(160)
    }


# --------------------------------------------------------------------------------------------------------------- tables


def delta_values(path):
    return pytest.importorskip("deltalake").DeltaTable(str(path)).to_pyarrow_table().column("value").to_pylist()


def test_a_table_of_parquet_files_is_continued(unpack_fixture):
    root = unpack_fixture("logs", "tables")
    kafkaframes.table_log(root / "log-2", root / "parquet", format="parquet")
    assert_each_number_once(read_exported_numbers(root / "parquet"), COMMITTED_NUMBERS)


@pytest.mark.parametrize("name", ["delta", "exported-delta"])
def test_a_delta_table_is_continued(unpack_fixture, name):
    pytest.importorskip("deltalake")
    root = unpack_fixture("logs", "tables")
    options = {"isolation": "read_uncommitted"} if name == "exported-delta" else {}
    kafkaframes.table_log(root / "log-2", root / name, format="delta", **options)
    expected_numbers = ALL_NUMBERS if name == "exported-delta" else COMMITTED_NUMBERS
    assert_each_number_once(map(number_of, delta_values(root / name)), expected_numbers)


def test_a_delta_table_of_latest_rows_is_continued(unpack_fixture):
    pytest.importorskip("deltalake")
    root = unpack_fixture("logs", "tables")
    kafkaframes.table_log(root / "log-2", root / "latest", format="delta", mode="latest")
    assert_each_number_once(map(number_of, delta_values(root / "latest")), LATEST_NUMBERS)


def test_an_iceberg_table_is_continued(unpack_fixture):
    """An Iceberg table has absolute paths, so the test writes a new table with the properties of the earlier commit."""
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog.sql import SqlCatalog

    root = unpack_fixture("logs", "tables")
    kafkaframes.table_log(root / "log-1", root / "iceberg", format="iceberg")
    earlier = json.loads((root / "iceberg.metadata.json").read_text())
    newest = max((root / "iceberg").rglob("*.metadata.json"))
    current = json.loads(newest.read_text())
    assert [entry["name"] for entry in current["schemas"][-1]["fields"]] == [
        entry["name"] for entry in earlier["schemas"][-1]["fields"]
    ]
    current["properties"] = earlier["properties"]
    note = {
        name: value for name, value in earlier["snapshots"][-1]["summary"].items() if name.startswith("kafkaframes")
    }
    summary = current["snapshots"][-1]["summary"]
    current["snapshots"][-1]["summary"] = {
        name: value for name, value in summary.items() if not name.startswith("kafkaframes")
    } | note
    assert note
    newest.write_text(json.dumps(current))
    kafkaframes.table_log(root / "log-2", root / "iceberg", format="iceberg")
    catalog = SqlCatalog("kafkaframes", uri=f"sqlite:///{root / 'iceberg' / 'catalog.db'}", warehouse=str(root))
    values = catalog.load_table("kafka.records").scan().to_arrow().column("value").to_pylist()
    catalog.close()
    assert_each_number_once(map(number_of, values), COMMITTED_NUMBERS)


# -------------------------------------------------------------------------------------------------------------- mirrors


@pytest.mark.parametrize("name", ["copy", "killed"])
def test_a_mirror_into_a_directory_is_continued(unpack_fixture, name):
    root = unpack_fixture("logs", "mirrors")
    report = kafkaframes.mirror_topics(root / "log-2", root / name)
    starts = [
        (one["partition"], one["from_offset"]) for one in report.as_json()["partitions"] if one["topic"] == "orders"
    ]
    assert starts == [(0, 82), (1, 82)]
    for partition in (0, 1):
        assert read_batches(root / name / f"orders-{partition}") == read_batches(root / "log-2" / f"orders-{partition}")


def read_batches(directory):
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def test_a_mirror_with_new_offsets_is_continued(unpack_fixture):
    root = unpack_fixture("logs", "mirrors")
    with Broker(data_dir=root / "target") as target:
        assert 0 < sum(len(target.records("orders", partition)) for partition in (0, 1)) < 160
        state = str(root / "state")
        kafkaframes.mirror_topics(root / "log-2", target.bootstrap_servers, offsets="reassign", state_dir=state)
        numbers = [number_of(record.value) for partition in (0, 1) for record in target.records("orders", partition)]
    assert_each_number_once(numbers, COMMITTED_NUMBERS)


# ----------------------------------------------------------------------------------------------------------------- jobs


@pytest.mark.parametrize(
    ("name", "run_again"),
    [
        ("converted", lambda log, to: kafkaframes.convert_log(log, to, record_format=2, codec="gzip")),
        ("recompressed", lambda log, to: kafkaframes.recompress_log(log, to, codec="gzip")),
        ("compacted", lambda log, to: kafkaframes.compact_log(log, to)),
        ("restored", lambda log, to: kafkaframes.restore_log(log, to, cluster_id="AAAAAAAAAAAAAAAAAAAAAQ")),
    ],
    ids=["converted", "recompressed", "compacted", "restored"],
)
def test_the_directory_of_a_finished_job_is_recognized(unpack_fixture, monkeypatch, name, run_again):
    monkeypatch.chdir(unpack_fixture("logs", "jobs"))  # jobs recognize their source by its path, too
    result = run_again("log-1", name)
    assert getattr(result, "report", result).done_before
    with pytest.raises(LogDirError, match="exists already"):
        run_again("log-2", name)


# --------------------------------------------------------------------------------------------------------------- broker


def start_clock():
    """Return a clock that starts at ``BROKER_TIME``."""
    start = time.monotonic_ns()
    return Clock(lambda: BROKER_TIME + (time.monotonic_ns() - start) // 1_000_000)


@pytest.fixture(params=["killed", "stopped"])
def broker(request, unpack_fixture):
    """A broker that opens the directory of a killed or cleanly stopped broker."""
    root = unpack_fixture("broker")
    security = Security(users={"admin": "secret"}, authorizer=True)
    directory = root / request.param
    with Broker(data_dir=directory, config=BROKER_CONFIG, security=security, clock=start_clock()) as broker:
        broker.is_killed = request.param == "killed"
        yield broker


@pytest.fixture
def admin(broker):
    with Admin(broker.bootstrap_servers, **ADMIN_LOGIN) as admin:
        yield admin


def read_numbers(servers, topic, **options):
    with Consumer(servers, auto_offset_reset="earliest", **ADMIN_LOGIN, **options) as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for record in consumer.poll(WAIT_MS):
                yield number_of(record.value)


def test_a_broker_has_the_records_of_an_earlier_one(broker, admin):
    servers = broker.bootstrap_servers
    assert_each_number_once(read_numbers(servers, "orders", isolation_level="read_uncommitted"), range(90))
    latest = list(read_numbers(servers, "keys"))
    assert {number % 3: number for number in latest} == {0: 297, 1: 298, 2: 299}
    assert len(latest) < 100
    with Producer(servers, transactional_id="running", **ADMIN_LOGIN) as producer:  # aborts the open transaction
        producer.begin_transaction()
        for number in range(90, 100):
            producer.send("orders", value=b"value %d" % number, partition=number % 2)
        producer.commit_transaction()
    assert_each_number_once(
        read_numbers(servers, "orders", isolation_level="read_committed"), [*range(70), *range(90, 100)]
    )


def test_a_broker_has_the_producers_and_transactions_of_an_earlier_one(broker, admin):
    states = {listing.transactional_id: listing.state for listing in admin.list_transactions()}
    assert states == {
        "finished": "CompleteAbort",
        "running": "Ongoing" if broker.is_killed else "CompleteAbort",
    }
    producers = admin.describe_producers([TopicPartition("orders", 0)])[TopicPartition("orders", 0)]
    assert [(one.producer_id, one.last_sequence) for one in producers] == [
        (0, 29),
        (1, -1),
        (2, 4 if broker.is_killed else -1),
    ]
    assert (producers[-1].transaction_start_offset is not None) == broker.is_killed


def test_a_broker_has_the_groups_of_an_earlier_one(broker, admin):
    servers = broker.bootstrap_servers
    assert {listing.group_id for listing in admin.list_groups()} == {"classic readers", "consumer readers", "sharers"}
    for protocol in ("classic", "consumer"):
        offsets = admin.group_offsets(f"{protocol} readers")
        assert offsets == {
            TopicPartition("orders", 0): CommittedOffset(7, 0, "of partition 0"),
            TopicPartition("orders", 1): CommittedOffset(9, 0, ""),
        }
        with Consumer(servers, group_id=f"{protocol} readers", group_protocol=protocol, **ADMIN_LOGIN) as consumer:
            consumer.subscribe(["orders"])
            first_offsets = {}
            while len(first_offsets) < 2:
                for record in consumer.poll(WAIT_MS):
                    first_offsets.setdefault(record.partition, record.offset)
            assert first_offsets == {0: 7, 1: 9}
    with ShareConsumer(servers, group_id="sharers", **ADMIN_LOGIN) as consumer:
        consumer.subscribe(["shared"])
        deliveries = {}
        while len(deliveries) < 5:
            deliveries |= {record.offset: record.delivery_count for record in consumer.poll(WAIT_MS)}
        assert deliveries == dict.fromkeys(range(5, 10), 2)


def test_a_broker_has_the_settings_and_users_of_an_earlier_one(broker, admin):
    assert {name: len(topic.partitions) for name, topic in admin.describe_topics(["orders", "keys"]).items()} == {
        "orders": 2,
        "keys": 1,
    }
    configs = admin.describe_configs("topic", "orders")
    assert [configs[name].value for name in ("segment.bytes", "retention.ms", "max.message.bytes")] == [
        "1500",
        "-1",
        "123456",
    ]
    assert admin.describe_configs("group", "sharers")["share.auto.offset.reset"].value == "earliest"
    assert admin.describe_configs("broker", "1")["log.retention.ms"].value == "123456789"
    assert [(one.resource_name, one.principal, one.operation) for one in admin.describe_acls()] == [
        ("orders", "User:alice", "read")
    ]
    assert admin.describe_client_quotas() == {QuotaEntity(user="alice"): {"producer_byte_rate": 1_000_000.0}}
    (token,) = admin.describe_delegation_token()
    assert (token.owner, list(token.renewers)) == ("User:admin", ["User:alice"])
    alice = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": "alice",
        "sasl_password": "password",
    }
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest", **alice) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        assert consumer.poll(WAIT_MS)[0].value == b"value 0"


# ---------------------------------------------------------------------------------------------------------------- Spark

SPARK_VERSION = (4, 3)  # version of the checkpoints; an older Spark cannot read them


def forget_last_commit(checkpoint):
    """Change a checkpoint to the state of a query that was killed before it recorded its last commit."""
    max((checkpoint / "commits").iterdir(), key=lambda path: int(path.name)).unlink()


@pytest.fixture
def checkpoint_reader(spark):
    if tuple(map(int, spark.version.split(".")[:2])) < SPARK_VERSION:
        pytest.skip(f"the checkpoints are Spark {SPARK_VERSION}'s")
    return spark.readStream


@pytest.mark.spark
def test_a_query_over_logs_into_a_log_is_continued(checkpoint_reader, unpack_fixture):
    root = unpack_fixture("logs", "queries")
    forget_last_commit(root / "written.checkpoint")
    logs = checkpoint_reader.format("kafka-log").options(startingOffsets="earliest", isolation="read_committed")
    frame = logs.load(str(root / "log-2")).select("key", "value")
    writer = frame.writeStream.format("kafka-log").option("topic", "orders").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(root / "written.checkpoint"))
    assert writer.start(str(root / "written")).awaitTermination(240)
    table = kafkaframes.scan_log(root / "written", topics="orders").to_arrow()
    assert_each_number_once(map(number_of, table["value"].to_pylist()), COMMITTED_NUMBERS)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["function", "format"])
def test_a_query_over_topics_into_a_topic_is_continued(checkpoint_reader, unpack_fixture, name):
    root = unpack_fixture("queries")
    checkpoint = root / f"{name}.checkpoint"
    forget_last_commit(checkpoint)
    config = {"transaction.state.log.num.partitions": 1, "log.index.size.max.bytes": 65536}
    with Broker(data_dir=root / "data", config=config, clock=start_clock()) as broker:
        servers = broker.bootstrap_servers
        with Producer(servers) as producer:
            for number in range(40, 60):
                producer.send("in", value=b"value %d" % number, partition=number % 2)
        options = {"kafka.bootstrap.servers": servers, "topic": name}
        topics = checkpoint_reader.format("kafka-topic").option("kafka.bootstrap.servers", servers)
        frame = topics.options(subscribe="in", startingOffsets="earliest").load().select("key", "value")
        if name == "function":
            trigger = {"availableNow": True}
            query = kafkaframes.spark.write_topic(frame, options, checkpoint=str(checkpoint), trigger=trigger)
        else:
            writer = (
                frame.writeStream.format("kafka-topic")
                .options(**options, delivery="exactly-once")
                .trigger(availableNow=True)
            )
            query = writer.option("checkpointLocation", str(checkpoint)).start()
        assert query.awaitTermination(240)
        with Consumer(servers, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
            partitions = consumer.partitions_for(name)
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            numbers = []
            while any(consumer.position(partition) < end for partition, end in ends.items()):
                numbers += [number_of(value) for value in consumer.fetch_arrow(WAIT_MS)["value"].to_pylist()]
        assert_each_number_once(numbers, range(60))


# ---------------------------------------------------------------------------------------------------------------- names


def test_the_page_lists_the_names_that_are_stored():
    """A name that the current code no longer writes must still be read. A new name is stored data from now on."""
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    assert format_list(read_all_names()) in PAGE.read_text(), "run: python -m tests.upgrades.stored_names"
