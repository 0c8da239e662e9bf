"""``CREATE TABLE ... USING`` our sources: which options Spark passes at which time, and that tables are read and
dropped safely.
"""

import shutil
from pathlib import Path
from urllib.parse import urlencode

import pyspark
import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import LongType, StructField, StructType

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic, Producer
from kafkaframes.errors import OptionError
from kafkaframes.spark.sources.catalog_tables import (
    format_table_comment,
    remove_catalog_additions,
    resolve_read_options,
)
from kafkaframes.spark.sources.kafka_log import KafkaLogDataSource
from kafkaframes.spark.sources.kafka_topic import KafkaTopicDataSource

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE_LOG_DIR = EXAMPLES / "logs" / "kafka-4.3"
ADDED = {"owner": "root", "provider": "kafka-log", "transient_lastDdlTime": "1", "spark.sql.x": "y", "EXTERNAL": "true"}


def schema_with(comment):
    return StructType([StructField("offset", LongType(), metadata={"comment": comment})])


@pytest.mark.parametrize(
    ("catalog_options", "expected_options"),
    [
        ({"path": "file:/x", "location": "file:/x", "option.path": "/x"}, {"path": "/x"}),
        ({"location": "file:/x"}, {"path": "/x"}),
        ({"location": "s3a://b/x"}, {"path": "s3a://b/x"}),
        ({"paths": '["/a"]', "location": "file:/warehouse/t"}, {"paths": '["/a"]'}),
        ({"Subscribe": "t", "option.subscribe": "t"}, {"Subscribe": "t"}),
        ({"option.subscribe": "t"}, {"subscribe": "t"}),
        ({"path": "file:///x"}, {"path": "file:///x"}),
    ],
)
def test_options_added_by_a_catalog_are_ignored(catalog_options, expected_options):
    assert remove_catalog_additions(catalog_options | ADDED) == expected_options


def test_a_table_stores_its_options_in_a_comment_and_reads_them_back():
    options = {"path": "/x y/ä", "subscribe": "it's?&=%,\\", "startingOffsets": '{"t": {"0": 5}}'}
    comment = format_table_comment("kafka-log", options | ADDED)
    assert not set(comment) & set("'\"\\")
    assert resolve_read_options("kafka-log", {}, schema_with(comment)) == options
    assert resolve_read_options("kafka-log", {"SUBSCRIBE": "u"}, schema_with(comment)) == {
        "path": "/x y/ä", "startingOffsets": '{"t": {"0": 5}}', "SUBSCRIBE": "u",
    }  # fmt: skip


def test_options_that_select_data_override_the_comment():
    schema = schema_with("kafka-log?path=/x&subscribe=t")
    assert resolve_read_options("kafka-log", {"path": "/y"}, schema) == {"path": "/y"}
    assert format_table_comment("kafka-log", {"path": "/x"}) == ""  # no table is created


@pytest.mark.parametrize("comment", ["", "about this topic", "kafka-capture?path=/x"])
def test_a_table_without_stored_options_is_an_error_with_a_remedy(comment):
    with pytest.raises(OptionError, match=r"^kafka-log has no path or topics: .*CREATE TEMPORARY VIEW name USING"):
        resolve_read_options("kafka-log", {}, schema_with(comment))


@pytest.mark.parametrize(
    "name",
    [
        "kafka.sasl.password", "kafka.sasl.jaas.config", "fs.s3a.secret.key", "spark.hadoop.fs.s3a.access.key", "key",
        "secret", "token", "kafka.ssl.keystore.key", "storageOptions",
    ],
)  # fmt: skip
def test_credentials_are_not_stored_in_a_catalog(name):
    with pytest.raises(OptionError, match=r"WITH \(.*CREATE TEMPORARY VIEW") as caught:
        format_table_comment("kafka-topic", ADDED | {name: "hunter2"})
    assert "hunter2" not in str(caught.value)
    assert format_table_comment("kafka-capture", ADDED | {"secrets": "true"}) == "kafka-capture?secrets=true"


class Probe(DataSource):
    """Returns the names of its options as its only column and its only row."""

    def __init__(self, options):
        self.option_names = ",".join(sorted(options))

    @classmethod
    def name(cls):
        return "options-probe"

    def schema(self):
        return f"given string COMMENT '{self.option_names}'"

    def reader(self, schema):
        return ProbeReader(self.option_names, schema[0].metadata.get("comment"))


class ProbeReader(DataSourceReader):
    def __init__(self, *row):
        self.row = "|".join(map(str, row))

    def read(self, partition):
        yield (self.row,)


@pytest.fixture(scope="module")
def database(spark, tmp_path_factory):
    """Return the name of a database whose warehouse is the test's directory."""
    spark.sql(f"CREATE DATABASE tables_of_logs LOCATION '{tmp_path_factory.mktemp('warehouse')}'")
    yield "tables_of_logs"
    spark.sql("DROP DATABASE tables_of_logs CASCADE")


def create_table(spark, table, ddl):
    spark.sql(f"CREATE TABLE {table} {ddl}")
    return spark.sql(f"SELECT * FROM {table}").collect()


