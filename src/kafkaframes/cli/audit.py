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
@click.option(
    "-o", "--output", metavar="FILE", help="File to write: a page (.html), JSON (.json), or text (other names)."
)
@json_option
@click.pass_context
def command(ctx: click.Context, /, paths: tuple[str, ...], output: str | None, as_json: bool, **flags: Any) -> None:
    """Find the clients and logs that use API versions or record formats which a new Kafka release has removed.

    INPUT is a capture (pcap, pcapng), a broker's request log, a directory of these, or a log directory. Several inputs
    are audited together. The verdicts are fine, unknown, deprecated and removed; the output has a line for each client
    that is not fine.

    If a part of the input could not be read, the first line describes it (in JSON: the keys judged and unread).

    Exit status: 0 if the upgrade breaks nothing, 3 if a used version is deprecated, 4 if one is removed, 5 if no
    request could be read (with --strict: if any part could not be read), 2 if an input cannot be opened.

    Example: kafkaframes audit trace.pcap request.log --target 4.0.1
    """
    from kafkaframes.jobs.traffic_functions import audit_upgrade

    kind: Any = choose_format(output, as_json, default=TEXT)
    result = audit_upgrade(paths, **flags, to=output, format=kind)
    if output is None:
        print_text(json.dumps(result.to_dict(), indent=1) if kind == JSON else result)
    ctx.exit(result.report.exit_status)
