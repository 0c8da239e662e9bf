"""``kafkaframes audit INPUT... --target 4.0.1``: what an upgrade of the brokers would break, and for whom."""

from __future__ import annotations

from typing import Any

import click

from kafkaframes.cli.options import TEXT, format_of, json_option, settings_options
from kafkaframes.jobs.settings import AuditSettings


@click.command("audit", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, required=True, metavar="INPUT...")
@settings_options(AuditSettings)
@click.option("-o", "--output", metavar="FILE", help="Write to a file: a page (.html), JSON (.json), else text.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, paths: tuple[str, ...], output: str | None, as_json: bool, **flags: Any) -> None:
    """Audit clients and logs before an upgrade: which API versions and record formats the new release removed.

    INPUT is a capture (pcap, pcapng), a broker's request log, a directory of these, or a log directory. Several make
    one audit. Verdicts: fine, unknown, deprecated, removed; a line for each client that is not fine.

    Exit status: 0 when the upgrade breaks nothing, 3 when something is deprecated, 4 when something is removed, 2 when
    an input cannot be read.

    Example: kafkaframes audit trace.pcap request.log --target 4.0.1
    """
    from kafkaframes.cli.auditing import run

    kind = format_of(output, as_json, default=TEXT)
    ctx.exit(run(paths, AuditSettings(**flags), kind=kind, output=output))
