"""Texts of counts with their nouns, for messages of all packages."""

from __future__ import annotations


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
