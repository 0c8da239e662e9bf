"""Decode requests and responses to JSON, error codes and record summaries.

Messages of one API and version are decoded together.

The messages are decoded to columns (``messages.framed``, ``messages.json_text``), without Python code per message.
Unusual messages are decoded one by one: incomplete messages, unknown tags, floats, and messages that may contain
credentials.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.capture._kernels_frames import summarise_records
from kafkaframes.capture.packets import Bytes, Ints
from kafkaframes.errors import DecodeError, KafkaframesError
from kafkaframes.errors.sensitive import REQUEST, RESPONSE, has_secrets, redact_json
from kafkaframes.errors.words import count_text
from kafkaframes.protocol.messages.columns import decode_columns
from kafkaframes.protocol.messages.framed import decode_request_columns, decode_response_columns, find_frame_plan
from kafkaframes.protocol.messages.headers import (
    Frame,
    decode_request,
    decode_response,
    header_class,
)
from kafkaframes.protocol.messages.json_text import to_json_text
from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.messages.plan import FieldPlan, MessagePlan, StructPlan
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry

# Messages with records: Produce requests, Fetch responses and ShareFetch responses.
APIS_WITH_RECORDS: Final = {(0, REQUEST), (1, RESPONSE), (78, RESPONSE)}
# In the JSON of a broker's request log, these two messages contain the size of the records. All other messages contain
# an empty string.
_APIS_WITH_RECORD_SIZES: Final = {(0, REQUEST), (1, RESPONSE)}
SUMMARY_COLUMN_COUNT: Final = 3 * 8 * 3  # record formats, codecs, and counts of batches, records and bytes
_ERROR_CODE_SUFFIX: Final = "ErrorCode"


class MessageKind(NamedTuple):
    """The requests or responses of one API and version, with the specs to decode them."""

    api_key: int
    api_version: int
    direction: str
    apis: ApiRegistry = CATALOG

    @property
    def plan(self) -> MessagePlan:
        """The plan for decoding frames (header and body) of the message.

        Raises ``OptionError`` if the message does not exist.
        """
        return find_frame_plan(*self)

    @property
    def is_known(self) -> bool:
        """Whether the specs contain this message."""
        with contextlib.suppress(KafkaframesError):
            return bool(self.plan)
        return False

    @property
    def message_class(self) -> type[Message]:
        """The class of the body. Raises ``SpecError`` if the API does not exist."""
        return self.apis.message_class(self.api_key, self.direction, self.api_version)

    @property
    def has_records(self) -> bool:
        """Whether the message carries records."""
        return (self.api_key, self.direction) in APIS_WITH_RECORDS

    @property
    def records_format(self) -> str:
        """How the message's JSON represents records: ``size`` or ``empty``."""
        return "size" if (self.api_key, self.direction) in _APIS_WITH_RECORD_SIZES else "empty"

    def decode_columns(self, frames: Sequence[bytes] | pa.Array) -> pa.StructArray:
        """Decode frames, and return an array of their headers and bodies."""
        read = decode_request_columns if self.direction == REQUEST else decode_response_columns
        return read(frames, self.api_key, self.api_version, apis=self.apis)

    def decode(self, data: bytes) -> Frame:
        """Decode one frame."""
        is_known_api = self.apis.has_own_spec(self.api_key)
        spec = self.apis.find_spec(self.api_key, self.direction, self.api_version) if is_known_api else None
        if self.direction == REQUEST:
            return decode_request(data, specs=spec)
        return decode_response(data, self.api_key, self.api_version, specs=spec)

    def find_message_end(self, data: bytes) -> int:
        """Return the position at which the message in a frame ends."""
        cls = self.message_class
        _, position = header_class(self.direction).decode_prefix(data, cls.spec.header_version(self.api_version))
        return int(cls.decode_prefix(data, self.api_version, position=position)[1])


class MessageJson(NamedTuple):
    """The JSON of one message's header and body, and an error if part of it could not be decoded."""

    header: str | None
    body: str | None
    error: str | None


class JsonColumns(NamedTuple):
    """The JSON of messages: columns of headers and bodies, and errors by row."""

    headers: pa.Array
    bodies: pa.Array
    errors: dict[int, str]


def to_array(raw: Bytes, starts: Ints) -> pa.LargeBinaryArray:
    """Return concatenated messages as an Arrow array, without copying."""
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(starts) - 1, [None, pa.py_buffer(starts), pa.py_buffer(raw)]
    )


