"""How much a micro-batch may hold, as Spark asks a stream's reader for it. Needs Spark 4.2 or later."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.topic.options import TopicOptions


def read_limit(options: ReadOptions | TopicOptions) -> ReadLimit:
    """Return what the options allow; of two limits the one of offsets, for Spark knows no limit of two kinds.

    Spark hands it back to ``latestOffset``, which goes by the options, and asks only whether it is limited at all.
    """
    if options.max_offsets_per_trigger is not None:
        return ReadMaxRows(options.max_offsets_per_trigger)
    if options.max_bytes_per_trigger is not None:
        return ReadMaxBytes(options.max_bytes_per_trigger)
    return ReadAllAvailable()
