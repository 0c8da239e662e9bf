"""Define proposals for other message layouts. For a message in the traffic, a proposal returns the layouts to compare.

The named proposals are ``kip-636``, ``flexible`` and ``tag-header``. Any other proposal is a pair of message specs: the
old and the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from kafkaframes.errors import OptionError
from kafkaframes.errors.sensitive import REQUEST, RESPONSE
from kafkaframes.jobs.analyze.sizes import ADOPTED, HEADER_SIZE_BY_SCHEME
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.messages.headers import request_header_class
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.drafts import MessageDraft
from kafkaframes.protocol.spec.kip_636 import rewrite_errors, tag_errors
from kafkaframes.protocol.spec.layout import Change, list_changes, list_slots
from kafkaframes.protocol.spec.model import MessageSpec, StructSpec
from kafkaframes.protocol.spec.versions import MAX_VERSION, Versions

SAME, RAISED, CHANGED = "same", "raised", "changed"
FLEXIBLE, INFLEXIBLE = "flexible", "inflexible"
SpecsByName: TypeAlias = Mapping[str, MessageSpec]


class MessageForm(NamedTuple):
    """One version of a message spec, which defines a layout. ``header`` is the spec of its header."""

    spec: MessageSpec
    version: int
    header: MessageSpec


class FormPair(NamedTuple):
    """The old and the new layout of a message, whose sizes are compared.

    Attributes:
        kind: key of the report's table that shows the comparison.
        before, after: old and new layout. If the two forms are identical, only ``tag_header`` differs.
        tag_header: scheme of the headers of tagged fields in ``after``.
        blank: suffix of names of mandatory fields. Fields with this suffix are counted if they have their default
            value.
        has_lengths: whether the lengths of arrays, strings and bytes are recorded too.
    """

    kind: str
    before: MessageForm
    after: MessageForm
    tag_header: str = ADOPTED
    blank: str = ""
    has_lengths: bool = False


Layouts: TypeAlias = Callable[[MessageForm, "SpecsByName | None"], Iterator[FormPair]]


@dataclass(frozen=True)
class Proposal:
    """A proposal for other message layouts.

    Attributes:
        title: sentence that describes the proposal in the heading of reports.
        kinds: headings of the tables, by kind.
        layouts: function that returns the layouts to compare, given a message's form on the wire and the specs after
            the change.
        has_headers: whether message headers are measured too.
    """

    title: str
    kinds: Mapping[str, str]
    layouts: Layouts
    directions: tuple[str, ...] = (REQUEST, RESPONSE)
    has_headers: bool = False


# ---- KIP-636 --------------------------------------------------------------------------------------------------------


def _make_kip_636_pair(sent_form: MessageForm, _: SpecsByName | None) -> Iterator[FormPair]:
    """Compare responses with the same version after their errors become tagged fields.

    Messages of inflexible versions are also converted to the newest flexible version and compared.
    """
    if sent_form.spec.is_flexible(sent_form.version):
        yield FormPair(FLEXIBLE, sent_form, _tag_errors(sent_form))
        return
    yield FormPair(INFLEXIBLE, sent_form, sent_form)
    newest = sent_form._replace(version=sent_form.spec.valid_versions.highest)
    tagged_spec = _tag_errors(newest)
    if tagged_spec is not newest and sent_form.spec.is_flexible(newest.version):
        yield FormPair(RAISED, newest, tagged_spec)


def _tag_errors(form: MessageForm) -> MessageForm:
    """Return the form with its error fields tagged. ApiVersions and forms without error fields do not change."""
    if form.spec.api_key == API_VERSIONS:
        return form
    draft = MessageDraft(form.spec, form.version, form.version)
    tagged_spec, _ = tag_errors(draft)
    return form._replace(spec=draft.build_spec()) if tagged_spec else form


# ---- KIP-482: flexible versions -------------------------------------------------------------------------------------


def _make_flexible_version_pair(sent_form: MessageForm, _: SpecsByName | None) -> Iterator[FormPair]:
    """Compare a message in the inflexible layout (lengths of two and four bytes, no tags) with the flexible layout."""
    forms = [
        sent_form._replace(spec=_change_layout(sent_form.spec, sent_form.version, flexible=flexible))
        for flexible in (False, True)
    ]
    yield FormPair("all", forms[0], forms[1], blank="AuthorizedOperations", has_lengths=True)


def _change_layout(spec: MessageSpec, version: int, *, flexible: bool) -> MessageSpec:
    """Return a spec with one version flexible, or inflexible with its tagged fields after the mandatory ones."""
    if spec.is_flexible(version) == flexible:
        return spec
    if flexible:
        return replace(spec, flexible_versions=Versions(version, MAX_VERSION))
    structs = {name: _remove_tags(struct) for name, struct in spec.structs.items()}
    return replace(spec, struct=_remove_tags(spec.struct), structs=structs, flexible_versions=Versions.NONE)


def _remove_tags(struct: StructSpec) -> StructSpec:
    """Return a struct spec in which no field is tagged."""
    fields = [
        replace(field, tag=None, tagged_versions=Versions.NONE, flexible_versions=Versions.NONE)
        for field in struct.fields
    ]
    return replace(struct, fields=tuple(fields))


# ---- KIP-482's draft: the tag header --------------------------------------------------------------------------------


def _make_tag_header_pair(sent_form: MessageForm, _: SpecsByName | None) -> Iterator[FormPair]:
    """Compare a message with one that has other headers before its tagged fields."""
    if not sent_form.spec.is_flexible(sent_form.version):
        yield FormPair(INFLEXIBLE, sent_form, sent_form)
        return
    for name in HEADER_SIZE_BY_SCHEME:
        if name != ADOPTED:
            yield FormPair(name, sent_form, sent_form, name)


# ---- any pair of specs ----------------------------------------------------------------------------------------------


def _make_spec_change_pair(sent_form: MessageForm, after: SpecsByName | None) -> Iterator[FormPair]:
    """Compare the sizes of a message with the old and with the new specs.

    The version is the message's own if the proposal changes it, otherwise a new newest version.
    """
    spec = find_spec(after or {}, sent_form.spec) or sent_form.spec
    if spec.is_removed:
        return
    header = (after or {}).get(sent_form.header.name, sent_form.header)
    equivalent_form = MessageForm(spec, sent_form.version, header)
    newest, new_version = (spec_of_form.valid_versions.highest for spec_of_form in (sent_form.spec, spec))
    if spec.valid_versions.contains(sent_form.version) and not have_same_bytes(sent_form, equivalent_form):
        yield FormPair(CHANGED, sent_form, equivalent_form)
    elif new_version > newest:
        newest_form = sent_form._replace(version=newest)
        yield FormPair(
            CHANGED if sent_form.version == newest else RAISED, newest_form, MessageForm(spec, new_version, header)
        )
    elif spec.valid_versions.contains(sent_form.version):
        yield FormPair(SAME, sent_form, sent_form)
    else:
        newest_form = sent_form._replace(version=newest)
        yield FormPair(RAISED, newest_form, MessageForm(spec, new_version, header))


def find_spec(specs: SpecsByName, message_spec: MessageSpec) -> MessageSpec | None:
    """Find a message's spec in another set of specs, by name, or by API key and type if the message was renamed."""
    if message_spec.name in specs:
        return specs[message_spec.name]
    keys = [
        spec
        for spec in specs.values()
        if spec.api_key is not None and (spec.api_key, spec.type) == (message_spec.api_key, message_spec.type)
    ]
    return keys[0] if keys else None


