"""A hint for a read that takes far more of a log than a query may need. No pyspark.

Spark keeps its filters to itself: a source in Python that took them would give wrong rows in Spark 4.3
(``tests/spark/test_push_filters.py``). So ``WHERE topic = 'orders'`` reads every topic and drops most of them, and
nothing in the plan says so. Where a read is large and no option narrows it, one line of the log names the options.
"""

from __future__ import annotations

from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.resolve import ReadPlan
from kafkaframes.scan.ranges import EARLIEST, LATEST

LARGE_BYTES = 1 << 30  # less is read in the time that reading the hint takes
_GIB = 1 << 30


def hint_of(options: ReadOptions, plan: ReadPlan, *, large_bytes: int = LARGE_BYTES) -> str | None:
    """Return the line for a read that no option narrows; None for one that is small, or narrowed.

    Args:
        options: of the read.
        plan: what it will read.
        large_bytes: from how many bytes of log on it is worth a word.
    """
    if plan.bytes_to_read < large_bytes:
        return None
    topics = {part.segment.topic for work in plan.works for part in work}
    names = [*_of_topics(options, len(topics)), *_of_offsets(options)]
    if not names:
        return None
    return (
        f"kafka-log reads {len(topics):,} topics, {plan.bytes_to_read / _GIB:.1f} GiB: Spark applies a WHERE on topic, "
        f"partition, offset or timestamp afterwards; what narrows the read itself: {', '.join(names)}"
    )


def _of_topics(options: ReadOptions, topics: int) -> list[str]:
    is_chosen = options.subscribe is not None or options.subscribe_pattern is not None or options.assign is not None
    return [] if is_chosen or topics < 2 else ["subscribe", "assign"]


def _of_offsets(options: ReadOptions) -> list[str]:
    is_narrowed = options.start != EARLIEST or options.end != LATEST
    return [] if is_narrowed else ["startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"]
