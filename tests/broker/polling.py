"""Reading with clients of others, in short waits up to one long limit: nothing depends on how fast a machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

SECONDS = 60.0  # only against hanging


def poll_with_kafka_python(make: Callable[[], Any], count: int) -> tuple[Any, list[Any]]:
    """Return a ``kafka.KafkaConsumer`` that ``make`` has made, and so many of its records, or more.

    On a busy machine version 3.0 may miss that an answer has come, and then waits to the end of a poll; or, as the
    leader of its group, it shares out partitions that it does not know yet, which are none, and stays with that. So it
    polls in short waits, and one that gets nothing at all makes way for another.
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
    raise AssertionError(f"{len(records_read)} of {count} records came")


def poll_with_librdkafka(consumer: Any) -> Any:
    """Return the next record of a ``confluent_kafka.Consumer``."""
    deadline = time.monotonic() + SECONDS
    while (record := consumer.poll(0.2)) is None:
        assert time.monotonic() < deadline, "no record came"
    return record
