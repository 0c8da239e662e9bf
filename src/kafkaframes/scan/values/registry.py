"""The wire format of Confluent's serializers, and a client of schema registries (by schema id or subject, over HTTP).

Responses are cached, because an id always refers to the same schema. An id that the registry does not have makes a
record invalid (``BadValueError``). If the registry does not respond, the run fails.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
import uuid
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from kafkaframes.errors import DecodeError, NetworkError, OptionError, TruncatedError
from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.storage.files.http_client import open_url

PREFIX_BYTES: Final = 5
GUID_PREFIX_BYTES: Final = 17
VALUE_SCHEMA_ID_HEADER: Final = (
    "__value_schema_id"  # header that contains the value's schema id; the key's header is __key_schema_id
)
_MAX_MESSAGE_INDEXES: Final = 64  # no real message has more, because protoc accepts fewer nesting levels
_MAX_VARINT_BITS: Final = 35


class BadValueError(Exception):
    """Raised if a value does not match its schema. The message becomes the reason in the dead letter table."""


def split_prefix(value: bytes) -> tuple[int | str, bytes]:
    """Return the schema id of a value, a number or a GUID, and the bytes after the prefix.

    >>> split_prefix(bytes([0, 0, 0, 1, 2]) + b"payload")
    (258, b'payload')
    >>> split_prefix(bytes([1, *range(16)]) + b"payload")
    ('00010203-0405-0607-0809-0a0b0c0d0e0f', b'payload')

    Raises:
        BadValueError: The value does not have a valid prefix.
    """
    size = GUID_PREFIX_BYTES if value[:1] == b"\1" else PREFIX_BYTES
    if len(value) < size:
        raise BadValueError(
            f"{count_text(len(value), 'byte')} {verb_text(len(value))} too few for a schema registry's prefix"
        )
    if value[0] == 1:
        return str(uuid.UUID(bytes=value[1:size])), value[size:]
    if value[0] != 0:
        raise BadValueError(f"not a prefix of a schema registry: the first byte is {value[0]}; expected 0 or 1")
    return int.from_bytes(value[1:size], "big"), value[size:]


def split_indexes(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the message indexes of a Protobuf value, and the bytes of the message.

    >>> split_indexes(bytes([0]) + b"m"), split_indexes(bytes([4, 2, 0]) + b"m")
    (((0,), b'm'), ((1, 0), b'm'))

    Raises:
        BadValueError: The indexes are truncated, or there are too many.
    """
    try:
        count, position = _read_zigzag(payload, 0)
        if not 0 <= count <= _MAX_MESSAGE_INDEXES:
            raise BadValueError(f"{count} message indexes")
        indexes = []
        for _ in range(count):
            index, position = _read_zigzag(payload, position)
            indexes.append(index)
    except DecodeError as error:
        raise BadValueError(f"message indexes: {error}") from None
    return tuple(indexes) or (0,), payload[position:]


