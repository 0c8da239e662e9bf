"""The selection of records for a function or job: topics, partitions, range, isolation level and damage handling.

Every reader creates a ``Selection`` from its keyword arguments and plans with it, so that a keyword means the same
everywhere (docs/selecting.md). ``READER_DEFAULTS`` contains the defaults of all readers. A test compares their
signatures with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol

from kafkaframes.errors import OptionError
from kafkaframes.records.reasons import ON_DAMAGE
from kafkaframes.scan.ranges import EARLIEST, LATEST, Assignment, Bound, GroupBound, Limit, to_bound, to_log_bound
from kafkaframes.storage.files.filesystem import has_wildcard

Isolation = Literal["read_committed", "read_uncommitted"]
OnDamage = Literal["keep", "drop", "fail"]
ISOLATIONS: Final = ("read_committed", "read_uncommitted")


@dataclass(frozen=True, slots=True)
class ReaderDefaults:
    """A reader's default settings.

    Attributes:
        isolation: Isolation level. If None, it is ``read_committed`` for whole logs and ``read_uncommitted`` for
            single segments, whose transactions may begin in segments outside of the read.
        control_records: Whether control records are read.
        on_damage: ``keep``, ``drop`` or ``fail``.

    A reader that lacks one of these keywords always uses the value in this table.
    """

    isolation: Isolation | None
    control_records: bool
    on_damage: OnDamage


# Readers of DataFrames, exported files and tables rarely ask about transactions, so aborted records are omitted.
_FRAME_DEFAULTS: Final = ReaderDefaults(None, control_records=False, on_damage="keep")
_COMMITTED_FRAME_DEFAULTS: Final = ReaderDefaults("read_committed", control_records=False, on_damage="keep")
# A search, and Spark's source for logs, have the records of all transactions, as Kafka's tools and connector do.
_SEARCH_DEFAULTS: Final = ReaderDefaults("read_uncommitted", control_records=False, on_damage="keep")
# Inspection tools return or check all records.
_INSPECTION_DEFAULTS: Final = ReaderDefaults("read_uncommitted", control_records=True, on_damage="keep")
# A consumer raises at damage, because the records after it would otherwise be skipped without notice, and the next
# commit would lose them. Spark's source for topics is a consumer. Neither returns control records by default.
_CONSUMER_DEFAULTS: Final = ReaderDefaults("read_uncommitted", control_records=False, on_damage="fail")
# A copy of a log has all transactions with their markers, and must not lose data without an error.
_COPY_DEFAULTS: Final = ReaderDefaults("read_uncommitted", control_records=True, on_damage="fail")
READER_DEFAULTS: Final[Mapping[str, ReaderDefaults]] = MappingProxyType(
    {
        "scan_log": _FRAME_DEFAULTS,
        "scan_topic": _COMMITTED_FRAME_DEFAULTS,
        "export_log": _FRAME_DEFAULTS,
        "export_topics": _COMMITTED_FRAME_DEFAULTS,
        "table_log": _COMMITTED_FRAME_DEFAULTS,
        "table_topics": _COMMITTED_FRAME_DEFAULTS,
        "grep_log": _SEARCH_DEFAULTS,
        "read_records": _INSPECTION_DEFAULTS,
        "dump_log": _INSPECTION_DEFAULTS,
        "verify_log": _INSPECTION_DEFAULTS,
        "convert_log": _COPY_DEFAULTS,
        "recompress_log": _COPY_DEFAULTS,
        "compact_log": _COPY_DEFAULTS,
        "restore_log": _COPY_DEFAULTS,
        "mirror_topics": _COPY_DEFAULTS,
        "Consumer": _CONSUMER_DEFAULTS,
        "kafka-topic": _CONSUMER_DEFAULTS,
        "kafka-log": _SEARCH_DEFAULTS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The records to read.

    Attributes:
        topics: Topic names or patterns. Empty: all topics except Kafka's internal topics.
        partitions: Partition numbers in each topic. Empty: all.
        start: First offset or time. If None, reading starts at the earliest offset.
        end: Offset or time of the end, exclusive. If None, reading ends at the latest offset.
        isolation: Isolation level. If None, it is ``read_committed`` for whole logs and ``read_uncommitted`` for
            single segments.
        control_records: Whether control records are read.
        on_damage: ``keep``, ``drop`` or ``fail``.

    Raises:
        OptionError: A setting has an invalid value.
    """

    topics: str | Sequence[str] = ()
    partitions: int | Sequence[int] = ()
    start: Limit = None
    end: Limit = None
    isolation: Isolation | None = None
    control_records: bool = False
    on_damage: OnDamage = "keep"

    def __post_init__(self) -> None:
        """Check the values."""
        check_choice("on_damage", self.on_damage, ON_DAMAGE)
        if self.isolation is not None:
            check_choice("isolation", self.isolation, ISOLATIONS)
        for number in self.partition_numbers or ():
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise OptionError(f"`partitions` contains {number!r}; expected partition numbers, 0 or greater")
        to_bound("start", self.start, unset=EARLIEST)
        if isinstance(to_bound("end", self.end, unset=LATEST), GroupBound):
            raise OptionError("`end` cannot be a group; only `start` can")

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The names and patterns."""
        return (self.topics,) if isinstance(self.topics, str) else tuple(self.topics)

    @property
    def partition_numbers(self) -> frozenset[int] | None:
        """The partition numbers; None for all."""
        numbers = (self.partitions,) if isinstance(self.partitions, int) else tuple(self.partitions)
        return frozenset(numbers) if numbers else None

    @property
    def log_range(self) -> tuple[Bound, Bound]:
        """Start and end of the range in a log.

        Raises:
            OptionError: ``start`` is a group. Only live topics have groups.
        """
        return to_log_bound("start", self.start, unset=EARLIEST), to_log_bound("end", self.end, unset=LATEST)

    @property
    def live_range(self) -> tuple[Bound | GroupBound, Bound]:
        """Start and end of the range in live topics."""
        return to_bound("start", self.start, unset=EARLIEST), to_log_bound("end", self.end, unset=LATEST)

    @property
    def needs_log(self) -> bool:
        """Whether the selection needs a topic partition's log: it has topics, partitions, times or read_committed."""
        is_range = all(isinstance(bound, int) for bound in self.log_range)
        return bool(self.topic_names or self.partition_numbers) or not is_range or self.isolation == "read_committed"

    def log_fields(self) -> dict[str, Any]:
        """Return the fields of ``scan.log.options.ReadOptions`` that the selection sets."""
        start, end = self.log_range
        return {
            **to_topic_options(self.topic_names),
            "partitions": self.partition_numbers,
            "start": start,
            "end": end,
            "isolation": self.isolation,
            "include_control": self.control_records,
            "on_damage": self.on_damage,
        }

    def topic_fields(self) -> dict[str, Any]:
        """Return the fields of ``scan.topic.options.TopicOptions`` that the selection sets.

        The isolation level is a setting of the client instead.
        """
        start, end = self.live_range
        return {
            **to_topic_options(self.topic_names),
            "partitions": self.partition_numbers,
            "start": start,
            "end": end,
            "include_control": self.control_records,
            "on_damage": self.on_damage,
        }


