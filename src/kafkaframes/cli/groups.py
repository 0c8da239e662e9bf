"""``kafkaframes groups``: list, describe, reset and delete consumer groups and their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.connecting import (
    HELP,
    Connect,
    as_json_option,
    confirmed,
    connecting_group,
    print_rows,
    with_admin,
)
from kafkaframes.cli.group_resets import ResetOptions, resets
from kafkaframes.cli.text import say
from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.client import Admin, TopicPartition
    from kafkaframes.client.admin import GroupDescription

_MEMBER = ("consumer_id", "host", "client_id")


command = connecting_group("groups", "List, describe, reset and delete consumer groups.")


@command.command("list", context_settings=HELP)
@with_admin
@as_json_option
def list_groups(connect: Connect, as_json: bool) -> None:
    """List the groups."""
    with connect() as admin:
        rows = [
            {"group": one.group_id, "type": one.type, "protocol": one.protocol_type, "state": one.state}
            for one in admin.list_groups()
        ]
    print_rows(rows, as_json)


@command.command("describe", context_settings=HELP)
@click.argument("names", nargs=-1, metavar="[GROUP]...")
@with_admin
@click.option("--members", is_flag=True, help="The members and how many partitions each reads.")
@click.option("--state", is_flag=True, help="State, coordinator's protocol and number of members.")
@as_json_option
def describe_groups(names: tuple[str, ...], connect: Connect, **flags: Any) -> None:
    """Show committed offsets and lag of groups, and the member that reads each partition. Default: all groups."""
    rows: list[dict[str, Any]] = []
    with connect() as admin:
        for name in names or [one.group_id for one in admin.list_groups()]:
            result = _described(admin, name)
            if _is_nothing(result) and name not in {one.group_id for one in admin.list_groups()}:
                raise OptionError(f"there is no group {name}: `kafkaframes groups list` shows all groups")
            if flags["members"]:
                rows += _member_rows(name, result)
            elif flags["state"]:
                rows.append(_state_row(name, result))
            else:
                rows += _offset_rows(admin, name, result)
    print_rows(rows, flags["as_json"])


def _described(admin: Admin, name: str) -> GroupDescription | None:
    """Return a group's members; None for a share group, or one that only has offsets."""
    from kafkaframes.errors import BrokerError, ErrorCode

    try:
        return admin.describe_group(name)
    except BrokerError as error:
        if error.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            return None
        raise


def _is_nothing(result: GroupDescription | None) -> bool:
    """Return whether a coordinator tells nothing of a group: before KIP-1043 one that is not there is dead."""
    return result is None or result.state.lower() == "dead"


def _offset_rows(admin: Admin, name: str, result: GroupDescription | None) -> list[dict[str, Any]]:
    from kafkaframes.client import LATEST

    readers = {partition: one for one in (result.members if result is not None else ()) for partition in one.assignment}
    committed = admin.group_offsets(name)
    partitions = sorted({*committed, *readers}, key=lambda entry: (entry.topic, entry.partition))
    ends = admin.list_offsets(dict.fromkeys(partitions, LATEST))
    rows = []
    for partition in partitions:
        offset = committed[partition].offset if partition in committed else None
        reader = readers.get(partition)
        said = (None,) * 3 if reader is None else (reader.member_id, reader.client_host, reader.client_id)
        row = {"group": name, "topic": partition.topic, "partition": partition.partition, "committed": offset}
        row |= {"log_end_offset": ends[partition], "lag": None if offset is None else max(ends[partition] - offset, 0)}
        rows.append(row | dict(zip(_MEMBER, said, strict=True)))
    return rows


def _member_rows(name: str, result: GroupDescription | None) -> list[dict[str, Any]]:
    return [
        {
            "group": name,
            "consumer_id": one.member_id,
            "instance_id": one.group_instance_id,
            "host": one.client_host,
            "client_id": one.client_id,
            "partitions": len(one.assignment),
        }
        for one in (result.members if result is not None else ())
    ]


def _state_row(name: str, result: GroupDescription | None) -> dict[str, Any]:
    state, protocol, members = ("", "", 0) if result is None else (result.state, result.protocol, len(result.members))
    return {"group": name, "state": state, "assignment": protocol, "members": members}


@command.command("reset", context_settings=HELP)
@click.argument("group")
@click.argument("offsets", nargs=-1, metavar="[TOPIC:PARTITION=OFFSET]...")
@with_admin
@click.option(
    "-t", "--topic", "topics", multiple=True, metavar="TOPIC[:N,N]", help="All partitions of this topic, or only these."
)
@click.option("--all-topics", is_flag=True, help="Every partition that the group has committed.")
@click.option("--to-earliest", is_flag=True)
@click.option("--to-latest", is_flag=True)
@click.option("--to-current", is_flag=True, help="Keep what is committed: to see it, or with --export.")
@click.option(
    "--to-offset", type=click.IntRange(0), metavar="OFFSET", help="This offset, kept between start and end of the log."
)
@click.option("--to-datetime", metavar="TIME", help="The first record at or after it: 2026-01-31T12:00Z, or ms.")
@click.option("--shift-by", type=int, metavar="N", help="Move the committed offset by N; -N moves back.")
@click.option(
    "--from-file", metavar="FILE", help="Read lines group,topic,partition,offset, as --export and restore write them."
)
@click.option("--dry-run", is_flag=True, help="Print the new offsets, commit nothing.")
@click.option("--export", is_flag=True, help="Print group,topic,partition,offset, for --from-file.")
def reset_group(
    group: str,
    offsets: tuple[str, ...],
    connect: Connect,
    dry_run: bool,
    export: bool,
    **flags: Any,
) -> None:
    """Commit offsets for a group that has no members.

    \b
    kafkaframes groups reset billing orders:0=17 orders:1=earliest
    kafkaframes groups reset billing --topic orders --to-datetime 2026-01-31
    kafkaframes groups reset billing --all-topics --shift-by -10 --dry-run
    """
    options = ResetOptions(group=group, offsets=offsets, **flags)
    with connect() as admin:
        result = resets(admin, options)
        if not result:
            raise OptionError("nothing to reset: name partitions, --topic or --all-topics, and where to")
        if not dry_run and not flags["to_current"]:
            admin.alter_group_offsets(group, result)
    for partition, offset in result.items():
        if export:
            say(f'"{group}","{partition.topic}",{partition.partition},{offset}')
        else:
            say(f"{group}: {partition} {'would be ' if dry_run else ''}at {offset}")


@command.command("delete-offsets", context_settings=HELP)
@click.argument("group")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:N,N]...")
@with_admin
def delete_offsets(group: str, topics: tuple[str, ...], connect: Connect) -> None:
    """Delete a group's committed offsets for topics that none of its members reads."""
    from kafkaframes.cli.group_resets import partitions_of

    with connect() as admin:
        committed = admin.group_offsets(group)
        partitions: list[TopicPartition] = [one for one in partitions_of(admin, topics) if one in committed]
        admin.delete_group_offsets(group, partitions)
    for partition in partitions:
        say(f"{group}: {partition} forgotten")


@command.command("delete", context_settings=HELP)
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@with_admin
@confirmed("Delete these groups and their offsets?")
def delete_groups(names: tuple[str, ...], connect: Connect) -> None:
    """Delete groups that have no members."""
    with connect() as admin:
        admin.delete_groups(names)
    say(f"deleted {', '.join(names)}")
