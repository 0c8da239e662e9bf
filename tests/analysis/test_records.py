"""The sizes of records in three formats are those of the bytes that are written in them."""

import gzip
import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.records import mutations

import kafkaframes
from kafkaframes.analysis.records import RecordSizes
from kafkaframes.cli.main import cli
from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.records.scan import as_array, scan_all

DATA = Path(__file__).parents[1] / "data"


def rows(seed, *, headers=True):
    choose = random.Random(seed)
    count = choose.choice((1, 5, 200))
    columns = {
        "key": [mutations.some_bytes(choose) for _ in range(count)],
        "value": [mutations.some_bytes(choose) for _ in range(count)],
        "timestamp": [choose.choice((1000, 1063, 1064, 9000, 10**12)) for _ in range(count)],
    }
    if headers:
        columns["headers"] = [choose.choice(([], [("a", b"1"), ("trace", None)])) for _ in range(count)]
    return columns


def measured(data):
    sizes = RecordSizes()
    sizes.add(as_array(data), scan_all(as_array(data)))
    return sizes


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("seed", range(6))
def test_all_fields_together_are_the_bytes(seed, codec):
    columns = rows(seed)
    sizes = measured(kafkaframes.build_records(columns, codec=codec, batch_records=50))
    assert sizes.totals[2] == len(kafkaframes.build_records(columns, batch_records=50, batch_bytes=1 << 24))
    without = {name: column for name, column in columns.items() if name != "headers"}
    for record_format in (0, 1):
        assert sizes.totals[record_format] == len(kafkaframes.build_records(without, record_format=record_format))
    assert sizes.records == len(columns["key"])


def test_what_cannot_be_measured_is_left_out():
    old = kafkaframes.build_records({"value": [b"v"]}, record_format=1)
    damaged = mutations.batch_v2(b"\x7f", count=1)
    appended = kafkaframes.build_records({"value": [b"v"], "timestamp": [5]}, timestamp_type="LogAppendTime")
    sizes = measured(old + damaged + appended + kafkaframes.build_records({"value": [b"v"]}))
    assert (sizes.batches, sizes.records, sizes.left_out) == (1, 1, 3)


def test_the_command_prints_the_table(tmp_path):
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(kafkaframes.build_records({"value": [b"v" * 100] * 200}, batch_records=100))
    result = CliRunner().invoke(cli, ["analyze", "records", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "200 records in 2 batches: format 2 saves" in result.output
    found = json.loads(CliRunner().invoke(cli, ["analyze", "records", "--json", str(path)]).output)
    assert found["sizes"]["batch header"] == [0, 0, 122]
    assert found["totals"][0] == 200 * 126


def test_records_of_a_capture_are_those_that_calls_count():
    """Produced and fetched apart; how many there are is what the table of calls says of the same capture."""
    from kafkaframes.capture.reader import CaptureBatches, CaptureOptions

    for name in ("share-groups-broker43.pcap.zst", "mangled-loss.pcapng.zst"):
        path = str(DATA / "captures" / name)
        result = CliRunner().invoke(cli, ["analyze", "records", "--json", path])
        assert result.exit_code == 0, result.output
        found = {row["source"]: row for row in map(json.loads, result.output.splitlines())}
        counted = {"produced": 0, "fetched": 0}
        for batch in CaptureBatches([path], CaptureOptions(table="records", columns=("apiName",))):
            for api in batch.column("apiName").to_pylist():
                counted["produced" if api == "Produce" else "fetched"] += 1
        # A control batch is left out; it has one record.
        assert {source: row["records"] + row["left_out"] for source, row in found.items()} == counted
        assert min(counted.values()) > 100
        for row in found.values():
            assert row["totals"][2] < row["totals"][0] < row["totals"][1]
    both = CliRunner().invoke(cli, ["analyze", "records", path])
    assert "Records produced:" in both.output
    assert "Records fetched:" in both.output


def test_what_is_no_capture_is_refused_by_name(tmp_path):
    log = DATA / "request-logs" / "broker-4.3.1-trace.log.gz"
    found = CliRunner().invoke(cli, ["analyze", "records", str(log)])
    assert isinstance(found.exception, OptionError)
    assert "a request log has no records" in str(found.exception)
    plain = tmp_path / "requests.log"
    plain.write_bytes(gzip.decompress(log.read_bytes()))
    assert isinstance(CliRunner().invoke(cli, ["analyze", "records", str(plain)]).exception, OptionError)
    other = tmp_path / "saved.log"
    other.write_bytes(kafkaframes.build_records({"value": [b"v"] * 3}))
    assert isinstance(CliRunner().invoke(cli, ["analyze", "records", str(other)]).exception, LogDirError)
    segment = tmp_path / "t-0" / f"{0:020}.log"
    segment.parent.mkdir()
    segment.write_bytes(other.read_bytes())
    ports = CliRunner().invoke(cli, ["analyze", "records", "--ports", "9092", str(segment)])
    assert "--ports is for captures" in str(ports.exception)
