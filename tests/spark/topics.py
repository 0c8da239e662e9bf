"""A topic of flights, and how tests read topics with Spark."""

ROWS = 3_000


def read(spark, servers, **options):
    reader = spark.read.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    return reader.options(**options).load()
