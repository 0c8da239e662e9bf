"""Build error responses of any API, and change responses for faults."""

from __future__ import annotations

from typing import Any

from kafkaframes.broker.requests.api import Answer, map_answer
from kafkaframes.broker.requests.request import Request
from kafkaframes.protocol.messages.structs import FieldInfo, Struct

_MAX_ERROR_MESSAGE_LENGTH = 1_000
_CRC_POSITION = 17  # in format 2, this is a byte of the CRC (17 to 20); in formats 0 and 1, of the timestamp or the key


def build_failure_response(request: Request, code: int) -> Any:
    """Return a response in which every part of the request has failed with ``code``.

    Arrays of the response have a row for each row of the request's array, with the same values in fields of the same
    name: topic rows have the topic's name, and partition rows have the partition's number. The error code of each row
        is
    ``code``.
    """
    body = request.body
    # The AlterReplicaLogDirs response is not grouped by directory, unlike the request.
    if directories := getattr(body, "dirs", None):
        body = type(directories[0])(topics=[topic for directory in directories for topic in directory.topics])
    return _fill_fields(request.response(), body, code, request.version)


def _fill_fields(target: Any, source: Any, code: int, version: int) -> Any:
    """Fill an error response with the names and numbers of the request, and return it."""
    for info in type(target)._fields:
        name = info.attribute
        if not info.spec.versions.contains(version):
            continue
        if name == "error_code":
            target.error_code = code
        elif info.struct is not None and info.spec.type.is_array and source is not None:
            setattr(target, name, _build_rows(info, source, code, version))
        elif info.spec.type.name == "records":
            setattr(target, name, b"")  # Kafka does the same: librdkafka and kafka-python reject null records
        elif hasattr(source, name) and not _is_struct(getattr(source, name)):
            setattr(target, name, getattr(source, name))
        else:
            _copy_renamed_field(target, name, source)
    return target


def _copy_renamed_field(target: Any, name: str, source: Any) -> None:
    """Copy a field that has another name in the request than in the response."""
    for source_name in _EQUIVALENT_FIELD_NAMES.get(name, ()):
        if hasattr(source, source_name):
            setattr(target, name, getattr(source, source_name))


_EQUIVALENT_FIELD_NAMES = {
    "partition_index": ("partition", "index"),
    "partition": ("partition_index",),
    "index": ("partition_index",),
    "name": ("topic",),
    "topic": ("name",),
    "topic_name": ("name",),
}


def _is_struct(value: Any) -> bool:
    return isinstance(value, Struct) or (isinstance(value, list) and bool(value) and isinstance(value[0], Struct))


def _build_rows(info: FieldInfo, source: Any, code: int, version: int) -> list[Any]:
    """Return response rows for the rows of the request's first non-empty array."""
    assert info.struct is not None
    if "error_code" not in info.struct._by_attribute and not any(field.struct for field in info.struct._fields):
        return []
    for source_field in type(source)._fields if isinstance(source, Struct) else ():
        values = getattr(source, source_field.attribute)
        if source_field.spec.type.is_array and values:
            return [_fill_fields(info.struct(), value, code, version) for value in _wrap_values(info.struct, values)]
    return []


def _wrap_values(struct: Any, values: list[Any]) -> list[Any]:
    """Wrap plain values (names, numbers) as objects with the attributes of the row's struct."""
    return [value if isinstance(value, Struct) else _ScalarItem(struct, value) for value in values]


class _ScalarItem:
    """A name or number in a request's array, wrapped as an object with the attribute names of the response's row."""

    def __init__(self, struct: Any, value: Any) -> None:
        for info in struct._fields:
            wants_text = info.spec.type.name == "string"
            if isinstance(value, str) == wants_text and info.attribute in _IDENTIFYING_FIELDS:
                setattr(self, info.attribute, value)


_IDENTIFYING_FIELDS = frozenset(
    {
        "name",
        "topic",
        "topic_name",
        "partition_index",
        "partition",
        "index",
        "group_id",
        "key",
        "user",
        "transactional_id",
    }
)


def shorten_texts(answer: Struct) -> None:
    """Shorten error messages: a message that repeats the client's input may exceed Kafka's limit for strings."""
    for info in type(answer)._fields:
        value = getattr(answer, info.attribute)
        if (
            isinstance(value, str)
            and info.attribute.endswith("error_message")
            and len(value) > _MAX_ERROR_MESSAGE_LENGTH
        ):
            setattr(answer, info.attribute, f"{value[:_MAX_ERROR_MESSAGE_LENGTH]}...")
        for inner in value if isinstance(value, list) else (value,):
            if isinstance(inner, Struct):
                shorten_texts(inner)


def flip_bytes(answer: Answer) -> Answer:
    """Return a response with a wrong CRC in its records. Responses without records are unchanged."""
    flipped_answer: Answer = map_answer(answer, _flip_crcs)
    return flipped_answer


def _flip_crcs(answer: Any) -> Any:
    """Return the Fetch response with an inverted CRC byte in the first batch of each partition."""
    for topic in getattr(answer, "responses", None) or ():
        for row in getattr(topic, "partitions", None) or ():
            records = getattr(row, "records", None)
            if records and len(records) > _CRC_POSITION:
                new_records = bytearray(records)
                new_records[_CRC_POSITION] ^= 0xFF
                row.records = bytes(new_records)
    return answer
