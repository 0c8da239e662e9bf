"""Parsers of option texts: numbers, sizes, times, lists of names, and Spark's JSON forms of offsets. No I/O.

A parser raises ``ValueError`` with the expected form. The caller adds the name of the option.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any, Final

from kafkaframes.records.reasons import SPARK_MODES
from kafkaframes.scan.ranges import EARLIEST, LATEST, GroupBound, PartitionOffsets
from kafkaframes.storage.files.units import parse_time
from kafkaframes.wire.integers import MAX_INT64

GROUP_PREFIX: Final = "group:"
_MAX_PORT: Final = 65_535
_MAX_TIMESTAMP_MS: Final = 10**18  # exclusive
_RECORD_FORMAT_BY_TEXT: Final = {"v0": 0, "v1": 1, "v2": 2, "0": 0, "1": 1, "2": 2}
_MS_BY_UNIT: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_names(text: str) -> tuple[str, ...]:
    """Parse one or more names separated by commas."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("must be a comma separated list of names")
    return names


def parse_topics(text: str) -> frozenset[str]:
    """Parse topic names separated by commas."""
    return frozenset(parse_names(text))


def parse_boolean(text: str) -> bool:
    """Parse true or false, in any letter case."""
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def create_choice_parser(names: Collection[str]) -> Callable[[str], str]:
    """Return a parser that accepts one of these names, in any letter case."""

    def parse(text: str) -> str:
        """Return the valid name that equals the text in any letter case."""
        for name in names:
            if name.lower() == text.lower():
                return name
        raise ValueError(f"must be one of {', '.join(names)}")

    return parse


def create_mode_parser(*values: str) -> Callable[[str], str]:
    """Return a parser of Spark's option ``mode``. PERMISSIVE is ``keep``, DROPMALFORMED ``drop``, FAILFAST ``fail``.

    >>> create_mode_parser("keep", "fail")("failfast")
    'fail'

    Args:
        values: the values of ``on_damage`` that the source supports.
    """
    by_mode = {SPARK_MODES[value]: value for value in values}
    parse_mode = create_choice_parser(by_mode)
    return lambda text: by_mode[parse_mode(text)]


def parse_timestamp(text: str) -> int:
    """Parse a time: milliseconds since 1970, or a date.

    >>> parse_timestamp("2025-10-09T12:00Z") == parse_timestamp("1760011200000")
    True
    """
    result = parse_time(text)
    if not 0 <= result < _MAX_TIMESTAMP_MS:
        raise ValueError("must be milliseconds since 1970, or a date such as 2026-01-31T12:00:00Z")
    return result


def parse_timestamps(text: str) -> PartitionOffsets:
    """Parse JSON with a time for each topic partition, in the format of ``parse_timestamp``."""
    form = 'JSON such as {"topic": {"0": 1763700000000}}, or with dates, {"topic": {"0": "2025-10-09T12:00Z"}},'
    values = _parse_json_object(text, form)
    if not all(isinstance(partitions, dict) for partitions in values.values()):
        raise ValueError(f"must be {form}")
    plain = {
        topic: {name: parse_timestamp(time) if isinstance(time, str) else time for name, time in partitions.items()}
        for topic, partitions in values.items()
    }
    times = parse_offsets(json.dumps(plain))
    if min(times.values(), default=0) < 0:
        raise ValueError(f"must be {form}, milliseconds since 1970")
    return times


def parse_integer(text: str) -> int:
    """Parse an integer."""
    try:
        return int(text)
    except ValueError:
        raise ValueError("must be an integer") from None


