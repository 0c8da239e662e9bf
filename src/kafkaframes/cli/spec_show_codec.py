"""``kafkaframes spec show-codec``: the functions that read and write a message at a version, as they run."""

from __future__ import annotations

import click

from kafkaframes.cli.options import specs_option
from kafkaframes.protocol.messages.registry import message_of


@click.command("show-codec")
@click.argument("name")
@click.argument("version", type=int)
@specs_option
def command(name: str, version: int, specs: str | None) -> None:
    """Print the source text of the generated functions of NAME at VERSION."""
    click.echo(message_of(name, specs).codec(version).show(), nl=False)
