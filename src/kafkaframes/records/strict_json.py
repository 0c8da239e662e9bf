"""JSON as it is meant: a name that an object has twice, or ``NaN``, is an error instead of a silent choice."""

from __future__ import annotations

import json
from typing import Any

from kafkaframes.errors import EncodeError


def parse_json(text: bytes | str) -> Any:
    """Return the value of a JSON text.

    >>> parse_json(b'{"value": "paid"}')
    {'value': 'paid'}

    Raises:
        EncodeError: the text is not JSON, is nested too deeply, or an object has a name twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise EncodeError(f"not JSON: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for position, name in enumerate(names) if name in names[:position])
        raise ValueError(f"the name {twice!r} is given twice")
    return result


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a value of JSON")