@pytest.mark.spark
def test_spark_passes_the_options_of_a_table_only_when_it_is_created(spark, database, tmp_path):
    spark.dataSource.register(Probe)
    table = f"{database}.probed"
    [row] = create_table(spark, table, f"USING `options-probe` OPTIONS (path '{tmp_path}', subscribe 't')")
    assert row.given == "|location,option.subscribe,owner,path,provider,subscribe"
    assert spark.sql(f"SELECT * FROM {table} WITH (subscribe = 'u')").first().given.startswith("subscribe|")


@pytest.mark.spark
def test_a_table_over_a_log_is_read(spark, database, tmp_path):
    log = tmp_path / "a log"
    shutil.copytree(EXAMPLE_LOG_DIR, log)
    files = sorted(log.rglob("*"))
    spellings = (
        f"OPTIONS (path '{log}', subscribe 'orders')",
        f"OPTIONS (subscribe 'orders', table 'batches') LOCATION '{log}'",
        f"TBLPROPERTIES (path = '{log}', subscribe = 'orders')",
        f"OPTIONS (paths '[\"{log}\"]', subscribe 'orders', columns 'topic,offset')",
    )
    for number, spelling in enumerate(spellings):
        table = f"{database}.log_{number}"
        rows = create_table(spark, table, f"USING `kafka-log` {spelling}")
        assert {row.topic for row in rows} == {"orders"}
        assert "kafka-log?" in spark.sql(f"DESCRIBE TABLE {table}").first().comment
        spark.sql(f"DROP TABLE {table} PURGE")
        assert sorted(log.rglob("*")) == files  # dropping a table does not delete the log


@pytest.mark.spark
def test_options_of_the_read_are_combined_with_those_of_the_table(spark, database):
    table = f"{database}.bounded"
    rows = create_table(
        spark, table, f"USING `kafka-log` OPTIONS (path '{EXAMPLE_LOG_DIR}', assign '{{\"orders\": [0]}}')"
    )
    bounded_frame = spark.sql(f"""SELECT * FROM {table} WITH (endingOffsets = '{{"orders": {{"0": 3}}}}')""")
    assert 3 == bounded_frame.count() < len(rows)
    assert spark.newSession().table(table).count() == len(rows)


@pytest.mark.spark
def test_a_table_with_a_column_list_is_an_error_with_a_remedy(spark, database):
    spark.sql(f"CREATE TABLE {database}.listed (topic string) USING `kafka-log` OPTIONS (path '{EXAMPLE_LOG_DIR}')")
    with pytest.raises(Exception, match=r"kafka-log has no path or topics: .*CREATE TEMPORARY VIEW"):
        spark.table(f"{database}.listed").collect()


@pytest.mark.spark
def test_a_table_over_a_capture_is_read(spark, database):
    capture = Path(__file__).parents[1] / "data" / "captures" / "mangled-loss.pcapng.zst"
    plain = spark.read.format("kafka-capture").option("table", "packets").load(str(capture)).count()
    spelling = f"USING `kafka-capture` OPTIONS (path '{capture}', table 'packets')"
    assert len(create_table(spark, f"{database}.captured", spelling)) == plain > 0


@pytest.mark.spark
def test_a_table_over_a_topic_is_read(spark, database):
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name="live", num_partitions=1)])
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("live", b"v", key=b"k")
        options = f"`kafka.bootstrap.servers` '{broker.bootstrap_servers}', subscribe 'live'"
        [row] = create_table(spark, f"{database}.live", f"USING `kafka-topic` OPTIONS ({options})")
        assert (row.topic, bytes(row.value)) == ("live", b"v")


def test_a_stream_over_a_table_starts_at_its_starting_offsets(tmp_path):
    columns = StructType([StructField("offset", LongType(), metadata={"comment": f"kafka-log?path={EXAMPLE_LOG_DIR}"})])
    latest = KafkaLogDataSource({}).streamReader(columns)
    columns[0].metadata = {"comment": f"kafka-log?path={EXAMPLE_LOG_DIR}&startingOffsets=earliest"}
    earliest = KafkaLogDataSource({}).streamReader(columns)
    assert (latest.options.start, earliest.options.start) == (-1, -2)


@pytest.mark.skipif(tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2), reason="streams need Spark 4.2")
@pytest.mark.parametrize(
    "end",
    [
        {"endingOffsets": "latest"},
        {"ENDINGOFFSETS": '{"t": {"0": 5}}'},
        {"endingTimestamp": "5"},
        {"endingOffsetsByTimestamp": '{"t": {"0": 5}}'},
    ],
)
@pytest.mark.parametrize("of_table", [False, True])
def test_a_stream_of_a_log_or_a_topic_rejects_an_end(end, of_table):
    """Like KafkaMicroBatchSourceSuite: "bad source options"; each option, given to load() or stored with a table."""
    for source, others in (
        (KafkaLogDataSource, {"path": str(EXAMPLE_LOG_DIR)}),
        (KafkaTopicDataSource, {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}),
    ):
        options = {**others, **end}
        columns = StructType([StructField("offset", LongType())])
        if of_table:
            columns[0].metadata, options = {"comment": f"{source.name()}?{urlencode(options)}"}, {}
        with pytest.raises(Exception, match="a stream has no end: ending") as caught:
            source(options).streamReader(columns).initialOffset()
        assert next(iter(end)).lower() in str(caught.value).lower()
