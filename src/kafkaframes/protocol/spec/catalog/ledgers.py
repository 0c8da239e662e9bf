"""Ledgers of the catalog: the history of tags (``tags.json``) and of field names (``names.json``).

A tagged field can be added to an existing version, so its versions do not show when it was added. The tag ledger has
the field of each tag in each release. A version keeps its bytes forever, but fields can be renamed (Fetch's ``Topic``
was ``Name`` until 2.6). The name ledger has the former names of each field by release. Two fields are the same if they
have the same position in the same version.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from kafkaframes.errors import OptionError
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.catalog.reading import MESSAGES_FOLDER
from kafkaframes.protocol.spec.layout import FieldSlot, list_slots
from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec
from kafkaframes.protocol.spec.releases import find_release

#: Message -> struct -> tag -> the field's names, each with the first release that uses it.
TagsLedger: TypeAlias = dict[str, dict[str, dict[str, list[list[str]]]]]
#: Message -> path of current names -> the field's names, each with the first release that uses it.
NamesLedger: TypeAlias = dict[str, dict[str, list[list[str]]]]
TAGS_FILE: Final = "tags.json"
NAMES_FILE: Final = "names.json"


def format_ledger(histories: TagsLedger | NamesLedger) -> str:
    """Return the text of a ledger's file, with one line per message."""
    lines = [f"  {json.dumps(name)}: {json.dumps(history)}" for name, history in sorted(histories.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


# ---------------------------------------------------------------------------------------------------------------- tags
#: Message, struct and tag; unique for each tagged field.
Key: TypeAlias = tuple[str, str, int]


class Tag(NamedTuple):
    """A tag number of a struct, and the field that has it.

    Attributes:
        struct: the struct's name; for the top level, the message's name.
        versions: ``taggedVersions``.
        since: the first release that has the tag; None in user specs.
        before: former names of the field, each with the first release that uses it.
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
        """The key that must be unique for each tagged field."""
        return self.message, self.struct, self.number


def declared_tags(spec: MessageSpec) -> Iterator[Tag]:
    """Yield the tags that a spec declares, struct by struct, ascending."""
    for struct in (spec.struct, *spec.structs.values()):
        for field in sorted((candidate for candidate in struct.fields if candidate.tag is not None), key=_number):
            yield Tag(spec.name, struct.name, _number(field), field.name, str(field.type), str(field.tagged_versions))


def _number(field: FieldSpec) -> int:
    return -1 if field.tag is None else field.tag


def make_tags_ledger(releases: Iterable[tuple[str, MessageSpec]]) -> TagsLedger:
    """Return the names of each tagged field by message, struct and tag, each with its first release.

    Args:
        releases: (release, spec) pairs, oldest first.
    """
    histories: TagsLedger = {}
    for name_of_release, spec in releases:
        for tag in declared_tags(spec):
            history = histories.setdefault(tag.message, {}).setdefault(tag.struct, {}).setdefault(str(tag.number), [])
            if not history or history[-1][0] != tag.field:
                history.append([tag.field, name_of_release])
    return histories


def read_tags() -> TagsLedger:
    """Return the catalog's tag ledger."""
    value: TagsLedger = json.loads((MESSAGES_FOLDER / TAGS_FILE).read_bytes())
    return value


# ---------------------------------------------------------------------------------------------------------------------
# The tag registry: the field and first release of each tag of a struct, and the next free tag.
#
# It contains the catalog and proposals: two fields of one struct must have different tags across all releases.


class TagCollision(NamedTuple):
    """A tag in a proposal that another field already has, with an explanation of the collision."""

    tag: Tag
    text: str


@cache
def make_tag_registry() -> Mapping[Key, Tag]:
    """Return the tags of all messages in the catalog."""
    histories = read_tags()
    tags = {}
    for name in catalog.list_names():
        history = histories.get(name, {})
        for tag in declared_tags(catalog.load_spec(name)):
            owners = [(owner[0], owner[1]) for owner in history.get(tag.struct, {}).get(str(tag.number), ())]
            before = tuple(owner for owner in owners if owner[0] != tag.field)
            tags[tag.key] = tag._replace(since=owners[0][1] if owners else None, before=before)
    return tags


def next_free_tags(tags: Iterable[Tag]) -> dict[tuple[str, str], int]:
    """Return the next free tag of each (message, struct) that has tags.

    >>> next_free_tags(make_tag_registry().values())["ApiVersionsResponse", "ApiVersionsResponse"]
    4
    """
    free: dict[tuple[str, str], int] = defaultdict(int)
    for tag in tags:
        free[tag.message, tag.struct] = max(free[tag.message, tag.struct], tag.number + 1)
    return dict(free)


class TagTable(NamedTuple):
    """Tags, sorted by message, struct and number, and the tags that are assigned to two fields."""

    tags: tuple[Tag, ...]
    collisions: tuple[TagCollision, ...]


def tag_table(proposals: Mapping[str, Sequence[MessageSpec]]) -> TagTable:
    """Return the tagged fields of proposals, or of Kafka's released messages if no proposal has tagged fields."""
    own_tags = [tag for specs in proposals.values() for spec in specs for tag in declared_tags(spec)]
    tags = sorted(own_tags or make_tag_registry().values(), key=lambda tag: tag.key)
    return TagTable(tuple(tags), tuple(find_collisions(proposals)))


def find_collisions(proposals: Mapping[str, Iterable[MessageSpec]]) -> Iterator[TagCollision]:
    """Yield the tags of proposals that are in use by another field, in a release or in another proposal."""
    catalog_tags, free = make_tag_registry(), next_free_tags(make_tag_registry().values())
    proposed_tags: dict[Key, tuple[str, Tag]] = {}
    for name, specs in proposals.items():
        for tag in (tag for spec in specs for tag in declared_tags(spec)):
            owner = catalog_tags.get(tag.key)
            if owner is not None and not is_same_field(owner, tag):
                text = (
                    f"{owner.field} ({owner.type}) has had this tag since {owner.since}; "
                    f"{free[tag.message, tag.struct]} is the next free tag"
                )
                yield TagCollision(tag, text)
            elif owner is None:
                other, theirs = proposed_tags.setdefault(tag.key, (name, tag))
                if other != name and not is_same_field(theirs, tag):
                    yield TagCollision(tag, f"{other} also uses it, for {theirs.field} ({theirs.type})")


def is_same_field(owner: Tag, tag: Tag) -> bool:
    """Return whether ``tag`` belongs to the same field as ``owner``, the field with that tag in the releases."""
    names = {owner.field, *(name for name, _ in owner.before)}
    return tag.field in names and tag.type == owner.type


# -------------------------------------------------------------------------------------------------------------- names
_FIRST_RELEASE: Final = (2, 2)  # older releases do not publish their specs
_SIZE_SUFFIX: Final = "SizeInBytes"  # suffix of the size fields that replace records in a request log


def make_names_ledger(releases: Iterable[tuple[str, MessageSpec]], newest: Mapping[str, MessageSpec]) -> NamesLedger:
    """Return the former names of renamed fields; ``releases`` are (release, spec) pairs, oldest first."""
    histories: NamesLedger = {}
    for name_of_release, spec in releases:
        now = newest.get(spec.name)
        if now is None or now.type != spec.type:
            continue
        for version in spec.valid_versions.intersect(now.valid_versions):
            for path, name in _pair_fields(list_slots(now, version), list_slots(spec, version), ()):
                history = histories.setdefault(spec.name, {}).setdefault(".".join(path), [])
                if not history or history[-1][0] != name:
                    history.append([name, name_of_release])
    renamed_fields = {
        message: {
            path: history for path, history in sorted(paths.items()) if len(history) > 1 or _is_gone(path, history)
        }
        for message, paths in sorted(histories.items())
    }
    return {message: paths for message, paths in renamed_fields.items() if paths}


def _is_gone(path: str, history: list[list[str]]) -> bool:
    return history[-1][0] != path.rpartition(".")[2]


def _pair_fields(
    now: Sequence[FieldSlot], before: Sequence[FieldSlot], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (current path, former name) of each field, for two layouts with the same bytes."""
    shapes = [[(slot.tag, slot.type.is_array, slot.type.is_struct) for slot in slots] for slots in (now, before)]
    if shapes[0] != shapes[1]:
        return  # the version was unreleased and has changed
    for slot, former in zip(now, before, strict=True):
        field_path = (*path, _capitalize(slot.name))
        yield field_path, _capitalize(former.name)
        yield from _pair_fields(slot.children, former.children, field_path)


def _capitalize(name: str) -> str:
    """Return a name with a capital initial. Some names in specs have a lower-case initial, but none in JSON."""
    return name[:1].upper() + name[1:]


class ReleaseNames:
    """The field names of one release."""

    def __init__(self, name: str) -> None:
        """Load the names of a release or of a release line.

        Raises:
            OptionError: the release is unknown, or is older than the first release with published specs.
        """
        line = _order(find_release(name).name)
        if line < _FIRST_RELEASE:
            raise OptionError(f"release {name} has no field names; specs are published since 2.2")
        ledger: NamesLedger = json.loads((MESSAGES_FOLDER / NAMES_FILE).read_bytes())
        self._names: dict[str, dict[tuple[str, ...], str]] = {
            message: {tuple(path.split(".")): _find_name_in_release(history, line) for path, history in paths.items()}
            for message, paths in ledger.items()
        }

    def former_name(self, message: str, path: Sequence[str]) -> str | None:
        """Return the former name of a field; ``None`` if the name is unchanged.

        >>> ReleaseNames("2.6").former_name("FetchRequest", ("Topics", "Topic"))
        'Name'
        """
        name = self._names.get(message, {}).get(tuple(path))
        return None if name == path[-1] else name

    def rename_fields(self, message: str, text: str | None) -> str | None:
        """Convert the JSON of a message to the release's field names."""
        names = self._names.get(message)
        if text is None or names is None:
            return text
        return _encode_json(_rename_keys(json.loads(text), names, ()))


_encode_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _rename_keys(value: Any, names: Mapping[tuple[str, ...], str], path: tuple[str, ...]) -> Any:
    if isinstance(value, list):
        return [_rename_keys(element, names, path) for element in value]
    if not isinstance(value, dict):
        return value
    fields = {}
    for key, inner in value.items():
        field = key.removesuffix(_SIZE_SUFFIX)
        field_path = (*path, _capitalize(field))
        name = names.get(field_path, field)
        fields[f"{name[:1].lower()}{name[1:]}{key[len(field) :]}"] = _rename_keys(inner, names, field_path)
    return fields


def _order(name: str) -> tuple[int, ...]:
    return tuple(map(int, name.split(".")[:2]))


def _find_name_in_release(history: list[list[str]], line: tuple[int, ...]) -> str:
    """Return the name in a release, or the first name if the release does not have the field yet."""
    return [name for name, since in history if _order(since) <= line or since == history[0][1]][-1]


@cache
def release_names(name: str) -> ReleaseNames:
    """Return the names of a release; later calls return the same object.

    Raises:
        OptionError: the release is unknown, or is older than the first release with published specs.
    """
    return ReleaseNames(name)
