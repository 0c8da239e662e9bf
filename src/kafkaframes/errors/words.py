"""Counts with their nouns, such as ``2 topics``, for the messages of all packages."""

from __future__ import annotations

from collections.abc import Iterable

MAX_LISTED_ITEMS = 20  # number of items that ``limit_lines`` returns


def count_text(count: int, name: str, plural: str = "") -> str:
    """Return a count with its noun.

    >>> count_text(1, "topic"), count_text(1200, "batch", "batches")
    ('1 topic', '1,200 batches')
    """
    return f"{count:,} {name if count == 1 else plural or name + 's'}"


def verb_text(count: int, singular: str = "is", plural: str = "are") -> str:
    """Return the verb that agrees with a count.

    >>> verb_text(1), verb_text(2, "was", "were")
    ('is', 'were')
    """
    return singular if count == 1 else plural


def limit_lines(items: Iterable[object], *, remedy: str = "") -> list[str]:
    """Return the first items as lines, and a line with the number of the other items.

    Args:
        items: findings, errors or other objects whose text is one line.
        remedy: how to list all items, such as ``--json lists all``; empty if there is no such way.

    >>> limit_lines(range(22), remedy="--json lists all")[-2:]
    ['19', 'and 2 more (--json lists all)']
    """
    lines = [str(item) for item in items]
    hidden_count = len(lines) - MAX_LISTED_ITEMS
    remark = [f"and {hidden_count:,} more" + (f" ({remedy})" if remedy else "")] if hidden_count > 0 else []
    return lines[:MAX_LISTED_ITEMS] + remark
