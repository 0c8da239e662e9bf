"""Options for decoding a table's values, which are sent to workers, and the decoder that each worker creates.

The source of the schemas determines whether values have a prefix. With a registry, or files by id (``ID=FILE``), every
value starts with a registry's prefix. With one file (``FILE``), or without a schema, values have no prefix. The bytes
of a value are not used to detect a prefix.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from kafkaframes.errors import OptionError
from kafkaframes.scan.values import registry as registries
from kafkaframes.scan.values.avro_values import AvroDecoder
from kafkaframes.scan.values.columns import ValueDecoder
from kafkaframes.scan.values.json_values import JsonDecoder
from kafkaframes.scan.values.protobuf_values import (
    ProtobufDecoder,
    find_message_name,
    load_library,
    parse_descriptor_set,
)
from kafkaframes.scan.values.registry import (
    BadValueError,
    RegisteredSchema,
    SchemaRegistry,
    split_indexes,
    split_prefix,
)

AVRO, JSON, PROTOBUF = "avro", "json", "protobuf"
DECODE_MODES: Final = (JSON, AVRO, PROTOBUF)
_REGISTRY_KINDS: Final = {AVRO: registries.AVRO, JSON: registries.JSON, PROTOBUF: registries.PROTOBUF}


@dataclass(frozen=True)
class DecodingOptions:
    """The decoding options of values.

    Attributes:
        mode: One of ``DECODE_MODES``.
        schema: Schema of the table: text (JSON, Avro) or a FileDescriptorSet (Protobuf), as bytes.
        by_id: Schemas by the id in the prefix, if they come from files.
        registry: URL of the schema registry; None if no registry is used.
        registered_schema: Schema of the table's subject in the registry at the start of the run.
        message: Full name of the Protobuf message. Empty: the first message.
        other_fields: JSON only. Whether fields that are not in the schema are returned in a column of their own.
    """

    mode: str
    schema: bytes | None = None
    by_id: Mapping[int, bytes] = field(default_factory=dict, hash=False)
    registry: str | None = field(default=None, repr=False)
    registered_schema: RegisteredSchema | None = field(default=None, repr=False)
    message: str = ""
    other_fields: bool = True

    @property
    def has_prefix(self) -> bool:
        """Whether each value starts with a schema registry's prefix."""
        return self.registry is not None or bool(self.by_id)

    def get_decoder(self) -> ValueDecoder:
        """Return the decoder. In a process, equal options share one decoder.

        Raises:
            OptionError: A schema is invalid.
            MissingExtraError: The library of the format is not installed.
        """
        return _decoder(self)


@lru_cache(maxsize=8)
def _decoder(decoding: DecodingOptions) -> ValueDecoder:
    return _DECODER_FACTORIES[decoding.mode](decoding)


def fetch_subject_schema(url: str, subject: str, mode: str) -> RegisteredSchema:
    """Return the newest schema of a table's subject in a registry.

    Raises:
        OptionError: The subject does not exist, or its schema has another format.
        NetworkError: The registry does not respond.
    """
    result = SchemaRegistry(url).fetch_latest(subject)
    if result.kind != _REGISTRY_KINDS[mode]:
        raise OptionError(f"`mode` is {mode}, but the schemas of {subject} are {result.kind}")
    return result


class _PrefixParser:
    """A parser of prefixes, which returns the writer schema and the payload of a value."""

    def __init__(self, decoding: DecodingOptions) -> None:
        self._decoding = decoding
        self._registry = None if decoding.registry is None else SchemaRegistry(decoding.registry)
        self._parsed_schemas: dict[Any, Any] = {}

    def strip_prefix(self, value: bytes) -> bytes:
        """Return a value without its prefix, for any schema id."""
        return split_prefix(value)[1] if self._decoding.has_prefix else value

    def parse_avro_prefix(self, value: bytes) -> tuple[Any | None, bytes]:
        """Return the writer schema of a value (None: the table's schema) and the payload."""
        if not self._decoding.has_prefix:
            return None, value
        number, payload = split_prefix(value)
        if number not in self._parsed_schemas:
            self._parsed_schemas[number] = self._find_avro_schema(number)
        return self._parsed_schemas[number], payload

    def _find_avro_schema(self, number: int | str) -> Any:
        """Return the Avro schema with an id, from the registry or from the given schemas."""
        if self._registry is None:
            return _parse_avro_text(_find_schema(self._decoding, number).decode("utf-8", "replace"))
        return inline_avro_schema(_fetch_schema_by_id(self._registry, number, registries.AVRO))

    def parse_protobuf_prefix(self, value: bytes, requested_message: str) -> bytes:
        """Return the bytes of a message.

        Raises:
            BadValueError: The message is not of the type ``requested_message``.
        """
        if not self._decoding.has_prefix:
            return value
        number, body = split_prefix(value)
        indexes, payload = split_indexes(body)
        name = self._parsed_schemas.get((number, indexes))
        if name is None:
            name = self._parsed_schemas[number, indexes] = find_message_name(self._find_protobuf_files(number), indexes)
        if name != requested_message:
            raise BadValueError(f"the value is a message {name}; the table reads messages {requested_message}")
        return payload

    def _find_protobuf_files(self, number: int | str) -> list[bytes]:
        """Return the Protobuf files of the schema with an id, from the registry or from the given schemas."""
        if self._registry is None:
            return parse_descriptor_set(_find_schema(self._decoding, number))
        return _list_protobuf_files(_fetch_schema_by_id(self._registry, number, registries.PROTOBUF))


