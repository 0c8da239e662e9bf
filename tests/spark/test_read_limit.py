"""The limits of a micro-batch, as Spark requests them; without a JVM."""

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="streams in Python came with Spark 4.2")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.spark.runtime.micro_batches import create_read_limit

PLACES = {ReadOptions: {"paths": ("/data",)}, TopicOptions: {"client": {}}}


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"max_offsets_per_trigger": 7}, ReadMaxRows(7)),
        ({"max_bytes_per_trigger": 9}, ReadMaxBytes(9)),
        ({"max_offsets_per_trigger": 7, "max_bytes_per_trigger": 9}, ReadMaxRows(7)),
    ],
)
def test_the_limit_is_that_of_the_options(kind, options, limit):
    assert create_read_limit(kind(**PLACES[kind], **options)) == limit
