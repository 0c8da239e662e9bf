"""The part of ``kafkaframes export`` that is for tables: which one, and what to tell of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.run import Outcome
from kafkaframes.jobs.export.settings import Settings
from kafkaframes.jobs.tables.files import write_data_file
from kafkaframes.jobs.tables.run import Run, TableExport
from kafkaframes.jobs.tables.state import table_settings
from kafkaframes.jobs.tables.table import Table
from kafkaframes.jobs.tables.targets import delta_table, iceberg_table

if TYPE_CHECKING:
    from kafkaframes.scan.log.options import ReadOptions


def asked_of_table(
    options: ReadOptions, settings: Settings, given: dict[str, Any]
) -> tuple[Callable[..., Outcome], Callable[[Any], Any]]:
    """Return what exports into the table, once it is facts who runs the jobs, and what does one of them.

    Raises:
        MissingExtraError: the table format's library is absent.
        OptionError: the destination is something else, or the options do not fit.
    """
    from kafkaframes.jobs.tables.planning import table_plan

    if given["base64"]:
        raise OptionError("--base64 is for csv and json: a table has bytes")
    table = _TABLES[given["form"]](given)
    settings = replace(settings, to=given["to"] or table.place, form="parquet")
    chosen = table_settings(settings, isolation=options.isolation)

    def asked(*, run: Run) -> Outcome:
        job = TableExport(table, settings, chosen, run=run, commit_bytes=given["commit_bytes"])
        return job.export(table_plan(options), incremental=given["incremental"], overwrite=given["overwrite"])

    return asked, write_data_file


_TABLES: dict[str, Callable[[dict[str, Any]], Table]] = {
    "delta": lambda given: delta_table(given["to"]),
    "iceberg": lambda given: iceberg_table(given, given["table"]),
}


def lines_of(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield what to tell people of the table."""
    at = facts.get("version", facts.get("snapshot"))
    if at is not None:
        word = "version" if "version" in facts else "snapshot"
        made = f"{facts['commits']} commits" if facts["commits"] != 1 else "1 commit"
        yield f"{facts['format']} table {facts['location']}, {word} {at}; {made if facts['commits'] else 'nothing new'}"
    if "metadata" in facts:
        yield f"metadata: {facts['metadata']}"
    for gap in facts["gaps"]:
        yield f"lost before the export: offsets {gap['first']} to {gap['end'] - 1} of {gap['topic']}-{gap['partition']}"
    if facts["removed_orphans"]:
        yield f"{len(facts['removed_orphans']):,} files of runs that were killed are removed"
    for path in facts["doubtful_files"]:
        yield f"a run was killed; whether a commit names its file cannot be facts: {path}"
