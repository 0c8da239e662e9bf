"""Recorded traffic: every call of the reference, for any window and any number of shares."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.agreement.kind import compare_case
from tests.agreement.kinds import captures

from kafkaframes.capture.columns import CALLS_TABLE_COLUMNS, TABLE_COLUMNS
from kafkaframes.capture.reader import CaptureOptions, read_capture
from kafkaframes.errors import DecodeError, OptionError

DATA = Path(__file__).parent.parent / "data" / "captures"
# these columns need names_of
ALL_COLUMNS = tuple(column.name for column in CALLS_TABLE_COLUMNS if not column.name.endswith("Named"))
CASES = {case.name: case for case in captures.cases(DATA)}


def rows(path, **options):
    return read_capture([str(one) for one in path] if isinstance(path, list) else str(path), CaptureOptions(**options))


def table(path, **options):
    return rows(path, **options).read_all()


def of(case):
    return Path(CASES[case].payload[2][0])


@pytest.mark.parametrize("name", CASES)
def test_calls_equal_those_of_the_brokers_request_log(name):
    assert compare_case((captures.KIND, CASES[name]))[2] == []


@pytest.mark.parametrize(
    ("name", "window_bytes"),
    [*((name, 20_000) for name in CASES), ("share-groups-broker43", 700), ("mangled-loss", 700)],
)
def test_a_small_window_gives_the_same_calls(name, window_bytes):
    whole = table(of(name), columns=ALL_COLUMNS, secrets=True).to_pylist()
    window_rows = table(of(name), columns=ALL_COLUMNS, secrets=True, window_bytes=window_bytes).to_pylist()
    assert sorted(map(str, window_rows)) == sorted(map(str, whole))


@pytest.mark.parametrize("name", ["share-groups-broker43", "mangled-loss"])
def test_shares_of_the_connections_add_up(name):
    shared_rows = [row for share in range(3) for row in table(of(name), share=share, shares=3).to_pylist()]
    assert sorted(map(str, shared_rows)) == sorted(map(str, table(of(name)).to_pylist()))


@pytest.mark.parametrize("name", TABLE_COLUMNS)
def test_every_table_can_be_read_with_one_column(name):
    whole = table(of("share-groups-broker43"), table=name)
    column = whole.schema.names[-1]
    assert table(of("share-groups-broker43"), table=name, columns=(column,)).column(0).equals(whole.column(column))


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir() if ".pcap" in path.name))
def test_the_gap_count_of_a_connection_is_its_number_of_gap_rows(name):
    """The count includes gaps at the end of a capture: partial frames, and bytes without a recognisable frame."""
    connections = read_capture(str(DATA / name), CaptureOptions(table="connections")).read_all()
    gaps = read_capture(str(DATA / name), CaptureOptions(table="gaps")).read_all()
    assert sum(connections["gaps"].to_pylist()) == len(gaps) - gaps.column("connection").null_count


def test_a_changed_reference_is_detected(tmp_path):
    name = "share-groups-broker43"
    for path in DATA.glob(f"{name}.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    truth = tmp_path / f"{name}.truth.jsonl.gz"
    lines = [json.loads(line) for line in gzip.decompress(truth.read_bytes()).splitlines()]
    changes = [
        lambda line: line.update(correlation_id=line["correlation_id"] + 1),
        lambda line: line.update(client_id="somebody else"),
        lambda line: line.update(software_version="0"),
        lambda line: line["wire"].update(request_size=line["wire"]["request_size"] + 1),
        lambda line: line["wire"].update(response_offset=line["wire"]["response_offset"] + 1),
        lambda line: line["wire"].update(response_missing=True),
        lambda line: line["errors"].append({"path": "errorCode", "code": 7}),
        lambda line: line["error_fields"].update(codes=99),
        lambda line: line.update(request={"poison": 1}),
    ]
    for change in changes:
        poisoned_lines = json.loads(json.dumps(lines))
        change(poisoned_lines[4])
        truth.write_bytes(gzip.compress(b"\n".join(json.dumps(line).encode() for line in poisoned_lines)))
        (case,) = captures.cases(tmp_path)
        assert compare_case((captures.KIND, case))[2], change
    truth.write_bytes(gzip.compress(b"\n".join(json.dumps(line).encode() for line in lines[1:])))
    assert any("not in the reference" in line for line in compare_case((captures.KIND, case))[2])


def test_secrets_are_shown_only_on_request():
    token = "alice-secret"
    path = of("sasl-raw-tokens-broker39")
    assert token not in str(table(path, columns=ALL_COLUMNS).to_pylist())
    assert "User:alice" in {row["principal"] for row in table(path).to_pylist()}


def test_a_file_that_is_not_a_capture_is_rejected_by_name(tmp_path):
    for content, words in [
        (b"", "an empty file"),
        (b"GET / HTTP/1.1\r\n" * 4, "neither pcap nor pcapng"),
        (b"snoop\0\0\0" + bytes(99), "snoop"),
    ]:
        path = tmp_path / "x.pcap"
        path.write_bytes(content)
        with pytest.raises(DecodeError, match=words) as caught:
            table(path)
        assert str(path) in str(caught.value)


def test_unknown_paths_tables_and_columns_are_rejected():
    with pytest.raises(OptionError, match="no such file or directory"):
        table("/nowhere/at.pcap")
    with pytest.raises(OptionError, match="unknown table"):
        table(of("share-groups-broker43"), table="nonsense")
    with pytest.raises(OptionError, match="no column 'nonsense'"):
        table(of("share-groups-broker43"), columns=("nonsense",))
