"""Options and columns of a write, without a JVM."""

import pytest

from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.jobs.restore.writing import WriteSettings
from kafkaframes.spark.options import parse_log_write_options
from kafkaframes.spark.sinks.columns import check_columns


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codek": "lz4"}, "unknown option codek: did you mean codec"),
        ({"colour": "red"}, "unknown option colour; to write, kafka-log has the options topic, numPartitions"),
        ({"numPartitions": "0"}, "option numPartitions=0: must be an integer greater than 0"),
        ({"recordFormat": "v3"}, "option recordFormat=v3: must be v2, v1 or v0"),
        ({"topicIds": "[1]"}, "option topicIds="),
        ({"offsets": "maybe"}, "assign or keep"),
        ({"codec": "brotli"}, "brotli"),
        ({"recordFormat": "v1", "codec": "zstd"}, "zstd requires record format 2"),
        ({"topic": "a/b"}, "'a/b' is not a valid topic name"),
        ({"segmentSize": "4g"}, "segment_bytes is 4294967296; expected 1 to"),
    ],
)
def test_invalid_options_are_named(options, message):
    with pytest.raises(KafkaframesError, match=message):
        parse_log_write_options({"path": "/data"} | options)


def test_a_path_is_required():
    with pytest.raises(OptionError, match="needs a path"):
        parse_log_write_options({"topic": "t"})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": "binary"}, "a column named value is required"),
        ({"value": "int"}, "column value is binary or string, not int"),
        ({"value": "binary", "partition": "string"}, "column partition is int, not string"),
        ({"value": "binary", "colour": "string"}, "column colour: must be one of key, value"),
    ],
)
def test_invalid_columns_are_named(columns, message):
    with pytest.raises(OptionError, match=message):
        check_columns(columns, WriteSettings(now_ms=0, topic="t"))


def test_a_topic_and_the_offsets_to_keep_are_required():
    with pytest.raises(OptionError, match="the topic is missing"):
        check_columns({"value": "binary"}, WriteSettings(now_ms=0))
    with pytest.raises(OptionError, match="requires the column offset"):
        check_columns({"value": "binary"}, WriteSettings(now_ms=0, topic="t", keep_offsets=True))


def test_columns_of_the_source_may_be_written():
    columns = {"key": "binary", "value": "binary", "topic": "string", "timestampType": "int", "magic": "tinyint"}
    check_columns(columns, WriteSettings(now_ms=0))
