"""Kafka's internal topics, decoded: every record of a real cluster, in each mode, and queried with SQL."""

import json
import logging
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import kafkaframes
from kafkaframes.errors import CorruptRecordError, OptionError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import encode_coordinator_record
from kafkaframes.scan.columns import INTERNAL_COLUMNS, choose_columns
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.reading import read_work
from kafkaframes.scan.log.resolve import plan_log
from kafkaframes.scan.log.tables import read_internal_work
from kafkaframes.spark.options import parse_log_options

LOG = Path(__file__).parents[2] / "data" / "logs" / "kraft-4x-transactions"
COMMIT_RECORD = encode_coordinator_record(
    message("OffsetCommitKey")(group="g", topic="t", partition=1),
    message("OffsetCommitValue")(offset=7),
    3,
)


def read_rows(path, *names, **settings):
    options = ReadOptions(paths=(str(path),), decode="internal", **settings)
    columns = choose_columns(names or None, table="internal")
    works = plan_log(options, cores=1).works
    batches = [batch for work in works for batch in read_internal_work(work, columns, options)]
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def count_records(path, **settings):
    options = ReadOptions(paths=(str(path),), **settings)
    works = plan_log(options, cores=1).works
    return sum(batch.num_rows for work in works for batch in read_work(work, choose_columns(["topic"]), options))


@pytest.fixture
def broken_log(tmp_path):
    """Three records of an offsets topic: a valid one, one of an unknown type, one with a damaged value."""
    key, value = COMMIT_RECORD
    pairs = [(key, value), (b"\x7f\x00", value), (key, value[:5])]
    records = [{"offset": n, "key": k, "value": v, "timestamp": 1} for n, (k, v) in enumerate(pairs)]
    partition = tmp_path / "__consumer_offsets-3"
    partition.mkdir()
    (partition / f"{0:020}.log").write_bytes(kafkaframes.build_records(records, codec="none"))
    return tmp_path


def test_every_internal_record_of_a_cluster_is_decoded():
    rows = read_rows(LOG, include_control=True)
    topics = ["__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"]
    assert len(rows) == count_records(LOG, subscribe=frozenset(topics), include_control=True)
    assert {row["topic"] for row in rows} == set(topics)
    assert [row["error"] for row in rows if row["error"]] == []
    types = Counter(row["recordType"] for row in rows)
    assert (types["OffsetCommit"], types["TransactionLog"], types["COMMIT"], types["LEADER_CHANGE"]) == (37, 278, 5, 1)
    for row in rows:
        assert (row["value"] is None) == (row["version"] is None)
        assert all(isinstance(json.loads(row[name] or "{}"), dict) for name in ("key", "value"))


def test_columns_can_be_selected_including_batch_fields():
    names = [column.name for column in INTERNAL_COLUMNS]
    rows = read_rows(LOG / "__consumer_offsets-0", *names)
    assert list(rows[0]) == names
    assert [list(row) for row in read_rows(LOG, "offset", "recordType")][:1] == [["offset", "recordType"]]


def test_undecodable_records_in_each_mode(broken_log, caplog):
    with caplog.at_level(logging.ERROR):
        whole, unknown, bad = read_rows(broken_log)
    assert (whole["recordType"], whole["version"], whole["error"]) == ("OffsetCommit", 3, None)
    assert json.loads(whole["value"])["offset"] == 7
    assert unknown["recordType"] is None
    assert "no record of type 32512" in unknown["error"]
    assert (bad["recordType"], bad["key"], bad["value"]) == ("OffsetCommit", whole["key"], None)
    assert "value" in bad["error"]
    assert [row["offset"] for row in read_rows(broken_log, on_damage="drop")] == [0]
    with pytest.raises(CorruptRecordError, match="__consumer_offsets-3, offset 1: "):
        read_rows(broken_log, on_damage="fail")


def test_topics_of_users_are_rejected():
    for options in ({"subscribe": frozenset({"ledger", "__consumer_offsets"})}, {"assign": {"ledger": (0,)}}):
        with pytest.raises(OptionError, match="ledger is not one of Kafka's topics"):
            read_rows(LOG, **options)
    with pytest.raises(OptionError, match="ledger"):
        read_rows(LOG / "ledger-0")
    with pytest.raises(OptionError, match="batches"):
        parse_log_options({"path": "/", "decode": "internal", "table": "batches"})


@pytest.mark.spark
def test_commits_in_sql(spark):
    frame = spark.read.format("kafka-log").option("decode", "internal").load(str(LOG))
    assert frame.schema.simpleString() == (
        "struct<topic:string,partition:int,offset:bigint,timestamp:timestamp,recordType:string,version:int,"
        "key:string,value:string,error:string>"
    )
    frame.createOrReplaceTempView("internal")
    rows = spark.sql(
        "select get_json_object(key, '$.group') as group, get_json_object(key, '$.topic') as topic, "
        "max_by(get_json_object(value, '$.offset'), offset) as committed "
        "from internal where recordType = 'OffsetCommit' and value is not null group by 1, 2"
    ).collect()
    latest = {}
    for row in read_rows(LOG):  # a group is in one partition, its records in order
        if row["recordType"] == "OffsetCommit" and row["value"]:
            key = json.loads(row["key"])
            latest[key["group"], key["topic"]] = str(json.loads(row["value"])["offset"])
    assert {(row["group"], row["topic"]): row["committed"] for row in rows} == latest
    assert len(latest) > 1
