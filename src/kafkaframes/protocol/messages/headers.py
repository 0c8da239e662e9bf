"""Headers: which version goes with which API and version, and a header with its body to and from bytes. No framing.

What Kafka does, where KIP-482's page says otherwise: the flexible request header is version 2 (not 1) and its client
id keeps an int16 length; an ApiVersions response always has header 0, so that any client can read it (KIP-511).
KIP-1313's request header 3, which carries the client instance id, is here for specs whose ``headerVersions`` ask for
it; no release up to 4.4 does, and its layout is the KIP's, not a published spec's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, TypedDict, Unpack
from uuid import UUID

from kafkaframes.errors import DecodeError, EncodeError, SpecError, TruncatedError
from kafkaframes.protocol.messages.codec import Codec, all_of, check_mode
from kafkaframes.protocol.messages.objects import Message, class_of
from kafkaframes.protocol.messages.registry import Specs, message, specs_by_name
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.model import NIL_UUID, FieldSpec, FieldType
from kafkaframes.protocol.spec.versions import Versions
from kafkaframes.wire.primitives import Part

API_VERSIONS: Final = 18
KIP_1313_HEADER: Final = 3
_START: Final = struct.Struct(">hhi")


@dataclass(slots=True)
class Frame:
    """A request or a response: header and body, and the version of each.

    ``body`` is an object, or bytes where nobody has decoded them.
    """

    api_key: int
    api_version: int
    header_version: int
    header: Any
    body: Any

    @property
    def correlation_id(self) -> int:
        """What pairs a response with its request."""
        return int(self.header.correlation_id)


class HeaderValues(TypedDict, total=False):
    """What the header of a request has, beside its API and version.

    Attributes:
        correlation_id: comes back in the response.
        client_id: of the client; left out where the header has none (ControlledShutdown 0).
        client_instance_id: KIP-1313, for header version 3.
        header_tags: raw tagged fields of the header (KIP-482's trace ids), for flexible versions.
    """

    correlation_id: int
    client_id: str | None
    client_instance_id: UUID | None
    header_tags: Sequence[tuple[int, bytes]] | None


@cache
def request_header_class() -> type[Message]:
    """Return the class of request headers, versions 0 to 3."""
    spec = catalog.load("RequestHeader")
    instance = FieldSpec(
        name="ClientInstanceId",
        type=FieldType("uuid"),
        versions=Versions(KIP_1313_HEADER, KIP_1313_HEADER),
        default=NIL_UUID,
        ignorable=True,
        about="KIP-1313: on the first request of a connection.",
    )
    valid = Versions(spec.valid_versions.lowest, KIP_1313_HEADER)
    struct_spec = replace(spec.struct, fields=(*spec.struct.fields, instance), versions=valid)
    return class_of(replace(spec, struct=struct_spec))


def response_header_class() -> type[Message]:
    """Return the class of response headers, versions 0 and 1."""
    return message("ResponseHeader")


def header_class(type_: str) -> type[Message]:
    """Return the class of the headers of ``request`` or ``response``."""
    return request_header_class() if type_ == "request" else response_header_class()


def body_class(api_key: int, type_: str, *, specs: Specs | None = None) -> type[Message]:
    """Return the class of an API's ``request`` or ``response``.

    Raises:
        SpecError: no such API.
    """
    if specs is None:
        return message(catalog.api(api_key).half(type_))
    for spec in specs_by_name(specs).values():
        if spec.api_key == api_key and spec.type == type_:
            return class_of(spec)
    raise SpecError(f"no {type_} with API key {api_key} among these specs")


def peek_request(data: bytes | memoryview) -> tuple[int, int, int]:
    """Return API key, API version and correlation id of a request; every header version starts with these.

    Raises:
        TruncatedError: fewer than 8 bytes.
    """
    if len(data) < _START.size:
        raise TruncatedError(f"a request header of {len(data)} bytes", position=0, path=("RequestHeader",))
    key, version, correlation_id = _START.unpack_from(data)
    return key, version, correlation_id


def read_request_header(data: bytes | memoryview, version: int, *, mode: str = "reference") -> tuple[Any, int]:
    """Return the header that a request begins with, of a version of headers, and where its body begins.

    Raises:
        DecodeError: broken bytes; ``path`` begins with ``RequestHeader``.
    """
    try:
        return _request_header_codec(version).decode(data, 0, strict=check_mode(mode))
    except DecodeError as error:
        raise error.within("RequestHeader") from None


@cache  # every request that a broker reads comes by here
def _request_header_codec(version: int) -> Codec:
    return request_header_class().codec(version)


def decode_request(
    data: bytes, *, mode: str = "reference", specs: Specs | None = None, allow_surplus: bool = False
) -> Frame:
    """Return the request that ``data`` holds, without its size; it names its API and version itself.

    An ApiVersions request of a version that is not known has a body of bytes: a broker answers those too (KIP-511).

    Args:
        mode: as for ``Message.decode``.
        specs: where the body's spec is, if not in the catalog.
        allow_surplus: do not look at what follows the body, as Kafka's brokers do not. librdkafka 2.16 sends
            Metadata requests of version 13 with three bytes too many.

    Raises:
        DecodeError: an unknown API or version, or broken bytes; ``path`` begins with the message's name.
    """
    data = bytes(data)
    key, version, _ = peek_request(data)
    cls = _known_class(key, "request", specs)
    known = cls.spec.valid_versions.contains(version)
    if not known and key != API_VERSIONS:
        raise DecodeError(
            f"{cls.__name__} has no version {version}, its versions are {cls.spec.valid_versions}", position=2
        )
    header_version = cls.spec.header_version(version if known else cls.spec.valid_versions.highest)
    header, position = read_request_header(data, header_version, mode=mode)
    if not known:
        return Frame(key, version, header_version, header, data[position:])
    body, end = _within(cls, data, version, position, mode)
    return Frame(key, version, header_version, header, body if allow_surplus else all_of(data, body, end))


def decode_response(
    data: bytes | memoryview,
    api_key: int,
    version: int,
    *,
    mode: str = "reference",
    specs: Specs | None = None,
    views: bool = False,
) -> Frame:
    """Return the response to a request of this API and version, without its size.

    An ApiVersions response that is no body of that version is read at version 0, as a broker that does not know the
    version answers; ``api_version`` of the result says so.

    Args:
        mode, views: as for ``Message.decode_prefix``.
        specs: where the body's spec is, if not in the catalog.

    Raises:
        DecodeError: broken bytes; ``path`` begins with the message's name.
    """
    if not views:
        data = bytes(data)
    cls = _known_class(api_key, "response", specs)
    header_version = cls.spec.header_version(version)
    header, position = _within(response_header_class(), data, header_version, 0, mode)
    try:
        body, end = _within(cls, data, version, position, mode)
        all_of(data, body, end)
    except DecodeError:
        if api_key != API_VERSIONS or version == 0:
            raise
        body, end = _within(cls, data, 0, position, mode)
        all_of(data, body, end)
        version = 0
    return Frame(api_key, version, header_version, header, body)


def encode_request(body: Message, version: int, **header: Unpack[HeaderValues]) -> bytes:
    """Return a request without its size: its header, of the version that the API wants, and the body.

    Raises:
        EncodeError: ``body`` is no request, or cannot be written.
    """
    return b"".join(encode_request_parts(body, version, **header))


def encode_request_parts(body: Message, version: int, **header: Unpack[HeaderValues]) -> list[bytes]:
    """Return what ``encode_request`` returns in parts: long fields, such as records, are not copied."""
    if body.spec.type != "request" or body.spec.api_key is None:
        raise EncodeError(f"{body.spec.name} is no request")
    written = request_header_class()(
        request_api_key=body.spec.api_key,
        request_api_version=version,
        correlation_id=header.get("correlation_id", 0),
        client_id=header.get("client_id"),
        client_instance_id=header.get("client_instance_id") or NIL_UUID,
        unknown_tags=header.get("header_tags") or (),
    )
    parts = (bytes(part) if isinstance(part, Part) else part for part in body.encode_parts(version))
    return [written.encode(body.spec.header_version(version)), *parts]


def encode_response(
    body: Message, version: int, *, correlation_id: int = 0, header_tags: list[tuple[int, bytes]] | None = None
) -> bytes:
    """Return a response: header and body, no size before it.

    Raises:
        EncodeError: ``body`` is no response, or cannot be written.
    """
    if body.spec.type != "response":
        raise EncodeError(f"{body.spec.name} is no response")
    header = response_header_class()(correlation_id=correlation_id, unknown_tags=header_tags or ())
    return header.encode(body.spec.header_version(version)) + body.encode(version)


def _known_class(key: int, type_: str, specs: Specs | None) -> type[Message]:
    try:
        return body_class(key, type_, specs=specs)
    except SpecError as error:
        raise DecodeError(str(error), position=0) from None


def _within(cls: type[Message], data: bytes | memoryview, version: int, position: int, mode: str) -> tuple[Any, int]:
    try:
        return cls.decode_prefix(data, version, position=position, mode=mode, views=True)
    except DecodeError as error:
        raise error.within(cls.__name__) from None
