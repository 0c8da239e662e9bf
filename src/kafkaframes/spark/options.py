"""Options of ``spark.read.format("kafka-log")``: Spark's text in, one frozen value out. No pyspark, no I/O.

Names, defaults and JSON forms are those of Spark's own Kafka source wherever it has the option
(https://spark.apache.org/docs/latest/structured-streaming-kafka-integration.html). ``OPTIONS`` is the whole list;
its rows are also what the documentation prints. Spark hands over names in lower case, so letter case never counts.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.files.filesystem import FOLLOW_LINKS, KEY_FILES, has_magic
from kafkaframes.files.sizes import parse_size
from kafkaframes.files.times import parse_time
from kafkaframes.records.limits import DEFAULT_BUDGET_BYTES
from kafkaframes.spark.storage import NAMES as STORAGE_NAMES
from kafkaframes.spark.storage import split_storage

EARLIEST, LATEST = -2, -1
TABLES = ("records", "batches", "segments")
ISOLATIONS = ("read_uncommitted", "read_committed")
STRATEGIES = ("error", "latest")
DECODERS = ("none", "internal")
REPLICAS = ("merge", "all")
MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
DEFAULT_BYTES_PER_PARTITION = 128 << 20

Assignment = Mapping[str, tuple[int, ...]]
PartitionOffsets = Mapping[tuple[str, int], int]
Timestamps = int | PartitionOffsets  # milliseconds since 1970, for all partitions or for each


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What one ``load()`` asks for, checked.

    ``starting`` and ``ending`` are either one of EARLIEST, LATEST for all partitions or a mapping
    (topic, partition) -> offset that may hold EARLIEST and LATEST too; ``ending`` offsets are exclusive. Where a
    timestamp is given as well, it is what counts: one for all partitions before one for each, as in Spark.
    """

    paths: tuple[str, ...]
    subscribe: frozenset[str] | None = None
    subscribe_pattern: re.Pattern[str] | None = None
    assign: Assignment | None = None
    starting: int | PartitionOffsets = EARLIEST
    ending: int | PartitionOffsets = LATEST
    starting_timestamp: int | None = None
    starting_by_timestamp: PartitionOffsets | None = None
    ending_timestamp: int | None = None
    ending_by_timestamp: PartitionOffsets | None = None
    no_match: str = "error"
    fail_on_data_loss: bool = True
    isolation: str = "read_uncommitted"
    columns: tuple[str, ...] | None = None
    include_headers: bool = False
    include_control: bool = False
    include_internal: bool = False
    table: str = "records"
    decode: str = "none"
    replicas: str = "merge"
    deep: bool = False
    mode: str = "PERMISSIVE"
    verify_crc: bool = True
    budget_bytes: int = DEFAULT_BUDGET_BYTES
    min_partitions: int = 1
    max_bytes_per_partition: int = DEFAULT_BYTES_PER_PARTITION
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def starting_times(self) -> Timestamps | None:
        """The timestamps to start at; None where offsets count."""
        return self.starting_by_timestamp if self.starting_timestamp is None else self.starting_timestamp

    @property
    def ending_times(self) -> Timestamps | None:
        """The timestamps to end before; None where offsets count."""
        return self.ending_by_timestamp if self.ending_timestamp is None else self.ending_timestamp

    def for_batch(self) -> ReadOptions:
        """Return self, for a read that is no stream.

        Raises:
            OptionError: it starts at latest, which only a stream can.
        """
        latest = self.starting == LATEST if isinstance(self.starting, int) else LATEST in self.starting.values()
        if latest and self.starting_times is None:
            raise OptionError("startingOffsets: a batch read cannot start at latest (-1): must be earliest or JSON")
        return self

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read options in any letter case.

        >>> ReadOptions.parse({"path": "/data", "MINPARTITIONS": "8"}).min_partitions
        8

        Raises:
            OptionError: an option is unknown, has a bad value, or excludes another one; the message says which.
        """
        others, storage = split_storage(options)
        given = _by_known_name(others)
        values: dict[str, Any] = {}
        for name, text in given.items():
            option = OPTIONS[name]
            if option.field != "paths":
                values[option.field] = _parsed(option, text)
        if "key_files" in values:
            storage[KEY_FILES] = values.pop("key_files")
        if values.pop("follow_links", False):
            storage[FOLLOW_LINKS] = True
        chosen = [OPTIONS[name].name for name in ("subscribe", "subscribepattern", "assign") if name in given]
        if len(chosen) > 1:
            raise OptionError(f"only one of {', '.join(chosen)} can be given")
        if values.get("decode") == "internal" and values.get("table", "records") != "records":
            raise OptionError(f"decode=internal decodes records; table={values['table']} has none")
        return cls(paths=_paths(given), storage=storage, **values)

    @property
    def layout(self) -> str:
        """The table whose columns the rows have: ``records``, ``batches``, or ``internal`` for decoded records."""
        return "internal" if self.decode == "internal" else self.table


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name as Spark's documentation writes it, the field it fills, how its text is read."""

    name: str
    field: str
    parse: Callable[[str], Any]
    default: str
    meaning: str


