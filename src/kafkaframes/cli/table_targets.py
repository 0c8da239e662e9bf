"""The tables that ``export`` and ``table`` write to, and what to tell of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.run import Outcome
from kafkaframes.jobs.export.settings import Settings
from kafkaframes.jobs.job import Runner
from kafkaframes.jobs.tables.run import TableExport
from kafkaframes.jobs.tables.state import Table, table_settings
from kafkaframes.jobs.tables.targets import delta_table, iceberg_table, parquet_table
from kafkaframes.storage.files.atomic import refuse_inside

if TYPE_CHECKING:
    from kafkaframes.scan.log.options import ReadOptions


def table_export_of(options: ReadOptions, settings: Settings, flags: dict[str, Any]) -> Callable[..., Outcome]:
    """Return what exports into the table, given who runs the tasks.

    Raises:
        MissingExtraError: the table format's library is absent.
        OptionError: the destination is something else, or the options do not fit.
    """
    from kafkaframes.jobs.tables.planning import table_plan

    if flags["base64"]:
        raise OptionError("--base64 is for csv and json: a table has bytes")
    table = _TABLES[flags["form"]](flags)
    settings = replace(settings, to=flags["to"] or table.shown, form="parquet")
    chosen = table_settings(settings, isolation=options.isolation)

    def export(*, run: Runner) -> Outcome:
        job = TableExport(table, settings, chosen, run=run, commit_bytes=flags["commit_bytes"])
        return job.export(table_plan(options), incremental=flags["incremental"], overwrite=flags["overwrite"])

    return export


_TABLES: dict[str, Callable[[dict[str, Any]], Table]] = {
    "delta": lambda flags: delta_table(flags["to"]),
    "iceberg": lambda flags: iceberg_table(flags, flags["table"]),
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
        yield f"a run was killed; whether a commit names its file is not known: {path}"


DEAD_SUFFIX = "-dead-letters"


@dataclass(frozen=True)
class Tables:
    """The two tables, opened anew for each round.

    Attributes:
        shown: what to call the destination.
    """

    table: Callable[[], Table]
    dead_letters: Callable[[], Table]
    shown: str


def tables_of(flags: Mapping[str, Any], *, sources: Sequence[str]) -> Tables:
    """Read where to write; both tables' libraries are loaded, and both places looked at.

    Args:
        sources: log directories, inside which nothing is written.

    Raises:
        OptionError: flags do not fit the format, or there are other files.
        MissingExtraError: the format's library is absent.
    """
    form, to = flags["to"]
    if not to.rstrip("/"):
        raise OptionError(f"--to {form} {to!r}: must be a directory")
    for name in ("catalog", "table"):
        if flags[name] is not None and form != "iceberg":
            raise OptionError(f"--{name} is for --to iceberg")
    if flags["mode"] == "latest" and form == "parquet":
        raise OptionError(
            "--mode latest: rows of Parquet files cannot be replaced by key: --to delta or --to iceberg has them; "
            "--mode raw keeps every record"
        )
    dead = flags["dead_letters"] or f"{to.rstrip('/')}{DEAD_SUFFIX}"
    open_table, open_dead = _OPENERS[form](flags, to, dead)
    for path in (to, dead):
        if "://" not in path:
            refuse_inside(Path(path), sources)
    open_table()
    open_dead()
    return Tables(open_table, open_dead, to)


Opened = tuple[Callable[[], Table], Callable[[], Table]]


def _delta(flags: Mapping[str, Any], to: str, dead: str) -> Opened:
    return (lambda: delta_table(to)), (lambda: delta_table(dead))


def _parquet(flags: Mapping[str, Any], to: str, dead: str) -> Opened:
    return (lambda: parquet_table(to)), (lambda: parquet_table(dead))


def _iceberg(flags: Mapping[str, Any], to: str, dead: str) -> Opened:
    name = flags["table"]
    if flags["dead_letters"] is not None:
        raise OptionError("--dead-letters: of an Iceberg table they are TABLE_dead_letters in its catalog")
    named = dict(flags) | {"to": to}
    return (lambda: iceberg_table(named, name)), (lambda: iceberg_table(named, name, suffix="_dead_letters"))


_OPENERS: Mapping[str, Callable[[Mapping[str, Any], str, str], Opened]] = {
    "delta": _delta,
    "iceberg": _iceberg,
    "parquet": _parquet,
}
