"""A mix of calls, from measured traffic and from examples."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.capture.own_specs import write_specs, write_traffic

from kafkaframes.errors import OptionError
from kafkaframes.jobs.analyze.outcome import SizeComparison
from kafkaframes.jobs.analyze.proposals import MessageForm, ProposalSettings
from kafkaframes.jobs.analyze.scale import (
    EXAMPLE_RATE,
    MEASURED_RATE,
    CallRate,
    make_example_messages,
    measure_mix,
    read_mix,
    scale_outcome,
)
from kafkaframes.jobs.analyze.size_comparison import ComparisonTask, run_comparison_task
from kafkaframes.jobs.analyze.traffic import TrafficTask
from kafkaframes.protocol.messages.registry import specs_by_name
from kafkaframes.protocol.spec import catalog

CAPTURE = str(Path(__file__).parents[2] / "data" / "captures" / "share-groups-broker43.pcap.zst")
KIP_636 = ProposalSettings("kip-636")


def test_a_csv_file_of_rates_is_read(tmp_path):
    (tmp_path / "mix.csv").write_text("api,version,calls_per_second\nHeartbeat,4,1000\nfetch,,2.5\n")
    rates = read_mix(str(tmp_path / "mix.csv"))
    assert rates == [CallRate(12, 4, 1000.0), CallRate(1, catalog.find_api(1).versions.highest, 2.5)]
    heartbeat = next(scale_outcome(SizeComparison(), rates, KIP_636))
    assert (heartbeat.before, heartbeat.after, heartbeat.saved_bytes_per_s, heartbeat.basis) == (
        7000,
        5000,
        2000,
        EXAMPLE_RATE,
    )


def test_an_api_of_the_callers_specs_can_be_in_a_mix(tmp_path):
    folder = write_specs(tmp_path / "specs", greet=300)
    trace = write_traffic(tmp_path / "own.pcapng", folder)
    (tmp_path / "mix.csv").write_text("api,version,calls_per_second\nGreet,1,10\n")
    settings = ProposalSettings("tag-header", before=specs_by_name(folder))
    assert read_mix(str(tmp_path / "mix.csv"), settings.apis) == [CallRate(300, 1, 10.0)]
    assert [rate[:2] for rate in measure_mix([trace], apis=settings.apis)] == [(12, 4), (12, 5), (300, 0), (300, 1)]
    rows = list(scale_outcome(SizeComparison(), [CallRate(300, 1, 10.0)], settings))
    assert {(row.direction, row.kind) for row in rows} == {
        (direction, kind) for direction in ("request", "response") for kind in ("interleaved", "typed")
    }


@pytest.mark.parametrize("text", ["", "api,version\nFetch,1\n", "api,version,calls_per_second\nFetch,999,1\n"])
def test_an_invalid_mix_is_rejected(tmp_path, text):
    (tmp_path / "mix.csv").write_text(text)
    with pytest.raises(OptionError, match="`scale`"):
        read_mix(str(tmp_path / "mix.csv"))


def test_traffic_scaled_by_its_own_mix_has_its_own_bytes():
    outcome = run_comparison_task(ComparisonTask(TrafficTask((CAPTURE,)), KIP_636))
    rates = measure_mix([CAPTURE])
    rows = list(scale_outcome(outcome, rates, KIP_636))
    assert {row.basis for row in rows} == {MEASURED_RATE}
    total = outcome.sum_totals_by(kind="flexible")[()]
    assert sum(row.saved_bytes_per_s for row in rows) == pytest.approx(total.saved_bytes / outcome.duration_s, rel=0.01)


def test_examples_can_be_read():
    for api in list(catalog.list_apis())[::5]:
        for direction, name in (("request", api.request), ("response", api.response)):
            spec = catalog.load_spec(name)
            for version in {spec.valid_versions.lowest, spec.valid_versions.highest}:
                messages = make_example_messages(MessageForm(spec, version, KIP_636.header_spec(direction)), direction)
                assert messages.frames.field("_error").null_count == 1, (name, version)
