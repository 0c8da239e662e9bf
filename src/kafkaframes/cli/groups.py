"""``kafkaframes groups``: list groups of every type; describe, reset and delete them and their offsets."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.connecting import (
    Connect,
    add_confirmation,
    as_json_option,
    make_connecting_group,
    parse_pairs,
    parse_topic_partition,
    print_rows,
    with_admin,
)
from kafkaframes.cli.text import parse_milliseconds, print_note, print_text
from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text

if TYPE_CHECKING:
    from kafkaframes.client import Admin, ShareGroupDescription, StreamsGroupDescription, TaskId, TopicPartition
    from kafkaframes.client.admin import GroupDescription

    AnyDescription = GroupDescription | ShareGroupDescription | StreamsGroupDescription

    Offsets = dict[TopicPartition, int]


_MAX_LISTED_MEMBERS = 5
_MEMBER_COLUMNS = ("consumer_id", "host", "client_id")


command = make_connecting_group(
    "groups", "List, describe, reset and delete groups: consumer, share and streams groups."
)


@command.command("list")
@with_admin
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(("classic", "consumer", "share", "streams")),
    help="Select the groups of this type.",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="Select the groups in this state, such as Stable or Empty.",
)
@as_json_option
def list_groups(connect: Connect, types: tuple[str, ...], states: tuple[str, ...], as_json: bool) -> None:
    """List the groups of all types."""
    with connect() as admin:
        rows = [
            {"group": group.group_id, "type": group.type, "protocol": group.protocol_type, "state": group.state}
            for group in admin.list_groups(types=types, states=states)
        ]
    print_rows(rows, as_json, text_without_rows="no groups")


@command.command("describe")
@click.argument("names", nargs=-1, metavar="[GROUP]...")
@with_admin
@click.option("--members", is_flag=True, help="Show the members with their number of partitions, or their tasks.")
@click.option("--state", is_flag=True, help="Show the state, protocol and number of members.")
@as_json_option
def describe_groups(names: tuple[str, ...], connect: Connect, **flags: Any) -> None:
    """Show committed offsets and lag of groups, and the member that reads each partition. Default: all groups."""
    rows: list[dict[str, Any]] = []
    with connect() as admin:
        group_ids = [] if names else [group.group_id for group in admin.list_groups()]
        for name in names or group_ids:
            result = _describe_group(admin, name)
            if result is None:
                group_ids = group_ids or [group.group_id for group in admin.list_groups()]
                if name not in group_ids:
                    raise OptionError(f"group {name} does not exist; `kafkaframes groups list` shows all groups")
            if flags["members"]:
                rows += _build_member_rows(name, result)
            elif flags["state"]:
                rows.append(_build_state_row(name, result))
            else:
                rows += _build_offset_rows(admin, name, result)
    content = "members" if flags["members"] else "committed offsets"
    print_rows(rows, flags["as_json"], text_without_rows=f"no {content}" if names or group_ids else "no groups")


def _describe_group(admin: Admin, name: str) -> AnyDescription | None:
    """Return a consumer, share or streams group; None for a group that only has offsets, or does not exist."""
    from kafkaframes.errors import BrokerError, ErrorCode

    for describe in (admin.describe_group, admin.describe_share_group, admin.describe_streams_group):
        try:
            result: AnyDescription = describe(name)
        except BrokerError as error:
            if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                raise
        else:
            if result.state.lower() != "dead":  # before KIP-1043, brokers report a group that does not exist as Dead
                return result
    return None


def _find_readers(result: AnyDescription | None) -> dict[TopicPartition, Any]:
    """Return the member that reads each partition: in a streams group, the member with the active task."""
    from kafkaframes.client import StreamsGroupDescription, TopicPartition

    if not isinstance(result, StreamsGroupDescription):
        return {partition: member for member in (result.members if result else ()) for partition in member.assignment}
    topics = {row.subtopology_id: (*row.source_topics, *row.repartition_source_topics) for row in result.subtopologies}
    return {
        TopicPartition(topic, task.partition): member
        for member in result.members
        for task in member.active_tasks
        for topic in topics.get(task.subtopology_id, ())
    }


def _build_offset_rows(admin: Admin, name: str, result: AnyDescription | None) -> list[dict[str, Any]]:
    from kafkaframes.client import ShareGroupDescription

    if isinstance(result, ShareGroupDescription):
        return _build_share_offset_rows(admin, name, result)
    readers = _find_readers(result)
    committed_offsets = admin.group_offsets(name)
    partitions = sorted({*committed_offsets, *readers}, key=lambda entry: (entry.topic, entry.partition))
    ends = _find_log_ends(admin, partitions)
    rows = []
    for partition in partitions:
        offset = committed_offsets[partition].offset if partition in committed_offsets else None
        reader = readers.get(partition)
        reader_facts = (None,) * 3 if reader is None else (reader.member_id, reader.client_host, reader.client_id)
        row = {"group": name, "topic": partition.topic, "partition": partition.partition, "committed": offset}
        end = ends.get(partition)
        row |= {"log_end_offset": end, "lag": None if offset is None or end is None else end - offset}
        rows.append(row | dict(zip(_MEMBER_COLUMNS, reader_facts, strict=True)))
    return rows


def _find_log_ends(admin: Admin, partitions: Iterable[TopicPartition]) -> Offsets:
    """Return log end offsets. Partitions that were deleted after a commit, or that have no leader, are omitted."""
    from kafkaframes.client import LATEST
    from kafkaframes.errors import BrokerError

    topics: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    ends: Offsets = {}
    for topic_partitions in topics.values():
        try:
            ends |= admin.list_offsets(dict.fromkeys(topic_partitions, LATEST))
        except BrokerError as error:
            if error.code is None or not error.code.is_retriable:
                raise
    return ends


def _build_share_offset_rows(admin: Admin, name: str, result: ShareGroupDescription) -> list[dict[str, Any]]:
    """Return the rows of a share group, in which several members may read one partition."""
    from kafkaframes.client import LATEST

    members, offsets = result.members, admin.share_group_offsets(name)
    ends = admin.list_offsets(dict.fromkeys(offsets, LATEST))
    return [
        {
            "group": name,
            "topic": partition.topic,
            "partition": partition.partition,
            "committed": offset.start_offset,
            "log_end_offset": ends[partition],
            "lag": offset.lag,
            "consumer_id": ",".join(member.member_id for member in members if partition in member.assignment) or None,
            "host": None,
            "client_id": None,
        }
        for partition, offset in sorted(offsets.items())
    ]


def _build_member_rows(name: str, result: AnyDescription | None) -> list[dict[str, Any]]:
    from kafkaframes.client import StreamsGroupDescription

    if isinstance(result, StreamsGroupDescription):
        return [
            {
                "group": name,
                "member": member.member_id,
                "process": member.process_id,
                "host": member.client_host,
                "client_id": member.client_id,
                "active": _format_task_names(member.active_tasks),
                "standby": _format_task_names(member.standby_tasks),
                "warmup": _format_task_names(member.warmup_tasks),
            }
            for member in result.members
        ]
    return [
        {
            "group": name,
            "consumer_id": member.member_id,
            "instance_id": getattr(member, "group_instance_id", None),  # share groups have no static members
            "host": member.client_host,
            "client_id": member.client_id,
            "partitions": len(member.assignment),
        }
        for member in (result.members if result is not None else ())
    ]


def _format_task_names(tasks: Iterable[TaskId]) -> str:
    """Return tasks by subtopology, as kafka-streams-groups writes them.

    >>> from kafkaframes.client import TaskId
    >>> _format_task_names([TaskId("0", 0), TaskId("0", 1), TaskId("1", 0)])
    '0:[0,1];1:[0]'
    """
    numbers: dict[str, list[int]] = {}
    for task in sorted(tasks):
        numbers.setdefault(task.subtopology_id, []).append(task.partition)
    return ";".join(f"{name}:[{','.join(map(str, task_groups))}]" for name, task_groups in numbers.items())


def _build_state_row(name: str, result: AnyDescription | None) -> dict[str, Any]:
    state, members = ("", 0) if result is None else (result.state, len(result.members))
    # Streams groups have neither a protocol nor an assignor.
    protocol = getattr(result, "protocol", "") or getattr(result, "assignor", "")
    return {"group": name, "state": state, "assignment": protocol, "members": members}


@command.command("reset")
@click.argument("group")
@click.argument("offsets", nargs=-1, metavar="[TOPIC:PARTITION=OFFSET]...")
@with_admin
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:N,N]",
    help="Topic to reset: all its partitions, or only the given ones; repeatable.",
)
@click.option("--all-topics", is_flag=True, help="Reset all partitions with committed offsets of the group.")
@click.option("--to-earliest", is_flag=True)
@click.option("--to-latest", is_flag=True)
@click.option("--to-current", is_flag=True, help="Keep the committed offsets, to print or --export them.")
@click.option(
    "--to-offset",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="Move to this offset, limited to the start and end of the log.",
)
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="Move to the first record at or after this time: 2026-01-31T12:00Z, or milliseconds.",
)
@click.option("--shift-by", type=int, metavar="N", help="Move the committed offset by N; -N moves back.")
@click.option(
    "--from-file",
    metavar="FILE",
    help="File of lines group,topic,partition,offset, as --export and restore write them.",
)
@click.option("--dry-run", is_flag=True, help="Print the new offsets without committing them.")
@click.option(
    "--export", is_flag=True, help="Print the offsets as lines group,topic,partition,offset, for --from-file."
)
def reset_group(
    group: str,
    offsets: tuple[str, ...],
    connect: Connect,
    dry_run: bool,
    export: bool,
    **flags: Any,
) -> None:
    """Commit offsets for a group that has no members, or set the start offsets of a share group.

    \b
    kafkaframes groups reset billing orders:0=17 orders:1=earliest
    kafkaframes groups reset billing --topic orders --to-datetime 2026-01-31
    kafkaframes groups reset billing --all-topics --shift-by -10 --dry-run
    """
    from kafkaframes.client import ShareGroupDescription

    with connect() as admin:
        description = _describe_group(admin, group)
        is_share = isinstance(description, ShareGroupDescription)
        result = choose_new_offsets(admin, ResetOptions(group=group, offsets=offsets, is_share=is_share, **flags))
        if not result:
            raise OptionError("nothing to reset; specify the partitions (--topic or --all-topics) and the new position")
        _warn_of_offsets_outside_log(admin, result)
        if not dry_run and not flags["to_current"]:
            _check_inactive(group, description)
            alter = admin.alter_share_group_offsets if is_share else admin.alter_group_offsets
            alter(group, result)
    for partition, offset in result.items():
        if export:
            print_text(f'"{group}","{partition.topic}",{partition.partition},{offset}')
        else:
            print_text(f"{group}: {partition} {'would be ' if dry_run else ''}at {offset}")


def _warn_of_offsets_outside_log(admin: Admin, offsets: Offsets) -> None:
    """Report offsets that are outside of their logs. A consumer would then apply its auto.offset.reset."""
    from kafkaframes.client import EARLIEST
    from kafkaframes.errors import BrokerError

    ends = _find_log_ends(admin, offsets)
    try:
        starts = admin.list_offsets(dict.fromkeys(ends, EARLIEST))
    except BrokerError:  # a partition has no leader, or was deleted; the commit will detect this
        return
    for partition in sorted(starts):
        start, end, offset = starts[partition], ends[partition], offsets[partition]
        if not start <= offset <= end:
            print_note(f"{partition}: offset {offset} is outside of the log, which has offsets {start} to {end}")


def _check_inactive(group: str, description: AnyDescription | None) -> None:
    """Reject a commit for a group if its members would overwrite or ignore it, as kafka-consumer-groups does."""
    members = () if description is None else description.members
    if description is None or not members:
        return
    member_names = ", ".join(
        sorted({f"{member.client_id} at {member.client_host}" for member in members})[:_MAX_LISTED_MEMBERS]
    )
    raise OptionError(
        f"group {group} is active (state {description.state}, "
        f"{count_text(len(members), 'member')}: {member_names}). Nothing was changed. Stop its consumers, wait until "
        "`kafkaframes groups describe --state` shows 0 members, and run this command again"
    )


@command.command("delete-offsets")
@click.argument("group")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:N,N]...")
@with_admin
def delete_offsets(group: str, topics: tuple[str, ...], connect: Connect) -> None:
    """Delete a group's committed offsets for topics that none of its members reads.

    The offsets of a share group are deleted for whole topics.
    """
    from kafkaframes.client import ShareGroupDescription

    with connect() as admin:
        description = _describe_group(admin, group)
        is_share = isinstance(description, ShareGroupDescription)
        if is_share and (parts := next((text for text in topics if ":" in text), None)) is not None:
            raise OptionError(f"{parts}: {group} is a share group; its offsets are deleted for whole topics only")
        committed_offsets = _read_offsets(admin, group, is_share=is_share)
        partitions: list[TopicPartition] = []
        for text in topics:
            named_partitions = select_partitions(admin, [text])
            matches = [partition for partition in named_partitions if partition in committed_offsets]
            if not matches or (":" in text and len(matches) < len(named_partitions)):
                missing = ", ".join(str(partition) for partition in named_partitions if partition not in matches)
                raise OptionError(f"group {group} has no committed offsets for {missing}; nothing was deleted")
            partitions += matches
        if is_share:
            admin.delete_share_group_offsets(group, topics)
        else:
            admin.delete_group_offsets(group, partitions)
    for partition in partitions:
        print_text(f"{group}: {partition} forgotten")


def _read_offsets(admin: Admin, group: str, *, is_share: bool) -> Offsets:
    """Return the committed offsets of a group, or the start offsets of a share group."""
    if not is_share:
        return {partition: entry.offset for partition, entry in admin.group_offsets(group).items()}
    starts = admin.share_group_offsets(group).items()
    return {partition: entry.start_offset for partition, entry in starts if entry.start_offset is not None}


@command.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@with_admin
@add_confirmation("Delete these groups and their offsets?")
def delete_groups(names: tuple[str, ...], connect: Connect) -> None:
    """Delete groups that have no members."""
    with connect() as admin:
        admin.delete_groups(names)
    print_text(f"deleted {', '.join(names)}")


@dataclass(frozen=True, kw_only=True)
class ResetOptions:
    """The arguments and options of ``groups reset``."""

    group: str
    is_share: bool = False
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
    def target_options(self) -> list[str]:
        """Names of the specified options that define the new offsets."""
        flags = [name for name in ("to_earliest", "to_latest", "to_current") if getattr(self, name)]
        values = ("to_offset", "to_datetime", "shift_by")
        return flags + [name for name in values if getattr(self, name) is not None]


def choose_new_offsets(admin: Admin, options: ResetOptions) -> Offsets:
    """Return the new offset of each partition.

    The command rejects more than one option that defines offsets, and specified topics without an option.
    """
    offsets = _parse_special_offsets(admin, options.offsets)
    if options.from_file is not None:
        offsets |= _read_offsets_file(options.from_file, options.group)
    if not (options.topics or options.all_topics):
        if options.target_options:
            raise OptionError("specify topics with --topic TOPIC or --all-topics")
        return offsets
    if len(options.target_options) != 1:
        raise OptionError("specify one of --to-earliest, --to-latest, --to-offset, --to-datetime, --shift-by ...")
    partitions = list(_read_offsets(admin, options.group, is_share=options.is_share)) if options.all_topics else []
    partitions += [topic for topic in select_partitions(admin, options.topics) if topic not in partitions]
    return offsets | (_CHOOSER_BY_OPTION[options.target_options[0]](admin, options, partitions) if partitions else {})


def select_partitions(admin: Admin, topics: Iterable[str]) -> list[TopicPartition]:
    """Return all partitions of each ``TOPIC``, and partitions N of each ``TOPIC:N,N``."""
    from kafkaframes.client import TopicPartition

    partitions = []
    for text in topics:
        topic, _, numbers = text.partition(":")
        if numbers and not all(partition.isdecimal() for partition in numbers.split(",")):
            raise OptionError(f"{text}; expected TOPIC:N,N with partition numbers")
        existing_partitions = sorted(admin.describe_topics([topic])[topic].partitions)
        partitions += [
            TopicPartition(topic, int(partition))
            for partition in (numbers.split(",") if numbers else existing_partitions)
        ]
    return partitions


def _parse_special_offsets(admin: Admin, texts: tuple[str, ...]) -> Offsets:
    from kafkaframes.client import EARLIEST, LATEST, TopicPartition

    offsets = {}
    for name, text in parse_pairs(texts).items():
        partition = TopicPartition(*parse_topic_partition(name))
        special = {"earliest": EARLIEST, "latest": LATEST}.get(text)
        if special is not None:
            offsets[partition] = admin.list_offsets({partition: special})[partition]
        elif text.isdecimal():
            offsets[partition] = int(text)
        else:
            raise OptionError(f"{name}={text}: must be an offset, earliest or latest")
    return offsets


def _read_offsets_file(path: str, group: str) -> Offsets:
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


def _make_limit_chooser(limit: int) -> Callable[[Admin, ResetOptions, list[TopicPartition]], Offsets]:
    """Return a function that chooses the earliest or latest offset of each partition."""
    return lambda admin, options, partitions: admin.list_offsets(dict.fromkeys(partitions, limit))


def _choose_current(admin: Admin, options: ResetOptions, partitions: list[TopicPartition]) -> Offsets:
    """Return the committed offsets of the partitions that have one."""
    committed_offsets = _read_offsets(admin, options.group, is_share=options.is_share)
    return {partition: committed_offsets[partition] for partition in partitions if partition in committed_offsets}


def _choose_fixed_offset(admin: Admin, options: ResetOptions, partitions: list[TopicPartition]) -> Offsets:
    """Return the requested offset for each partition, limited to its log."""
    return _limit_to_log(admin, dict.fromkeys(partitions, options.to_offset or 0))


def _choose_by_time(admin: Admin, options: ResetOptions, partitions: list[TopicPartition]) -> Offsets:
    """Return the first offset at or after the time in each partition, or the end offset if no record is that late."""
    timestamp = parse_milliseconds(options.to_datetime or "")
    offsets, ends = (
        admin.list_offsets(dict.fromkeys(partitions, timestamp)),
        admin.list_offsets(dict.fromkeys(partitions, -1)),
    )
    return {partition: ends[partition] if offsets[partition] < 0 else offsets[partition] for partition in partitions}


def _shift_committed(admin: Admin, options: ResetOptions, partitions: list[TopicPartition]) -> Offsets:
    """Return the committed offsets plus the requested number, limited to the log."""
    current = _choose_current(admin, options, partitions)
    return _limit_to_log(admin, {partition: offset + (options.shift_by or 0) for partition, offset in current.items()})


def _limit_to_log(admin: Admin, offsets: Offsets) -> Offsets:
    """Limit offsets to the range of their logs, as kafka-consumer-groups does."""
    from kafkaframes.client import EARLIEST, LATEST

    starts, ends = (admin.list_offsets(dict.fromkeys(offsets, limit)) for limit in (EARLIEST, LATEST))
    return {partition: min(max(offset, starts[partition]), ends[partition]) for partition, offset in offsets.items()}


_CHOOSER_BY_OPTION: dict[str, Callable[[Admin, ResetOptions, list[TopicPartition]], Offsets]] = {
    "to_earliest": _make_limit_chooser(-2),
    "to_latest": _make_limit_chooser(-1),
    "to_current": _choose_current,
    "to_offset": _choose_fixed_offset,
    "to_datetime": _choose_by_time,
    "shift_by": _shift_committed,
}
