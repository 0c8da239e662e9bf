"""Mutated JSON documents for tests of readers: values are replaced, removed, duplicated, nested or made huge."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any

UNUSUAL_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 127, 128, 2**31 - 1, 2**31, 2**63, -(2**63) - 1, 10**30, 1.5, 1e308, float("nan"), "",
    " ", "0", "-1", "0+", "none", "null", "0-32767", "65535+", "9" * 40, "\0", "\ud800", "é" * 40, "a" * 5000, [],
    {}, [[]], [{}], {"": None},
]  # fmt: skip


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Return each container of a document with each of its keys or indexes."""
    places: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        places += [(one, key) for key in keys]
        waiting += [one[key] for key in keys]
    return places


def mutate(choose: random.Random, text: str | bytes) -> str:
    """Return a document with one to three changed values. A text that is not valid JSON is returned unchanged."""
    try:
        tree = json.loads(text)
    except ValueError:
        return text if isinstance(text, str) else text.decode("utf-8", "replace")
    for _ in range(choose.choice((1, 1, 2, 3))):
        places = _places(tree)
        if not places:
            break
        container, key = choose.choice(places)
        other, other_key = choose.choice(places)
        mutation = choose.randrange(6)
        if mutation == 0:
            container[key] = deepcopy(choose.choice(UNUSUAL_VALUES))
        elif mutation == 1:
            container[key] = json.loads(json.dumps(other[other_key]))  # from another container
        elif mutation == 2:
            del container[key]
        elif mutation == 3 and isinstance(container, list):
            container.insert(0, json.loads(json.dumps(container[key])))  # twice
        elif mutation == 4:
            container[key] = _nest(container[key], choose.choice((1, 3, 200)))
        elif isinstance(container, dict):
            container[choose.choice((str(key).upper(), f"{key}s", "about", str(other_key)))] = container.pop(key)
    return json.dumps(tree)


def _nest(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value
