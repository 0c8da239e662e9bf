"""The first micro-batch of a query, limits of micro-batches, and the micro-batch of a task, for logs and topics.

Requires Spark 4.2 or later.

An earlier run may have planned the first micro-batch without completing it. Spark's checkpoint contains only the ends
of micro-batches; each begins at the end of the previous one. For the first micro-batch, Spark requests the start from
the source again. If the start is ``latest``, it has moved in the meantime, and the rows between would be lost silently.
(Spark's connector stores its start in ``sources/0/0``. A Python source does not know the path of the checkpoint.)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from kafkaframes.errors import KafkaframesError, OptionError

if TYPE_CHECKING:
    from kafkaframes.scan.log.options import ReadOptions
    from kafkaframes.scan.topic.options import TopicOptions

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"  # names of Spark's local properties
Nested = Mapping[str, Mapping[str, int]]


def get_micro_batch_of_task() -> tuple[TaskContext, str, int]:
    """Return the context, the query id and the micro-batch number of a task that writes a stream.

    Raises:
        KafkaframesError: The process does not run a task that writes a stream.
    """
    context = TaskContext.get()
    if context is None:
        raise KafkaframesError("a stream writer was called outside a Spark task")
    query_id, batch_id = (context.getLocalProperty(name) for name in (_QUERY_ID, _BATCH_ID))
    if query_id is None or batch_id is None:
        raise KafkaframesError(f"Spark does not set {_QUERY_ID} and {_BATCH_ID}")
    return context, query_id, int(batch_id)


class FirstBatch:
    """The start of a query's first micro-batch. A stream reader determines it once in each run of the query."""

    def __init__(self) -> None:
        self._begin: dict[str, Any] | None = None
        self._has_looked = False

    def find_start(self, find: Callable[[], Nested]) -> dict[str, Any]:
        """Return the start of a query without a checkpoint.

        Args:
            find: Function that determines the start. The function is called only once, because Spark requests the start
                several times and ``latest`` changes.
        """
        if self._begin is None:
            self._begin = _copy_offsets(find())
        return _copy_offsets(self._begin)

    def record_lookup(self) -> None:
        """Record that this run has looked for new rows. Later micro-batches are planned by this run."""
        self._has_looked = True

    def is_first_batch(self, start: Nested) -> bool:
        """Return whether the micro-batch that begins at ``start`` is the query's first one."""
        return self._begin is not None and _index_by_partition(start) == _index_by_partition(self._begin)

    def check_batch(self, start: Nested, end: Nested) -> None:
        """Reject a first micro-batch of an earlier run that ends at or before its start.

        In the first run of a query such a micro-batch is valid: Spark plans it even if there are no rows. The check
        therefore applies only if Spark has not looked for new rows in this run.

        Args:
            start, end: Start and end of the micro-batch.

        Raises:
            OptionError: The micro-batch ends at or before its start. The message names the option to set.
        """
        if self._has_looked or self._begin is None or _index_by_partition(start) != _index_by_partition(self._begin):
            return
        begins, ends = _index_by_partition(start), _index_by_partition(end)
        are_ranges_nonempty = [ends[partition] - begins[partition] for partition in ends.keys() & begins.keys()]
        if not are_ranges_nonempty or (
            min(are_ranges_nonempty) >= 0 and (max(are_ranges_nonempty) > 0 or ends.keys() > begins.keys())
        ):
            return
        raise OptionError(
            f"the query's first micro-batch, up to {json.dumps(end)}, was planned by an earlier run. Its start is "
            f"unknown, and startingOffsets is now {json.dumps(start)}. Set startingOffsets to its start as JSON "
            "(`kafkaframes checkpoint show` prints it for a checkpoint of Spark's own connector), or use a new "
            "checkpoint"
        )


def _index_by_partition(offsets: Nested) -> dict[tuple[str, str], int]:
    return {(topic, str(number)): offset for topic, numbers in offsets.items() for number, offset in numbers.items()}


def _copy_offsets(offsets: Nested) -> dict[str, Any]:
    """Return a copy that is independent of later changes."""
    return {topic: dict(numbers) for topic, numbers in offsets.items()}


def create_read_limit(options: ReadOptions | TopicOptions) -> ReadLimit:
    """Return the options' limit as Spark's type. If there are two limits, return the limit on offsets.

    Spark passes it back to ``latestOffset``, which uses the options, and only checks whether it is a limit.
    """
    if options.max_offsets_per_trigger is not None:
        return ReadMaxRows(options.max_offsets_per_trigger)
    if options.max_bytes_per_trigger is not None:
        return ReadMaxBytes(options.max_bytes_per_trigger)
    return ReadAllAvailable()
