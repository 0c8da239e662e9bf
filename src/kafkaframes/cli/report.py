"""``kafkaframes report PATH... -o report.html``: what a log holds and what is wrong with it, on one page."""

from __future__ import annotations

from typing import Any

import click

from kafkaframes.cli.options import (
    PAGE,
    format_of,
    json_option_of,
    opens_batches,
    reads,
    specs_option,
    with_options,
    workers_option,
)
from kafkaframes.errors import OptionError
from kafkaframes.jobs.settings import SelectionSettings


@click.command("report", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Where to write: a page (.html) or JSON (.json); - is standard output.  [default: report.html]",
)
@json_option_of("Print the same numbers as one JSON object, or write them to FILE.")
@click.option("--generated-at", metavar="TIME", help="The time shown on the page (ISO 8601, UTC). Default: now.")
@specs_option
@with_options(workers_option)
@opens_batches
@reads("paths", kind=SelectionSettings)
def command(as_json: bool, specs: str | None, **flags: Any) -> None:
    """Report what is in Kafka logs on one page that needs no network.

    Sizes by topic and codec, compression, record sizes, records over time, producers, transactions, distinct
    keys, record formats, copies that differ, damage. Every record is read, nothing is changed.

    PATH is a broker's log directory, a directory of such, a partition, a segment, a pattern, a tiered store, or a
    URL of one of these. Give the directories of several brokers to compare their copies.

    Or PATH is recorded traffic (captures, request logs): bytes, latency and errors by API, clients and what an
    upgrade would break, what KIP-636 would save, connections. --specs is for traffic.

    Exit status: 0 when the report was written, whatever damage it reports; 1 when it was written and something could
    not be read; 2 when there is nothing to report on.

    Example: kafkaframes report /var/lib/kafka/data -o report.html
    """
    from kafkaframes.capture.files import is_traffic
    from kafkaframes.cli.reporting import run, run_on_traffic

    kind = format_of(flags["output"], as_json, default=PAGE)
    if all(map(is_traffic, flags["paths"])):
        run_on_traffic(flags["paths"], flags["output"], kind, flags["generated_at"], specs)
    elif specs is not None:
        raise OptionError("--specs is for captures and request logs")
    else:
        run(kind=kind, **flags)
