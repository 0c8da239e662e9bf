"""``kafkaframes configs``: show and change settings of topics, brokers and groups."""

from __future__ import annotations

from typing import Any

import click

from kafkaframes.cli.connecting import HELP, as_json_option, connecting, connecting_group, pairs_of, print_rows, reached
from kafkaframes.cli.text import say

command = connecting_group("configs", "Show and change settings of topics and brokers.")


@command.command("show", context_settings=HELP)
@click.argument("kind", type=click.Choice(("topic", "broker", "group")))
@click.argument("name")
@connecting
@click.option("--all", "everything", is_flag=True, help="Those at their defaults too.")
@as_json_option
def show_configs(
    kind: str, name: str, servers: str | None, properties: tuple[str, ...], timeout: float, **given: Any
) -> None:
    """Show the settings of a topic, broker or group."""
    from kafkaframes.client import Admin

    with Admin(**reached(servers, properties, timeout)) as admin:
        found = admin.describe_configs(kind, name)
    rows = [
        {"name": one.name, "value": one.value, "default": "yes" if one.is_default else ""}
        for one in sorted(found.values())
        if given["everything"] or not one.is_default
    ]
    if not rows and not given["as_json"]:
        say(f"{kind} {name} has defaults only; --all shows them")
    print_rows(rows, given["as_json"])


@command.command("set", context_settings=HELP)
@click.argument("kind", type=click.Choice(("topic", "broker", "group")))
@click.argument("name")
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE...")
@connecting
def set_configs(
    kind: str, name: str, changes: tuple[str, ...], servers: str | None, properties: tuple[str, ...], timeout: float
) -> None:
    """Change settings and leave the others; KEY= (no value) goes back to the default."""
    from kafkaframes.client import Admin

    with Admin(**reached(servers, properties, timeout)) as admin:
        admin.alter_configs(kind, name, {key: value or None for key, value in pairs_of(changes).items()})
    say(f"changed {', '.join(pairs_of(changes))} of {kind} {name}")