def decode_to_json(raw: Bytes, starts: Ints, kind: MessageKind, *, secrets: bool) -> JsonColumns:
    """Return the JSON of messages. The kernel decodes most messages; the others are decoded one by one."""
    count = len(starts) - 1
    hides_secrets = not secrets and has_secrets(kind.api_key)
    headers = bodies = pa.nulls(count, pa.string())
    if not hides_secrets and kind.is_known:
        headers, bodies = _decode_columns_to_json(raw, starts, kind)
    missing_rows = np.flatnonzero((headers.is_null() if not bodies.null_count else bodies.is_null()).to_numpy(False))
    if not len(missing_rows):
        return JsonColumns(headers, bodies, {})
    result = [
        _decode_one_to_json(raw[starts[row] : starts[row + 1]].tobytes(), kind, hides_secrets=hides_secrets)
        for row in missing_rows.tolist()
    ]
    indexes = np.arange(count)
    indexes[missing_rows] = count + np.arange(len(missing_rows))
    return JsonColumns(
        pa.concat_arrays([headers, pa.array([decoded_body.header for decoded_body in result], pa.string())]).take(
            pa.array(indexes)
        ),
        pa.concat_arrays([bodies, pa.array([decoded_body.body for decoded_body in result], pa.string())]).take(
            pa.array(indexes)
        ),
        {
            index: decoded_body.error
            for index, decoded_body in zip(missing_rows.tolist(), result, strict=True)
            if decoded_body.error is not None
        },
    )


def _decode_columns_to_json(raw: Bytes, starts: Ints, kind: MessageKind) -> tuple[pa.Array, pa.Array]:
    """Return headers and bodies as JSON. For a message that has to be decoded on its own, header and body are null."""
    body, header = kind.message_class, header_class(kind.direction)
    result = decode_columns(kind.plan, to_array(raw, starts))
    needs_own_decoding = result.field("_error").is_valid().to_numpy(zero_copy_only=False)
    body_codec, header_codec = body.codec(kind.api_version), header.codec(body.spec.header_version(kind.api_version))
    bodies = to_json_text(result.field("body"), body_codec, left_out=needs_own_decoding, records=kind.records_format)
    needs_own_decoding = bodies.is_null().to_numpy(zero_copy_only=False)
    headers = to_json_text(result.field("header"), header_codec, left_out=needs_own_decoding)
    if headers.null_count > bodies.null_count:
        bodies = pc.if_else(headers.is_null(), pa.scalar(None, pa.string()), bodies)
    return headers, bodies


def _decode_one_to_json(data: bytes, kind: MessageKind, *, hides_secrets: bool) -> MessageJson:
    """Return the JSON of one message, with the error if it cannot be decoded."""
    try:
        frame, note = _decode_frame(data, kind)
        header = _json(frame.header.to_json(frame.header_version))
        if isinstance(frame.body, bytes):
            return MessageJson(header, _decode_message(frame.body), note)
        body = frame.body.to_json(frame.api_version, records=kind.records_format)
    except KafkaframesError as error:
        return MessageJson(None, None if hides_secrets else _decode_message(data), f"{kind.direction}: {error}")
    return MessageJson(header, _json(redact_json(kind.api_key, kind.direction, body) if hides_secrets else body), note)


def _decode_frame(data: bytes, kind: MessageKind) -> tuple[Frame, str | None]:
    """Decode a message. Return the message, and a note if other bytes follow in the frame.

    Kafka also ignores such bytes.
    """
    try:
        return kind.decode(data), None
    except DecodeError:
        if not kind.is_known:
            raise
        end = kind.find_message_end(data)
        if end >= len(data):
            raise
        trailing_bytes = count_text(len(data) - end, "byte")
        return kind.decode(data[:end]), f"{kind.direction}: {trailing_bytes} follow the message"


def _decode_message(data: bytes) -> str:
    return _json({"_bytes": base64.b64encode(data).decode("ascii")})


_json: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class ErrorCodeColumns(NamedTuple):
    """The nonzero error codes of messages: for each one the row of its message, its field path and the code."""

    rows: Ints
    paths: pa.Array
    codes: npt.NDArray[np.int32]


Paths = Callable[[Ints], pa.Array]  # converts indexes of array elements to their field paths


class DecodedMessages:
    """The decoded messages of one API and version, as columns. A message that cannot be decoded has null values."""

    def __init__(self, raw: Bytes, starts: Ints, kind: MessageKind) -> None:
        self.plan = kind.plan.root.fields[1].struct
        result = kind.decode_columns(to_array(raw, starts))
        messages = _trim_messages(raw, starts, result.field("_error"), kind)
        if messages is not None:
            result = kind.decode_columns(messages)
        self.errors: pa.Array = result.field("_error")
        self.frames: pa.StructArray = result  # header and body
        self.body: pa.StructArray = result.field("body")
        self.count = len(starts) - 1

    @cached_property
    def undecodable_rows(self) -> Ints:
        """Rows of the messages that cannot be decoded."""
        if self.errors.null_count == self.count:
            return np.zeros(0, np.int64)
        return find_error_rows(self.errors)

    def iterate_error_codes(self) -> Iterator[ErrorCodeColumns]:
        """Yield the nonzero error codes of decoded messages, field by field."""
        assert self.plan is not None
        for codes in _collect_error_codes(
            self.body, self.plan, np.arange(self.count), lambda indexes: pa.array([""] * len(indexes))
        ):
            is_valid = ~np.isin(codes.rows, self.undecodable_rows)
            yield (
                codes
                if is_valid.all()
                else ErrorCodeColumns(codes.rows[is_valid], codes.paths.filter(is_valid), codes.codes[is_valid])
            )

    def summarize_records(self) -> tuple[Ints, Ints]:
        """Count each message's batches, records and bytes by format and codec, and its truncated record sets."""
        assert self.plan is not None
        counts = np.zeros((self.count, SUMMARY_COLUMN_COUNT), np.int64)
        truncations = np.zeros(self.count, np.int64)
        for owners, blobs in iterate_record_sets(self.body, self.plan, np.arange(self.count)):
            data, starts, sizes = get_binary_extents(blobs)
            summarise_records(data, starts, sizes, owners, counts, truncations)
        return counts, truncations


