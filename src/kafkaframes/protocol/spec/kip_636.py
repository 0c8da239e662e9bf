"""Apply KIP-636 to specs: the error codes and messages of every response become tagged fields.

According to the KIP, request and response get a new version in which each ErrorCode and ErrorMessage of the previous
version is tagged. OffsetDelete becomes flexible, and SaslHandshake is unchanged (KAFKA-9577). The KIP leaves these
questions open:

* Clients that do not support the version must be able to read ApiVersions (KIP-511), so its error code stays untagged.
* Tag numbers, null defaults of texts and extended ranges follow the rules for all proposals (``drafts.py``).

Existing tags stay, so a second rewrite changes nothing. The KIP warns that the convention is "easily forgotten about":
``find_untagged_errors`` reports untagged error fields that were added to a rewritten response, and the next rewrite
tags them. The functions take and return specs; they do no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkaframes.protocol.api_keys import API_VERSIONS, SASL_HANDSHAKE
from kafkaframes.protocol.spec.drafts import MessageDraft, Path
from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec, StructSpec
from kafkaframes.protocol.spec.versions import Versions

_KIP_636_EXCEPTIONS: Final = {
    SASL_HANDSHAKE: "KIP-636 excludes it: clients up to 2.4 negotiate its version incorrectly (KAFKA-9577)",
}
_KIP_511_EXCEPTIONS: Final = {
    API_VERSIONS: "every client must be able to read its error code in any version (KIP-511)",
}


#: Name and type of the error fields; a field must have both to be an error code or message.
ERROR_FIELD_TYPES: Final = {"ErrorCode": "int16", "ErrorMessage": "string"}
_KIND_BY_TYPE: Final = {"int16": "code", "string": "message"}


@dataclass(frozen=True, slots=True)
class TaggedField:
    """A field of a response that the rewrite turned into a tagged field.

    Attributes:
        message: the response's name.
        path: the field names down to the field.
        kind: ``code`` or ``message``.
        tag: tag number of the field, from ``version`` on.
        is_null_default_new: whether the rewrite changed the field's default to null.
        arrays: number of enclosing arrays.
    """

    message: str
    path: Path
    kind: str
    tag: int
    version: int
    is_null_default_new: bool
    arrays: int


@dataclass(frozen=True, slots=True)
class UnchangedItem:
    """A message (without path) or field that stays unchanged, and the reason."""

    message: str
    path: Path
    reason: str


def tag_errors(draft: MessageDraft, *, suffix: bool = False) -> tuple[list[TaggedField], list[UnchangedItem]]:
    """Tag a response's error codes and messages; return the tagged fields, and the untagged fields with reasons.

    Args:
        suffix: whether to include names that end in ErrorCode or ErrorMessage. In a response that was rewritten before,
            new error fields of both kinds are included, as in ``find_untagged_errors``.
    """
    tagged_fields, unchanged_fields = [], []
    untagged_errors = {(error.struct, error.field.name) for error in find_untagged_errors(draft.old)}
    for at in draft.list_fields():
        is_error = at.field.name in ERROR_FIELD_TYPES or (suffix and _ends_in_error(at.field.name))
        if not is_error and (at.struct, at.field.name) not in untagged_errors:
            continue
        kind = None if at.field.type.is_array else _KIND_BY_TYPE.get(at.field.type.name)
        reason = f"its type is {at.field.type}" if kind is None else draft.reason_not_to_tag(at.field)
        if reason is not None or kind is None:
            unchanged_fields.append(UnchangedItem(draft.old.name, at.path, reason or ""))
            continue
        new = draft.tag_field(at)
        is_null = new.default is None and at.field.default is not None
        tagged_fields.append(
            TaggedField(draft.old.name, at.path, kind, new.tag or 0, draft.version, is_null, at.arrays)
        )
    return tagged_fields, unchanged_fields


# ---- the guard: error fields that were added without a tag ----------------------------------------------------------


class ErrorField(NamedTuple):
    """An error code or error message in a response.

    Attributes:
        struct: name of the struct that declares the field.
        path: names of the enclosing fields, followed by the field's own name.
        versions: versions of the message that have the field and all of its parents.
    """

    struct: str
    field: FieldSpec
    path: Path
    versions: Versions


def find_untagged_errors(response: MessageSpec, *, is_required: bool = False) -> list[ErrorField]:
    """Return the error codes and messages that a response's newest version has and that should be tagged in it.

    A response counts as rewritten if its newest version tags a field named exactly ``ErrorCode`` or ``ErrorMessage``,
    or if all its tagged error fields have names that end in these and no older mandatory field has an exact name. In
    such a response the result has the mandatory error fields that first appear in or after the first version with a
    tagged error. None of Kafka's own specs is rewritten in this sense: ``CreateTopicsResponse`` tags
    ``TopicConfigErrorCode`` alone.

    Args:
        response: spec of a message; the result is empty unless it is a response.
        is_required: whether to return every mandatory error field of the newest version, in all responses except
            SaslHandshake and ApiVersions, which KIP-636 and KIP-511 exclude.
    """
    if response.type != "response" or response.is_removed:
        return []
    newest = response.valid_versions.highest
    errors = [error for error in _list_error_fields(response) if error.versions.contains(newest)]
    untagged_errors = [error for error in errors if not error.field.is_tagged(newest) and not error.field.map_key]
    if is_required:
        return [] if response.api_key in _KIP_636_EXCEPTIONS | _KIP_511_EXCEPTIONS else untagged_errors
    tagged_errors = [error for error in errors if error.field.is_tagged(newest)]
    if not tagged_errors:
        return []
    first = min(error.field.tagged_versions.intersect(error.versions).lowest for error in tagged_errors)
    older = [error for error in untagged_errors if error.versions.lowest < first]
    tags_exact_name = any(error.field.name in ERROR_FIELD_TYPES for error in tagged_errors)
    is_rewritten = tags_exact_name or not any(error.field.name in ERROR_FIELD_TYPES for error in older)
    return [error for error in untagged_errors if is_rewritten and error.versions.lowest >= first]


def _ends_in_error(name: str) -> bool:
    return name.endswith(tuple(ERROR_FIELD_TYPES))


def _list_error_fields(response: MessageSpec) -> Iterator[ErrorField]:
    """Yield each declared error field once, with the span of versions over all its uses."""
    errors: dict[tuple[str, str], ErrorField] = {}
    for error in _walk_fields(response, response.struct, (), response.valid_versions, ()):
        key = (error.struct, error.field.name)
        first = errors.setdefault(key, error)
        lowest = min(first.versions.lowest, error.versions.lowest)
        highest = max(first.versions.highest, error.versions.highest)
        errors[key] = first._replace(versions=Versions(lowest, highest))
    yield from errors.values()


def _walk_fields(
    response: MessageSpec, struct: StructSpec, path: Path, parents: Versions, open_structs: tuple[str, ...]
) -> Iterator[ErrorField]:
    for field in struct.fields:
        versions = parents.intersect(field.versions)
        if versions.is_empty:
            continue
        field_path = (*path, field.name)
        if field.type.is_struct and field.type.name not in open_structs:
            inner = response.struct_of(field)
            yield from _walk_fields(response, inner, field_path, versions, (*open_structs, field.type.name))
        elif any(
            field.name.endswith(name) and str(field.type) == type_name for name, type_name in ERROR_FIELD_TYPES.items()
        ):
            yield ErrorField(struct.name, field, field_path, versions)


@dataclass(frozen=True, slots=True)
class RewrittenApi:
    """An API whose request and response were rewritten from ``before`` to ``version`` (equal: changed in place)."""

    key: int
    request: str
    response: str
    before: int
    version: int
    is_flexible_new: bool


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """The result of a rewrite: every spec by name, rewritten or unchanged, with the tagged and the unchanged fields."""

    specs: dict[str, MessageSpec]
    apis: tuple[RewrittenApi, ...]
    fields: tuple[TaggedField, ...]
    unchanged: tuple[UnchangedItem, ...]


def rewrite_errors(
    specs: Mapping[str, MessageSpec], *, suffix: bool = False, as_written: bool = False
) -> RewriteResult:
    """Return specs in which the error codes and error messages of every response are tagged fields.

    Args:
        specs: requests, responses and any other specs, by name; all other specs are returned unchanged.
        suffix: whether to include fields with names that end in ErrorCode or ErrorMessage (``PartitionErrorCode``). The
            KIP itself covers only fields with exactly these names.
        as_written: whether to apply the KIP literally, also to ApiVersions and to unreleased versions.

    Raises:
        SpecError: the new version conflicts with existing versions in a spec.
    """
    left_out = _KIP_636_EXCEPTIONS if as_written else _KIP_636_EXCEPTIONS | _KIP_511_EXCEPTIONS
    requests = {spec.api_key: spec.name for spec in specs.values() if spec.type == "request"}
    out, apis, fields, unchanged_items = dict(specs), [], [], list[UnchangedItem]()
    responses = [spec for spec in specs.values() if spec.type == "response"]
    for response in sorted(responses, key=lambda spec: (spec.api_key is None, spec.api_key or 0, spec.name)):
        own_name = f"{response.name.removesuffix('Response')}Request"  # a renamed API has one key and two names
        request = specs.get(own_name if own_name in specs else requests.get(response.api_key, ""))
        reason = _find_reason_to_keep(request, response, left_out)
        if reason is not None or request is None:
            unchanged_items.append(UnchangedItem(response.name, (), reason or "its request is missing"))
            continue
        before = response.valid_versions.highest
        version = before if request.latest_version_unstable and not as_written else before + 1
        draft = MessageDraft(response, before, version)
        tagged_fields, unchanged_fields = tag_errors(draft, suffix=suffix)
        unchanged_items += unchanged_fields
        if not tagged_fields:
            unchanged_items.append(
                UnchangedItem(response.name, (), "all its error codes and messages are already tagged")
            )
            continue
        new = draft.build_checked_spec()
        out |= {new.name: new, request.name: MessageDraft(request, before, version).build_checked_spec()}
        is_new = new.is_flexible(version) and not response.is_flexible(before)
        key = -1 if response.api_key is None else response.api_key
        apis.append(RewrittenApi(key, request.name, response.name, before, version, is_new))
        fields += tagged_fields
    return RewriteResult(out, tuple(apis), tuple(fields), tuple(unchanged_items))


def _find_reason_to_keep(request: MessageSpec | None, response: MessageSpec, left_out: Mapping[int, str]) -> str | None:
    """Return the reason why the proposal does not change an API; None if it changes the API."""
    if response.is_removed or (request is not None and request.is_removed):
        return "removed: it has no valid version"
    if request is not None and request.valid_versions.highest != response.valid_versions.highest:
        return f"its request has versions {request.valid_versions}, but the response {response.valid_versions}"
    return left_out.get(response.api_key if response.api_key is not None else -1)


# ---- numbers --------------------------------------------------------------------------------------------------------


def count_changes(result: RewriteResult) -> dict[str, int]:
    """Count the changes in a rewrite, by the names of ``COUNTS_OF_OCTOBER_2024``."""
    responses = [spec for spec in result.specs.values() if spec.type == "response"]
    with_messages = {field.message for field in result.fields if field.kind == "message"}
    return {
        "responses": len(responses),
        "responses rewritten": len(result.apis),
        "of these with error messages": len(with_messages),
        "requests with a new version": len(result.apis),
        **dict(_count_by_depth(result.fields, "code", "error codes")),
        **dict(_count_by_depth(result.fields, "message", "error messages")),
        "error messages that get default null": sum(field.is_null_default_new for field in result.fields),
        "structs that had tags before": len(
            {(field.message, field.path[:-1]) for field in result.fields if _is_first_after(field, result)}
        ),
        "APIs made flexible": sum(api.is_flexible_new for api in result.apis),
    }


def _count_by_depth(fields: Iterable[TaggedField], kind: str, word: str) -> Iterator[tuple[str, int]]:
    depths = [min(field.arrays, 3) for field in fields if field.kind == kind]
    yield f"{word} that became tagged", len(depths)
    for depth, place in enumerate(("at the top level", "in one array", "in two nested arrays", "in 3 or more arrays")):
        yield f"{word} {place}", depths.count(depth)


def _is_first_after(field: TaggedField, result: RewriteResult) -> bool:
    """Return whether a field is the first new tag of its struct and is not tag 0."""
    struct = (field.message, field.path[:-1])
    return field.tag > 0 and field.tag == min(
        other.tag for other in result.fields if (other.message, other.path[:-1]) == struct
    )


#: Numbers of changes that the rewrite makes in the specs of Kafka's trunk of October 2024 (between 3.9 and 4.0), by
#: kind of change. The rewrite uses the options ``suffix`` and ``as_written``.
COUNTS_OF_OCTOBER_2024: Final[Mapping[str, int]] = {
    "responses": 88,
    "responses rewritten": 87,
    "of these with error messages": 38,
    "requests with a new version": 87,
    "error codes that became tagged": 111,
    "error codes at the top level": 54,
    "error codes in one array": 23,
    "error codes in two nested arrays": 30,
    "error codes in 3 or more arrays": 4,
    "error messages that became tagged": 46,
    "error messages at the top level": 17,
    "error messages in one array": 14,
    "error messages in two nested arrays": 14,
    "error messages in 3 or more arrays": 1,
    "error messages that get default null": 26,
    "structs that had tags before": 11,
    "APIs made flexible": 1,
}
