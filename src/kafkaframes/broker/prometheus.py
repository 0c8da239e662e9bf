"""Prometheus' text format: of a broker's metrics, and of streams on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def metric(name: str, kind: str, words: str, values: Iterable[tuple[str, float]]) -> Iterator[str]:
    """Yield the lines of a metric.

    Args:
        name: of the metric.
        kind: ``gauge`` or ``counter``.
        words: what it says.
        values: each with its labels.
    """
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"
    for label, value in values:
        yield f"{name}{label} {value}"


def labels(**values: str) -> str:
    """Return labels, with backslashes, quotes and ends of lines escaped.

    >>> labels(topic='a"b', partition="0")
    '{topic="a\\\\"b",partition="0"}'
    """
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in values.items()) + "}"
