"""The requests of a live topic read before its tasks begin; without a JVM."""

import json

import pyarrow as pa
import pytest
from tests.spark.topics import recreate_topic

from kafkaframes.client import Producer, TopicPartition
from kafkaframes.errors import OptionError
from kafkaframes.scan.topic.planning import TopicLookups, plan_topic
from kafkaframes.spark.options import parse_topic_options

NOON_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def filled_topic(servers):
    """Two partitions with a hundred small and then a hundred large records, one per second, and an empty partition."""
    recreate_topic(servers, "planned", 2)
    sizes = [10] * 100 + [1000] * 100
    columns = {
        "value": [b"v" * size for size in sizes],
        "partition": pa.array([0] * 200, pa.int32()),
        "timestamp": pa.array([NOON_MS + 1000 * number for number in range(200)], pa.int64()),
    }
    with Producer(servers, batch_size=2_000) as producer:
        producer.send_arrow(pa.table(columns), topic="planned")
    return servers


def lookups(servers, **options):
    topic_settings = {"kafka.bootstrap.servers": servers, "subscribe": "planned", **options}
    return TopicLookups(parse_topic_options(topic_settings, is_stream=False))


ZERO, ONE = TopicPartition("planned", 0), TopicPartition("planned", 1)


def test_partitions_are_selected_by_name_pattern_or_assignment(filled_topic):
    for options in ({}, {"subscribe": None, "subscribePattern": "plan.*"}):
        topic_settings = {
            name: value for name, value in ({"subscribe": "planned"} | options).items() if value is not None
        }
        with TopicLookups(
            parse_topic_options({"kafka.bootstrap.servers": filled_topic, **topic_settings}, is_stream=False)
        ) as topic_lookups:
            assert topic_lookups.find_partitions() == [ZERO, ONE]
    assigned_settings = {"kafka.bootstrap.servers": filled_topic, "assign": '{"planned": [1, 7]}'}
    with (
        TopicLookups(parse_topic_options(assigned_settings, is_stream=False)) as lookups_used,
        pytest.raises(OptionError, match="the cluster does not have the topic partition planned-7"),
    ):
        lookups_used.find_partitions()


def test_starts_are_offsets_or_times_for_all_partitions(filled_topic):
    starting = json.dumps({"planned": {"0": 7, "1": -2}})
    with lookups(filled_topic, startingOffsets=starting) as topic_lookups:
        assert topic_lookups.find_start_offsets([ZERO, ONE]) == {ZERO: 7, ONE: 0}
        with pytest.raises(OptionError, match="contains planned-1, which the read does not"):
            topic_lookups.find_start_offsets([ZERO])
    with lookups(
        filled_topic, startingTimestamp=str(NOON_MS + 50_000), endingTimestamp=str(NOON_MS + 60_500)
    ) as lookups_used:
        assert (lookups_used.find_start_offsets([ZERO]), lookups_used.find_end_offsets([ZERO, ONE])) == (
            {ZERO: 50},
            {ZERO: 61, ONE: 0},
        )
        with pytest.raises(OptionError, match="start_time`: planned-1 has no record at or after the time"):
            lookups_used.find_start_offsets([ZERO, ONE])


def test_ranges_are_split_by_bytes_or_by_a_number_of_records(filled_topic):
    with lookups(filled_topic) as topic_lookups:
        assert [(one.first, one.end) for one in topic_lookups.plan_ranges({ZERO: 0, ONE: 0}, {ZERO: 200, ONE: 0})] == [
            (0, 200)
        ]
    with lookups(filled_topic, minPartitions="4") as topic_lookups:
        pieces = topic_lookups.plan_ranges({ZERO: 0}, {ZERO: 200})
        assert [piece.first for piece in pieces] == [0, *(piece.end for piece in pieces[:-1])]
        assert len(pieces) == 4
        assert pieces[0].end > 60  # all small records are less than a quarter of the bytes
    with lookups(filled_topic, maxRecordsPerPartition="60") as lookups_used:
        assert [(one.first, one.end) for one in lookups_used.plan_ranges({ZERO: 0}, {ZERO: 200})] == [
            (0, 50),
            (50, 100),
            (100, 150),
            (150, 200),
        ]


def test_missing_offsets_are_an_error_or_skipped(filled_topic, caplog):
    with (
        lookups(filled_topic) as topic_lookups,
        pytest.raises(OptionError, match="offset 900 of planned-0 is beyond the log's end 200"),
    ):
        topic_lookups.check_retained_offsets({ZERO: 900})
    with lookups(filled_topic, failOnDataLoss="false") as lookups_used:
        assert lookups_used.check_retained_offsets({ZERO: 900, ONE: 0}) == {ZERO: 200, ONE: 0}
    assert "the existing records are read" in caplog.text


def test_a_read_that_starts_after_its_end_is_rejected_regardless_of_data_loss_settings(filled_topic):
    from kafkaframes.spark.sources.kafka_topic import KafkaTopicReader

    starts = '{"planned": {"0": 30, "1": 0}}'
    topic_settings = {"kafka.bootstrap.servers": filled_topic, "subscribe": "planned", "startingOffsets": starts}
    for ends, fails_on_data_loss in (
        ('{"planned": {"0": 20, "1": 0}}', "true"),
        ('{"planned": {"0": 29, "1": 0}}', "false"),
    ):
        options = parse_topic_options(
            {**topic_settings, "endingOffsets": ends, "failOnDataLoss": fails_on_data_loss}, is_stream=False
        )
        with pytest.raises(OptionError, match=r"planned-0 starts at 30, after its end (20|29): the range is empty"):
            KafkaTopicReader(options, ()).partitions()
    nothing = parse_topic_options({**topic_settings, "endingOffsets": starts}, is_stream=False)
    assert [piece.value for piece in KafkaTopicReader(nothing, ()).partitions()] == [None]


def test_only_a_plan_with_a_report_looks_up_open_transactions(filled_topic, monkeypatch):
    plans = []
    monkeypatch.setattr(TopicLookups, "find_hidden_records", lambda self, bounds: plans.append(bounds) or [])
    topic_settings = {
        "kafka.bootstrap.servers": filled_topic,
        "subscribe": "planned",
        "kafka.isolation.level": "read_committed",
    }
    options = parse_topic_options(topic_settings, is_stream=False)
    ranges = plan_topic(options)
    assert [(one.partition, one.first, one.end) for one in ranges] == [(0, 0, 200)]
    assert plans == []
    notes = []
    assert plan_topic(options, report=notes.append) == ranges
    assert notes == []
    assert len(plans) == 1
