"""``df.writeStream.format("kafka-topic")``: each micro-batch into topics, at least once, as Spark's own sink does.

Spark makes this writer twice for each micro-batch, once for the tasks and once for the commit, so making it does
nothing. For exactly once see ``topic_exactly_once.py``.
"""

from pyspark.sql.datasource import DataSourceStreamArrowWriter

from kafkaframes.spark.topic_writer import TopicTaskWriter


class KafkaTopicStreamWriter(TopicTaskWriter, DataSourceStreamArrowWriter):
    """One micro-batch's writer."""

    exactly_once = (
        "exactly-once needs a driver that holds the transaction while tasks write: "
        "kafkaframes.spark.write_topic(df, checkpoint=..., ...) does that"
    )
