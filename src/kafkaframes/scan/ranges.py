"""Where a read starts and ends: the values, the rules and the messages, for logs and live topics alike. No I/O.

``start`` and ``end`` of a read are EARLIEST or LATEST for all topic partitions, an offset for each of them, or the
first record at or after a time; a read of live topics may start where a group has committed, too. An end is exclusive.
Messages name settings in backticks; the layers that have other names for them translate (``errors.settings``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kafkaframes.errors import OptionError
from kafkaframes.scan.where import Instant, milliseconds

log = logging.getLogger("kafkaframes.spark")
EARLIEST, LATEST = -2, -1
NO_START, NO_END = -(2**63), 2**63 - 1  # an offset range without a first offset, and without an end
_EARLIEST, _LATEST, _GROUP = "earliest", "latest", "group:"
Name = tuple[str, int]  # of a topic partition
PartitionOffsets = Mapping[Name, int]
Nested = dict[str, dict[str, int]]
_Value = TypeVar("_Value")
_Key = TypeVar("_Key")  # of a topic partition
Assignment = Mapping[str, tuple[int, ...]]  # the partitions of topics
TimeLookup = Callable[[PartitionOffsets], Mapping[Name, int | None]]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after a time, in milliseconds since 1970: one for all partitions, or one for each."""

    times: int | PartitionOffsets


@dataclass(frozen=True, slots=True)
class AtGroup:
    """Where a consumer group has committed; the earliest offset where it has not."""

    group_id: str


Bound = int | PartitionOffsets | AtTime
Position = int | Instant  # an offset, where it is an int
Limit = Position | Mapping[str, Mapping[int, Position]] | None


def bound_of(setting: str, value: Limit, *, unset: int) -> Bound | AtGroup:
    """Return where a read starts or ends, as users write it.

    >>> bound_of("start", "1970-01-02", unset=EARLIEST)
    AtTime(times=86400000)
    >>> bound_of("end", {"orders": {0: 5}}, unset=LATEST)
    {('orders', 0): 5}

    Args:
        setting: its name.
        value: ``earliest``, ``latest``, ``group:NAME``, a time, an offset; or an offset or a time for each partition of
            each topic.
        unset: what None is.

    Raises:
        OptionError: it is none of these.
    """
    if value is None:
        return unset
    if isinstance(value, Mapping):
        by_partition = {(topic, number): at for topic, numbers in value.items() for number, at in numbers.items()}
        if all(isinstance(at, int) for at in by_partition.values()):
            return {name: _offset(setting, at) for name, at in by_partition.items()}
        return AtTime({name: milliseconds(at) for name, at in by_partition.items()})
    if isinstance(value, int):
        return _offset(setting, value)
    if value in (_EARLIEST, _LATEST):
        return EARLIEST if value == _EARLIEST else LATEST
    if isinstance(value, str) and value.startswith(_GROUP):
        return AtGroup(value.removeprefix(_GROUP))
    return AtTime(milliseconds(value))


def log_bound(setting: str, value: Limit, *, unset: int) -> Bound:
    """Return ``bound_of``, for a log.

    Raises:
        OptionError: as ``bound_of``; or it is a group.
    """
    bound = bound_of(setting, value, unset=unset)
    if isinstance(bound, AtGroup):
        raise OptionError(f"`{setting}` of a log cannot be a group: only live topics have groups")
    return bound


