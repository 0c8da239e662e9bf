"""Sizes as people write them: 134217728, 128m, 1g."""

from __future__ import annotations

import re


def parse_size(text: str) -> int:
    """Return a size in bytes; units are those of Spark's settings: powers of 1024.

    >>> parse_size("64m") == parse_size("64MB") == parse_size("67108864") == 64 * 1024 * 1024
    True

    Raises:
        ValueError: ``text`` is not a size, or 0.
    """
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    if match is None or int(match.group(1)) == 0:
        raise ValueError("must be a size such as 134217728, 128m or 1g")
    return int(match.group(1)) << (10 * " kmgt".index(match.group(2).lower() or " "))
