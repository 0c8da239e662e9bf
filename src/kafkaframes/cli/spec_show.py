"""``kafkaframes spec list``, ``show``, ``diff``, ``show-codec``: print message specs in a readable form."""

from __future__ import annotations

import json

import click

from kafkaframes.cli.options import make_json_option, specs_option
from kafkaframes.cli.text import print_table
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.emit import to_text
from kafkaframes.protocol.spec.evolution import walk_fields
from kafkaframes.protocol.spec.layout import bnf_text, default_text, is_informative
from kafkaframes.protocol.spec.layout import layout_json as layout_as_json
from kafkaframes.protocol.spec.model import RPC_TYPES, MessageSpec
from kafkaframes.protocol.spec.releases import find_first_release_with
from kafkaframes.protocol.spec.sources import check_version
from kafkaframes.protocol.spec_functions import compare_versions, describe_layout, find_specs


@click.command("list")
@click.argument("pattern", required=False, default="")
@click.option(
    "--records", is_flag=True, help="List the records of Kafka's internal topics and files instead of the APIs."
)
@make_json_option("Print one JSON object per line.")
def list_messages(pattern: str, records: bool, as_json: bool) -> None:
    """List the messages in the catalog: APIs by key with their versions, or records by module.

    PATTERN selects the names that contain it, ignoring case. "Versions" are all that kafkaframes supports; "current"
    are those of the newest Kafka release in the catalog. "Flexible since" is the first release with a flexible version.
    """
    table = _list_records() if records else _list_apis()
    result = [row for row in table if pattern.lower() in str(row["name"]).lower()]
    if as_json:
        for row in result:
            click.echo(json.dumps(row))
    else:
        _print_list(result, "records" if records else "APIs")


def _list_apis() -> list[dict[str, object]]:
    return [
        {
            "key": api.key,
            "name": api.name,
            "versions": str(api.versions),
            "current": str(api.current_versions) + (" (newest unstable)" if api.is_latest_unstable else ""),
            "flexible": "-" if api.flexible_since is None else f"{api.flexible_since}+",
            "flexible since": _find_first_flexible_release(api) or "-",
            "headers": _format_header_versions(api),
        }
        for api in catalog.list_apis()
    ]


def _find_first_flexible_release(api: catalog.Api) -> str | None:
    """Return the first release with a flexible version of an API; None if no release has one."""
    return None if api.flexible_since is None else find_first_release_with(api.key, api.flexible_since)


def _format_header_versions(api: catalog.Api) -> str:
    """Return the header versions of request/response: ``1/0``, and from the first flexible version on ``2/1``."""
    pairs = list(dict.fromkeys(api.header_versions.values()))
    return ", ".join(f"{request}/{response}" for request, response in pairs)


def _list_records() -> list[dict[str, object]]:
    entries = [catalog.find_entry(name) for name in catalog.list_names()]
    rows = [record_spec for record_spec in entries if record_spec.outline.type not in ("request", "response")]
    return [
        {
            "module": record_spec.module.removeprefix("kafka-"),
            "key": "-" if record_spec.outline.api_key is None else record_spec.outline.api_key,
            "name": record_spec.name,
            "type": record_spec.outline.type,
            "versions": str(record_spec.outline.valid_versions),
            "flexible": str(record_spec.outline.flexible_versions),
            "last release": record_spec.last_release,
        }
        for record_spec in sorted(rows, key=lambda entry: (entry.module, entry.outline.api_key or 0, entry.name))
    ]


def _print_list(result: list[dict[str, object]], noun: str) -> None:
    columns = list(result[0]) if result else []
    rows = [[str(row[name]) for name in columns] for row in result]
    if result:
        print_table(columns, rows, dim=[row.get("current") == "none" for row in result])
    click.echo(f"{len(result)} {noun} (Kafka {catalog.newest_release()} and all earlier releases)")


_CHANGE_SIGNS = {
    "added": ("+", "green"),
    "removed": ("-", "red"),
    "changed": ("~", "yellow"),
    "encoding": ("*", "cyan"),
}


