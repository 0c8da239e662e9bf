"""Find the class of a message: the catalog's by name, a user's by their specs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages.objects import Message, class_in_catalog, class_of
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.load import load_message
from kafkaframes.protocol.spec.merge import merge_older
from kafkaframes.protocol.spec.model import MessageSpec

Specs: TypeAlias = Mapping[str, MessageSpec] | Iterable[MessageSpec] | MessageSpec | str | Path


def message(name: str, *, specs: Specs | None = None) -> type[Message]:
    """Return the class of a message (``kafkaframes.message_class``).

    Args:
        name: as Kafka names it: ``MetadataResponse``, ``OffsetCommitValue``.
        specs: where to find it instead of the catalog: specs, by name or one after another; or a path to a spec's
            file or a folder of them, which is read at each call.

    Raises:
        SpecError: there is no such message, or its file is no spec.
        OptionError: ``specs`` has no such message.
    """
    if specs is None:
        return class_in_catalog(name)
    found = specs_by_name(specs)
    if name not in found:
        raise OptionError(f"no message {name!r} among these specs: {', '.join(sorted(found)) or 'none at all'}")
    return class_of(found[name])


def specs_by_name(specs: Specs) -> dict[str, MessageSpec]:
    """Return a user's specs by name.

    Raises:
        SpecError: a file is no spec.
        OptionError: a path cannot be read.
    """
    if isinstance(specs, str | Path):
        several: Iterable[MessageSpec] = _from_path(Path(specs))
    elif isinstance(specs, MessageSpec):
        several = (specs,)
    else:
        several = specs.values() if isinstance(specs, Mapping) else specs
    return {spec.name: spec for spec in several}


def message_of(name: str, specs: Specs | None) -> type[Message]:
    """Return the class of a message of a user's specs, or of the catalog where they have none of this name.

    Raises:
        SpecError: there is no such message, or a file is no spec.
        OptionError: a path cannot be read.
    """
    own = {} if specs is None else specs_by_name(specs)
    return class_of(own[name]) if name in own else class_in_catalog(name)


def with_catalog(specs: Specs) -> dict[str, MessageSpec]:
    """Return a user's specs by name, and the catalog's request or response of each API where they have none.

    Versions below those of a user's spec are the catalog's: both ends go on speaking them.

    Raises:
        SpecError: a file is no spec, or one class cannot have its versions and the catalog's.
        OptionError: a path cannot be read.
    """
    known = specs_by_name(specs)
    own = {(spec.api_key, spec.type): name for name, spec in known.items()}
    for api in catalog.apis():
        for type_, name in (("request", api.request), ("response", api.response)):
            own_name = own.get((api.key, type_))
            if own_name is None:
                known.setdefault(name, catalog.load(name))
            else:
                known[own_name] = merge_older(known[own_name], catalog.load(name))
    return known


def _from_path(path: Path) -> Iterator[MessageSpec]:
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    for file in files:
        try:
            text = file.read_bytes()
        except OSError as error:
            raise OptionError(f"no spec can be read at {file}: {error}") from None
        yield load_message(text, file=str(file))
