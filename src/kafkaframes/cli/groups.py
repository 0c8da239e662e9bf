"""``kafkaframes groups``: list, describe, reset and delete consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkaframes.cli.connecting import HELP, as_json_option, connecting, pairs_of, place_of, print_rows, settings_of
from kafkaframes.cli.text import say
from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    pass


@click.group("groups", context_settings=HELP)
def command() -> None:
    """List, describe, reset and delete consumer groups."""


@command.command("list", context_settings=HELP)
@connecting
@as_json_option
def list_groups(servers: str | None, properties: tuple[str, ...], as_json: bool) -> None:
    """List the groups."""
    from kafkaframes.client import Admin

    with Admin(**settings_of(servers, properties)) as admin:
        rows = [
            {"group": one.group_id, "type": one.type, "protocol": one.protocol_type, "state": one.state}
            for one in admin.list_groups()
        ]
    print_rows(rows, as_json)


@command.command("describe", context_settings=HELP)
@click.argument("group")
@connecting
@as_json_option
def describe_group(group: str, servers: str | None, properties: tuple[str, ...], as_json: bool) -> None:
    """Show what a group has committed, and how far it is behind."""
    from kafkaframes.client import LATEST, Admin

    with Admin(**settings_of(servers, properties)) as admin:
        committed = admin.group_offsets(group)
        ends = admin.list_offsets(dict.fromkeys(committed, LATEST))
        rows = [
            {
                "topic": place.topic,
                "partition": place.partition,
                "committed": committed[place].offset,
                "log_end_offset": ends[place],
                "lag": max(ends[place] - committed[place].offset, 0),
            }
            for place in sorted(committed, key=lambda one: (one.topic, one.partition))
        ]
    print_rows(rows, as_json)


@command.command("reset", context_settings=HELP)
@click.argument("group")
@click.argument("offsets", nargs=-1, required=True, metavar="TOPIC:PARTITION=OFFSET...")
@connecting
def reset_group(group: str, offsets: tuple[str, ...], servers: str | None, properties: tuple[str, ...]) -> None:
    """Commit offsets for a group that has no members: a number, earliest or latest."""
    from kafkaframes.client import EARLIEST, LATEST, Admin, TopicPartition

    with Admin(**settings_of(servers, properties)) as admin:
        wanted = {}
        for place, text in pairs_of(offsets).items():
            partition = TopicPartition(*place_of(place))
            special = {"earliest": EARLIEST, "latest": LATEST}.get(text)
            if special is not None:
                wanted[partition] = admin.list_offsets({partition: special})[partition]
            elif text.isdecimal():
                wanted[partition] = int(text)
            else:
                raise OptionError(f"{place}={text}: an offset, earliest or latest is wanted")
        admin.alter_group_offsets(group, wanted)
    for partition, offset in wanted.items():
        say(f"{group}: {partition} at {offset}")


@command.command("delete", context_settings=HELP)
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@connecting
@click.confirmation_option(prompt="Delete these groups and their offsets?")
def delete_groups(names: tuple[str, ...], servers: str | None, properties: tuple[str, ...]) -> None:
    """Delete groups that have no members."""
    from kafkaframes.client import Admin

    with Admin(**settings_of(servers, properties)) as admin:
        admin.delete_groups(names)
    say(f"deleted {', '.join(names)}")
