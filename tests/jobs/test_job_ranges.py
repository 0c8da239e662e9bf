"""Jobs select topics, partitions and a range as ``scan_log`` does: contiguous, end exclusive, times as ListOffsets."""

import datetime as dt
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.errors import LogDirError, OptionError

LOGS = Path(__file__).parent.parent / "data" / "logs"
EXAMPLE_LOG_DIR = Path(__file__).parent.parent / "data" / "examples" / "kafka-4.3"
TRANSACTIONS = LOGS / "kraft-4x-transactions"
START_MS = 1_700_000_000_000
BATCH = 5
OFFSETS = 60
RANGES = [
    (None, None),
    (0, 1),
    (17, 43),  # inside of batches
    (20, 40),  # at the start of batches and of segments
    (OFFSETS, None),
    (None, 0),
    (31, 31),
    (dt.datetime.fromtimestamp((START_MS + 15) / 1000, dt.UTC), 43),
    (None, dt.datetime.fromtimestamp((START_MS + 33) / 1000, dt.UTC)),
    (dt.datetime.fromtimestamp((START_MS + 10_000) / 1000, dt.UTC), None),  # later than every record
    ({"orders": {0: 12, 1: 13}}, {"orders": {0: 50, 1: 51}}),
]


def write_log(directory: Path, record_format=2, codec="gzip", partitions=(0, 1)) -> Path:
    """Write partitions of three segments; a timestamp is sometimes older than the one before it."""
    for number in partitions:
        partition = directory / f"orders-{number}"
        partition.mkdir(parents=True)
        for base in range(0, OFFSETS, 20):
            data = b""
            for first in range(base, base + 20, BATCH):
                times = [START_MS + offset - 3 * (offset % 4) for offset in range(first, first + BATCH)]
                columns = {
                    "key": [b"k%d" % offset for offset in range(first, first + BATCH)],
                    "value": [b"v%d" % offset for offset in range(first, first + BATCH)],
                    "timestamp": times,
                }
                data += kafkaframes.build_records(
                    columns, base_offset=first, record_format=record_format, codec=codec, batch_bytes=1 << 20
                )
            (partition / f"{base:020}.log").write_bytes(data)
    return directory


def read_rows(log, **keywords):
    scan = kafkaframes.scan_log(log, isolation="read_uncommitted", **keywords)
    return (
        scan.select("topic", "partition", "offset", "timestamp", "key", "value")
        .to_arrow()
        .sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])
    )


@pytest.mark.parametrize(("start", "end"), RANGES)
def test_convert_recompress_and_restore_write_the_records_that_a_scan_reads(tmp_path, start, end):
    log = write_log(tmp_path / "log")
    expected = read_rows(log, start=start, end=end)
    kafkaframes.convert_log(log, tmp_path / "v1", record_format=1, on_loss="drop", start=start, end=end)
    kafkaframes.recompress_log(log, tmp_path / "zstd", codec="zstd", start=start, end=end)
    for name in ("v1", "zstd"):
        assert read_rows(tmp_path / name) == expected, name
        result = kafkaframes.verify_log(tmp_path / name, deep=True)
        assert result.report.is_sound, (name, str(result))
    kafkaframes.restore_log(log, tmp_path / "restored", start=start, end=end)
    assert read_rows(tmp_path / "restored", topics="orders") == expected


@pytest.mark.parametrize(("record_format", "codec"), [(0, "none"), (0, "gzip"), (1, "none"), (1, "gzip"), (2, "none")])
def test_a_range_is_converted_in_every_format(tmp_path, record_format, codec):
    log = write_log(tmp_path / "log", record_format, codec, partitions=(0,))
    kafkaframes.convert_log(log, tmp_path / "v2", record_format=2, start=17, end=43)
    kafkaframes.recompress_log(log, tmp_path / "gz", codec="gzip", start=17, end=43)
    for name in ("v2", "gz"):
        assert read_rows(tmp_path / name)["offset"].to_pylist() == list(range(17, 43))
        assert read_rows(tmp_path / name)["value"].to_pylist() == [b"v%d" % offset for offset in range(17, 43)]
        assert kafkaframes.verify_log(tmp_path / name, deep=True).report.is_sound


def test_only_the_selected_topics_and_partitions_are_written(tmp_path):
    shop = kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics="orders", partitions=1, isolation="read_uncommitted")
    result = kafkaframes.convert_log(EXAMPLE_LOG_DIR, tmp_path / "one", record_format=2, topics="orders", partitions=1)
    assert sorted(path.name for path in (tmp_path / "one").iterdir() if path.is_dir()) == ["orders-1"]
    assert read_rows(tmp_path / "one").num_rows == shop.count()
    assert any("orders-0" in path for path in result.report.left_out)
    with pytest.raises(OptionError, match="orders"):
        kafkaframes.convert_log(EXAMPLE_LOG_DIR, tmp_path / "none", record_format=2, topics="order")
    with pytest.raises(OptionError, match="no partition 77"):
        kafkaframes.convert_log(EXAMPLE_LOG_DIR, tmp_path / "none", record_format=2, topics="orders", partitions=77)
    assert not (tmp_path / "none").exists()


