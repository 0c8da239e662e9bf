"""The summary of a log that Spark has read: the figures of the truth, and what damage cost."""

import pytest

import kafkaframes
from kafkaframes.spark.dataframes.summary import summarize


@pytest.mark.spark
def test_what_damage_cost_is_told_of_a_topic_whose_name_is_a_number(spark, tmp_path):
    records = [{"key": b"k", "value": b"v" * 50}] * 10
    raw = bytearray(kafkaframes.build_records(records, batch_records=5) + b"\0" * 40)
    raw[8 + 4 + int.from_bytes(raw[8:12], "big") + 22] = 7  # the second batch's codec
    (tmp_path / "2024-0").mkdir()
    (tmp_path / "2024-0" / f"{0:020}.log").write_bytes(raw)
    summary = summarize(spark, str(tmp_path / "2024-0"), to=str(tmp_path / "out"))
    assert summary.records == 5
    assert [topic.topic for topic in summary.topics] == ["2024"]
    assert sorted((one.reason, one.batches, one.records) for one in summary.dropped) == [
        ("the codec's number is unknown to Kafka", 1, 5),
        ("the size of a batch is below the least possible (14)", 1, None),
    ]
