"""Wait for a state that another thread, process or node reaches."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
PATIENCE_S = 60


def wait_for(condition: Callable[[], Result], *, patience_s: float = PATIENCE_S) -> Result:
    """Return the first true result of a condition."""
    deadline = time.monotonic() + patience_s
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not true within {patience_s} s"
        time.sleep(0.02)
    return result
