"""Timestamps, lost offsets and transactions as a plan, on logs of real brokers; without a JVM."""

import json
import shutil
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.truth import CLICKS, EXAMPLE_LOG_DIR

import kafkaframes
from kafkaframes.errors import OptionError
from kafkaframes.scan.columns import choose_columns
from kafkaframes.scan.log import reading
from kafkaframes.scan.log.resolve import plan_log
from kafkaframes.scan.log.tables import read_batch_work, read_segment_work
from kafkaframes.spark.options import parse_log_options
from kafkaframes.storage.files.segment_file import ByteCounter
from kafkaframes.storage.log.open_segment import open_planned_segment_on

CASES = Path(__file__).parents[2] / "data" / "logs"
TRANSACTIONS = CASES / "kraft-4x-transactions"
READERS = {"records": reading.read_work, "batches": read_batch_work, "segments": read_segment_work}


def read_log_rows(path, *names, meter=None, **read_options):
    options = parse_log_options({"path": str(path), **read_options})
    columns = choose_columns(names or None, table=options.table)
    batches = []
    with patch.object(reading, "open_planned_segment_on", partial(open_planned_segment_on, meter=meter)):
        for work in plan_log(options, cores=1).works:
            batches += READERS[options.table](work, columns, options)
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def offsets(path, **options):
    return [row["offset"] for row in read_log_rows(path, "offset", **options)]


@pytest.mark.parametrize("case", ["kraft-4x-transactions", "zk-28-mixed"])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("without", [(), ("*.txnindex", "*.index", "*.timeindex")])
def test_records_equal_those_of_a_consumer(case, isolation, without, tmp_path):
    shutil.copytree(CASES / case, tmp_path / case)
    for pattern in without:
        for file in tmp_path.rglob(pattern):
            file.unlink()
    truth = json.loads((CASES / f"{case}.committed.json").read_text())[isolation]
    rows = read_log_rows(
        tmp_path / case, "topic", "partition", "offset", isolation=isolation, includeInternalTopics="true"
    )
    got = {}
    for row in rows:
        got.setdefault(f"{row['topic']}-{row['partition']}", []).append(row["offset"])
    assert len(truth) > 1
    for name, partition_truth in truth.items():
        expected_offsets = [n for first, last in partition_truth["ranges"] for n in range(first, last + 1)]
        assert got.get(name, []) == expected_offsets, name


def list_recorded_lookups():
    for case in ("kraft-4x-transactions", "zk-28-mixed"):
        for topic, partition, timestamp, offset, _ in json.loads((CASES / f"{case}.lookups.json").read_text())[
            "offsets_for_times"
        ]:
            if (CASES / case / f"{topic}-{partition}").is_dir():
                yield case, topic, partition, timestamp, offset


def test_a_range_of_times_has_the_offsets_that_a_broker_returned():
    lookup_count = 0
    for case, topic, partition, timestamp, offset in list_recorded_lookups():
        path = CASES / case / f"{topic}-{partition}"
        if offset is None or offset < 0:
            with pytest.raises(OptionError, match=r"has no record at or after"):
                offsets(path, startingTimestamp=str(timestamp))
            assert offsets(path, startingTimestamp=str(timestamp), startingOffsetsByTimestampStrategy="latest") == []
            continue
        if lookup_count < 60:
            all_offsets = offsets(path)
            times = json.dumps({topic: {str(partition): timestamp}})
            assert offsets(path, startingOffsetsByTimestamp=times) == [n for n in all_offsets if n >= offset]
            assert offsets(path, endingTimestamp=str(timestamp)) == [n for n in all_offsets if n < offset]
        lookup_count += 1
    assert lookup_count > 20


def test_records_below_the_log_start_offset_are_not_rows():
    rows = read_log_rows(CASES / "deleted-records", "topic", "partition", "offset", subscribe="trimmed")
    starts = [line.split() for line in (CASES / "deleted-records/log-start-offset-checkpoint").read_text().splitlines()]
    starts = {int(words[1]): int(words[2]) for words in starts if len(words) == 3 and words[0] == "trimmed"}
    assert starts
    assert all(row["offset"] >= starts.get(row["partition"], 0) for row in rows)
    for partition, start in starts.items():
        own = [row["offset"] for row in rows if row["partition"] == partition]
        assert own == [] or own[0] == start


