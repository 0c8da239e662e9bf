"""Kernels and numba expressions that are resolved only when a kernel is compiled.

A kernel file is ordinary Python that uses the types of numba and LLVM, and its own helper functions. If the kernels of
a file are already compiled, its import must not import numba, which takes longer than most commands. Numba's and LLVM's
names are therefore ``DeferredExpression`` objects, which record the attributes and calls, and decorators return objects
that record the function. Before a compilation, ``resolve`` evaluates them: each function is copied, and the globals of
the copy have their actual values. The modules themselves do not change. ``plain.py`` copies functions in the same way
to run kernels as plain Python.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cached_property
from types import CellType, FunctionType
from typing import Any, Final

# Without reference counts: the caller owns every array. Atomic counters for the arrays of each device call took more
# than half of the time of index_records (2026-11-21).
COMPILE_OPTIONS: Final = {"nogil": True, "_nrt": False}
# Functions that only kernels call need no wrapper for Python.
DEVICE_COMPILE_OPTIONS: Final = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# id of a loaded machine-code function -> its kernel. Other kernels that call the function are compiled with the kernel.
KERNEL_BY_FUNCTION_ID: Final[dict[int, Any]] = {}


class DeferredExpression:
    """An expression of numba or LLVM that is evaluated before a compilation, such as ``types.int64(types.int64)``."""

    __slots__ = ("_arguments", "_evaluate", "_name", "_values")

    def __init__(self, evaluate: Callable[[], Any], name: str = "", arguments: tuple[Any, ...] = ()) -> None:
        self._evaluate = evaluate
        self._values: list[Any] = []  # empty until the value has been evaluated
        self._name = name
        self._arguments = arguments

    def __getattr__(self, name: str) -> DeferredExpression:
        # Copy, pickle and doctest look up private attributes; numba's names never start with an underscore.
        if name.startswith("_"):
            raise AttributeError(name)
        return DeferredExpression(lambda: getattr(resolve(self), name), name)

    def __call__(self, *args: Any, **options: Any) -> DeferredExpression:
        """Record a call."""

        def evaluate() -> Any:
            """Return the result of the recorded call, with resolved arguments."""
            keywords = {name: resolve(value) for name, value in options.items()}
            return resolve(self)(*map(resolve, args), **keywords)

        return DeferredExpression(evaluate, self._name, args)


def defer_module(name: str) -> DeferredExpression:
    """Return a module that is imported before the first compilation."""
    return DeferredExpression(lambda: importlib.import_module(name))


class ConstantTable(DeferredExpression):
    """A constant array. The array is computed when a kernel that uses it is compiled, or run as plain Python."""

    __slots__ = ()


def defer_table(function: Callable[..., Any], *args: Any) -> Any:
    """Return a constant array that is computed when a kernel that uses it is compiled, or run as plain Python."""
    return ConstantTable(lambda: function(*args))


class DeviceFunction:
    """A function that kernels call. A call from Python, as in tests, compiles it for the argument types."""

    def __init__(self, function: Callable[..., Any], plain: Callable[..., Any] | None = None, **options: Any) -> None:
        self.py_func = function
        self.plain = plain
        self.options = options

    def __call__(self, *args: Any) -> Any:
        """Compile the function for the types of the arguments, and call it."""
        return _create_dispatcher(self.py_func)(*args)

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's dispatcher of this function, for the compilation of its callers."""
        return _create_dispatcher(self.py_func, **DEVICE_COMPILE_OPTIONS, **self.options)


class Intrinsic:
    """A function that generates LLVM code. ``plain`` is its equivalent in Python."""

    def __init__(self, function: Callable[..., Any], plain: Callable[..., Any]) -> None:
        self.function = function
        self.plain = plain

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's intrinsic of this function, for the compilation of its callers."""
        from numba.extending import intrinsic

        return intrinsic(copy_function(self.function))


def _create_dispatcher(function: Callable[..., Any], **options: Any) -> Any:
    import numba

    return numba.njit(**COMPILE_OPTIONS, **options)(copy_function(function))


def resolve(value: Any) -> Any:
    """Return the value of a deferred expression, the dispatcher of a function, or any other value unchanged."""
    if isinstance(value, DeferredExpression):
        if not value._values:
            value._values.append(value._evaluate())
        return value._values[0]
    if hasattr(type(value), "dispatcher"):
        return value.dispatcher
    if is_kernel_helper(value):
        return copy_function(value)
    if type(value) in (tuple, list):
        return type(value)(map(resolve, value))
    return KERNEL_BY_FUNCTION_ID[id(value)].dispatcher if id(value) in KERNEL_BY_FUNCTION_ID else value


def is_kernel_helper(value: Any) -> bool:
    """Return whether a value is an undecorated function of a kernel file."""
    return isinstance(value, FunctionType) and "._kernels" in str(value.__globals__.get("__name__"))


class FunctionCopies:
    """Copies functions, and replaces the globals of each copy with the results of ``replace``."""

    def __init__(self, replace: Callable[[Any], Any]) -> None:
        self._replace = replace
        self._namespaces: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._functions: dict[int, tuple[Any, FunctionType]] = {}

    def _replace_globals(self, namespace: dict[str, Any]) -> dict[str, Any]:
        """Return the copy of a namespace. The original namespace is kept as well, so that its ``id`` stays unique."""
        if id(namespace) not in self._namespaces:
            copy: dict[str, Any] = {}
            self._namespaces[id(namespace)] = (namespace, copy)
            for name, value in list(namespace.items()):
                copy[name] = value if name.startswith("__") else self._replace(value)
        return self._namespaces[id(namespace)][1]

    def copy_function(self, function: Any) -> FunctionType:
        """Return a copy of a function with replaced globals and closure variables."""
        if id(function) not in self._functions:
            cells = tuple(CellType(self._replace(cell.cell_contents)) for cell in function.__closure__ or ())
            namespace = self._replace_globals(function.__globals__)
            copy = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, cells)
            copy.__kwdefaults__, copy.__qualname__ = function.__kwdefaults__, function.__qualname__
            copy.__module__, copy.__doc__ = function.__module__, function.__doc__
            self._functions[id(function)] = (function, copy)
        return self._functions[id(function)][1]


copy_function: Final = FunctionCopies(resolve).copy_function

# module -> its kernels, in source order
KERNELS_BY_MODULE: Final[dict[str, list[Kernel]]] = {}


class Kernel:
    """A kernel: a function that is compiled to machine code.

    The first call loads the compiled function, and later calls go directly to that function.
    """

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
        self._run = self._load_and_run

    def __call__(self, *args: Any) -> Any:
        """Run the kernel.

        Raises:
            TypeError: an argument has a type for which the kernel was not compiled; a call never compiles it for other
                types.
        """
        return self._run(*args)

    def _load_and_run(self, *args: Any) -> Any:
        assert self._load is not None
        self._run = self._load(self)
        return self._run(*args)

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's dispatcher of this function, for the compilation of other kernels."""
        return _create_dispatcher(self.py_func, **DEVICE_COMPILE_OPTIONS)
