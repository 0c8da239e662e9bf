"""Requests with a list of any length: for each API, at its latest version, and each list in its request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.protocol.messages import Message, message

Path = tuple[str, ...]


def list_paths(struct: Any, version: int) -> Iterator[Path]:
    """Yield the path of attribute names to each list in a message or struct."""
    for info in struct._fields:
        if info.spec.versions.contains(version) and str(info.spec.type).startswith("[]"):
            yield (info.attribute,)
            if info.struct is not None:
                yield from ((info.attribute, *inner) for inner in list_paths(info.struct, version))


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
        count_here = 1 if inner else count
        values[name] = [_element(info, version, tuple(inner), number, count) for number in range(count_here)]
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
        element_kind: Any = text if kind.endswith("string") else None
        if info.struct is not None:
            element_kind = with_long_texts(info.struct, version, text)
        if element_kind is not None:
            values[info.attribute] = [element_kind] if kind.startswith("[]") else element_kind
    return struct(**values)


CASES = [
    (api.name, api.range[1], path)
    for api in collect_apis().values()
    for path in list_paths(message(f"{api.name}Request"), api.range[1])
]


def build_request(name: str, version: int, path: Path, count: int) -> Message:
    """Return a request of an API with ``count`` elements in the list at ``path``."""
    request: Message = with_long_list(message(f"{name}Request"), version, path, count)
    return request
