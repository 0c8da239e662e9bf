"""No command prints "1 records": for a log with one record, in the text of every command, and in the sources."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.client import Producer
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.storage.log.discover import discover

SOURCES = Path(kafkaframes.__file__).parent
NOUNS = (
    "records|topics|partitions|segments|files|batches|bytes|messages|packets|connections|lines|rows|transactions|errors|"
    "warnings|commits|entries|slices|findings|members|calls|clients|groups|offsets|notes|indexes|specs|brokers|copies"
)
ONE_WITH_PLURAL = re.compile(rf"(?<![\d.,:/-])1 ({NOUNS})\b")
COMMANDS = {
    "info": ["info", "LOG"],
    "info --deep": ["info", "LOG", "--deep"],
    "verify": ["verify", "LOG", "--deep"],
    "report": ["report", "LOG", "-o", "out.html"],
    "export": ["export", "LOG", "--to", "out"],
    "table": ["table", "LOG", "--to", "parquet", "out"],
    "table of Delta": ["table", "LOG", "--to", "delta", "out"],
    "table of JSON": ["table", "LOG", "--to", "parquet", "out", "--mode", "json"],
    "restore": ["restore", "LOG", "--to", "out"],
    "convert": ["convert", "LOG", "--record-format", "v1", "--to", "out"],
    "recompress": ["recompress", "LOG", "--codec", "zstd", "--to", "out"],
    "compact": ["compact", "LOG", "--to", "out", "--topic", "*"],
    "compact --prove-gone": ["compact", "LOG", "--prove-gone", "k"],
    "repair": ["repair", "LOG", "--to", "out"],
    "mirror": ["mirror", "--from", "LOG", "--to", "out"],
    "audit": ["audit", "LOG"],
    "analyze": ["analyze", "records", "LOG"],
    "spec lint": ["spec", "lint", "SPEC"],
}


def run(arguments):
    return CliRunner().invoke(cli, arguments)


@pytest.fixture(name="log")
def _log(tmp_path):
    directory = tmp_path / "log" / "t-0"
    directory.mkdir(parents=True)
    data = kafkaframes.build_records([{"key": b"k", "value": b'{"a":1}', "timestamp": 1_700_000_000_000}])
    (directory / f"{0:020}.log").write_bytes(data)
    (tmp_path / "GreetRequest.json").write_text(
        '{"apiKey": 999, "type": "request", "name": "GreetRequest", "listeners": ["broker"], "validVersions": "0", '
        '"flexibleVersions": "0+", "fields": []}'
    )
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("tail", [b"", b"\0"], ids=["whole", "one byte too many"])
def test_one_has_a_singular_noun(name, tail, log, monkeypatch):
    monkeypatch.chdir(log)
    (segment,) = (log / "log").rglob("*.log")
    segment.write_bytes(segment.read_bytes() + tail)
    names = {"LOG": "log", "SPEC": "GreetRequest.json"}
    result = run([names.get(word, word) for word in COMMANDS[name]])
    output = f"{result.output}{result.exception or ''}"
    assert output
    assert ONE_WITH_PLURAL.findall(output) == []


def test_one_dead_letter_has_a_singular_noun(log, monkeypatch):
    monkeypatch.chdir(log)
    (log / "schema.json").write_text('{"type": "object", "properties": {"a": {"type": "string"}}}')
    result = run(["table", "log", "--to", "parquet", "out", "--mode", "json", "--schema", "schema.json"])
    assert "1 record does not fit the schema" in result.output


def test_one_produced_record_has_a_singular_noun(log):
    with kafkaframes.Broker() as broker, Producer(broker.bootstrap_servers) as producer:
        producer.send("t", b"v").result()
        for arguments in (["consume", "t", "--exit-at-end"], ["topics", "describe", "t"], ["topics", "list"]):
            result = run([*arguments, "-b", broker.bootstrap_servers])
            assert ONE_WITH_PLURAL.findall(result.output) == []


def test_two_open_transactions_in_one_segment_are_counted(tmp_path):
    """Previously, the message counted segment files instead of open transactions."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    batches = b"".join(
        kafkaframes.build_records(
            [{"value": b"v", "offset": number}],
            transactional=True,
            producer_id=number,
            producer_epoch=0,
            base_sequence=0,
        )
        for number in range(2)
    )
    (directory / f"{0:020}.log").write_bytes(batches)
    report = verify(discover(str(tmp_path)))
    assert report.caveats == ("2 open transactions hide records from read_committed",)


def test_sources_write_counts_with_the_helper():
    """In an f-string, a count before a plural noun has to use ``count_text``."""
    pattern = re.compile(rf"\{{([^{{}}]*(?:len\(|count|:,)[^{{}}]*)\}} ({NOUNS})\b")
    lines = []
    for folder in ("cli", "capture", "scan", "jobs"):
        for path in sorted((SOURCES / folder).rglob("*.py")):
            if path.is_relative_to(SOURCES / "jobs" / "dump"):  # Kafka's words
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if "#" in line.split('"')[0] or "count_text(" in line:
                    continue
                if ":,.0f}" in line:  # a rate
                    continue
                lines += [f"{path.relative_to(SOURCES)}:{number}: {one[0]}" for one in pattern.finditer(line)]
    assert lines == []
