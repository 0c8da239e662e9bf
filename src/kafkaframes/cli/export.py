"""``kafkaframes export SOURCE... --to DIR``: exports logs or live topics to files.

The command continues earlier exports.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli import workers
from kafkaframes.cli.connecting import add_connection_options
from kafkaframes.cli.options import (
    add_budget_option,
    add_click_options,
    add_log_settings,
    json_option,
    key_options,
    master_option,
    workers_option,
)
from kafkaframes.cli.outcome_text import PIPED_TABLE_WIDTH, build_tables, print_problems
from kafkaframes.cli.sources import are_topics, check_source_flags, convert_to_topic_settings, make_live_read_options
from kafkaframes.cli.text import escape_unprintable, format_size, make_console, print_note
from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.jobs.export.settings import ExportSettings, TopicExportSettings

if TYPE_CHECKING:
    from kafkaframes.jobs.export.job import FileExport
    from kafkaframes.jobs.export.run import Outcome
    from kafkaframes.jobs.export.topic_export import TopicExport

EXIT_INCOMPLETE = 1  # exit status if the source is damaged or not exported completely
_SETTINGS_WITH_OWN_FLAGS = (
    "timestamp",
    "keys",
    "key_regex",
    "storage",
    "single_file",
)  # settings whose flags differ from the setting, or that have no flag


@click.command("export")
@click.argument("sources", nargs=-1, required=True, metavar="TOPIC|LOGDIR...")
@click.option("--to", metavar="DIR", help="Folder to write to, as topic=T/partition=P/OFFSET.FORMAT.")
@click.option(
    "-o",
    "--output",
    metavar="FILE.parquet",
    help="Parquet file to write all records to, with topic and partition as columns.",
)
@add_connection_options
@add_click_options(*key_options, master_option, workers_option, json_option)
@add_budget_option
@add_log_settings("sources", kind=ExportSettings, leave_out=_SETTINGS_WITH_OWN_FLAGS)
def command(
    sources: tuple[str, ...],
    settings: ExportSettings,
    to: str | None,
    output: str | None,
    keys: tuple[str, ...],
    key_regex: str | None,
    master: str | None,
    jobs: int | None,
    as_json: bool,
    **connection: Any,
) -> None:
    """Export the records of live topics or Kafka logs to files, one for each offset range or segment.

    Run it again to continue an interrupted export, or to add the records that were appended since. A file appears when
    it is complete, and _SUCCESS when all files are complete.

    With -b, sources are topics. Without -b, a source is a log directory if such a path exists, else a topic of the
    cluster in $KAFKA_BOOTSTRAP_SERVERS.

    Exit status: 0 complete and undamaged; 1 the log is damaged or an open transaction hides records (see standard
    error; the rest is exported), or a segment could not be read (then _SUCCESS is not written); 2 the export failed.

    \b
    kafkaframes export /var/lib/kafka/data --to out
    kafkaframes export orders users -b kafka:9092 --to out
    kafkaframes export /backup/broker-1 -o backup.parquet
    kafkaframes export /backup/broker-1 --to out --topic orders --format csv
    kafkaframes export s3://backup/logs --to /mnt/lake --master spark://host:7077
    """
    if output is not None:
        _check_single_file(output, to, settings.format, master)
    settings = replace(
        settings, keys=tuple(key.encode() for key in keys), key_regex=key_regex, single_file=output is not None
    )
    target = to if output is None else output
    if target is None:
        raise OptionError("the destination is missing; specify --to DIR, or -o FILE.parquet")
    job = _plan_export(sources, settings, target, connection)
    if master is not None and not as_json:
        print_note(f"starting Spark at {master} ...")
    with workers.open_runner(master, jobs, label="exporting", size_bytes=job.size_bytes) as run:
        outcome = job.write_files(run)
    print_problems(outcome, failure="not exported")
    if as_json:
        click.echo(json.dumps(outcome.as_json()))
    else:
        _print_outcome(outcome, part=job.part)
    if not outcome.is_complete:
        sys.exit(EXIT_INCOMPLETE)


def _plan_export(
    sources: tuple[str, ...], settings: ExportSettings, to: str, connection: dict[str, Any]
) -> FileExport | TopicExport:
    """Return the planned export of logs or of live topics."""

    from kafkaframes.jobs.export.job import plan_log_export, plan_topic_export

    is_live = are_topics(sources, connection["servers"])
    check_source_flags(ExportSettings, TopicExportSettings, is_live=is_live)
    output = {"overwrite": settings.overwrite, "single_file": settings.single_file}
    if is_live:
        live_settings = convert_to_topic_settings(settings, TopicExportSettings)
        read = make_live_read_options(sources, live_settings, **connection)
        return plan_topic_export(read, live_settings.make_file_settings(to), **output)
    read_logs = settings.make_read_options(sources, replicas=settings.replicas)
    return plan_log_export(read_logs, settings.make_file_settings(to), **output)


def _check_single_file(output: str, to: str | None, form: str, master: str | None) -> None:
    """Reject a file of ``-o`` that is not Parquet, and flags that do not apply to it."""
    if not output.endswith(".parquet"):
        raise OptionError(f"-o {output}: must end in .parquet; use --to DIR for other formats")
    if to is not None or form != "parquet":
        raise OptionError(
            f"-o {output} is a single Parquet file, and cannot be combined with --to DIR or --format {form}"
        )
    if master is not None:
        raise OptionError(f"-o {output} is written by this machine; use --to DIR with --master")


def _print_outcome(outcome: Outcome, *, part: str) -> None:
    summary = outcome.summary
    out = make_console(width=PIPED_TABLE_WIDTH)
    for table in build_tables(summary):
        out.print(table)
    resumed_text = f", {outcome.resumed:,} were exported by earlier runs" if outcome.resumed else ""
    out.print(
        f"{count_text(summary.records, 'record')}, of {outcome.records_read:,} read, "
        f"{format_size(outcome.output_bytes)}, in {escape_unprintable(str(summary.output))}; "
        f"{count_text(outcome.exported - len(outcome.failed), part)} in {summary.seconds:.1f} s{resumed_text}",
        soft_wrap=True,
        style="bold red" if outcome.is_unfinished else "bold green",
        markup=False,
    )
    if outcome.failed:
        missing = len(outcome.failed)
        verb = verb_text(missing)
        out.print(f"{count_text(missing, part)} {verb} missing; run the command again to continue", style="bold red")
