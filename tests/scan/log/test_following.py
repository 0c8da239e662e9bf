"""A growing log as a stream: every row once, while segments grow, roll and are deleted between the micro-batches."""

import json
import shutil
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkaframes
from kafkaframes.errors import OptionError
from kafkaframes.records.build import build_records
from kafkaframes.scan.columns import choose_columns
from kafkaframes.scan.log import following
from kafkaframes.scan.log.discovery import discover_logs
from kafkaframes.scan.log.following import AppendedRowReader, LogFollower
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.reading import read_work
from kafkaframes.scan.ranges import LATEST, flatten_topics, nest_by_topic
from kafkaframes.scan.stream_offsets import StreamOffsets
from kafkaframes.scan.where import NO_CONDITIONS
from kafkaframes.spark.options import parse_log_options
from kafkaframes.spark.sources.kafka_log import KafkaLogDataSource

COLUMNS = choose_columns(["partition", "offset"])


def build_batch(first, count=10):
    rows = [{"offset": n, "key": b"k", "value": b"v" * 50, "timestamp": 1000 + n} for n in range(first, first + count)]
    return kafkaframes.build_records(rows)


def append_records(folder, first, count, *, partition=0, roll=False, batch_records=10):
    """Append records to the last segment of t-<partition>, or to a new one."""
    place = folder / f"t-{partition}"
    place.mkdir(exist_ok=True)
    logs = sorted(place.glob("*.log"))
    path = place / f"{first:020}.log" if roll or not logs else logs[-1]
    with path.open("ab") as file:
        for at in range(first, first + count, batch_records):
            file.write(build_batch(at, batch_records))
    return path


def follower(folder, **options):
    return LogFollower(parse_log_options({"path": str(folder), **options})).check_options()


def plan_end_offsets(follow, start, **limits):
    """Return the end offsets of the micro-batch that starts at these offsets, without topic ids."""
    return follow.find_batch_end(StreamOffsets(start), **limits).offsets


def read_rows(follow, start, end):
    works = follow.plan_batch(start, end, cores=2).works
    batches = [batch for work in works for batch in read_work(work, COLUMNS, follow.options)]
    return [(row["partition"], row["offset"]) for batch in batches for row in batch.to_pylist()]


def read_all(follow, start, **limits):
    """Read micro-batches until no row is left. Return the rows, the end and the number of batches."""
    read, count = [], 0
    while (end := plan_end_offsets(follow, start, **limits)) != start:
        read += read_rows(follow, StreamOffsets(start), StreamOffsets(end))
        start, count = end, count + 1
    return read, start, count


@pytest.mark.parametrize("limits", [{}, {"max_offsets": 7}, {"max_bytes": 3000}, {"max_offsets": 70, "max_bytes": 1}])
def test_every_row_is_read_once_while_the_log_grows_rolls_and_loses_segments(tmp_path, limits):
    first = append_records(tmp_path, 0, 50)
    follow = follower(tmp_path)
    start = follow.find_start_offsets().offsets
    assert start == {("t", 0): 0}
    got, at, count = read_all(follow, start, **limits)
    assert (got, at) == ([(0, n) for n in range(50)], {("t", 0): 50})
    assert count > 1 if limits else count == 1
    append_records(tmp_path, 50, 20)
    torn = append_records(tmp_path, 70, 30, roll=True)
    with torn.open("ab") as file:
        file.write(build_batch(100)[:40])
    append_records(tmp_path, 0, 20, partition=1)
    first.rename(f"{first}.deleted")
    with pytest.raises(OptionError, match="offsets 50 to 69 of t-0 are lost to retention"):
        read_all(follow, at, **limits)
    (tmp_path / "t-0" / f"{first.name}.deleted").rename(first)
    got, at, _ = read_all(follow, at, **limits)
    assert sorted(got) == [*((0, n) for n in range(50, 100)), *((1, n) for n in range(20))]
    first.unlink()  # deleted by retention after it was read
    with torn.open("r+b") as file:
        file.truncate(torn.stat().st_size - 40)
    append_records(tmp_path, 100, 10)
    got, at, _ = read_all(follow, at, **limits)
    assert got == [(0, n) for n in range(100, 110)]
    assert at == {("t", 0): 110, ("t", 1): 20}


