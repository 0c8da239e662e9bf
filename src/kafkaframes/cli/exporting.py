"""What ``export`` does: plan, run here or on Spark, and report the outcome."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli import workers
from kafkaframes.cli.options import FORMATS, TABLE_FORMATS, times_of
from kafkaframes.cli.text import console, note, printable, say, size_text
from kafkaframes.errors import OptionError
from kafkaframes.jobs.dump.filters import Filter, key_pattern
from kafkaframes.jobs.export.run import Outcome, export, export_single
from kafkaframes.jobs.export.settings import ExportTask, Settings
from kafkaframes.storage.files.atomic import refuse_inside

if TYPE_CHECKING:
    from kafkaframes.scan.log.options import ReadOptions


def run(paths: tuple[str, ...], flags: dict[str, Any], *, as_json: bool, master: str | None, jobs: int | None) -> bool:
    """Export as the flags say; return whether all is there and nothing was damaged."""
    to_table = flags["form"] in TABLE_FORMATS
    if flags["output"] is not None:
        flags["to"] = _single_file(flags, master)
    _check_flags(flags, to_table=to_table)
    options = _read_options(paths, flags, to_table=to_table)
    settings = _settings(options, flags)
    if not settings.to and flags["catalog"] is None:
        raise OptionError("--to is empty: must be a directory")
    if settings.to and "://" not in settings.to:
        refuse_inside(Path(settings.to), paths)
    if to_table:
        from kafkaframes.cli.table_targets import table_export_of

        requested = table_export_of(options, settings, flags)
    else:
        from kafkaframes.jobs.export.planning import plan_export

        tasks, internal = plan_export(options)
        requested = partial(export, tasks, settings, overwrite=flags["overwrite"], internal_topics=internal)
        if flags["output"] is not None:
            requested = partial(_single, tasks, settings, overwrite=flags["overwrite"], internal_topics=internal)
    if master is not None and not as_json:
        note(f"starting Spark at {master} ...")
    with workers.runner(master, jobs, label="exporting") as work:
        outcome = requested(run=work)
    _report(outcome, as_json=as_json)
    return not outcome.failed and not outcome.fault_count


def _single_file(flags: dict[str, Any], master: str | None) -> str:
    """Return the file that ``-o`` names.

    Raises:
        OptionError: it is not for Parquet, or does not go with the other flags.
    """
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
    """Export into one file: ``run``, which would share the work out, is not asked."""
    return export_single(tasks, settings, **options)


def _check_flags(flags: dict[str, Any], *, to_table: bool) -> None:
    """Check that options fit the format.

    Raises:
        OptionError: one is for another format, or none says where to.
    """
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


def _read_options(paths: Sequence[str], flags: dict[str, Any], *, to_table: bool) -> ReadOptions:
    from kafkaframes.jobs.export.planning import check_accepted
    from kafkaframes.scan.log.options import topic_choice
    from kafkaframes.scan.where import where_of
    from kafkaframes.spark.log_options import log_options

    options = flags["options"]
    check_accepted(list(options), to_table=to_table)
    read = log_options(options, paths=tuple(paths), replicas=flags["replicas"], storage=flags["storage"])
    where = where_of(offset=(flags["from_offset"], flags["until_offset"]))
    return replace(read, where=where, **topic_choice(flags["topics"]))


def _settings(options: ReadOptions, flags: dict[str, Any]) -> Settings:
    """Read what holds for all segments."""
    to = (flags["to"] or "").removeprefix("file://")
    if "://" in to and flags["form"] in FORMATS:
        raise OptionError(f"--to {to}: must be a directory (a mounted one may be a store): files are renamed in it")
    times = times_of(flags)
    keep = Filter(
        from_timestamp=times["from_time"],
        until_timestamp=times["until_time"],
        keys=frozenset(key.encode() for key in flags["keys"]) or None,
        key_pattern=key_pattern(flags["key_regex"]) if flags["key_regex"] else None,
        control=options.include_control,
    )
    has_headers = options.include_headers or "includeheaders" not in map(str.lower, flags["options"])
    settings = Settings(
        to, flags["form"], keep, mode=options.mode, verify_crc=options.verify_crc, storage=options.storage
    )
    return replace(settings, headers=has_headers, base64=flags["base64"])


def _report(outcome: Outcome, *, as_json: bool) -> None:
    for result in outcome.results:
        for fault in result.faults:
            say(f"kafkaframes: {fault}", err=True)
        if result.fault_count > len(result.faults):
            more = result.fault_count - len(result.faults)
            say(f"kafkaframes: {result.task.path}: and {more:,} more damaged positions", err=True)
    for result in outcome.failed:
        say(f"kafkaframes: not exported: {result.failed}", err=True)
    if as_json:
        click.echo(json.dumps(outcome.as_json()))
    else:
        _print(outcome)


def _print(outcome: Outcome) -> None:
    from kafkaframes.cli.summarize import WIDTH_IN_A_PIPE, tables_of

    summary = outcome.summary
    out = console(width=WIDTH_IN_A_PIPE)
    for part in tables_of(summary):
        out.print(part)
    resumed = f", {outcome.resumed:,} were done before" if outcome.resumed else ""
    out.print(
        f"{summary.records:,} records, of {outcome.records_read:,} read, {size_text(outcome.output_bytes)}, "
        f"in {printable(str(summary.output))}; "
        f"{outcome.exported - len(outcome.failed):,} segments in {summary.seconds:.1f} s{resumed}",
        soft_wrap=True,
        style="bold red" if outcome.failed else "bold green",
        markup=False,
    )
    if outcome.table is not None:
        from kafkaframes.cli.table_targets import lines_of

        for line in lines_of(outcome.table):
            out.print(printable(line), markup=False)
    if outcome.failed:
        out.print(f"{len(outcome.failed):,} segments are missing: run again to go on", style="bold red")
