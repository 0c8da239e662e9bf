"""A kind of agreement: its cases, and the disagreements of one.

A kind's module has one public name, ``KIND``, which ``__main__`` lists. Only a case function may open the reference:
the product receives the input alone.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison: a readable name, and the (picklable) data with which its kind runs it."""

    name: str
    payload: Any


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of reference data, with its cases and its comparison.

    Attributes:
        name: name in the summary line.
        folders: the folders under DIR that this kind reads. An existing folder without cases is a failure.
        cases: lists the cases of one existing folder.
        disagreements: yields one line for each difference (expected, actual). Without differences, the case agrees.
    """

    name: str
    folders: tuple[str, ...]
    cases: Callable[[Path], Iterator[Case]]
    disagreements: Callable[[Case], Iterable[str]]


def compare_case(task: tuple[Kind, Case]) -> tuple[str, str, list[str]]:
    """Return the names of the kind and the case, and the lines.

    It is not in ``__main__``, because worker processes cannot import from there.
    """
    kind, case = task
    try:
        return kind.name, case.name, list(kind.disagreements(case))
    except Exception:  # an exception in our code is a disagreement with a traceback
        return kind.name, case.name, ["raised " + traceback.format_exc(limit=-6)]


def differences(expected_value: Any, actual_value: Any, where: str = "") -> Iterator[str]:
    """Yield a line for every difference between two JSON-like values, including missing and additional keys."""
    if isinstance(expected_value, dict) and isinstance(actual_value, dict):
        for key in expected_value.keys() | actual_value.keys():
            place = f"{where}.{key}" if where else str(key)
            if key not in actual_value:
                yield f"{place}: expected {_shorten(expected_value[key])}, found nothing"
            elif key not in expected_value:
                yield f"{place}: expected nothing, found {_shorten(actual_value[key])}"
            else:
                yield from differences(expected_value[key], actual_value[key], place)
    elif isinstance(expected_value, list) and isinstance(actual_value, list):
        if len(expected_value) != len(actual_value):
            yield f"{where}: expected {len(expected_value)} elements, found {len(actual_value)}"
        for index, (one, other) in enumerate(zip(expected_value, actual_value, strict=False)):
            yield from differences(one, other, f"{where}[{index}]")
    elif type(expected_value) is not type(actual_value) or expected_value != actual_value:
        yield f"{where}: expected {_shorten(expected_value)}, found {_shorten(actual_value)}"


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:150]}... ({len(text)} characters)"