@click.command("diff")
@click.argument("name")
@click.argument("before", type=int)
@click.argument("after", type=int)
@make_json_option("Print one JSON object per change and line.")
def print_version_diff(name: str, before: int, after: int, as_json: bool) -> None:
    """Show the differences between the wire layouts of the versions BEFORE and AFTER.

    NAME is a message (MetadataResponse), an API (Metadata: its request and its response) or a spec file (Foo.json).
    """
    for spec in find_specs(name):
        result = compare_versions(spec, before, after)
        if as_json:
            for entry in result:
                row = {"message": spec.name, "kind": entry.kind, "field": ".".join(entry.path), "change": entry.text}
                click.echo(json.dumps(row))
            continue
        click.echo(f"{click.style(spec.name, bold=True)} {before} -> {after}: {'' if result else 'the same bytes'}")
        for entry in result:
            sign, color = _CHANGE_SIGNS[entry.kind]
            prefix = f"{'.'.join(entry.path)}: " if entry.path else ""
            click.secho(f"  {sign} {prefix}{entry.text}", fg=color)


@click.command("show-codec")
@click.argument("name")
@click.argument("version", type=int)
@specs_option
def print_codec(name: str, version: int, specs: str | None) -> None:
    """Print the source text of the generated functions of NAME at VERSION."""
    from kafkaframes.protocol.messages.registry import find_message_class_in

    click.echo(find_message_class_in(name, specs).codec(version).source_text(), nl=False)


@click.command("show")
@click.argument("name")
@click.argument("version", type=int, required=False)
@click.option("--bnf", "as_bnf", is_flag=True, help="Print the notation of Kafka's protocol guide.")
@make_json_option("Print JSON; without VERSION, the spec itself.")
def print_layout(name: str, version: int | None, as_bnf: bool, as_json: bool) -> None:
    """Show the wire layout of a message at VERSION, or without VERSION its fields in all versions.

    NAME is a message (MetadataResponse), an API (Metadata: its request and its response) or a spec file (Foo.json).
    """
    for spec in find_specs(name):
        if as_bnf:
            click.echo(bnf_text(spec, check_version(spec, version)))
        elif as_json:
            click.echo(
                to_text(spec) if version is None else json.dumps(layout_as_json(spec, check_version(spec, version)))
            )
        elif version is None:
            _print_all_versions(spec)
        else:
            _print_version(spec, check_version(spec, version))


def _print_version(spec: MessageSpec, version: int) -> None:
    header = f", header {spec.header_version(version)}" if spec.type in RPC_TYPES else ""
    encoding = "flexible" if spec.is_flexible(version) else "inflexible"
    _print_heading(spec, f"version {version} ({encoding}{header})")
    lines = [
        (
            "  " * row.depth + row.name,
            row.wire_type,
            row.size,
            "; ".join(filter(None, (row.note, row.about or catalog.find_description(spec.name, row.name)))),
        )
        for row in describe_layout(spec, version)
    ]
    print_table(("field", "type", "bytes", "notes"), lines)


def _print_all_versions(spec: MessageSpec) -> None:
    _print_heading(spec, f"versions {spec.valid_versions}, flexible {spec.flexible_versions}")
    lines: list[tuple[str, ...]] = []
    for path, entry in walk_fields(spec):
        tag = "" if entry.tag is None else f"{entry.tag} in {entry.tagged_versions}"
        nullable_text = "" if entry.nullable_versions.is_empty else str(entry.nullable_versions)
        default = default_text(entry.default) if entry.tag is not None or is_informative(entry.default) else ""
        kinds = (("key", entry.map_key), ("ignorable", entry.ignorable))
        marks = ", ".join(word for word, is_set in kinds if is_set)
        cells = (
            "  " * (len(path) - 1) + entry.name,
            str(entry.type),
            str(entry.versions),
            nullable_text,
            tag,
            default,
            marks,
        )
        lines.append((*cells, entry.about))
    print_table(("field", "type", "versions", "nullable", "tag", "default", "marks", "about"), lines)


def _print_heading(spec: MessageSpec, suffix: str) -> None:
    """Print the name, kind and key of a message, and its description."""
    key = "" if spec.api_key is None else f" {spec.api_key}"
    click.echo(f"{click.style(spec.name, bold=True)}: {spec.type}{key}, {suffix}")
    description = catalog.find_description(spec.name)
    if description:
        click.echo(description)
