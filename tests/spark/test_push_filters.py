"""The reason why this package's sources have no ``pushFilters``: Spark 4.3 applies the filters of the last use to every
use of a DataFrame.

When the second test fails, Spark has fixed this, and filters can be pushed down.
"""

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, GreaterThanOrEqual, InputPartition

from kafkaframes.spark.sources.kafka_log import KafkaLogReader

pytestmark = pytest.mark.spark
ENABLED = "spark.sql.python.filterPushdown.enabled"


class FilteringSource(DataSource):
    @classmethod
    def name(cls):
        return "filtering-source"

    def schema(self):
        return "offset bigint"

    def reader(self, schema):
        class Reader(DataSourceReader):
            lowest = 0

            def pushFilters(self, filters):  # noqa: N802 (Spark's name)
                for one in filters:
                    if isinstance(one, GreaterThanOrEqual):
                        self.lowest = one.value
                    else:
                        yield one

            def partitions(self):
                return [InputPartition(0)]

            def read(self, partition):
                return ((offset,) for offset in range(self.lowest, 1000))

        return Reader()


def test_our_reader_takes_no_filters():
    assert KafkaLogReader.pushFilters is DataSourceReader.pushFilters


def test_spark_returns_wrong_rows_when_a_filtering_source_is_used_twice(spark):
    spark.dataSource.register(FilteringSource)
    spark.conf.set(ENABLED, "true")
    try:
        frame = spark.read.format("filtering-source").load()
        assert frame.count() == 1000
        assert frame.where("offset >= 900").count() == 100
        assert frame.count() == 100  # wrong: 1000
    finally:
        spark.conf.unset(ENABLED)