def _read_zigzag(buffer: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(buffer):
            raise TruncatedError("the varint is truncated", position=position)
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift >= _MAX_VARINT_BITS:
            raise DecodeError("the varint is longer than 5 bytes", position=position)


REQUEST_TIMEOUT_SECONDS: Final = 20.0
_MAX_RESPONSE_BYTES: Final = 16 << 20
_HTTP_NOT_FOUND: Final = 404
_MAX_REFERENCES: Final = 1000
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"


class RegisteredSchema(NamedTuple):
    """A schema in a registry.

    Attributes:
        kind: AVRO, JSON or PROTOBUF.
        text: Text of the schema; for Protobuf, a FileDescriptorProto in base64.
        references: Referenced schemas as (name, text), each after its own references.
    """

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


class SchemaRegistry:
    """A client of a schema registry.

    Args:
        url: ``http(s)://[user:password@]host[:port][/path]``.

    Raises:
        OptionError: The URL is invalid.
    """

    def __init__(self, url: str, *, timeout: float = REQUEST_TIMEOUT_SECONDS) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError(f"`registry` {_hide_password(url)}: must be http://HOST:PORT or https://HOST")
        self._timeout = timeout
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        self._url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")).rstrip(
            "/"
        )
        self._by_id: dict[int | str, RegisteredSchema | str] = {}

    def fetch_by_id(self, schema_id: int | str) -> RegisteredSchema:
        """Return a schema by its number or its GUID.

        Raises:
            BadValueError: The registry does not have the id.
            NetworkError: The registry does not respond, or responds with an error.
        """
        schema = self._by_id.get(schema_id)
        if schema is None:
            path = f"/schemas/{'guids' if isinstance(schema_id, str) else 'ids'}/{schema_id}"
            answer = self._send_request(path)
            schema = f"the registry has no schema {schema_id}" if answer is None else self._fetch_references(answer)
            if isinstance(schema, RegisteredSchema) and schema.kind == PROTOBUF:
                is_retry = self._send_request(f"{path}?format=serialized") or answer
                schema = schema._replace(text=str((is_retry or {}).get("schema")))
            self._by_id[schema_id] = schema
        if isinstance(schema, str):
            raise BadValueError(schema)
        return schema

    def fetch_latest(self, subject: str) -> RegisteredSchema:
        """Return the newest schema of a subject.

        Raises:
            OptionError: The subject does not exist.
            NetworkError: As for ``fetch_by_id``.
        """
        answer = self._send_request(f"/subjects/{quote(subject, safe='')}/versions/latest")
        if answer is None:
            raise OptionError(f"the schema registry has no subject {subject}: set `subject`")
        if isinstance(number := answer.get("id"), int):
            return self.fetch_by_id(number)
        return self._fetch_references(answer)

    def _fetch_references(self, answer: dict[str, Any]) -> RegisteredSchema:
        """Return the schema of a response, with all schemas that it references."""
        text = answer.get("schema")
        if not isinstance(text, str):
            raise NetworkError(f"{self._url}: the response has no schema")
        kind = str(answer.get("schemaType") or AVRO)
        result: dict[str, str] = {}
        self._fetch_referenced(answer.get("references") or (), kind, result)
        return RegisteredSchema(kind, text, tuple(result.items()))

    def _fetch_referenced(self, references: Any, kind: str, result: dict[str, str]) -> None:
        """Fetch referenced schemas, depth first."""
        for entry in references:
            name, subject, version = (entry.get(key) for key in ("name", "subject", "version"))
            if name in result or len(result) >= _MAX_REFERENCES:
                continue
            form = "?format=serialized" if kind == PROTOBUF else ""
            answer = self._send_request(f"/subjects/{quote(str(subject), safe='')}/versions/{version}{form}")
            if answer is None:
                raise NetworkError(
                    f"{self._url}: a schema references {subject} version {version}, which does not exist"
                )
            result[name] = ""  # marks the reference as visited
            self._fetch_referenced(answer.get("references") or (), kind, result)
            del result[name]
            result[name] = str(answer.get("schema"))

    def _send_request(self, path: str) -> dict[str, Any] | None:
        """Return the JSON object of a response; None for 404."""
        request = urllib.request.Request(self._url + path, headers=self._headers)
        try:
            with open_url(request, timeout_seconds=self._timeout) as response:
                body = response.read(_MAX_RESPONSE_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == _HTTP_NOT_FOUND:
                    return None
            raise NetworkError(f"{self._url}: the schema registry returned {error.code} {error.reason}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise NetworkError(f"{self._url}: no response from the schema registry: {reason}") from None
        if len(body) > _MAX_RESPONSE_BYTES:
            raise NetworkError(f"{self._url}: the response has more than {_MAX_RESPONSE_BYTES} bytes")
        return self._parse_json_object(body)

    def _parse_json_object(self, body: bytes) -> dict[str, Any]:
        """Return the JSON object in a response body. Raise NetworkError for any other body."""
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise NetworkError(f"{self._url}: the response is not that of a schema registry")
        return answer


def _hide_password(url: str) -> str:
    """Return a URL without a password."""
    return url if "@" not in url else "...@" + url.rpartition("@")[2]
