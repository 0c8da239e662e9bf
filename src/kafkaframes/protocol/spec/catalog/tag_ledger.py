"""The ledger of tags: which field has which tag in which release. Written with the catalog, as ``tags.json``.

A tagged field can be added to a version that exists already, so no version says since when it is there.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple, TypeAlias

from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.catalog.reading import FOLDER
from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec

#: Message -> struct -> tag -> the names that its field had, each with the first release of it.
Ledger: TypeAlias = dict[str, dict[str, dict[str, list[list[str]]]]]
FILE = "tags.json"
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


def ledger(releases: Iterable[tuple[str, MessageSpec]]) -> Ledger:
    """Return for each message, struct and tag the names that its field had, with the first release of each.

    Args:
        releases: the specs of releases, oldest first, each with its release.
    """
    histories: Ledger = {}
    for release, spec in releases:
        for tag in tags_of(spec):
            history = histories.setdefault(tag.message, {}).setdefault(tag.struct, {}).setdefault(str(tag.number), [])
            if not history or history[-1][0] != tag.field:
                history.append([tag.field, release])
    return histories


def ledger_text(releases: Iterable[tuple[str, MessageSpec]]) -> str:
    """Return the file's text: a line a message."""
    lines = [f"  {json.dumps(name)}: {json.dumps(structs)}" for name, structs in sorted(ledger(releases).items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_ledger() -> Ledger:
    """Return the catalog's ledger."""
    value: Ledger = json.loads((FOLDER / FILE).read_bytes())
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
    ledger = read_ledger()
    tags = {}
    for name in catalog.names():
        history = ledger.get(name, {})
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
    """Yield the tags of proposals that others have: fields of the releases, or of another proposal.

    Args:
        proposals: by name; each is its own specs.
    """
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