def list_spec_changes(settings: ProposalSettings) -> Iterator[tuple[str, list[Change]]]:
    """Yield (message with its old and new version, changed fields) for each change in the specs."""
    after = settings.after
    if after is None and settings.name == "kip-636":
        after = rewrite_errors(settings.specs_before).specs
    for name, old in sorted(settings.specs_before.items()):
        new = find_spec(after or {}, old)
        if new is None or old.valid_versions.is_empty or new.valid_versions.is_empty:
            continue
        first, last = old.valid_versions.highest, new.valid_versions.highest
        fields = list_changes(old, first, last, later=new)
        if fields or first != last:
            yield f"{name} {first} -> {last}", fields


def have_same_bytes(form: MessageForm, other: MessageForm) -> bool:
    """Return whether two forms encode equal values to equal bytes: fields, tags, defaults of tagged fields, headers."""
    flexible = form.spec.is_flexible(form.version), other.spec.is_flexible(other.version)
    if flexible[0] != flexible[1] or list_slots(form.spec, form.version) != list_slots(other.spec, other.version):
        return False
    headers = [
        list_slots(compared_form.header, compared_form.spec.header_version(compared_form.version))
        for compared_form in (form, other)
    ]
    return headers[0] == headers[1]


PROPOSALS: Final[Mapping[str, Proposal]] = {
    "kip-636": Proposal(
        "KIP-636: error codes and messages as tagged fields",
        {
            FLEXIBLE: "Responses of flexible versions, before and after their errors become tagged fields",
            INFLEXIBLE: "Responses of inflexible versions, which stay as they are",
            RAISED: "Responses of inflexible versions, raised to the newest flexible version",
        },
        _make_kip_636_pair,
        directions=(RESPONSE,),
    ),
    "flexible": Proposal(
        "KIP-482: the size of messages without and with compact types and tagged fields",
        {"all": "Bodies in inflexible layout (before) and in flexible layout (after)"},
        _make_flexible_version_pair,
    ),
    "tag-header": Proposal(
        "KIP-482's header of tagged fields, compared to its draft and to rejected alternatives",
        {
            "interleaved": "Tagged fields with the draft's interleaved header",
            "typed": "Tagged fields whose header has a tag and a type",
            INFLEXIBLE: "Messages without tag sections",
        },
        _make_tag_header_pair,
        has_headers=True,
    ),
}
VERSION_PAIR_PROPOSAL: Final = Proposal(
    "Message sizes with the old and the new specs",
    {
        CHANGED: "Messages that change",
        RAISED: "Messages of older versions, raised to the newest version of the old and the new specs",
        SAME: "Messages whose layout does not change",
    },
    _make_spec_change_pair,
    has_headers=True,
)


