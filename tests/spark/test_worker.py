"""Spark's Python workers after a task of ours."""

import gc
import subprocess
import sys
import textwrap

import pyspark
import pytest
from tests.spark.truth import SHOP

from kafkaframes.spark.runtime.jobs import run_on_spark
from kafkaframes.spark.runtime.worker import freeze_imports


def frozen(_: int) -> int:
    return gc.get_freeze_count()


def test_what_is_there_is_left_out_of_collections_once():
    gc.unfreeze()
    freeze_imports.cache_clear()  # a test before this one may have settled this process
    try:
        freeze_imports()
        first = gc.get_freeze_count()
        more = [[] for _ in range(10_000)]
        freeze_imports()
        # what is frozen may go, by other threads as well; what came later has not been added
        assert 10_000 < gc.get_freeze_count() < first + 1_000
        assert len(more) == 10_000
    finally:
        gc.unfreeze()
        gc.collect()
        gc.freeze()  # as the suite has it: see conftest.py


def test_the_workers_of_a_session_settle_after_their_first_task(spark):
    for _ in range(3):  # a session has two workers, or few more
        counts = list(run_on_spark(spark, frozen, [0, 1]))
    assert any(counts)


@pytest.mark.skipif(tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2), reason="streams need Spark 4.2")
@pytest.mark.parametrize(
    ("name", "options"),
    [("log", {"path": str(SHOP)}), ("topic", {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "t"})],
)
def test_the_planner_of_a_stream_excludes_sparks_objects_from_collections_before_its_imports(name, options):
    code = f"""
        import gc, sys
        from pyspark.sql.types import LongType, StructField, StructType
        from pyspark_kafka_{name} import DefaultSource
        counts, freeze, module = [], gc.freeze, "kafkaframes.spark.sources.following_reader"
        gc.freeze = lambda: (counts.append(module in sys.modules), freeze())
        reader = DefaultSource({options!r}).streamReader(StructType([StructField("offset", LongType())]))
        print(counts, gc.get_freeze_count() > 10_000)
        {"reader.stop()" if name == "topic" else ""}
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert process.stdout.strip() == "[False] True"
