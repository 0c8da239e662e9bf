"""What Spark's users call the settings of a read. No pyspark."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache


@cache
def setting_names() -> Mapping[str, str]:
    """Return the options of ``kafka-log`` and ``kafka-topic`` by the settings that they fill."""
    from kafkaframes.spark.log_options import OPTIONS
    from kafkaframes.spark.topic_options import OPTIONS as TOPIC_OPTIONS

    return {option.field: option.name for option in (*TOPIC_OPTIONS.values(), *OPTIONS.values())}
