"""Requests with lists of any length: for every API, each of its lists, at its latest version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.protocol.messages import Message, message

Path = tuple[str, ...]


def lists_of(struct: Any, version: int) -> Iterator[Path]:
    """Yield the path of every list in a message or struct, by attributes."""
    for info in struct._fields:
        if info.spec.versions.contains(version) and str(info.spec.type).startswith("[]"):
            yield (info.attribute,)
            if info.struct is not None:
                yield from ((info.attribute, *inner) for inner in lists_of(info.struct, version))


def with_long_list(struct: Any, version: int, path: Path, count: int, *, number: int = 0) -> Any:
    """Return a message or struct in which the list at a path has ``count`` elements, all different."""
    values: dict[str, Any] = {}
    for info in struct._fields:
        kind = str(info.spec.type) if info.spec.versions.contains(version) else ""
        if kind == "string":
            values[info.attribute] = f"name-{number}"
        elif kind.startswith("int"):
            values[info.attribute] = number % 100 if kind == "int8" else number
        elif kind == "uuid":
            values[info.attribute] = UUID(int=number + 2)
    if path:
        name, *inner = path
        info = next(field for field in struct._fields if field.attribute == name)
        times = 1 if inner else count
        values[name] = [_element(info, version, tuple(inner), number, count) for number in range(times)]
    return struct(**values)


def _element(info: Any, version: int, inner: Path, number: int, count: int) -> Any:
    if info.struct is not None:
        return with_long_list(info.struct, version, inner, count, number=number)
    kind = str(info.spec.type)[2:]
    number = number % 100 if kind == "int8" else number
    return {"string": f"name-{number}", "uuid": UUID(int=number + 2), "bytes": b"x"}.get(kind, number)


def with_long_texts(struct: Any, version: int, text: str) -> Any:
    """Return a message or struct with strings of Kafka's maximum length and one element in each list."""
    values: dict[str, Any] = {}
    for info in struct._fields:
        if not info.spec.versions.contains(version):
            continue
        kind = str(info.spec.type)
        of_element: Any = text if kind.endswith("string") else None
        if info.struct is not None:
            of_element = with_long_texts(info.struct, version, text)
        if of_element is not None:
            values[info.attribute] = [of_element] if kind.startswith("[]") else of_element
    return struct(**values)


CASES = [
    (api.name, api.range[1], path)
    for api in collect_apis().values()
    for path in lists_of(message(f"{api.name}Request"), api.range[1])
]


def request_of(name: str, version: int, path: Path, count: int) -> Message:
    """Return an API's request with a long list."""
    request: Message = with_long_list(message(f"{name}Request"), version, path, count)
    return request
