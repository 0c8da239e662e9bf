"""The broker's metadata that is not part of its logs, in one file of the data directory: ``kafkaframes.broker.json``.

The file contains topics with their ids and settings, dynamic broker settings, users, ACLs, quotas, and the next
producer id. KRaft brokers store this metadata in ``__cluster_metadata``. Other brokers can open the log directory
without this file, and Kafka ignores it. The file is replaced atomically, so that a crash leaves the old or the new
file. Only the file's owner may read it, because the keys of SCRAM users allow offline guessing of passwords.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafkaframes.errors import KafkaframesError, LogDirError, OptionError
from kafkaframes.storage.files.disk import OnlineDisk, rewrite_file
from kafkaframes.storage.files.filesystem import join
from kafkaframes.storage.files.names import check_topic_name
from kafkaframes.wire.integers import MAX_INT8, MAX_INT16, MAX_INT32, MAX_INT64

MAX_PARTITIONS = 100_000  # limit in the file, because a topic's missing partitions are created
_ID_BYTES, _ID_LENGTH = 16, 22
_MAX_PRINTED_LENGTH = 40
Form = Callable[[Any, str], None]


class FieldError(KafkaframesError):
    """Raised if a field has an invalid value."""


def _create_field_error(path: str, expectation: str, value: Any) -> FieldError:
    """Return the error for a field with an invalid value."""
    value_text = repr(value)
    return FieldError(
        f"{path or 'it'} must be {expectation}, not "
        f"{value_text if len(value_text) <= _MAX_PRINTED_LENGTH else type(value).__name__}"
    )


def _create_number_check(min_value: int, max_value: int) -> Form:
    """Return a function that checks that a value is an integer in a range."""

    def check(value: Any, path: str) -> None:
        """Raise FieldError unless the value is an integer in the range."""
        if not isinstance(value, int) or isinstance(value, bool) or not min_value <= value <= max_value:
            raise _create_field_error(path, f"a whole number from {min_value} to {max_value}", value)

    return check


def _check_text(value: Any, path: str) -> None:
    if not isinstance(value, str):
        raise _create_field_error(path, "a text", value)


def _check_text_or_null(value: Any, path: str) -> None:
    if value is not None:
        _check_text(value, path)


def _check_any_number(value: Any, path: str) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _create_field_error(path, "a number", value)


def _check_base64(value: Any, path: str) -> None:
    try:
        base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise _create_field_error(path, "base64", value) from None


def _check_hex(value: Any, path: str) -> None:
    try:
        bytes.fromhex(value)
    except (TypeError, ValueError):
        raise _create_field_error(path, "hexadecimal digits", value) from None


def _check_topic_id(value: Any, path: str) -> None:
    try:
        is_id = len(value) == _ID_LENGTH and len(base64.urlsafe_b64decode(value + "==")) == _ID_BYTES
    except (TypeError, ValueError, binascii.Error):
        is_id = False
    if not is_id:
        raise _create_field_error(path, f"an id of {_ID_LENGTH} characters", value)


def _check_topic_name(value: str, path: str) -> None:
    try:
        check_topic_name(value)
    except OptionError:
        raise _create_field_error(path, "a topic name", value) from None


def _check_node_id(value: str, path: str) -> None:
    if not (value.isascii() and value.isdecimal() and str(int(value)) == value):
        raise _create_field_error(path, "a node id", value)


def _create_map_check(value_form: Form, *, name: Form = _check_text) -> Form:
    """Return a function that checks the names and values of an object."""

    def check(value: Any, path: str) -> None:
        """Raise FieldError unless the value is an object of the given form."""
        if not isinstance(value, dict):
            raise _create_field_error(path, "an object", value)
        for key, item in value.items():
            name(key, f"a name in {path}")
            value_form(item, f"{path}.{key}")

    return check


def _create_object_check(
    fields: Mapping[str, Form], *, optional: Mapping[str, Form] = {}, is_open: bool = False
) -> Form:
    """Return a function that checks the required and optional fields of an object."""
    all_fields = {**fields, **optional}

    def check(value: Any, path: str) -> None:
        """Raise FieldError unless the value is an object with these fields."""
        if not isinstance(value, dict):
            raise _create_field_error(path, "an object", value)
        for key in fields:
            if key not in value:
                raise FieldError(f"{path or 'it'} has no field {key!r}")
        for key, item in value.items():
            if key in all_fields:
                all_fields[key](item, f"{path}.{key}".lstrip("."))
            elif not is_open:
                raise FieldError(f"{path or 'it'} has the unknown field {key!r}")

    return check


def _create_list_check(item_form: Form) -> Form:
    """Return a function that checks each item of a list."""

    def check(value: Any, path: str) -> None:
        """Raise FieldError unless the value is a list of the given form."""
        if not isinstance(value, list):
            raise _create_field_error(path, "a list", value)
        for number, item in enumerate(value):
            item_form(item, f"{path}[{number}]")

    return check


def _create_row_check(*forms: Form) -> Form:
    """Return a function that checks a list with a fixed number of items."""

    def check(value: Any, path: str) -> None:
        """Raise FieldError unless the value is a list of the given items."""
        if not isinstance(value, list) or len(value) != len(forms):
            raise _create_field_error(path, f"a list of {len(forms)} items", value)
        for number, (form, item) in enumerate(zip(forms, value, strict=True)):
            form(item, f"{path}[{number}]")

    return check


NODE_CONFIGS: Final = "node_configs"
_CHECK_CONFIGS = _create_map_check(_check_text)
_CHECK_ENTITY_CONFIGS = _create_map_check(_CHECK_CONFIGS)
_CHECK_INT8 = _create_number_check(0, MAX_INT8)
_CHECK_CREDENTIAL = _create_object_check(
    {
        "salt": _check_base64,
        "stored_key": _check_base64,
        "server_key": _check_base64,
        "iterations": _create_number_check(1, MAX_INT32),
    }
)
_CHECK_TOPIC = _create_object_check(
    {"topic_id": _check_topic_id, "partitions": _create_number_check(0, MAX_PARTITIONS)},
    optional={
        "configs": _CHECK_CONFIGS,
        "replicas": _create_list_check(_create_list_check(_create_number_check(0, MAX_INT32))),
    },
)
# Fields of an ACL, in the order of ``security.acls.Acl``: resource type and name, pattern type, principal, host,
# operation, permission.
_CHECK_ACL = _create_row_check(
    _CHECK_INT8, _check_text, _CHECK_INT8, _check_text, _check_text, _CHECK_INT8, _CHECK_INT8
)
_CHECK_TIME = _create_number_check(0, MAX_INT64)
_CHECK_TOKEN = _create_object_check(
    {
        "token_id": _check_text,
        "owner": _check_text,
        "requester": _check_text,
        "renewers": _create_list_check(_check_text),
    }
    | dict.fromkeys(("issued_ms", "expires_ms", "ends_ms"), _CHECK_TIME)
)
_CHECK_ENTITIES = _create_object_check(
    {},
    optional={
        "acls": _create_list_check(_CHECK_ACL),
        "client_metrics": _CHECK_ENTITY_CONFIGS,
        "delegation_tokens": _create_list_check(_CHECK_TOKEN),
        "features": _create_map_check(_create_number_check(0, MAX_INT16)),
        "deleting": _create_map_check(_check_topic_id, name=_check_topic_name),
        "group_configs": _CHECK_ENTITY_CONFIGS,
        NODE_CONFIGS: _create_map_check(_CHECK_CONFIGS, name=_check_node_id),
        "quotas": _create_list_check(
            _create_object_check(
                {"entity": _create_map_check(_check_text_or_null), "values": _create_map_check(_check_any_number)}
            )
        ),
        "scram": _create_map_check(_create_map_check(_CHECK_CREDENTIAL)),
        "scram_salts": _check_hex,
    },
    is_open=True,
)
check_form: Form = _create_object_check(
    {"topics": _create_map_check(_CHECK_TOPIC, name=_check_topic_name)},
    optional={
        "version": _create_number_check(1, 1),
        "cluster_id": _check_text,
        "next_producer_id": _create_number_check(0, MAX_INT64),
        "configs": _CHECK_CONFIGS,
        "entities": _CHECK_ENTITIES,
    },
)


METADATA_FILE_NAME = "kafkaframes.broker.json"
PRODUCER_ID_BLOCK_SIZE = 1_000


@dataclass(slots=True)
class StoredTopic:
    """A topic in the metadata file. ``replicas`` has each partition's node ids; empty if the broker has one node."""

    topic_id: str
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)
    replicas: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class StoredMetadata:
    """The content of the broker's metadata file.

    Attributes:
        next_producer_id: start of the range of producer ids that this broker has not assigned yet.
        configs: dynamic broker settings.
        entities: further metadata, such as client quotas, users and ACLs, by a name that the API modules choose.
    """

    version: int = 1
    cluster_id: str = ""
    next_producer_id: int = 0
    topics: dict[str, StoredTopic] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict, repr=False)
    entities: dict[str, Any] = field(default_factory=dict, repr=False)


