"""The broker's metadata that is not part of its logs, in one file of the data directory: ``kafkaframes.broker.json``.

It contains topics with their ids and settings, dynamic broker settings, users, ACLs, quotas, and the next producer id.
KRaft stores these in ``__cluster_metadata``. Other brokers can open the log directory without this file, and Kafka
ignores it. The file is replaced atomically, so that a crash leaves the old or the new one. Only its owner may read it:
with the keys of SCRAM users, passwords can be guessed.
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

MAX_PARTITIONS = 100_000  # of a topic: missing partitions are created when the file is read
_ID_BYTES, _ID_LENGTH = 16, 22
_MAX_TEXT_LENGTH = 40
Form = Callable[[Any, str], None]


class FormError(KafkaframesError):
    """A field has an invalid value."""


def _form_error(path: str, expectation: str, value: Any) -> FormError:
    value_text = repr(value)
    return FormError(
        f"{path or 'it'} is {expectation}, not "
        f"{value_text if len(value_text) <= _MAX_TEXT_LENGTH else type(value).__name__}"
    )


def _number(min_value: int, max_value: int) -> Form:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not min_value <= value <= max_value:
            raise _form_error(path, f"a whole number from {min_value} to {max_value}", value)

    return check


def _text(value: Any, path: str) -> None:
    if not isinstance(value, str):
        raise _form_error(path, "a text", value)


def _text_or_null(value: Any, path: str) -> None:
    if value is not None:
        _text(value, path)


def _any_number(value: Any, path: str) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _form_error(path, "a number", value)


def _base64(value: Any, path: str) -> None:
    try:
        base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise _form_error(path, "base64", value) from None


def _hex(value: Any, path: str) -> None:
    try:
        bytes.fromhex(value)
    except (TypeError, ValueError):
        raise _form_error(path, "hexadecimal digits", value) from None


def _topic_id(value: Any, path: str) -> None:
    try:
        is_id = len(value) == _ID_LENGTH and len(base64.urlsafe_b64decode(value + "==")) == _ID_BYTES
    except (TypeError, ValueError, binascii.Error):
        is_id = False
    if not is_id:
        raise _form_error(path, f"an id of {_ID_LENGTH} characters", value)


def _topic_name(value: str, path: str) -> None:
    try:
        check_topic_name(value)
    except OptionError:
        raise _form_error(path, "the name of a topic", value) from None


def _node_id(value: str, path: str) -> None:
    if not (value.isascii() and value.isdecimal() and str(int(value)) == value):
        raise _form_error(path, "the id of a node", value)


def _map(value_form: Form, *, name: Form = _text) -> Form:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _form_error(path, "an object", value)
        for key, item in value.items():
            name(key, f"a name in {path}")
            value_form(item, f"{path}.{key}")

    return check


def _object(fields: Mapping[str, Form], *, optional: Mapping[str, Form] = {}, is_open: bool = False) -> Form:
    all_fields = {**fields, **optional}

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _form_error(path, "an object", value)
        for key in fields:
            if key not in value:
                raise FormError(f"{path or 'it'} has no field {key!r}")
        for key, item in value.items():
            if key in all_fields:
                all_fields[key](item, f"{path}.{key}".lstrip("."))
            elif not is_open:
                raise FormError(f"{path or 'it'} has a field {key!r}, which is unknown")

    return check


def _list(item_form: Form) -> Form:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise _form_error(path, "a list", value)
        for number, item in enumerate(value):
            item_form(item, f"{path}[{number}]")

    return check


def _row(*forms: Form) -> Form:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, list) or len(value) != len(forms):
            raise _form_error(path, f"a list of {len(forms)}", value)
        for number, (form, item) in enumerate(zip(forms, value, strict=True)):
            form(item, f"{path}[{number}]")

    return check


NODE_CONFIGS: Final = "node_configs"
_CONFIGS_FORM = _map(_text)
_ENTITY_CONFIGS_FORM = _map(_CONFIGS_FORM)
_INT8_FORM = _number(0, MAX_INT8)
_CREDENTIAL_FORM = _object(
    {"salt": _base64, "stored_key": _base64, "server_key": _base64, "iterations": _number(1, MAX_INT32)}
)
_TOPIC_FORM = _object(
    {"topic_id": _topic_id, "partitions": _number(0, MAX_PARTITIONS)},
    optional={"configs": _CONFIGS_FORM, "replicas": _list(_list(_number(0, MAX_INT32)))},
)
# Rules as ``security.acls.Acl`` has them: resource type and name, pattern type, principal, host, operation, permission.
_ACL_FORM = _row(_INT8_FORM, _text, _INT8_FORM, _text, _text, _INT8_FORM, _INT8_FORM)
_TIME_FORM = _number(0, MAX_INT64)
_TOKEN_FORM = _object(
    {"token_id": _text, "owner": _text, "requester": _text, "renewers": _list(_text)}
    | dict.fromkeys(("issued_ms", "expires_ms", "ends_ms"), _TIME_FORM)
)
_ENTITIES_FORM = _object(
    {},
    optional={
        "acls": _list(_ACL_FORM),
        "client_metrics": _ENTITY_CONFIGS_FORM,
        "delegation_tokens": _list(_TOKEN_FORM),
        "features": _map(_number(0, MAX_INT16)),
        "deleting": _map(_topic_id, name=_topic_name),
        "group_configs": _ENTITY_CONFIGS_FORM,
        NODE_CONFIGS: _map(_CONFIGS_FORM, name=_node_id),
        "quotas": _list(_object({"entity": _map(_text_or_null), "values": _map(_any_number)})),
        "scram": _map(_map(_CREDENTIAL_FORM)),
        "scram_salts": _hex,
    },
    is_open=True,
)
check_form: Form = _object(
    {"topics": _map(_TOPIC_FORM, name=_topic_name)},
    optional={
        "version": _number(1, 1),
        "cluster_id": _text,
        "next_producer_id": _number(0, MAX_INT64),
        "configs": _CONFIGS_FORM,
        "entities": _ENTITIES_FORM,
    },
)


FILE_NAME = "kafkaframes.broker.json"
PRODUCER_ID_BLOCK_SIZE = 1_000


@dataclass(slots=True)
class StoredTopic:
    """A topic in the file. ``replicas`` has the node ids of each partition; empty if the broker has one node."""

    topic_id: str
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)
    replicas: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class StoredMetadata:
    """The content of the file.

    Attributes:
        next_producer_id: lowest producer id that has certainly not been assigned.
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
    """Read the file; None if it does not exist. Raise a ``LogDirError`` with the field's name if it is invalid."""
    path = join(directory, FILE_NAME)
    if disk.stat(path) is None:
        return None
    try:
        values = json.loads(disk.read(path))
        check_form(values, "")
    except (ValueError, RecursionError, FormError) as error:
        raise LogDirError(f"is not a broker's metadata: {error}", file=path) from None
    topics = {name: StoredTopic(**topic) for name, topic in values.pop("topics").items()}
    return StoredMetadata(topics=topics, **values)


def write_metadata(disk: OnlineDisk, directory: str, metadata: StoredMetadata) -> None:
    """Replace the file."""
    topics = {name: vars_of(topic) for name, topic in metadata.topics.items()}
    for topic in topics.values():
        if not topic["replicas"]:  # most brokers have one node
            del topic["replicas"]
    values = vars_of(metadata) | {"topics": topics}
    raw = json.dumps(values, sort_keys=True).encode() + b"\n"  # indentation would take ten times as long
    rewrite_file(disk, join(directory, FILE_NAME), raw, is_private=True)


def vars_of(value: StoredMetadata | StoredTopic) -> dict[str, Any]:
    """Return the fields of a value by name, without the deep copy of ``asdict``."""
    return {name: getattr(value, name) for name in value.__slots__}


def protect_metadata(disk: OnlineDisk, directory: str) -> None:
    """Restrict an existing file to its owner."""
    disk.open_file(join(directory, FILE_NAME), is_private=True).close()
