"""The ledgers that imports write beside the catalog: of tags (``tags.json``) and of names (``names.json``).

A tagged field can be added to a version that exists already, so no version says since when it is there: the ledger of
tags says which field has which tag in which release. A version of a message keeps its bytes for ever, and its fields do
not keep their names (Fetch's ``Topic`` was ``Name`` until 2.6): the ledger of names says what releases called a field
that has another name today. Two fields are the same one where they stand in the same place of the same version.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from kafkaframes.errors import OptionError
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.catalog.reading import FOLDER
from kafkaframes.protocol.spec.layout import Slot, layout
from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec
from kafkaframes.protocol.spec.releases import release

#: Message -> struct -> tag -> the names that its field had, each with the first release of it.
TagsLedger: TypeAlias = dict[str, dict[str, dict[str, list[list[str]]]]]
#: Message -> path of today's names -> the names that the field had, each with the first release of it.
NamesLedger: TypeAlias = dict[str, dict[str, list[list[str]]]]
TAGS_FILE: Final = "tags.json"
NAMES_FILE: Final = "names.json"


def text_of(histories: TagsLedger | NamesLedger) -> str:
    """Return a ledger's file: a line a message."""
    lines = [f"  {json.dumps(name)}: {json.dumps(history)}" for name, history in sorted(histories.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


# ---------------------------------------------------------------------------------------------------------------- tags
#: Message, struct and tag: where numbers must differ.
Key: TypeAlias = tuple[str, str, int]


class Tag(NamedTuple):
    """A tag and its field.

    Attributes:
        struct: the struct's name; the message's own for its top level.
        versions: ``taggedVersions``.
        since: the first release that has it; None in specs of a user's.
        before: names that the field had in older releases, with the first release of each.
    """

    message: str
    struct: str
    number: int
    field: str
    type: str
    versions: str
    since: str | None = None
    before: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> Key:
        """Where the number must be the only one."""
        return self.message, self.struct, self.number


def tags_of(spec: MessageSpec) -> Iterator[Tag]:
    """Yield the tags that a spec declares, struct by struct, ascending."""
    for struct in (spec.struct, *spec.structs.values()):
        for field in sorted((one for one in struct.fields if one.tag is not None), key=_number):
            yield Tag(spec.name, struct.name, _number(field), field.name, str(field.type), str(field.tagged_versions))


def _number(field: FieldSpec) -> int:
    return -1 if field.tag is None else field.tag


def tags_ledger(releases: Iterable[tuple[str, MessageSpec]]) -> TagsLedger:
    """Return for each message, struct and tag the names that its field had, with the first release of each.

    Args:
        releases: the specs of releases, oldest first, each with its release.
    """
    histories: TagsLedger = {}
    for name_of_release, spec in releases:
        for tag in tags_of(spec):
            history = histories.setdefault(tag.message, {}).setdefault(tag.struct, {}).setdefault(str(tag.number), [])
            if not history or history[-1][0] != tag.field:
                history.append([tag.field, name_of_release])
    return histories


def read_tags() -> TagsLedger:
    """Return the catalog's ledger."""
    value: TagsLedger = json.loads((FOLDER / TAGS_FILE).read_bytes())
    return value


# ---------------------------------------------------------------------------------------------------------------------
# The registry of tags: which field has which tag of which struct, since which release, and which tag is free next.
#
# Of the catalog, and of proposals beside it: two fields of one struct must not have one number, in whatever release.


class Collision(NamedTuple):
    """What is wrong with a tag of a proposal."""

    tag: Tag
    text: str


@cache
def registry() -> Mapping[Key, Tag]:
    """Return the tags of every message of the catalog."""
    histories = read_tags()
    tags = {}
    for name in catalog.names():
        history = histories.get(name, {})
        for tag in tags_of(catalog.load(name)):
            owners = [(owner[0], owner[1]) for owner in history.get(tag.struct, {}).get(str(tag.number), ())]
            before = tuple(owner for owner in owners if owner[0] != tag.field)
            tags[tag.key] = tag._replace(since=owners[0][1] if owners else None, before=before)
    return tags


def next_free(tags: Iterable[Tag]) -> dict[tuple[str, str], int]:
    """Return the tag that is free next in each message and struct that has some.

    >>> next_free(registry().values())["ApiVersionsResponse", "ApiVersionsResponse"]
    4
    """
    free: dict[tuple[str, str], int] = defaultdict(int)
    for tag in tags:
        free[tag.message, tag.struct] = max(free[tag.message, tag.struct], tag.number + 1)
    return dict(free)


def collisions(proposals: Mapping[str, Iterable[MessageSpec]]) -> Iterator[Collision]:
    """Yield the tags of proposals that others have: fields of the releases, or of another proposal."""
    known, free = registry(), next_free(registry().values())
    claimed: dict[Key, tuple[str, Tag]] = {}
    for name, specs in proposals.items():
        for tag in (tag for spec in specs for tag in tags_of(spec)):
            owner = known.get(tag.key)
            if owner is not None and not is_same(owner, tag):
                text = (
                    f"{owner.field} ({owner.type}) has it since {owner.since}; {free[tag.message, tag.struct]} is free"
                )
                yield Collision(tag, text)
            elif owner is None:
                other, theirs = claimed.setdefault(tag.key, (name, tag))
                if other != name and not is_same(theirs, tag):
                    yield Collision(tag, f"{other} takes it, too, for {theirs.field} ({theirs.type})")


def is_same(owner: Tag, tag: Tag) -> bool:
    """Tell whether a tag is of the field that has it in the releases, under whatever name."""
    names = {owner.field, *(name for name, _ in owner.before)}
    return tag.field in names and tag.type == owner.type


# -------------------------------------------------------------------------------------------------------------- names
_FIRST: Final = (2, 2)  # no older release publishes its specs
_SIZE: Final = "SizeInBytes"  # what a request log has of records


def names_ledger(releases: Iterable[tuple[str, MessageSpec]], newest: Mapping[str, MessageSpec]) -> NamesLedger:
    """Return the names of fields that were renamed; ``releases`` as for ``tags_ledger``."""
    histories: NamesLedger = {}
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
        known: NamesLedger = json.loads((FOLDER / NAMES_FILE).read_bytes())
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