def read_metadata(disk: OnlineDisk, directory: str) -> StoredMetadata | None:
    """Read the file; return None if it does not exist. Raise a ``LogDirError`` with the name of an invalid field."""
    path = join(directory, METADATA_FILE_NAME)
    if disk.stat(path) is None:
        return None
    return parse_metadata(disk.read(path), path)


def parse_metadata(raw: bytes, path: str) -> StoredMetadata:
    """Return the metadata in the bytes of a file. Raise a ``LogDirError`` with the name of an invalid field."""
    try:
        values = json.loads(raw)
        check_form(values, "")
    except (ValueError, RecursionError, FieldError) as error:
        raise LogDirError(f"is not a broker's metadata: {error}", file=path) from None
    topics = {name: StoredTopic(**topic) for name, topic in values.pop("topics").items()}
    return StoredMetadata(topics=topics, **values)


def write_metadata(disk: OnlineDisk, directory: str, metadata: StoredMetadata) -> None:
    """Replace the file."""
    topics = {name: get_fields(topic) for name, topic in metadata.topics.items()}
    for topic in topics.values():
        # A topic without replicas is saved without the field ``replicas``, because most brokers have one node.
        if not topic["replicas"]:
            del topic["replicas"]
    values = get_fields(metadata) | {"topics": topics}
    # Not indented, because indentation takes ten times as long.
    raw = json.dumps(values, sort_keys=True).encode() + b"\n"
    rewrite_file(disk, join(directory, METADATA_FILE_NAME), raw, is_private=True)


def get_fields(value: StoredMetadata | StoredTopic) -> dict[str, Any]:
    """Return the fields of a value by name, without the deep copy of ``asdict``."""
    return {name: getattr(value, name) for name in value.__slots__}


def protect_metadata(disk: OnlineDisk, directory: str) -> None:
    """Restrict an existing file to its owner."""
    disk.open_file(join(directory, METADATA_FILE_NAME), is_private=True).close()
