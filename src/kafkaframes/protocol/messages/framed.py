"""Decode whole requests and responses of one API and version to columns, with header and body in one kernel pass.

The array has the structs ``header`` and ``body``, and the text column ``_error``. The column kernels only need a plan,
so a frame is decoded by the plan of a message with these two fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import pyarrow as pa

from kafkaframes.errors import DecodeError, OptionError, SpecError
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.messages import headers
from kafkaframes.protocol.messages.codec import is_strict_mode
from kafkaframes.protocol.messages.columns import decode_columns
from kafkaframes.protocol.messages.plan import FieldPlan, MessagePlan, MutableDefault, StructPlan, plan_message
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry
from kafkaframes.protocol.spec.model import MessageSpec


@lru_cache(maxsize=512)
def find_frame_plan(api_key: int, api_version: int, type_: str, apis: ApiRegistry = CATALOG) -> MessagePlan:
    """Return the plan of a ``request`` or ``response`` with its header.

    Raises:
        OptionError: the API or version does not exist.
    """
    try:
        spec = apis.find_spec(api_key, type_, api_version)
    except SpecError as error:
        raise OptionError(str(error)) from None
    return make_frame_plan(spec, api_version, headers.header_class(type_).spec)


def make_frame_plan(spec: MessageSpec, version: int, header_spec: MessageSpec) -> MessagePlan:
    """Return the plan of a request or response with its header; each call returns a new object.

    Raises:
        OptionError: the version does not exist.
    """
    body, header = plan_message(spec, version), plan_message(header_spec, spec.header_version(version))
    fields = (_make_part_field("Header", header), _make_part_field("Body", body))
    size = header.root.min_size + body.root.min_size
    root = StructPlan(f"{spec.name}Frame", False, fields, (), (), (), size)
    structs = (*header.structs, *body.structs, root)
    return MessagePlan(root.name, spec.type, spec.api_key, version, body.flexible, root, structs)


def _make_part_field(name: str, plan: MessagePlan) -> FieldPlan:
    return FieldPlan(
        name=name,
        attribute=name.lower(),
        json_name=name.lower(),
        type="struct",
        array=False,
        nullable=False,
        compact=False,
        struct=plan.root,
        default=MutableDefault.STRUCT,
    )


def decode_request_columns(
    frames: Sequence[bytes] | pa.Array,
    api_key: int,
    api_version: int,
    *,
    mode: str = "reference",
    apis: ApiRegistry = CATALOG,
) -> pa.StructArray:
    """Decode requests of one API and version, without size prefixes, to an array of ``header`` and ``body``.

    Raises:
        OptionError: the API, version or mode does not exist.
    """
    is_strict_mode(mode)
    plan = find_frame_plan(api_key, api_version, "request", apis)
    decode = partial(headers.decode_request, mode=mode, specs=apis.find_spec(api_key, "request", api_version))
    return decode_columns(plan, frames, mode=mode, decode=decode)


def decode_response_columns(
    frames: Sequence[bytes] | pa.Array,
    api_key: int,
    api_version: int,
    *,
    mode: str = "reference",
    apis: ApiRegistry = CATALOG,
) -> pa.StructArray:
    """Decode responses to requests of one API and version, without size prefixes.

    A broker that does not support the requested ApiVersions version answers with a response of version 0 (KIP-511). The
    row of such a response has defaults for the fields that version 0 lacks.

    Raises:
        OptionError: the API, version or mode does not exist.
    """
    is_strict_mode(mode)
    plan = find_frame_plan(api_key, api_version, "response", apis)
    spec = apis.find_spec(api_key, "response", api_version)
    decode = partial(headers.decode_response, api_key=api_key, version=api_version, mode=mode, specs=spec)
    columns = decode_columns(plan, frames, mode=mode, decode=decode)
    errors = columns.field("_error")
    if api_key != API_VERSIONS or errors.null_count == len(errors):
        return columns
    array = frames if isinstance(frames, pa.Array) else pa.array(frames, pa.binary())
    upgraded_responses = [_from_version_0(data.as_py(), api_version, mode, spec) for data in array]
    return decode_columns(plan, pa.array(upgraded_responses, pa.binary()), mode=mode, decode=decode)


def _from_version_0(data: bytes | None, api_version: int, mode: str, spec: MessageSpec) -> bytes | None:
    """Convert an ApiVersions response of version 0 to the requested version; return other bytes unchanged."""
    if data is None:
        return None
    try:
        frame = headers.decode_response(data, API_VERSIONS, api_version, mode=mode, specs=spec)
    except DecodeError:
        return data
    if frame.api_version == api_version:
        return data
    return headers.encode_response(frame.body, api_version, correlation_id=frame.correlation_id)
