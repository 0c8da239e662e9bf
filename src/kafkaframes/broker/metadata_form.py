"""The form of ``kafkaframes.broker.json``: which types, ranges and names each field has; nothing is made of it before.

A form is a function of a value and its path in the file; it raises ``FormError`` for the first field at fault. Forms
are made of forms, as the file's content is.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.storage.files.names import check_topic

MOST_PARTITIONS = 100_000  # of a topic: the missing ones are made when the file is read
_LARGEST_INT32, _LARGEST_INT64, _LARGEST_INT8 = 2**31 - 1, 2**63 - 1, 127
_ID_BYTES, _ID_LENGTH = 16, 22
_MOST_SHOWN = 40
Form = Callable[[Any, str], None]


class FormError(KafkaframesError):
    """A field has a value that it cannot have."""


def _refuse(path: str, expected: str, value: Any) -> FormError:
    shown = repr(value)
    return FormError(
        f"{path or 'it'} is {expected}, not {shown if len(shown) <= _MOST_SHOWN else type(value).__name__}"
    )


def _number(least: int, largest: int) -> Form:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= largest:
            raise _refuse(path, f"a whole number from {least} to {largest}", value)

    return check


def _text(value: Any, path: str) -> None:
    if not isinstance(value, str):
        raise _refuse(path, "a text", value)


def _text_or_null(value: Any, path: str) -> None:
    if value is not None:
        _text(value, path)


def _any_number(value: Any, path: str) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _refuse(path, "a number", value)


def _base64(value: Any, path: str) -> None:
    try:
        base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise _refuse(path, "base64", value) from None


def _hex(value: Any, path: str) -> None:
    try:
        bytes.fromhex(value)
    except (TypeError, ValueError):
        raise _refuse(path, "hexadecimal digits", value) from None


def _topic_id(value: Any, path: str) -> None:
    try:
        is_id = len(value) == _ID_LENGTH and len(base64.urlsafe_b64decode(value + "==")) == _ID_BYTES
    except (TypeError, ValueError, binascii.Error):
        is_id = False
    if not is_id:
        raise _refuse(path, f"an id of {_ID_LENGTH} characters", value)


def _topic_name(value: str, path: str) -> None:
    try:
        check_topic(value)
    except OptionError:
        raise _refuse(path, "the name of a topic", value) from None


def _map(of: Form, *, name: Form = _text) -> Form:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _refuse(path, "an object", value)
        for key, one in value.items():
            name(key, f"a name in {path}")
            of(one, f"{path}.{key}")

    return check


def _object(fields: Mapping[str, Form], *, optional: Mapping[str, Form] = {}, is_open: bool = False) -> Form:
    known = {**fields, **optional}

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _refuse(path, "an object", value)
        for key in fields:
            if key not in value:
                raise FormError(f"{path or 'it'} has no field {key!r}")
        for key, one in value.items():
            if key in known:
                known[key](one, f"{path}.{key}".lstrip("."))
            elif not is_open:
                raise FormError(f"{path or 'it'} has a field {key!r}, which nobody knows")

    return check


def _list(of: Form) -> Form:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise _refuse(path, "a list", value)
        for number, one in enumerate(value):
            of(one, f"{path}[{number}]")

    return check


def _row(*forms: Form) -> Form:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, list) or len(value) != len(forms):
            raise _refuse(path, f"a list of {len(forms)}", value)
        for number, (form, one) in enumerate(zip(forms, value, strict=True)):
            form(one, f"{path}[{number}]")

    return check


_CONFIGS = _map(_text)
_OF_ENTITIES = _map(_CONFIGS)
_SMALL = _number(0, _LARGEST_INT8)
_CREDENTIAL = _object(
    {"salt": _base64, "stored_key": _base64, "server_key": _base64, "iterations": _number(1, _LARGEST_INT32)}
)
_TOPIC = _object(
    {"topic_id": _topic_id, "partitions": _number(0, MOST_PARTITIONS)},
    optional={"configs": _CONFIGS},
)
# Rules as ``security.acls.Acl`` has them: resource type and name, pattern type, principal, host, operation, permission.
_ACL = _row(_SMALL, _text, _SMALL, _text, _text, _SMALL, _SMALL)
_ENTITIES = _object(
    {},
    optional={
        "acls": _list(_ACL),
        "client_metrics": _OF_ENTITIES,
        "deleting": _map(_topic_id, name=_topic_name),
        "group_configs": _OF_ENTITIES,
        "quotas": _list(_object({"entity": _map(_text_or_null), "values": _map(_any_number)})),
        "scram": _map(_map(_CREDENTIAL)),
        "scram_salts": _hex,
    },
    is_open=True,
)
check_form: Form = _object(
    {"topics": _map(_TOPIC, name=_topic_name)},
    optional={
        "version": _number(1, 1),
        "cluster_id": _text,
        "next_producer_id": _number(0, _LARGEST_INT64),
        "configs": _CONFIGS,
        "entities": _ENTITIES,
    },
)
