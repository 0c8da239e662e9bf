"""A topic of flights, and how tests read topics with Spark."""

from kafkaframes.client import Admin, NewTopic

ROWS = 3_000


def make_anew(servers, name, partitions):
    """Make a topic; one of that name, of another file's tests on the same cluster, goes first."""
    with Admin(servers) as admin:
        if name in admin.list_topics():
            admin.delete_topics([name])
        kept = {"retention.ms": "-1"}  # some timestamps are years old
        admin.create_topics([NewTopic(name=name, num_partitions=partitions, configs=kept)])


def read(spark, servers, **options):
    reader = spark.read.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    return reader.options(**options).load()
