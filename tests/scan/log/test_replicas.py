"""Several copies of a log in one read: merged, or each one separately."""

import json
import logging
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from tests.storage.copies.cluster import NamedBatch, write_partition

from kafkaframes.errors import CorruptRecordError, LogDirError, OptionError
from kafkaframes.scan.columns import choose_columns
from kafkaframes.scan.log.following import LogFollower
from kafkaframes.scan.log.resolve import plan_log
from kafkaframes.spark.options import parse_log_options
from kafkaframes.spark.sources.tasks import read_table

LOGS = Path(__file__).parents[2] / "data" / "logs"
CASES = ["kraft-4x-transactions", "zk-28-mixed"]


def plan_copies(*paths, **options):
    options_read = parse_log_options({"paths": json.dumps([str(path) for path in paths]), **options})
    return options_read, plan_log(options_read, cores=2)


def read_copies(*paths, columns="key,value,topic,partition,offset,timestamp,headers", **options):
    options_read, log_plan = plan_copies(*paths, **options)
    selected_columns = choose_columns(columns.split(","), table=options_read.layout)
    batches = [batch for work in log_plan.works for batch in read_table(work, selected_columns, options_read)]
    table = pa.Table.from_batches(batches)
    return table.sort_by(
        [(name, "ascending") for name in ("topic", "partition", "offset") if name in table.column_names]
    )


def writable(source: Path, target: Path) -> Path:
    return shutil.copytree(source, target, copy_function=shutil.copyfile)


def segments_of(log: Path) -> list[Path]:
    return sorted(path for path in log.glob("*/*.log") if path.stat().st_size)


