"""Columns with the field names of a release, next to the current names."""

import json
from pathlib import Path

import pytest

import kafkaframes
from kafkaframes.errors import OptionError
from kafkaframes.spark.options import parse_capture_options

DATA = Path(__file__).parents[1] / "data"
CAPTURE = DATA / "captures" / "mangled-loss.pcapng.zst"
LOG = DATA / "request-logs" / "broker-3.9.1-trace-old-clients.log.gz"


@pytest.mark.parametrize("source", [CAPTURE, LOG])
def test_the_names_of_a_release_are_next_to_the_current_ones(source):
    table = kafkaframes.read_capture(source, names_of="2.6").read_all()
    assert [name for name in table.column_names if name.startswith("re") and "S" not in name and "T" not in name] == [
        *("requestHeader", "request", "requestNamed"),
        *("responseHeader", "response", "responseNamed", "records"),
    ]
    rows = [row for row in table.to_pylist() if row["apiName"] == "Fetch" and row["request"] and row["response"]]
    assert rows
    for row in rows:
        now, then = (json.loads(row[name]) for name in ("request", "requestNamed"))
        assert then["maxWait"] == now["maxWaitMs"]
        assert len(then) == len(now)
        assert [one.get("name") for one in then["topics"]] == [one.get("topic") for one in now["topics"]]
        assert "topics" in json.loads(row["responseNamed"])
    others = [row for row in table.to_pylist() if row["apiName"] == "Metadata"]
    assert all(row["requestNamed"] == row["request"] for row in others)


def test_names_in_typed_tables_and_as_a_spark_option():
    alone = kafkaframes.read_capture(CAPTURE, columns=("requestNamed",), names_of="2.6").read_all()
    both = kafkaframes.read_capture(CAPTURE, names_of="2.6").read_all()
    assert alone.column(0) == both.column("requestNamed")
    rows = kafkaframes.read_capture(CAPTURE, api="Fetch", names_of="2.6").read_all()
    assert {json.loads(text)["maxWait"] for text in rows.column("requestNamed").to_pylist() if text} == {
        row["maxWaitMs"] for row in rows.column("request").to_pylist() if row
    }
    assert parse_capture_options({"path": "x", "namesOf": "2.8"}).read.names_of == "2.8"


def test_names_require_a_known_release():
    rows = kafkaframes.read_capture(CAPTURE, columns=("requestNamed",)).read_all()
    assert rows.column(0).null_count == len(rows) > 0
    with pytest.raises(OptionError, match=r"unknown release '9\.9'"):
        kafkaframes.read_capture(CAPTURE, names_of="9.9")
