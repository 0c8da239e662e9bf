"""Spark's Python workers after a task of this package."""

import gc
import subprocess
import sys
import textwrap

import pyspark
import pytest
from tests.spark.truth import EXAMPLE_LOG_DIR

from kafkaframes.spark.runtime.jobs import run_on_spark
from kafkaframes.spark.runtime.worker import freeze_imports


def frozen(_: int) -> int:
    return gc.get_freeze_count()


def test_existing_objects_are_excluded_from_garbage_collection_once():
    gc.unfreeze()
    freeze_imports.cache_clear()  # an earlier test may have frozen this process
    try:
        freeze_imports()
        first = gc.get_freeze_count()
        more = [[] for _ in range(10_000)]
        freeze_imports()
        # Frozen objects may be freed, also by other threads; later objects have not been added.
        assert 10_000 < gc.get_freeze_count() < first + 1_000
        assert len(more) == 10_000
    finally:
        gc.unfreeze()
        gc.collect()
        gc.freeze()  # as in the suite: see conftest.py


def test_workers_of_a_session_freeze_objects_after_their_first_task(spark):
    for _ in range(3):  # a session has two workers, or a few more
        counts = list(run_on_spark(spark, frozen, [0, 1]))
    assert any(counts)


@pytest.mark.skipif(tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2), reason="streams need Spark 4.2")
@pytest.mark.parametrize(
    ("name", "options"),
    [("log", {"path": str(EXAMPLE_LOG_DIR)}), ("topic", {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "t"})],
)
def test_the_planner_of_a_stream_freezes_sparks_objects_before_its_imports(name, options):
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
