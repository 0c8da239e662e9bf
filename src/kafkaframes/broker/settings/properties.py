"""Read ``server.properties``, and separate supported settings from settings without effect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkaframes.broker.settings.listeners import LISTENER_KEYS as LISTENER_KEYS
from kafkaframes.broker.settings.security_keys import GSSAPI_LOGIN_PATTERN, SECURITY_SETTING_NAMES
from kafkaframes.broker.settings.settings import DEFAULTS, TOPIC_KEYS
from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.storage.files.checkpoints import read_meta_properties

# Supported keys that are not in settings.py.
_SEPARATELY_READ_KEYS = (
    frozenset({"log.dir", "log.dirs", "broker.id", "authorizer.class.name"}) | LISTENER_KEYS | SECURITY_SETTING_NAMES
)
# Keys with a listener prefix, and optionally a SASL mechanism.
_LISTENER_KEY_PATTERN = re.compile(r"listener\.name\.[^.]+\.(?:[^.]+\.)?(connections\.max\.reauth\.ms)")
_SUPPORTED_KEYS = frozenset(DEFAULTS) | frozenset(key for key, _ in TOPIC_KEYS.values() if key) | _SEPARATELY_READ_KEYS
# Kafka's keys for times in other units -> the key in milliseconds, and the factor.
_TIME_UNIT_KEYS = {
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", 3_600_000),
}


class Properties(NamedTuple):
    """The settings in a properties file: values of supported settings, and the names of all other settings."""

    values_by_name: dict[str, str]
    unknown: tuple[str, ...]


def read_properties(text: bytes, *, file: str) -> Properties:
    """Read a ``server.properties``; raise an ``OptionError`` that names an invalid line or value."""
    values = parse_properties(text, file=file)
    values_by_name: dict[str, str] = {}
    unknown = []
    for key, value in values.items():
        if key in _TIME_UNIT_KEYS:
            _add_time(values_by_name, key, value, explicit=values)
        elif is_known(key):
            values_by_name["node.id" if key == "broker.id" else key] = value
        else:
            unknown.append(key)
    return Properties(values_by_name, tuple(unknown))


def parse_properties(text: bytes, *, file: str) -> Mapping[str, str]:
    """Return the keys and values of a properties file.

    Raises:
        OptionError: a line is not a property.
    """
    try:
        return read_meta_properties(text, file=file).values
    except LogDirError as error:
        raise OptionError(str(error)) from None


def is_known(key: str) -> bool:
    """Return whether a key of ``server.properties`` is supported."""
    return (
        key in _SUPPORTED_KEYS
        or key in _TIME_UNIT_KEYS
        or any(pattern.fullmatch(key) for pattern in (_LISTENER_KEY_PATTERN, GSSAPI_LOGIN_PATTERN))
    )


def strip_listener_prefix(key: str) -> str:
    """Return a key without the prefix for a listener and a SASL mechanism.

    >>> strip_listener_prefix("listener.name.outside.plain.connections.max.reauth.ms"), strip_listener_prefix("node.id")
    ('connections.max.reauth.ms', 'node.id')
    """
    match = _LISTENER_KEY_PATTERN.fullmatch(key)
    return key if match is None else match[1]


def _add_time(values_by_name: dict[str, str], key: str, value: str, *, explicit: Iterable[str]) -> None:
    """Add a time in hours or minutes, unless the file has the same setting in a smaller unit."""
    name, factor = _TIME_UNIT_KEYS[key]
    smaller_unit_keys = [
        name,
        *(
            other
            for other, (other_name, other_factor) in _TIME_UNIT_KEYS.items()
            if other_name == name and other_factor < factor
        ),
    ]
    if any(other_key in explicit for other_key in smaller_unit_keys):
        return
    try:
        number = int(value)
    except ValueError:
        raise OptionError(f"{key} must be an integer, not {value!r}") from None
    values_by_name[name] = str(-1 if number < 0 else number * factor)
