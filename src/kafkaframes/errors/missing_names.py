"""Errors for missing attributes, with advice for users who expect the names of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn


def reject_attributes(hints: Mapping[str, str]) -> Callable[[object, str], NoReturn]:
    """Return a ``__getattr__`` that raises an error with a hint.

    Assign it only if not ``TYPE_CHECKING``: type checkers accept every attribute of a class with ``__getattr__``.

    Args:
        hints: advice for users of other libraries; each key lists attribute names, separated by spaces.
    """
    hint_by_name = {name: hint for names, hint in hints.items() for name in names.split()}

    def get_attribute(owner: object, name: str) -> NoReturn:
        hint = f"; {hint_by_name[name]}" if name in hint_by_name else ""
        message = f"{type(owner).__name__!r} object has no attribute {name!r}{hint}"
        raise AttributeError(message, name=name, obj=owner)

    return get_attribute
