"""Options: Spark's texts parsed into one validated value."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import OptionError
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.ranges import EARLIEST, LATEST, TimeBound, check_batch_start
from kafkaframes.spark.options import DECODE_OPTIONS, LOG_OPTIONS, parse_log_options

DECODING = {option.name.lower() for option in DECODE_OPTIONS}


def parse(**options):
    return parse_log_options({"path": "/data", **options})


def test_options_have_their_defaults():
    assert parse() == ReadOptions(paths=("/data",))
    assert (parse().start, parse().end, parse().on_damage) == (EARLIEST, LATEST, "keep")
    assert parse().max_bytes_per_partition == 128 * 1024 * 1024


@given(st.sampled_from(sorted(LOG_OPTIONS.keys() - DECODING)), st.randoms(use_true_random=False))
def test_option_names_are_case_insensitive(name, random):
    text = {"assign": '{"t": [0]}', "startingoffsets": "earliest", "endingoffsets": "latest", "mode": "failfast"}
    text |= {"decode": "internal", "replicas": "all", "timestamperrors": "null"}
    text |= {"startingoffsetsbytimestampstrategy": "latest", "isolation": "read_committed", "table": "batches"}
    text |= dict.fromkeys(("startingoffsetsbytimestamp", "endingoffsetsbytimestamp"), '{"t": {"0": 5}}')
    text |= dict.fromkeys(("startingtimestamp", "endingtimestamp", "maxoffsetspertrigger"), "5")
    text |= {
        "budgetbytes": "64m",
        "maxbytespertrigger": "1m",
        "paths": '["/data"]',
        "minpartitions": "3",
        "maxbytesperpartition": "1m",
    }
    value = text.get(name, "true")
    mixed_case_name = "".join(random.choice((c.upper(), c.lower())) for c in name)
    assert (
        parse_log_options({"path": "/data", name: value})
        == parse_log_options({"path": "/data"} | {mixed_case_name: value})
        or name == "path"
    )


def test_a_list_of_paths_is_json():
    assert parse_log_options({"paths": json.dumps(["/a", "/b c"])}).paths == ("/a", "/b c")


def test_topics_and_columns_are_comma_separated():
    options = parse(subscribe="orders, payments", columns="offset,value")
    assert options.subscribe == {"orders", "payments"}
    assert options.columns == ("offset", "value")


def test_offsets_have_the_json_form_of_spark():
    options = parse(startingOffsets='{"orders": {"0": 23, "1": -2}}', endingOffsets='{"orders": {"0": 50, "1": -1}}')
    assert options.start == {("orders", 0): 23, ("orders", 1): EARLIEST}
    assert options.end == {("orders", 0): 50, ("orders", 1): LATEST}
    assert parse(startingOffsets=" Earliest", endingOffsets="LATEST ") == parse()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"topic": "orders"}, "unknown option topic: did you mean subscribe"),
        ({"includeheader": "true"}, "did you mean includeHeaders"),
        ({"zzz": "1"}, "unknown option zzz; kafka-log has the options path"),
        ({"kafka.bootstrap.servers": "localhost:9092"}, "applies to brokers only"),
        ({"groupIdPrefix": "x"}, "applies to brokers only"),
        ({"mode": "lenient"}, "PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"includeHeaders": "yes"}, "true or false"),
        ({"minPartitions": "0"}, "greater than 0"),
        ({"minPartitions": "two"}, "greater than 0"),
        ({"maxBytesPerPartition": "0"}, "128m"),
        ({"maxBytesPerPartition": "many"}, "128m"),
        ({"subscribePattern": "("}, "regular expression"),
        ({"subscribe": " , "}, "comma separated"),
        ({"subscribe": "a", "subscribePattern": "b"}, "`subscribe`, `subscribe_pattern` cannot be combined"),
        ({"assign": '{"orders": 0}'}, "JSON such as"),
        ({"assign": '{"orders": [true]}'}, "JSON such as"),
        ({"assign": "orders"}, "JSON such as"),
        ({"assign": "{}"}, "JSON such as"),
        ({"startingOffsets": "latest"}, "cannot start at latest"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "cannot start at latest"),
        ({"startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "milliseconds since 1970"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "one of error, latest"),
        ({"isolation": "committed"}, "read_committed, read_uncommitted"),
        ({"storageOptions": "[1]"}, "JSON such as"),
        ({"fs.s3a.path.style.access": "yes"}, "true or false"),
        ({"fs.s3a.acces.key": "k"}, "did you mean fs.s3a.access.key"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "JSON such as"),
        ({"startingOffsets": '{"t": {"x": 1}}'}, "JSON such as"),
        ({"startingOffsets": '{"t": 5}'}, "JSON such as"),
        ({"endingOffsets": '{"t": {"0": 9223372036854775808}}'}, "JSON such as"),
        ({"endingOffsets": "earliest"}, "cannot end at earliest"),
        ({"endingOffsets": '{"t": {"0": -2}}'}, "cannot end at -2"),
        ({"paths": "/not/json"}, "JSON list"),
        ({"paths": "[1]"}, "JSON list"),
    ],
)
def test_an_error_names_its_option(options, message):
    with pytest.raises(OptionError, match=message):
        check_batch_start(parse(**options).start)


def test_times_override_offsets_and_one_time_overrides_those_of_partitions():
    by_partition = '{"orders": {"0": 5}}'
    both = parse(startingTimestamp="7", startingOffsetsByTimestamp=by_partition, startingOffsets="latest")
    assert (both.start, both.end) == (TimeBound(7), LATEST)
    one = parse(endingOffsetsByTimestamp=by_partition, endingOffsets="latest")
    assert (one.start, one.end) == (EARLIEST, TimeBound({("orders", 0): 5}))


def test_store_options_under_spark_and_fsspec_names_are_equal_and_secrets_stay_separate():
    sparks = {"spark.hadoop.fs.s3a.endpoint": "127.0.0.1:9", "fs.s3a.access.key": "k", "fs.s3a.secret.key": "sesame"}
    sparks |= {"fs.s3a.endpoint.region": "eu-west-1"}
    fsspecs = {"endpoint_url": "https://127.0.0.1:9", "KEY": "k", "secret": "sesame", "region": "eu-west-1"}
    assert parse(**sparks) == parse(**fsspecs)
    assert parse(**sparks).storage["client_kwargs"] == {"region_name": "eu-west-1"}
    assert "sesame" not in repr(parse(**sparks))
    assert parse(storageOptions='{"key": "other"}', key="k").storage == {"key": "other"}


def test_a_path_is_required():
    with pytest.raises(OptionError, match="needs a path"):
        parse_log_options({})


@given(st.sampled_from(sorted(LOG_OPTIONS)), st.text())
def test_any_text_gives_options_or_an_option_error(name, text):
    with contextlib.suppress(OptionError):
        parse_log_options({"path": "/data", name: text})


def test_times_may_be_dates():
    text = '{"t": {"0": "2025-10-09T12:00Z", "1": 1760011200001}}'
    options = parse_log_options(
        {"path": "/x", "startingTimestamp": "2025-10-09T12:00Z", "endingOffsetsByTimestamp": text}
    )
    assert options.start == TimeBound(1_760_011_200_000)
    assert options.end == TimeBound({("t", 0): 1_760_011_200_000, ("t", 1): 1_760_011_200_001})
    with pytest.raises(OptionError, match=r"option startingTimestamp=yesterday: must be milliseconds since 1970"):
        parse_log_options({"path": "/x", "startingTimestamp": "yesterday"})
