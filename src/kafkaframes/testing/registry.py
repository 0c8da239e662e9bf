"""An in-memory schema registry with the REST interface that serializers use: subjects, versions and ids.

The registry stores schemas and assigns ids and versions to them. The registry does not check compatibility: its level
is NONE, and requests for another level are rejected.
"""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NoReturn, Self

from kafkaframes.broker.network.http_server import HttpError, HttpRequest, HttpServer, Route

_REGISTRY_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_ACCEPTED_CONTENT_TYPES = ("application/json", _REGISTRY_CONTENT_TYPE, "application/vnd.schemaregistry+json")
SCHEMA_TYPES = ("AVRO", "JSON", "PROTOBUF")
_COMPATIBILITY_LEVEL = "NONE"
_NO_SUBJECT, _NO_VERSION, _NO_SCHEMA = 40401, 40402, 40403
_BAD_SCHEMA, _BAD_VERSION, _BAD_LEVEL = 42201, 42202, 42203


@dataclass(frozen=True, slots=True)
class Schema:
    """A registered schema.

    Attributes:
        text: the schema. AVRO and JSON schemas have no unnecessary whitespace, as in other registries.
        type: ``AVRO``, ``JSON`` or ``PROTOBUF``.
        references: references to versions of other subjects, as JSON.
    """

    text: str
    type: str = "AVRO"
    references: str = "[]"

    def to_json(self) -> dict[str, Any]:
        """Return the schema in the form of a response, which omits the type AVRO."""
        result: dict[str, Any] = {"schema": self.text}
        if self.type != SCHEMA_TYPES[0]:
            result["schemaType"] = self.type
        if self.references != "[]":
            result["references"] = json.loads(self.references)
        return result


class SchemaRegistry:
    """A registry that listens until ``close``. The registry is also a context manager.

    Args:
        host: address to listen on.
        port: port to listen on; 0 for a free one.

    Attributes:
        url: URL for the serializers' setting ``schema.registry.url``.
    """

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._lock = threading.Lock()
        self._ids: dict[Schema, int] = {}
        self._by_id: dict[int, Schema] = {}
        self._subjects: dict[str, dict[int, int]] = {}
        self._server = HttpServer(
            self._create_routes(),
            host=host,
            port=port,
            content_type=_REGISTRY_CONTENT_TYPE,
            body_types=_ACCEPTED_CONTENT_TYPES,
        )
        self.url = self._server.url
        self.port = self._server.port

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---------------------------------------------------------------------------------------------- for tests

    def register(self, subject: str, schema: str | dict[str, Any], *, schema_type: str = "AVRO") -> int:
        """Register a schema as a subject's newest version and return its id.

        A schema that the subject already has keeps its id and version.

        Raises:
            HttpError: the schema is invalid.
        """
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self._register(subject, _parse_schema(text, schema_type, []))

    def subjects(self) -> dict[str, dict[int, Schema]]:
        """Return the schemas of each subject, by version."""
        with self._lock:
            return {
                subject: {version: self._by_id[number] for version, number in versions.items()}
                for subject, versions in self._subjects.items()
            }

    def _register(self, subject: str, schema: Schema) -> int:
        """Store a schema as a version of a subject, unless the subject has it. Return its id."""
        with self._lock:
            number = self._ids.setdefault(schema, len(self._ids) + 1)
            self._by_id[number] = schema
            versions = self._subjects.setdefault(subject, {})
            if number not in versions.values():
                versions[max(versions, default=0) + 1] = number
            return number

    # ---------------------------------------------------------------------------------------------- over HTTP

    def _create_routes(self) -> list[Route]:
        return [
            Route("GET", "/", lambda request: {}),
            Route("GET", "/subjects", lambda request: sorted(self._subjects)),
            Route("POST", "/subjects/{}", self._look_up_schema),
            Route("DELETE", "/subjects/{}", self._delete_subject),
            Route("GET", "/subjects/{}/versions", lambda request: sorted(self._find_versions(request.path[0]))),
            Route("POST", "/subjects/{}/versions", self._create_version),
            Route("GET", "/subjects/{}/versions/{}", self._get_version),
            Route("GET", "/subjects/{}/versions/{}/schema", self._get_schema_text),
            Route("DELETE", "/subjects/{}/versions/{}", self._delete_version),
            Route("GET", "/schemas/types", lambda request: list(SCHEMA_TYPES)),
            Route("GET", "/schemas/ids/{}", lambda request: self._find_by_id(request.path[0]).to_json()),
            Route("GET", "/schemas/guids/{}", lambda request: self._find_by_guid(request.path[0]).to_json()),
            Route("GET", "/schemas/ids/{}/schema", lambda request: _load_schema(self._find_by_id(request.path[0]))),
            Route("GET", "/schemas/ids/{}/versions", self._list_schema_versions),
            Route("GET", "/config", lambda request: {"compatibilityLevel": _COMPATIBILITY_LEVEL}),
            Route("PUT", "/config", _set_compatibility_level),
            Route("GET", "/config/{}", lambda request: {"compatibilityLevel": _COMPATIBILITY_LEVEL}),
            Route("PUT", "/config/{}", _set_compatibility_level),
            Route("GET", "/mode", lambda request: {"mode": "READWRITE"}),
            Route("POST", "/compatibility/subjects/{}/versions/{}", self._check_compatibility),
        ]

    def _create_version(self, request: HttpRequest) -> Any:
        return {"id": self._register(request.path[0], _read_schema(request))}

    def _look_up_schema(self, request: HttpRequest) -> Any:
        subject, schema = request.path[0], _read_schema(request)
        number = self._ids.get(schema)
        for version, entry in self._find_versions(subject).items():
            if entry == number:
                return self._version_to_json(subject, version)
        raise HttpError(HTTPStatus.NOT_FOUND, "Schema not found", _NO_SCHEMA)

    def _get_version(self, request: HttpRequest) -> Any:
        return self._version_to_json(request.path[0], self._parse_version(*request.path))

    def _get_schema_text(self, request: HttpRequest) -> Any:
        return _load_schema(self._by_id[self._find_versions(request.path[0])[self._parse_version(*request.path)]])

    def _list_schema_versions(self, request: HttpRequest) -> Any:
        number = _parse_id(request.path[0])
        self._find_by_id(request.path[0])
        with self._lock:
            return [
                {"subject": subject, "version": version}
                for subject, versions in self._subjects.items()
                for version, schema_id in versions.items()
                if schema_id == number
            ]

    def _delete_subject(self, request: HttpRequest) -> Any:
        versions = sorted(self._find_versions(request.path[0]))
        with self._lock:
            self._subjects.pop(request.path[0], None)
        return versions

    def _delete_version(self, request: HttpRequest) -> Any:
        version = self._parse_version(*request.path)
        with self._lock:
            versions = self._subjects[request.path[0]]
            versions.pop(version, None)
            if not versions:
                del self._subjects[request.path[0]]
        return version

    def _check_compatibility(self, request: HttpRequest) -> Any:
        """Respond like a registry with level NONE: every valid schema is compatible."""
        _read_schema(request)
        self._parse_version(*request.path)
        return {"is_compatible": True}

    def _find_versions(self, subject: str) -> dict[int, int]:
        with self._lock:
            if subject not in self._subjects:
                raise HttpError(HTTPStatus.NOT_FOUND, f"Subject '{subject}' not found.", _NO_SUBJECT)
            return dict(self._subjects[subject])

    def _parse_version(self, subject: str, version: str) -> int:
        versions = self._find_versions(subject)
        number = max(versions) if version in ("latest", "-1") else _parse_version_number(version)
        if number not in versions:
            raise HttpError(HTTPStatus.NOT_FOUND, f"Version {number} not found.", _NO_VERSION)
        return number

    def _version_to_json(self, subject: str, version: int) -> dict[str, Any]:
        number = self._find_versions(subject)[version]
        return {"subject": subject, "version": version, "id": number, **self._by_id[number].to_json()}

    def guid_of(self, schema_id: int) -> str:
        """Return the GUID of a schema, which serializers write to record headers."""
        with self._lock:
            return _compute_guid(self._by_id[schema_id])

    def _find_by_guid(self, text: str) -> Schema:
        with self._lock:
            result = next((schema for schema in self._by_id.values() if _compute_guid(schema) == text), None)
        if result is None:
            raise HttpError(HTTPStatus.NOT_FOUND, f"Schema {text} not found", _NO_SCHEMA)
        return result

    def _find_by_id(self, text: str) -> Schema:
        result = self._by_id.get(_parse_id(text))
        if result is None:
            raise HttpError(HTTPStatus.NOT_FOUND, f"Schema {text} not found", _NO_SCHEMA)
        return result


