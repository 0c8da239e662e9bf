"""The nearest known names of a misspelt one, for the end of an error."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MAX_NAMES = 2


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return a question with the nearest names, of any letter case; nothing if none is near.

    >>> did_you_mean("strng", ["string", "int8"]), did_you_mean("METADATA", ["Metadata"]), did_you_mean("x", ["string"])
    ('; did you mean string?', '; did you mean Metadata?', '')
    """
    by_lower_case = {entry.lower(): entry for entry in known}
    near = get_close_matches(name.lower(), by_lower_case, _MAX_NAMES, cutoff)
    return f"; did you mean {' or '.join(by_lower_case[entry] for entry in near)}?" if near else ""
