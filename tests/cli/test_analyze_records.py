"""``kafkaframes analyze records``: the table, captures, and inputs that hold no records."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from click.testing import CliRunner
from tests.capture.conversation import CLIENT, START_NS, frame_of

import kafkaframes
from kafkaframes.capture.container import ConversationWriter, build_file_header
from kafkaframes.cli.main import cli
from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.protocol.messages.headers import encode_request
from kafkaframes.protocol.messages.objects import class_of
from kafkaframes.protocol.spec import Versions, catalog
from kafkaframes.protocol.spec.emit import to_text

DATA = Path(__file__).parents[1] / "data"


def test_the_command_prints_the_table(tmp_path):
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(kafkaframes.build_records({"value": [b"v" * 100] * 200}, batch_records=100))
    result = CliRunner().invoke(cli, ["analyze", "records", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "200 records in 2 batches: format 2 saves" in result.output
    report = json.loads(CliRunner().invoke(cli, ["analyze", "records", "--json", str(path)]).output)
    assert report["sizes"]["batch header"] == [0, 0, 122]
    assert report["totals"][0] == 200 * 126


def test_records_of_a_version_in_own_specs_are_analyzed(tmp_path):
    spec = catalog.load_spec("ProduceRequest")
    new = spec.valid_versions.highest + 1
    own = replace(spec, struct=replace(spec.struct, versions=Versions(new, new)))
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "ProduceRequest.json").write_text(to_text(own))
    request = class_of(own)
    row = request.PartitionProduceData(index=0, records=kafkaframes.build_records({"value": [b"v"] * 7}))
    topic = request.TopicProduceData(topic_id=UUID(int=7), partition_data=[row])
    sent_frame = encode_request(request(acks=1, topic_data=[topic]), new, correlation_id=1, client_id="me")
    talk = ConversationWriter(("10.0.0.1", 50000), ("10.0.0.2", 9092))
    packets = [
        build_file_header("test"),
        talk.build_handshake(START_NS),
        *talk.build_data_packets(CLIENT, frame_of(sent_frame), START_NS),
    ]
    (tmp_path / "own.pcapng").write_bytes(b"".join(packets))
    arguments = ["analyze", "records", "--json", str(tmp_path / "own.pcapng")]
    for more, count in ((["--specs", str(tmp_path / "specs")], 7), ([], 0)):
        result = CliRunner().invoke(cli, [*arguments, *more])
        assert json.loads(result.stdout.splitlines()[0])["records"] == count
    assert "--specs only applies to captures" in str(
        CliRunner().invoke(cli, ["analyze", "records", str(tmp_path / "specs"), "--specs", str(tmp_path)]).exception
    )


def test_records_of_a_capture_equal_the_counts_of_its_calls():
    """Produced and fetched records apart; their number equals that in the table of calls of the same capture."""
    from kafkaframes.capture.reader import CaptureBatches, CaptureOptions

    for name, status in (("share-groups-broker43.pcap.zst", 0), ("mangled-loss.pcapng.zst", 1)):
        path = str(DATA / "captures" / name)
        result = CliRunner().invoke(cli, ["analyze", "records", "--json", path])
        assert result.exit_code == status, result.output
        rows_by_source = {row["source"]: row for row in map(json.loads, result.stdout.splitlines())}
        counts = {"produced": 0, "fetched": 0}
        for batch in CaptureBatches([path], CaptureOptions(table="records", columns=("apiName",))):
            for api in batch.column("apiName").to_pylist():
                counts["produced" if api == "Produce" else "fetched"] += 1
        # A control batch is left out; it has one record.
        assert {source: row["records"] + row["left_out"] for source, row in rows_by_source.items()} == counts
        assert min(counts.values()) > 100
        for row in rows_by_source.values():
            assert row["totals"][2] < row["totals"][0] < row["totals"][1]
    both = CliRunner().invoke(cli, ["analyze", "records", path])
    assert "Records produced:" in both.output
    assert "Records fetched:" in both.output


def test_a_file_that_is_not_a_capture_is_rejected_by_name(tmp_path):
    log = DATA / "request-logs" / "broker-4.3.1-trace.log.gz"
    result = CliRunner().invoke(cli, ["analyze", "records", str(log)])
    assert isinstance(result.exception, OptionError)
    assert "a request log has no records" in str(result.exception)
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
    assert "--ports only applies to captures" in str(ports.exception)
