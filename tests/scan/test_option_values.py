"""Texts of options: one home for what sources and sinks read alike."""

from functools import partial

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.scan.capture.options import SourceOptions
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.option_values import boolean, given_paths, one_of, parsed, positive
from kafkaframes.scan.topic.options import TopicOptions, TopicWriteOptions
from kafkaframes.spark.write_options import parse_write

TOPIC = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


@pytest.mark.parametrize(
    ("parse", "options"),
    [
        (ReadOptions.parse, {"path": "/x", "minPartitions": "many"}),
        (SourceOptions.parse, {"path": "/x", "minPartitions": "many"}),
        (partial(TopicOptions.parse, is_stream=False), {**TOPIC, "minPartitions": "many"}),
        (parse_write, {"path": "/x", "numPartitions": "many"}),
    ],
)
def test_a_number_that_is_none_is_told_alike_everywhere(parse, options):
    with pytest.raises(OptionError, match="Partitions=many: must be a whole number above 0"):
        parse(options)


def test_a_text_that_is_no_whole_number_is_told_in_plain_words():
    with pytest.raises(OptionError, match="option level=high: must be a whole number"):
        parse_write({"path": "/x", "level": "high"})
    for name in ("recordFormat", "driverPort"):
        with pytest.raises(OptionError, match=f"option {name}=v2: must be a whole number"):
            TopicWriteOptions.parse({"kafka.bootstrap.servers": "localhost:9092", name: "v2"})


@pytest.mark.parametrize("parse", [ReadOptions.parse, SourceOptions.parse])
@pytest.mark.parametrize("paths", ["5", "[5]", '"abc"', '[""]', "{", '{"a": 1}'])
def test_paths_that_are_no_list_of_paths_are_told(parse, paths):
    with pytest.raises(OptionError, match="must be a JSON list of paths"):
        parse({"paths": paths})


def test_paths_come_behind_the_path():
    given = {"path": "/a", "paths": '["/b", "/c"]'}
    assert given_paths(given, source="kafka-log", example="/x") == ("/a", "/b", "/c")
    with pytest.raises(OptionError, match=r'kafka-log needs a path: .*load\("/x"\)'):
        given_paths({}, source="kafka-log", example="/x")


def test_letter_case_does_not_count_and_the_option_is_named():
    assert boolean("TRUE") is True
    assert one_of(("PERMISSIVE", "FAILFAST"))("failfast") == "FAILFAST"
    with pytest.raises(OptionError, match="option table=rows: must be one of records, batches"):
        parsed("table", one_of(("records", "batches")), "rows")
    with pytest.raises(OptionError, match="option x=0: must be a whole number above 0"):
        parsed("x", positive, "0")
