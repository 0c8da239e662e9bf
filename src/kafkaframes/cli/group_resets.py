"""Turn the options of ``groups reset`` into the offsets from which a group goes on, as kafka-consumer-groups does."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaframes.cli.connecting import pairs_of, place_of
from kafkaframes.cli.text import milliseconds
from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.client import Admin, TopicPartition

    Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The arguments and options of ``groups reset``."""

    group: str
    offsets: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    all_topics: bool = False
    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: int | None = None
    to_datetime: str | None = None
    shift_by: int | None = None
    from_file: str | None = None

    @property
    def ways(self) -> list[str]:
        """The names of the ways to choose offsets that were given."""
        flags = [name for name in ("to_earliest", "to_latest", "to_current") if getattr(self, name)]
        values = ("to_offset", "to_datetime", "shift_by")
        return flags + [name for name in values if getattr(self, name) is not None]


def resets(admin: Admin, wanted: Wanted) -> Offsets:
    """Return the offset at which each partition is to be read on.

    Raises:
        OptionError: several ways at once, none for the topics that are named, or a text that is no offset.
    """
    found = _named(admin, wanted.offsets)
    if wanted.from_file is not None:
        found |= _in_file(wanted.from_file, wanted.group)
    if not (wanted.topics or wanted.all_topics):
        if wanted.ways:
            raise OptionError("of which topics? --topic TOPIC or --all-topics")
        return found
    if len(wanted.ways) != 1:
        raise OptionError("choose one of --to-earliest, --to-latest, --to-offset, --to-datetime, --shift-by ...")
    places = list(admin.group_offsets(wanted.group)) if wanted.all_topics else []
    places += [one for one in places_of(admin, wanted.topics) if one not in places]
    return found | (_WAYS[wanted.ways[0]](admin, wanted, places) if places else {})


def places_of(admin: Admin, topics: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of ``TOPIC`` (all) or ``TOPIC:N,N``.

    Raises:
        OptionError: one is not a number.
    """
    from kafkaframes.client import TopicPartition

    found = []
    for text in topics:
        topic, _, numbers = text.partition(":")
        if numbers and not all(one.isdecimal() for one in numbers.split(",")):
            raise OptionError(f"{text}: must be TOPIC:N,N, with numbers of partitions")
        known = sorted(admin.describe_topics([topic])[topic].partitions)
        found += [TopicPartition(topic, int(one)) for one in (numbers.split(",") if numbers else known)]
    return found


def _named(admin: Admin, texts: tuple[str, ...]) -> Offsets:
    from kafkaframes.client import EARLIEST, LATEST, TopicPartition

    found = {}
    for place, text in pairs_of(texts).items():
        partition = TopicPartition(*place_of(place))
        special = {"earliest": EARLIEST, "latest": LATEST}.get(text)
        if special is not None:
            found[partition] = admin.list_offsets({partition: special})[partition]
        elif text.isdecimal():
            found[partition] = int(text)
        else:
            raise OptionError(f"{place}={text}: must be an offset, earliest or latest")
    return found


def _in_file(path: str, group: str) -> Offsets:
    from kafkaframes.client import TopicPartition

    found = {}
    with open(path, newline="", encoding="utf-8", errors="backslashreplace") as file:
        for number, row in enumerate(csv.reader(file), 1):
            *name, topic, partition, offset = row if len(row) in (3, 4) else ("", "", "", "")
            if not (partition.isdecimal() and offset.isdecimal()):
                raise OptionError(f"{path}: line {number}: must be group,topic,partition,offset")
            if not name or name == [group]:
                found[TopicPartition(topic, int(partition))] = int(offset)
    return found


def _to_end(which: int) -> Callable[[Admin, Wanted, list[TopicPartition]], Offsets]:
    return lambda admin, wanted, places: admin.list_offsets(dict.fromkeys(places, which))


def _to_current(admin: Admin, wanted: Wanted, places: list[TopicPartition]) -> Offsets:
    committed = admin.group_offsets(wanted.group)
    return {place: committed[place].offset for place in places if place in committed}


def _to_offset(admin: Admin, wanted: Wanted, places: list[TopicPartition]) -> Offsets:
    return _within(admin, dict.fromkeys(places, wanted.to_offset or 0))


def _to_datetime(admin: Admin, wanted: Wanted, places: list[TopicPartition]) -> Offsets:
    at = milliseconds(wanted.to_datetime or "")
    found, ends = admin.list_offsets(dict.fromkeys(places, at)), admin.list_offsets(dict.fromkeys(places, -1))
    return {place: ends[place] if found[place] < 0 else found[place] for place in places}


def _shift_by(admin: Admin, wanted: Wanted, places: list[TopicPartition]) -> Offsets:
    current = _to_current(admin, wanted, places)
    return _within(admin, {place: offset + (wanted.shift_by or 0) for place, offset in current.items()})


def _within(admin: Admin, wanted: Offsets) -> Offsets:
    """Keep offsets between the first and the end of their logs, as kafka-consumer-groups does."""
    from kafkaframes.client import EARLIEST, LATEST

    starts, ends = (admin.list_offsets(dict.fromkeys(wanted, which)) for which in (EARLIEST, LATEST))
    return {place: min(max(offset, starts[place]), ends[place]) for place, offset in wanted.items()}


_WAYS: dict[str, Callable[[Admin, Wanted, list[TopicPartition]], Offsets]] = {
    "to_earliest": _to_end(-2),
    "to_latest": _to_end(-1),
    "to_current": _to_current,
    "to_offset": _to_offset,
    "to_datetime": _to_datetime,
    "shift_by": _shift_by,
}
