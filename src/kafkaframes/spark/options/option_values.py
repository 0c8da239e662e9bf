"""Parsers of option texts, shared by sources and sinks. No pyspark, no I/O.

A parser raises ``ValueError`` with the expected form. ``parse_value`` adds the name of the option.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.errors.sensitive import redact_value
from kafkaframes.records.reasons import SPARK_MODES
from kafkaframes.scan.ranges import EARLIEST, LATEST, PartitionOffsets, TimeBound
from kafkaframes.storage.files.units import parse_time


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its name in Spark's spelling, its field, and its parser."""

    name: str
    field: str
    parse: Callable[[str], Any]
    meaning: str
    default: str = ""


def text_list(text: str) -> tuple[str, ...]:
    """Parse names separated by commas, at least one."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("must be a comma separated list of names")
    return names


def topics_value(text: str) -> frozenset[str]:
    """Parse topic names separated by commas."""
    return frozenset(text_list(text))


def boolean(text: str) -> bool:
    """Parse true or false, in any letter case."""
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def choice_parser(names: Collection[str]) -> Callable[[str], str]:
    """Return a parser that accepts one of these names, in any letter case."""

    def parse(text: str) -> str:
        for name in names:
            if name.lower() == text.lower():
                return name
        raise ValueError(f"must be one of {', '.join(names)}")

    return parse


def mode_parser(*values: str) -> Callable[[str], str]:
    """Return a parser of Spark's option ``mode``. PERMISSIVE is ``keep``, DROPMALFORMED ``drop``, FAILFAST ``fail``.

    >>> mode_parser("keep", "fail")("failfast")
    'fail'

    Args:
        values: the values of ``on_damage`` that the source supports.
    """
    by_mode = {SPARK_MODES[value]: value for value in values}
    parse_mode = choice_parser(by_mode)
    return lambda text: by_mode[parse_mode(text)]


def timestamp_value(text: str) -> int:
    """Parse a time: milliseconds since 1970, or a date.

    >>> timestamp_value("2025-10-09T12:00Z") == timestamp_value("1760011200000")
    True
    """
    result = parse_time(text)
    if not 0 <= result < 10**18:
        raise ValueError("must be milliseconds since 1970, or a date such as 2026-01-31T12:00:00Z")
    return result


def timestamps_value(text: str) -> PartitionOffsets:
    """Parse JSON with a time for each topic partition, in the format of ``timestamp_value``."""
    form = 'JSON such as {"topic": {"0": 1763700000000}}, or with dates, {"topic": {"0": "2025-10-09T12:00Z"}},'
    values = _json_object(text, form)
    if not all(isinstance(partitions, dict) for partitions in values.values()):
        raise ValueError(f"must be {form}")
    plain = {
        topic: {name: timestamp_value(time) if isinstance(time, str) else time for name, time in partitions.items()}
        for topic, partitions in values.items()
    }
    times = parse_offsets(json.dumps(plain))
    if min(times.values(), default=0) < 0:
        raise ValueError(f"must be {form}, milliseconds since 1970")
    return times


def whole_number(text: str) -> int:
    """Parse an integer."""
    try:
        return int(text)
    except ValueError:
        raise ValueError("must be an integer") from None


def positive(text: str) -> int:
    """Parse an integer greater than 0."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError("must be an integer greater than 0")
    return number


def not_negative(text: str) -> int:
    """Parse an integer of at least 0."""
    number = whole_number(text)
    if number < 0:
        raise ValueError("must be 0 or more")
    return number


def _json_object(text: str, form: str) -> dict[str, Any]:
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
    for topic, partitions in _json_object(text, form).items():
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
    for topic, partitions in _json_object(text, form).items():
        if not isinstance(partitions, dict):
            raise ValueError(f"must be {form}")
        for partition, offset in partitions.items():
            if not partition.isdecimal() or type(offset) is not int or offset < EARLIEST:
                raise ValueError(f"must be {form}")
            offsets[topic, int(partition)] = offset
    return offsets


def starting_value(text: str) -> int | PartitionOffsets:
    """Parse the start of a query: earliest, latest, or JSON of offsets."""
    if text.strip().lower() == "earliest":
        return EARLIEST
    return LATEST if text.strip().lower() == "latest" else parse_offsets(text)


def ending_value(text: str) -> int | PartitionOffsets:
    """Parse the end of a batch query (exclusive): latest, or JSON of offsets."""
    if text.strip().lower() == "latest":
        return LATEST
    if text.strip().lower() == "earliest":
        raise ValueError("a batch read cannot end at earliest: must be latest or JSON")
    offsets = parse_offsets(text)
    if EARLIEST in offsets.values():
        raise ValueError("a batch read cannot end at -2 (earliest)")
    return offsets


def select_bounds_by_precedence(values: dict[str, Any]) -> None:
    """Keep only the bounds with precedence, as in Spark: a time for all partitions, times for each, then offsets."""
    for limit in ("start", "end"):
        by_partition = values.pop(f"{limit}_times", None)
        time = values.pop(f"{limit}_time", by_partition)
        if time is not None:
            values[limit] = TimeBound(time)


def describe_unknown_option(
    name: str, options_by_name: Mapping[str, Option], source: str, *, others: Iterable[str] = ()
) -> str:
    """Return the message for an unknown option, with the closest known name or all names.

    Args:
        name: Name of the unknown option.
        options_by_name: Options, by their names in lower case.
        source: Name of the data source.
        others: Names of further valid options, in lower case.
    """
    lower = name.lower()
    # Spark's name for the topics to read; by edit distance, topicColumn and others would be closer
    meant = "subscribe" if lower in ("topic", "topics") and "subscribe" in options_by_name else lower
    near = difflib.get_close_matches(meant, [*options_by_name, *others], n=1, cutoff=0.6)
    if near:
        suggestion = options_by_name[near[0]].name if near[0] in options_by_name else near[0]
        return f"unknown option {name}: did you mean {suggestion}?"
    names = ", ".join(option.name for option in options_by_name.values())
    return f"unknown option {name}; {source} has the options {names}"


def parse_value(name: str, parse: Callable[[str], Any], text: str) -> Any:
    """Return the parsed value of an option.

    Raises:
        OptionError: The text is invalid. The message names the option.
    """
    try:
        return parse(text)
    except ValueError as error:
        raise OptionError(f"option {name}={redact_value(name, text)}: {error}") from None


def field_values(options_by_name: Mapping[str, Option], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the parsed values of texts (by lower-case name), by field. Exceptions are those of ``parse_value``."""
    pairs = [(options_by_name[name], text) for name, text in texts.items()]
    return {option.field: parse_value(option.name, option.parse, text) for option, text in pairs if option.field}


def load_paths(values: Mapping[str, str], *, source: str, example: str) -> tuple[str, ...]:
    """Return the arguments of ``load()``: the option ``path``, or ``paths`` (Spark's JSON list of several).

    Args:
        values: Texts, by their names in lower case.
        source: Name of the data source.
        example: Example of a path in the error message.

    Raises:
        OptionError: The path is missing, or ``paths`` is not a list of text.
    """
    paths = [values["path"]] if values.get("path") else []
    if values.get("paths"):
        try:
            more = json.loads(values["paths"])
        except ValueError:
            more = None
        if not isinstance(more, list) or not all(isinstance(path, str) and path for path in more):
            raise OptionError(f"option paths={values['paths']}: must be a JSON list of paths")
        paths += more
    if not paths:
        raise OptionError(f'{source} needs a path: spark.read.format("{source}").load("{example}")')
    return tuple(paths)
