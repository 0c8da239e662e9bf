"""Entry points that are not loaded: what was declared, and what loads it when it is called for the first time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafkaframes.kernels.deferred import INSIDE, OPTIONS, rehomed

# module -> its entry points, in the order in which they stand there
DECLARED: Final[dict[str, list[Kernel]]] = {}


class Kernel:
    """A kernel that is not loaded yet; once it is, calls go on to it."""

    def __init__(
        self,
        function: Callable[..., Any],
        signatures: tuple[Any, ...],
        load: Callable[[Kernel], Callable[..., Any]] | None = None,
    ) -> None:
        self.py_func = function
        self.signatures = signatures
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__
        self._load = load
        self._run = self._first
        self._made: Any = None

    def __call__(self, *args: Any) -> Any:
        """Run the kernel.

        Raises:
            TypeError: for arguments of other types; there is no silent second compilation.
        """
        return self._run(*args)

    def _first(self, *args: Any) -> Any:
        assert self._load is not None
        self._run = self._load(self)
        return self._run(*args)

    def dispatcher(self) -> Any:
        """Return numba's form of this function, for other kernels to be compiled with."""
        if self._made is None:
            import numba

            self._made = numba.njit(**OPTIONS, **INSIDE)(rehomed(self.py_func))
        return self._made
