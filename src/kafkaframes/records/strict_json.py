"""Parse JSON strictly: duplicate names in an object and ``NaN`` are errors."""

from __future__ import annotations

import json
from typing import Any

from kafkaframes.errors import EncodeError


def parse_json(text: bytes | str) -> Any:
    """Return the value of a JSON text.

    >>> parse_json(b'{"value": "paid"}')
    {'value': 'paid'}

    Raises:
        EncodeError: the text is not JSON or is nested too deeply, or an object has a duplicate name.
    """
    try:
        return json.loads(text, object_pairs_hook=_to_unique_dict, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise EncodeError(f"not JSON: {error}") from None


def _to_unique_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for position, name in enumerate(names) if name in names[:position])
        raise ValueError(f"the name {duplicate!r} is given twice")
    return result


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")
