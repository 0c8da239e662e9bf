"""The text of ``kafka.pyi``: a class for each message and struct of the catalog, for editors and type checkers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kafkaframes.protocol.messages.plan import attribute_of
from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec, StructSpec

_TYPES: Final = {
    "bool": "bool",
    "float64": "float",
    "uuid": "UUID",
    "string": "str",
    "bytes": "bytes",
    "records": "bytes",
}
_PARTS: Final = {"records": " | Part"}  # what a message is made of can lie in a file until it is sent
_HEADER: Final = '''\
"""Written by `kafkaframes spec stubs` from the catalog; do not edit."""

from collections.abc import Iterable
from typing import Literal, overload
from uuid import UUID

from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.messages.structs import Struct
from kafkaframes.protocol.messages.registry import Specs
from kafkaframes.wire.parts import Part

_Tags = Iterable[tuple[int, bytes]]
'''


_OWN: Final = '''\
"""The messages of {folder} as names. Written by `kafkaframes spec stubs`; do not edit."""

from pathlib import Path

from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.registry import specs_by_name

_SPECS = specs_by_name(Path(__file__).parent / {folder!r})


def __getattr__(name):
    if name not in _SPECS:
        raise AttributeError(f"no message {{name}} in {folder}")
    return message(name, specs=_SPECS)
'''


def own_module(folder: str) -> str:
    """Return a module that has the messages of a folder as names; ``folder`` is that seen from the module's."""
    return _OWN.format(folder=folder)


def stub_text(specs: Iterable[MessageSpec], *, overloads: bool = True) -> str:
    """Return the stub of all these messages; with an overload of ``message`` for each name, as in the catalog's."""
    specs = list(specs)
    lines = [_HEADER]
    for spec in specs:
        lines += [*_message(spec), ""]
    if not overloads:
        return "\n".join(lines)
    for spec in specs:
        lines += [
            "@overload",
            f'def message(name: Literal["{spec.name}"], *, specs: None = None) -> type[{spec.name}]: ...',
        ]
    lines += ["@overload", "def message(name: str, *, specs: Specs | None = None) -> type[Message]: ...", ""]
    return "\n".join(lines)


def _message(spec: MessageSpec) -> Iterator[str]:
    yield f"class {spec.name}(Message):"
    for struct in spec.structs.values():
        yield f"    class {struct.name}(Struct):"
        yield from _body(spec, struct, "        ")
    yield from _body(spec, spec.struct, "    ")


def _body(spec: MessageSpec, struct: StructSpec, indent: str) -> Iterator[str]:
    typed = [(attribute_of(field), _type(spec, field), _PARTS.get(field.type.name, "")) for field in struct.fields]
    for name, type_, _ in typed:
        yield f"{indent}{name}: {type_}"
    keywords = "".join(f"{name}: {type_}{parts} = ..., " for name, type_, parts in typed)
    yield f"{indent}def __init__(self, *, {keywords}unknown_tags: _Tags = ...) -> None: ..."


def _type(spec: MessageSpec, field: FieldSpec) -> str:
    name = f"{spec.name}.{field.type.name}" if field.type.is_struct else _TYPES.get(field.type.name, "int")
    text = f"list[{name}]" if field.type.is_array else name
    nullable = not field.nullable_versions.is_empty or field.default is None
    return f"{text} | None" if nullable else text
