"""Declarations of a spec file, parsed as leniently as Jackson does, before the generator's rules are checked.

A declaration mirrors the JSON, with names, ranges and default texts as written. ``rules`` validates declarations, and
``load`` converts valid ones to the resolved ``model``. Declarations are named tuples because each message needs
hundreds of them. Each declaration contains its JSON path, for the line number, and its field path, for error messages.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec.jsontext import JsonNumber
from kafkaframes.protocol.spec.model import PRIMITIVES, FieldType
from kafkaframes.protocol.spec.versions import Versions, parse_integer, trim

JsonPath = tuple[str | int, ...]

MESSAGE_KEYS = frozenset(
    [
        "apiKey",
        "type",
        "name",
        "validVersions",
        "deprecatedVersions",
        "flexibleVersions",
        "fields",
        "commonStructs",
        "listeners",
        "latestVersionUnstable",
        "headerVersions",
    ]
)
STRUCT_KEYS = frozenset(["name", "versions", "deprecatedVersions", "fields"])
FIELD_KEYS = frozenset(
    [
        "name",
        "type",
        "versions",
        "nullableVersions",
        "tag",
        "taggedVersions",
        "flexibleVersions",
        "mapKey",
        "ignorable",
        "default",
        "entityType",
        "zeroCopy",
        "about",
        "fields",
    ]
)
ENTITY_TYPES = {
    "unknown": None,
    "transactionalId": "string",
    "producerId": "int64",
    "groupId": "string",
    "topicName": "string",
    "brokerId": "int32",
}
LISTENERS = ("zkBroker", "broker", "controller")
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")


class FieldDecl(NamedTuple):
    """A field's declaration; ``fields`` are the declarations in its inline struct."""

    where: JsonPath
    path: tuple[str, ...]
    name: str
    type: FieldType
    versions: Versions
    nullable_versions: Versions
    tag: int | None
    tagged_versions: Versions
    flexible_versions: Versions | None
    map_key: bool
    ignorable: bool
    default: str
    entity_type: str
    zero_copy: bool
    about: str
    fields: tuple[FieldDecl, ...]


class StructDecl(NamedTuple):
    """The declaration of a struct: a message's top level, a common struct or an inline struct.

    ``rules_fields.register_structs`` creates the declarations of inline structs.
    """

    where: JsonPath
    path: tuple[str, ...]
    name: str
    versions: Versions
    fields: tuple[FieldDecl, ...]
    is_common: bool = False


class MessageDecl(NamedTuple):
    """A spec file's declaration; ``flexible_versions`` is ``None`` if the key is missing."""

    struct: StructDecl
    type: str
    api_key: int | None
    deprecated_versions: Versions
    flexible_versions: Versions | None
    common_structs: tuple[StructDecl, ...]
    listeners: tuple[str, ...]
    latest_version_unstable: bool
    header_versions: tuple[tuple[str, str], ...] | None


class DeclarationError(Exception):
    """A validation error with its JSON path; ``load`` converts it to a SpecError with file and line."""

    def __init__(self, reason: str, where: JsonPath, path: tuple[str, ...]) -> None:
        super().__init__(reason)
        self.reason, self.where, self.path = reason, where, path