def check_choice(setting: str, value: object, choices: Sequence[str]) -> None:
    """Check that a setting has one of its valid values.

    Raises:
        OptionError: The value is not among ``choices``.
    """
    if value not in choices:
        raise OptionError(f"`{setting}` is {value!r}; expected {' or '.join(choices)}")


def to_topic_options(topics: Sequence[str]) -> dict[str, Any]:
    """Return topic names or shell patterns as a field of ``ReadOptions``; an empty dict for no topics.

    >>> to_topic_options(["orders"])
    {'subscribe': frozenset({'orders'})}
    """
    if not topics:
        return {}
    if not any(map(has_wildcard, topics)):
        return {"subscribe": frozenset(topics)}
    return {"subscribe_pattern": re.compile("|".join(map(translate, topics)))}


class PartitionOptions(Protocol):
    """The options of a read that select topic partitions: ``ReadOptions`` and ``TopicOptions``."""

    @property
    def subscribe(self) -> frozenset[str] | None:
        """Topic names."""

    @property
    def subscribe_pattern(self) -> re.Pattern[str] | None:
        """Regular expression for whole topic names."""

    @property
    def assign(self) -> Assignment | None:
        """Partition numbers by topic."""

    @property
    def partitions(self) -> frozenset[int] | None:
        """Partition numbers in each selected topic."""


def selects_partition(options: PartitionOptions, topic: str, number: int) -> bool:
    """Return whether options select a topic partition, which need not exist."""
    if options.partitions is not None and number not in options.partitions:
        return False
    if options.assign is not None:
        return number in options.assign.get(topic, ())
    if options.subscribe_pattern is not None:
        return options.subscribe_pattern.fullmatch(topic) is not None
    return options.subscribe is None or topic in options.subscribe
