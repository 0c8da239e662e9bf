"""The public functions that explain, compare and encode messages. A function imports its code when called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.annotate import AnnotatedMessage
    from kafkaframes.protocol.messages.explanation import MessageComparison, MessageExplanation, RecordsExplanation
    from kafkaframes.protocol.messages.registry import Specs

Mode = Literal["reference", "strict"]


def explain_message(
    data: bytes,
    *,
    api: str | int | None = None,
    message: str | None = None,
    version: int | None = None,
    body: bool = False,
    request: bool = False,
    specs: Specs | None = None,
    names_of: str | None = None,
    mode: Literal["reference", "strict"] = "reference",
) -> MessageExplanation:
    """Explain each byte of a request, a response or a message body.

    >>> explain_message(bytes.fromhex("00010000"), message="MetadataRequest", version=12)
    # MetadataRequest version 12
    00000000  00                                               MetadataRequest.Topics (count)                    -1
    00000001  01                                               MetadataRequest.AllowAutoTopicCreation            True
    00000002  00                                               MetadataRequest.IncludeTopicAuthorizedOperations  False
    00000003  00                                               MetadataRequest (number of tagged fields)         0

    Args:
        data: the bytes. Without ``api`` and ``message``, the bytes are a request with its header; the size before it is
            optional.
        api: name or key of an API. The bytes are a response of this API with its header.
        message: name of a message. The bytes are the body of this message, without header.
        version: version of the API or message. Only a request with its header contains its version.
        body: with ``api``: whether the bytes are the response's body, without header.
        request: with ``api``: whether the bytes are a request's body, without header.
        specs: message specs that override those of the catalog: a path, or ``MessageSpec`` objects.
        names_of: a Kafka release whose field names are added to the paths.
        mode: decoding mode: ``strict`` also rejects encodings that Kafka accepts and never writes.

    Returns:
        The fields with their positions and values, the decoded messages, and the error if the bytes are invalid. The
        text of the result is an annotated hex dump.

    Raises:
        OptionError: the version is missing, or the API or release does not exist.
        SpecError: the message does not exist.
    """
    from kafkaframes.protocol.messages.explanation import MessageExplanation

    annotation = _annotate(data, api, message, version, is_body=body, is_request=request, specs=specs, mode=mode)
    return MessageExplanation.of(data, annotation, names_of=names_of)


def explain_records(data: bytes, *, depth: Literal[1, 2] = 2) -> RecordsExplanation:
    """Explain each byte of record batches or message sets, as they are in a segment.

    Args:
        data: the bytes.
        depth: 1 to explain only the headers of batches, 2 to explain the records as well.

    Returns:
        The fields with their positions and values; the fields of compressed records are in a separate part. The text of
        the result is an annotated hex dump. If the bytes are damaged, the result has the fields before the damage, and
        the error.
    """
    from kafkaframes.protocol.messages.explanation import explain_record_bytes

    return explain_record_bytes(data, depth=depth)


def compare_messages(
    first: bytes,
    second: bytes,
    *,
    api: str | int | None = None,
    message: str | None = None,
    version: int | None = None,
    body: bool = False,
    request: bool = False,
    specs: Specs | None = None,
    names_of: str | None = None,
    mode: Literal["reference", "strict"] = "reference",
) -> MessageComparison:
    """Compare two encodings of a message, field by field; even two encodings of the same value may differ.

    >>> first, second = bytes.fromhex("00010000"), bytes.fromhex("00000000")
    >>> compare_messages(first, second, message="MetadataRequest", version=12).is_equal
    False

    Args:
        first: first encoding of the message.
        second: second encoding, which is compared with the first.
        api: name or key of an API. The encodings are responses of this API with their headers.
        message: name of a message. The encodings are bodies of this message, without headers.
        version: version of the API or message. Only requests with their headers contain their version.
        body: with ``api``: whether the encodings are bodies of responses, without headers.
        request: with ``api``: whether the encodings are bodies of requests, without headers.
        specs: message specs that override the catalog's specs: a path, or ``MessageSpec`` objects.
        names_of: Kafka release whose field names are added to the paths.
        mode: decoding mode; ``strict`` also rejects encodings that Kafka accepts and never writes.

    Returns:
        The fields of both encodings in pairs. The text of the result has the fields that differ.

    Raises:
        OptionError: the version is missing, or the API or release does not exist.
        SpecError: the message does not exist.
    """
    from kafkaframes.protocol.messages.explanation import MessageComparison, MessageExplanation

    sides = [
        MessageExplanation.of(
            data,
            _annotate(data, api, message, version, is_body=body, is_request=request, specs=specs, mode=mode),
            names_of=names_of,
        )
        for data in (first, second)
    ]
    return MessageComparison.of(*sides)


def encode_message(
    name: str,
    version: int,
    values: Mapping[str, Any],
    *,
    header: bool = False,
    frame: bool = False,
    correlation_id: int = 0,
    client_id: str | None = None,
    tags: Sequence[tuple[int, bytes]] = (),
    specs: Specs | None = None,
) -> bytes:
    """Encode a message that is given in Kafka's JSON form.

    >>> values = {"topics": None, "allowAutoTopicCreation": True, "includeTopicAuthorizedOperations": False}
    >>> encode_message("MetadataRequest", 12, values).hex()
    '00010000'

    Args:
        name: Kafka's name of the message.
        version: version of the message.
        values: the fields, as in Kafka's JSON form: bytes are base64.
        header: whether the header of a request or response precedes the message.
        frame: whether header and size precede the message, as on a connection.
        correlation_id: correlation id in the header.
        client_id: client id in the header of a request.
        tags: unknown tagged fields to append to the message, as (tag number, bytes).
        specs: message specs that override those of the catalog: a path, or ``MessageSpec`` objects.

    Raises:
        SpecError: the message does not exist, or a spec is invalid.
        EncodeError: a value does not fit the message.
    """
    from kafkaframes.protocol.framing import make_frame as add_size
    from kafkaframes.protocol.messages.headers import encode_request, encode_response
    from kafkaframes.protocol.messages.registry import find_message_class_in

    value = find_message_class_in(name, specs).from_json(values, version)
    if tags:  # these tags are added to the tags in the JSON
        value.unknown_tags = sorted([*value.unknown_tags, *tags], key=itemgetter(0))
    if not (header or frame):
        return value.encode(version)
    if value.spec.type == "response":
        data = encode_response(value, version, correlation_id=correlation_id)
    else:
        data = encode_request(value, version, correlation_id=correlation_id, client_id=client_id)
    return add_size(data) if frame else data


def _annotate(
    data: bytes,
    api: str | int | None,
    message: str | None,
    version: int | None,
    *,
    is_body: bool,
    is_request: bool,
    specs: Specs | None,
    mode: Mode,
) -> AnnotatedMessage:
    from kafkaframes.protocol.messages.annotate import annotate_body, annotate_request, annotate_response
    from kafkaframes.protocol.messages.registry import ApiRegistry, find_message_class_in

    apis = ApiRegistry(specs)
    if api is None and message is None:
        return annotate_request(data, mode=mode, apis=apis)
    if version is None:
        raise OptionError("`version` is needed: only a request contains its version")
    if message is not None:
        return annotate_body(data, find_message_class_in(message, specs), version, mode=mode)
    key = apis.find_api(str(api)).key
    if is_body or is_request:
        cls = apis.message_class(key, "request" if is_request else "response", version)
        return annotate_body(data, cls, version, mode=mode)
    return annotate_response(data, key, version, mode=mode, apis=apis)