def _fetch_schema_by_id(registry: SchemaRegistry, number: int | str, kind: str) -> RegisteredSchema:
    """Return a schema from the registry, after a check that it has the expected kind."""
    result = registry.fetch_by_id(number)
    if result.kind != kind:
        raise BadValueError(f"schema {number} is {result.kind}; expected {kind}")
    return result


def _find_schema(decoding: DecodingOptions, number: int | str) -> bytes:
    """Return the schema with an id from the schemas that the caller gave."""
    result = decoding.by_id.get(number) if isinstance(number, int) else None
    if result is None:
        raise BadValueError(f"schema {number} is not one of the given schemas")
    return result


def _parse_avro_text(text: str) -> Any:
    """Return an Avro schema as parsed JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # the name of a primitive type is valid without quotes


def inline_avro_schema(registered_schema: RegisteredSchema) -> Any:
    """Return a registered Avro schema with the schemas that it references inlined.

    >>> inline_avro_schema(RegisteredSchema("AVRO", '{"type": "record", "name": "A", "fields": []}'))["name"]
    'A'
    """
    schema = _parse_avro_text(registered_schema.text)
    names = {name: _parse_avro_text(text) for name, text in registered_schema.references}
    return _inline_names(schema, names, set()) if names else schema


def _inline_names(schema: Any, names: Mapping[str, Any], seen_names: set[str]) -> Any:
    """Replace the first use of each name with its schema."""
    if isinstance(schema, str):
        if schema in names and schema not in seen_names:
            seen_names.add(schema)
            return _inline_names(names[schema], names, seen_names)
        return schema
    if isinstance(schema, list):
        return [_inline_names(item, names, seen_names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inlined_schema = dict(schema)
    for key in ("type", "items", "values"):
        if key in inlined_schema:
            inlined_schema[key] = _inline_names(inlined_schema[key], names, seen_names)
    if isinstance(inlined_schema.get("fields"), list):
        inlined_schema["fields"] = [_inline_names(item, names, seen_names) for item in inlined_schema["fields"]]
    return inlined_schema


def _list_protobuf_files(registered_schema: RegisteredSchema) -> list[bytes]:
    """Return the files of a registered Protobuf schema, each after its imports and under the name that imports use."""
    descriptor_pb2, _, _ = load_library()
    files = []
    for name, text in (*registered_schema.references, ("", registered_schema.text)):
        try:
            entry = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except Exception as error:
            raise OptionError(
                "the schema registry does not return descriptors of Protobuf schemas (format=serialized); "
                "set `schema` to a .desc file that protoc wrote"
            ) from error
        entry.name = name or entry.name
        files.append(entry.SerializeToString())
    return [*_find_google_imports(files), *files]


def _find_google_imports(files: list[bytes]) -> list[bytes]:
    """Return Google's own files that are imported, because registries do not contain them."""
    descriptor_pb2, _, _ = load_library()
    imported_names = {name for file in files for name in descriptor_pb2.FileDescriptorProto.FromString(file).dependency}
    result = []
    for name in sorted(imported_names):
        if name.startswith("google/protobuf/"):
            module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
            result.append(module.DESCRIPTOR.serialized_pb)
    return result


def _create_json_decoder(decoding: DecodingOptions) -> ValueDecoder:
    text = (
        decoding.registered_schema.text if decoding.registered_schema is not None else (decoding.schema or b"").decode()
    )
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"not a JSON Schema: {error}") from None
    decoder = JsonDecoder(
        schema, other_fields=decoding.other_fields, references=_parse_json_references(decoding.registered_schema)
    )
    return _PrefixedValueDecoder(decoder, _PrefixParser(decoding), has_prefix=decoding.has_prefix)


def _parse_json_references(registered_schema: RegisteredSchema | None) -> dict[str, Any]:
    """Return the schemas that a registered JSON Schema references. References that are not JSON are omitted."""
    result = {}
    for name, text in () if registered_schema is None else registered_schema.references:
        with suppress(ValueError, RecursionError):
            result[name] = json.loads(text)
    return result


def _create_avro_decoder(decoding: DecodingOptions) -> ValueDecoder:
    registered_schema = decoding.registered_schema
    text = (decoding.schema or b"").decode("utf-8", "replace")
    return AvroDecoder(
        _parse_avro_text(text) if registered_schema is None else inline_avro_schema(registered_schema),
        _PrefixParser(decoding).parse_avro_prefix,
    )


def _create_protobuf_decoder(decoding: DecodingOptions) -> ValueDecoder:
    registered_schema, frame_reader = decoding.registered_schema, _PrefixParser(decoding)
    files = (
        parse_descriptor_set(decoding.schema or b"")
        if registered_schema is None
        else _list_protobuf_files(registered_schema)
    )
    name = decoding.message or find_message_name(files, (0,))
    return ProtobufDecoder(files, name, lambda value: frame_reader.parse_protobuf_prefix(value, name))


class _PrefixedValueDecoder:
    """A decoder of values with a prefix."""

    def __init__(self, decoder: JsonDecoder, frame_reader: _PrefixParser, *, has_prefix: bool) -> None:
        self._decoder, self._payload, self._has_prefix = decoder, frame_reader.strip_prefix, has_prefix
        self.fields = decoder.fields

    def decode(self, value: bytes) -> Any:
        """Decode the bytes after the prefix."""
        return self._decoder.decode(self._payload(value))

    def decode_columns(self, values: Any) -> Any:
        """Decode many values at once; None if values have a prefix and must be decoded one by one."""
        return None if self._has_prefix else self._decoder.decode_columns(values)


_DECODER_FACTORIES: Final = {JSON: _create_json_decoder, AVRO: _create_avro_decoder, PROTOBUF: _create_protobuf_decoder}
