"""Lets Spark find the data source ``kafka-log`` by itself.

Spark imports every installed top-level module named ``pyspark_*`` and registers its ``DefaultSource``.
"""

from kafkaframes.spark.sources.kafka_log import KafkaLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
