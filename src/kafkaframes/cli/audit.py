"""``kafkaframes audit INPUT... --target 4.0.1``: which clients and logs an upgrade of the brokers would break."""

from __future__ import annotations

import json
from typing import Any

import click

from kafkaframes.cli.options import JSON, TEXT, add_settings_flags, choose_format, json_option
from kafkaframes.cli.text import print_text
from kafkaframes.jobs.settings import AuditSettings


@click.command("audit")
@click.argument("paths", nargs=-1, required=True, metavar="INPUT...")
@add_settings_flags(AuditSettings)
@click.option("-o", "--output", metavar="FILE", help="Write to a file: a page (.html), JSON (.json), else text.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, paths: tuple[str, ...], output: str | None, as_json: bool, **flags: Any) -> None:
    """Audit clients and logs before an upgrade: which API versions and record formats the new release removed.

    INPUT is a capture (pcap, pcapng), a broker's request log, a directory of these, or a log directory. Several make
    one audit. Verdicts: fine, unknown, deprecated, removed; a line for each client that is not fine.

    If part of the input could not be read, the first line says what (JSON: judged and unread).

    Exit status: 0 when the upgrade breaks nothing, 3 when something is deprecated, 4 when something is removed, 5 when
    no request could be read (with --strict: or not everything), 2 when an input cannot be opened.

    Example: kafkaframes audit trace.pcap request.log --target 4.0.1
    """
    from kafkaframes.jobs.traffic_functions import audit_upgrade

    kind: Any = choose_format(output, as_json, default=TEXT)
    result = audit_upgrade(paths, **flags, to=output, format=kind)
    if output is None:
        print_text(json.dumps(result.to_dict(), indent=1) if kind == JSON else result)
    ctx.exit(result.report.exit_status)
