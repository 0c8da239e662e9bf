"""``kafkaframes spec stubs``: write the stub that lets editors complete the fields of every message."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from kafkaframes.errors import OptionError
from kafkaframes.protocol import messages
from kafkaframes.protocol.messages.registry import specs_by_name
from kafkaframes.protocol.messages.stubs import own_module, stub_text
from kafkaframes.protocol.spec import catalog

STUB = Path(messages.__file__).with_name("kafka.pyi")


@click.command("stubs")
@click.option("--check", is_flag=True, help="write nothing; exit 1 if the stub is not what would be written")
@click.option(
    "--specs", metavar="DIR", type=click.Path(exists=True, file_okay=False), help="Your own specs, not the catalog."
)
@click.option(
    "-o", "--output", metavar="FILE.py", type=click.Path(path_type=Path), help="With --specs: the module to write."
)
def command(check: bool, specs: str | None, output: Path | None) -> None:
    """Write what editors and type checkers complete the fields of messages from.

    Without options protocol/messages/kafka.pyi, from the catalog. With --specs DIR -o greetings.py a module of your own
    and its stub: `from greetings import GreetRequest`.
    """
    if specs is not None or output is not None:
        _write_own(specs, output)
        return
    text = stub_text(map(catalog.load, catalog.names()))
    current = STUB.read_text() if STUB.exists() else ""
    if check:
        click.echo("current" if text == current else f"{STUB} is out of date: run `kafkaframes spec stubs`")
        sys.exit(text != current)
    STUB.write_text(text)
    click.echo(f"{STUB}: {len(text.splitlines())} lines, {len(catalog.names())} messages")


def _write_own(specs: str | None, output: Path | None) -> None:
    if specs is None or output is None or output.suffix != ".py":
        raise OptionError("--specs DIR and -o FILE.py go together")
    own = specs_by_name(specs)
    output.write_text(own_module(os.path.relpath(specs, output.parent)))
    stub = output.with_suffix(".pyi")
    stub.write_text(stub_text(own.values(), overloads=False))
    click.echo(f"{output}, {stub}: {len(own)} messages")
