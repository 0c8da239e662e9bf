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
MIXED_STORE = CASES / "settings-changed"
DIVERGED_STORE = CASES / "diverged"
KEY_OPTION = ["--key-file", str(MIXED_STORE / "main.private.pem")]


def run(*arguments):
    result = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_info_requests_the_key_and_shows_the_log():
    with pytest.raises(LogDirError, match=r"key pair 'main': its private key is needed .*--key-file.*\.indexes"):
        run("info", MIXED_STORE / "store")
    (row,) = map(json.loads, run("info", MIXED_STORE / "store", "--json", *KEY_OPTION).splitlines())
    (partition,) = row["partitions"]
    assert (partition["topic"], len(partition["segments"])) == ("orders", 8)


def test_info_reports_skipped_segments():
    output = run("info", DIVERGED_STORE / "local", DIVERGED_STORE / "store")
    assert output.count("left out: ") == 3
    assert "its leader epochs are not those of the log" in output


def test_verify_reads_every_chunk(tmp_path):
    assert "sound: 1 partition, 8 segments" in run("verify", MIXED_STORE / "store", "--deep", *KEY_OPTION)


def test_dump_log_prints_a_store_and_an_object(tmp_path):
    lines = run("dump-log", MIXED_STORE / "store", "--format", "jsonl", *KEY_OPTION).splitlines()
    records = [json.loads(line)["offset"] for line in lines if '"type":"record"' in line]
    assert records == list(range(3090))
    (path,) = (MIXED_STORE / "store").glob("*/0/*1930-*.log")
    output = run("dump-log", path, *KEY_OPTION)
    assert "baseOffset: 1930" in output
    assert f"Dumping {str(path)[:-4]}!/orders-0/00000000000000001930.log" in output


def test_export_and_recompress_read_a_store(tmp_path):
    run("export", MIXED_STORE / "store", "--to", tmp_path / "out", *KEY_OPTION)
    table = pq.read_table(tmp_path / "out" / "topic=orders")
    assert sorted(table.column("offset").to_pylist()) == list(range(3090))
    run("recompress", MIXED_STORE / "store", "--codec", "lz4", "--to", tmp_path / "log", *KEY_OPTION)
    (directory,) = discover(str(tmp_path / "log"))
    (partition,) = directory.partitions
    assert (partition.topic, len(partition.segments)) == ("orders", 8)
    assert partition.metadata is not None
    assert partition.leader_epochs is not None
