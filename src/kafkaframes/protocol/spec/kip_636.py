"""KIP-636, from the document to specs: the error codes and messages of every response become tagged fields.

What the document says: a new version of request and response, in which each ErrorCode and ErrorMessage of the version
before is tagged; OffsetDelete turns flexible with it; SaslHandshake stays (KAFKA-9577). What it leaves out, and what is
done about it:

* A tag needs a number: the next free one of its struct.
* A null message costs a byte today and would cost three as a tag, unless null is its default: it is made so wherever
  every version of the field may be null.
* ApiVersions must be readable by who does not know the version (KIP-511), so its code stays where it is.
* A version that is not released yet (``latestVersionUnstable``) is changed in place: raising it would release it.
* A range that ends at the newest version (``0-5``) must go on into the new one, or its field would be lost.

Each old version keeps its layout, and the new one has that of the version before but for the tags: checked for each
message. What is tagged already stays, so a rewrite of a rewrite changes nothing. Specs in, specs out; no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Final

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec.error_tags import Kept, TaggedField, Tagger
from kafkaframes.protocol.spec.layout import Slot, layout
from kafkaframes.protocol.spec.model import MessageSpec, StructSpec
from kafkaframes.protocol.spec.versions import MAX_VERSION, Versions

SASL_HANDSHAKE, API_VERSIONS = 17, 18
_BY_DOCUMENT: Final = {
    SASL_HANDSHAKE: "the document leaves it out: clients up to 2.4 negotiate its version wrongly (KAFKA-9577)",
}
_BY_KIP_511: Final = {
    API_VERSIONS: "every client must be able to read its error code, whatever the version (KIP-511)",
}


@dataclass(frozen=True, slots=True)
class RewrittenApi:
    """One API whose request and response got a version: ``version``, after ``before`` (equal: changed in place)."""

    key: int
    request: str
    response: str
    before: int
    version: int
    is_flexible_new: bool


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The outcome: every spec by name, rewritten or as it came, and what was done and not done."""

    specs: dict[str, MessageSpec]
    apis: tuple[RewrittenApi, ...]
    fields: tuple[TaggedField, ...]
    kept: tuple[Kept, ...]


