"""A mirror of a range: the copy has the records that a scan with the same arguments reads, each once."""

import pytest
from tests.jobs.mirror.worlds import TIMES, logs_of, run_mirror

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic, Producer, TopicPartition
from kafkaframes.errors import OptionError
from kafkaframes.records.scan import scan_all

RECORD_COUNT = 60
COLUMNS = ("partition", "offset", "timestamp", "key", "value")


@pytest.fixture
def source():
    """Two partitions with six batches of ten records each, the fourth of an aborted transaction."""
    with Broker() as broker:
        servers = broker.bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name="t", num_partitions=3), NewTopic(name="u", num_partitions=1)])
        for partition in (0, 1):
            for batch in range(6):
                rows = {
                    "value": [b"%d" % (batch * 10 + number) for number in range(10)],
                    "timestamp": [TIMES + batch * 10 + number for number in range(10)],
                }
                broker.append("t", rows, partition=partition)
        yield broker


def rows_in(servers, **keywords):
    table = kafkaframes.scan_topic(servers, "t", **keywords).select(*COLUMNS).to_arrow()
    return [tuple(row.values()) for row in table.to_pylist()]


RANGES = [
    {"start": 13, "end": 37},
    {"end": 5},
    {"start": 55},
    {"start": {"t": {0: 3, 1: 18, 2: 0}}, "end": {"t": {0: 9, 1: 31, 2: 0}}},
    {"partitions": 1, "start": 13, "end": 14},
    {"partitions": [0, 1], "start": "2025-10-09T08:53:20.013Z", "end": "2025-10-09T08:53:20.037Z"},
]


@pytest.mark.parametrize("keywords", RANGES, ids=str)
@pytest.mark.parametrize("offsets", ["keep", "reassign"])
def test_a_copy_of_a_range_has_the_records_of_a_scan(source, tmp_path, offsets, keywords):
    with Broker() as target:
        settings = {"offsets": offsets, "state_dir": str(tmp_path / "state"), "topics": "t", **keywords}
        report = run_mirror(source.bootstrap_servers, target.bootstrap_servers, **settings)
        source_rows = rows_in(source.bootstrap_servers, **keywords)
        assert source_rows
        rows = rows_in(target.bootstrap_servers)
        assert sum(one.records_written for one in report.partitions) == len(rows)
        if offsets == "keep":
            assert rows == source_rows
        assert [row[:1] + row[2:] for row in rows] == [row[:1] + row[2:] for row in source_rows]
        again = run_mirror(source.bootstrap_servers, target.bootstrap_servers, **settings)
        assert sum(one.records_read for one in again.partitions) == 0


@pytest.mark.parametrize("offsets", ["keep", "reassign"])
def test_a_later_run_continues_inside_of_a_batch(source, tmp_path, offsets):
    """The copy ends inside of a source batch, so that the next run must not copy its first records again."""
    with Broker() as target:
        settings = {"offsets": offsets, "state_dir": str(tmp_path / "state"), "topics": "t"}
        for end in (17, 18, 40, None):
            report = run_mirror(source.bootstrap_servers, target.bootstrap_servers, **settings, start=4, end=end)
            assert all(one.resumed for one in report.partitions if one.partition < 2) == (end != 17)
            rows = rows_in(target.bootstrap_servers)
            source_rows = rows_in(source.bootstrap_servers, start=4, end=end)
            assert [row[:1] + row[2:] for row in rows] == [row[:1] + row[2:] for row in source_rows]


def test_a_copy_in_a_directory_ends_at_the_ends_of_the_range(source, tmp_path):
    run_mirror(source.bootstrap_servers, tmp_path / "copy", topics="t", partitions=0, start=13, end=37)
    logs = logs_of(tmp_path / "copy")
    start, data = logs[TopicPartition("t", 0)]
    batches = scan_all(data)
    assert (start, int(batches.column("last_offset")[-1])) == (13, 36)
    assert kafkaframes.verify_log(tmp_path / "copy", topics="t").report.is_sound
    source_batches = scan_all(logs_of_broker(source, tmp_path))
    whole = {get_frame_bytes(source_batches, row) for row in (2,)}
    assert whole <= {get_frame_bytes(batches, row) for row in range(len(batches))}  # other batches keep their bytes


def logs_of_broker(broker, tmp_path):
    run_mirror(broker.bootstrap_servers, tmp_path / "whole", topics="t")
    return logs_of(tmp_path / "whole")[TopicPartition("t", 0)][1]


def get_frame_bytes(batches, row):
    return int(batches.column("base_offset")[row]), int(batches.column("crc")[row])


