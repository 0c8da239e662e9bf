"""``Scan.export`` and ``Scan.write_table`` write the rows of the scan, or fail."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import kafkaframes
from kafkaframes import Admin, Broker, Producer
from kafkaframes.client import NewTopic
from kafkaframes.errors import OptionError
from kafkaframes.jobs import JobResult, Outcome

LOGS = Path(__file__).parents[1] / "data" / "logs"
EXAMPLE_LOG_DIR = Path(__file__).parents[1] / "data" / "examples" / "kafka-4.3"
TRANSACTIONS = LOGS / "kraft-4x-transactions"
JSON_VALUES = [b'{"id": %d, "name": "n%d"}' % (number, number) for number in range(20)] + [b"no JSON"]


@pytest.fixture
def topic():
    with Broker() as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name="t", num_partitions=2)])
        with Producer(broker.bootstrap_servers) as producer:
            for number, value in enumerate(JSON_VALUES):
                producer.send("t", value, key=b"k%d" % (number % 3), partition=number % 2, timestamp_ms=1_000 + number)
            producer.flush()
        yield broker.bootstrap_servers


def keys_of(rows):
    return sorted(zip(*(rows[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True))


def read_keys(directory):
    """Return topic, partition and offset of each row below ``topic=T/partition=P``."""
    keys = []
    for path in directory.rglob("*.parquet"):
        if any(part.startswith("_") for part in path.relative_to(directory).parts):
            continue
        topic, partition = (part.partition("=")[2] for part in path.parts[-3:-1])
        keys += [
            (topic, int(partition), offset) for offset in pq.read_table(path, partitioning=None)["offset"].to_pylist()
        ]
    return sorted(keys)


SCANS = {
    "all": lambda scan: scan,
    "offset": lambda scan: scan.where(offset=(3, 9)),
    "partition": lambda scan: scan.where(partition=1),
    "topic": lambda scan: scan.where(topic=["orders", "t"]).where(partition=0),
    "time": lambda scan: scan.where(timestamp=(1_004, 1_011)),
    "no headers": lambda scan: scan.select(*(name for name in scan.columns if name != "headers")),
}


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("writes", ["export", "write_table"])
def test_a_scan_of_topics_writes_its_rows(topic, tmp_path, name, writes):
    scan = SCANS[name](kafkaframes.scan_topic(topic, "t", start=1))
    getattr(scan, writes)(tmp_path / "out")
    assert read_keys(tmp_path / "out") == keys_of(scan.to_arrow()) != []
    has_headers = "headers" in pq.read_schema(next((tmp_path / "out").rglob("topic=t/*/*.parquet"))).names
    assert has_headers == (name != "no headers")


@pytest.mark.parametrize("writes", ["export", "write_table"])
@pytest.mark.parametrize(
    "select",
    [
        lambda: kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics=["orders", "customers"]),
        lambda: kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics="orders", partitions=0, start=100, end=203),
        lambda: kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics="orders").where(offset=(150, 160), partition=[0, 1]),
        lambda: kafkaframes.scan_log(TRANSACTIONS, topics="ledger"),
        lambda: kafkaframes.scan_log(TRANSACTIONS, topics="ledger", isolation="read_uncommitted", control_records=True),
    ],
)
def test_a_scan_of_logs_writes_its_rows(tmp_path, writes, select):
    scan = select()
    result = getattr(scan, writes)(tmp_path / "out")
    assert isinstance(result, JobResult)
    assert isinstance(result.report, Outcome)
    assert read_keys(tmp_path / "out") == keys_of(scan.to_arrow()) != []


def test_a_time_range_is_tested_for_each_record(tmp_path):
    log = tmp_path / "log" / "t-0"
    log.mkdir(parents=True)
    times = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 5, 3, 2, 6)]
    rows = [{"value": b"v", "timestamp": int(time.timestamp() * 1000)} for time in times]
    (log / f"{0:020}.log").write_bytes(kafkaframes.build_records(rows))
    scan = kafkaframes.scan_log(tmp_path / "log").where(timestamp=("2026-01-02", "2026-01-05"))
    scan.export(tmp_path / "out")
    assert read_keys(tmp_path / "out") == keys_of(scan.to_arrow()) == [("t", 0, 2), ("t", 0, 3)]


def test_a_single_segment_is_exported_into_a_single_file(tmp_path):
    segment = next(TRANSACTIONS.rglob("ledger-0/*.log"))
    scan = kafkaframes.scan_log(segment)
    scan.export(tmp_path / "out.parquet", single_file=True)
    assert pq.read_table(tmp_path / "out.parquet").num_rows == scan.count()


@pytest.mark.parametrize("live", [False, True])
def test_a_table_has_the_decoded_values_and_dead_letters(topic, tmp_path, live):
    if live:
        scan = kafkaframes.scan_topic(topic, "t")
    else:
        log = tmp_path / "log" / "t-0"
        log.mkdir(parents=True)
        (log / f"{0:020}.log").write_bytes(kafkaframes.build_records({"value": JSON_VALUES}))
        scan = kafkaframes.scan_log(tmp_path / "log")
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    scan.decode(value="json", schema=schema).write_table(tmp_path / "out")
    rows = [
        row
        for path in (tmp_path / "out").rglob("topic=t/*/*.parquet")
        for row in pq.read_table(path, partitioning=None).to_pylist()
    ]
    assert sorted(row["id"] for row in rows) == list(range(20))
    assert {row["name"] for row in rows} == {f"n{number}" for number in range(20)}
    assert len(read_keys(tmp_path / "out-dead-letters")) == 1
    again = kafkaframes.scan_topic(topic, "t") if live else scan
    assert again.decode(value="json", schema=schema).write_table(tmp_path / "out").report.records_read == 0


def test_a_table_keeps_the_latest_row_of_each_key(topic, tmp_path):
    pytest.importorskip("deltalake")
    from deltalake import DeltaTable

    scan = kafkaframes.scan_topic(topic, "t", end=10)
    scan.write_table(tmp_path / "out", format="delta", latest=True)
    keys = DeltaTable(str(tmp_path / "out")).to_pyarrow_table()["key"].to_pylist()
    assert sorted(keys) == [b"k0", b"k1", b"k2"]


@pytest.mark.parametrize(
    ("scan", "message"),
    [
        (lambda scan: scan.limit(5), "`limit` 5 is not supported: an export or table has all selected records"),
        (
            lambda scan: scan.select("key", "value"),
            "`select` key, value is not supported: an export or table has the columns topic, ",
        ),
        (
            lambda scan: scan.select(*scan.columns, "file"),
            "`select` .*, file is not supported: an export or table has the columns",
        ),
    ],
)
@pytest.mark.parametrize("writes", ["export", "write_table"])
def test_scans_that_a_job_cannot_write_are_rejected(tmp_path, scan, message, writes):
    with pytest.raises(OptionError, match=message):
        getattr(scan(kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics="orders")), writes)(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_decoded_values_cannot_be_exported_and_tables_reject_on_error_raise(tmp_path):
    scan = kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics="orders")
    with pytest.raises(
        OptionError, match="`decode` cannot be exported, because an export writes values as bytes; use `write_table`"
    ):
        scan.decode(value="json").export(tmp_path / "out")
    with pytest.raises(OptionError, match="`errors`=raise is not supported for tables"):
        scan.decode(value="json", errors="raise").write_table(tmp_path / "out")
    with pytest.raises(OptionError, match="`limit_bytes` must be the default"):
        kafkaframes.scan_log(EXAMPLE_LOG_DIR, limit_bytes=1000).export(tmp_path / "out")
    with pytest.raises(OptionError, match="requires whole logs"):
        kafkaframes.scan_log(next(EXAMPLE_LOG_DIR.rglob("orders-0/*.log"))).write_table(tmp_path / "out")
    capture = kafkaframes.scan_capture(tmp_path / "none.pcap")
    with pytest.raises(OptionError, match="only scans of logs and topics can be exported"):
        capture.export(tmp_path / "out")


def test_a_scan_cannot_be_exported_into_its_source(tmp_path):
    log = tmp_path / "t-0"
    log.mkdir()
    (log / f"{0:020}.log").write_bytes(kafkaframes.build_records({"value": [b"v"]}))
    with pytest.raises(OptionError):
        kafkaframes.scan_log(tmp_path).export(tmp_path / "out")
