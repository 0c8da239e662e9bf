"""Start and end of a read: values, rules and error messages, shared by logs and live topics. No I/O.

``start`` and ``end`` are EARLIEST or LATEST for all topic partitions, an offset for each, or the first record at or
after a time. Live topics can also be read from the committed offsets of a group. The end is exclusive. Messages name
settings in backticks; interfaces with other names for these settings translate them
(``errors.exceptions.rename_settings``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kafkaframes.errors import OptionError
from kafkaframes.scan.where import Instant, to_milliseconds
from kafkaframes.wire.integers import MAX_INT64, MIN_INT64

EARLIEST, LATEST = -2, -1
NO_START, NO_END = MIN_INT64, MAX_INT64  # bounds of an offset range that has no start, and of one that has no end
_EARLIEST, _LATEST, _GROUP = "earliest", "latest", "group:"
Name = tuple[str, int]  # topic and partition
PartitionOffsets = Mapping[Name, int]
Nested = dict[str, dict[str, int]]
_Value = TypeVar("_Value")
_Key = TypeVar("_Key")  # a topic partition
Assignment = Mapping[str, tuple[int, ...]]  # partition numbers by topic
TimeLookup = Callable[[PartitionOffsets], Mapping[Name, int | None]]


@dataclass(frozen=True, slots=True)
class TimeBound:
    """The first record at or after a time, in milliseconds since 1970: one time for all partitions, or one for each."""

    times: int | PartitionOffsets


@dataclass(frozen=True, slots=True)
class GroupBound:
    """The committed offsets of a consumer group, and the earliest offset of partitions without a committed offset."""

    group_id: str


Bound = int | PartitionOffsets | TimeBound
Position = int | Instant  # a number is an offset
Limit = Position | Mapping[str, Mapping[int, Position]] | None


def to_bound(setting: str, value: Limit, *, unset: int) -> Bound | GroupBound:
    """Convert a user's ``start`` or ``end`` to a bound.

    >>> to_bound("start", "1970-01-02", unset=EARLIEST)
    TimeBound(times=86400000)
    >>> to_bound("end", {"orders": {0: 5}}, unset=LATEST)
    {('orders', 0): 5}

    Args:
        setting: Name of the setting.
        value: ``earliest``, ``latest``, ``group:NAME``, a time, an offset; or an offset or a time for each partition of
            each topic.
        unset: Result for None.

    Raises:
        OptionError: The value has none of these forms, or has offsets for some partitions and times for others.
    """
    if value is None:
        return unset
    if isinstance(value, Mapping):
        by_partition = {(topic, number): limit for topic, numbers in value.items() for number, limit in numbers.items()}
        offset_count = sum(isinstance(limit, int) for limit in by_partition.values())
        if offset_count == len(by_partition):
            return {name: _check_offset(setting, limit) for name, limit in by_partition.items()}
        if offset_count:
            raise OptionError(
                f"`{setting}` has offsets and times; expected offsets for all partitions, or times for all"
            )
        return TimeBound({name: to_milliseconds(limit) for name, limit in by_partition.items()})
    if isinstance(value, int):
        return _check_offset(setting, value)
    if value in (_EARLIEST, _LATEST):
        return EARLIEST if value == _EARLIEST else LATEST
    if isinstance(value, str) and value.startswith(_GROUP):
        return GroupBound(value.removeprefix(_GROUP))
    try:
        return TimeBound(to_milliseconds(value))
    except OptionError as error:
        raise OptionError(f"`{setting}`: {error}, or earliest, latest or an offset") from None


def to_log_bound(setting: str, value: Limit, *, unset: int) -> Bound:
    """Convert a user's ``start`` or ``end`` to a bound of a log, as ``to_bound`` does.

    Raises:
        OptionError: The value is invalid, or is a group.
    """
    bound = to_bound(setting, value, unset=unset)
    if isinstance(bound, GroupBound):
        raise OptionError(f"`{setting}` of a log cannot be a group: only live topics have groups")
    return bound


def get_common_offset(bound: Bound, *, unset: int | None = None) -> int | None:
    """Return the offset of a bound with one offset for all partitions; ``unset`` for any other bound."""
    return bound if isinstance(bound, int) and bound >= 0 else unset


def get_common_time(bound: Bound, *, unset: int | None = None) -> int | None:
    """Return the time of a bound with one time for all partitions, in milliseconds; ``unset`` for any other bound."""
    return bound.times if isinstance(bound, TimeBound) and isinstance(bound.times, int) else unset


def _check_offset(setting: str, value: object) -> int:
    """Return a start or end offset, after a check that it is at least 0."""
    if not isinstance(value, int) or value < 0:
        raise OptionError(f"`{setting}` is {value!r}; expected an offset of at least 0, earliest or latest")
    return value


def check_partitions(numbers: Iterable[int], existing: Collection[int]) -> None:
    """Check that each partition number exists in a selected topic.

    Raises:
        OptionError: A partition number does not exist.
    """
    if missing_partitions := sorted(set(numbers) - set(existing)):
        missing_list = ", ".join(map(str, missing_partitions))
        raise OptionError(f"`partitions`: no selected topic has the partition {missing_list}")


def expand_bound(setting: str, bound: Bound, names: Collection[Name]) -> dict[Name, int]:
    """Return the bound of each topic partition: an offset, EARLIEST, LATEST or a time.

    Raises:
        OptionError: The bound lacks a topic partition in ``names``, or contains one that is not in ``names``. As in
            Spark's Kafka source, a forgotten partition must neither be read whole nor be ignored silently.
    """
    values = bound.times if isinstance(bound, TimeBound) else bound
    if isinstance(values, int):
        return dict.fromkeys(names, values)
    option, is_time = _format_setting_name(setting, bound), isinstance(bound, TimeBound)
    if missing_partitions := sorted(set(names) - set(values)):
        kind, advice = ("a time", "") if is_time else ("an offset", "; use -2 for earliest, -1 for latest")
        raise OptionError(f"{option} requires {kind} for {_format_partitions(missing_partitions)}{advice}")
    if extra := sorted(set(values) - set(names)):
        raise OptionError(f"{option} contains {_format_partitions(extra)}, which the read does not select")
    return {name: values[name] for name in names}


def resolve_bound(
    setting: str, bound: Bound, names: Collection[Name], *, find: TimeLookup, no_match: str = "latest"
) -> dict[Name, int]:
    """Resolve a start or end to an offset, EARLIEST or LATEST for each topic partition.

    Args:
        setting: ``start`` or ``end``.
        bound: Value of the setting.
        names: Topic partitions to read.
        find: Function that returns, for each partition, the offset of the first record at or after a time; None if
            there is no such record.
        no_match: Handling of a partition without a record at or after its time: ``latest`` or ``error``.

    Raises:
        OptionError: As for ``expand_bound``; or a time is later than every record and ``no_match`` is ``error``.
    """
    values = expand_bound(setting, bound, names)
    if not isinstance(bound, TimeBound):
        return values
    offsets = find(values)
    late = sorted(name for name in names if offsets[name] is None)
    if late and no_match == "error":
        raise OptionError(
            f"{_format_setting_name(setting, bound)}: {_format_partitions(late)} has no record at or after the time; "
            "`no_match`=latest reads only later records"
        )
    return {name: LATEST if (offset := offsets[name]) is None else offset for name in names}


def limit_common_offsets(
    bound: object, offsets: Mapping[_Key, int], bounds: Callable[[], tuple[Mapping[_Key, int], Mapping[_Key, int]]]
) -> dict[_Key, int]:
    """Return ``offsets``, limited to the end of empty partitions if one number was specified for all partitions.

    An empty partition has lost no records, so a number beyond its end is not an error.

    Args:
        bound: Start or end of the read.
        offsets: The bound's offset in each partition.
        bounds: Function that returns the first and the end offset of each partition. The function is called if the
            bound is a number.
    """
    if not isinstance(bound, int) or bound < 0:
        return dict(offsets)
    firsts, ends = bounds()
    return {name: min(offset, ends[name]) if firsts[name] == ends[name] else offset for name, offset in offsets.items()}


def restrict_bound(bound: Bound, names: Collection[Name]) -> Bound:
    """Return a bound without entries for topic partitions that are not in ``names``."""
    values = bound.times if isinstance(bound, TimeBound) else bound
    if isinstance(values, int):
        return bound
    values_in_names = {name: value for name, value in values.items() if name in names}
    return TimeBound(values_in_names) if isinstance(bound, TimeBound) else values_in_names


def check_batch_start(start: Bound | GroupBound) -> None:
    """Check that a batch read does not start at latest.

    Raises:
        OptionError: The start is latest, which only a stream supports.
    """
    if start == LATEST or (isinstance(start, Mapping) and LATEST in start.values()):
        raise OptionError("`start`: a batch read cannot start at latest (-1): must be earliest, offsets or a time")


def nest_by_topic(values: Mapping[Name, _Value]) -> dict[str, dict[str, _Value]]:
    """Return values of topic partitions, such as offsets, in the JSON form of Spark's Kafka source.

    >>> nest_by_topic({("orders", 1): 7, ("orders", 0): 5})
    {'orders': {'0': 5, '1': 7}}
    """
    by_topic: dict[str, dict[str, _Value]] = {}
    for (topic, partition), value in sorted(values.items(), key=lambda item: item[0]):
        by_topic.setdefault(topic, {})[str(partition)] = value
    return by_topic


def flatten_topics(offsets: Mapping[str, Mapping[str, int]]) -> dict[Name, int]:
    """Return values by topic partition from the JSON form that ``nest_by_topic`` creates."""
    return {(topic, int(number)): offset for topic, numbers in offsets.items() for number, offset in numbers.items()}


def describe_offset_below_start(name: object, offset: int, first: int) -> str:
    """Return the message for a read from ``offset``, which is below the log start offset ``first``."""
    return f"offsets {offset} to {first - 1} of {name} are lost to retention or DeleteRecords"


def describe_offset_beyond_end(name: object, offset: int, end: int) -> str:
    """Return the message for an ``offset`` beyond the end offset of a topic partition."""
    return f"offset {offset} of {name} is beyond the log's end {end}"


def describe_truncation(name: object, offset: int, end: int | None) -> str:
    """Return the message for a topic partition that ends below a stream's offset; ``end`` is None if it was deleted."""
    state = "no longer exists" if end is None else f"ends at {end}: it was truncated or recreated"
    return f"topic partition {name}, read up to offset {offset}, {state}"