def _compute_guid(schema: Schema) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{schema.type} {schema.text} {schema.references}"))


def _read_schema(request: HttpRequest) -> Schema:
    text = request.get_field("schema", str)
    return _parse_schema(
        text, request.get_field("schemaType", str, SCHEMA_TYPES[0]), request.get_field("references", list, [])
    )


def _parse_schema(text: str, schema_type: str, references: list[Any]) -> Schema:
    if schema_type not in SCHEMA_TYPES:
        _reject_schema(f"Invalid schema type {schema_type[:60]}; expected one of {', '.join(SCHEMA_TYPES)}")
    if not text.strip():
        _reject_schema("Empty schema")
    if schema_type != "PROTOBUF":
        try:
            text = json.dumps(json.loads(text), separators=(",", ":"))
        except (ValueError, RecursionError) as error:
            _reject_schema(f"Invalid schema: not valid JSON: {error}")
    return Schema(text, schema_type, json.dumps(references, sort_keys=True))


def _reject_schema(reason: str) -> NoReturn:
    raise HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, reason, _BAD_SCHEMA)


def _load_schema(schema: Schema) -> Any:
    return schema.text if schema.type == "PROTOBUF" else json.loads(schema.text)


def _parse_id(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1


def _parse_version_number(text: str) -> int:
    number = _parse_id(text)
    if number < 1:
        reason = f"The specified version '{text[:60]}' is not a valid version id"
        raise HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, reason, _BAD_VERSION)
    return number


def _set_compatibility_level(request: HttpRequest) -> Any:
    level = request.get_field("compatibility", str)
    if level != _COMPATIBILITY_LEVEL:
        reason = f"this registry does not check compatibility: {_COMPATIBILITY_LEVEL}, not {level[:60]}"
        raise HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, reason, _BAD_LEVEL)
    return {"compatibility": level}
