"""``export`` as people call it: in processes, on Spark, killed half-way; and ``verify`` on Spark."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.spark.truth import LOGS, SHOP, rows_of

import kafkaframes
from kafkaframes.cli import export as cli_export
from kafkaframes.cli import verify as cli_verify
from kafkaframes.cli.main import cli
from kafkaframes.dump.verify import verify
from kafkaframes.errors import KafkaframesError
from kafkaframes.export import run
from kafkaframes.export.run import export
from kafkaframes.export.settings import Settings
from kafkaframes.log.discover import discover


def ask(*arguments):
    return CliRunner().invoke(cli, ["export", *map(str, arguments)])


def files(to):
    """Return every visible file with its content: rows, in their order."""
    return {str(path.relative_to(to)): pq.ParquetFile(path).read() for path in Path(to).glob("topic=*/*/*")}


def test_export_in_processes_is_kafkas_truth(tmp_path):
    result = ask(LOGS, "--to", tmp_path / "out", "--workers", "2", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["records"], told["complete"]) == (17_418, True)
    assert "__consumer_offsets" in told["internal_topics"]
    for topic in ("orders", "payments"):
        truth = [(partition, offset, stamp) for partition, offset, stamp, *_ in rows_of(SHOP, topic)]
        found = []
        for path in (tmp_path / "out" / f"topic={topic}").glob("*/*.parquet"):
            partition = int(path.parent.name.removeprefix("partition="))
            rows = pq.ParquetFile(path).read(["offset", "timestamp"]).to_pylist()
            found += [(partition, row["offset"], round(row["timestamp"].timestamp() * 1000)) for row in rows]
        assert sorted(found) == sorted(truth)
    assert "26 were done before" in ask(LOGS, "--to", tmp_path / "out").output


def test_filters_and_options(tmp_path):
    result = ask(
        SHOP, "--to", tmp_path / "out", "--topic", "orders", "--format", "csv", "--from-offset", "100",
        "--until-offset", "110", "-o", "includeHeaders=false",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    listed = sorted((tmp_path / "out" / "topic=orders").glob("*/*.csv"))
    lines = [line for path in listed for line in path.read_text().splitlines()]
    assert sum(line.startswith('"key","value","offset","timestamp","timestampType"') for line in lines) == len(listed)
    truth = [row for row in rows_of(SHOP, "orders") if 100 <= row[1] < 110]
    assert len(lines) - len(listed) == len(truth) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/no/such/place", "--to", "{tmp}/out"], "no such file"),
        ([SHOP, "--to", "{tmp}/out", "--topic", "order"], "no topic order"),
        ([SHOP, "--to", "{tmp}/out", "-o", "columns=key"], "-o columns: an export takes"),
        ([SHOP, "--to", "{tmp}/out", "-o", "mode"], "NAME=VALUE"),
        ([SHOP, "--to", "s3://bucket/out"], "a directory is wanted"),
        ([SHOP, "--to", "{tmp}/out", "--from-time", "soon"], "no time"),
        ([SHOP, "--to", "{tmp}"], "holds other files"),
    ],
)
def test_mistakes_are_told(arguments, message, tmp_path):
    (tmp_path / "precious").write_text("")
    result = ask(*[str(argument).format(tmp=tmp_path) for argument in arguments])
    assert isinstance(result.exception, KafkaframesError)
    assert message in str(result.exception)


def damaged_log(tmp_path):
    log = tmp_path / "log" / "t-0"
    log.mkdir(parents=True)
    raw = bytearray(kafkaframes.build_records([{"value": b"v" * 40}] * 10, batch_records=5))
    raw[8 + 4 + int.from_bytes(raw[8:12], "big") + 22] = 7
    (log / f"{0:020}.log").write_bytes(raw)
    (log / f"{10:020}.log").write_bytes(kafkaframes.build_records([{"value": b"w"}] * 10, base_offset=10))
    return log.parent


def test_damage_is_an_exit_status(tmp_path):
    result = ask(damaged_log(tmp_path), "--to", tmp_path / "out")
    assert result.exit_code == 1
    assert "the codec's number is unknown to Kafka" in result.stderr
    assert "15 records" in result.stdout
    assert (tmp_path / "out" / "_SUCCESS").exists()
    result = ask(damaged_log(tmp_path / "b"), "--to", tmp_path / "strict", "-o", "mode=FAILFAST")
    assert result.exit_code == 1
    assert "not exported: the codec's number" in result.stderr
    assert "1 segments are missing" in result.stdout
    assert not (tmp_path / "strict" / "_SUCCESS").exists()


@pytest.fixture(scope="module")
def big_log(tmp_path_factory):
    """Sixteen segments of 8 MB or so."""
    log = tmp_path_factory.mktemp("big") / "t-0"
    log.mkdir()
    raw = kafkaframes.build_records([{"value": os.urandom(1000)} for _ in range(500)])
    for number in range(16):
        (log / f"{number:020}.log").write_bytes(raw * 16)
    return log


def _children(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def _is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_export_that_is_killed_shows_nothing_partial_and_goes_on(big_log, tmp_path):
    to = tmp_path / "out"
    code = "from kafkaframes.cli.main import main; main()"
    child = subprocess.Popen([sys.executable, "-c", code, "export", big_log, "--to", to, "--workers", "2"])
    deadline = time.monotonic() + 120
    while not list(to.glob("topic=*/*/*")) and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    workers = _children(child.pid)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert child.returncode == -signal.SIGKILL, "it was done before it could be killed"
    half = files(to)  # each of them can be read as a whole
    assert len(half) > 0
    assert not (to / "_SUCCESS").exists()
    while any(map(_is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_is_alive, workers)), "workers outlived the process that started them"
    assert ask(big_log, "--to", to, "--workers", "1").exit_code == 0
    assert ask(big_log, "--to", tmp_path / "at-once", "--workers", "1").exit_code == 0
    whole, expected = files(to), files(tmp_path / "at-once")
    assert (to / "_SUCCESS").exists()
    assert whole == expected
    assert sum(len(table) for table in whole.values()) == 16 * 16 * 500
    assert all(whole[name] == table for name, table in half.items())
    assert not list((to / "_kafkaframes").glob("tmp/*"))


@pytest.mark.spark
def test_spark_writes_the_same_and_reads_it_back(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "GROUP_BYTES", 200_000)
    from kafkaframes.spark.export import plan_export, spark_run
    from kafkaframes.spark.options import ReadOptions

    tasks, _ = plan_export(ReadOptions.parse({"path": str(SHOP), "subscribe": "orders,payments"}))
    outcome = export(tasks, Settings(str(tmp_path / "spark")), run=spark_run(spark))
    assert (outcome.summary.records, len(outcome.failed)) == (7_183, 0)
    export(tasks, Settings(str(tmp_path / "here")))
    assert files(tmp_path / "spark") == files(tmp_path / "here")
    names = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    exported = spark.read.parquet(str(tmp_path / "spark")).select(*names)
    direct = (
        spark.read.format("kafka-log")
        .options(includeHeaders="true", subscribe="orders,payments")
        .load(str(SHOP))
        .select(*names)
    )
    order = ("topic", "partition", "offset")
    assert exported.sort(*order).toArrow() == direct.sort(*order).toArrow()


@pytest.mark.spark
def test_a_failure_on_spark_is_one_line(spark, tmp_path):
    from kafkaframes.spark.export import plan_export, spark_run
    from kafkaframes.spark.options import ReadOptions

    tasks, _ = plan_export(ReadOptions.parse({"path": str(SHOP), "subscribe": "orders"}))
    to = tmp_path / "out"

    def broken(jobs):
        shutil.rmtree(to / "_kafkaframes" / "tmp")
        return spark_run(spark)(jobs)

    with pytest.raises(KafkaframesError, match=r"--to .*/out: cannot be written: [^\n]*$"):
        export(tasks, Settings(str(to)), run=broken)
    assert not (to / "_SUCCESS").exists()


@pytest.mark.spark
def test_the_command_runs_on_spark(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(type(spark), "stop", lambda self: None)  # the session of all tests is used
    result = ask(SHOP, "--to", tmp_path / "out", "--topic", "payments", "--master", "local[2]")
    assert result.exit_code == 0, result.output
    assert "1,183 records" in result.output


@pytest.mark.spark
def test_verify_on_spark_is_the_same_report(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    log = damaged_log(tmp_path)
    here = verify(discover([str(log), str(SHOP)])).as_json()
    result = CliRunner().invoke(cli, ["verify", str(log), str(SHOP), "--master", "local[2]", "--json"])
    assert result.exit_code == cli_verify.EXIT_DAMAGED
    assert json.loads(result.stdout) == here
    assert here["sound"] is False


def test_formats_are_those_that_can_be_written():
    from kafkaframes.export.writers import FORMATS

    assert tuple(FORMATS) == cli_export.FORMATS
