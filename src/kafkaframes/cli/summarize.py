"""``kafkaframes summarize PATH... --to DIR``: converts a log to Parquet on Spark, and prints a summary."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from kafkaframes.cli.options import log_option, opens_batches, reads, replicas_option, spark_storage
from kafkaframes.cli.text import console, note, printable, size_text, time_text
from kafkaframes.cli.workers import spark_at
from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.job import row_counts_text
from kafkaframes.records.limits import current_budget
from kafkaframes.storage.files.atomic import refuse_inside

if TYPE_CHECKING:
    from rich.table import Table

    from kafkaframes.jobs.export.tally import Summary

WIDTH_IN_A_PIPE = 110
_WHOLE = "_SUCCESS"  # the file that Spark writes last
SMALL_BYTES = 256 << 20  # logs below this size are finished before the JVM has optimized its code
# Options for a JVM that compiles quickly rather than well. Spark's start and the summary of examples/logs took 22 CPU s
# of Java, and 41 s without them (2 cores under other load, one run of each, 2026-11-22).
QUICK_JAVA = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--to", required=True, metavar="DIR", help="The folder to write to; each topic gets a folder in it.")
@click.option("--overwrite", is_flag=True, help="Replace what an earlier run wrote to DIR.")
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
@log_option
@replicas_option
@opens_batches
@reads("paths")
def command(
    paths: tuple[str, ...],
    to: str,
    overwrite: bool,
    master: str,
    options: dict[str, str],
    replicas: str,
    storage: dict[str, Any],
) -> None:
    """Read Kafka logs with Spark, write their records as Parquet and print a summary.

    PATH is a log directory, a folder of such, a topic partition's directory, a segment or a pattern.

    Example: kafkaframes summarize /var/lib/kafka/data --to out/orders --option subscribe=orders
    """
    from kafkaframes.spark.dataframes.summary import plan_summary, summarize

    flags = {"replicas": replicas} | options | spark_storage(storage)
    flags = {"budgetBytes": f"{current_budget()}"} | flags
    plan = plan_summary(paths, flags)  # reports invalid paths and options before Spark starts, which takes seconds
    _check_target(to, overwrite)
    if "://" not in to:
        refuse_inside(Path(to), paths)
    out = console(width=WIDTH_IN_A_PIPE)
    java = QUICK_JAVA if plan.bytes_to_read < SMALL_BYTES else {}
    with _no_half(to):
        note(f"starting Spark at {master} ...")
        with spark_at(master, "summarize", config=java) as spark:
            summary = summarize(spark, list(paths), to=to, options=flags, overwrite=overwrite, plan=plan)
    for part in render(summary):
        out.print(part)


def _check_target(to: str, overwrite: bool) -> None:
    """Reject a target that is not an earlier output of Spark."""
    folder = Path(to)
    if "://" in to:
        return
    if not folder.exists():
        above = next(path for path in folder.absolute().parents if path.exists())
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise OptionError(
                f"--to {to}: cannot be written: {above} is {'not writable' if above.is_dir() else 'a file'}"
            )
        return
    if not overwrite:
        raise OptionError(f"--to {to}: is there already; --overwrite replaces an earlier output")
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / _WHOLE).exists()):
        raise OptionError(f"--to {to}: is no earlier output (it has no {_WHOLE}), so it is not overwritten")


@contextmanager
def _no_half(to: str) -> Iterator[None]:
    """Remove Spark's incomplete output from a local directory if the command is stopped or fails."""
    try:
        yield
    except BaseException:
        if "://" not in to and not (Path(to) / _WHOLE).exists():
            shutil.rmtree(to, ignore_errors=True)
        raise


def render(summary: Summary) -> Iterable[Any]:
    """Yield the output: tables, then the location of the data."""
    yield from tables_of(summary)
    output, topic = _plain(summary.output), _plain(summary.topics[0].topic if summary.topics else "...")
    if summary.records_read is not None:
        yield row_counts_text(summary.records_read, summary.records, {})
    yield (
        f"[bold green]✓[/] {count_text(summary.records, 'record')} in "
        f"{summary.seconds:.1f} s, as Parquet in [bold]{output}[/]"
    )
    yield f"""  [dim]spark.read.parquet("{output}").where("topic = '{topic}'").show()[/]"""


def tables_of(summary: Summary) -> Iterable[Any]:
    """Yield a table of topics, a table of codecs, and the skipped data."""
    yield ""
    yield _topics_table(summary)
    yield _codecs_table(summary)
    yield _table_of_dropped(summary) if summary.dropped else "[bold]Left out[/]  nothing"
    if summary.internal_topics:
        names = _plain(", ".join(summary.internal_topics))
        yield f"[bold]Not read[/]  internal topics: {names} [dim](--option includeInternalTopics=true)[/]"
    yield ""


def _plain(text: str) -> str:
    return escape(printable(text))


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in ("topic", "codec", "what", "first", "last") else "right")
    return table


def _topics_table(summary: Summary) -> Table:
    table = _table("Records", "topic", "partitions", "records", "bytes", "first", "last")
    for topic in summary.topics:
        table.add_row(
            f"[bold]{_plain(topic.topic)}[/]",
            f"{topic.partitions}",
            f"{topic.records:,}",
            size_text(topic.payload_bytes),
            time_text(topic.first_timestamp_ms),
            time_text(topic.last_timestamp_ms),
        )
    return table


def _codecs_table(summary: Summary) -> Table:
    table = _table("Compression", "codec", "batches", "records", "in the log", "keys, values, headers", "ratio")
    for codec in summary.codecs:
        row = (f"{codec.batches:,}", f"{codec.records:,}", size_text(codec.log_bytes), size_text(codec.payload_bytes))
        table.add_row(f"[bold]{codec.codec}[/]", *row, f"[bold]{codec.ratio:.2f}[/]")
    return table


def _table_of_dropped(summary: Summary) -> Table:
    table = _table("Left out", "what", "batches", "records", "in the log")
    for entry in summary.dropped:
        records = "?" if entry.records is None else f"{entry.records:,}"
        table.add_row(_plain(entry.reason), f"{entry.batches:,}", records, size_text(entry.log_bytes))
    return table