def describe_deselection(name: object, offset: int) -> str:
    """Return the message for a topic partition in a checkpoint that the query's options no longer select."""
    return (
        f"topic partition {name}, read up to offset {offset}, is in the checkpoint, but the options of the query no "
        "longer select it"
    )


def describe_lost_start(name: object, first: int) -> str:
    """Return the message for a partition that is new to a stream and does not start at offset 0."""
    return (
        f"topic partition {name} was added after the query's last micro-batch and begins at offset {first}: offsets 0 "
        f"to {first - 1} are lost to retention or DeleteRecords"
    )


def describe_recreation(topic: str, old_id: str, new_id: str) -> str:
    """Return the message for a topic that was deleted and created again after a checkpoint was written."""
    return (
        f"topic {topic} was deleted and recreated after the checkpoint was written (its id was {old_id}, and is "
        f"{new_id} now): "
        "records that were not read before are lost. Start with a new checkpoint; if a backup was restored with its "
        "offsets, `kafkaframes checkpoint convert` writes the checkpoint without ids"
    )


def describe_replaced_log(name: object, offset: int, expected: object, actual: object) -> str:
    """Return the message for a partition whose record at an offset differs from the one in the checkpoint."""
    return (
        f"{name} is not the log from which the checkpoint was written: at offset {offset} the checkpoint has a record "
        f"with {expected}, and the log has one with {actual}. The topic was deleted and created again, or its log was "
        "truncated and has grown again. Use the log of the checkpoint, or start with a new checkpoint"
    )


