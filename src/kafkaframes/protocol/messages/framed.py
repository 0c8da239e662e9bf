"""Whole requests and responses as columns: header and body in one pass of the kernels; one API and version a call.

The array has two structs, ``header`` and ``body``, and ``_error``. A plan is all that the columns' executors know of a
message, so a frame is simply the plan of a message whose two fields are these.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import pyarrow as pa

from kafkaframes.errors import DecodeError, OptionError, SpecError
from kafkaframes.protocol.messages import headers
from kafkaframes.protocol.messages.codec import check_mode
from kafkaframes.protocol.messages.columns import decode_columns
from kafkaframes.protocol.messages.plan import Empty, FieldPlan, MessagePlan, StructPlan, plan_message
from kafkaframes.protocol.messages.registry import CATALOG, Apis
from kafkaframes.protocol.spec.model import MessageSpec


@lru_cache(maxsize=512)
def frame_plan(api_key: int, api_version: int, type_: str, apis: Apis = CATALOG) -> MessagePlan:
    """Return the plan of a ``request`` or ``response`` with its header.

    Raises:
        OptionError: there is no such API, or no such version of it.
    """
    try:
        spec = apis.spec(api_key, type_, api_version)
    except SpecError as error:
        raise OptionError(str(error)) from None
    return plan_frame(spec, api_version, headers.header_class(type_).spec)


def plan_frame(spec: MessageSpec, version: int, header_spec: MessageSpec) -> MessagePlan:
    """Return the plan of a request or response with its header; a new object each time.

    Raises:
        OptionError: there is no such version.
    """
    body, header = plan_message(spec, version), plan_message(header_spec, spec.header_version(version))
    fields = (_part("Header", header), _part("Body", body))
    size = header.root.min_size + body.root.min_size
    root = StructPlan(f"{spec.name}Frame", False, fields, (), (), (), size)
    structs = (*header.structs, *body.structs, root)
    return MessagePlan(root.name, spec.type, spec.api_key, version, body.flexible, root, structs)


def _part(name: str, plan: MessagePlan) -> FieldPlan:
    return FieldPlan(
        name=name,
        attribute=name.lower(),
        json_name=name.lower(),
        type="struct",
        array=False,
        nullable=False,
        compact=False,
        struct=plan.root,
        default=Empty.STRUCT,
    )


def request_columns(
    frames: Sequence[bytes] | pa.Array, api_key: int, api_version: int, *, mode: str = "reference", apis: Apis = CATALOG
) -> pa.StructArray:
    """Return requests of one API and version, without their sizes, as an array of ``header`` and ``body``.

    Raises:
        OptionError: no such API, version or mode.
    """
    check_mode(mode)
    plan = frame_plan(api_key, api_version, "request", apis)
    decode = partial(headers.decode_request, mode=mode, specs=apis.spec(api_key, "request", api_version))
    return decode_columns(plan, frames, mode=mode, decode=decode)


def response_columns(
    frames: Sequence[bytes] | pa.Array, api_key: int, api_version: int, *, mode: str = "reference", apis: Apis = CATALOG
) -> pa.StructArray:
    """Return the responses to requests of one API and version, likewise.

    An ApiVersions response of version 0, which a broker gives that does not know the version asked for (KIP-511), is
    a row like the others: what version 0 lacks is at its default.

    Raises:
        OptionError: no such API, version or mode.
    """
    check_mode(mode)
    plan = frame_plan(api_key, api_version, "response", apis)
    spec = apis.spec(api_key, "response", api_version)
    decode = partial(headers.decode_response, api_key=api_key, version=api_version, mode=mode, specs=spec)
    decoded = decode_columns(plan, frames, mode=mode, decode=decode)
    errors = decoded.field("_error")
    if api_key != headers.API_VERSIONS or errors.null_count == len(errors):
        return decoded
    array = frames if isinstance(frames, pa.Array) else pa.array(frames, pa.binary())
    raised = [_from_version_0(data.as_py(), api_version, mode, spec) for data in array]
    return decode_columns(plan, pa.array(raised, pa.binary()), mode=mode, decode=decode)


def _from_version_0(data: bytes | None, api_version: int, mode: str, spec: MessageSpec) -> bytes | None:
    """Return an ApiVersions response at the version asked for; bytes that are none are left as they are."""
    if data is None:
        return None
    try:
        frame = headers.decode_response(data, headers.API_VERSIONS, api_version, mode=mode, specs=spec)
    except DecodeError:
        return data
    if frame.api_version == api_version:
        return data
    return headers.encode_response(frame.body, api_version, correlation_id=frame.correlation_id)
