"""The function ``kafkaframes.export_log``, without a JVM. ``tests/test_functions.py`` compares it with the command."""

import pyarrow.parquet as pq
import pytest
from tests.spark.truth import EXAMPLE_LOG_DIR, rows_of

import kafkaframes
from kafkaframes.errors import OptionError


def test_topics_offsets_and_keys_are_selected(tmp_path):
    export_result = kafkaframes.export_log(EXAMPLE_LOG_DIR, tmp_path / "out", topics=["orders"], start=100, end=110)
    truth = [row for row in rows_of(EXAMPLE_LOG_DIR, "orders") if 100 <= row[1] < 110]
    assert export_result.report.summary.records == len(truth) == export_result.to_dict()["records"]
    key = next(row["key"] for file in (tmp_path / "out").rglob("*.parquet") for row in pq.read_table(file).to_pylist())
    planned_result = kafkaframes.export_log(
        EXAMPLE_LOG_DIR, tmp_path / "planned", topics=["orders"], start=100, end=110
    )
    assert planned_result.report.summary.topics == export_result.report.summary.topics
    late = sorted(row[2] for row in rows_of(EXAMPLE_LOG_DIR, "orders"))[-10]
    of_time = kafkaframes.export_log(EXAMPLE_LOG_DIR, tmp_path / "late", topics=["orders"], timestamp=(late, None))
    assert of_time.report.summary.records == sum(row[2] >= late for row in rows_of(EXAMPLE_LOG_DIR, "orders"))
    one = kafkaframes.export_log(EXAMPLE_LOG_DIR, tmp_path / "key", topics=["orders"], keys=[key], headers=False)
    tables = [pq.ParquetFile(file).read() for file in (tmp_path / "key").rglob("*.parquet")]
    assert {row["key"] for table in tables for row in table.to_pylist()} == {key}
    assert "headers" not in tables[0].column_names
    assert one.report.summary.records == sum(map(len, tables))


def test_options_of_the_read_are_checked_before_anything_is_written(tmp_path):
    for export_options, reason in (
        ({"topics": ["x"]}, "topic x does not exist"),
        ({"topics": ["orders"], "partitions": [7]}, "no selected topic has the partition 7"),
        ({"topics": ["orders"], "partitions": [0], "start": {}}, "`start` requires an offset for orders-0"),
    ):
        with pytest.raises(OptionError, match=reason):
            kafkaframes.export_log(EXAMPLE_LOG_DIR, tmp_path / "out", **export_options)
    assert not (tmp_path / "out").exists()
