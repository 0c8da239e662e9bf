"""``analyze_records``, ``analyze_tag_headers``, ``measure_proposal``: the same numbers as the commands; invalid
paths.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.calling import ask, ask_or_raise

import kafkaframes
from kafkaframes.errors import OptionError

DATA = Path(__file__).parents[1] / "data"
EXAMPLE_LOG_DIR = DATA / "examples" / "kafka-4.3"
CAPTURE = DATA / "captures" / "raw-oldversions-broker39.pcap"


def rows_of(*arguments: str) -> list[dict]:
    return [json.loads(line) for line in ask(*arguments, "--json").stdout.splitlines()]


def test_the_sizes_of_records_are_those_of_the_command():
    result = kafkaframes.analyze_records([EXAMPLE_LOG_DIR, CAPTURE])
    assert result.to_dict()["sources"] == rows_of("analyze", "records", str(EXAMPLE_LOG_DIR), str(CAPTURE))
    assert set(result.report.sizes) == {"log", "produced", "fetched"}
    assert str(result).startswith("log: ")


def test_the_records_of_logs_are_selected_by_topic_and_partition():
    orders = kafkaframes.analyze_records(EXAMPLE_LOG_DIR, topics="orders").report.sizes["log"]
    first = kafkaframes.analyze_records(EXAMPLE_LOG_DIR, topics="orders", partitions=0).report.sizes["log"]
    every = kafkaframes.analyze_records(EXAMPLE_LOG_DIR).report.sizes["log"]
    assert 0 < first.records < orders.records < every.records
    scan = kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics="orders", partitions=0, isolation="read_uncommitted")
    assert first.records == scan.count()
    assert rows_of("analyze", "records", str(EXAMPLE_LOG_DIR), "-t", "orders", "-p", "0")[0]["records"] == first.records
    for keywords, message in (
        ({"paths": EXAMPLE_LOG_DIR, "topics": "order"}, "no topic order: did you mean orders"),
        ({"paths": CAPTURE, "topics": "orders"}, "`topics` and `partitions` select records of logs"),
    ):
        with pytest.raises(OptionError, match=message):
            kafkaframes.analyze_records(**keywords)
    with pytest.raises(OptionError, match="select records of logs"):
        ask_or_raise("analyze", "records", str(CAPTURE), "--topic", "orders")


def test_the_sizes_of_tag_headers_are_those_of_the_command():
    sizes = kafkaframes.analyze_tag_headers(messages=["MetadataResponse"], lengths=[1, 200], tags=[0])
    command = rows_of(
        "analyze", "tag-header", "--message", "MetadataResponse", "--length", "1", "--length", "200", "--tag", "0"
    )
    assert json.loads(json.dumps(list(sizes.rows()), default=bytes.hex)) == command
    with pytest.raises(OptionError, match="no version has tagged fields"):
        kafkaframes.analyze_tag_headers(messages=["SaslHandshakeRequest"])


def test_the_sizes_of_a_proposal_are_those_of_the_command(tmp_path):
    page = tmp_path / "proposal.html"
    result = kafkaframes.measure_proposal("kip-636", CAPTURE, by=["client"], to=page)
    assert json.loads(json.dumps(result.to_dict()["rows"])) == rows_of(
        "spec", "propose", "kip-636", str(CAPTURE), "--by", "client"
    )
    assert page.read_text().lower().startswith("<!doctype html")
    assert len(result.lines) > 0
    with pytest.raises(OptionError, match="`values`: proposal kip-636 does not add fields"):
        kafkaframes.measure_proposal("kip-636", values=["MetadataResponse.X=1"])
    with pytest.raises(OptionError, match=r"no such|does not exist"):
        kafkaframes.measure_proposal(tmp_path / "missing", CAPTURE)
