"""Generate ``kafka.pyi``: a class for each message and struct of the catalog, for editors and type checkers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages.plan import attribute_name
from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec, StructSpec

_PYTHON_TYPES: Final = {
    "bool": "bool",
    "float64": "float",
    "uuid": "UUID",
    "string": "str",
    "bytes": "bytes",
}
_STUB_HEADER: Final = '''\
"""Written by kafkaframes from the specs of the messages; do not edit."""

from collections.abc import Iterable
from typing import Any, Literal, dataclass_transform, overload
from uuid import UUID

from kafkaframes.protocol.messages import objects, structs
from kafkaframes.protocol.messages.registry import Specs
from kafkaframes.wire.primitives import DeferredBytes

class _Tags:
    def __get__(self, value: object, owner: Any = None) -> list[tuple[int, bytes]]: ...
    def __set__(self, value: object, tags: Iterable[tuple[int, bytes]]) -> None: ...

class _Records:  # they may lie in a file until the message is sent
    def __get__(self, value: object, owner: Any = None) -> bytes | None: ...
    def __set__(self, value: object, records: bytes | DeferredBytes | None) -> None: ...

@dataclass_transform(kw_only_default=True, eq_default=False)
class _Fields: ...

class _Struct(structs.Struct, _Fields):
    unknown_tags: _Tags = ...  # type: ignore[override]

class _Message(objects.Message, _Fields):
    unknown_tags: _Tags = ...  # type: ignore[override]
'''


_OWN_MODULE_TEXT: Final = '''\
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


def write_module(specs: str | os.PathLike[str], to: str | os.PathLike[str]) -> list[str]:
    """Write a module of a folder's messages, and its stub. Return the names of the messages."""
    from kafkaframes.protocol.messages.registry import specs_by_name

    target = Path(to)
    if target.suffix != ".py":
        raise OptionError(f"`to` {target}: must be FILE.py")
    own_specs = specs_by_name(os.fspath(specs))
    try:
        target.write_text(make_own_module(os.path.relpath(specs, target.parent)))
        target.with_suffix(".pyi").write_text(make_stub(own_specs.values(), overloads=False))
    except OSError as error:
        raise OptionError(f"`to` {target}: {error.strerror or error}") from None
    return list(own_specs)


def make_own_module(folder: str) -> str:
    """Return the source of a module that has the messages in a folder as names.

    ``folder`` is relative to the module.
    """
    return _OWN_MODULE_TEXT.format(folder=folder)


def make_stub(specs: Iterable[MessageSpec], *, overloads: bool = True) -> str:
    """Return the stub of these messages; with ``overloads``, also an overload of ``message`` for each name."""
    specs = list(specs)
    lines = [_STUB_HEADER]
    for spec in specs:
        lines += [*_write_message_stub(spec), ""]
    if not overloads:
        return "\n".join(lines)
    for spec in specs:
        lines += [
            "@overload",
            f'def message(name: Literal["{spec.name}"], *, specs: None = None) -> type[{spec.name}]: ...',
        ]
    lines += ["@overload", "def message(name: str, *, specs: Specs | None = None) -> type[objects.Message]: ...", ""]
    return "\n".join(lines)


def _write_message_stub(spec: MessageSpec) -> Iterator[str]:
    yield f"class {spec.name}(_Message):"
    for struct in spec.structs.values():
        yield f"    class {struct.name}(_Struct):"
        yield from _write_class_body(spec, struct, "        ")
    yield from _write_class_body(spec, spec.struct, "    ")


def _write_class_body(spec: MessageSpec, struct: StructSpec, indent: str) -> Iterator[str]:
    if not struct.fields:
        yield f"{indent}pass"
    for field in struct.fields:
        yield f"{indent}{attribute_name(field)}: {_make_annotation(spec, field)} = ..."


def _make_annotation(spec: MessageSpec, field: FieldSpec) -> str:
    if field.type.name == "records":
        return "_Records"
    name = f"{spec.name}.{field.type.name}" if field.type.is_struct else _PYTHON_TYPES.get(field.type.name, "int")
    text = f"list[{name}]" if field.type.is_array else name
    nullable = not field.nullable_versions.is_empty or field.default is None
    return f"{text} | None" if nullable else text
