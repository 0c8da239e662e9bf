"""Request and response headers: their versions, and encoding and decoding of a header with its body. No framing.

Kafka differs from KIP-482's page: the flexible request header is version 2 (not 1), and its client ID has an int16
length. An ApiVersions response always has header version 0, so that every client can read it (KIP-511). KIP-1313's
request header 3 with the client instance ID is supported for specs with ``headerVersions``. No release up to 4.4 uses
this header. Its layout is taken from the KIP, because its spec is not published.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, TypedDict, Unpack
from uuid import UUID

from kafkaframes.errors import DecodeError, EncodeError, SpecError, TruncatedError
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.messages.codec import Codec, is_strict_mode, reject_surplus
from kafkaframes.protocol.messages.objects import Message, class_of
from kafkaframes.protocol.messages.registry import Specs, message, specs_by_name
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.model import FieldSpec, FieldType
from kafkaframes.protocol.spec.versions import Versions
from kafkaframes.wire.primitives import NIL_UUID, DeferredBytes

KIP_1313_HEADER_VERSION: Final = 3
_HEADER_START_STRUCT: Final = struct.Struct(">hhi")  # API key, API version, correlation ID


@dataclass(slots=True)
class Frame:
    """A request or response: header and body, and their versions.

    ``body`` is a message object, or bytes if it is not decoded.
    """

    api_key: int
    api_version: int
    header_version: int
    header: Any
    body: Any

    @property
    def correlation_id(self) -> int:
        """Correlation ID, which a request and its response have in common."""
        return int(self.header.correlation_id)


class HeaderValues(TypedDict, total=False):
    """Fields of a request header in addition to API key and version.

    Attributes:
        correlation_id: correlation ID; the response repeats it.
        client_id: client ID; omitted if the header has no such field (ControlledShutdown 0).
        client_instance_id: client instance ID for header version 3 (KIP-1313).
        header_tags: raw tagged fields of the header, such as KIP-482's trace IDs, for flexible versions.
    """

    correlation_id: int
    client_id: str | None
    client_instance_id: UUID | None
    header_tags: Sequence[tuple[int, bytes]] | None


@cache
def request_header_class() -> type[Message]:
    """Return the class of request headers, versions 0 to 3."""
    spec = catalog.load_spec("RequestHeader")
    instance = FieldSpec(
        name="ClientInstanceId",
        type=FieldType("uuid"),
        versions=Versions(KIP_1313_HEADER_VERSION, KIP_1313_HEADER_VERSION),
        default=NIL_UUID,
        ignorable=True,
        about="KIP-1313: on the first request of a connection.",
    )
    valid = Versions(spec.valid_versions.lowest, KIP_1313_HEADER_VERSION)
    struct_spec = replace(spec.struct, fields=(*spec.struct.fields, instance), versions=valid)
    return class_of(replace(spec, struct=struct_spec))


def response_header_class() -> type[Message]:
    """Return the class of response headers, versions 0 and 1."""
    return message("ResponseHeader")


def header_class(type_: str) -> type[Message]:
    """Return the class of request headers or response headers; ``type_`` is ``request`` or ``response``."""
    return request_header_class() if type_ == "request" else response_header_class()


def body_class(api_key: int, type_: str, *, specs: Specs | None = None) -> type[Message]:
    """Return the class of an API's request or response; ``type_`` is ``request`` or ``response``.

    Raises:
        SpecError: the API does not exist.
    """
    if specs is None:
        return message(catalog.find_api(api_key).half(type_))
    for spec in specs_by_name(specs).values():
        if spec.api_key == api_key and spec.type == type_:
            return class_of(spec)
    raise SpecError(f"the specs contain no {type_} with API key {api_key}")


def peek_request(data: bytes | memoryview) -> tuple[int, int, int]:
    """Return API key, API version and correlation ID of a request. Every header version starts with these three fields.

    Raises:
        TruncatedError: the request has fewer than 8 bytes.
    """
    if len(data) < _HEADER_START_STRUCT.size:
        raise TruncatedError(f"the request header has only {len(data)} bytes", position=0, path=("RequestHeader",))
    key, version, correlation_id = _HEADER_START_STRUCT.unpack_from(data)
    return key, version, correlation_id


def read_request_header(data: bytes | memoryview, version: int, *, mode: str = "reference") -> tuple[Any, int]:
    """Decode a request header of this header version, and return the header and the position of the body.

    Raises:
        DecodeError: the header is invalid; ``path`` starts with ``RequestHeader``.
    """
    try:
        return _request_header_codec(version).decode(data, 0, strict=is_strict_mode(mode))
    except DecodeError as error:
        raise error.within("RequestHeader") from None


@cache  # cached, because brokers call this function for every request
def _request_header_codec(version: int) -> Codec:
    return request_header_class().codec(version)


def decode_request(
    data: bytes, *, mode: str = "reference", specs: Specs | None = None, allow_surplus: bool = False
) -> Frame:
    """Decode a request without its size prefix. The request contains its API and version.

    An ApiVersions request with an unknown version has an undecoded body, because brokers also answer requests with
    unknown versions (KIP-511).

    Args:
        data: the request.
        mode: ``reference`` accepts the same bytes as Kafka, ``strict`` only canonical bytes.
        specs: specs that replace those of the catalog.
        allow_surplus: whether to ignore bytes after the body, as Kafka's brokers do. librdkafka 2.16 sends Metadata
            requests of version 13 with three surplus bytes.

    Raises:
        DecodeError: the API or version is unknown, or the data is invalid; ``path`` starts with the message's name.
    """
    data = bytes(data)
    key, version, _ = peek_request(data)
    cls = _find_class(key, "request", specs)
    is_known = cls.spec.valid_versions.contains(version)
    if not is_known and key != API_VERSIONS:
        raise DecodeError(f"{cls.__name__} has no version {version}; expected {cls.spec.valid_versions}", position=2)
    header_version = cls.spec.header_version(version if is_known else cls.spec.valid_versions.highest)
    header, position = read_request_header(data, header_version, mode=mode)
    if not is_known:
        return Frame(key, version, header_version, header, data[position:])
    body, end = _decode_part(cls, data, version, position, mode)
    return Frame(key, version, header_version, header, body if allow_surplus else reject_surplus(data, body, end))


def decode_response(
    data: bytes | memoryview,
    api_key: int,
    version: int,
    *,
    mode: str = "reference",
    specs: Specs | None = None,
    views: bool = False,
) -> Frame:
    """Decode the response to a request of an API and version, without its size prefix.

    An ApiVersions response that is invalid at that version is decoded at version 0, since brokers that do not support
    the version respond so. The result for a response that is decoded at version 0 has ``api_version`` 0.

    Args:
        data: the response.
        api_key: API key of the request.
        version: API version of the request.
        mode: decoding mode: ``reference`` accepts the same bytes as Kafka, ``strict`` only canonical bytes.
        specs: specs that replace those of the catalog.
        views: whether to return records as views of ``data``, without a copy, if ``data`` is a memoryview.

    Raises:
        DecodeError: the data is invalid; ``path`` starts with the message's name.
    """
    if not views:
        data = bytes(data)
    cls = _find_class(api_key, "response", specs)
    header_version = cls.spec.header_version(version)
    header, position = _decode_part(response_header_class(), data, header_version, 0, mode)
    try:
        body, end = _decode_part(cls, data, version, position, mode)
        reject_surplus(data, body, end)
    except DecodeError:
        if api_key != API_VERSIONS or version == 0:
            raise
        body, end = _decode_part(cls, data, 0, position, mode)
        reject_surplus(data, body, end)
        version = 0
    return Frame(api_key, version, header_version, header, body)


def encode_request(body: Message, version: int, **header: Unpack[HeaderValues]) -> bytes:
    """Encode a request without its size prefix: its header, in the version that the API requires, and its body.

    Raises:
        EncodeError: ``body`` is not a request, or cannot be encoded.
    """
    return b"".join(encode_request_parts(body, version, **header))


def encode_request_parts(body: Message, version: int, **header: Unpack[HeaderValues]) -> list[bytes]:
    """Return the bytes of ``encode_request`` in parts. Long fields, such as records, are not copied."""
    if body.spec.type != "request" or body.spec.api_key is None:
        raise EncodeError(f"{body.spec.name} is not a request")
    request_header = request_header_class()(
        request_api_key=body.spec.api_key,
        request_api_version=version,
        correlation_id=header.get("correlation_id", 0),
        client_id=header.get("client_id"),
        client_instance_id=header.get("client_instance_id") or NIL_UUID,
        unknown_tags=header.get("header_tags") or (),
    )
    parts = (bytes(part) if isinstance(part, DeferredBytes) else part for part in body.encode_parts(version))
    return [request_header.encode(body.spec.header_version(version)), *parts]


def encode_response(
    body: Message, version: int, *, correlation_id: int = 0, header_tags: list[tuple[int, bytes]] | None = None
) -> bytes:
    """Encode a response without its size prefix: header and body.

    Raises:
        EncodeError: ``body`` is not a response, or cannot be encoded.
    """
    if body.spec.type != "response":
        raise EncodeError(f"{body.spec.name} is not a response")
    header = response_header_class()(correlation_id=correlation_id, unknown_tags=header_tags or ())
    return header.encode(body.spec.header_version(version)) + body.encode(version)


def _find_class(key: int, type_: str, specs: Specs | None) -> type[Message]:
    try:
        return body_class(key, type_, specs=specs)
    except SpecError as error:
        raise DecodeError(str(error), position=0) from None


def _decode_part(
    cls: type[Message], data: bytes | memoryview, version: int, position: int, mode: str
) -> tuple[Any, int]:
    try:
        return cls.decode_prefix(data, version, position=position, mode=mode, views=True)
    except DecodeError as error:
        raise error.within(cls.__name__) from None
