"""Commands that read several copies of a log return one row for each topic, partition and offset."""

import json
import pickle
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.storage.copies.cluster import NamedBatch, write_partition
from tests.storage.log.lookups import find_offset

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.storage.copies.one_log import open_one_log
from kafkaframes.storage.files.headers import HeaderWalk
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.lookup import log_end_offset

SOURCE = Path(__file__).parents[2] / "data" / "logs" / "kraft-4x-transactions"
BATCHES = [NamedBatch(f"a{n}", 5 * n, 5, 0) for n in range(8)]


def run(*arguments, exit_code: int = 0) -> str:
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exit_code == exit_code, (result.output, result.exception)
    return result.stdout


@pytest.fixture
def copies(tmp_path):
    """Two copies: the first has a flipped bit in its second batch, the second lacks the third segment."""
    raw = [batch.raw() for batch in BATCHES]
    second = bytearray(raw[1])
    second[-1] ^= 1
    one = {0: raw[0] + bytes(second) + raw[2], 15: b"".join(raw[3:5]), 25: b"".join(raw[5:])}
    two = {0: b"".join(raw[:3]), 15: b"".join(raw[3:5])}
    write_partition(tmp_path / "1", one, epochs=[(0, 0)], high_watermark=40)
    write_partition(tmp_path / "2", two, epochs=[(0, 0)])
    return [tmp_path / "1", tmp_path / "2"]


@pytest.fixture
def three_copies(tmp_path):
    """Three copies of a real log, each of which lacks another part."""
    copied_dirs = [shutil.copytree(SOURCE, tmp_path / f"b{n}", copy_function=shutil.copyfile) for n in range(3)]
    for copy, lost_name in zip(copied_dirs, ("ledger-0", "payments-0", "input-0"), strict=True):
        (copy / lost_name / f"{0:020}.log").unlink()
    return copied_dirs


def offsets(*segments: Path) -> list[int]:
    return [n for batch in kafkaframes.read_records(list(segments)) for n in batch["offset"].to_pylist()]


def test_the_merged_view_is_a_log_directory(copies):
    merged_view = open_one_log(discover([str(path) for path in copies]))
    (directory,) = merged_view.directories
    (partition,) = directory.partitions
    assert [segment.base_offset for segment in partition.segments] == [0, 15, 25]
    assert partition.segments[0].path == f"merged/orders-0/{0:020}.log"  # its second batch comes from the other copy
    assert partition.segments[1].path == str(copies[0] / "orders-0" / f"{15:020}.log")
    filesystem = pickle.loads(pickle.dumps(directory.filesystem))
    assert log_end_offset(filesystem, partition) == 40
    assert find_offset(filesystem, partition, 12).base_offset == 10
    whole = b"".join(batch.raw() for batch in BATCHES)
    read = b"".join(filesystem.read(segment.path) for segment in partition.segments)
    assert read == whole
    with filesystem.open(partition.segments[0].path) as read_at:
        size_bytes = partition.segments[0].size_bytes
        assert [header.base_offset for header in HeaderWalk(read_at, size_bytes=size_bytes)] == [0, 5, 10]
        for at in range(0, size_bytes, 7):
            assert read_at(at, 100) == whole[at : min(at + 100, size_bytes)]
    again = discover(directory.path, filesystem=filesystem_of(merged_view))
    assert again[0].partitions[0].segments == partition.segments


def filesystem_of(merged_view):
    return merged_view.directories[0].filesystem


def test_convert_recompress_and_compact_read_copies_as_one_log(copies, tmp_path):
    run("recompress", *copies, "--codec", "lz4", "--to", tmp_path / "lz4")
    assert offsets(*sorted((tmp_path / "lz4" / "orders-0").glob("*.log"))) == list(range(40))
    down = ("--record-format", "v1", "--on-loss", "drop")
    run("convert", tmp_path, *down, "--to", tmp_path.parent / f"{tmp_path.name}-v1")  # contains three copies
    assert offsets(*sorted((tmp_path.parent / f"{tmp_path.name}-v1" / "orders-0").glob("*.log"))) == list(range(40))
    assert "orders-0" in run("compact", *copies, "--topic", "orders", "--dry-run")


def test_the_log_written_from_copies_equals_the_original(three_copies, tmp_path):
    run("recompress", *three_copies, "--codec", "zstd", "--to", tmp_path / "out")
    for directory in sorted(path for path in SOURCE.iterdir() if path.is_dir()):
        expected_offsets = offsets(*sorted(directory.glob("*.log")))
        assert offsets(*sorted((tmp_path / "out" / directory.name).glob("*.log"))) == expected_offsets


def test_the_proof_that_a_key_is_gone_reads_every_copy(tmp_path):
    keyed_records = kafkaframes.build_records({"key": [b"k"], "value": [b"v"]}, leader_epoch=0)
    write_partition(tmp_path / "1", {0: NamedBatch("a", 0, 1, 1).raw()}, epochs=[(1, 0)])
    write_partition(tmp_path / "2", {0: keyed_records}, epochs=[(0, 0)])
    assert "NOT proven gone" in run("compact", tmp_path / "1", tmp_path / "2", "--prove-gone", "k", exit_code=1)
    assert "NOT proven gone" in run("compact", tmp_path, "--prove-gone", "k", exit_code=1)


