"""Commands on a store of tiered segments: the error for a missing key names the option, skipped data is reported, and
results are complete.
"""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafkaframes.cli.main import cli
from kafkaframes.errors import LogDirError
from kafkaframes.storage.log.discover import discover

CASES = Path(__file__).parents[1] / "data" / "tiered"
MIXED = CASES / "settings-changed"
DIVERGED = CASES / "diverged"
KEY = ["--key-file", str(MIXED / "main.private.pem")]


def run(*arguments):
    result = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_info_asks_for_the_key_and_shows_the_log():
    with pytest.raises(LogDirError, match=r"key pair 'main': its private key is needed .*--key-file.*\.indexes"):
        run("info", MIXED / "store")
    (row,) = map(json.loads, run("info", MIXED / "store", "--json", *KEY).splitlines())
    (partition,) = row["partitions"]
    assert (partition["topic"], len(partition["segments"])) == ("orders", 8)


def test_info_says_what_is_left_out():
    output = run("info", DIVERGED / "local", DIVERGED / "store")
    assert output.count("left out: ") == 3
    assert "its leader epochs are not those of the log" in output


def test_verify_reads_every_chunk(tmp_path):
    assert "sound: 1 partition, 8 segments" in run("verify", MIXED / "store", "--deep", *KEY)


def test_dump_log_prints_a_store_and_an_object(tmp_path):
    lines = run("dump-log", MIXED / "store", "--format", "jsonl", *KEY).splitlines()
    records = [json.loads(line)["offset"] for line in lines if '"type":"record"' in line]
    assert records == list(range(3090))
    (path,) = (MIXED / "store").glob("*/0/*1930-*.log")
    output = run("dump-log", path, *KEY)
    assert "baseOffset: 1930" in output
    assert f"Dumping {str(path)[:-4]}!/orders-0/00000000000000001930.log" in output


def test_export_and_recompress_take_a_store(tmp_path):
    run("export", MIXED / "store", "--to", tmp_path / "out", *KEY)
    table = pq.read_table(tmp_path / "out" / "topic=orders")
    assert sorted(table.column("offset").to_pylist()) == list(range(3090))
    run("recompress", MIXED / "store", "--codec", "lz4", "--to", tmp_path / "log", *KEY)
    (directory,) = discover(str(tmp_path / "log"))
    (partition,) = directory.partitions
    assert (partition.topic, len(partition.segments)) == ("orders", 8)
    assert partition.metadata is not None
    assert partition.leader_epochs is not None
