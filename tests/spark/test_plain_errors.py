"""The error texts of DataFrames: Spark's prefix, then the message of this package's error, without a traceback."""

import pyspark
import pytest
from pyspark.sql.types import StructType

import kafkaframes
from kafkaframes.errors import OptionError
from kafkaframes.spark.runtime._compat import find_package_error
from kafkaframes.spark.runtime.worker import hide_tracebacks
from kafkaframes.spark.sources.kafka_topic import KafkaTopicDataSource


@hide_tracebacks
class Failing:
    def plan(self):
        raise OptionError("no topic x")

    def read(self):
        yield 1
        raise OptionError("no topic y")

    def own(self):
        raise ZeroDivisionError


@pytest.fixture
def environment(monkeypatch):
    monkeypatch.setattr("os.environ", {"SPARK_PYTHON_RUNTIME": "PYTHON_WORKER"})
    import os

    return os.environ


def test_client_settings_have_kafkas_names():
    @hide_tracebacks
    class UnreachablePlanner:
        def plan(self):
            raise OptionError("no broker responded (`max_block_ms`, `retries`, `start`)")

    with pytest.raises(OptionError, match=r"\(kafka\.max\.block\.ms, kafka\.retries, startingOffsets\)"):
        UnreachablePlanner().plan()


@pytest.mark.parametrize("call", [lambda: Failing().plan(), lambda: list(Failing().read())], ids=["plan", "read"])
def test_a_worker_removes_the_traceback_of_our_errors(environment, call):
    with pytest.raises(OptionError):
        call()
    assert environment["SPARK_HIDE_TRACEBACK"] == "1"


def test_other_errors_keep_their_traceback(environment):
    with pytest.raises(ZeroDivisionError):
        Failing().own()
    assert "SPARK_HIDE_TRACEBACK" not in environment


def test_a_process_that_is_not_a_worker_is_not_changed(environment):
    del environment["SPARK_PYTHON_RUNTIME"]
    with pytest.raises(OptionError):
        Failing().plan()
    assert "SPARK_HIDE_TRACEBACK" not in environment


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log" / "t-0" / f"{0:020}.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(kafkaframes.build_records([{"key": b"k", "value": b"v"}] * 3))
    return tmp_path / "log"


def error_text(ask):
    """Return the text of the exception that Spark raises."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as error_info:
        ask()
    assert "Traceback" not in str(error_info.value)
    return error_info.value


def damage_log(log):
    (path,) = log.rglob("*.log")
    raw = bytearray(path.read_bytes())
    raw[70] ^= 1
    path.write_bytes(raw)
    return log


@pytest.mark.spark
def test_our_sentence_follows_sparks_prefix(spark, log):
    read = spark.read.format("kafka-log")
    calls = {
        "no such file or directory (at /nope)": lambda: read.load("/nope").collect(),
        "unknown option subscribee: did you mean subscribe?": lambda: (
            spark.read.format("kafka-log").option("subscribee", "x").load(str(log))
        ),
        "the length of a record is negative or beyond the data": lambda: (
            spark.read.format("kafka-log").option("mode", "FAILFAST").load(str(damage_log(log))).collect()
        ),
    }
    for sentence, ask in calls.items():
        error = error_text(ask)
        assert find_package_error(error).startswith(sentence)


@pytest.mark.spark
@pytest.mark.skipif(tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2), reason="streams need Spark 4.2")
@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"processingTime": "0 seconds"}], ids=str)
def test_invalid_options_of_a_stream_are_reported_when_it_starts(spark, log, trigger, tmp_path):
    """SPARK-18682 made endingOffsets an option of batches. PySpark's planner replaced our error with its own:
    "cannot access local variable 'reader'".
    """
    frame = spark.readStream.format("kafka-log").option("endingOffsets", "latest").load(str(log))
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match="a stream has no end: endingOffsets is for batch reads") as error_info:
        query.trigger(**trigger).start().awaitTermination(120)
    assert "UnboundLocalError" not in str(error_info.value)


@pytest.mark.spark
def test_insert_into_a_catalog_table_is_rejected_plainly(spark, log):
    spark.sql(f"CREATE TABLE refused USING `kafka-log` OPTIONS (path '{log}')")
    try:
        error = error_text(lambda: spark.sql("INSERT INTO refused SELECT * FROM refused"))
        assert find_package_error(error).startswith("kafka-log needs a path: df.write")
        assert "INSERT INTO" in find_package_error(error)
    finally:
        spark.sql("DROP TABLE refused")
    assert len(list(log.rglob("*.log"))) == 1


def test_insert_into_a_topic_table_is_rejected_plainly():
    writer = KafkaTopicDataSource({"path": "file:/warehouse/t"}).writer
    with pytest.raises(OptionError, match=r"tables are read-only, because Spark"):
        writer(StructType().add("value", "binary"), overwrite=False)


@pytest.mark.spark
def test_errors_of_user_functions_keep_their_traceback(spark):
    from pyspark.errors import PythonException
    from pyspark.sql.functions import udf

    with pytest.raises(PythonException, match="Traceback"):
        spark.range(1).select(udf(lambda one: one / 0, "double")("id")).collect()
