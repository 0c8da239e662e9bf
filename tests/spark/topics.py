"""A topic of flights, and how tests read topics with Spark."""

import time
from contextlib import suppress

from kafkaframes.client import Admin, Consumer, NewTopic
from kafkaframes.errors import BrokerError, ErrorCode

ROWS = 3_000


def recreate_topic(servers, name, partitions):
    """Create a topic, after deleting one with the same name, which another file's tests may have left on the cluster.

    A real cluster's brokers learn of created or deleted topics with a delay, so their lists are not used.
    """
    topic_configs = {"retention.ms": "-1"}  # some timestamps are years old
    deadline = time.monotonic() + 100
    with Admin(servers) as admin:
        while True:
            try:
                admin.create_topics([NewTopic(name=name, num_partitions=partitions, configs=topic_configs)])
                return
            except BrokerError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                    raise
            with suppress(BrokerError):  # it is already being deleted
                admin.delete_topics([name])


def read(spark, servers, **options):
    reader = spark.read.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    return reader.options(**options).load()


def read_committed(options):
    """Return partition and value of each record that a read_committed consumer sees in the topic of a write."""
    with Consumer(**options.client, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(options.topic)
        consumer.assign(partitions)
        ends, rows_so_far = consumer.end_offsets(partitions), []
        while any(consumer.position(one) < end for one, end in ends.items()):
            table = consumer.fetch_arrow(1_000, columns=("partition", "value"))
            rows_so_far += zip(table["partition"].to_pylist(), table["value"].to_pylist(), strict=True)
        return rows_so_far
