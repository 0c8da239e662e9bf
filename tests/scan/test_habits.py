"""Habits from pandas, Polars, DuckDB and other Kafka clients: each error names what to use instead."""

from __future__ import annotations

import copy
import glob
import pickle

import numpy as np
import pytest

import kafkaframes
from kafkaframes.client import Consumer, Producer
from kafkaframes.errors import LogDirError, OptionError


@pytest.fixture
def log(tmp_path):
    """A log directory with two records."""
    with kafkaframes.Broker(data_dir=tmp_path / "kafka-logs") as broker:
        broker.append("orders", [{"key": b"42", "value": b"paid"}, {"key": b"43", "value": b"open"}])
    return tmp_path / "kafka-logs"


@pytest.mark.parametrize(
    ("habit", "hint"),
    [
        (lambda scan: scan.head(), "'Scan' object has no attribute 'head'; limit(5).to_pandas() reads the first rows"),
        (lambda scan: scan.filter("offset > 1"), r"where\(offset=, timestamp=, partition=, topic=\) selects rows"),
        (lambda scan: scan.collect(), r"to_pandas\(\), to_polars\(\) or to_arrow\(\) reads the rows"),
        (lambda scan: scan.df(), "to_pandas"),
        (lambda scan: scan.shape, "count()"),
        (lambda scan: scan.dtypes, "schema has the columns"),
        (lambda scan: scan.to_parquet("x"), "export"),
        (lambda scan: scan.to_nothing(), "'Scan' object has no attribute 'to_nothing'$"),
    ],
)
def test_a_dataframes_attribute_is_explained(log, habit, hint):
    with pytest.raises(AttributeError, match=hint.replace("()", r"\(\)").replace("(5)", r"\(5\)")):
        habit(kafkaframes.scan_log(log))


@pytest.mark.parametrize("item", ["value", ["offset", "value"], slice(5), 0])
def test_a_scan_is_not_subscriptable(log, item):
    with pytest.raises(TypeError, match=r"'Scan' object is not subscriptable: .*; select\(\) selects columns"):
        kafkaframes.scan_log(log)[item]


def test_arrays_of_a_scan_are_rejected(log):
    """``pandas.DataFrame(scan)`` had the batches as rows."""
    pandas = pytest.importorskip("pandas")
    scan = kafkaframes.scan_log(log)
    for read in (np.asarray, pandas.DataFrame):
        with pytest.raises(TypeError, match=r"a scan is not an array; to_pandas\(\)"):
            read(scan)


def test_hints_do_not_change_how_a_scan_works(log):
    scan = kafkaframes.scan_log(log).select("offset")
    assert copy.copy(scan) == copy.deepcopy(scan) == scan
    assert pickle.loads(pickle.dumps(scan)).count() == 2
    assert sum(batch.num_rows for batch in scan) == 2
    assert not hasattr(scan, "head")


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (
            lambda log: kafkaframes.scan_log(log).select(["offset", "value"]),
            r"expected names as arguments: select\('key'",
        ),
        (lambda log: kafkaframes.scan_log(log).limit("3"), "`limit` is '3'; expected a number of rows"),
        (lambda log: kafkaframes.scan_log(log, start="begining"), "or earliest, latest or an offset"),
        (lambda log: kafkaframes.scan_log(log, topics="users").count(), "no topic users: the logs contain orders"),
        (lambda log: kafkaframes.scan_topic(str(log), "orders"), r"is a directory; expected HOST:PORT \(scan_log"),
    ],
)
def test_wrong_arguments_of_a_scan_are_explained(log, read, message):
    with pytest.raises(OptionError, match=message):
        read(log)


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"partition": "0"}, "`partition` is '0'; expected a partition number or several"),
        ({"partition": ["0", 1]}, "expected a partition number or several"),
        ({"topic": "ord*"}, r"`topic` is 'ord\*'; expected names \(`topics` of scan_log"),
        ({"offset": (5, 2)}, r"`offset` is \(5, 2\); expected a range that does not end before its start"),
        ({"timestamp": ("2026-11-20", "2026-11-19")}, "that does not end before its start"),
    ],
)
def test_conditions_that_no_record_can_fulfil_are_rejected(log, conditions, message):
    """Previously, such conditions returned no rows and raised no error."""
    with pytest.raises(OptionError, match=message):
        kafkaframes.scan_log(log).where(**conditions)
    assert kafkaframes.scan_log(log).where(offset=(1, 1)).count() == 0


def test_an_address_or_a_tilde_in_place_of_a_path_is_explained():
    with pytest.raises(LogDirError, match="scan_topic and `kafkaframes consume` read topics of a broker"):
        kafkaframes.scan_log("localhost:9092").count()
    with pytest.raises(LogDirError, match="`~` is not expanded"):
        kafkaframes.scan_log("~/kafka-logs").count()


@pytest.mark.parametrize(
    "read",
    [
        kafkaframes.verify_log,
        kafkaframes.describe_log,
        kafkaframes.scan_log,
        kafkaframes.scan_capture,
        lambda paths: kafkaframes.grep_log(paths, "x"),
        lambda paths: kafkaframes.export_log(paths, "out"),
    ],
)
def test_no_path_is_an_error(read, tmp_path):
    """A ``glob`` without matches: ``verify_log([])`` was sound, and other functions returned nothing."""
    with pytest.raises(OptionError, match="`paths` is empty; expected files, directories, patterns or URLs"):
        read(glob.glob(f"{tmp_path}/*"))


def test_a_partition_without_batches_is_described(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").touch()
    assert str(kafkaframes.describe_log(tmp_path)) == "t-0: offsets 0 to 0, 1 segment, 0 bytes, no batches"


def test_methods_of_other_clients_are_explained(kafka_broker):
    with Producer(kafka_broker.bootstrap_servers) as producer:
        with pytest.raises(AttributeError, match=r"'Producer' object has no attribute 'produce'; send\(TOPIC"):
            producer.produce("orders", b"x")
        future = producer.send("orders", b"x")
        with pytest.raises(AttributeError, match=r"'RecordFuture' object has no attribute 'get'; result\(SECONDS\)"):
            future.get(10)
        assert future.result(30).offset == 0
        assert repr(producer) == f"<kafkaframes Producer 'kafkaframes' of {kafka_broker.bootstrap_servers}>"
    with (
        Consumer(kafka_broker.bootstrap_servers) as consumer,
        pytest.raises(AttributeError, match=r"'Consumer' object has no attribute 'consume'; poll\(MILLISECONDS\)"),
    ):
        consumer.consume(1)