def test_committed_offsets_are_limited_to_the_copy(source):
    with Broker() as target, Admin(source.bootstrap_servers) as admin, Admin(target.bootstrap_servers) as copy:
        for group, offset in (("before", 2), ("inside", 20), ("after", 55)):
            admin.alter_group_offsets(group, {TopicPartition("t", 0): offset})
        run_mirror(source.bootstrap_servers, target.bootstrap_servers, topics="t", partitions=0, start=13, end=37)
        offsets_by_group = {
            group: copy.group_offsets(group)[TopicPartition("t", 0)].offset for group in ("before", "inside", "after")
        }
        assert offsets_by_group == {"before": 13, "inside": 20, "after": 37}


def test_the_committed_offsets_of_a_group_are_a_start(source):
    with Broker() as target, Admin(source.bootstrap_servers) as admin:
        admin.alter_group_offsets("g", {TopicPartition("t", 0): 42})
        settings = {"topics": "t", "partitions": 0, "start": "group:g", "groups": False}
        run_mirror(source.bootstrap_servers, target.bootstrap_servers, **settings, end=50)
        assert [row[1] for row in rows_in(target.bootstrap_servers)] == list(range(42, 50))
        admin.alter_group_offsets("g", {TopicPartition("t", 0): 58})  # does not leave a gap
        run_mirror(source.bootstrap_servers, target.bootstrap_servers, **settings)
        assert [row[1] for row in rows_in(target.bootstrap_servers)] == list(range(42, 60))


def test_a_start_after_the_end_of_the_copy_is_an_error(source):
    with Broker() as target:
        run_mirror(source.bootstrap_servers, target.bootstrap_servers, topics="t", end=20)
        with pytest.raises(OptionError, match="the copy of t-0 ends at offset 20, and a start at 30 would leave a gap"):
            run_mirror(source.bootstrap_servers, target.bootstrap_servers, topics="t", start=30)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"start": RECORD_COUNT + 1}, "`start`: .*t-0.* the log's end 60"),
        ({"end": RECORD_COUNT + 1}, "`end`: .*t-0.* the log's end 60"),
        ({"partitions": 7}, "no selected topic has the partition 7"),
        ({"start": {"t": {0: 5}}}, "t-1"),
        ({"start": "latest"}, "cannot start at latest"),
        ({"end": "group:g"}, "`end` cannot be a group"),
        ({"follow": True, "end": 5}, "`end` and `follow` cannot be combined"),
    ],
    ids=str,
)
def test_a_range_that_the_source_does_not_have_leaves_no_copy(source, tmp_path, keywords, message):
    with pytest.raises(OptionError, match=message):
        run_mirror(source.bootstrap_servers, tmp_path / "copy", topics="t", **keywords)
    assert not (tmp_path / "copy").exists()


def test_a_transaction_that_crosses_the_end_stays_open_in_the_copy(tmp_path):
    """As in the source at that offset: read_committed consumers wait for its marker, which a later run copies."""
    with Broker() as source, Broker() as target:
        with Admin(source.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name="t", num_partitions=1)])
        with Producer(source.bootstrap_servers, transactional_id="x") as producer:
            producer.begin_transaction()
            for number in range(4):
                producer.send("t", b"%d" % number, partition=0).result()
            producer.commit_transaction()
        run_mirror(source.bootstrap_servers, target.bootstrap_servers, topics="t", end=2)
        assert rows_in(target.bootstrap_servers) == []
        run_mirror(source.bootstrap_servers, target.bootstrap_servers, topics="t")
        assert rows_in(target.bootstrap_servers) == rows_in(source.bootstrap_servers)


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("record_format", [0, 1])
@pytest.mark.parametrize("keywords", RANGES[:-1], ids=str)
@pytest.mark.parametrize("offsets", ["keep", "reassign"])
def test_a_range_of_old_formats_is_copied(tmp_path, offsets, keywords, record_format, codec):
    """A compressed message holds several records, so a range starts and ends inside of it."""
    with Broker() as old_source, Broker() as target:
        servers = old_source.bootstrap_servers
        with Admin(servers) as admin:
            configs = {"message.format.version": "0.9.0" if record_format == 0 else "0.10.2"}
            admin.create_topics([NewTopic(name="t", num_partitions=3, configs=configs)])
        for partition in (0, 1):
            with Producer(servers, record_format=record_format, compression_type=codec) as producer:
                for batch in range(6):
                    for number in range(10):
                        producer.send("t", b"%d" % (batch * 10 + number), partition=partition)
                    producer.flush()
        settings = {"offsets": offsets, "state_dir": str(tmp_path / "state"), "topics": "t", **keywords}
        run_mirror(servers, target.bootstrap_servers, **settings)
        source_rows = rows_in(servers, **keywords)
        assert source_rows
        rows = rows_in(target.bootstrap_servers)
        if offsets == "keep":
            assert rows == source_rows
        assert [row[:1] + row[3:] for row in rows] == [row[:1] + row[3:] for row in source_rows]
        again = run_mirror(servers, target.bootstrap_servers, **settings)
        assert sum(one.batches_read for one in again.partitions) == 0