def write_log(folder, *batches):
    """Write a partition t-0 with a segment for each list of offsets."""
    partition = folder / "t-0"
    partition.mkdir()
    for numbers in batches:
        rows = [{"offset": n, "key": b"k", "value": b"v" * 50, "timestamp": 1000 + n} for n in numbers]
        raw = b"".join(kafkaframes.build_records(rows[at : at + 10]) for at in range(0, len(rows), 10))
        (partition / f"{numbers[0]:020}.log").write_bytes(raw)
    return partition


def test_offsets_deleted_by_retention_are_an_error_and_compaction_gaps_are_not(tmp_path):
    partition = write_log(tmp_path, range(100, 200), range(200, 300, 7))
    start = '{"t": {"0": %d}}'
    with pytest.raises(OptionError, match="offsets 50 to 99 of t-0 are lost to retention"):
        offsets(partition, startingOffsets=start % 50)
    assert offsets(partition, startingOffsets=start % 50, failOnDataLoss="false")[0] == 100
    assert offsets(partition, startingOffsets=start % 201)[0] == 207
    with pytest.raises(OptionError, match="offset 900 of t-0 is beyond the log's end 299"):
        offsets(partition, endingOffsets=start % 900)
    assert len(offsets(partition, endingOffsets=start % 900, failOnDataLoss="false")) == 115


def test_bytes_outside_the_range_are_not_read(tmp_path):
    partition = write_log(tmp_path, range(1000), range(1000, 2000), range(2000, 3000))
    size = (partition / f"{1000:020}.log").stat().st_size
    bounds = {"startingOffsets": '{"t": {"0": 1504}}', "endingOffsets": '{"t": {"0": 1517}}'}
    meter = ByteCounter()
    rows = read_log_rows(partition, "offset", meter=meter, **bounds)
    assert [row["offset"] for row in rows] == list(range(1504, 1517))
    assert meter.bytes_read == size // 50  # two of a hundred batches
    plan = plan_log(parse_log_options({"path": str(partition), **bounds}), cores=1)
    assert (plan.segments, plan.segment_count, plan.bytes_to_read, plan.tasks) == (3, 1, size // 50, 1)
    whole = ByteCounter()
    assert len(read_log_rows(partition, "offset", meter=whole)) == 3000
    assert whole.bytes_read >= 3 * size


WHOLE_LOG_BATCHES = {
    (path, topic): offsets(path)
    for path, topic in ((EXAMPLE_LOG_DIR / "orders-0", "orders"), (CLICKS / "clickstream-0", "clickstream"))
}


@given(st.sampled_from(sorted(WHOLE_LOG_BATCHES)), st.data())
def test_a_range_of_offsets_has_the_records_of_that_range(log, data):
    path, topic = log
    all_offsets = WHOLE_LOG_BATCHES[log]
    start = data.draw(st.integers(all_offsets[0], all_offsets[-1]))
    end = data.draw(st.integers(start, all_offsets[-1] + 1))
    starting, ending = (json.dumps({topic: {"0": at}}) for at in (start, end))
    parts = data.draw(st.sampled_from(["1", "5"]))
    got = offsets(path, startingOffsets=starting, endingOffsets=ending, minPartitions=parts)
    assert got == [n for n in all_offsets if start <= n < end]


def test_open_transactions_are_unknown_in_part_of_a_log():
    file = min((TRANSACTIONS / "ledger-0").glob("*.log"))
    with pytest.raises(OptionError, match="needs whole logs"):
        offsets(file, isolation="read_committed")
    assert offsets(file)


@pytest.mark.parametrize(("option", "setting"), [("startingOffsets", "start"), ("endingOffsets", "end")])
def test_a_partition_missing_from_the_offsets_is_named(tmp_path, option, setting):
    for number in (0, 1):
        (tmp_path / f"t-{number}").mkdir()
        (tmp_path / f"t-{number}" / f"{0:020}.log").write_bytes(kafkaframes.build_records([{"value": b"x"}] * 5))
    options = parse_log_options({"path": str(tmp_path), option: '{"t": {"0": 2}}'})
    with pytest.raises(OptionError, match=f"`{setting}` requires an offset for t-1"):
        plan_log(options, cores=1)
