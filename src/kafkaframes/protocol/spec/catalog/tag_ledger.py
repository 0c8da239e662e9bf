"""The ledger of tags: which field has which tag in which release. Written with the catalog, as ``tags.json``.

A tagged field can be added to a version that exists already, so no version says since when it is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

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
