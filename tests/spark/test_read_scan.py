"""A scan as a Spark DataFrame: the same rows for any selection; slices in tasks."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
from tests.spark.truth import EXAMPLE_LOG_DIR

import kafkaframes
from kafkaframes.spark import read
from kafkaframes.spark.dataframes.scan_tasks import convert_batch, create_slice_reader, to_spark_schema


def test_a_task_reads_the_given_slices():
    scan = kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics="orders").select(
        "offset", "timestamp", "codec", "headers", "delete_horizon"
    )
    plan = scan.plan()
    schema = to_spark_schema(plan.schema)
    assert [str(field.type) for field in schema][:3] == ["int64", "timestamp[us, tz=UTC]", "string"]
    expected_batches = [convert_batch(batch, schema) for batch in scan.to_batches()]
    for limit in (None, 5):
        rows = pa.record_batch({"slice": [pickle.dumps(replace(plan, limit=limit))]})
        read_rows = pa.Table.from_batches(create_slice_reader(schema)([rows]), schema)
        assert read_rows == pa.Table.from_batches(expected_batches, schema).slice(0, limit)


def test_a_scan_is_a_dataframe(spark):
    scan = kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics="orders")
    frame = read(scan.where(partition=0, offset=(10, None)).select("partition", "offset", "timestamp", "value"), spark)
    assert frame.columns == ["partition", "offset", "timestamp", "value"]
    expected_count = scan.where(partition=0, offset=(10, None)).count()
    assert frame.selectExpr("count(*)", "min(offset)").first() == (expected_count, 10)
    limited_rows = read(scan.limit(7).select("partition", "offset"), spark).collect()
    assert [tuple(row) for row in limited_rows] == [
        tuple(row.values()) for row in scan.limit(7).select("partition", "offset").to_arrow().to_pylist()
    ]
