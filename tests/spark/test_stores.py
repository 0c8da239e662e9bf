"""Logs in an object store: S3's protocol with a server on loopback, and failing stores."""

import json

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.scan.log.test_resolve import read_log_rows
from tests.spark.truth import EXAMPLE_LOG_DIR

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.storage.files import filesystem

ORDERS = EXAMPLE_LOG_DIR / "orders-0"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(filesystem, "RETRY_DELAYS_SECONDS", (0.0, 0.0, 0.0))


def comparable(rows):
    return [(row["partition"], row["offset"], row["value"]) for row in rows]


def test_rows_from_s3_equal_those_from_disk(s3):
    start = json.dumps({"orders": {"0": 55, "1": -2, "2": 1000}})
    for store_options in ({}, {"startingOffsets": start}, {"minPartitions": "7"}):
        got = read_log_rows("s3://backup/logs", "partition", "offset", "value", **s3, **store_options)
        assert comparable(got) == comparable(
            read_log_rows(EXAMPLE_LOG_DIR, "partition", "offset", "value", subscribe="orders", **store_options)
        )
    assert len(read_log_rows("s3://backup/logs/orders-*", table="segments", **s3)) == len(
        list(EXAMPLE_LOG_DIR.glob("orders-*/*.log"))
    )


@pytest.mark.spark
def test_spark_reads_s3_and_file_urls(spark, s3):
    reader = spark.read.format("kafka-log").option("columns", "offset")
    assert reader.options(**s3).load("s3://backup/logs/orders-0").count() == 2000
    assert reader.load(f"file://{ORDERS}").count() == 2000


class Flaky(MemoryFileSystem):
    """A file system whose reads after ``SOUND_BYTES`` fail: ``failures`` times, or always."""

    protocol = "flaky"
    cachable = False
    failures = 0
    short = False

    @classmethod
    def _strip_protocol(cls, path):
        return MemoryFileSystem._strip_protocol(path.replace("flaky://", "memory://"))

    def cat_file(self, path, start=None, end=None, **more):
        if path.endswith(".log") and start and start > 20_000:
            if Flaky.short:
                return super().cat_file(path, start, end - 100)
            if Flaky.failures:
                Flaky.failures -= 1
                raise ConnectionResetError("connection reset by peer")
        return super().cat_file(path, start, end, **more)


@pytest.fixture
def flaky(monkeypatch):
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    monkeypatch.setattr("kafkaframes.storage.log.open_segment.MIN_STORE_READ_BYTES", 16_000)
    monkeypatch.setattr("kafkaframes.scan.log.reading.TARGET_BATCH_BYTES", 16_000)
    monkeypatch.setattr(Flaky, "failures", 0)
    monkeypatch.setattr(Flaky, "short", False)
    store = Flaky()
    for file in ORDERS.iterdir():
        store.pipe_file(f"/logs/orders-0/{file.name}", file.read_bytes())
    yield "flaky://logs/orders-0"
    store.rm("/logs", recursive=True)


def test_a_store_with_transient_failures_loses_no_row(flaky):
    Flaky.failures = 3
    assert [row["offset"] for row in read_log_rows(flaky, "offset")] == list(range(2000))
    assert Flaky.failures == 0


def test_a_store_that_fails_in_the_middle_is_an_error_that_names_the_file(flaky):
    Flaky.failures = 10**9
    with pytest.raises(LogDirError, match=r"ConnectionResetError: connection reset by peer \(at flaky://.*\.log"):
        read_log_rows(flaky, "offset")


def test_a_store_that_returns_too_few_bytes_is_an_error_in_every_mode(flaky):
    Flaky.short = True
    for mode in ("PERMISSIVE", "DROPMALFORMED", "FAILFAST"):
        with pytest.raises(LogDirError, match=r"the store returned \d+ of \d+ bytes \(at flaky://.*\.log, byte \d+\)"):
            read_log_rows(flaky, "offset", mode=mode)


def test_wrong_credentials_are_reported_without_showing_them():
    with pytest.raises(OptionError) as error_info:
        read_log_rows("s3://backup", **{"fs.s3a.path.style.access": "sesame"})
    assert "sesame" not in str(error_info.value)
