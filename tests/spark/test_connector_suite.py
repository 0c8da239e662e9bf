"""``kafka-topic`` does what the suites of Spark's connector check, and the page about them is what the rows say."""

import pyspark
import pytest
from tests.spark.connector_suite import EQUAL, PAGE, ROWS, Play, page

PLAYED = [row for row in ROWS if row.check]


def test_the_page_is_written_from_the_rows():
    assert PAGE.read_text() == page(), "python -m tests.spark.connector_suite"
    assert all(row.why for row in ROWS if row.verdict != EQUAL)


@pytest.mark.spark
@pytest.mark.skipif(tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2), reason="streams need Spark 4.2")
@pytest.mark.parametrize("row", PLAYED, ids=lambda row: row.check.__name__.strip("_"))
def test_a_behaviour_of_the_connectors_suites(row, spark, servers):
    assert row.check(Play(spark, "kafka-topic", servers)) == row.expected
