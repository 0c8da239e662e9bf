"""Option texts, parsed in the same way by all sources and sinks."""

from dataclasses import fields
from functools import partial

import pytest

from kafkaframes.capture.columns import TABLE_COLUMNS
from kafkaframes.capture.reader import CaptureOptions
from kafkaframes.errors import OptionError
from kafkaframes.jobs.restore.writing.routing import DEFAULT_MAX_MESSAGE_BYTES, WriteSettings
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.option_texts import create_choice_parser, parse_boolean, parse_positive_integer
from kafkaframes.scan.selection import READER_DEFAULTS, ReaderDefaults
from kafkaframes.scan.topic.options import TopicOptions, TopicWriteOptions
from kafkaframes.spark.options import (
    CAPTURE_OPTIONS,
    CAPTURE_TABLES,
    DECODE_OPTIONS,
    LOG_OPTIONS,
    LOG_WRITE_OPTIONS,
    TOPIC_OPTIONS,
    TOPIC_WRITE_OPTIONS,
    parse_capture_options,
    parse_load_paths,
    parse_log_options,
    parse_log_write_options,
    parse_topic_options,
    parse_topic_write_options,
    parse_value,
)

TOPIC = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


@pytest.mark.parametrize(
    ("parse", "options"),
    [
        (parse_log_options, {"path": "/x", "minPartitions": "many"}),
        (parse_capture_options, {"path": "/x", "minPartitions": "many"}),
        (partial(parse_topic_options, is_stream=False), {**TOPIC, "minPartitions": "many"}),
        (parse_log_write_options, {"path": "/x", "numPartitions": "many"}),
    ],
)
def test_an_invalid_number_is_reported_in_the_same_way_everywhere(parse, options):
    with pytest.raises(OptionError, match="Partitions=many: must be an integer greater than 0"):
        parse(options)


def test_a_text_that_is_not_an_integer_is_reported_plainly():
    with pytest.raises(OptionError, match="option level=high: must be an integer"):
        parse_log_write_options({"path": "/x", "level": "high"})
    for name in ("recordFormat", "driverPort"):
        with pytest.raises(OptionError, match=f"option {name}=v2: must be an integer"):
            parse_topic_write_options({"kafka.bootstrap.servers": "localhost:9092", name: "v2"})


@pytest.mark.parametrize("parse", [parse_log_options, parse_capture_options])
@pytest.mark.parametrize("paths", ["5", "[5]", '"abc"', '[""]', "{", '{"a": 1}'])
def test_an_invalid_list_of_paths_is_reported(parse, paths):
    with pytest.raises(OptionError, match="must be a JSON list of paths"):
        parse({"paths": paths})


def test_paths_follow_the_path():
    read_options = {"path": "/a", "paths": '["/b", "/c"]'}
    assert parse_load_paths(read_options, source="kafka-log", example="/x") == ("/a", "/b", "/c")
    with pytest.raises(OptionError, match=r'kafka-log needs a path: .*load\("/x"\)'):
        parse_load_paths({}, source="kafka-log", example="/x")


def test_the_tables_name_settings_and_their_values():
    decoding = {option.setting for option in DECODE_OPTIONS}
    times = {"start_time", "start_times", "end_time", "end_times"}
    for table, settings, others in (
        (LOG_OPTIONS, ReadOptions, decoding | times | {"key_files", "follow_links"}),
        (TOPIC_OPTIONS, TopicOptions, decoding | times | {"decode", "retries", "retry_interval_ms", "group_prefix"}),
        (LOG_WRITE_OPTIONS, WriteSettings, set()),
        (TOPIC_WRITE_OPTIONS, TopicWriteOptions, {"record_format"}),
        (CAPTURE_OPTIONS, CaptureOptions, {"", "min_partitions", "quiet_seconds", "max_files"}),
    ):
        assert {option.setting for option in table.values()} - {field.name for field in fields(settings)} == others
    assert set(CAPTURE_TABLES) == set(TABLE_COLUMNS)
    assert LOG_WRITE_OPTIONS["maxmessagebytes"].default == str(DEFAULT_MAX_MESSAGE_BYTES)


def test_the_defaults_equal_those_of_the_selection_table():
    log, topic = parse_log_options({"path": "/x"}), parse_topic_options(TOPIC, is_stream=False)
    for name, options in (("kafka-log", log), ("kafka-topic", topic)):
        assert READER_DEFAULTS[name] == ReaderDefaults(
            options.isolation, control_records=options.include_control, on_damage=options.on_damage
        )


def test_the_ports_of_a_capture_are_numbers_and_ranges():
    with pytest.raises(
        OptionError, match="option ports=9092,x: must be port numbers and ranges, such as 9092,9094-9096"
    ):
        parse_capture_options({"path": "/x", "ports": "9092,x"})


def test_values_are_case_insensitive_and_the_option_is_named():
    assert parse_boolean("TRUE") is True
    assert create_choice_parser(("PERMISSIVE", "FAILFAST"))("failfast") == "FAILFAST"
    with pytest.raises(OptionError, match="option table=rows: must be one of records, batches"):
        parse_value("table", create_choice_parser(("records", "batches")), "rows")
    with pytest.raises(OptionError, match="option x=0: must be an integer greater than 0"):
        parse_value("x", parse_positive_integer, "0")
