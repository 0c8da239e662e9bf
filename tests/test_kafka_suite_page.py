"""docs/kafka-suite.md is generated from the results of the last run, in which each failure has a reason."""

from tests.interop.kafka_suite import page
from tests.interop.kafka_suite.differences import DIFFERENCES, classify, find_difference
from tests.interop.kafka_suite.suite import FAILED, INSIDE_KAFKA, INSIDE_MARK, PASSED, read_reports

JUNIT_REPORT = f"""<testsuite>
<testcase name="testA()[1]" classname="kafka.X"/>
<testcase name="testB(Cluster)[2]" classname="kafka.X"><skipped>no</skipped></testcase>
<testcase name="testC()" classname="kafka.X"><failure type="E">E: expected 1
 at x</failure></testcase>
<testcase name="testD()" classname="kafka.X"><error type="E">E: failed
Caused by: {INSIDE_MARK}Broker.logs()
 at x</error></testcase>
</testsuite>"""


def test_the_page_is_made_from_the_results():
    assert page.PAGE.read_text() == page.render_page(page.read_results()), (
        "run python -m tests.interop.kafka_suite.page"
    )


def test_failures_and_reasons_match():
    results = page.read_results()
    failures = [result for result in results if result.status == FAILED]
    assert [result for result in failures if find_difference(result) is None] == []
    assert set(DIFFERENCES) == {find_difference(result) for result in failures}


def test_junit_reports_are_read(tmp_path):
    (tmp_path / "TEST-junit-jupiter.xml").write_text(JUNIT_REPORT)
    results = [(result.test, result.status, result.message) for result in read_reports(tmp_path)]
    assert results == [
        ("testA[1]", PASSED, ""),
        ("testB[2]", "skipped", ""),
        ("testC", FAILED, "E: expected 1"),
        ("testD", INSIDE_KAFKA, "Broker.logs()"),
    ]
    assert [result.status for result in classify(read_reports(tmp_path))].count(FAILED) == 1
