"""Poll other clients in short waits up to one long limit, so that no test depends on the machine's speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

SECONDS = 60.0  # long enough that only a hang exceeds it


def poll_with_kafka_python(make: Callable[[], Any], count: int) -> tuple[Any, list[Any]]:
    """Return a ``kafka.KafkaConsumer`` created by ``make``, and ``count`` or more of its records.

    On a busy machine, version 3.0 may miss a response and then wait until the end of a poll. As a group leader, it may
    also assign partitions that it does not know yet, and keep an empty assignment. The consumer therefore polls in
    short waits, and a consumer without any records is replaced by a new one.
    """
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        consumer, records_read, patience = make(), [], time.monotonic() + SECONDS / 6
        while len(records_read) < count and time.monotonic() < (deadline if records_read else patience):
            for records in consumer.poll(timeout_ms=250).values():
                records_read += records
        if len(records_read) >= count:
            return consumer, records_read
        consumer.close()
    raise AssertionError(f"received {len(records_read)} of {count} records")


def poll_with_librdkafka(consumer: Any) -> Any:
    """Return the next record of a ``confluent_kafka.Consumer``."""
    deadline = time.monotonic() + SECONDS
    while (record := consumer.poll(0.2)) is None:
        assert time.monotonic() < deadline, "no record arrived"
    return record
