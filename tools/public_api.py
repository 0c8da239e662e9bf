"""Write the public API as text: the names, signatures and defaults of everything in ``__all__`` of the public packages.

``python tools/public_api.py`` rewrites ``tests/public_api.txt``. A test fails if the API and this file differ, so that
a change of the API shows in review.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGES = (
    "kafkaframes",
    "kafkaframes.broker",
    "kafkaframes.capture",
    "kafkaframes.client",
    "kafkaframes.errors",
    "kafkaframes.jobs",
    "kafkaframes.protocol",
    "kafkaframes.records",
    "kafkaframes.scan",
    "kafkaframes.spark",
    "kafkaframes.spark.functions",
    "kafkaframes.storage",
    "kafkaframes.testing",
)
TARGET = Path(__file__).parents[1] / "tests" / "public_api.txt"


def yield_api_lines() -> Iterator[str]:
    """Yield a line for each public function, class, method, property and constant."""
    for package in PACKAGES:
        module = import_module(package)
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if inspect.ismodule(value):
                yield f"{package}.{name}: module"
            elif inspect.isclass(value) and package == PACKAGES[0]:
                yield f"{package}.{name}: class, see below"
            elif inspect.isclass(value):
                yield from _yield_class_lines(f"{package}.{name}", value)
            elif callable(value):
                yield f"{package}.{name}{_format_signature(value)}"
            elif name != "__version__":
                yield f"{package}.{name}: {type(value).__name__}"


def _yield_class_lines(name: str, kind: type) -> Iterator[str]:
    """Yield a line for a class and for each of its public members."""
    yield f"{name}{_format_signature(kind)}"
    is_exception = issubclass(kind, BaseException)
    for member in sorted(dir(kind)):
        if member.startswith("_") or (is_exception and hasattr(BaseException, member)):
            continue
        if not _is_ours(kind, member):
            continue
        value = inspect.getattr_static(kind, member)
        if isinstance(value, property):
            yield f"{name}.{member}: property -> {_return_of(value)}"
        elif isinstance(value, staticmethod | classmethod) or callable(value):
            yield f"{name}.{member}{_format_signature(getattr(kind, member))}"
        else:
            yield f"{name}.{member}"


def _is_ours(kind: type, member: str) -> bool:
    """Return whether a class of this package defines the member."""
    owner = next((base for base in kind.__mro__ if member in vars(base)), kind)
    return owner.__module__.startswith("kafkaframes")


def _return_of(value: property) -> str:
    return "?" if value.fget is None else str(value.fget.__annotations__.get("return", "?"))


def _format_signature(value: Any) -> str:
    """Return the signature of a function as text."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [
        parameter.replace(
            annotation=_shorten_annotation(parameter.annotation), default=_shorten_default(parameter.default)
        )
        for parameter in signature.parameters.values()
    ]
    return str(
        signature.replace(parameters=parameters, return_annotation=_shorten_annotation(signature.return_annotation))
    )


class _UnquotedText:
    """An annotation or a default that is shown as this text, without quotes and addresses in memory."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _shorten_annotation(value: Any) -> Any:
    """Return an annotation in the form in which a signature shows it."""
    if value is inspect.Parameter.empty:
        return value
    return _UnquotedText(value if isinstance(value, str) else inspect.formatannotation(value))


def _shorten_default(value: Any) -> Any:
    """Return a default value in the form in which a signature shows it."""
    if value is inspect.Parameter.empty or isinstance(value, bool | int | float | str | bytes | tuple | None):
        return value
    if " at 0x" in repr(value) or "factory" in repr(value):
        return _UnquotedText(f"<{type(value).__name__}>")
    return value


def main() -> None:
    """Rewrite the snapshot."""
    TARGET.write_text("".join(f"{line}\n" for line in yield_api_lines()))


if __name__ == "__main__":
    main()