def _text_list(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("must be a comma separated list of names")
    return names


def _topics(text: str) -> frozenset[str]:
    return frozenset(_text_list(text))


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def _one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        for name in names:
            if name.lower() == text.lower():
                return name
        raise ValueError(f"must be one of {', '.join(names)}")

    return parse


def _timestamp(text: str) -> int:
    """Read a time: milliseconds since 1970, or a date.

    >>> _timestamp("2025-10-09T12:00Z") == _timestamp("1760011200000")
    True
    """
    found = parse_time(text)
    if not 0 <= found < 10**18:
        raise ValueError("must be milliseconds since 1970, or a date such as 2026-01-31T12:00:00Z")
    return found


def _timestamps(text: str) -> PartitionOffsets:
    form = 'JSON such as {"topic": {"0": 1763700000000}}, or with dates, {"topic": {"0": "2025-10-09T12:00Z"}},'
    given = _json_object(text, form)
    if not all(isinstance(partitions, dict) for partitions in given.values()):
        raise ValueError(f"must be {form}")
    plain = {
        topic: {name: _timestamp(time) if isinstance(time, str) else time for name, time in partitions.items()}
        for topic, partitions in given.items()
    }
    times = parse_offsets(json.dumps(plain))
    if min(times.values(), default=0) < 0:
        raise ValueError(f"must be {form}, milliseconds since 1970")
    return times


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError("must be a whole number above 0")
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
    """Read Spark's JSON of topic partitions.

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
    """Read Spark's JSON of offsets: -2 is the earliest, -1 the latest.

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


def _starting(text: str) -> int | PartitionOffsets:
    if text.strip().lower() == "earliest":
        return EARLIEST
    return LATEST if text.strip().lower() == "latest" else parse_offsets(text)


def _ending(text: str) -> int | PartitionOffsets:
    if text.strip().lower() == "latest":
        return LATEST
    if text.strip().lower() == "earliest":
        raise ValueError("a batch read cannot end at earliest: must be latest or JSON")
    offsets = parse_offsets(text)
    if EARLIEST in offsets.values():
        raise ValueError("a batch read cannot end at -2 (earliest)")
    return offsets


_ROWS = (
    Option("path", "paths", str, "", "a log directory, topic partition directory, segment file or glob"),
    Option("paths", "paths", str, "", "the JSON list that Spark makes of load([...])"),
    Option("subscribe", "subscribe", _topics, "", "topics to read, comma separated"),
    Option("subscribePattern", "subscribe_pattern", _pattern, "", "a regular expression for whole topic names"),
    Option("assign", "assign", parse_assign, "", 'topic partitions to read: {"orders": [0, 1]}'),
    Option(
        "startingOffsets",
        "starting",
        _starting,
        "earliest",
        'earliest, or {"orders": {"0": 23, "1": -2}}',
    ),
    Option("endingOffsets", "ending", _ending, "latest", 'latest, or {"orders": {"0": 50, "1": -1}}; exclusive'),
    Option(
        "startingTimestamp",
        "starting_timestamp",
        _timestamp,
        "",
        "ms since 1970, or 2025-10-09T12:00Z; stronger than the next one",
    ),
    Option(
        "startingOffsetsByTimestamp",
        "starting_by_timestamp",
        _timestamps,
        "",
        '{"orders": {"0": 1763700000000}}; stronger than startingOffsets',
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "no_match",
        _one_of(STRATEGIES),
        "error",
        "where no record is at or after the timestamp: error, or latest (nothing is read)",
    ),
    Option(
        "endingTimestamp",
        "ending_timestamp",
        _timestamp,
        "",
        "ms since 1970, or 2025-10-09T12:00Z; stronger than the next one",
    ),
    Option(
        "endingOffsetsByTimestamp",
        "ending_by_timestamp",
        _timestamps,
        "",
        '{"orders": {"0": 1763700000000}}; stronger than endingOffsets',
    ),
    Option(
        "failOnDataLoss", "fail_on_data_loss", _boolean, "true", "offsets asked for that the log has lost are an error"
    ),
    Option(
        "isolation",
        "isolation",
        _one_of(ISOLATIONS),
        "read_uncommitted",
        "read_committed: no record of an aborted transaction, and none from the first open one on",
    ),
    Option("columns", "columns", _text_list, "", "the columns of the result, in this order; others are not decoded"),
    Option("includeHeaders", "include_headers", _boolean, "false", "adds the column headers"),
    Option("includeControlRecords", "include_control", _boolean, "false", "transaction markers become rows too"),
    Option("includeInternalTopics", "include_internal", _boolean, "false", "reads __consumer_offsets and its kind too"),
    Option("decode", "decode", _one_of(DECODERS), "none", "internal: Kafka's own topics only, decoded (see below)"),
    Option(
        "replicas",
        "replicas",
        _one_of(REPLICAS),
        "merge",
        "copies of a partition: one log of them; or all, with source",
    ),
    Option("table", "table", _one_of(TABLES), "records", "a row for each of these: records, batches, segments"),
    Option("deepIteration", "deep", _boolean, "false", "batches: opens each; segments: walks all headers"),
    Option(
        "mode", "mode", _one_of(MODES), "PERMISSIVE", "what to do with damage: PERMISSIVE, DROPMALFORMED or FAILFAST"
    ),
    Option("verifyCrc", "verify_crc", _boolean, "true", "checks each batch's checksum"),
    Option(
        "budgetBytes",
        "budget_bytes",
        parse_size,
        "256m",
        "the most memory of a task for batches that are open at once; one that needs more is opened alone",
    ),
    Option(
        "keyFile",
        "key_files",
        _text_list,
        "",
        "tiered: private RSA keys (PEM), [id=]path, comma separated, on each worker",
    ),
    Option("followLinks", "follow_links", _boolean, "false", "reads what symbolic links under the paths lead to"),
    Option("minPartitions", "min_partitions", _positive, "1", "cuts the input into at least about this many tasks"),
    Option("maxBytesPerPartition", "max_bytes_per_partition", parse_size, "128m", "the most bytes of log in one task"),
    Option(
        "maxOffsetsPerTrigger", "max_offsets_per_trigger", _positive, "", "streams: the most offsets of a micro-batch"
    ),
    Option(
        "maxBytesPerTrigger",
        "max_bytes_per_trigger",
        parse_size,
        "",
        "streams: the most bytes of log of a micro-batch; one batch of each partition is always taken",
    ),
)
OPTIONS: Mapping[str, Option] = {option.name.lower(): option for option in _ROWS}

# Options of Spark's Kafka source that speak to a broker; files have none.
_BROKER_OPTIONS = (
    "groupidprefix",
    "kafkaconsumer.polltimeoutms",
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
)


def _by_known_name(options: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, text in options.items():
        lower = name.lower()
        if lower not in OPTIONS:
            raise OptionError(_unknown(name, lower))
        given[lower] = text
    return given


def _unknown(name: str, lower: str) -> str:
    if lower.startswith("kafka.") or lower in _BROKER_OPTIONS:
        return f"option {name} is for a broker; kafka-log reads the files of a log and asks no broker"
    near = difflib.get_close_matches(lower, [*OPTIONS, *STORAGE_NAMES], n=1, cutoff=0.6)
    if near:
        known = OPTIONS[near[0]].name if near[0] in OPTIONS else near[0]
        return f"unknown option {name}: did you mean {known}?"
    return f"unknown option {name}; kafka-log knows {', '.join(option.name for option in _ROWS)}"


def _parsed(option: Option, text: str) -> Any:
    try:
        return option.parse(text)
    except ValueError as error:
        raise OptionError(f"option {option.name}={text}: {error}") from None


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    paths = [given["path"]] if given.get("path") else []
    if given.get("paths"):
        try:
            more = json.loads(given["paths"])
        except ValueError:
            more = None
        if not isinstance(more, list) or not all(isinstance(path, str) and path for path in more):
            raise OptionError(f"option paths={given['paths']}: must be a JSON list of paths")
        paths += more
    if not paths:
        raise OptionError('kafka-log needs a path: spark.read.format("kafka-log").load("/var/lib/kafka/data")')
    return tuple(paths)


def topics_option(topics: Sequence[str]) -> dict[str, str]:
    """Return topics, names or patterns as a shell has them, as an option of ``kafka-log``."""
    if not topics:
        return {}
    if not any(map(has_magic, topics)):
        return {"subscribe": ",".join(topics)}
    return {"subscribePattern": "|".join(map(translate, topics))}
