"""produce, consume, topics, groups and configs beside the embedded broker."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafkaframes.broker import Broker
from kafkaframes.cli.main import cli
from kafkaframes.client import Consumer
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
    assert (row["group"], row["topic"], row["partition"]) == ("watchers", "watched", 1)
    assert (row["committed"], row["log_end_offset"], row["lag"], row["consumer_id"]) == (1, 3, 2, None)
    assert run("consume watched -g watchers -c 2").output == "b\nc\n"
    assert "retention.ms  1000" in run("configs show topic watched").output
    run("configs set topic watched retention.ms= cleanup.policy=compact")
    assert json.loads(run("configs show topic watched --json").output)[0]["value"] == "compact"
    assert [one["log_end_offset"] for one in json.loads(run("topics describe watched --json").output)] == [0, 3]
    run("topics delete watched --yes")
    assert "watched" not in run("topics list").output


def test_resets_as_kafka_consumer_groups_has_them(run, tmp_path):
    run("topics create moved --partitions 2")
    for number in range(2):
        run(f"produce moved -p {number}", stdin=b"".join(b"%d\n" % one for one in range(10)))

    def at(*options: str) -> list[int]:
        run("groups reset mover", *options)
        rows = json.loads(run("groups describe mover --json").output)
        return [row["committed"] for row in rows]

    assert at("--topic", "moved", "--to-latest") == [10, 10]
    assert at("--topic", "moved:1", "--shift-by", "-3") == [10, 7]
    assert at("--all-topics", "--shift-by", "99") == [10, 10]
    assert at("--topic", "moved", "--to-offset", "4") == [4, 4]
    assert at("--topic", "moved:0", "--to-datetime", "2020-01-01") == [0, 4]
    assert at("--topic", "moved:0", "--to-datetime", "2999-01-01") == [10, 4]
    exported = run("groups reset mover --all-topics --to-current --export").output
    assert exported == '"mover","moved",0,10\n"mover","moved",1,4\n'
    assert at("--all-topics", "--to-earliest") == [0, 0]
    said = run("groups reset mover --all-topics --to-latest --dry-run").output
    assert "mover: moved-0 would be at 10" in said
    assert at("moved:0=1") == [1, 0]
    (tmp_path / "offsets.csv").write_text(exported)
    assert at("--from-file", str(tmp_path / "offsets.csv")) == [10, 4]
    run("groups delete-offsets mover moved:1")
    assert [
        row["partition"] for row in json.loads(run("groups describe --json").output) if row["group"] == "mover"
    ] == [0]
    assert json.loads(run("groups describe mover --state --json").output)[0]["members"] == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_who_reads_what(run, servers, protocol):
    run(f"topics create read-{protocol} --partitions 2")
    settings = {"group_id": f"readers-{protocol}", "group_protocol": protocol, "client_id": "me"}
    with Consumer(servers, **settings) as consumer:
        consumer.subscribe(f"read-{protocol}")
        consumer.poll(1_000)
        rows = json.loads(run(f"groups describe readers-{protocol} --json").output)
        assert [(row["partition"], row["client_id"]) for row in rows] == [(0, "me"), (1, "me")]
        (member,) = json.loads(run(f"groups describe readers-{protocol} --members --json").output)
        assert member["partitions"] == 2


def test_topics_grow_and_lose_records(run):
    run("topics create grown --partitions 1")
    run("produce grown", stdin=b"a\nb\nc\n")
    run("topics alter grown --partitions 3")
    run("topics delete-records grown:0=2 --yes")
    rows = json.loads(run("topics describe grown --json").output)
    assert [(row["log_start_offset"], row["log_end_offset"]) for row in rows] == [(2, 3), (0, 0), (0, 0)]
    assert json.loads(run("topics offsets grown --time earliest --json").output)[0]["offset"] == 2
    assert json.loads(run("topics offsets grown --time 2999-01-01 --json").output)[0]["offset"] == -1
    assert "grown-0 begins at 3" in run("topics delete-records grown:0=latest --yes").output


@pytest.mark.parametrize(
    ("command", "stdin", "error", "reason"),
    [
        ("consume nothere -e", None, BrokerError, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("produce t -K :", b"no key\n", OptionError, "line 1 has no ':'"),
        ("produce t --format jsonl", b"{]\n", OptionError, "line 1 is no record"),
        ("produce t --format jsonl", b'{"value": "?"}\n', OptionError, "line 1 is no record"),
        ("produce t --format parquet", None, OptionError, "name it"),
        ("produce t -X linger.mss=1", b"", OptionError, "did you mean linger_ms"),
        ("groups reset g --to-earliest", None, OptionError, "of which topics"),
        ("groups reset g --all-topics", None, OptionError, "one way is wanted"),
        ("groups reset g", None, OptionError, "nothing to reset"),
        ("topics delete-records t:0=x --yes", None, OptionError, "an offset or latest"),
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
