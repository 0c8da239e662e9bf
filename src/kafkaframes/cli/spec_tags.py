"""``kafkaframes spec tags``: the registry of tags, and whether proposals keep to it."""

from __future__ import annotations

import json
import sys

import click

from kafkaframes.cli.options import json_option_of
from kafkaframes.cli.spec_sources import load_specs
from kafkaframes.cli.tables import print_table
from kafkaframes.protocol.spec.catalog.tag_ledger import Tag, tags_of
from kafkaframes.protocol.spec.tags import collisions, next_free, registry


@click.command("tags")
@click.argument("pattern", required=False, default="")
@click.option("--specs", "sources", multiple=True, metavar="DIR|FILE", help="A proposal; give several to compare them.")
@json_option_of("One JSON object a line.")
def command(pattern: str, sources: tuple[str, ...], as_json: bool) -> None:
    """List the tags of Kafka's messages: whose each is, in which versions, since which release.

    PATTERN keeps the messages whose name contains it. With --specs the tags of proposals are listed, and held against
    the releases and against each other: a tag of a struct belongs to one field for ever. Exit status 1 if one collides.
    """
    proposals = {source: list(load_specs(source).values()) for source in sources}
    own = [tag for specs in proposals.values() for spec in specs for tag in tags_of(spec)]
    table = [tag for tag in own or registry().values() if pattern.lower() in tag.message.lower()]
    table.sort(key=lambda tag: tag.key)
    if as_json:
        for tag in table:
            click.echo(json.dumps(tag._asdict() | {"since": _since(tag)}))
    else:
        _print(table)
    clashes = list(collisions(proposals))
    for clash in clashes:
        tag = clash.tag
        click.echo(f"collision: {tag.message}.{tag.struct} tag {tag.number} ({tag.field}): {clash.text}", err=as_json)
    sys.exit(bool(clashes))


def _print(table: list[Tag]) -> None:
    free = next_free([*registry().values(), *table])
    rows = [
        (tag.message, tag.struct if tag.struct != tag.message else "", *_cells(tag), str(free[tag.message, tag.struct]))
        for tag in table
    ]
    print_table(("message", "struct", "tag", "field", "type", "versions", "since", "before", "next free"), rows)
    click.echo(f"{len(table)} tags")


def _cells(tag: Tag) -> tuple[str, ...]:
    before = ", ".join(f"{name} ({release})" for name, release in tag.before)
    return str(tag.number), tag.field, tag.type, tag.versions, _since(tag) or "", before


def _since(tag: Tag) -> str | None:
    """Return the release that has had a tag first; a proposal's tags are looked up."""
    known = registry().get(tag.key)
    return tag.since or (known.since if known is not None else None)
