"""``kafkaframes spec propose``: tables, JSON, a mix, a page; named proposals and folders of specs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.calling import ask

from kafkaframes.errors import OptionError

DATA = Path(__file__).parents[1] / "data"
CAPTURE = str(DATA / "captures" / "share-groups-broker43.pcap.zst")
LOG = str(DATA / "request-logs" / "broker-4.3.1-trace.log.gz")


def test_kip_636_is_measured_by_client():
    text = ask("spec", "propose", "kip-636", CAPTURE, "--by", "client").output
    assert "Metadata 13 response" in text
    assert "Persister-client-1" in text
    assert "79 sizes compared with the recorded bytes, 0 differ" in text


def test_the_missing_sizes_of_a_request_log_are_reported():
    text = ask("spec", "propose", "kip-636", LOG).output
    assert "0 sizes compared with the recorded bytes" in text
    assert "not raised: 2 messages\n  2 x field nodeId" in text


def test_json_has_a_row_for_each_group():
    rows = [json.loads(line) for line in ask("spec", "propose", "tag-header", CAPTURE, "--json").output.splitlines()]
    assert {row["kind"] for row in rows} == {"interleaved", "typed"}
    assert all(row["wireMismatched"] == 0 for row in rows)
    assert sum(row["counts"]["sections"] for row in rows) > 500


def test_a_folder_of_specs_is_measured_with_a_mix_and_a_page(tmp_path):
    """The specs of KIP-636 have versions that are one higher, so the newest current versions are compared."""
    new, page, mix = tmp_path / "new", tmp_path / "page.html", tmp_path / "mix.csv"
    ask("spec", "rewrite", "kip-636", "--to", str(new))
    mix.write_text("api,version,calls_per_second\nHeartbeat,4,1000\n")
    text = ask("spec", "propose", str(new), CAPTURE, "--scale", str(mix), "-o", str(page)).output
    assert "AddOffsetsToTxnResponse 4 -> 5:\n  changed ErrorCode: now tag 0" in text
    assert "... and more: 185 messages change" in text
    assert "Messages that change:" in text
    assert "172,800,000" in text  # two bytes for each of a thousand calls per second, per day
    html = page.read_text()
    assert html.startswith("<!doctype html>")
    for title in ("What changes in the specs", "Whom it breaks", "Messages that change", "A mix of calls"):
        assert title in html
    assert "default-changed" in html or "default" in html


def test_without_traffic_the_specs_are_compared():
    text = ask("spec", "propose", "kip-636").output
    assert "FetchResponse 18 -> 19:" in text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere", CAPTURE], "no such file or directory"),
        (["kip-636", CAPTURE, "--value", "A.B=1"], "kip-636 does not add fields"),
        (["kip-636", CAPTURE, "--ports", "x"], "must be port numbers"),
        (["kip-636", CAPTURE, "--scale", "nowhere.csv"], "--scale: no such file or directory (at nowhere.csv)"),
    ],
)
def test_invalid_proposals_are_rejected(arguments, reason):
    error = ask("spec", "propose", *arguments).exception
    assert isinstance(error, OptionError)
    assert reason in str(error)


@pytest.mark.parametrize("arguments", [(CAPTURE,), ("--scale", CAPTURE)])
def test_ports_that_are_not_numbers_are_rejected(arguments):
    result = ask("spec", "propose", "kip-636", *arguments, "--ports", "abc")
    assert isinstance(result.exception, OptionError)
    assert str(result.exception) == "--ports abc: must be port numbers and ranges, such as 9092,9094-9096"


def test_flexible_prints_the_lengths_of_arrays_strings_and_bytes(tmp_path):
    """KIP-482: "these objects are usually small ... most arrays do not have more than 100 elements"."""
    page = tmp_path / "page.html"
    result = ask("spec", "propose", "flexible", CAPTURE, "-o", str(page))
    (arrays,) = [line.split() for line in result.output.splitlines() if line.startswith("arrays ")]
    assert arrays == ["arrays", "333", "7", "100.00", "%", "100.00", "%", "1", "6", "75", "100"]
    assert "One-byte length" in page.read_text()
    assert "one-byte length" not in ask("spec", "propose", "tag-header", CAPTURE).output


def test_lengths_are_kept_by_group_and_summed_over_groups():
    rows = [json.loads(line) for line in ask("spec", "propose", "flexible", LOG, "--json").output.splitlines()]
    metadata = next(row for row in rows if (row["api"], row["direction"]) == ("Metadata", "response"))
    arrays = metadata["lengths"][0]
    assert arrays["kind"] == "arrays"
    assert arrays["count"] >= arrays["one_byte"] >= arrays["hundred"] > 0
    kinds = {kind["kind"] for row in rows for kind in row.get("lengths", [])}
    assert kinds == {"arrays", "strings", "bytes", "records"}