def report_loss(problem: str, *, fail: bool) -> None:
    """Report that records of the requested range are lost, as an error or as a warning.

    Raises:
        OptionError: ``fail`` (the setting ``fail_on_data_loss``) is set.
    """
    if fail:
        raise OptionError(f"{problem}; `fail_on_data_loss`=false reads the existing records")
    import logging  # this import takes 4 ms, and commands that read no range do not need it

    logging.getLogger("kafkaframes.scan").warning("%s; the existing records are read", problem)


def format_partition(name: Name) -> str:
    """Return a topic partition as Kafka writes it.

    >>> format_partition(("orders", 3))
    'orders-3'
    """
    return f"{name[0]}-{name[1]}"


def _format_setting_name(setting: str, bound: Bound) -> str:
    """Return the name of the option that sets a bound, for messages."""
    if not isinstance(bound, TimeBound):
        return f"`{setting}`"
    return f"`{setting}_time`" if isinstance(bound.times, int) else f"`{setting}_times`"


def _format_partitions(names: Iterable[Name]) -> str:
    """Return up to ten topic partitions as text, and the number of the others."""
    texts = [format_partition(name) for name in names]
    return ", ".join(texts[:10]) + (f" and {len(texts) - 10} more" if len(texts) > 10 else "")


def limit_offsets(begins: Mapping[_Key, int], ends: dict[_Key, int], max_offsets: int) -> dict[_Key, int]:
    """Return the end offsets, limited to ``max_offsets`` offsets in total.

    Each partition's share is proportional to its backlog.

    A partition with a small backlog gets at least one offset, as in Spark's Kafka source
    (``KafkaMicroBatchStream.rateLimit``).

    >>> limit_offsets({"a": 0, "b": 0}, {"a": 900, "b": 100}, 100)
    {'a': 90, 'b': 10}
    """
    total = sum(ends[name] - begins[name] for name in ends)
    if total <= max_offsets:
        return ends
    shares = {name: max_offsets * (ends[name] - begins[name]) / total for name in ends}
    return {
        name: min(ends[name], begins[name] + (int(share) if share >= 1 else int(share > 0)))
        for name, share in shares.items()
    }
