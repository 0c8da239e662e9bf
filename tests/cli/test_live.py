"""produce, consume, topics, groups and configs beside the embedded broker."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafkaframes.broker import Broker
from kafkaframes.cli.main import cli
from kafkaframes.errors import BrokerError, OptionError


@pytest.fixture(scope="module")
def servers():
    with Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def run(servers):
    def call(command: str, *arguments: str, stdin: bytes | None = None):
        result = CliRunner().invoke(cli, [*command.split(), "-b", servers, *arguments], input=stdin)
        if result.exception is not None:
            print(result.output)
            raise result.exception
        return result

    return call


def test_lines_in_and_out_in_kcats_format(run):
    run("topics create lines --partitions 1")
    run("produce lines -K : -H h=1 -z lz4", stdin=b"a:first\nb:second\n:third\n")
    out = run("consume lines -e", "-f", r"%t/%p@%o %k(%K)=%s %h\n").output
    assert out == "lines/0@0 a(1)=first h=1\nlines/0@1 b(1)=second h=1\nlines/0@2 (0)=third h=1\n"
    assert run("consume lines -e -o -1").output == "third\n"
    assert run("consume lines -c 2").output == "first\nsecond\n"


def test_json_lines_are_what_they_were(run):
    run("topics create from to")
    run("produce from", stdin=b"\xff\x00bytes\nmore\n")
    lines = run("consume from -e --format jsonl").stdout_bytes
    run("produce to --format jsonl", stdin=lines)
    drop = ("topic", "offset", "partition")
    first, second = (
        sorted(json.dumps({key: value for key, value in json.loads(line).items() if key not in drop}) for line in got)
        for got in (lines.splitlines(), run("consume to -e --format jsonl").stdout_bytes.splitlines())
    )
    assert first == second
    assert len(first) == 2


def test_a_parquet_file(run, tmp_path):
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"key": ["a", "b"], "value": ["1", "2"], "other": [1, 2]}), file)
    run("produce rows", str(file), "--format", "parquet")
    assert sorted(run("consume rows -e").output.split()) == ["1", "2"]


def test_groups_and_settings(run):
    run("topics create watched --partitions 2 --config retention.ms=1000")
    run("produce watched -p 1", stdin=b"a\nb\nc\n")
    run("groups reset watchers watched:1=1")
    (row,) = json.loads(run("groups describe watchers --json").output)
    assert row == {"topic": "watched", "partition": 1, "committed": 1, "log_end_offset": 3, "lag": 2}
    assert run("consume watched -g watchers -c 2").output == "b\nc\n"
    assert "retention.ms  1000" in run("configs show topic watched").output
    run("configs set topic watched retention.ms= cleanup.policy=compact")
    assert json.loads(run("configs show topic watched --json").output)[0]["value"] == "compact"
    assert [one["log_end_offset"] for one in json.loads(run("topics describe watched --json").output)] == [0, 3]
    run("topics delete watched --yes")
    assert "watched" not in run("topics list").output


@pytest.mark.parametrize(
    ("command", "stdin", "error", "reason"),
    [
        ("consume nothere -e", None, BrokerError, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("produce t -K :", b"no key\n", OptionError, "line 1 has no ':'"),
        ("produce t --format jsonl", b"{]\n", OptionError, "line 1 is no record"),
        ("produce t --format jsonl", b'{"value": "?"}\n', OptionError, "line 1 is no record"),
        ("produce t --format parquet", None, OptionError, "name it"),
        ("produce t -X linger.mss=1", b"", OptionError, "did you mean linger_ms"),
        ("groups reset g t=1", None, OptionError, "TOPIC:PARTITION"),
        ("consume t -e -f %q", None, OptionError, "unknown '%q'"),
    ],
)
def test_mistakes_are_one_line(run, command, stdin, error, reason):
    with pytest.raises(error, match=reason):
        run(command, stdin=stdin)


def test_records_in_the_format_of_old_clients(run):
    run("produce old --record-format 0", stdin=b"one\n")
    assert run("consume old -e", "-f", r"%T %s\n").output == "-1 one\n"
