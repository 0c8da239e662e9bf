"""``kafkaframes spec list``: the APIs and their versions, or the records."""

from __future__ import annotations

import json

import click

from kafkaframes.cli.options import json_option_of
from kafkaframes.cli.tables import print_table
from kafkaframes.protocol.spec import catalog


@click.command("list")
@click.argument("pattern", required=False, default="")
@click.option("--records", is_flag=True, help="The records of Kafka's own topics and files, not the APIs.")
@json_option_of("One JSON object a line.")
def command(pattern: str, records: bool, as_json: bool) -> None:
    """List what the catalog holds: APIs by key with their versions, or records by module.

    PATTERN keeps the names that contain it, in any letter case. "Versions" are all that can be spoken; "current" are
    those of the newest Kafka release in the catalog.
    """
    table = _records() if records else _apis()
    found = [row for row in table if pattern.lower() in str(row["name"]).lower()]
    if as_json:
        for row in found:
            click.echo(json.dumps(row))
    else:
        _print(found, "records" if records else "APIs")


def _apis() -> list[dict[str, object]]:
    return [
        {
            "key": api.key,
            "name": api.name,
            "versions": str(api.versions),
            "current": str(api.current_versions) + (" (newest unstable)" if api.is_latest_unstable else ""),
            "flexible": "-" if api.flexible_since is None else f"{api.flexible_since}+",
            "headers": _headers(api),
        }
        for api in catalog.apis()
    ]


def _headers(api: catalog.Api) -> str:
    """The header versions of request/response: ``1/0``, and from the first flexible version ``2/1``."""
    pairs = list(dict.fromkeys(api.header_versions.values()))
    return ", ".join(f"{request}/{response}" for request, response in pairs)


def _records() -> list[dict[str, object]]:
    entries = [catalog.entry(name) for name in catalog.names()]
    rows = [one for one in entries if one.outline.type not in ("request", "response")]
    return [
        {
            "module": one.module.removeprefix("kafka-"),
            "key": "-" if one.outline.api_key is None else one.outline.api_key,
            "name": one.name,
            "type": one.outline.type,
            "versions": str(one.outline.valid_versions),
            "flexible": str(one.outline.flexible_versions),
            "last release": one.last_release,
        }
        for one in sorted(rows, key=lambda one: (one.module, one.outline.api_key or 0, one.name))
    ]


def _print(found: list[dict[str, object]], what: str) -> None:
    columns = list(found[0]) if found else []
    rows = [[str(row[name]) for name in columns] for row in found]
    if found:
        print_table(columns, rows, dim=[row.get("current") == "none" for row in found])
    click.echo(f"{len(found)} {what} (Kafka {catalog.newest_release()} and all before)")
