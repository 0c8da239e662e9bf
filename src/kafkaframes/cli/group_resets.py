"""Turn the options of ``groups reset`` into the offsets from which a group goes on, as kafka-consumer-groups does."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaframes.cli.connecting import pairs_of, topic_partition_of
from kafkaframes.cli.text import milliseconds
from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.client import Admin, TopicPartition

    Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, kw_only=True)
class ResetOptions:
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
    def targets(self) -> list[str]:
        """The options that say where to, as far as there are."""
        flags = [name for name in ("to_earliest", "to_latest", "to_current") if getattr(self, name)]
        values = ("to_offset", "to_datetime", "shift_by")
        return flags + [name for name in values if getattr(self, name) is not None]


def resets(admin: Admin, options: ResetOptions) -> Offsets:
    """Return the offset at which each partition is to be read on.

    Raises:
        OptionError: several options that say where to, none for the topics that are named, or a text that is no offset.
    """
    offsets = _named(admin, options.offsets)
    if options.from_file is not None:
        offsets |= _in_file(options.from_file, options.group)
    if not (options.topics or options.all_topics):
        if options.targets:
            raise OptionError("choose topics: --topic TOPIC or --all-topics")
        return offsets
    if len(options.targets) != 1:
        raise OptionError("choose one of --to-earliest, --to-latest, --to-offset, --to-datetime, --shift-by ...")
    partitions = list(admin.group_offsets(options.group)) if options.all_topics else []
    partitions += [one for one in partitions_of(admin, options.topics) if one not in partitions]
    return offsets | (_TARGETS[options.targets[0]](admin, options, partitions) if partitions else {})


def partitions_of(admin: Admin, topics: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of ``TOPIC`` (all) or ``TOPIC:N,N``.

    Raises:
        OptionError: one is not a number.
    """
    from kafkaframes.client import TopicPartition

    partitions = []
    for text in topics:
        topic, _, numbers = text.partition(":")
        if numbers and not all(one.isdecimal() for one in numbers.split(",")):
            raise OptionError(f"{text}: must be TOPIC:N,N, with numbers of partitions")
        known = sorted(admin.describe_topics([topic])[topic].partitions)
        partitions += [TopicPartition(topic, int(one)) for one in (numbers.split(",") if numbers else known)]
    return partitions


def _named(admin: Admin, texts: tuple[str, ...]) -> Offsets:
    from kafkaframes.client import EARLIEST, LATEST, TopicPartition

    offsets = {}
    for name, text in pairs_of(texts).items():
        partition = TopicPartition(*topic_partition_of(name))
        special = {"earliest": EARLIEST, "latest": LATEST}.get(text)
        if special is not None:
            offsets[partition] = admin.list_offsets({partition: special})[partition]
        elif text.isdecimal():
            offsets[partition] = int(text)
        else:
            raise OptionError(f"{name}={text}: must be an offset, earliest or latest")
    return offsets


def _in_file(path: str, group: str) -> Offsets:
    from kafkaframes.client import TopicPartition

    offsets = {}
    with open(path, newline="", encoding="utf-8", errors="backslashreplace") as file:
        for number, row in enumerate(csv.reader(file), 1):
            *name, topic, partition, offset = row if len(row) in (3, 4) else ("", "", "", "")
            if not (partition.isdecimal() and offset.isdecimal()):
                raise OptionError(f"{path}: line {number}: must be group,topic,partition,offset")
            if not name or name == [group]:
                offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def _to_end(which: int) -> Callable[[Admin, ResetOptions, list[TopicPartition]], Offsets]:
    return lambda admin, options, partitions: admin.list_offsets(dict.fromkeys(partitions, which))


def _to_current(admin: Admin, options: ResetOptions, partitions: list[TopicPartition]) -> Offsets:
    committed = admin.group_offsets(options.group)
    return {partition: committed[partition].offset for partition in partitions if partition in committed}


def _to_offset(admin: Admin, options: ResetOptions, partitions: list[TopicPartition]) -> Offsets:
    return _within(admin, dict.fromkeys(partitions, options.to_offset or 0))


def _to_datetime(admin: Admin, options: ResetOptions, partitions: list[TopicPartition]) -> Offsets:
    at = milliseconds(options.to_datetime or "")
    offsets, ends = admin.list_offsets(dict.fromkeys(partitions, at)), admin.list_offsets(dict.fromkeys(partitions, -1))
    return {partition: ends[partition] if offsets[partition] < 0 else offsets[partition] for partition in partitions}


def _shift_by(admin: Admin, options: ResetOptions, partitions: list[TopicPartition]) -> Offsets:
    current = _to_current(admin, options, partitions)
    return _within(admin, {partition: offset + (options.shift_by or 0) for partition, offset in current.items()})


def _within(admin: Admin, offsets: Offsets) -> Offsets:
    """Keep offsets between the first and the end of their logs, as kafka-consumer-groups does."""
    from kafkaframes.client import EARLIEST, LATEST

    starts, ends = (admin.list_offsets(dict.fromkeys(offsets, which)) for which in (EARLIEST, LATEST))
    return {partition: min(max(offset, starts[partition]), ends[partition]) for partition, offset in offsets.items()}


_TARGETS: dict[str, Callable[[Admin, ResetOptions, list[TopicPartition]], Offsets]] = {
    "to_earliest": _to_end(-2),
    "to_latest": _to_end(-1),
    "to_current": _to_current,
    "to_offset": _to_offset,
    "to_datetime": _to_datetime,
    "shift_by": _shift_by,
}
