"""Measures of a reader's work other than time: executed lines of Python, and copied bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def count_executed_lines(run: Callable[[], Any]) -> int:
    """Return how many lines of the package ``run`` executes."""
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        if event == "call":
            return trace if "kafkaframes/capture" in frame.f_code.co_filename else None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def count_copied_bytes(monkeypatch: Any, run: Callable[[], Any]) -> int:
    """Return how many bytes ``run`` copies by joining arrays."""
    concatenate, copied_bytes = np.concatenate, 0

    def count_copied(arrays: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal copied_bytes
        joined_array = concatenate(arrays, *arguments, **options)
        copied_bytes += joined_array.nbytes
        return joined_array

    with monkeypatch.context() as patch:
        patch.setattr(np, "concatenate", count_copied)
        run()
    return copied_bytes