@dataclass(frozen=True)
class ProposalSettings:
    """A proposal and its settings, as a value that can be sent to other processes.

    Attributes:
        name: a name in ``PROPOSALS``, or any name for a pair of specs.
        after: specs after the change, by message name; None for a named proposal.
        before: specs before the change; None for the specs in the catalog.
        values: values of new fields, each as ``Message.path=value``.
        by: further attributes to group by, besides API, version and direction: client, connection, second.
    """

    name: str
    after: SpecsByName | None = None
    before: SpecsByName | None = None
    values: tuple[str, ...] = ()
    by: tuple[str, ...] = ()

    @cached_property
    def apis(self) -> ApiRegistry:
        """The message specs for decoding the traffic."""
        return CATALOG if self.before is None else ApiRegistry(self.before)

    def find_api_name(self, key: int) -> str:
        """Return an API's name, or its key as text if the specs do not have it."""
        return self.apis.name_of(key) or f"API {key}"

    @property
    def specs_before(self) -> dict[str, MessageSpec]:
        """The specs of requests, responses and their headers before the change."""
        names = [name for api in catalog.list_apis() for name in (api.request, api.response)]
        specs = {name: catalog.load_spec(name) for name in ("RequestHeader", "ResponseHeader", *names)}
        return specs | dict(self.before or {})

    @property
    def proposal(self) -> Proposal:
        """The proposal. An unknown name without ``after`` raises an ``OptionError``."""
        if self.after is not None:
            return VERSION_PAIR_PROPOSAL
        if self.name not in PROPOSALS:
            raise OptionError(f"unknown proposal {self.name}; expected {', '.join(PROPOSALS)}")
        return PROPOSALS[self.name]

    def header_spec(self, type_: str) -> MessageSpec:
        """Return the header spec of requests or responses before the change."""
        name = "RequestHeader" if type_ == REQUEST else "ResponseHeader"
        own_version = (self.before or {}).get(name)
        if own_version is not None:
            return own_version
        return request_header_class().spec if type_ == REQUEST else catalog.load_spec(name)
