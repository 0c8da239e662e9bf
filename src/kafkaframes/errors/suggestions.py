"""Suggestions for misspelt names in error messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MAX_SUGGESTIONS = 2


def did_you_mean(name: str, candidates: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return "; did you mean ...?" with the most similar candidates, ignoring case; empty if none is similar.

    >>> did_you_mean("strng", ["string", "int8"]), did_you_mean("METADATA", ["Metadata"]), did_you_mean("x", ["string"])
    ('; did you mean string?', '; did you mean Metadata?', '')
    """
    by_lower_case = {candidate.lower(): candidate for candidate in candidates}
    matches = get_close_matches(name.lower(), by_lower_case, _MAX_SUGGESTIONS, cutoff)
    return f"; did you mean {' or '.join(by_lower_case[match] for match in matches)}?" if matches else ""
