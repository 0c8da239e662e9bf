"""An export whose tasks run on Spark."""

import shutil

import pytest
from tests.cli.export_calls import files
from tests.spark.truth import SHOP

from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.export import run
from kafkaframes.jobs.export.run import export
from kafkaframes.jobs.export.task import Settings


@pytest.mark.spark
def test_spark_writes_the_same_and_reads_it_back(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "GROUP_BYTES", 200_000)
    from kafkaframes.jobs.export.planning import plan_export
    from kafkaframes.spark.jobs import runner
    from kafkaframes.spark.log_options import log_options

    tasks = plan_export(log_options({"path": str(SHOP), "subscribe": "orders,payments"})).tasks
    outcome = export(tasks, Settings(str(tmp_path / "spark")), run=runner(spark))
    assert (outcome.summary.records, len(outcome.failed)) == (7_183, 0)
    export(tasks, Settings(str(tmp_path / "here")))
    assert files(tmp_path / "spark") == files(tmp_path / "here")
    names = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    exported = spark.read.parquet(str(tmp_path / "spark")).select(*names)
    direct = (
        spark.read.format("kafka-log")
        .options(includeHeaders="true", subscribe="orders,payments")
        .load(str(SHOP))
        .select(*names)
    )
    order = ("topic", "partition", "offset")
    assert exported.sort(*order).toArrow() == direct.sort(*order).toArrow()


@pytest.mark.spark
def test_a_failure_on_spark_is_one_line(spark, tmp_path):
    from kafkaframes.jobs.export.planning import plan_export
    from kafkaframes.spark.jobs import runner
    from kafkaframes.spark.log_options import log_options

    tasks = plan_export(log_options({"path": str(SHOP), "subscribe": "orders"})).tasks
    to = tmp_path / "out"

    def broken(function, jobs):
        shutil.rmtree(to / "_kafkaframes" / "tmp")
        return runner(spark)(function, jobs)

    with pytest.raises(KafkaframesError, match=r"`to` .*/out: cannot be written: [^\n]*$"):
        export(tasks, Settings(str(to)), run=broken)
    assert not (to / "_SUCCESS").exists()
