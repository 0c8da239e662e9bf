"""The builder: options as methods, a new value at each step, a new load at each action."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.spark import truth
from tests.spark.truth import EXAMPLE_LOG_DIR

from kafkaframes.errors import OptionError
from kafkaframes.spark import read_log


def test_each_step_is_a_new_value():
    orders = read_log(None, EXAMPLE_LOG_DIR).topics("orders")
    narrow = orders.columns("offset").headers().read_committed().option("minPartitions", 3)
    assert orders.options == {"subscribe": "orders"}
    assert narrow.options == {
        "subscribe": "orders",
        "columns": "offset",
        "includeHeaders": "true",
        "isolation": "read_committed",
        "minPartitions": "3",
    }
    both = read_log(None, EXAMPLE_LOG_DIR).partitions("orders", 0, 2).partitions("payments", 1)
    assert both.options == {"assign": '{"orders": [0, 2], "payments": [1]}'}
    assert read_log(None, EXAMPLE_LOG_DIR).segments().options != read_log(None, EXAMPLE_LOG_DIR).batches().options


@pytest.mark.parametrize(
    "instant",
    [
        1_000,
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        datetime(1970, 1, 1, 2, 0, 1, tzinfo=timezone(timedelta(hours=2))),
        datetime(1970, 1, 1, 0, 0, 1),  # without a time zone it is UTC, as in a scan
        "1970-01-01T02:00:01+02:00",
        "1970-01-01T00:00:01",
    ],
)
def test_times_are_instants(instant):
    query = read_log(None, EXAMPLE_LOG_DIR).between(instant, instant)
    assert (query.options["startingTimestamp"], query.options["endingTimestamp"]) == ("1000", "1000")


def test_a_text_that_is_not_a_time_is_rejected():
    with pytest.raises(OptionError, match="'yesterday' is not a time"):
        read_log(None, EXAMPLE_LOG_DIR).between("yesterday")


def test_a_plan_describes_the_read():
    whole = read_log(None, EXAMPLE_LOG_DIR).topics("orders").plan(cores=2)
    assert (
        whole.bytes_to_read == whole.log_bytes == sum(p.stat().st_size for p in EXAMPLE_LOG_DIR.glob("orders-*/*.log"))
    )
    few = read_log(None, EXAMPLE_LOG_DIR).partitions("orders", 0).offsets({"orders": {0: 5}}, {"orders": {0: 6}}).plan()
    assert (few.segment_count, few.tasks) == (1, 1)
    assert 0 < few.bytes_to_read < few.log_bytes / 10
    with pytest.raises(OptionError, match="supports only plan"):
        read_log(None, EXAMPLE_LOG_DIR).load()


@pytest.mark.spark
def test_queries_of_one_builder_are_independent(spark):
    orders = read_log(spark, EXAMPLE_LOG_DIR).partitions("orders", 0).columns("offset")
    first = orders.offsets(end={"orders": {0: 10}}).load()
    last = orders.offsets(start={"orders": {0: 1990}}).load()
    assert (first.count(), last.count(), first.union(last).count()) == (10, 10, 20)
    times = sorted(row[2] for row in truth.rows_of(EXAMPLE_LOG_DIR, "orders") if row[0] == 0)
    middle = times[1000]
    counts = [orders.between(end=middle).load().count(), orders.between(middle).load().count()]
    assert sum(counts) == 2000
    assert read_log(spark, EXAMPLE_LOG_DIR).topics("orders").segments().load().count() == len(
        list(EXAMPLE_LOG_DIR.glob("orders-*/*.log"))
    )
