"""Compare the settings that a destination stores with those of the current run.

Destinations store settings under the names of earlier releases, so that later releases continue exports of earlier
ones. Messages use the current names of the keywords.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafkaframes.records.reasons import SPARK_MODES

_MAX_VALUE_CHARACTERS: Final = 60  # longer values are shortened in messages
_SETTING_NAMES: Final[Mapping[str, str]] = {
    "form": "format",
    "control": "control_records",
    "key_pattern": "key_regex",
}
_TIME_SETTINGS: Final = ("from_timestamp", "until_timestamp")  # stored settings that are timestamps
_ON_DAMAGE_BY_MODE: Final[Mapping[Any, str]] = {mode: on_damage for on_damage, mode in SPARK_MODES.items()}


def describe_changes(earlier_values: Mapping[str, Any], current_values: Mapping[str, Any]) -> str:
    """Return the settings that differ, each with both values.

    >>> describe_changes({"mode": "PERMISSIVE", "base64": True}, {"mode": "FAILFAST", "base64": True})
    '`on_damage` was keep and is fail'

    Args:
        earlier_values: settings that the destination stores.
        current_values: settings of the current run.
    """
    earlier, current = _name_settings(earlier_values), _name_settings(current_values)
    names = [name for name in sorted({*earlier, *current}) if earlier.get(name) != current.get(name)]
    return ", ".join(
        f"`{name}` was {_shorten_value(earlier.get(name))} and is {_shorten_value(current.get(name))}" for name in names
    )


def _name_settings(stored_values: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored settings under the names of their flags and arguments."""
    values = dict(stored_values)
    values |= values.pop("keep", None) or {}
    if values.get("mode") in _ON_DAMAGE_BY_MODE:
        values["on_damage"] = _ON_DAMAGE_BY_MODE[values.pop("mode")]
    times = [values.pop(name, None) for name in _TIME_SETTINGS]
    if times != [None, None]:
        values["timestamp"] = tuple(times)
    return {_SETTING_NAMES.get(name, name): value for name, value in values.items()}


def _shorten_value(value: Any) -> str:
    """Return a setting's value as text of limited length."""
    text = "not set" if value is None else str(value)
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"{text[:_MAX_VALUE_CHARACTERS]}..."
