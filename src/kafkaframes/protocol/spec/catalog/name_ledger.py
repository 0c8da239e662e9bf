"""The ledger of names: what releases called a field that has another name today; ``names.json``, written by imports.

A version of a message keeps its bytes for ever, and its fields do not keep their names: Fetch's ``Topic`` was ``Name``
until 2.6. Two fields are the same one where they stand in the same place of the same version.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from kafkaframes.errors import OptionError
from kafkaframes.protocol.spec.catalog.reading import FOLDER
from kafkaframes.protocol.spec.layout import Slot, layout
from kafkaframes.protocol.spec.model import MessageSpec
from kafkaframes.protocol.spec.releases import release

#: Message -> path of today's names -> the names that the field had, each with the first release of it.
Ledger: TypeAlias = dict[str, dict[str, list[list[str]]]]
FILE: Final = "names.json"
_FIRST: Final = (2, 2)  # no older release publishes its specs
_SIZE: Final = "SizeInBytes"  # what a request log has of records


def ledger(releases: Iterable[tuple[str, MessageSpec]], newest: Mapping[str, MessageSpec]) -> Ledger:
    """Return the names of fields that were renamed.

    Args:
        releases: the specs of releases, oldest first, each with its release.
        newest: the catalog's specs, by name.
    """
    histories: Ledger = {}
    for name_of_release, spec in releases:
        now = newest.get(spec.name)
        if now is None or now.type != spec.type:
            continue
        for version in spec.valid_versions.intersect(now.valid_versions):
            for path, name in _pairs(layout(now, version), layout(spec, version), ()):
                history = histories.setdefault(spec.name, {}).setdefault(".".join(path), [])
                if not history or history[-1][0] != name:
                    history.append([name, name_of_release])
    renamed = {
        message: {
            path: history for path, history in sorted(paths.items()) if len(history) > 1 or _is_gone(path, history)
        }
        for message, paths in sorted(histories.items())
    }
    return {message: paths for message, paths in renamed.items() if paths}


def _is_gone(path: str, history: list[list[str]]) -> bool:
    return history[-1][0] != path.rpartition(".")[2]


def _pairs(now: Sequence[Slot], before: Sequence[Slot], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield today's path and the former name of the fields of two layouts that have the same bytes."""
    shapes = [[(slot.tag, slot.type.is_array, slot.type.is_struct) for slot in slots] for slots in (now, before)]
    if shapes[0] != shapes[1]:
        return  # a version that was not released yet, and changed
    for slot, former in zip(now, before, strict=True):
        here = (*path, _capital(slot.name))
        yield here, _capital(former.name)
        yield from _pairs(slot.children, former.children, here)


def _capital(name: str) -> str:
    """Return a name with a capital: some have a small letter in specs, and all have one in JSON."""
    return name[:1].upper() + name[1:]


def ledger_text(histories: Ledger) -> str:
    """Return the file's text: a line a message."""
    return (
        "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(paths)}" for name, paths in histories.items()) + "\n}\n"
    )


class ReleaseNames:
    """The names of fields as one release had them."""

    def __init__(self, name: str) -> None:
        """Take a release, or a line of them.

        Raises:
            OptionError: no such release is known, or it is older than specs are.
        """
        line = _order(release(name).name)
        if line < _FIRST:
            raise OptionError(f"names of {name}: specs have names since 2.2")
        known: Ledger = json.loads((FOLDER / FILE).read_bytes())
        self._names: dict[str, dict[tuple[str, ...], str]] = {
            message: {tuple(path.split(".")): _at(history, line) for path, history in paths.items()}
            for message, paths in known.items()
        }

    def field(self, message: str, path: Sequence[str]) -> str | None:
        """Return the name that a field had; ``None`` where it is today's.

        >>> ReleaseNames("2.6").field("FetchRequest", ("Topics", "Topic"))
        'Name'
        """
        name = self._names.get(message, {}).get(tuple(path))
        return None if name == path[-1] else name

    def renamed(self, message: str, text: str | None) -> str | None:
        """Return the JSON of a message with the names that its fields had."""
        names = self._names.get(message)
        if text is None or names is None:
            return text
        return _encoded(_renamed(json.loads(text), names, ()))


_encoded: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _renamed(value: Any, names: Mapping[tuple[str, ...], str], path: tuple[str, ...]) -> Any:
    if isinstance(value, list):
        return [_renamed(element, names, path) for element in value]
    if not isinstance(value, dict):
        return value
    fields = {}
    for key, inner in value.items():
        field = key.removesuffix(_SIZE)
        here = (*path, _capital(field))
        name = names.get(here, field)
        fields[f"{name[:1].lower()}{name[1:]}{key[len(field) :]}"] = _renamed(inner, names, here)
    return fields


def _order(name: str) -> tuple[int, ...]:
    return tuple(map(int, name.split(".")[:2]))


def _at(history: list[list[str]], line: tuple[int, ...]) -> str:
    """Return the name that a release used; the first one in a release that has not got the field yet."""
    return [name for name, since in history if _order(since) <= line or since == history[0][1]][-1]


@cache
def names_of(name: str) -> ReleaseNames:
    """Return the names of a release, made once.

    Raises:
        OptionError: as for :class:`ReleaseNames`.
    """
    return ReleaseNames(name)