def _trim_messages(raw: Bytes, starts: Ints, errors: pa.Array, kind: MessageKind) -> list[bytes] | None:
    """Return all messages without trailing bytes, which Kafka ignores; None if no message has an error."""
    failed_rows = find_error_rows(errors).tolist()
    if not failed_rows:
        return None
    data = [raw[starts[index] : starts[index + 1]].tobytes() for index in range(len(starts) - 1)]
    for index in failed_rows:
        with contextlib.suppress(KafkaframesError):
            data[index] = data[index][: kind.find_message_end(data[index])]
    return data


def get_binary_extents(array: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """Return (bytes, start of each value, size of each value) of a binary array. Null has size 0."""
    _, offsets, data = array.buffers()
    indexes = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    buf = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    return buf, np.ascontiguousarray(indexes[:-1]), np.diff(indexes)


def iterate_record_sets(array: pa.StructArray, plan: StructPlan, owners: Ints) -> Iterator[tuple[Ints, pa.Array]]:
    """Yield (row of each set's message, record sets) for each records field of a message."""
    for field in plan.fields:
        if field.type == "records":
            yield np.ascontiguousarray(owners), array.field(field.json_name)
        elif field.struct is not None and field.array and _has_field(field.struct, _is_records):
            child = array.field(field.json_name)
            parents = find_parent_indexes(child)
            yield from iterate_record_sets(child.values, field.struct, owners[parents])


def find_error_rows(errors: pa.Array) -> Ints:
    """Return the row numbers of the errors in a column that has null for messages without an error."""
    return np.flatnonzero(errors.is_valid().to_numpy(zero_copy_only=False))


def find_parent_indexes(lists: pa.ListArray) -> Ints:
    """Return, for each element, the index of the list that contains the element."""
    return np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))


def _is_records(field: FieldPlan) -> bool:
    return field.type == "records"


def _is_error_code(field: FieldPlan) -> bool:
    return field.type == "int16" and not field.array and field.name.endswith(_ERROR_CODE_SUFFIX)


@cache
def _has_field(plan: StructPlan, predicate: Callable[[FieldPlan], bool]) -> bool:
    """Return whether a struct has a matching field, at any depth."""
    return any(
        predicate(field) or (field.struct is not None and _has_field(field.struct, predicate))
        for field in (*plan.fields, *plan.tagged_fields)
    )


def _collect_error_codes(
    array: pa.StructArray, plan: StructPlan, rows: Ints, get_paths: Paths
) -> Iterator[ErrorCodeColumns]:
    """Yield the nonzero error codes of a struct and of its nested structs, with their field paths."""
    for field in (*plan.fields, *plan.tagged_fields):
        if _is_error_code(field):
            values = array.field(field.json_name)
            values = (values.fill_null(0) if values.null_count else values).to_numpy()
            indexes = np.flatnonzero(values)
            if len(indexes):
                paths = _join_texts(get_paths(indexes), field.json_name)
                yield ErrorCodeColumns(rows[indexes], paths, values[indexes].astype(np.int32))
        elif field.struct is not None and _has_field(field.struct, _is_error_code):
            child = array.field(field.json_name)
            if not field.array:
                yield from _collect_error_codes(
                    child, field.struct, rows, _append_member_path(get_paths, field.json_name)
                )
            else:
                offsets, parents = child.offsets.to_numpy(), find_parent_indexes(child)
                deeper = _append_element_path(get_paths, field.json_name, parents, offsets)
                yield from _collect_error_codes(child.values, field.struct, rows[parents], deeper)


def _join_texts(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _append_member_path(get_paths: Paths, name: str) -> Paths:
    return lambda indexes: _join_texts(get_paths(indexes), f"{name}.")


def _append_element_path(get_paths: Paths, name: str, parents: Ints, offsets: Ints) -> Paths:
    """Return a function from the indexes of array elements to their field paths, such as ``topics[0].``."""

    def get_element_paths(indexes: Ints) -> pa.Array:
        owners = parents[indexes]
        indices = pa.array(indexes - (offsets[owners] - offsets[0])).cast(pa.string())
        return _join_texts(get_paths(owners), f"{name}[", indices, "].")

    return get_element_paths
