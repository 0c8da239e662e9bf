"""``kafkaframes spec diff``: what is different on the wire between two versions of a message."""

from __future__ import annotations

import json

import click

from kafkaframes.cli.options import json_option_of
from kafkaframes.cli.spec_named import checked_version, named
from kafkaframes.protocol.spec.render import changes

_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow"), "encoding": ("*", "cyan")}


@click.command("diff")
@click.argument("name")
@click.argument("before", type=int)
@click.argument("after", type=int)
@json_option_of("One JSON object a line and change.")
def command(name: str, before: int, after: int, as_json: bool) -> None:
    """Show what is different on the wire in version AFTER against version BEFORE.

    NAME is a message (MetadataResponse), an API (Metadata: its request and its response) or a spec file (Foo.json).
    """
    for spec in named(name):
        found = changes(spec, checked_version(spec, before), checked_version(spec, after))
        if as_json:
            for one in found:
                row = {"message": spec.name, "kind": one.kind, "field": ".".join(one.path), "change": one.text}
                click.echo(json.dumps(row))
            continue
        click.echo(f"{click.style(spec.name, bold=True)} {before} -> {after}: {'' if found else 'the same bytes'}")
        for one in found:
            sign, color = _SIGNS[one.kind]
            place = f"{'.'.join(one.path)}: " if one.path else ""
            click.secho(f"  {sign} {place}{one.text}", fg=color)
