"""``kafkaframes spec show``: the layout of a version as a table, BNF or JSON; or the fields over all versions."""

from __future__ import annotations

import json

import click

from kafkaframes.cli.options import json_option_of
from kafkaframes.cli.spec_named import checked_version, named
from kafkaframes.cli.tables import print_table
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.emit import to_text
from kafkaframes.protocol.spec.evolution import fields_of
from kafkaframes.protocol.spec.model import RPC_TYPES, MessageSpec
from kafkaframes.protocol.spec.render import as_json as layout_as_json
from kafkaframes.protocol.spec.render import bnf, default_words, is_telling, rows


@click.command("show")
@click.argument("name")
@click.argument("version", type=int, required=False)
@click.option("--bnf", "as_bnf", is_flag=True, help="The notation of Kafka's protocol guide.")
@json_option_of("JSON; without a VERSION the spec itself.")
def command(name: str, version: int | None, as_bnf: bool, as_json: bool) -> None:
    """Show the wire layout of a message at VERSION, or without one its fields over all versions.

    NAME is a message (MetadataResponse), an API (Metadata: its request and its response) or a spec file (Foo.json).
    """
    for spec in named(name):
        if as_bnf:
            click.echo(bnf(spec, checked_version(spec, version)))
        elif as_json:
            click.echo(
                to_text(spec) if version is None else json.dumps(layout_as_json(spec, checked_version(spec, version)))
            )
        elif version is None:
            _print_all(spec)
        else:
            _print_version(spec, checked_version(spec, version))


def _print_version(spec: MessageSpec, version: int) -> None:
    header = f", header {spec.header_version(version)}" if spec.type in RPC_TYPES else ""
    encoding = "flexible" if spec.is_flexible(version) else "inflexible"
    _heading(spec, f"version {version} ({encoding}{header})")
    lines = [
        (
            "  " * row.depth + row.name,
            row.wire_type,
            row.size,
            "; ".join(filter(None, (row.note, row.about or catalog.about(spec.name, row.name)))),
        )
        for row in rows(spec, version)
    ]
    print_table(("field", "type", "bytes", "notes"), lines)


def _print_all(spec: MessageSpec) -> None:
    _heading(spec, f"versions {spec.valid_versions}, flexible {spec.flexible_versions}")
    lines: list[tuple[str, ...]] = []
    for path, one in fields_of(spec):
        tag = "" if one.tag is None else f"{one.tag} in {one.tagged_versions}"
        null = "" if one.nullable_versions.is_empty else str(one.nullable_versions)
        default = default_words(one.default) if one.tag is not None or is_telling(one.default) else ""
        kinds = (("key", one.map_key), ("ignorable", one.ignorable))
        marks = ", ".join(word for word, is_set in kinds if is_set)
        cells = ("  " * (len(path) - 1) + one.name, str(one.type), str(one.versions), null, tag, default, marks)
        lines.append((*cells, one.about))
    print_table(("field", "type", "versions", "nullable", "tag", "default", "marks", "about"), lines)


def _heading(spec: MessageSpec, what: str) -> None:
    key = "" if spec.api_key is None else f" {spec.api_key}"
    click.echo(f"{click.style(spec.name, bold=True)}: {spec.type}{key}, {what}")
    about = catalog.about(spec.name)
    if about:
        click.echo(about)