def _offset(setting: str, value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise OptionError(f"`{setting}`: offsets begin at 0, not at {value!r}; earliest and latest are text")
    return value


def check_partitions(numbers: Iterable[int], existing: Collection[int]) -> None:
    """Check that each partition number exists in a chosen topic.

    Raises:
        OptionError: one does not.
    """
    if missing := sorted(set(numbers) - set(existing)):
        listed = ", ".join(map(str, missing))
        raise OptionError(f"`partitions`: none of the chosen topics has the partition {listed}")


def per_partition(setting: str, bound: Bound, names: Collection[Name]) -> dict[Name, int]:
    """Return what ``bound`` says of each topic partition: an offset, EARLIEST, LATEST or a time.

    Raises:
        OptionError: it names other topic partitions than ``names``, or not all. Spark's Kafka source wants them all
            named as well: a partition that was forgotten must not be read whole, nor be left out in silence.
    """
    values = bound.times if isinstance(bound, AtTime) else bound
    if isinstance(values, int):
        return dict.fromkeys(names, values)
    timed = isinstance(bound, AtTime)
    if missing := sorted(set(names) - set(values)):
        kind, advice = ("time", "") if timed else ("offset", "; use -2 for earliest, -1 for latest")
        raise OptionError(f"{_setting(setting, bound)} names no {kind} for {_texts(missing)}{advice}")
    if extra := sorted(set(values) - set(names)):
        raise OptionError(
            f"{_setting(setting, bound)} names {_texts(extra)}, which is not among the topic partitions chosen"
        )
    return {name: values[name] for name in names}


def offsets_of(
    setting: str, bound: Bound, names: Collection[Name], *, find: TimeLookup, no_match: str = "latest"
) -> dict[Name, int]:
    """Return an offset, EARLIEST or LATEST for each topic partition.

    Args:
        setting: ``start`` or ``end``.
        bound: its value.
        names: the topic partitions that are read.
        find: returns the first offset at or after a time for each partition, None where there is none.
        no_match: what such a partition is: ``latest``, or ``error``.

    Raises:
        OptionError: as ``per_partition``, or a time is later than every record and ``no_match`` is ``error``.
    """
    values = per_partition(setting, bound, names)
    if not isinstance(bound, AtTime):
        return values
    offsets = find(values)
    late = sorted(name for name in names if offsets[name] is None)
    if late and no_match == "error":
        raise OptionError(
            f"{_setting(setting, bound)}: no record of {_texts(late)} is at or after the time; with `no_match`=latest "
            "none of the present records is read"
        )
    return {name: LATEST if (offset := offsets[name]) is None else offset for name in names}


def for_all(
    bound: object, offsets: Mapping[_Key, int], bounds: Callable[[], tuple[Mapping[_Key, int], Mapping[_Key, int]]]
) -> dict[_Key, int]:
    """Return offsets where one number for all partitions says nothing of those that are empty: these lose nothing.

    Args:
        bound: the start or the end of the read.
        offsets: what it is in each partition.
        bounds: returns the first offset and the end of each; called where the bound is a number.
    """
    if not isinstance(bound, int) or bound < 0:
        return dict(offsets)
    firsts, ends = bounds()
    return {name: min(at, ends[name]) if firsts[name] == ends[name] else at for name, at in offsets.items()}


def narrowed(bound: Bound, names: Collection[Name]) -> Bound:
    """Return a bound without what it says of other topic partitions than ``names``."""
    values = bound.times if isinstance(bound, AtTime) else bound
    if isinstance(values, int):
        return bound
    kept = {name: value for name, value in values.items() if name in names}
    return AtTime(kept) if isinstance(bound, AtTime) else kept


def check_batch_start(start: Bound | AtGroup) -> None:
    """Check where a read starts that is no stream.

    Raises:
        OptionError: at latest, which only a stream can.
    """
    if start == LATEST or (isinstance(start, Mapping) and LATEST in start.values()):
        raise OptionError("`start`: a batch read cannot start at latest (-1): must be earliest or offsets")


def nested(values: Mapping[Name, _Value]) -> dict[str, dict[str, _Value]]:
    """Return values of topic partitions, such as offsets, in the form of Spark's Kafka source, which is JSON's.

    >>> nested({("orders", 1): 7, ("orders", 0): 5})
    {'orders': {'0': 5, '1': 7}}
    """
    by_topic: dict[str, dict[str, _Value]] = {}
    for (topic, partition), value in sorted(values.items(), key=lambda item: item[0]):
        by_topic.setdefault(topic, {})[str(partition)] = value
    return by_topic


def flat(offsets: Mapping[str, Mapping[str, int]]) -> dict[Name, int]:
    """Undo ``nested``."""
    return {(topic, int(number)): at for topic, numbers in offsets.items() for number, at in numbers.items()}


def below_start(name: object, offset: int, first: int) -> str:
    """Say that a topic partition begins at ``first`` by now, and was to be read from ``offset``."""
    return f"offsets {offset} to {first - 1} of {name} are lost to retention or DeleteRecords"


def beyond_end(name: object, offset: int, end: int) -> str:
    """Say that a topic partition ends at ``end``, before ``offset``."""
    return f"offset {offset} of {name} is beyond the log's end {end}"


def was_cut(name: object, offset: int, end: int | None) -> str:
    """Say that a topic partition ends before what a stream has read of it; None: it is not there any more."""
    state = "has vanished" if end is None else f"ends at {end}: it was cut, or made anew"
    return f"topic partition {name}, read up to offset {offset}, {state}"


def lost_start(name: object, first: int) -> str:
    """Say that a topic partition is new to a stream, and does not begin at offset 0."""
    return (
        f"topic partition {name} was added after the query's last micro-batch and begins at offset {first}: offsets 0 "
        f"to {first - 1} are lost to retention or DeleteRecords"
    )


def was_made_anew(topic: str, then: str, now: str) -> str:
    """Say that a topic of a checkpoint is another one by now."""
    return (
        f"topic {topic} was deleted and made anew since the checkpoint was written (its id was {then} and is {now}): "
        "what was not read before is gone. Begin on a new checkpoint; where a backup was restored with its offsets, "
        "`kafkaframes checkpoint convert` writes the checkpoint without ids"
    )


def report_loss(problem: str, *, fail: bool) -> None:
    """Report that records are lost which were to be read.

    Raises:
        OptionError: ``fail`` (the setting ``fail_on_data_loss``); a warning otherwise.
    """
    if fail:
        raise OptionError(f"{problem}; `fail_on_data_loss`=false reads what is there")
    log.warning("%s; what is there is read", problem)


def text_of(name: Name) -> str:
    """Return a topic partition as Kafka writes it.

    >>> text_of(("orders", 3))
    'orders-3'
    """
    return f"{name[0]}-{name[1]}"


def _setting(setting: str, bound: Bound) -> str:
    if not isinstance(bound, AtTime):
        return f"`{setting}`"
    return f"`{setting}_time`" if isinstance(bound.times, int) else f"`{setting}_times`"


def _texts(names: Iterable[Name]) -> str:
    texts = [text_of(name) for name in names]
    return ", ".join(texts[:10]) + (f" and {len(texts) - 10} more" if len(texts) > 10 else "")


def limit_offsets(begins: Mapping[_Key, int], ends: dict[_Key, int], max_offsets: int) -> dict[_Key, int]:
    """Return ends with ``max_offsets`` offsets before them in all, each partition's in proportion to its backlog.

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