def test_contradictory_copies_are_not_written_as_a_new_log(tmp_path):
    source = tmp_path / "source"
    for name in "ab":
        write_partition(source / name, {0: NamedBatch(name, 0, 2, 0).raw()}, epochs=[(0, 0)])
    result = CliRunner().invoke(cli, ["recompress", str(source), "--codec", "lz4", "--to", str(tmp_path / "out")])
    assert result.exit_code != 0
    assert "neither is read" in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_info_shows_one_log_and_the_merge_decisions(copies):
    (report,) = [json.loads(line) for line in run("info", *copies, "--json").splitlines()]
    (partition,) = report["partitions"]
    assert (partition["log_start_offset"], partition["log_end_offset"]) == (0, 40)
    assert {decision["check"] for decision in report["decisions"]} == {"copy-lags"}
    assert len(run("info", *copies, "--json", "--replicas", "all").splitlines()) == 2
    assert "copy-lags" in run("info", *copies)


def test_verify_checks_each_copy_and_whether_the_merge_is_complete(copies):
    report = json.loads(run("verify", *copies, "--json", exit_code=1))  # a copy is damaged
    assert report["merged_is_whole"] is True
    assert {decision["check"] for decision in report["decisions"]} == {"copy-lags", "taken-from-copy"}
    assert "each offset is undamaged in at least one copy" in run("verify", *copies, exit_code=1)
    (copies[1] / "orders-0" / f"{0:020}.log").unlink()
    assert json.loads(run("verify", *copies, "--json", exit_code=1))["merged_is_whole"] is False
    assert "decisions" not in json.loads(run("verify", *copies, "--json", "--replicas", "all", exit_code=1))


def test_verify_reports_the_decisions_about_its_range(copies):
    """The damage is in offsets 5 to 9, and one copy ends at offset 25."""

    def list_decisions(*flags, exit_code=0):
        return [
            one["check"]
            for one in json.loads(run("verify", *copies, "--json", *flags, exit_code=exit_code))["decisions"]
        ]

    assert list_decisions("--start", "10", "--end", "25") == []
    assert list_decisions("--start", "9", "--end", "25", exit_code=1) == ["taken-from-copy"]
    assert list_decisions("--start", "10", "--end", "26") == ["copy-lags"]


def test_copies_of_two_clusters_are_not_merged(tmp_path):
    for name in "ab":
        write_partition(tmp_path / "logs" / name, {0: NamedBatch("x", 0, 2, 0).raw()}, epochs=[(0, 0)])
        (tmp_path / "logs" / name / "meta.properties").write_text(f"version=1\ncluster.id={name * 22}\nnode.id=1\n")
    result = CliRunner().invoke(cli, ["info", str(tmp_path / "logs"), "--json"])
    assert len(result.stdout.splitlines()) == 2  # each by itself
    assert "not merged: orders-0 belongs to two clusters" in result.stderr
    export_result = CliRunner().invoke(cli, ["export", str(tmp_path / "logs"), "--to", str(tmp_path / "out")])
    assert "belongs to two clusters" in str(export_result.exception)


def test_segments_of_several_copies_are_read_as_one_log(copies):
    segments = sorted(copies[1].glob("orders-0/*.log")) + sorted(copies[0].glob("orders-0/*.log"))
    assert offsets(*segments) == list(range(40))
    read = kafkaframes.read_records(segments, start=7, end=33, on_damage="fail")
    assert [n for batch in read for n in batch["offset"].to_pylist()] == list(range(7, 33))
    apart = list(kafkaframes.read_records(segments, replicas="all"))
    assert sum(batch.num_rows for batch in apart) == 25 + 40 - 1  # one record of the damaged batch is unreadable


@pytest.mark.parametrize("form", ["csv", "jsonl", "text"])
def test_a_dump_has_every_offset_once(copies, form):
    def dump_offsets(*arguments) -> list[int]:
        flags = ["--deep-iteration", "--format", form] if form == "text" else ["--format", form]
        text = CliRunner().invoke(cli, list(map(str, ["dump-log", *arguments, *flags]))).stdout
        return [int(match[1]) for match in re.finditer(_OFFSETS[form], text, re.MULTILINE)]

    assert dump_offsets(*copies) == list(range(40))
    assert dump_offsets(*copies, "--start", 12, "--end", 31) == list(range(12, 31))
    assert dump_offsets(*copies, "--offset", "-3") == [37, 38, 39]
    files = [path / "orders-0" / f"{15:020}.log" for path in copies]
    assert dump_offsets(*files) == [*range(15, 25), *range(15, 25)]  # files given by name are not merged


_OFFSETS = {
    "csv": r'^[^,]*,[^,]*,"?orders"?,0,(\d+)',
    "jsonl": r'"type":"record".*?"offset":(\d+)',
    "text": r"^\| offset: (\d+)",
}
