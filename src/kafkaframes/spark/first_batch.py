"""A query's first micro-batch, planned by an earlier run that did not finish it. No pyspark.

Spark notes in the checkpoint where a micro-batch ends; where it begins is where the one before has ended. The first has
none before it: Spark asks the source anew. ``latest`` is another place by then, and rows between the two would be lost
without a word. (Spark's own connector keeps a note of its own, ``sources/0/0``; a source in Python does not
learn its place.)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kafkaframes.errors import OptionError

Nested = Mapping[str, Mapping[str, int]]


def check_first(first: Nested | None, start: Nested, end: Nested) -> None:
    """Refuse a first micro-batch of an earlier run that ends before it begins, or where it begins.

    In a query's own first run such a one is in order: Spark plans it although there is nothing to read yet. So this is
    asked only where Spark has not looked for new rows before.

    Args:
        first: what the source was asked, and said, in this run of where the query begins; None where it was not.
        start, end: of the micro-batch.

    Raises:
        OptionError: says what to give.
    """
    if first is None or _plain(start) != _plain(first):
        return
    begins, ends = _plain(start), _plain(end)
    stretches = [ends[place] - begins[place] for place in ends.keys() & begins.keys()]
    if not stretches or (min(stretches) >= 0 and (max(stretches) > 0 or ends.keys() > begins.keys())):
        return
    raise OptionError(
        f"the query's first micro-batch, up to {json.dumps(end)}, was planned by an earlier run; where that one began "
        f"is not known, and startingOffsets says {json.dumps(start)} by now. Give startingOffsets as JSON where it "
        "began (`kafkaframes checkpoint show` knows it of a checkpoint of Spark's own connector), or a new checkpoint"
    )


def _plain(offsets: Nested) -> dict[tuple[str, str], int]:
    return {(topic, str(number)): at for topic, numbers in offsets.items() for number, at in numbers.items()}


def remembered(offsets: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy that later changes do not reach."""
    return {topic: dict(numbers) for topic, numbers in offsets.items()}


__all__ = ["check_first", "remembered"]
