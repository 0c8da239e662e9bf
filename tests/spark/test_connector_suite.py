"""``kafka-topic`` has the behaviours in the suites of Spark's connector; their page agrees with the rows and the
last run.
"""

import pyspark
import pytest
from tests.spark.connector_suite import DIFFERS, EQUAL, OURS, PAGE, PLAYED, ROWS, Run, name_of, page_of, play_row


def test_the_page_is_written_from_the_rows_and_the_last_run():
    assert PAGE.read_text() == page_of(Run.read()), "python -m tests.spark.connector_suite"


def test_the_last_run_next_to_the_connector_had_every_row():
    assert Run.read().rows == [name_of(row) for row in PLAYED]


def test_each_row_has_a_check_or_a_remark():
    assert [row for row in ROWS if not row.why and (row.check is None or row.verdict != EQUAL)] == []
    assert [row for row in PLAYED if row.verdict == DIFFERS and row.connector == row.expected] == []


@pytest.mark.spark
@pytest.mark.skipif(tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2), reason="streams need Spark 4.2")
@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=name_of(row), marks=[pytest.mark.deep] if row.is_deep else []) for row in PLAYED],
)
def test_a_behaviour_in_the_connectors_suites(row, spark, servers):
    assert play_row(row, spark, OURS, servers) == row.expected
