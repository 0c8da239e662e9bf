"""The registry of tags: which field has which tag of which struct, since which release, and which tag is free next.

Of the catalog, and of proposals beside it: two fields of one struct must not have one number, in whatever release.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.catalog.tag_ledger import Key, Tag, read_ledger, tags_of
from kafkaframes.protocol.spec.model import MessageSpec


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
