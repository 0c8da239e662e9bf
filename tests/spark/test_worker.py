"""Spark's Python workers after a task of ours."""

import gc

from kafkaframes.spark.runtime.jobs import run_on_spark
from kafkaframes.spark.runtime.worker import settle


def frozen(_: int) -> int:
    return gc.get_freeze_count()


def test_what_is_there_is_left_out_of_collections_once():
    gc.unfreeze()
    settle.cache_clear()  # a test before this one may have settled this process
    try:
        settle()
        first = gc.get_freeze_count()
        more = [[] for _ in range(10_000)]
        settle()
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
