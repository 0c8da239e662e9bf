"""``kafkaframes groups``: list, describe, reset and delete consumer groups and their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.connecting import (
    HELP,
    as_json_option,
    confirmed,
    connecting,
    connecting_group,
    print_rows,
    reached,
)
from kafkaframes.cli.group_resets import Wanted, resets
from kafkaframes.cli.text import say
from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.client import Admin, TopicPartition
    from kafkaframes.client.admin import GroupDescription

_MEMBER = ("consumer_id", "host", "client_id")


command = connecting_group("groups", "List, describe, reset and delete consumer groups.")


@command.command("list", context_settings=HELP)
@connecting
@as_json_option
def list_groups(servers: str | None, properties: tuple[str, ...], timeout: float, as_json: bool) -> None:
    """List the groups."""
    from kafkaframes.client import Admin

    with Admin(**reached(servers, properties, timeout)) as admin:
        rows = [
            {"group": one.group_id, "type": one.type, "protocol": one.protocol_type, "state": one.state}
            for one in admin.list_groups()
        ]
    print_rows(rows, as_json)


@command.command("describe", context_settings=HELP)
@click.argument("names", nargs=-1, metavar="[GROUP]...")
@connecting
@click.option("--members", is_flag=True, help="The members and how many partitions each reads.")
@click.option("--state", is_flag=True, help="State, coordinator's protocol and number of members.")
@as_json_option
def describe_groups(
    names: tuple[str, ...], servers: str | None, properties: tuple[str, ...], timeout: float, **given: Any
) -> None:
    """Show what groups (all, if none are named) have committed, how far they are behind, and who reads what."""
    from kafkaframes.client import Admin

    rows: list[dict[str, Any]] = []
    with Admin(**reached(servers, properties, timeout)) as admin:
        for name in names or [one.group_id for one in admin.list_groups()]:
            found = _described(admin, name)
            if _is_nothing(found) and name not in {one.group_id for one in admin.list_groups()}:
                raise OptionError(f"there is no group {name}: `kafkaframes groups list` names those that there are")
            if given["members"]:
                rows += _member_rows(name, found)
            elif given["state"]:
                rows.append(_state_row(name, found))
            else:
                rows += _offset_rows(admin, name, found)
    print_rows(rows, given["as_json"])


def _described(admin: Admin, name: str) -> GroupDescription | None:
    """Return a group's members; None for a share group, or one that only has offsets."""
    from kafkaframes.errors import BrokerError, ErrorCode

    try:
        return admin.describe_group(name)
    except BrokerError as error:
        if error.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            return None
        raise


def _is_nothing(found: GroupDescription | None) -> bool:
    """Return whether a coordinator tells nothing of a group: before KIP-1043 one that is not there is dead."""
    return found is None or found.state.lower() == "dead"


def _offset_rows(admin: Admin, name: str, found: GroupDescription | None) -> list[dict[str, Any]]:
    from kafkaframes.client import LATEST

    readers = {place: one for one in (found.members if found is not None else ()) for place in one.assignment}
    committed = admin.group_offsets(name)
    places = sorted({*committed, *readers}, key=lambda one: (one.topic, one.partition))
    ends = admin.list_offsets(dict.fromkeys(places, LATEST))
    rows = []
    for place in places:
        offset = committed[place].offset if place in committed else None
        reader = readers.get(place)
        said = (None,) * 3 if reader is None else (reader.member_id, reader.client_host, reader.client_id)
        row = {"group": name, "topic": place.topic, "partition": place.partition, "committed": offset}
        row |= {"log_end_offset": ends[place], "lag": None if offset is None else max(ends[place] - offset, 0)}
        rows.append(row | dict(zip(_MEMBER, said, strict=True)))
    return rows


