"""Suggest the nearest valid names for a misspelt name, for the end of an error message."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MAX_NAMES = 2


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return "; did you mean ...?" with the nearest names, ignoring case; an empty string if no name is near.

    >>> did_you_mean("strng", ["string", "int8"]), did_you_mean("METADATA", ["Metadata"]), did_you_mean("x", ["string"])
    ('; did you mean string?', '; did you mean Metadata?', '')
    """
    by_lower_case = {entry.lower(): entry for entry in known}
    matches = get_close_matches(name.lower(), by_lower_case, _MAX_NAMES, cutoff)
    return f"; did you mean {' or '.join(by_lower_case[entry] for entry in matches)}?" if matches else ""
