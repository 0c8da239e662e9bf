"""``kafkaframes audit INPUT... --target 4.0.1``: what an upgrade of the brokers would break, and for whom."""

from __future__ import annotations

import click

from kafkaframes.cli.options import TEXT, format_of, json_option, ports_option, specs_option


@click.command("audit", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "--target", metavar="RELEASE", help="The release to upgrade to: 4.0.1, 4.3, 3.9, ... Default: the newest."
)
@click.option("-o", "--output", metavar="FILE", help="Write to a file: a page (.html), JSON (.json), else text.")
@json_option
@ports_option
@specs_option
@click.option("-v", "--verbose", is_flag=True, help="Also what is fine, and each finding with its reason.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    target: str | None,
    output: str | None,
    as_json: bool,
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

    ctx.exit(
        run(
            paths,
            target,
            kind=format_of(output, as_json, default=TEXT),
            output=output,
            ports=ports,
            specs=specs,
            verbose=verbose,
        )
    )
