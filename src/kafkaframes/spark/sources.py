"""Every data source of ours, for ``register()``; Spark itself finds each through its module ``pyspark_kafka_*``."""

from __future__ import annotations

from kafkaframes.spark.kafka_capture import KafkaCaptureDataSource
from kafkaframes.spark.kafka_log import KafkaLogDataSource
from kafkaframes.spark.kafka_topic import KafkaTopicDataSource

SOURCES = (KafkaLogDataSource, KafkaCaptureDataSource, KafkaTopicDataSource)
