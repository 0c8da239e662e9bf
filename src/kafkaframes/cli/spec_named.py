"""Which spec a command means: a message of the catalog, an API (its request and response), or a file."""

from __future__ import annotations

from pathlib import Path

from kafkaframes.errors import OptionError
from kafkaframes.protocol.spec import catalog, load_message
from kafkaframes.protocol.spec.model import MessageSpec


def named(name: str) -> list[MessageSpec]:
    """Return the specs that a name stands for: ``MetadataResponse``, ``Metadata`` (both halves), ``Foo.json``."""
    if name.endswith(".json"):
        try:
            return [load_message(Path(name).read_bytes(), file=name)]
        except OSError as error:
            raise OptionError(f"{name}: {error.strerror}") from None
    halves = [half for half in (f"{name}Request", f"{name}Response") if half in catalog.names()]
    if name not in catalog.names() and halves:
        return [catalog.load(half) for half in halves]
    return [catalog.load(name)]


def checked_version(spec: MessageSpec, version: int | None) -> int:
    """Return a version of the spec, its newest if none was asked for.

    Raises:
        OptionError: the spec has no such version.
    """
    valid = spec.valid_versions
    if valid.is_empty:
        raise OptionError(f"{spec.name} was removed: it has no versions")
    if version is None:
        return valid.highest
    if not valid.contains(version):
        raise OptionError(f"{spec.name} has versions {valid}, not {version}")
    return version
