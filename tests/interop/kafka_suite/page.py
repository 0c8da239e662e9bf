"""``python -m tests.interop.kafka_suite.page`` writes docs/kafka-suite.md from the results of the last run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from tests.interop.kafka_suite.differences import classify, find_difference
from tests.interop.kafka_suite.suite import (
    FAILED,
    INSIDE_KAFKA,
    KAFKA_VERSION,
    NOT_RUN_STATUS,
    PASSED,
    ROOT,
    SKIPPED,
    TestResult,
)

RESULTS = Path(__file__).with_name("results.jsonl")
PAGE = ROOT / "docs" / "kafka-suite.md"
_HEAD = """# Kafka's own tests on the broker

Apache Kafka {kafka} publishes its tests. {classes} of its classes start a cluster (`@ClusterTest`) and test it with
clients, requests and tools. `make interop` runs them on the embedded broker. A class of kafkaframes
replaces the one that starts Kafka. The tests come unchanged from Maven Central.

| result | tests |
|---|---|
| passed | {passed} |
| failed: a difference that is listed below | {failed} |
| not possible: the test looks inside Kafka's process | {inside} |
| skipped by the suite, or the same test with combined nodes | {skipped} |

This page is written from the results of the last run, `tests/interop/kafka_suite/results.jsonl`.
"""


def read_results() -> list[TestResult]:
    """Return the results of the last run, sorted."""
    return sorted(TestResult(**json.loads(line)) for line in RESULTS.read_text(encoding="utf-8").splitlines())


def write_results(results: Iterable[TestResult]) -> None:
    """Replace the results of the classes in a run; those of other classes stay unchanged."""
    new = list(results)
    suites = {result.suite for result in new}
    old = [result for result in read_results() if result.suite not in suites] if RESULTS.exists() else []
    lines = [json.dumps(asdict(result)) for result in sorted([*old, *new])]
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def render_page(results: Iterable[TestResult]) -> str:
    """Return the page."""
    rows = sorted(classify(results))
    counts = Counter(row.status for row in rows)
    classes = len({row.suite for row in rows})
    numbers = {"passed": counts[PASSED], "failed": counts[FAILED], "inside": counts[INSIDE_KAFKA]}
    parts = [_HEAD.format(kafka=KAFKA_VERSION, classes=classes, skipped=counts[SKIPPED], **numbers)]
    parts.append(_failures(rows))
    parts.append(_classes(rows))
    return "\n".join(parts)


def _failures(rows: list[TestResult]) -> str:
    lines = ["## Differences", "", "| class | test | reason |", "|---|---|---|"]
    for row in rows:
        if row.status == FAILED:
            difference = find_difference(row)
            reason = "NOT NAMED" if difference is None else difference.reason
            lines.append(f"| {_short(row.suite)} | {row.test} | {reason} |")
    return "\n".join([*lines, ""])


def _classes(rows: list[TestResult]) -> str:
    lines = ["## Classes", "", "| class | passed | failed | inside Kafka | skipped |", "|---|---|---|---|---|"]
    for suite, group in groupby(rows, lambda row: row.suite):
        counts = Counter(row.status for row in group)
        cells = " | ".join(str(counts[status]) for status in (PASSED, FAILED, INSIDE_KAFKA, SKIPPED))
        if counts[NOT_RUN_STATUS]:
            cells = f"{NOT_RUN_STATUS} | | | "
        lines.append(f"| {_short(suite)} | {cells} |")
    return "\n".join([*lines, ""])


def _short(suite: str) -> str:
    return suite.rpartition(".")[2]


if __name__ == "__main__":
    PAGE.write_text(render_page(read_results()), encoding="utf-8")
