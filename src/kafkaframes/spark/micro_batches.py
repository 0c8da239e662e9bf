"""A query's first micro-batch, how much each may hold, and which a task writes: for streams of logs and of topics.

Spark 4.2 or later.

The first micro-batch may have been planned by an earlier run that did not finish it.

Spark notes in the checkpoint where a micro-batch ends; where it begins is where the one before has ended. The first has
none before it: Spark asks the source anew. ``latest`` is another place by then, and rows between the two would be lost
without a word. (Spark's own connector keeps a note of its own, ``sources/0/0``; a source in Python does not
learn its place.)
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

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"  # Spark's names of what a task may ask
Nested = Mapping[str, Mapping[str, int]]


def micro_batch_of_task() -> tuple[TaskContext, str, int]:
    """Return the context of a task that writes a stream, the id of its query, and the number of its micro-batch.

    Raises:
        KafkaframesError: it is no such task.
    """
    context = TaskContext.get()
    if context is None:
        raise KafkaframesError("a stream is written by Spark's tasks only")
    query_id, batch_id = (context.getLocalProperty(name) for name in (_QUERY_ID, _BATCH_ID))
    if query_id is None or batch_id is None:
        raise KafkaframesError(f"Spark does not set {_QUERY_ID} and {_BATCH_ID}")
    return context, query_id, int(batch_id)


class FirstBatch:
    """Where a query's first micro-batch begins, as this run has found it; part of a stream's reader."""

    def __init__(self) -> None:
        self._begin: dict[str, Any] | None = None
        self._has_looked = False

    def begin(self, find: Callable[[], Nested]) -> dict[str, Any]:
        """Return where a query without a checkpoint begins.

        Args:
            find: says it; called once, for Spark asks several times, and ``latest`` moves on.
        """
        if self._begin is None:
            self._begin = _copied(find())
        return _copied(self._begin)

    def looked(self) -> None:
        """Note that this run has looked for new rows: what it plans from now on is its own."""
        self._has_looked = True

    def is_at(self, start: Nested) -> bool:
        """Return whether the micro-batch that begins at ``start`` is the query's first one."""
        return self._begin is not None and _plain(start) == _plain(self._begin)

    def check(self, start: Nested, end: Nested) -> None:
        """Refuse a first micro-batch of an earlier run that ends before it begins, or where it begins.

        In a query's own first run such a one is in order: Spark plans it although there is nothing to read yet. So
        this counts only where Spark has not looked for new rows before.

        Args:
            start, end: of the micro-batch.

        Raises:
            OptionError: says what to give.
        """
        if self._has_looked or self._begin is None or _plain(start) != _plain(self._begin):
            return
        begins, ends = _plain(start), _plain(end)
        stretches = [ends[partition] - begins[partition] for partition in ends.keys() & begins.keys()]
        if not stretches or (min(stretches) >= 0 and (max(stretches) > 0 or ends.keys() > begins.keys())):
            return
        raise OptionError(
            f"the query's first micro-batch, up to {json.dumps(end)}, was planned by an earlier run; where that one "
            f"began is not known, and startingOffsets is now {json.dumps(start)}. Give startingOffsets as JSON "
            "where it began (`kafkaframes checkpoint show` prints it for a checkpoint of Spark's own connector), or a "
            "new checkpoint"
        )


def _plain(offsets: Nested) -> dict[tuple[str, str], int]:
    return {(topic, str(number)): at for topic, numbers in offsets.items() for number, at in numbers.items()}


def _copied(offsets: Nested) -> dict[str, Any]:
    """Return a copy that later changes do not reach."""
    return {topic: dict(numbers) for topic, numbers in offsets.items()}


def read_limit(options: ReadOptions | TopicOptions) -> ReadLimit:
    """Return what the options allow; of two limits the one of offsets, for Spark knows no limit of two kinds.

    Spark hands it back to ``latestOffset``, which goes by the options, and asks only whether it is limited at all.
    """
    if options.max_offsets_per_trigger is not None:
        return ReadMaxRows(options.max_offsets_per_trigger)
    if options.max_bytes_per_trigger is not None:
        return ReadMaxBytes(options.max_bytes_per_trigger)
    return ReadAllAvailable()