def parse_positive_integer(text: str) -> int:
    """Parse an integer greater than 0."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError("must be an integer greater than 0")
    return number


def parse_non_negative_integer(text: str) -> int:
    """Parse an integer of at least 0."""
    number = parse_integer(text)
    if number < 0:
        raise ValueError("must be 0 or more")
    return number


def parse_port(text: str) -> int:
    """Parse a port; 0 means any free port."""
    if not 0 <= (port := parse_integer(text)) <= _MAX_PORT:
        raise ValueError(f"must be from 0 to {_MAX_PORT}")
    return port


def parse_duration_ms(text: str) -> int:
    """Parse a duration in Spark's notation, and return milliseconds.

    >>> parse_duration_ms("15m") == parse_duration_ms("900s") == parse_duration_ms("900000")
    True
    """
    match = re.fullmatch(r"(\d{1,12})\s*(us|ms|s|m|min|h|d)?", text.strip())
    if match is None:
        raise ValueError("must be a duration such as 900000, 900s or 15m")
    count = int(match[1])
    return count // 1_000 if match[2] == "us" else count * _MS_BY_UNIT[match[2] or "ms"]


def parse_record_format(text: str) -> int:
    """Parse a record format: v0, v1 or v2, or its number."""
    if text.lower() not in _RECORD_FORMAT_BY_TEXT:
        raise ValueError("must be v2, v1 or v0")
    return _RECORD_FORMAT_BY_TEXT[text.lower()]


def parse_topic_ids(text: str) -> dict[str, str]:
    """Parse JSON with an id for each topic."""
    try:
        result = json.loads(text)
    except ValueError:
        result = None
    if not isinstance(result, dict) or not all(isinstance(topic_id, str) for topic_id in result.values()):
        raise ValueError('must be JSON such as {"orders": "AAAAAAAAAAAAAAAAAAAAAQ"}')
    return result


def _parse_json_object(text: str, form: str) -> dict[str, Any]:
    """Parse a JSON object that is not empty. ``form`` describes it in error messages."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"must be {form}: {error}") from None
    if not isinstance(value, dict) or not value:
        raise ValueError(f"must be {form}")
    return value


def parse_assign(text: str) -> dict[str, tuple[int, ...]]:
    """Parse Spark's JSON of topic partitions.

    >>> parse_assign('{"orders": [0, 2]}')
    {'orders': (0, 2)}
    """
    form = 'JSON such as {"topic": [0, 1]}'
    assignment = {}
    for topic, partitions in _parse_json_object(text, form).items():
        if not isinstance(partitions, list) or not all(type(p) is int and p >= 0 for p in partitions):
            raise ValueError(f"must be {form}")
        assignment[topic] = tuple(sorted(set(partitions)))
    return assignment


def parse_offsets(text: str) -> dict[tuple[str, int], int]:
    """Parse Spark's JSON of offsets, in which -2 is earliest and -1 latest.

    >>> parse_offsets('{"orders": {"0": 23, "1": -2}}')
    {('orders', 0): 23, ('orders', 1): -2}
    """
    form = 'JSON such as {"topic": {"0": 23, "1": -2}}'
    offsets = {}
    for topic, partitions in _parse_json_object(text, form).items():
        if not isinstance(partitions, dict):
            raise ValueError(f"must be {form}")
        for partition, offset in partitions.items():
            if not partition.isdecimal() or type(offset) is not int or not EARLIEST <= offset <= MAX_INT64:
                raise ValueError(f"must be {form}")
            offsets[topic, int(partition)] = offset
    return offsets


def parse_start(text: str) -> int | PartitionOffsets:
    """Parse the start of a query: earliest, latest, or JSON of offsets."""
    if text.strip().lower() == "earliest":
        return EARLIEST
    return LATEST if text.strip().lower() == "latest" else parse_offsets(text)


def parse_start_or_group(text: str) -> int | PartitionOffsets | GroupBound:
    """Parse the start of a query of live topics, as ``parse_start`` does, or ``group:NAME`` for committed offsets."""
    if text.strip().lower().startswith(GROUP_PREFIX):
        name = text.strip()[len(GROUP_PREFIX) :].strip()
        if not name:
            raise ValueError("must be the name of a group: group:NAME")
        return GroupBound(name)
    return parse_start(text)


def parse_end(text: str) -> int | PartitionOffsets:
    """Parse the end of a batch query (exclusive): latest, or JSON of offsets."""
    if text.strip().lower() == "latest":
        return LATEST
    if text.strip().lower() == "earliest":
        raise ValueError("a batch read cannot end at earliest: must be latest or JSON")
    offsets = parse_offsets(text)
    if EARLIEST in offsets.values():
        raise ValueError("a batch read cannot end at -2 (earliest)")
    return offsets
