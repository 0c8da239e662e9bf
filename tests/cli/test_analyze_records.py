"""``kafkaframes analyze records``: the table, captures, and inputs that hold no records."""

import gzip
import json
from pathlib import Path

from click.testing import CliRunner

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.errors import LogDirError, OptionError

DATA = Path(__file__).parents[1] / "data"


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
