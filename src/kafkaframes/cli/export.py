"""``kafkaframes export LOGDIR... --to DIR``: exports to files (resumable) or to a table (incremental)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli import workers
from kafkaframes.cli.options import (
    FORMATS,
    TABLE_FORMATS,
    commit_option,
    json_option,
    key_options,
    log_option,
    master_option,
    opens_batches,
    reads,
    settings_options,
    with_options,
    workers_option,
)
from kafkaframes.cli.text import console, note, printable, say, size_text
from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.jobs.export.settings import ExportSettings
from kafkaframes.storage.files.atomic import refuse_inside

if TYPE_CHECKING:
    from kafkaframes.jobs.export.run import Outcome
    from kafkaframes.jobs.export.task import ExportTask, Settings
    from kafkaframes.jobs.job import Runner
    from kafkaframes.scan.log.options import ReadOptions
    from kafkaframes.storage.log.notes import LogNotes


EXIT_INCOMPLETE = 1
_ELSEWHERE = (  # settings with flags of their own, flags that several commands share, or options of kafka-log
    "format",
    "timestamp",
    "keys",
    "key_regex",
    "headers",
    "storage",
    "verify_crc",
    "internal_topics",
)


@click.command("export")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option("--to", metavar="DIR", help="The folder to write to (topic=T/partition=P/SEGMENT.FORMAT), or the table.")
@click.option(
    "--format",
    "form",
    type=click.Choice((*FORMATS, *TABLE_FORMATS)),
    default="parquet",
    show_default=True,
    help="The format of the files, or a table of Delta or Iceberg (extras [delta], [iceberg]).",
)
@click.option(
    "-o", "--output", metavar="FILE.parquet", help="Write everything to one file, with topic and partition as columns."
)
@commit_option
@click.option("--incremental", is_flag=True, help="Tables: add only what the table does not have yet.")
@click.option(
    "--catalog", metavar="NAME", help="Iceberg catalog in the configuration of pyiceberg. Default: DIR/catalog.db."
)
@click.option("--table", metavar="NS.NAME", help="Iceberg table in the catalog. Default: kafka.records.")
@with_options(*key_options, settings_options(ExportSettings, *_ELSEWHERE))
@with_options(log_option, master_option, workers_option, json_option)
@opens_batches
@reads("paths")
def command(paths: tuple[str, ...], as_json: bool, master: str | None, jobs: int | None, **flags: Any) -> None:
    """Export the records of Kafka logs to files, one for each segment, or to a table of Delta or Iceberg.

    Run it again to continue an interrupted export, or to add what was appended since. A file appears when it is
    complete, _SUCCESS when all files are there.

    A table gets every record exactly once: each commit stores the offsets that it adds. --incremental adds new records;
    two exporters at once cannot both add the same offsets.

    Exit status: 0 complete and undamaged; 1 the log is damaged (see standard error; the rest is exported), or a segment
    could not be read (then there is no _SUCCESS); 2 nothing could be done.

    \b
    kafkaframes export /var/lib/kafka/data --to out
    kafkaframes export /backup/broker-1 -o backup.parquet
    kafkaframes export /backup/broker-1 --to out --topic orders --format csv
    kafkaframes export s3://backup/logs --to /mnt/lake --master spark://host:7077
    kafkaframes export /backup/broker-1 --to lake --format delta --incremental
    """
    to_table = flags["form"] in TABLE_FORMATS
    if flags["output"] is not None:
        flags["to"] = _single_file(flags, master)
    _check_flags(flags, to_table=to_table)
    settings = _settings(flags)
    options = _read_options(paths, settings, flags["options"], to_table=to_table)
    files = settings.files((flags["to"] or "").removeprefix("file://"), options)
    if not files.to and flags["catalog"] is None:
        raise OptionError("--to is empty: must be a directory")
    if "://" in files.to and not to_table:
        raise OptionError(
            f"--to {files.to}: must be a directory (a mounted one may be a store): files are renamed in it"
        )
    if files.to and "://" not in files.to:
        refuse_inside(Path(files.to), paths)
    if to_table:
        requested = _table_export_of(options, files, flags)
    else:
        from kafkaframes.jobs.export.planning import plan_export
        from kafkaframes.jobs.export.run import export

        plan = plan_export(options)
        write = export if flags["output"] is None else _single
        report_values: dict[str, Any] = {"internal_topics": plan.internal_topics, "notes": plan.notes}
        requested = partial(write, plan.tasks, files, overwrite=flags["overwrite"], **report_values)
    if master is not None and not as_json:
        note(f"starting Spark at {master} ...")
    with workers.runner(master, jobs, label="exporting") as work:
        outcome = requested(run=work)
    _report(outcome, as_json=as_json)
    if not outcome.is_complete:
        sys.exit(EXIT_INCOMPLETE)


def _single_file(flags: dict[str, Any], master: str | None) -> str:
    """Return the file of ``-o``. It requires Parquet, and excludes some other flags."""
    output: str = flags["output"]
    if not output.endswith(".parquet"):
        hint = f"; --option {output} sets an option of kafka-log" if "=" in output else ""
        raise OptionError(f"-o {output}: must end in .parquet; --to DIR writes the other formats{hint}")
    if flags["to"] is not None or flags["form"] != "parquet":
        raise OptionError(f"-o {output}: is one Parquet file; --to DIR and --format {flags['form']} do not go with it")
    if master is not None:
        raise OptionError(f"-o {output}: is written by this machine; --master goes with --to DIR")
    return output


def _single(tasks: list[ExportTask], settings: Settings, *, run: object, **options: Any) -> Outcome:
    """Export into one file. ``run``, which would distribute the work, is not used."""
    from kafkaframes.jobs.export.run import export_single

    return export_single(tasks, settings, **options)


def _check_flags(flags: dict[str, Any], *, to_table: bool) -> None:
    """Reject options of another format, and an export without a target."""
    form = flags["form"]
    if flags["incremental"] and not to_table:
        raise OptionError(f"--incremental is for tables; an export to {form} takes up what was appended by itself")
    if flags["incremental"] and flags["overwrite"]:
        raise OptionError("only one of --incremental and --overwrite can be given")
    for name in ("catalog", "table"):
        if flags[name] is not None and form != "iceberg":
            raise OptionError(f"--{name} is for --format iceberg")
    if flags["to"] is None and flags["catalog"] is None:
        raise OptionError("say where to: --to DIR, or -o FILE.parquet")


def _read_options(
    paths: Sequence[str], settings: ExportSettings, options: Mapping[str, str], *, to_table: bool
) -> ReadOptions:
    from kafkaframes.jobs.export.planning import check_accepted
    from kafkaframes.scan.selection import topic_choice
    from kafkaframes.spark.options.log_options import log_options

    check_accepted(list(options), to_table=to_table)
    read = log_options(options, paths=tuple(paths), **replace(settings, topics=()).read_fields())
    return replace(read, **topic_choice(settings.topics))


def _settings(flags: Mapping[str, Any]) -> ExportSettings:
    """Read the settings of all segments. ``--option`` overrides flags."""
    flag_values = {entry.name: flags[entry.name] for entry in fields(ExportSettings) if entry.name in flags}
    form = flags["form"]
    return ExportSettings(
        **{**flag_values, "keys": tuple(key.encode() for key in flags["keys"])},
        format=form if form in FORMATS else "parquet",
    )


def _table_export_of(options: ReadOptions, files: Settings, flags: dict[str, Any]) -> Callable[..., Outcome]:
    """Return a function that exports into the table, given a runner of tasks."""
    from kafkaframes.jobs.tables.planning import table_plan
    from kafkaframes.jobs.tables.run import TableExport
    from kafkaframes.jobs.tables.state import table_settings
    from kafkaframes.jobs.tables.targets import open_table

    table = open_table(flags["form"], flags["to"] or "", catalog=flags["catalog"], name=flags["table"])
    files = replace(files, to=flags["to"] or table.shown)
    assert options.isolation is not None  # ExportSettings.read_fields sets it
    chosen = table_settings(files, isolation=options.isolation)

    def export(*, run: Runner) -> Outcome:
        job = TableExport(table, files, chosen, run=run, commit_bytes=flags["commit_bytes"])
        return job.export(table_plan(options), incremental=flags["incremental"], overwrite=flags["overwrite"])

    return export


def _report(outcome: Outcome, *, as_json: bool) -> None:
    for result in outcome.results:
        for fault in result.faults:
            say(f"kafkaframes: {fault}", err=True)
        if result.fault_count > len(result.faults):
            more = result.fault_count - len(result.faults)
            say(f"kafkaframes: {result.task.path}: and {more:,} more damaged positions", err=True)
    for result in outcome.failed:
        say(f"kafkaframes: not exported: {result.failed}", err=True)
    say_notes(outcome.notes)
    if as_json:
        click.echo(json.dumps(outcome.as_json()))
    else:
        _print(outcome)


def say_notes(notes: LogNotes) -> None:
    """Print the notes of a read of logs on standard error, in addition to records and damage."""
    for line in notes:
        say(f"kafkaframes: {printable(line)}", err=True)
    if notes.hidden_records:
        say("kafkaframes: --isolation read_uncommitted includes these records", err=True)


def _print(outcome: Outcome) -> None:
    from kafkaframes.cli.summarize import WIDTH_IN_A_PIPE, tables_of

    summary = outcome.summary
    out = console(width=WIDTH_IN_A_PIPE)
    for part in tables_of(summary):
        out.print(part)
    resumed_text = f", {outcome.resumed:,} were done before" if outcome.resumed else ""
    out.print(
        f"{count_text(summary.records, 'record')}, of {outcome.records_read:,} read, "
        f"{size_text(outcome.output_bytes)}, in {printable(str(summary.output))}; "
        f"{count_text(outcome.exported - len(outcome.failed), 'segment')} in {summary.seconds:.1f} s{resumed_text}",
        soft_wrap=True,
        style="bold red" if outcome.failed else "bold green",
        markup=False,
    )
    if outcome.table is not None:
        for line in lines_of(outcome.table):
            out.print(printable(line), markup=False)
    if outcome.failed:
        missing = len(outcome.failed)
        verb = verb_text(missing)
        out.print(f"{count_text(missing, 'segment')} {verb} missing: run again to go on", style="bold red")


def lines_of(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a summary of the table, line by line."""
    at = facts.get("version", facts.get("snapshot"))
    if at is not None:
        word = "version" if "version" in facts else "snapshot"
        commits = count_text(facts["commits"], "commit") if facts["commits"] else "nothing new"
        yield f"{facts['format']} table {facts['location']}, {word} {at}; {commits}"
    if "metadata" in facts:
        yield f"metadata: {facts['metadata']}"
    for gap in facts["gaps"]:
        yield f"lost before the export: offsets {gap['first']} to {gap['end'] - 1} of {gap['topic']}-{gap['partition']}"
    if facts["removed_orphans"]:
        yield f"removed: {count_text(len(facts['removed_orphans']), 'file')} of runs that were killed"
    for path in facts["doubtful_files"]:
        yield f"a run was killed; whether a commit names its file is not known: {path}"