def test_a_batch_is_read_once_it_is_complete(tmp_path):
    append_records(tmp_path, 0, 10)
    follow = follower(tmp_path)
    raw = build_batch(10)
    path = tmp_path / "t-0" / f"{0:020}.log"
    whole = path.read_bytes()
    for cut_at in (1, 17, 61, len(raw) - 1):
        path.write_bytes(whole + raw[:cut_at])
        assert plan_end_offsets(follow, {("t", 0): 0}) == {("t", 0): 10}
    path.write_bytes(whole + raw)
    assert read_all(follow, {("t", 0): 10})[0] == [(0, n) for n in range(10, 20)]


def test_a_target_offset_is_not_exceeded_although_the_log_grows(tmp_path):
    append_records(tmp_path, 0, 30)
    follow = follower(tmp_path)
    goal = follow.find_end_offsets()
    append_records(tmp_path, 30, 30)
    got, at, count = read_all(follow, follow.find_start_offsets().offsets, ends=goal, max_offsets=8)
    assert (len(got), at, count) == (30, {("t", 0): 30}, 4)


def test_a_truncated_or_deleted_log_is_reported(tmp_path):
    append_records(tmp_path, 0, 30)
    append_records(tmp_path, 0, 10, partition=1)
    follow, lenient = follower(tmp_path), follower(tmp_path, failOnDataLoss="false")
    with pytest.raises(OptionError, match="t-0, read up to offset 99, ends at 30"):
        plan_end_offsets(follow, {("t", 0): 99, ("t", 1): 10})
    with pytest.raises(OptionError, match="t-7, read up to offset 5, no longer exists"):
        plan_end_offsets(follow, {("t", 0): 30, ("t", 1): 10, ("t", 7): 5})
    assert plan_end_offsets(lenient, {("t", 0): 99, ("t", 7): 5}) == {("t", 0): 99, ("t", 1): 10, ("t", 7): 5}


def test_a_topic_that_is_no_longer_selected_is_not_reported_as_deleted(tmp_path):
    """In Raiffeisen-DGTL/checkita-data-quality#62, a query restarts from its checkpoint with other topics."""
    append_records(tmp_path, 0, 30)
    reason = "other-0, read up to offset 5, is in the checkpoint, but the options of the query no longer select it"
    for options in ({"subscribe": "t"}, {"assign": '{"t": [0]}'}, {"subscribePattern": "t"}):
        with pytest.raises(OptionError, match=reason):
            plan_end_offsets(follower(tmp_path, **options), {("t", 0): 30, ("other", 0): 5})
    with pytest.raises(OptionError, match="t-7, read up to offset 5, no longer exists"):
        plan_end_offsets(follower(tmp_path, subscribe="t"), {("t", 0): 30, ("t", 7): 5})


