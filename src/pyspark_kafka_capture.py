"""Lets Spark find the data source ``kafka-capture`` by itself.

Spark imports every installed top-level module named ``pyspark_*`` and registers its ``DefaultSource``.
"""

from kafkaframes.spark.sources.kafka_capture import KafkaCaptureDataSource as DefaultSource

__all__ = ["DefaultSource"]
