"""``kafkaframes spec stubs``: write the stub that lets editors complete the fields of every message."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kafkaframes.protocol import messages
from kafkaframes.protocol.messages.stubs import stub_text
from kafkaframes.protocol.spec import catalog

STUB = Path(messages.__file__).with_name("kafka.pyi")


@click.command("stubs")
@click.option("--check", is_flag=True, help="write nothing; exit 1 if the stub is not what would be written")
def command(check: bool) -> None:
    """Write protocol/messages/kafka.pyi from the catalog."""
    text = stub_text(map(catalog.load, catalog.names()))
    current = STUB.read_text() if STUB.exists() else ""
    if check:
        click.echo("current" if text == current else f"{STUB} is out of date: run `kafkaframes spec stubs`")
        sys.exit(text != current)
    STUB.write_text(text)
    click.echo(f"{STUB}: {len(text.splitlines())} lines, {len(catalog.names())} messages")
