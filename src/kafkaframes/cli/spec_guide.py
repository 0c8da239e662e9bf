"""``kafkaframes spec guide``: the protocol guide as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from kafkaframes.cli.options import specs_option
from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages.registry import specs_by_name
from kafkaframes.protocol.spec.guide import guide_page


@click.command("guide")
@click.option(
    "-o", "--output", metavar="FILE|DIR", type=click.Path(path_type=Path), default=Path("kafka-protocol.html")
)
@specs_option
def command(output: Path, specs: str | None) -> None:
    """Write the protocol guide: every message at every version, its wire layout, and what changed since the one before.

    One HTML page that works offline, with search over messages and fields, and with what they are made of: frames and
    headers, primitive types, varints, tag sections, record formats. In a directory it is called index.html.
    """
    target = output / "index.html" if output.is_dir() or not output.suffix else output
    own = {} if specs is None else specs_by_name(specs)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        size = target.write_text(guide_page(own), encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{target}: {error.strerror}") from None
    click.echo(f"{target} ({size / 1e6:.1f} MB)")
