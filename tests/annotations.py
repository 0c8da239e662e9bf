"""The public API, and the classes in its annotations, for the tests that compare both."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import typing
from collections.abc import Iterator
from importlib import import_module

from tools.public_api import PACKAGES

_SPECIAL = ("__init__", "__iter__", "__next__", "__enter__", "__aenter__", "__anext__", "__call__", "__getitem__")


def exported_values() -> dict[object, str]:
    """Return the public classes and functions, each with its full name."""
    result: dict[object, str] = {}
    for package in PACKAGES:
        module = import_module(package)
        values = {f"{package}.{name}": getattr(module, name) for name in module.__all__}
        result |= {value: name for name, value in values.items() if inspect.isclass(value) or inspect.isfunction(value)}
    return result


def classes_in_annotations(value: object) -> Iterator[tuple[str, type]]:
    """Yield (member, class) for each class of this package in the annotations of a class or a function."""
    for member, annotation, module in _annotations(value):
        for kind in _classes_in_annotation(annotation, module):
            if kind.__module__.startswith("kafkaframes"):
                yield member, kind


def _annotations(value: object) -> Iterator[tuple[str, object, str]]:
    if not inspect.isclass(value):
        yield from _annotations_of_function("", value)
        return
    for base in (base for base in value.__mro__ if base.__module__.startswith("kafkaframes")):
        for name, annotation in vars(base).get("__annotations__", {}).items():
            if not name.startswith("_"):
                yield name, annotation, base.__module__
        for name, member in vars(base).items():
            # the parameters of a generated constructor are the fields
            is_generated = name == "__init__" and hasattr(base, "__dataclass_fields__")
            if (not name.startswith("_") or name in _SPECIAL) and not is_generated:
                yield from _annotations_of_function(name, _underlying_function(member))


def _underlying_function(member: object) -> object:
    match member:
        case property():
            return member.fget
        case staticmethod() | classmethod():
            return member.__func__
        case functools.cached_property():
            return member.func
    return member


def _annotations_of_function(name: str, value: object) -> Iterator[tuple[str, object, str]]:
    function = inspect.unwrap(value)
    if inspect.isfunction(function) and function.__module__.startswith("kafkaframes"):
        for parameter, annotation in function.__annotations__.items():
            yield f"{name}({parameter})", annotation, function.__module__


def _classes_in_annotation(annotation: object, module: str) -> Iterator[type]:
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        yield from _classes_in_text(ast.parse(annotation, mode="eval").body, module)
    elif (origin := typing.get_origin(annotation)) is not None:
        if origin is not typing.Literal:
            yield from _classes_in_annotation(origin, module)
            for argument in typing.get_args(annotation):
                yield from _classes_in_annotation(argument, module)
    elif isinstance(annotation, list | tuple):
        for argument in annotation:
            yield from _classes_in_annotation(argument, module)
    elif inspect.isclass(annotation):
        yield annotation


def _classes_in_text(node: ast.AST, module: str) -> Iterator[type]:
    match node:
        case ast.Name(id=name):
            yield from _classes_in_annotation(*_resolve_name(name, module))
        case ast.Constant(value=str(text)):
            yield from _classes_in_annotation(text, module)
        case ast.Subscript(value=ast.Name(id="Literal")):
            pass
        case ast.Attribute():
            pass  # a class of another package, such as pa.Table
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _classes_in_text(child, module)


def _resolve_name(name: str, module: str) -> tuple[object, str]:
    """Return the value of a name in a module, and the module that defines it; imports for type checkers count as
    well.
    """
    if name in _imported_names(module):
        origin, attribute = _imported_names(module)[name]
        return _resolve_name(attribute, origin) if attribute and origin.startswith("kafkaframes") else (None, origin)
    loaded = import_module(module)
    if hasattr(loaded, name):
        return getattr(loaded, name), module
    if hasattr(builtins, name):
        return getattr(builtins, name), module
    if name == "ColumnOrName":  # an alias of PySpark's classes that only type checkers see
        return None, module
    # This module's alias contains the text of an alias of another module.
    for origin in {origin for origin, _ in _imported_names(module).values() if origin.startswith("kafkaframes")}:
        if name in _imported_names(origin) or hasattr(import_module(origin), name):
            return _resolve_name(name, origin)
    raise NameError(f"{module} does not define {name}")


@functools.cache
def _imported_names(module: str) -> dict[str, tuple[str, str]]:
    tree = ast.parse(inspect.getsource(import_module(module)))
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    } | {
        alias.asname or alias.name: (alias.name, "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
