"""``kafkaframes spec show-codec``: the functions that read and write a message at a version, as they run."""

from __future__ import annotations

import click

from kafkaframes.protocol.messages.registry import message


@click.command("show-codec")
@click.argument("name")
@click.argument("version", type=int)
@click.option("--specs", type=click.Path(exists=True), help="your own spec (a file or a folder), not the catalog")
def command(name: str, version: int, specs: str | None) -> None:
    """Print the source text of the generated functions of NAME at VERSION."""
    click.echo(message(name, specs=specs).codec(version).show(), nl=False)