def test_a_converted_range_keeps_checkpoints_within_its_offsets(tmp_path):
    start, end = 5, 60
    kafkaframes.convert_log(EXAMPLE_LOG_DIR, tmp_path / "part", record_format=2, topics="orders", start=start, end=end)
    result = kafkaframes.verify_log(tmp_path / "part")
    assert not [one for one in result.report.findings if one.check == "checkpoint-beyond-end"], str(result)
    for one in kafkaframes.describe_log(tmp_path / "part").report:
        assert (one.log_start_offset, one.log_end_offset) == (start, end)


def test_a_range_that_ends_inside_a_transaction_is_reported(tmp_path):
    segment = sorted(TRANSACTIONS.glob("ledger-0/*.log"))[-1]
    batches = kafkaframes.read_batches(segment.read_bytes()).to_pylist()
    batch = next(one for one in batches if one["transactional"] and not one["control"])
    end = batch["last_offset"] + 1
    result = kafkaframes.recompress_log(
        TRANSACTIONS, tmp_path / "cut", codec="lz4", topics="ledger", partitions=0, end=end
    )
    assert any("inside a transaction" in note for one in result.report.partitions for note in one.notes)


def test_an_in_place_conversion_rewrites_the_whole_log(tmp_path):
    shutil.copytree(EXAMPLE_LOG_DIR, tmp_path / "log")
    for flags in (("--topic", "orders"), ("--start", "5"), ("--end", "2026-01-01")):
        arguments = ["recompress", str(tmp_path / "log"), "--codec", "gzip", "--in-place", "--backup"]
        result = CliRunner().invoke(cli, [*arguments, str(tmp_path / "old"), *flags])
        assert result.exit_code != 0
        assert "a rewrite in place needs all records" in str(result.output) + str(result.exception)
    assert not (tmp_path / "old").exists()


def damage(log: Path, offset: int, partition=0) -> None:
    """Change a byte of the batch with an offset."""
    path = log / f"orders-{partition}" / f"{offset // 20 * 20:020}.log"
    data = bytearray(path.read_bytes())
    batches = kafkaframes.read_batches(bytes(data)).to_pylist()
    (row,) = [one for one in batches if one["base_offset"] <= offset <= one["last_offset"]]
    data[row["position"] + row["size"] - 1] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("keywords", "is_sound"),
    [
        ({}, False),
        ({"start": 30}, True),
        ({"end": 25}, True),
        ({"end": 26}, False),
        ({"start": 29, "end": 30}, False),
        ({"start": 40, "end": 60}, True),
        ({"partitions": 1}, True),
        ({"start": {"orders": {0: 30, 1: 0}}}, True),
        ({"start": {"orders": {0: 0, 1: 30}}}, False),
    ],
)
def test_verify_checks_the_batches_of_the_range_only(tmp_path, keywords, is_sound):
    log = write_log(tmp_path / "log")
    damage(log, 27)
    result = kafkaframes.verify_log(log, **keywords)
    assert result.report.is_sound is is_sound, str(result)


