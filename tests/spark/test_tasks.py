"""A ``kafka-log`` task in a worker; without a JVM."""

import pickle
from importlib import import_module

import pytest
from tests.spark.truth import EXAMPLE_LOG_DIR

pytest.importorskip("pyspark")
from pyspark.sql.datasource import InputPartition

from kafkaframes.scan.columns import choose_columns
from kafkaframes.scan.log.resolve import plan_log
from kafkaframes.spark.options import parse_log_options
from kafkaframes.spark.sources import tasks
from kafkaframes.spark.sources.tasks import read_table


@pytest.mark.parametrize("table", ["records", "batches", "segments"])
def test_each_table_is_read_by_its_own_reader_after_pickling(table, monkeypatch):
    monkeypatch.setattr(tasks, "freeze_imports", lambda: None)  # it would freeze the objects of all tests
    options = parse_log_options({"path": str(EXAMPLE_LOG_DIR / "orders-0"), "table": table})
    columns = choose_columns(None, table=options.table)
    works = [pickle.loads(pickle.dumps(InputPartition(work))).value for work in plan_log(options, cores=1).works]
    rows = sum(batch.num_rows for work in works for batch in read_table(work, columns, options))
    module, function = tasks._READER_FUNCTIONS[table]
    reader = getattr(import_module(module), function)
    assert rows == sum(batch.num_rows for work in works for batch in reader(work, columns, options)) > 0
