"""Kernels as they are written down: decorated functions and numba's names, none of which imports numba.

A kernel file is ordinary Python that names numba's types, LLVM's and its own helpers. Importing it must cost nothing
where the kernels are there already, so here each of those names is a ``Later``, which only remembers what was asked
of it, and each decorator makes an object that remembers its function. When something has to be compiled, ``real``
turns them into what they stand for: every function is copied onto a namespace in which each name is the real thing.
The modules themselves stay as they are. ``plain.py`` does the same with what runs as plain Python.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cached_property
from types import CellType, FunctionType
from typing import Any, Final

# Without reference counts: the caller owns every array, and each device call would otherwise count its arrays with
# atomic instructions, which took more than half of the time of index_records (2026-11-21).
OPTIONS: Final = {"nogil": True, "_nrt": False}
# What is only called by kernels needs no wrapper for Python.
INSIDE: Final = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# The kernel that a machine-code function stands for, by that function's identity: others are compiled with the former.
LOADED: Final[dict[int, Any]] = {}


class Later:
    """An expression of numba's or LLVM's, looked up when something is compiled: ``types.int64(types.int64)``."""

    __slots__ = ("_arguments", "_made", "_make", "_name")

    def __init__(self, make: Callable[[], Any], name: str = "", arguments: tuple[Any, ...] = ()) -> None:
        self._make = make
        self._made: list[Any] = []
        self._name = name
        self._arguments = arguments

    def __getattr__(self, name: str) -> Later:
        if name.startswith("_"):  # copy, pickle and doctest ask for such; numba's names do not begin so
            raise AttributeError(name)
        return Later(lambda: getattr(real(self), name), name)

    def __call__(self, *args: Any, **options: Any) -> Later:
        """Remember a call."""
        made = lambda: real(self)(*map(real, args), **{name: real(value) for name, value in options.items()})  # noqa: E731
        return Later(made, self._name, args)


def module(name: str) -> Later:
    """Stand for a module that is imported when something is compiled."""
    return Later(lambda: importlib.import_module(name))


class Table(Later):
    """A table that is computed when something is compiled into which it goes, or run."""

    __slots__ = ()


def computed(function: Callable[..., Any], *args: Any) -> Any:
    """Stand for a table that is computed when something is compiled into which it goes, or run."""
    return Table(lambda: function(*args))


class Device:
    """A function that kernels call. Called from Python (tests do) it is compiled for the arguments at hand."""

    def __init__(self, function: Callable[..., Any], plain: Callable[..., Any] | None = None, **options: Any) -> None:
        self.py_func = function
        self.plain = plain
        self.options = options

    def __call__(self, *args: Any) -> Any:
        """Run it, compiled for these arguments."""
        return _by_numba(self.py_func)(*args)

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's form of this function, for others to be compiled with."""
        return _by_numba(self.py_func, **INSIDE, **self.options)


class Intrinsic:
    """A function that writes LLVM's code; what it says of its type may still be a ``Later``.

    ``plain`` does the same in Python.
    """

    def __init__(self, function: Callable[..., Any], plain: Callable[..., Any]) -> None:
        self.function = function
        self.plain = plain

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's form of this function, for others to be compiled with."""
        from numba.extending import intrinsic

        return intrinsic(rehomed(self.function))


def _by_numba(function: Callable[..., Any], **options: Any) -> Any:
    import numba

    return numba.njit(**OPTIONS, **options)(rehomed(function))


def real(value: Any) -> Any:
    """Return what ``value`` stands for; anything else is itself."""
    if isinstance(value, Later):
        if not value._made:
            value._made.append(value._make())
        return value._made[0]
    if hasattr(type(value), "dispatcher"):
        return value.dispatcher
    if is_of_kernels(value):
        return rehomed(value)
    if type(value) in (tuple, list):
        return type(value)(map(real, value))
    return LOADED[id(value)].dispatcher if id(value) in LOADED else value


def is_of_kernels(value: Any) -> bool:
    """Tell whether a value is a function that stands in a kernel file without a decorator."""
    return isinstance(value, FunctionType) and "._kernels" in str(value.__globals__.get("__name__"))


class Homes:
    """Copies of functions onto namespaces in which each name is what ``stand_in`` makes of it."""

    def __init__(self, stand_in: Callable[[Any], Any]) -> None:
        self._stand_in = stand_in
        self._homes: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._functions: dict[int, tuple[Any, FunctionType]] = {}

    def _home(self, namespace: dict[str, Any]) -> dict[str, Any]:
        """Return the namespace for another; made once, and kept with the one it was made of."""
        if id(namespace) not in self._homes:
            made: dict[str, Any] = {}
            self._homes[id(namespace)] = (namespace, made)
            for name, value in list(namespace.items()):
                made[name] = value if name.startswith("__") else self._stand_in(value)
        return self._homes[id(namespace)][1]

    def rehomed(self, function: Any) -> FunctionType:
        """Return a copy of ``function`` for which every name outside it is what ``stand_in`` makes of it."""
        if id(function) not in self._functions:
            cells = tuple(CellType(self._stand_in(cell.cell_contents)) for cell in function.__closure__ or ())
            made = FunctionType(
                function.__code__, self._home(function.__globals__), function.__name__, function.__defaults__, cells
            )
            made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
            made.__module__, made.__doc__ = function.__module__, function.__doc__
            self._functions[id(function)] = (function, made)
        return self._functions[id(function)][1]


rehomed: Final = Homes(real).rehomed

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

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's form of this function, for other kernels to be compiled with."""
        return _by_numba(self.py_func, **INSIDE)
