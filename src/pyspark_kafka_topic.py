"""Lets Spark find the data source ``kafka-topic`` by itself.

Spark imports every installed top-level module named ``pyspark_*`` and registers its ``DefaultSource``.
"""

from kafkaframes.spark.sources.kafka_topic import KafkaTopicDataSource as DefaultSource

__all__ = ["DefaultSource"]
