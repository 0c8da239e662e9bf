"""Texts of options, as sources and sinks read them alike."""

from functools import partial

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.spark.options.capture_options import capture_options
from kafkaframes.spark.options.log_options import log_options
from kafkaframes.spark.options.option_values import boolean, choice_parser, load_paths, parse_value, positive
from kafkaframes.spark.options.topic_options import topic_options, topic_write_options
from kafkaframes.spark.options.write_options import parse_write

TOPIC = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


@pytest.mark.parametrize(
    ("parse", "options"),
    [
        (log_options, {"path": "/x", "minPartitions": "many"}),
        (capture_options, {"path": "/x", "minPartitions": "many"}),
        (partial(topic_options, is_stream=False), {**TOPIC, "minPartitions": "many"}),
        (parse_write, {"path": "/x", "numPartitions": "many"}),
    ],
)
def test_a_number_that_is_none_is_told_alike_everywhere(parse, options):
    with pytest.raises(OptionError, match="Partitions=many: must be an integer greater than 0"):
        parse(options)


def test_a_text_that_is_no_whole_number_is_told_in_plain_words():
    with pytest.raises(OptionError, match="option level=high: must be an integer"):
        parse_write({"path": "/x", "level": "high"})
    for name in ("recordFormat", "driverPort"):
        with pytest.raises(OptionError, match=f"option {name}=v2: must be an integer"):
            topic_write_options({"kafka.bootstrap.servers": "localhost:9092", name: "v2"})


@pytest.mark.parametrize("parse", [log_options, capture_options])
@pytest.mark.parametrize("paths", ["5", "[5]", '"abc"', '[""]', "{", '{"a": 1}'])
def test_paths_that_are_no_list_of_paths_are_told(parse, paths):
    with pytest.raises(OptionError, match="must be a JSON list of paths"):
        parse({"paths": paths})


def test_paths_come_behind_the_path():
    read_options = {"path": "/a", "paths": '["/b", "/c"]'}
    assert load_paths(read_options, source="kafka-log", example="/x") == ("/a", "/b", "/c")
    with pytest.raises(OptionError, match=r'kafka-log needs a path: .*load\("/x"\)'):
        load_paths({}, source="kafka-log", example="/x")


def test_letter_case_does_not_count_and_the_option_is_named():
    assert boolean("TRUE") is True
    assert choice_parser(("PERMISSIVE", "FAILFAST"))("failfast") == "FAILFAST"
    with pytest.raises(OptionError, match="option table=rows: must be one of records, batches"):
        parse_value("table", choice_parser(("records", "batches")), "rows")
    with pytest.raises(OptionError, match="option x=0: must be an integer greater than 0"):
        parse_value("x", positive, "0")
