"""Find the class of a message: the catalog's by name, a user's by their specs. A spec has one class, made once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

from kafkaframes.errors import OptionError
from kafkaframes.messages.objects import Message, message_class
from kafkaframes.spec import catalog
from kafkaframes.spec.load import load_message
from kafkaframes.spec.model import MessageSpec

Specs: TypeAlias = Mapping[str, MessageSpec] | Iterable[MessageSpec] | MessageSpec | str | Path


def class_of(spec: MessageSpec) -> type[Message]:
    """Return the class of a spec; the same one each time."""
    known: type[Message] | None = vars(spec).get("_message_class")
    if known is None:
        known = vars(spec).setdefault("_message_class", message_class(spec))
    return known


@cache
def _of_catalog(name: str) -> type[Message]:
    return class_of(catalog.load(name))


def message(name: str, *, specs: Specs | None = None) -> type[Message]:
    """Return the class of a message (``kafkaframes.message``).

    Args:
        name: as Kafka names it: ``MetadataResponse``, ``OffsetCommitValue``.
        specs: where to find it instead of the catalog: specs, by name or one after another; or a path to a spec's
            file or a folder of them, which is read at each call.

    Raises:
        SpecError: there is no such message, or its file is no spec.
        OptionError: ``specs`` has no such message.
    """
    if specs is None:
        return _of_catalog(name)
    if isinstance(specs, str | Path):
        return class_of(_from_path(name, Path(specs)))
    if isinstance(specs, MessageSpec):
        specs = (specs,)
    found = {spec.name: spec for spec in (specs.values() if isinstance(specs, Mapping) else specs)}
    if name not in found:
        raise OptionError(f"no message {name!r} among these specs: {', '.join(sorted(found)) or 'none at all'}")
    return class_of(found[name])


def _from_path(name: str, path: Path) -> MessageSpec:
    file = path / f"{name}.json" if path.is_dir() else path
    try:
        text = file.read_bytes()
    except OSError as error:
        raise OptionError(f"no spec of {name} can be read at {path}: {error}") from None
    spec = load_message(text, file=str(file))
    if spec.name != name:
        raise OptionError(f"{file} is the spec of {spec.name}, not of {name}")
    return spec
