"""Reading with clients of others, in short waits up to one long limit: nothing depends on how fast a machine is."""

from __future__ import annotations

import time
from typing import Any

SECONDS = 60.0  # only against hanging


def polled_by_kafka_python(consumer: Any, count: int) -> list[Any]:
    """Return so many records of a ``kafka.KafkaConsumer``, or more.

    Its iterator waits ``consumer_timeout_ms`` in one poll, and where it misses that an answer has come (version 3.0,
    on a busy machine) it ends without any record. Of several short polls only one is lost.
    """
    found: list[Any] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        for records in consumer.poll(timeout_ms=250).values():
            found += records
    return found


def polled_by_librdkafka(consumer: Any) -> Any:
    """Return the next record of a ``confluent_kafka.Consumer``."""
    deadline = time.monotonic() + SECONDS
    while (record := consumer.poll(0.2)) is None:
        assert time.monotonic() < deadline, "no record came"
    return record
