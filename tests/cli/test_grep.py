"""``kafkaframes grep``: the same records as a search in plain Python, for any pattern; and growing logs."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.errors import OptionError
from kafkaframes.jobs.dump.names import SEARCHED_FIELDS
from kafkaframes.jobs.dump.search import Pattern, select_matching_rows

EXAMPLE_LOG_DIR = Path(__file__).parents[1] / "data" / "examples" / "kafka-4.3"
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
blobs = st.one_of(st.none(), st.binary(max_size=6), st.sampled_from([b"abc", b"xabcx", b"ABC", b"ab", b"c"]))


def ask(*arguments):
    return CliRunner().invoke(cli, ["grep", *map(str, arguments)])


@given(
    rows=st.lists(
        st.tuples(blobs, blobs, st.lists(st.tuples(st.sampled_from(["abc", "h", "a"]), blobs), max_size=2)), max_size=8
    ),
    text=st.sampled_from(["abc", "a", "ab.", "^a", "c$", "b+c", "", "B"]),
    ignores_case=st.booleans(),
    places=st.sets(st.sampled_from(SEARCHED_FIELDS), min_size=1),
    skip=st.integers(0, 3),
)
def test_rows_equal_those_of_a_search_in_plain_python(rows, text, ignores_case, places, skip):
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([key for key, _, _ in rows], pa.binary()),
            "value": pa.array([value for _, value, _ in rows], pa.binary()),
            "headers": pa.array([[{"key": k, "value": v} for k, v in headers] for _, _, headers in rows], HEADERS),
            "row": pa.array(range(len(rows)), pa.int32()),
        }
    ).slice(min(skip, len(rows)))
    pattern = re.compile(text.encode(), re.IGNORECASE if ignores_case else 0)

    def has(row):
        key, value, headers = row
        searched_parts = ([key] if "key" in places else []) + ([value] if "value" in places else [])
        searched_parts += [part for k, v in headers for part in (k.encode(), v)] if "headers" in places else []
        return any(part is not None and pattern.search(part) for part in searched_parts)

    matching_rows = (
        select_matching_rows(batch, Pattern.from_text(text, ignores_case=ignores_case), places)
        .column("row")
        .to_pylist()
    )
    assert matching_rows == [number for number, row in enumerate(rows) if number >= skip and has(row)]


def test_a_search_in_a_log_equals_a_search_in_its_records():
    records = kafkaframes.read_records(EXAMPLE_LOG_DIR, control_records=False).read_all().to_pylist()
    expected_records = [
        row for row in records if re.search(rb"order-1\d", (row["key"] or b"") + b"\0" + (row["value"] or b""))
    ]
    result = ask(r"order-1\d", EXAMPLE_LOG_DIR, "--in", "key", "--in", "value", "--json")
    printed_records = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == (0 if expected_records else 1)
    assert [(record["topic"], record["partition"], record["offset"]) for record in printed_records] == [
        (row["topic"], row["partition"], row["offset"]) for row in expected_records
    ]
    assert [record["value"] for record in printed_records] == [
        None if row["value"] is None else base64.b64encode(row["value"]).decode() for row in expected_records
    ]
    assert (
        ask(r"order-1\d", EXAMPLE_LOG_DIR, "--in", "key", "--in", "value", "--count").stdout
        == f"{len(expected_records)}\n"
    )


@pytest.fixture
def log(tmp_path):
    (tmp_path / "t-0").mkdir()
    rows = [
        {"key": b"k%d" % n, "value": b"v\x1b%d" % n, "timestamp": 1_700_000_000_000 + n, "offset": n} for n in range(20)
    ]
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(kafkaframes.build_records(rows))
    return tmp_path


def test_lines_are_printable_and_limits_are_applied(log):
    result = ask("k1", log, "-m", "2")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        r"t-0@1 2023-11-14 22:13:20 k1 v\x1b1",
        r"t-0@10 2023-11-14 22:13:20 k10 v\x1b10",
    ]
    assert ask("k1", log, "--start", "11", "--end", "13", "--count").stdout == "2\n"
    assert ask("k", log, "--start", "2023-11-14T22:13:20.018Z", "--count").stdout == "2\n"
    assert ask("k", log, "--partition", "1").exit_code == 1
    assert ask("K1", log).exit_code == 1
    assert ask("K1", log, "-i", "--count").stdout == "11\n"


def test_errors_and_damage_are_reported(log):
    with pytest.raises(OptionError, match="not a regular expression"):
        Pattern.from_text("(")
    path = log / "t-0" / f"{0:020}.log"
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)
    result = ask("k1", log)
    assert result.exit_code == 2
    assert "CRC" in result.stderr


def test_a_growing_log_is_followed(log):
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkaframes", "grep", "k1", str(log), "--follow"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        assert [process.stdout.readline().split()[0] for _ in range(11)] == [
            "t-0@1",
            *(f"t-0@{n}" for n in range(10, 20)),
        ]
        more = kafkaframes.build_records([{"key": b"k1 new", "value": b"v"}], base_offset=20)
        with (log / "t-0" / f"{0:020}.log").open("ab") as file:
            file.write(more[:30])
            file.flush()
            time.sleep(1.2)
            file.write(more[30:])
        assert process.stdout.readline().startswith("t-0@20 ")
        (log / "u-0").mkdir()
        (log / "u-0" / f"{0:020}.log").write_bytes(kafkaframes.build_records([{"key": b"k1"}]))
        assert process.stdout.readline().startswith("u-0@0 ")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
