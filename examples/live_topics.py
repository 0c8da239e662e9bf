"""Read live topics with Spark, without a jar: a batch query, and a stream that writes to another topic exactly once.

python examples/live_topics.py       an embedded broker; KAFKA_BOOTSTRAP_SERVERS names a cluster of yours
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack

import kafkaframes
from kafkaframes.client import Admin, Producer

ORDERS, TOTALS = "example-orders", "example-totals"


def main() -> None:
    """Run the example."""
    with ExitStack() as stack:
        servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
        if not servers:
            servers = stack.enter_context(kafkaframes.Broker()).bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topics([ORDERS, TOTALS])
            stack.callback(lambda: delete(servers))
        with Producer(servers) as producer:
            for number in range(1000):
                producer.send(ORDERS, str(number).encode(), key=f"customer-{number % 7}".encode())

        spark = kafkaframes.spark.session(master="local[2]")
        options = {"kafka.bootstrap.servers": servers, "subscribe": ORDERS, "startingOffsets": "earliest"}

        orders = spark.read.format("kafka-topic").options(**options).load()
        orders.selectExpr("CAST(key AS string) AS customer").groupBy("customer").count().orderBy("customer").show()

        stream = spark.readStream.format("kafka-topic").options(**options).load()
        doubled_frame = stream.selectExpr("key", "CAST(2 * CAST(CAST(value AS string) AS int) AS string) AS value")
        checkpoint = stack.enter_context(tempfile.TemporaryDirectory())
        query = kafkaframes.spark.write_topic(
            doubled_frame,
            {"kafka.bootstrap.servers": servers, "topic": TOTALS},
            checkpoint=checkpoint,  # a second run resumes from the checkpoint and writes no duplicates
            trigger={"availableNow": True},
        )
        query.awaitTermination()

        read_options = {"subscribe": TOTALS, "kafka.isolation.level": "read_committed"}
        totals = spark.read.format("kafka-topic").options(**{**options, **read_options}).load()
        totals.selectExpr("count(*) AS orders", "sum(CAST(CAST(value AS string) AS int)) AS doubled").show()


def delete(servers: str) -> None:
    """Delete the example's topics."""
    with Admin(servers) as admin:
        admin.delete_topics([ORDERS, TOTALS])


if __name__ == "__main__":
    main()