class _JsonObject:
    """One JSON object, read key by key with Jackson's coercions; null is equal to an absent key."""

    def __init__(self, value: Any, keys: frozenset[str], *, where: JsonPath, path: tuple[str, ...]) -> None:
        self.where, self.path = where, path
        if not isinstance(value, dict):
            raise self.refusal(f"expected an object, found {_describe_value(value)}")
        for key in value:
            if key not in keys:
                raise self.refusal(f"unknown key {key!r}; expected one of {', '.join(sorted(keys))}", key)
        self._values = {key: element for key, element in value.items() if element is not None}

    def refusal(self, reason: str, *keys: str | int) -> DeclarationError:
        return DeclarationError(reason, (*self.where, *keys), self.path)

    def read_text(self, key: str) -> str | None:
        value = self._values.get(key)
        if isinstance(value, bool):
            return str(value).lower()
        if value is None or isinstance(value, str):
            return value
        raise self.refusal(f"{key} must be text, not {_describe_value(value)}", key)

    def require_text(self, key: str, hint: str) -> str:
        value = self.read_text(key)
        if value is None:
            raise self.refusal(f"{key} is missing: {hint}", *(() if key not in self._values else (key,)))
        return value

    def read_versions(self, key: str) -> Versions | None:
        """Return the range under a key; ``None`` if it is absent or blank."""
        text = self.read_text(key)
        if text is None or not trim(text):
            return None
        try:
            return Versions.parse(text)
        except SpecError as error:
            raise self.refusal(f"{key}: {error.reason}", key) from None

    def read_boolean(self, key: str) -> bool:
        value = self._values.get(key, False)
        if isinstance(value, bool):
            return value
        if isinstance(value, JsonNumber) and value.lstrip("-").isdigit():
            return value.strip("-0") != ""
        if isinstance(value, str) and not isinstance(value, JsonNumber):
            text = trim(value)
            if text in _TRUE:
                return True
            if text in (*_FALSE, "", "null"):
                return False
        raise self.refusal(f"{key} must be true or false, not {_describe_value(value)}", key)

    def read_integer(self, key: str, bits: int) -> int | None:
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool):  # a plain JSON parser reads the catalog's files
            return value
        if not isinstance(value, str):
            raise self.refusal(f"{key} must be a number, not {_describe_value(value)}", key)
        text = value if isinstance(value, JsonNumber) else trim(value)
        if not isinstance(value, JsonNumber) and text in ("", "null"):
            return None
        number = _parse_whole_number(text, is_number=isinstance(value, JsonNumber))
        if number is None or not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise self.refusal(f"{key} must be a whole number of {bits} bits, not {_describe_value(value)}", key)
        return number

    def read_elements(self, key: str) -> list[Any]:
        """Return the list under a key; a value that is not a list becomes a list of one element."""
        value = self._values.get(key)
        if value is None:
            return []
        return value if isinstance(value, list) else [value]

    def path_step(self, key: str, index: int) -> JsonPath:
        """Return the JSON path of an element in the list under a key."""
        is_list = isinstance(self._values.get(key), list)
        return (*self.where, key, index) if is_list else (*self.where, key)

    def read_pairs(self, key: str) -> tuple[tuple[str, str], ...] | None:
        """Return the map of texts under a key, in file order."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.refusal(f"{key} must be an object, not {_describe_value(value)}", key)
        out = []
        for name, element in value.items():
            if not isinstance(element, str):
                raise self.refusal(f"{key}.{name} must be text, not {_describe_value(element)}", key, name)
            out.append((name, str(element)))
        return tuple(out)

    def find_choice(self, key: str, value: Any, choices: tuple[str, ...]) -> str:
        """Return one of the choices by its name or, as in Jackson, by its index."""
        text = trim(value) if isinstance(value, str) else ""
        if text in choices:
            return text
        number = parse_integer(text) if text[:1].isdigit() and text.isascii() else None
        if number is not None and number < len(choices):
            return choices[number]
        raise self.refusal(f"{key} is {_describe_value(value)}; expected one of {', '.join(choices)}", key)


def _parse_whole_number(text: str, *, is_number: bool) -> int | None:
    """Return the whole number in a JSON number (its fraction is discarded, as in Jackson) or in a text."""
    number = parse_integer(text)
    if number is not None or not is_number:
        return number
    fraction = float(text)
    return int(fraction) if abs(fraction) < 1e18 else None


def _describe_value(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = value if not isinstance(value, str) or len(value) <= 80 else f"{value[:60]}..."
    return f"the number {text}" if isinstance(value, JsonNumber) else repr(text)


def parse_type(text: str) -> FieldType:
    """Parse a field's type (``int32``, ``[]Topic``) by the generator's rules.

    Raises:
        SpecError: the name is not a primitive type and does not start with a capital, as struct names must.
    """
    name = trim(text)
    if name.startswith("[]"):
        element = trim(name[2:])
        if not element:
            raise SpecError("type [] names no element type: write []int32, or []Name with fields")
        if element.startswith("[]"):
            raise SpecError(
                f"type {name}: arrays of arrays are not supported; use an array of structs that contain an array"
            )
        return FieldType(parse_type(element).name, is_array=True)
    if name in PRIMITIVES or name[:1].isupper():
        return FieldType(name)
    raise SpecError(
        f"type {name!r} is unknown: write one of {', '.join(PRIMITIVES)}, "
        "or the name of a struct, which starts with a capital letter"
    )


def _declare_field(value: Any, where: JsonPath, parents: tuple[str, ...]) -> FieldDecl:
    json_object = _JsonObject(value, FIELD_KEYS, where=where, path=parents)
    name = json_object.require_text("name", "every field has one")
    json_object.path = path = (*parents, name)
    try:
        field_type = parse_type(json_object.require_text("type", "such as int32, string, []Topic"))
    except SpecError as error:
        raise json_object.refusal(error.reason, "type") from None
    tagged_versions = _read_tagged_versions(json_object)
    versions, tag = json_object.read_versions("versions"), json_object.read_integer("tag", 32)
    if versions is None:
        if tagged_versions.is_empty and tag is None:  # a later rule checks tags without versions
            raise json_object.refusal(f"{name} has no versions: add its range, such as 0+")
        versions = tagged_versions
    return FieldDecl(
        where=where,
        path=path,
        name=name,
        type=field_type,
        versions=versions,
        nullable_versions=json_object.read_versions("nullableVersions") or Versions.NONE,
        tag=tag,
        tagged_versions=tagged_versions,
        flexible_versions=_read_own_flexible_versions(json_object),
        map_key=json_object.read_boolean("mapKey"),
        ignorable=json_object.read_boolean("ignorable"),
        default=json_object.read_text("default") or "",
        entity_type=_parse_entity(json_object, value),
        zero_copy=json_object.read_boolean("zeroCopy"),
        about=json_object.read_text("about") or "",
        fields=_declare_fields(json_object),
    )


def _parse_entity(json_object: _JsonObject, value: dict[str, Any]) -> str:
    entity = value.get("entityType")
    return "unknown" if entity is None else json_object.find_choice("entityType", entity, tuple(ENTITY_TYPES))


def _declare_fields(json_object: _JsonObject) -> tuple[FieldDecl, ...]:
    """Return the declarations of the fields in a JSON object."""
    return tuple(
        _declare_field(element, json_object.path_step("fields", index), json_object.path)
        for index, element in enumerate(json_object.read_elements("fields"))
    )


def _declare_struct(value: Any, where: JsonPath) -> StructDecl:
    json_object = _JsonObject(value, STRUCT_KEYS, where=where, path=())
    name = json_object.require_text("name", "every common struct has one")
    json_object.path = (name,)
    versions = json_object.read_versions("versions")
    if versions is None:
        raise json_object.refusal(f"common struct {name} has no versions: add its range, such as 0+")
    json_object.read_versions("deprecatedVersions")
    return StructDecl(
        where=where,
        path=json_object.path,
        name=name,
        versions=versions,
        fields=_declare_fields(json_object),
        is_common=True,
    )


def declare_message(value: Any, types: tuple[str, ...]) -> MessageDecl:
    """Return a parsed document as a message declaration.

    Raises:
        DeclarationError: a key is unknown or missing, or has a value that Jackson could not coerce.
    """
    json_object = _JsonObject(value, MESSAGE_KEYS, where=(), path=())
    name = json_object.require_text("name", "it is the name of the class")
    valid = json_object.read_versions("validVersions")
    if valid is None:
        raise json_object.refusal("validVersions is missing: add the range of all versions, such as 0-3")
    listeners = tuple(
        json_object.find_choice("listeners", listener, LISTENERS)
        for listener in json_object.read_elements("listeners")
        if listener is not None
    )
    kind = json_object.find_choice("type", value.get("type"), types)
    if json_object.read_elements("listeners") and not listeners and kind != "request":
        raise json_object.refusal(f"only requests can have listeners, even if null; this is a {kind}", "listeners")
    common = json_object.read_elements("commonStructs")
    return MessageDecl(
        struct=StructDecl(where=(), path=(), name=name, versions=valid, fields=_declare_fields(json_object)),
        type=kind,
        api_key=json_object.read_integer("apiKey", 16),
        deprecated_versions=json_object.read_versions("deprecatedVersions") or Versions.NONE,
        flexible_versions=_read_flexible_versions(json_object),
        common_structs=tuple(
            _declare_struct(struct, json_object.path_step("commonStructs", index))
            for index, struct in enumerate(common)
        ),
        listeners=listeners,
        latest_version_unstable=json_object.read_boolean("latestVersionUnstable"),
        header_versions=json_object.read_pairs("headerVersions"),
    )


def _read_tagged_versions(json_object: _JsonObject) -> Versions:
    versions = json_object.read_versions("taggedVersions") or Versions.NONE
    if versions.is_empty and trim(json_object.read_text("taggedVersions") or "") not in ("", "none"):
        raise json_object.refusal("taggedVersions: the end is lower than the start", "taggedVersions")
    return versions


def _read_own_flexible_versions(json_object: _JsonObject) -> Versions | None:
    text = json_object.read_text("flexibleVersions")
    if text and not trim(text):
        raise json_object.refusal(
            "flexibleVersions is blank: remove it, or write a range such as none", "flexibleVersions"
        )
    return json_object.read_versions("flexibleVersions")


def _read_flexible_versions(json_object: _JsonObject) -> Versions | None:
    if json_object.read_text("flexibleVersions") is None:
        return None
    return json_object.read_versions("flexibleVersions") or Versions.NONE