def flip_bit(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


@pytest.fixture(params=CASES)
def copied_log(request, tmp_path):
    """An example log, and three copies of it that can be damaged."""
    source = LOGS / request.param
    return source, [writable(source, tmp_path / f"broker-{number}") for number in (1, 2, 3)]


@pytest.mark.parametrize(
    "options", [{}, {"includeInternalTopics": "true"}, {"isolation": "read_committed"}, {"minPartitions": "40"}]
)
def test_three_equal_copies_are_read_as_one(copied_log, options):
    source, copies = copied_log
    assert read_copies(*copies, **options).equals(read_copies(source, **options))


def test_offsets_and_timestamps_refer_to_the_merged_log(copied_log):
    source, copies = copied_log
    whole = read_copies(source)
    times = sorted(moment.timestamp() for moment in whole["timestamp"].to_pylist() if moment.timestamp() > 0)
    at = {"startingTimestamp": str(int(times[len(times) // 2] * 1000)), "startingOffsetsByTimestampStrategy": "latest"}
    assert read_copies(*copies, **at).equals(read_copies(source, **at))


def test_damage_in_each_copy_is_repaired_from_the_others(copied_log, caplog):
    """The first copy lacks a segment, the second one has a flipped bit, the third one ends early."""
    source, (one, two, three) = copied_log
    largest = max(segments_of(one), key=lambda path: path.stat().st_size)
    inside = largest.relative_to(one)
    (one / inside).unlink()
    flip_bit(two / inside, (two / inside).stat().st_size // 2)
    for path in segments_of(three)[::2]:
        if path.relative_to(three) != inside:
            with open(path, "r+b") as file:
                file.truncate(path.stat().st_size * 2 // 3)
    caplog.set_level(logging.WARNING, "kafkaframes.scan")
    everything = {"includeInternalTopics": "true"}
    assert read_copies(three, two, one, **everything).equals(read_copies(source, **everything))
    assert caplog.messages


def test_a_damaged_batch_is_replaced_when_it_is_read(copied_log, caplog):
    source, (one, two, _) = copied_log
    for path in segments_of(one):
        flip_bit(path, path.stat().st_size - 1)  # in the records of the last batch, so that all headers stay valid
    for mode in ("PERMISSIVE", "DROPMALFORMED", "FAILFAST"):
        assert read_copies(one, two, mode=mode).equals(read_copies(source))
    assert any("is damaged; it is read from" in message for message in caplog.messages)
    with pytest.raises(CorruptRecordError):
        read_copies(one, mode="FAILFAST")
    options_read, log_plan = plan_copies(one, two, table="batches")
    columns = choose_columns(["crcOk", "error", "source"], table="batches")
    rows = pa.Table.from_batches(
        [batch for work in log_plan.works for batch in read_table(work, columns, options_read)]
    )
    assert set(rows["crcOk"].to_pylist()) == {True}


def test_replicas_all_reads_each_copy_with_its_source(copied_log):
    source, copies = copied_log
    rows = read_copies(*copies, replicas="all", columns="topic,partition,offset,source")
    assert rows.num_rows == 3 * read_copies(source).num_rows
    assert set(rows["source"].to_pylist()) == {str(copy) for copy in copies}
    assert read_copies(copies[0], replicas="all", columns="offset,source").num_rows == read_copies(source).num_rows


def test_the_plan_describes_the_merge(tmp_path):
    batches = [NamedBatch(f"a{n}", 5 * n, 5, 0) for n in range(6)]
    new = [*batches[:3], NamedBatch("new", 15, 2, 1)]
    one = write_partition(tmp_path / "1", {0: b"".join(b.raw() for b in batches)}, epochs=[(0, 0)], high_watermark=20)
    two = write_partition(tmp_path / "2", {0: b"".join(b.raw() for b in new)}, epochs=[(0, 0), (1, 15)])
    _, log_plan = plan_copies(one, two)
    (truncation,) = log_plan.decisions
    assert (truncation.check, truncation.as_json()["first_offset"], truncation.as_json()["topic"]) == (
        "divergent-tail",
        15,
        "orders",
    )
    assert read_copies(one, two, columns="offset")["offset"].to_pylist() == list(range(17))
    assert read_copies(one, two, columns="offset", startingOffsets='{"orders": {"0": 14}}')["offset"].to_pylist() == [
        14,
        15,
        16,
    ]


def test_undecided_offsets_are_skipped_or_rejected(tmp_path):
    one, two = [
        write_partition(
            tmp_path / name, {0: NamedBatch("x", 0, 2, 0).raw() + NamedBatch(name, 2, 3, 0).raw()}, epochs=[(0, 0)]
        )
        for name in ("a", "b")
    ]
    assert read_copies(one, two, columns="offset")["offset"].to_pylist() == [0, 1]
    assert [decision.check for decision in plan_copies(one, two)[1].decisions] == ["undecided"]
    with pytest.raises(LogDirError, match="neither is read"):
        plan_copies(one, two, mode="FAILFAST")


def test_renamed_directories_are_copies_only_if_they_are_named(tmp_path):
    raw = [NamedBatch(f"a{n}", 5 * n, 5, 0).raw() for n in range(4)]
    live = write_partition(tmp_path / "1", {0: b"".join(raw[:3])}, epochs=[(0, 0)])
    for state in ("future", "delete", "stray"):
        name = f"orders-0.{'0' * 32}-{state}"
        renamed_dir = write_partition(tmp_path / "2" / state, {0: b"".join(raw)}, epochs=[(0, 0)], name=name)
        assert read_copies(tmp_path / "1", tmp_path / "2", columns="offset").num_rows == 15
        assert read_copies(live, renamed_dir, columns="offset").num_rows == 20


def test_a_stream_follows_one_copy(copied_log):
    _, copies = copied_log
    paths = json.dumps([str(copy) for copy in copies])
    with pytest.raises(OptionError, match="a stream follows one of them"):
        LogFollower(parse_log_options({"paths": paths})).find_end_offsets()
    with pytest.raises(OptionError, match="replicas=all is for batch reads"):
        LogFollower(parse_log_options({"paths": paths, "replicas": "all"})).check_options()


@pytest.mark.spark
def test_spark_reads_copies_merged_and_separately(spark, tmp_path):
    batches = [NamedBatch(f"a{n}", 5 * n, 5, 0) for n in range(6)]
    paths = [
        str(write_partition(tmp_path / str(n), {0: b"".join(b.raw() for b in batches[: n + 4])}, epochs=[(0, 0)]))
        for n in range(3)
    ]
    assert spark.read.format("kafka-log").load(paths).count() == 30
    apart = spark.read.format("kafka-log").option("replicas", "all").load(paths)
    assert apart.columns[-1] == "source"
    assert {row["source"]: row["count"] for row in apart.groupBy("source").count().collect()} == {
        str(tmp_path / "0"): 20, str(tmp_path / "1"): 25, str(tmp_path / "2"): 30,
    }  # fmt: skip