def _member_rows(name: str, found: GroupDescription | None) -> list[dict[str, Any]]:
    return [
        {
            "group": name,
            "consumer_id": one.member_id,
            "instance_id": one.group_instance_id,
            "host": one.client_host,
            "client_id": one.client_id,
            "partitions": len(one.assignment),
        }
        for one in (found.members if found is not None else ())
    ]


def _state_row(name: str, found: GroupDescription | None) -> dict[str, Any]:
    state, protocol, members = ("", "", 0) if found is None else (found.state, found.protocol, len(found.members))
    return {"group": name, "state": state, "assignment": protocol, "members": members}


@command.command("reset", context_settings=HELP)
@click.argument("group")
@click.argument("offsets", nargs=-1, metavar="[TOPIC:PARTITION=OFFSET]...")
@connecting
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC[:N,N]", help="All its partitions, or these.")
@click.option("--all-topics", is_flag=True, help="Every partition that the group has committed.")
@click.option("--to-earliest", is_flag=True)
@click.option("--to-latest", is_flag=True)
@click.option("--to-current", is_flag=True, help="What is committed: with --export, or to see it.")
@click.option("--to-offset", type=click.IntRange(0), metavar="OFFSET", help="At most the end, at least the start.")
@click.option("--to-datetime", metavar="TIME", help="The first record at or after it: 2026-01-31T12:00Z, or ms.")
@click.option("--shift-by", type=int, metavar="N", help="Move on by N offsets (or back, -N) from what is committed.")
@click.option("--from-file", metavar="FILE", help="group,topic,partition,offset a line (restore, --export).")
@click.option("--dry-run", is_flag=True, help="Show where it would be, commit nothing.")
@click.option("--export", is_flag=True, help="Print group,topic,partition,offset, for --from-file.")
def reset_group(
    group: str,
    offsets: tuple[str, ...],
    servers: str | None,
    properties: tuple[str, ...],
    timeout: float,
    dry_run: bool,
    export: bool,
    **given: Any,
) -> None:
    """Commit offsets for a group that has no members.

    \b
    kafkaframes groups reset billing orders:0=17 orders:1=earliest
    kafkaframes groups reset billing --topic orders --to-datetime 2026-01-31
    kafkaframes groups reset billing --all-topics --shift-by -10 --dry-run
    """
    from kafkaframes.client import Admin

    wanted = Wanted(group=group, offsets=offsets, **given)
    with Admin(**reached(servers, properties, timeout)) as admin:
        found = resets(admin, wanted)
        if not found:
            raise OptionError("nothing to reset: name partitions, --topic or --all-topics, and where to")
        if not dry_run and not given["to_current"]:
            admin.alter_group_offsets(group, found)
    for partition, offset in found.items():
        if export:
            say(f'"{group}","{partition.topic}",{partition.partition},{offset}')
        else:
            say(f"{group}: {partition} {'would be ' if dry_run else ''}at {offset}")


@command.command("delete-offsets", context_settings=HELP)
@click.argument("group")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:N,N]...")
@connecting
def delete_offsets(
    group: str, topics: tuple[str, ...], servers: str | None, properties: tuple[str, ...], timeout: float
) -> None:
    """Forget what a group has committed for topics that none of its members reads."""
    from kafkaframes.cli.group_resets import places_of
    from kafkaframes.client import Admin

    with Admin(**reached(servers, properties, timeout)) as admin:
        committed = admin.group_offsets(group)
        places: list[TopicPartition] = [one for one in places_of(admin, topics) if one in committed]
        admin.delete_group_offsets(group, places)
    for place in places:
        say(f"{group}: {place} forgotten")


@command.command("delete", context_settings=HELP)
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@connecting
@confirmed("Delete these groups and their offsets?")
def delete_groups(names: tuple[str, ...], servers: str | None, properties: tuple[str, ...], timeout: float) -> None:
    """Delete groups that have no members."""
    from kafkaframes.client import Admin

    with Admin(**reached(servers, properties, timeout)) as admin:
        admin.delete_groups(names)
    say(f"deleted {', '.join(names)}")
