"""Proposals for other message layouts. For a message of the traffic, a proposal returns the layouts to compare.

The named proposals are ``kip-636``, ``flexible`` and ``tag-header``. Any other proposal is a pair of specs, before and
after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from kafkaframes.errors import OptionError
from kafkaframes.errors.sensitive import REQUEST, RESPONSE
from kafkaframes.jobs.analyze.sizes import ADOPTED, HEADER_SIZES
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.messages.headers import request_header_class
from kafkaframes.protocol.messages.registry import CATALOG, Apis
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.drafts import MessageDraft
from kafkaframes.protocol.spec.kip_636 import rewrite, tag_errors
from kafkaframes.protocol.spec.layout import Change, changes, layout
from kafkaframes.protocol.spec.model import MessageSpec, StructSpec
from kafkaframes.protocol.spec.versions import MAX_VERSION, Versions

SAME, RAISED, CHANGED = "same", "raised", "changed"
FLEXIBLE, INFLEXIBLE = "flexible", "inflexible"
SpecsByName: TypeAlias = Mapping[str, MessageSpec]


class Form(NamedTuple):
    """A layout of a message: a version of a spec. ``header`` is the spec of its header."""

    spec: MessageSpec
    version: int
    header: MessageSpec


class Layout(NamedTuple):
    """Two forms of a message to compare.

    Attributes:
        kind: group of rows in a report.
        before, after: the two forms. Identical forms have identical bytes.
        tag_header: scheme of the headers of tagged fields in ``after``.
        blank: suffix of field names. Mandatory fields with such a name and their default value are counted.
        has_lengths: whether the lengths of arrays, strings and bytes are recorded too.
    """

    kind: str
    before: Form
    after: Form
    tag_header: str = ADOPTED
    blank: str = ""
    has_lengths: bool = False


Layouts: TypeAlias = Callable[[Form, "SpecsByName | None"], Iterator[Layout]]


@dataclass(frozen=True)
class Proposal:
    """A proposal for other message layouts.

    Attributes:
        title: sentence for the heading of reports.
        kinds: headings of the tables, by kind.
        layouts: returns the layouts to compare, for the form of a message on the wire and the specs after.
        has_headers: whether headers are weighed too.
    """

    title: str
    kinds: Mapping[str, str]
    layouts: Layouts
    directions: tuple[str, ...] = (REQUEST, RESPONSE)
    has_headers: bool = False


# ---- KIP-636 --------------------------------------------------------------------------------------------------------


def _kip_636(sent_form: Form, _: SpecsByName | None) -> Iterator[Layout]:
    """A response keeps its version, and its errors become tagged fields. Inflexible versions are also raised."""
    if sent_form.spec.is_flexible(sent_form.version):
        yield Layout(FLEXIBLE, sent_form, _with_error_tags(sent_form))
        return
    yield Layout(INFLEXIBLE, sent_form, sent_form)
    newest = sent_form._replace(version=sent_form.spec.valid_versions.highest)
    tagged_spec = _with_error_tags(newest)
    if tagged_spec is not newest and sent_form.spec.is_flexible(newest.version):
        yield Layout(RAISED, newest, tagged_spec)


def _with_error_tags(form: Form) -> Form:
    if form.spec.api_key == API_VERSIONS:
        return form
    draft = MessageDraft(form.spec, form.version, form.version)
    tagged_spec, _ = tag_errors(draft)
    return form._replace(spec=draft.build()) if tagged_spec else form


# ---- KIP-482: flexible versions -------------------------------------------------------------------------------------


def _flexible(sent_form: Form, _: SpecsByName | None) -> Iterator[Layout]:
    """The same fields with lengths of two and four bytes and no tags, or with compact lengths and tag sections."""
    forms = [
        sent_form._replace(spec=_relaid(sent_form.spec, sent_form.version, flexible=flexible))
        for flexible in (False, True)
    ]
    yield Layout("all", forms[0], forms[1], blank="AuthorizedOperations", has_lengths=True)


def _relaid(spec: MessageSpec, version: int, *, flexible: bool) -> MessageSpec:
    """Return a spec in which one version is flexible, or inflexible with its tagged fields after the others."""
    if spec.is_flexible(version) == flexible:
        return spec
    if flexible:
        return replace(spec, flexible_versions=Versions(version, MAX_VERSION))
    structs = {name: _remove_tags(struct) for name, struct in spec.structs.items()}
    return replace(spec, struct=_remove_tags(spec.struct), structs=structs, flexible_versions=Versions.NONE)


def _remove_tags(struct: StructSpec) -> StructSpec:
    fields = [
        replace(one, tag=None, tagged_versions=Versions.NONE, flexible_versions=Versions.NONE) for one in struct.fields
    ]
    return replace(struct, fields=tuple(fields))


# ---- KIP-482's draft: the tag header --------------------------------------------------------------------------------


def _tag_header(sent_form: Form, _: SpecsByName | None) -> Iterator[Layout]:
    """The same message with other headers for its tagged fields."""
    if not sent_form.spec.is_flexible(sent_form.version):
        yield Layout(INFLEXIBLE, sent_form, sent_form)
        return
    for name in HEADER_SIZES:
        if name != ADOPTED:
            yield Layout(name, sent_form, sent_form, name)


# ---- any pair of specs ----------------------------------------------------------------------------------------------


def _pair(sent_form: Form, after: SpecsByName | None) -> Iterator[Layout]:
    """The message in the specs after: at its own version if this changes, else at the newest version if it is new."""
    spec = spec_of(after or {}, sent_form.spec) or sent_form.spec
    if spec.is_removed:
        return
    header = (after or {}).get(sent_form.header.name, sent_form.header)
    same = Form(spec, sent_form.version, header)
    newest, new = (one.valid_versions.highest for one in (sent_form.spec, spec))
    if spec.valid_versions.contains(sent_form.version) and not is_same(sent_form, same):
        yield Layout(CHANGED, sent_form, same)
    elif new > newest:
        newest_form = sent_form._replace(version=newest)
        yield Layout(CHANGED if sent_form.version == newest else RAISED, newest_form, Form(spec, new, header))
    elif spec.valid_versions.contains(sent_form.version):
        yield Layout(SAME, sent_form, sent_form)
    else:
        newest_form = sent_form._replace(version=newest)
        yield Layout(RAISED, newest_form, Form(spec, new, header))


def spec_of(specs: SpecsByName, message_spec: MessageSpec) -> MessageSpec | None:
    """Return the spec of the same message among other specs: by name, or by API key and type if it was renamed."""
    if message_spec.name in specs:
        return specs[message_spec.name]
    keys = [
        one
        for one in specs.values()
        if one.api_key is not None and (one.api_key, one.type) == (message_spec.api_key, message_spec.type)
    ]
    return keys[0] if keys else None


def spec_changes(question: Question) -> Iterator[tuple[str, list[Change]]]:
    """Yield the changes in the specs: "Message version -> version", and the fields."""
    after = question.after
    if after is None and question.name == "kip-636":
        after = rewrite(question.specs_before).specs
    for name, old in sorted(question.specs_before.items()):
        new = spec_of(after or {}, old)
        if new is None or old.valid_versions.is_empty or new.valid_versions.is_empty:
            continue
        first, last = old.valid_versions.highest, new.valid_versions.highest
        fields = changes(old, first, last, later=new)
        if fields or first != last:
            yield f"{name} {first} -> {last}", fields


def is_same(form: Form, other: Form) -> bool:
    """Return whether two forms give the same bytes for the same values: fields, tags, defaults of tags, header."""
    flexible = form.spec.is_flexible(form.version), other.spec.is_flexible(other.version)
    if flexible[0] != flexible[1] or layout(form.spec, form.version) != layout(other.spec, other.version):
        return False
    headers = [layout(one.header, one.spec.header_version(one.version)) for one in (form, other)]
    return headers[0] == headers[1]


PROPOSALS: Final[Mapping[str, Proposal]] = {
    "kip-636": Proposal(
        "KIP-636: error codes and messages as tagged fields",
        {
            FLEXIBLE: "Responses of flexible versions, with their errors as tags in place",
            INFLEXIBLE: "Responses of versions that have no tags: as they are",
            RAISED: "The same, raised to the newest version with tags",
        },
        _kip_636,
        directions=(RESPONSE,),
    ),
    "flexible": Proposal(
        "KIP-482: the same fields without and with compact types and tags",
        {"all": "Bodies in inflexible layout (before) and in flexible layout (after)"},
        _flexible,
    ),
    "tag-header": Proposal(
        "KIP-482's tag header, its draft, and what it rejects",
        {
            "interleaved": "Tags with the draft's interleaved header",
            "typed": "Tags with a tag and a type",
            INFLEXIBLE: "Messages without tag sections",
        },
        _tag_header,
        has_headers=True,
    ),
}
VERSION_PAIR_PROPOSAL: Final = Proposal(
    "Specs before and after",
    {
        CHANGED: "Messages that change",
        RAISED: "Messages of older versions, raised to the newest: before and after",
        SAME: "Messages that stay the same",
    },
    _pair,
    has_headers=True,
)


@dataclass(frozen=True)
class Question:
    """A proposal and its settings, as a value that can be sent to other processes.

    Attributes:
        name: a name in ``PROPOSALS``, or any name for a pair of specs.
        after: specs after the change, by name; None for a named proposal.
        before: specs before the change; None for the catalog's.
        values: ``Message.path=value`` for new fields.
        by: further keys of the weights, besides API, version and direction: client, connection, second.
    """

    name: str
    after: SpecsByName | None = None
    before: SpecsByName | None = None
    values: tuple[str, ...] = ()
    by: tuple[str, ...] = ()

    @cached_property
    def apis(self) -> Apis:
        """The specs that messages are decoded with."""
        return CATALOG if self.before is None else Apis(self.before)

    def api_name(self, key: int) -> str:
        """Return an API's name, or its key as text if the specs do not have it."""
        return self.apis.name(key) or f"API {key}"

    @property
    def specs_before(self) -> dict[str, MessageSpec]:
        """The specs of requests, responses and their headers before the change."""
        names = [name for api in catalog.apis() for name in (api.request, api.response)]
        specs = {name: catalog.load(name) for name in ("RequestHeader", "ResponseHeader", *names)}
        return specs | dict(self.before or {})

    @property
    def proposal(self) -> Proposal:
        """The proposal. An unknown name without ``after`` raises an ``OptionError``."""
        if self.after is not None:
            return VERSION_PAIR_PROPOSAL
        if self.name not in PROPOSALS:
            raise OptionError(f"{self.name}: no proposal of this name; there are {', '.join(PROPOSALS)}")
        return PROPOSALS[self.name]

    def header(self, type_: str) -> MessageSpec:
        """Return the header spec of requests or responses before the change."""
        name = "RequestHeader" if type_ == REQUEST else "ResponseHeader"
        own_version = (self.before or {}).get(name)
        if own_version is not None:
            return own_version
        return request_header_class().spec if type_ == REQUEST else catalog.load(name)