def test_verify_checks_batches_with_offsets_in_the_range(tmp_path):
    log = write_log(tmp_path / "log", partitions=(0,))
    assert kafkaframes.verify_log(log).report.batches == OFFSETS // BATCH
    assert kafkaframes.verify_log(log, start=17, end=43).report.batches == 6
    assert kafkaframes.verify_log(log, start=OFFSETS).report.batches == 0
    first = dt.datetime.fromtimestamp((START_MS + 50) / 1000, dt.UTC)
    offsets = kafkaframes.scan_log(log, start=first).select("offset").to_arrow()["offset"].to_pylist()
    assert kafkaframes.verify_log(log, start=first).report.batches == len({offset // BATCH for offset in offsets})


def test_a_range_of_a_sound_log_has_no_additional_findings():
    """Indexes, transactions, epochs and sequences are compared only for the batches that are read."""
    for log in (EXAMPLE_LOG_DIR, TRANSACTIONS, LOGS / "zk-28-mixed"):
        whole = {(one.check, one.file) for one in kafkaframes.verify_log(log).report.findings}
        topics = {(one.topic, one.partition): one for one in kafkaframes.describe_log(log).report if not one.state}
        for (topic, partition), one in topics.items():
            first, end = one.log_start_offset, one.log_end_offset
            third = (end - first) // 3
            for start, stop in ((first + third, end), (first, first + third), (first + third, end - third)):
                result = kafkaframes.verify_log(log, topics=topic, partitions=partition, start=start, end=stop)
                new = {(one.check, one.file) for one in result.report.findings} - whole
                assert not new, (topic, partition, start, stop, str(result))


@pytest.mark.parametrize(
    "job",
    [
        lambda log, to, **keywords: kafkaframes.verify_log(log, **keywords),
        lambda log, to, **keywords: kafkaframes.convert_log(log, to, record_format=2, **keywords),
        lambda log, to, **keywords: kafkaframes.recompress_log(log, to, codec="lz4", **keywords),
        lambda log, to, **keywords: kafkaframes.restore_log(log, to, **keywords),
    ],
    ids=["verify", "convert", "recompress", "restore"],
)
@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"start": OFFSETS + 1}, "beyond the log's end 60"),
        ({"end": OFFSETS + 1}, "beyond the log's end 60"),
        ({"start": "latest"}, "cannot start at latest"),
        ({"start": "group:g"}, "only live topics have groups"),
        ({"end": -1}, "expected an offset of at least 0"),
        ({"start": "yesterday"}, "yesterday"),
        ({"start": {"orders": {0: 5}}}, "orders-1"),
        ({"partitions": -1}, "partitions"),
        ({"topics": "order"}, "order"),
    ],
    ids=str,
)
def test_every_job_rejects_the_ranges_that_a_scan_rejects(tmp_path, job, keywords, message):
    log = write_log(tmp_path / "log")
    with pytest.raises((OptionError, LogDirError), match=message):
        job(log, tmp_path / "to", **keywords)
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("keywords", [{"start": 8}, {"end": 8}])
def test_one_offset_is_an_error_if_a_partition_ends_before_it_and_is_not_empty(tmp_path, keywords):
    """Scans and jobs have the same rule: an empty partition has lost no records."""
    for partition, count in ((0, 10), (1, 0)):
        directory = tmp_path / "log" / f"orders-{partition}"
        directory.mkdir(parents=True)
        rows = [{"value": b"v"}] * count
        (directory / f"{0:020}.log").write_bytes(kafkaframes.build_records(rows) if rows else b"")
    log = tmp_path / "log"
    jobs = (
        lambda to: kafkaframes.scan_log(log, **keywords).count(),
        lambda to: kafkaframes.verify_log(log, **keywords),
        lambda to: kafkaframes.convert_log(log, to, record_format=2, **keywords),
        lambda to: kafkaframes.restore_log(log, to, **keywords),
    )
    for number, job in enumerate(jobs):
        job(tmp_path / f"whole-{number}")
    (log / "orders-1" / f"{0:020}.log").write_bytes(kafkaframes.build_records([{"value": b"v"}] * 5))
    for number, job in enumerate(jobs):
        with pytest.raises(OptionError, match=r"orders-1.*the log's end 5"):
            job(tmp_path / f"short-{number}")


def test_an_offset_that_retention_has_deleted_is_an_error(tmp_path):
    log = write_log(tmp_path / "log")
    (log / "orders-0" / f"{0:020}.log").unlink()
    for job in (
        lambda: kafkaframes.scan_log(log, start=5).count(),
        lambda: kafkaframes.verify_log(log, start=5),
        lambda: kafkaframes.convert_log(log, tmp_path / "to", record_format=2, start=5),
        lambda: kafkaframes.restore_log(log, tmp_path / "to", start=5),
    ):
        with pytest.raises(OptionError, match="offsets 5 to 19 of orders-0 are lost"):
            job()


def test_another_range_is_another_job(tmp_path):
    log = write_log(tmp_path / "log")
    first = kafkaframes.convert_log(log, tmp_path / "to", record_format=2, topics="orders", start=5)
    again = kafkaframes.convert_log(log, tmp_path / "to", record_format=2, topics=["orders"], start=5)
    assert (first.report.done_before, again.report.done_before) == (False, True)
    for keywords in ({}, {"start": 5}, {"topics": "orders", "start": 6}):
        with pytest.raises(LogDirError, match="is not the result of this job"):
            kafkaframes.convert_log(log, tmp_path / "to", record_format=2, **keywords)


def test_compact_takes_topics_and_partitions_and_copies_the_others(tmp_path):
    log = write_log(tmp_path / "log")
    result = kafkaframes.compact_log(log, tmp_path / "to", topics="orders", partitions=1)
    assert [one.name for one in result.report.partitions] == ["orders-1"]
    assert (tmp_path / "to" / "orders-0" / f"{0:020}.log").read_bytes() == (
        log / "orders-0" / f"{0:020}.log"
    ).read_bytes()
    with pytest.raises(OptionError, match="no selected topic has the partition 9"):
        kafkaframes.compact_log(log, topics="orders", partitions=[1, 9])
    with pytest.raises(TypeError):
        kafkaframes.compact_log(log, topics="orders", start=5)
