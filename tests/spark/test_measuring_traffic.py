"""Traffic measured with ``--spark``: the same in Spark's workers as in one process, for any number of shares."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaframes.jobs.analyze.outcome import merge_outcomes
from kafkaframes.jobs.analyze.proposals import ProposalSettings
from kafkaframes.jobs.analyze.size_comparison import ComparisonTask, run_comparison_task
from kafkaframes.jobs.analyze.traffic import TrafficTask, measure_records
from kafkaframes.spark.runtime.jobs import run_on_spark

DATA = Path(__file__).parent.parent / "data"
FILES = (
    str(DATA / "captures" / "share-groups-broker43.pcap.zst"),
    str(DATA / "request-logs" / "broker-4.3.1-trace.log.gz"),
)


@pytest.mark.spark
def test_shares_measured_by_workers_add_up(spark):
    tasks = [TrafficTask(FILES, share, 2) for share in range(2)]
    sizes_by_part = {}
    for answer in run_on_spark(spark, measure_records, tasks):
        for what, sizes in answer.items():
            sizes_by_part.setdefault(what, sizes) is sizes or sizes_by_part[what].merge(sizes)
    assert sizes_by_part == measure_records(TrafficTask(FILES))


@pytest.mark.spark
@pytest.mark.parametrize("name", ["kip-636", "tag-header"])
def test_shares_weighed_by_workers_add_up(spark, name):
    settings = ProposalSettings(name, by=("client",))
    work = [ComparisonTask(TrafficTask(FILES, share, 2), settings) for share in range(2)]
    whole = run_comparison_task(ComparisonTask(TrafficTask(FILES), settings))
    assert len(whole.totals_by_group) > 40
    assert merge_outcomes(run_on_spark(spark, run_comparison_task, work)) == whole