def write_topic_id(folder, topic_id, partition=0):
    (folder / f"t-{partition}" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")


def test_a_recreated_topic_is_reported_although_its_log_is_longer(tmp_path, caplog):
    append_records(tmp_path, 0, 30)
    write_topic_id(tmp_path, "A" * 21 + "Q")
    follow, lenient = follower(tmp_path), follower(tmp_path, failOnDataLoss="false")
    at = follow.find_batch_end(StreamOffsets({("t", 0): 0}, follow.find_start_offsets().ids), max_offsets=10)
    assert StreamOffsets.from_json(at.to_json()) == at
    assert follow.find_batch_end(at).offsets == {("t", 0): 30}
    shutil.rmtree(tmp_path / "t-0")
    append_records(tmp_path, 0, 50)
    write_topic_id(tmp_path, "A" * 21 + "g")
    with pytest.raises(OptionError, match="topic t was deleted and recreated"):
        follow.find_batch_end(at)
    end = lenient.find_batch_end(at)
    assert "topic t was deleted" in caplog.text
    assert [offset for _, offset in read_rows(lenient, at, end)] == list(range(50))
    assert follow.find_batch_end(StreamOffsets({("t", 0): 20})).offsets == {("t", 0): 50}  # an older checkpoint


def write_log(folder, records, partition=0):
    """Replace a log with one without a topic id that has as many records, with this value."""
    count, value = records
    shutil.rmtree(folder / f"t-{partition}", ignore_errors=True)
    (folder / f"t-{partition}").mkdir()
    with (folder / f"t-{partition}" / f"{0:020}.log").open("wb") as file:
        for first in range(0, count, 10):
            batch_rows = [
                {"offset": n, "key": b"k", "value": value, "timestamp": 1000 + n} for n in range(first, first + 10)
            ]
            file.write(kafkaframes.build_records(batch_rows))


@pytest.mark.parametrize("count", [30, 50])
@pytest.mark.parametrize("max_offsets", [None, 7])
def test_a_replaced_log_without_topic_id_is_reported_at_any_length(tmp_path, caplog, count, max_offsets):
    write_log(tmp_path, (30, b"old"))
    write_log(tmp_path, (20, b"same"), partition=1)
    at = follower(tmp_path).find_batch_end(StreamOffsets({}))
    offsets_json = json.loads(json.dumps(at.to_json()))
    assert offsets_json["t"] == {"0": 30, "1": 20}
    assert [
        name.startswith("t@/") and len(name.split(",")) == 6 for name in offsets_json if offsets_json[name] == {}
    ] == [True]
    at = StreamOffsets.from_json(offsets_json)
    assert follower(tmp_path).find_batch_end(at) == at
    write_log(tmp_path, (count, b"new"))
    running = follower(tmp_path)
    with pytest.raises(
        OptionError,
        match=r"t-0 is not the log from which the checkpoint was written: .*at offset 27 .* value of 3 bytes",
    ) as refusal:
        running.find_batch_end(at)
    assert str(refusal.value).count("digest") == 2
    end = StreamOffsets({("t", 0): count, ("t", 1): 20})
    # a micro-batch that is repeated after a restart
    with pytest.raises(OptionError, match="t-0 is not the log from which the checkpoint was written"):
        running.plan_batch(at, StreamOffsets({**end.offsets, ("t", 0): 50}), cores=1)
    lenient, offsets_read, start = follower(tmp_path, failOnDataLoss="false"), [], at
    while (end := lenient.find_batch_end(start, max_offsets=max_offsets)) != start:
        offsets_read += read_rows(lenient, start, end)
        start = end
    assert offsets_read == [(0, n) for n in range(count)]
    assert "t-0 is not the log from which the checkpoint was written" in caplog.text
    assert follower(tmp_path).find_batch_end(start) == start
    assert follower(tmp_path).find_batch_end(StreamOffsets(at.offsets)).offsets == start.offsets  # an older checkpoint


def test_a_log_replaced_under_a_running_stream_is_reported(tmp_path):
    write_log(tmp_path, (30, b"old"))
    follow = follower(tmp_path)
    at = follow.find_batch_end(follow.find_start_offsets())
    write_log(tmp_path, (40, b"new"))
    with pytest.raises(OptionError, match="t-0 is not the log from which the checkpoint was written"):
        follow.find_batch_end(at)


def test_fingerprints_are_read_only_if_the_files_have_changed(tmp_path, monkeypatch):
    append_records(tmp_path, 0, 200)
    compared_offsets = []
    find_fingerprints = following.find_fingerprints

    def find(entry, expected_rows):
        compared_offsets.append([row.offset for row in expected_rows])
        return find_fingerprints(entry, expected_rows)

    monkeypatch.setattr(following, "find_fingerprints", find)
    follow = follower(tmp_path)
    at = follow.find_start_offsets()
    while (end := follow.find_batch_end(at, max_offsets=15)) != at:
        read_rows(follow, at, end)
        at = end
    assert (compared_offsets, [row.offset for row in at.fingerprints["t", 0]]) == ([], [197, 198, 199])
    append_records(tmp_path, 200, 10)
    read_rows(follow, at, follow.find_batch_end(at))
    assert compared_offsets == [[197, 198, 199]]
    follower(tmp_path).find_batch_end(at)
    assert len(compared_offsets) == 2


def test_fingerprints_of_markers_gaps_and_lost_records(tmp_path, caplog):
    append_records(tmp_path, 0, 10)
    path = append_records(tmp_path, 10, 10, roll=True)
    marker = {"offset": 20, "timestamp": 1, "key": b"\0\0\0\1", "value": b"\0" * 6}
    with path.open("ab") as file:
        file.write(build_records([marker], control=True, transactional=True, producer_id=1, producer_epoch=0))
    at = follower(tmp_path).find_batch_end(StreamOffsets({}))
    assert at.offsets == {("t", 0): 21}
    assert [row.offset for row in at.fingerprints["t", 0]] == [17, 18, 19]
    shutil.rmtree(tmp_path / "t-0")
    append_records(tmp_path, 21, 10)  # after retention or compaction
    assert follower(tmp_path).find_batch_end(at).offsets == {("t", 0): 31}
    assert "nothing shows that t-0 is the log" in caplog.text
    write_topic_id(tmp_path, "A" * 21 + "Q")
    assert follower(tmp_path).find_batch_end(at).fingerprints == {}


@pytest.mark.parametrize(("record_format", "codec"), [(0, "none"), (1, "none"), (1, "gzip")])
def test_fingerprints_of_older_message_formats(tmp_path, record_format, codec):
    def write(value):
        (tmp_path / "t-0").mkdir(exist_ok=True)
        raw = b"".join(
            build_records(
                [{"offset": n, "value": value, "timestamp": 5} for n in range(first, first + 10)],
                record_format=record_format,
                codec=codec,
            )
            for first in (0, 10)
        )
        (tmp_path / "t-0" / f"{0:020}.log").write_bytes(raw)

    write(b"old")
    at = follower(tmp_path).find_batch_end(StreamOffsets({}))
    assert [row.offset for row in at.fingerprints["t", 0]] == [17, 18, 19]
    assert follower(tmp_path).find_batch_end(at) == at
    write(b"new")
    with pytest.raises(OptionError, match="t-0 is not the log from which the checkpoint was written"):
        follower(tmp_path).find_batch_end(at)


def test_a_damaged_batch_is_not_another_log(tmp_path):
    path = append_records(tmp_path, 0, 30)
    at = follower(tmp_path).find_batch_end(StreamOffsets({}))
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    assert follower(tmp_path).find_batch_end(at) == at


def test_sparks_reader_stores_fingerprints_and_compares_them_after_a_restart(tmp_path):
    log_stream = pytest.importorskip("kafkaframes.spark.sources.log_stream")
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    def reader(**options):
        return log_stream.KafkaLogStreamReader(parse_log_options({"path": str(tmp_path), **options}), COLUMNS)

    write_log(tmp_path, (30, b"old"))
    at = reader().latestOffset(reader(startingOffsets="earliest").initialOffset(), ReadAllAvailable())
    assert reader().latestOffset(at, ReadAllAvailable()) == at
    older_checkpoint = {"t": {"0": 30}}
    assert reader().latestOffset(older_checkpoint, ReadAllAvailable()) == older_checkpoint
    write_log(tmp_path, (30, b"new"))
    with pytest.raises(OptionError, match="t-0 is not the log from which the checkpoint was written"):
        reader().latestOffset(at, ReadAllAvailable())
    lenient = reader(failOnDataLoss="false")
    end = lenient.latestOffset(at, ReadAllAvailable())
    assert (end["t"], end != at, len(lenient.partitions(at, end)) > 0) == ({"0": 30}, True, True)


def test_an_open_transaction_that_delays_the_stream_is_logged_once(tmp_path, caplog):
    append_records(tmp_path, 0, 10)
    rows_of_transaction = [{"offset": offset, "value": b"v", "timestamp": 1} for offset in range(10, 13)]
    with (tmp_path / "t-0" / f"{0:020}.log").open("ab") as file:
        ids = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        file.write(kafkaframes.build_records(rows_of_transaction, transactional=True, **ids))
    follow = follower(tmp_path, isolation="read_committed")
    assert plan_end_offsets(follow, {("t", 0): 0}) == {("t", 0): 10}
    assert caplog.text == ""  # the stream advances
    for ends in ({("t", 0): 10}, None, None):  # Trigger.AvailableNow sets the end offsets
        assert plan_end_offsets(follow, {("t", 0): 10}, ends=ends) == {("t", 0): 10}
    assert caplog.text.count("waits at offset 10 of t-0, because the transaction of producer 7 is open; up to 3") == 1


def test_lost_first_records_of_a_new_partition_are_reported_after_the_first_batch(tmp_path, caplog):
    append_records(tmp_path, 0, 30)
    follow, lenient = follower(tmp_path), follower(tmp_path, failOnDataLoss="false")
    append_records(tmp_path, 20, 10, partition=1)
    at = {("t", 0): 30}
    with pytest.raises(OptionError, match=r"t-1 was added after .* begins at offset 20: offsets 0 to 19 are lost"):
        plan_end_offsets(follow, at)
    assert plan_end_offsets(follow, at, is_first=True) == plan_end_offsets(lenient, at) == {("t", 0): 30, ("t", 1): 30}
    assert "t-1 was added after" in caplog.text
    assert plan_end_offsets(follow, {("t", 0): 30, ("t", 1): 20}) == {("t", 0): 30, ("t", 1): 30}


def test_each_request_of_a_stream_lists_the_directory_once(tmp_path, monkeypatch):
    append_records(tmp_path, 0, 30)
    listings = []
    monkeypatch.setattr(
        following, "discover_logs", lambda *args, **kw: listings.append(1) or discover_logs(*args, **kw)
    )
    follow = follower(tmp_path)
    start = follow.find_start_offsets()
    end = follow.find_batch_end(start)
    assert follow.plan_batch(start, end, cores=2).works
    assert len(listings) == 3


def test_a_stream_starts_at_the_requested_offsets(tmp_path):
    append_records(tmp_path, 100, 50)
    assert LogFollower(ReadOptions(paths=(str(tmp_path),), start=LATEST)).find_start_offsets().offsets == {
        ("t", 0): 150
    }
    assert follower(tmp_path, startingOffsets='{"t": {"0": 120}}').find_start_offsets().offsets == {("t", 0): 120}
    assert follower(tmp_path, startingTimestamp="1133").find_start_offsets().offsets == {("t", 0): 133}
    with pytest.raises(OptionError, match="lost to retention"):
        follower(tmp_path, startingOffsets='{"t": {"0": 7}}').find_start_offsets()


@pytest.mark.parametrize(
    "options", [{"endingOffsets": '{"t": {"0": 9}}'}, {"endingTimestamp": "9"}, {"table": "batches"}]
)
def test_settings_that_streams_do_not_support_are_rejected(options, tmp_path):
    with pytest.raises(OptionError, match="batch reads"):
        follower(tmp_path, **options)


@given(st.dictionaries(st.tuples(st.sampled_from(["a", "b-1"]), st.integers(0, 30)), st.integers(0, 2**62)))
def test_offsets_have_the_form_of_sparks_kafka_source(offsets):
    assert flatten_topics(nest_by_topic(offsets)) == offsets


def test_a_spark_version_without_read_limits_is_reported(monkeypatch):
    monkeypatch.delitem(sys.modules, "kafkaframes.spark.sources.log_stream", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    source = KafkaLogDataSource({"path": "/data"})
    with pytest.raises(OptionError, match=r"needs Spark 4\.2 or later"):
        source.streamReader(None)


def appended_rows(path):
    return AppendedRowReader([str(path)], columns=("offset", "value"), row_filter=NO_CONDITIONS, storage={})


def values_of(rows):
    return [value for batch in rows.read_new_rows() for value in batch.column("value").to_pylist()]


def write_values(path, base, *values, suffix=""):
    path.mkdir(exist_ok=True)
    raw = b"".join(bytes(build_records({"value": [value]}, base_offset=base + at)) for at, value in enumerate(values))
    (path / f"{base:020}.log{suffix}").write_bytes(raw)


def test_a_segment_rewritten_by_the_cleaner_adds_no_duplicates(tmp_path):
    """A swap file has another path, and a cleaned segment another size, but offsets identify the rows already read."""
    partition = tmp_path / "t-0"
    write_values(partition, 0, b"0", b"1", b"2")
    write_values(partition, 3, b"3")
    rows = appended_rows(tmp_path)
    assert values_of(rows) == [b"0", b"1", b"2", b"3"]
    write_values(partition, 0, b"0", b"1", suffix=".swap")
    assert values_of(rows) == []
    (partition / f"{0:020}.log.swap").rename(partition / f"{0:020}.log")
    write_values(partition, 3, b"3", b"4")
    assert values_of(rows) == [b"4"]


@pytest.mark.parametrize("topic_ids", [("", ""), ("A" * 21 + "Q", "A" * 21 + "g")], ids=["shorter", "another id"])
def test_a_recreated_log_is_read_from_its_start(tmp_path, topic_ids):
    partition = tmp_path / "t-0"
    old, new = ([b"0", b"1", b"2"], [b"a"]) if not topic_ids[0] else ([b"0"], [b"a", b"b"])
    for values, topic_id in zip((old, new), topic_ids, strict=True):
        write_values(partition, 0, *values)
        if topic_id:
            (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
        if values is old:
            rows = appended_rows(tmp_path)
        assert values_of(rows) == values
