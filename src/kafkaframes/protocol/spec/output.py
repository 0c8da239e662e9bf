"""Write the specs of a proposal into a folder: all specs of a source, some of which the proposal changes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from kafkaframes.errors import OptionError
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.emit import to_text
from kafkaframes.protocol.spec.model import MessageSpec
from kafkaframes.protocol.spec.sources import load_files

_COMMENTS_PATTERN: Final = re.compile(
    r"(?:\s|//[^\n]*\n|/\*.*?\*/)*", re.DOTALL
)  # comments before the object: a license
_HEADER_NAMES: Final = ("RequestHeader", "ResponseHeader")


def read_files(source: str | os.PathLike[str] | None) -> dict[str, tuple[MessageSpec, bytes]]:
    """Return the specs of a source by name, with their text. Without a source, return the connection's specs.

    The listener ``zkBroker`` of the catalog's oldest APIs is omitted, because generators of 4.0 and later reject it.
    """
    if source is None:
        names = [name for api in catalog.list_apis() for name in (api.request, api.response)]
        specs = map(catalog.load_spec, (*_HEADER_NAMES, *names))
        kept_specs = [
            replace(spec, listeners=tuple(name for name in spec.listeners if name != "zkBroker")) for spec in specs
        ]
        return {spec.name: (spec, to_text(spec).encode()) for spec in kept_specs}
    return load_files(source)


def make_spec_bytes(spec: MessageSpec, before: MessageSpec, text: bytes) -> bytes:
    """Return the bytes of a spec's file: the old bytes if the spec is unchanged, else its comments and the new text."""
    if spec is before:
        return text
    head = _COMMENTS_PATTERN.match(text.decode("utf-8", "replace"))
    return ((head[0] if head else "") + to_text(spec)).encode()


def check_target(source: str | os.PathLike[str] | None, to: str | os.PathLike[str]) -> None:
    """Reject a folder that is inside the source, or that contains other files than a rewrite writes."""
    target = Path(to)
    if source is not None:
        inside = target.resolve()
        if Path(source).resolve() in (inside, *inside.parents):
            raise OptionError(f"`to` {target} is inside the source, which is never written to")
    surplus = [path.name for path in sorted(target.glob("*")) if path.suffix != ".json"] if target.exists() else []
    if surplus:
        raise OptionError(f"`to` {target} holds other files ({surplus[0]}): name a new folder")


def write_specs(
    to: str | os.PathLike[str], specs: Mapping[str, MessageSpec], files: Mapping[str, tuple[MessageSpec, bytes]]
) -> None:
    """Write specs into a folder; unchanged specs keep their file's bytes. A folder with other files is rejected."""
    target = Path(to)
    texts = {f"{name}.json": make_spec_bytes(spec, *files[name]) for name, spec in specs.items()}
    existing = {path.name for path in target.glob("*.json")} if target.exists() else set()
    if existing - texts.keys():
        raise OptionError(f"`to` {target} holds {min(existing - texts.keys())}, which is not part of this proposal")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (target / name).write_bytes(text)
    except OSError as error:
        raise OptionError(f"`to` {target} cannot be written: {error.strerror}") from None
