"""What ``kafkaframes analyze ... --spark`` measures: the same in Spark's workers as in one process, in any shares."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaframes.jobs.analyze.flexible_cost import measure_flexible, measure_tag_sections
from kafkaframes.jobs.analyze.kip_636 import Costs
from kafkaframes.jobs.analyze.record_cost import measure_records
from kafkaframes.jobs.analyze.wire_cost import Task, measure_kip_636
from kafkaframes.spark.jobs import run_on_spark

DATA = Path(__file__).parent.parent / "data"
FILES = (
    str(DATA / "captures" / "share-groups-broker43.pcap.zst"),
    str(DATA / "request-logs" / "broker-4.3.1-trace.log.gz"),
)


def summed(function, answers):
    if function is measure_kip_636:
        costs = Costs()
        for answer in answers:
            costs.merge(answer)
        return costs.groups
    found = {}
    for answer in answers:
        for group, counts in answer.items() if isinstance(answer, dict) else answer:
            if group not in found:
                found[group] = counts
            else:
                getattr(found[group], "merge", getattr(found[group], "add", None))(counts)
    return found


@pytest.mark.spark
@pytest.mark.parametrize("function", [measure_kip_636, measure_flexible, measure_tag_sections, measure_records])
def test_shares_measured_by_workers_are_the_whole(spark, function):
    tasks = [Task(FILES, share, 2) for share in range(2)]
    plain = summed(function, [function(Task(FILES))])
    assert plain
    assert summed(function, run_on_spark(spark, function, tasks)) == plain
