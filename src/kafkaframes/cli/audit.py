"""``kafkaframes audit INPUT... --target 4.0.1``: what an upgrade of the brokers would break, and for whom."""

from __future__ import annotations

import click

from kafkaframes.cli.options import ports_option, specs_option

TEXT, JSON, HTML = "text", "json", "html"


@click.command("audit", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "--target", metavar="RELEASE", help="The release to upgrade to: 4.0.1, 4.3, 3.9, ... Default: the newest."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice([TEXT, JSON, HTML]),
    default=TEXT,
    show_default=True,
    help="The format of the result.",
)
@click.option("-o", "--output", metavar="FILE", help="Where it goes; standard output by default.")
@ports_option
@specs_option
@click.option("-v", "--verbose", is_flag=True, help="Also what is fine, and each finding with its reason.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    target: str | None,
    kind: str,
    output: str | None,
    ports: str,
    specs: str | None,
    verbose: bool,
) -> None:
    """Audit clients and logs before an upgrade: which API versions and record formats the new release removed.

    INPUT is a capture (pcap, pcapng), a broker's request log, a directory of these, or a log directory. Several make
    one audit. Verdicts: fine, unknown, deprecated, removed; a line for each client that is not fine.

    Exit status: 0 when nothing stands against the upgrade, 3 when something is deprecated, 4 when something is
    removed, 2 when an input cannot be read.

    Example: kafkaframes audit trace.pcap request.log --target 4.0.1
    """
    from kafkaframes.cli.auditing import run

    ctx.exit(run(paths, target, kind=kind, output=output, ports=ports, specs=specs, verbose=verbose))
