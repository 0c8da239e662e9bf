"""The decorator of entry points: they are found ready, or compiled when they are called for the first time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkaframes.kernels import ready
from kafkaframes.kernels.deferred import DECLARED, LOADED, Kernel


def kernel(*signatures: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function as an entry point for ``signatures`` (numba's types)."""

    def declared(function: Callable[..., Any]) -> Callable[..., Any]:
        made = Kernel(function, signatures, _load)
        DECLARED.setdefault(function.__module__, []).append(made)
        run = ready.entry(function.__module__, function.__name__)
        if run is None:
            return made
        LOADED[id(run)] = made
        return run

    return declared


def _load(kernel: Kernel) -> Callable[..., Any]:
    from kafkaframes.kernels import demand  # processes, locks: what a kernel that is ready needs nothing of

    return demand.ready_or_compiled(kernel)