def rewrite(specs: Mapping[str, MessageSpec], *, suffix: bool = False, as_written: bool = False) -> Rewrite:
    """Return specs with the errors of every response as tagged fields.

    Args:
        specs: by name: requests, responses, and whatever else is to be passed on.
        suffix: fields whose names end in ErrorCode and ErrorMessage too (``PartitionErrorCode``); the document speaks
            of these names only.
        as_written: do to ApiVersions and to unreleased versions what the document says as well.

    Raises:
        SpecError: a new version cannot be told beside those that the spec has.
    """
    chosen = _Choice(suffix, _BY_DOCUMENT if as_written else _BY_DOCUMENT | _BY_KIP_511, raises_unstable=as_written)
    requests = {one.api_key: one.name for one in specs.values() if one.type == "request"}
    out, apis, fields, kept = dict(specs), [], [], list[Kept]()
    responses = [one for one in specs.values() if one.type == "response"]
    for response in sorted(responses, key=lambda one: (one.api_key is None, one.api_key or 0, one.name)):
        own_name = f"{response.name.removesuffix('Response')}Request"  # a renamed API has one key and two names
        request = specs.get(own_name if own_name in specs else requests.get(response.api_key, ""))
        reason = chosen.reason_to_keep(request, response)
        if reason is not None or request is None:
            kept.append(Kept(response.name, (), reason or "there is no request to it"))
            continue
        made = _Message(request, response, chosen)
        kept += made.tagger.kept
        if made.tagger.fields:
            apis.append(made.api)
            fields += made.tagger.fields
            out |= {one.name: one for one in (made.request, made.response)}
        else:
            kept.append(Kept(response.name, (), "no error code or message that is not tagged already"))
    return Rewrite(out, tuple(apis), tuple(fields), tuple(kept))


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which fields and which APIs."""

    suffix: bool
    left_out: Mapping[int, str]
    raises_unstable: bool

    def reason_to_keep(self, request: MessageSpec | None, response: MessageSpec) -> str | None:
        """Say why an API is not rewritten; None if it is."""
        if response.is_removed or (request is not None and request.is_removed):
            return "removed: it has no valid version"
        if request is not None and request.valid_versions.highest != response.valid_versions.highest:
            return f"its request's versions are {request.valid_versions}, its own {response.valid_versions}"
        return self.left_out.get(response.api_key if response.api_key is not None else -1)


class _Message:
    """The work on one API: ``request``, ``response``, ``api``, and the ``tagger`` that knows of fields."""

    def __init__(self, request: MessageSpec, response: MessageSpec, choice: _Choice) -> None:
        self.before = response.valid_versions.highest
        in_place = request.latest_version_unstable and not choice.raises_unstable
        self.version = self.before if in_place else self.before + 1
        self.tagger = Tagger(response, before=self.before, version=self.version, suffix=choice.suffix)
        tagged = self.tagger.run()
        if not self.tagger.fields:
            return
        self.response, self.request = self._raise(tagged), self._raise(request)
        self._check(response, self.response, self.tagger.tagged)
        self._check(request, self.request, set())
        is_new = self.response.is_flexible(self.version) and not response.is_flexible(self.before)
        key = response.api_key if response.api_key is not None else -1
        self.api = RewrittenApi(key, request.name, response.name, self.before, self.version, is_new)

    def _raise(self, spec: MessageSpec) -> MessageSpec:
        """Return a spec with the new version, which is flexible."""
        valid = Versions(spec.valid_versions.lowest, self.version)
        flexible = spec.flexible_versions
        if not spec.is_flexible(self.version):
            flexible = Versions(self.version, MAX_VERSION)
        top = replace(self._longer(spec.struct), versions=valid)
        structs = {name: self._longer(one) for name, one in spec.structs.items()}
        raised = replace(spec, struct=top, structs=structs, flexible_versions=flexible)
        return replace(raised, header_versions=self._headers(raised))

    def _longer(self, struct: StructSpec) -> StructSpec:
        """Let every range that ends with the version before go on into the new one."""
        fields = tuple(
            replace(
                one,
                versions=self._further(one.versions),
                nullable_versions=self._further(one.nullable_versions),
                flexible_versions=None if one.flexible_versions is None else self._further(one.flexible_versions),
            )
            for one in struct.fields
        )
        return replace(struct, versions=self._further(struct.versions), fields=fields)

    def _further(self, versions: Versions) -> Versions:
        ends_here = not versions.is_empty and versions.highest == self.before
        return Versions(versions.lowest, self.version) if ends_here else versions

    def _headers(self, spec: MessageSpec) -> tuple[tuple[Versions, int], ...] | None:
        """Give a version that turned flexible a flexible header, where the spec has a table of headers (KIP-1313)."""
        needed = 2 if spec.type == "request" else 1
        rows = spec.header_versions
        if rows is None or spec.header_version(self.version) >= needed or not spec.is_flexible(self.version):
            return rows
        before = [(Versions(one.lowest, min(one.highest, self.version - 1)), header) for one, header in rows]
        return (*before, (Versions(self.version, MAX_VERSION), needed))

    def _check(self, old: MessageSpec, new: MessageSpec, tagged: Set[tuple[str, str]]) -> None:
        """Hold every version against the old spec.

        Raises:
            SpecError: one has another layout than it should.
        """
        for version in old.valid_versions:
            if version != self.version and _shape(old, version) != _shape(new, version):
                raise SpecError(f"{old.name}: version {version} would change")
        is_new = new.is_flexible(self.version) and not old.is_flexible(self.before)
        before = _shape(old, self.before, tagged, compact=not is_new)
        if before != _shape(new, self.version, tagged, compact=not is_new):
            raise SpecError(f"{old.name}: it declares other fields for version {self.version}, which is no version yet")


def _shape(
    spec: MessageSpec, version: int, without: Set[tuple[str, str]] = frozenset(), *, compact: bool = True
) -> tuple[object, ...]:
    """Return what a version writes, some fields (struct, name) left out; ``compact`` False: whatever its lengths."""

    def struct(owner: str, slots: tuple[Slot, ...]) -> tuple[object, ...]:
        return tuple(
            (
                one.name,
                one.type,
                one.is_nullable,
                one.is_compact and compact,
                one.tag,
                struct(one.type.name, one.children),
            )
            for one in slots
            if (owner, one.name) not in without
        )

    return struct(spec.struct.name, layout(spec, version))


# ---- numbers --------------------------------------------------------------------------------------------------------


def numbers(done: Rewrite) -> dict[str, int]:
    """Count what a rewrite did, by the names of ``TRUNK_OF_OCTOBER_2024``."""
    responses = [one for one in done.specs.values() if one.type == "response"]
    with_messages = {one.message for one in done.fields if one.kind == "message"}
    return {
        "responses": len(responses),
        "responses rewritten": len(done.apis),
        "of these with messages": len(with_messages),
        "requests raised": len(done.apis),
        **dict(_by_depth(done.fields, "code", "codes")),
        **dict(_by_depth(done.fields, "message", "messages")),
        "messages that get the default null": sum(one.is_null_default_new for one in done.fields),
        "structs that had tags": len(
            {(one.message, one.path[:-1]) for one in done.fields if _is_first_after(one, done)}
        ),
        "APIs made flexible": sum(one.is_flexible_new for one in done.apis),
    }


def _by_depth(fields: Iterable[TaggedField], kind: str, word: str) -> Iterator[tuple[str, int]]:
    depths = [min(one.arrays, 3) for one in fields if one.kind == kind]
    yield f"{word} tagged", len(depths)
    for depth, where in enumerate(("at the top", "in an array", "in two arrays", "in three or more")):
        yield f"{word} {where}", depths.count(depth)


def _is_first_after(one: TaggedField, done: Rewrite) -> bool:
    """Whether a field is the first new tag of its struct, and not tag 0."""
    place = (one.message, one.path[:-1])
    return one.tag > 0 and one.tag == min(
        other.tag for other in done.fields if (other.message, other.path[:-1]) == place
    )


#: Kafka's trunk of October 2024 (between 3.9 and 4.0), names by suffix and all as written.
TRUNK_OF_OCTOBER_2024: Final[Mapping[str, int]] = {
    "responses": 88,
    "responses rewritten": 87,
    "of these with messages": 38,
    "requests raised": 87,
    "codes tagged": 111,
    "codes at the top": 54,
    "codes in an array": 23,
    "codes in two arrays": 30,
    "codes in three or more": 4,
    "messages tagged": 46,
    "messages at the top": 17,
    "messages in an array": 14,
    "messages in two arrays": 14,
    "messages in three or more": 1,
    "messages that get the default null": 26,
    "structs that had tags": 11,
    "APIs made flexible": 1,
}
