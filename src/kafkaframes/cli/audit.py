"""``kafkaframes audit INPUT... --target 4.0.1``: what an upgrade of the brokers would break, and for whom."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pyarrow.compute as pc

from kafkaframes import __version__
from kafkaframes.analysis.audit import FormatUse, Uses, audit, target_release
from kafkaframes.analysis.audit_text import as_json, lines
from kafkaframes.capture.files import find_files
from kafkaframes.capture.streams import ports_of
from kafkaframes.capture.uses import count_uses
from kafkaframes.cli.text import say
from kafkaframes.copies.records import read_batches
from kafkaframes.errors import OptionError
from kafkaframes.log.discover import discover
from kafkaframes.report.audit_page import audit_page

TEXT, JSON, HTML = "text", "json", "html"


@click.command("audit", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, required=True, metavar="INPUT...")
@click.option("--target", required=True, metavar="RELEASE", help="The release to upgrade to: 4.0.1, 4.3, 3.9, ...")
@click.option(
    "--format", "kind", type=click.Choice([TEXT, JSON, HTML]), default=TEXT, show_default=True, help="How it is told."
)
@click.option("-o", "--output", metavar="FILE", help="Where it goes; standard output by default.")
@click.option("--ports", metavar="PORTS", default="", help="On which brokers listen: 9092,9094-9096.")
@click.option("-v", "--verbose", is_flag=True, help="What is fine, too.")
@click.pass_context
def command(
    ctx: click.Context, paths: tuple[str, ...], target: str, kind: str, output: str | None, ports: str, verbose: bool
) -> None:
    """Audit clients and logs before an upgrade: which API versions and record formats the new release removed.

    INPUT is a capture (pcap, pcapng), a broker's request log, a directory of these, or a log directory. Several make
    one audit. Verdicts: fine, unknown, deprecated, removed.

    Exit status: 0 when nothing stands against the upgrade, 3 when something is deprecated, 4 when something is
    removed, 2 when an input cannot be read.

    Example: kafkaframes audit trace.pcap request.log --target 4.0.1
    """
    release = target_release(target)
    listening = _ports(ports)
    uses = Uses()
    traffic = [path for path in paths if not _is_log_directory(path)]
    if traffic:
        count_uses(find_files(traffic), release, uses, ports=listening)
    for path in paths:
        if path not in traffic:
            _count_disk(path, uses)
    found = audit(uses, release)
    if kind == JSON:
        text = json.dumps(as_json(found), indent=1)
    elif kind == HTML:
        text = audit_page(found, paths=paths, version=__version__)
    else:
        text = "\n".join(lines(found, verbose=verbose))
    _write(text, output)
    ctx.exit(found.exit_status)


def _ports(text: str) -> tuple[int, ...]:
    try:
        return ports_of(text) if text else ()
    except ValueError:
        raise OptionError(f"--ports {text}: numbers and ranges are wanted, 9092,9094-9096") from None


def _write(text: str, output: str | None) -> None:
    if output is None:
        say(text)
        return
    try:
        Path(output).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise OptionError(f"-o {output}: cannot be written: {error.strerror or error}") from error


def _is_log_directory(path: str) -> bool:
    """Tell a log from traffic: a directory with partitions, a partition, a segment."""
    place = Path(path)
    if place.is_dir():
        return any(one.is_dir() or one.suffix in (".index", ".timeindex") for one in place.iterdir())
    return place.suffix == ".log" and place.stem.isdecimal()


def _count_disk(path: str, uses: Uses) -> None:
    """Count the batches and messages of a log by topic and format."""
    for directory in discover([path]):
        for partition in directory.partitions:
            for segment in partition.segments:
                table = read_batches(segment.path)
                for row in pc.value_counts(table.column("magic")).to_pylist():
                    use = FormatUse(None, "disk", row["values"], partition.topic)
                    uses.add_format(use, row["counts"], None, None)
