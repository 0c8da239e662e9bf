"""``read_records`` of directories: topics and partitions as columns, whole tables, and an Arrow stream."""

from pathlib import Path

import pyarrow as pa
import pytest

import kafkaframes
from kafkaframes.errors import OptionError

EXAMPLE_LOG_DIR = Path(__file__).parents[2] / "data" / "examples" / "kafka-4.3"
LOG_WITH_DELETED_RECORDS = Path(__file__).parents[2] / "data" / "logs" / "deleted-records"


@pytest.fixture
def log(tmp_path):
    for name in ("orders-0", "orders-1", "users-0", "__consumer_offsets-0"):
        (tmp_path / name).mkdir()
        for base in (0, 5):
            rows = [{"key": b"k", "value": b"%s %d" % (name.encode(), base)}] * 5
            (tmp_path / name / f"{base:020}.log").write_bytes(kafkaframes.build_records(rows, base_offset=base))
    return tmp_path


def test_a_directory_has_topics_and_partitions(log):
    records = kafkaframes.read_records(log)
    assert records.schema.names[:3] == ["topic", "partition", "offset"]
    table = records.read_all()
    counts = table.group_by(["topic", "partition"]).aggregate([("offset", "count"), ("offset", "max")]).to_pylist()
    assert sorted(
        (count["topic"], count["partition"], count["offset_count"], count["offset_max"]) for count in counts
    ) == [
        ("orders", 0, 10, 9),
        ("orders", 1, 10, 9),
        ("users", 0, 10, 9),
    ]
    assert all(row["value"].startswith(f"{row['topic']}-{row['partition']}".encode()) for row in table.to_pylist())


def test_topics_are_selected_and_a_misspelt_one_is_rejected(log):
    assert set(kafkaframes.read_records(log, topics=["user*"]).read_all()["topic"].to_pylist()) == {"users"}
    assert kafkaframes.read_records(log, topics=["__consumer_offsets"]).read_all().num_rows == 10
    assert kafkaframes.read_records(log / "__consumer_offsets-0").read_all().num_rows == 10
    with pytest.raises(OptionError, match=r"no topic order: did you mean orders\?"):
        kafkaframes.read_records(log, topics=["order"]).read_all()


def test_a_partition_a_pattern_and_a_segment_are_read(log):
    assert set(kafkaframes.read_records(log / "orders-1").read_all()["partition"].to_pylist()) == {1}
    assert kafkaframes.read_records(f"{log}/orders-*").read_all().num_rows == 20
    segment = log / "orders-1" / f"{5:020}.log"
    assert "topic" not in kafkaframes.read_records(segment).schema.names
    rows = kafkaframes.read_records(segment, columns=["offset", "partition", "topic"]).read_all().to_pylist()
    assert rows[0] == {"offset": 5, "partition": 1, "topic": "orders"}
    assert kafkaframes.read_records(log / "orders-1", columns=["topic"], start=8).read_all().num_rows == 2


def test_errors_for_unknown_columns_suggest_the_nearest_name(log):
    with pytest.raises(OptionError, match="column 'topics' does not exist; did you mean 'topic'"):
        kafkaframes.read_records(log, columns=["topics"])
    with pytest.raises(OptionError, match="column 'topic' does not exist; expected one of"):
        kafkaframes.read_records(b"", columns=["topic"])


def test_records_are_an_arrow_stream(log):
    records = pa.RecordBatchReader.from_stream(kafkaframes.read_records(log, columns=["topic", "offset"]))
    assert records.read_all().num_rows == 30
    assert len(kafkaframes.read_records(log).to_pandas()) == 30
    assert kafkaframes.read_records(b"").read_all().num_rows == 0


def test_directories_and_segments_give_equal_records_from_the_log_start():
    table = kafkaframes.read_records(LOG_WITH_DELETED_RECORDS, columns=["topic", "partition", "offset"]).read_all()
    assert table.num_rows > 0
    from kafkaframes.storage.log.discover import discover

    for one in discover(str(LOG_WITH_DELETED_RECORDS))[0].partitions:
        mine = [
            row["offset"] for row in table.to_pylist() if (row["topic"], row["partition"]) == (one.topic, one.partition)
        ]
        assert min(mine, default=one.log_start_offset) >= one.log_start_offset


@pytest.mark.parametrize("replicas", ["merge", "all"])
def test_directories_of_several_brokers_are_read_as_one_log_or_separately(tmp_path, replicas):
    for broker in ("one", "two"):
        (tmp_path / broker / "t-0").mkdir(parents=True)
        data = kafkaframes.build_records([{"value": b"x"}] * 7, leader_epoch=0)
        (tmp_path / broker / "t-0" / f"{0:020}.log").write_bytes(data)
    records = kafkaframes.read_records([tmp_path / "one", tmp_path / "two"], replicas=replicas).read_all()
    assert records.num_rows == (7 if replicas == "merge" else 14)
