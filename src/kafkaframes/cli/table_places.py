"""Where ``table`` writes: the table, and beside it that of dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.tables.table import Table
from kafkaframes.jobs.tables.targets import delta_table, iceberg_table, parquet_table
from kafkaframes.storage.files.atomic import refuse_inside

DEAD_SUFFIX = "-dead-letters"


@dataclass(frozen=True)
class Places:
    """The two tables, opened anew for each round.

    Attributes:
        shown: what to call the destination.
    """

    table: Callable[[], Table]
    dead_letters: Callable[[], Table]
    shown: str


def places_of(given: Mapping[str, Any], *, sources: Sequence[str]) -> Places:
    """Read where to write; both tables' libraries are loaded, and both places looked at.

    Args:
        sources: log directories, inside which nothing is written.

    Raises:
        OptionError: flags do not fit the format, or there are other files.
        MissingExtraError: the format's library is absent.
    """
    form, to = given["to"]
    if not to.rstrip("/"):
        raise OptionError(f"--to {form} {to!r}: must be a directory")
    for name in ("catalog", "table"):
        if given[name] is not None and form != "iceberg":
            raise OptionError(f"--{name} is for --to iceberg")
    if given["mode"] == "latest" and form == "parquet":
        raise OptionError(
            "--mode latest: rows of Parquet files cannot be replaced by key: --to delta or --to iceberg has them; "
            "--mode raw keeps every record"
        )
    dead = given["dead_letters"] or f"{to.rstrip('/')}{DEAD_SUFFIX}"
    open_table, open_dead = _OPENERS[form](given, to, dead)
    for place in (to, dead):
        if "://" not in place:
            refuse_inside(Path(place), sources)
    open_table()
    open_dead()
    return Places(open_table, open_dead, to)


Opened = tuple[Callable[[], Table], Callable[[], Table]]


def _delta(given: Mapping[str, Any], to: str, dead: str) -> Opened:
    return (lambda: delta_table(to)), (lambda: delta_table(dead))


def _parquet(given: Mapping[str, Any], to: str, dead: str) -> Opened:
    return (lambda: parquet_table(to)), (lambda: parquet_table(dead))


def _iceberg(given: Mapping[str, Any], to: str, dead: str) -> Opened:
    name = given["table"]
    if given["dead_letters"] is not None:
        raise OptionError("--dead-letters: of an Iceberg table they are TABLE_dead_letters in its catalog")
    named = dict(given) | {"to": to}
    return (lambda: iceberg_table(named, name)), (lambda: iceberg_table(named, name, suffix="_dead_letters"))


_OPENERS: Mapping[str, Callable[[Mapping[str, Any], str, str], Opened]] = {
    "delta": _delta,
    "iceberg": _iceberg,
    "parquet": _parquet,
}
