"""A topic as a table, a log directory and a capture as views, and the table's large orders written to a topic."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

SERVERS = {"kafka.bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
spark = SparkSession.active()
dp.create_sink("large_orders", "kafka-topic", {**SERVERS, "topic": "example-large-orders", "delivery": "exactly-once"})


@dp.table
def orders() -> DataFrame:
    """A streaming table: each run appends the topic's new records."""
    topic = spark.readStream.format("kafka-topic").options(**SERVERS, subscribe="example-orders")
    rows = topic.option("startingOffsets", "earliest").load()
    return rows.selectExpr("CAST(key AS string) AS customer", "CAST(CAST(value AS string) AS int) AS amount", "offset")


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    """Each micro-batch is one transaction, so that read_committed consumers see each row once, even after a crash."""
    rows = spark.readStream.table("orders").where("amount >= 900")
    return rows.selectExpr("customer AS key", "CAST(amount AS string) AS value")


@dp.materialized_view
def backup() -> DataFrame:
    """A view of a broker's log directory, recomputed in each run."""
    log = spark.read.format("kafka-log").option("subscribe", "payments").load(os.environ["EXAMPLE_LOG_DIR"])
    return log.groupBy("topic", "partition").count()


@dp.materialized_view
def calls() -> DataFrame:
    """The APIs that the recorded clients called."""
    return spark.read.format("kafka-capture").load(os.environ["EXAMPLE_CAPTURE"]).groupBy("apiName").count()
