"""Open the table at a place, there or yet to be made, and that of its dead letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.journal import OWN
from kafkaframes.jobs.tables import delta, iceberg
from kafkaframes.jobs.tables.claims import RUNS
from kafkaframes.jobs.tables.parquet import COMMITS, ParquetTable
from kafkaframes.jobs.tables.settings import TableSettings
from kafkaframes.jobs.tables.state import Table
from kafkaframes.storage.files.atomic import refuse_inside

DEAD_SUFFIX = "-dead-letters"


def open_table(
    form: str, to: str, *, catalog: str | None = None, name: str | None = None, is_of_dead_letters: bool = False
) -> Table:
    """Return the table at a place, there or yet to be made.

    Args:
        form: ``delta``, ``iceberg``, or ``parquet``: plain files.
        to: the place; Iceberg's may be empty where there is a catalog.
        catalog, name: Iceberg: of pyiceberg's configuration; NAMESPACE.NAME.
        is_of_dead_letters: Iceberg: the table of these that belongs to the one with the name.

    Raises:
        MissingExtraError: the format's library is absent.
        OptionError: there is no such catalog; there are other files, or (Parquet) the place is not of this machine.
    """
    if form == "parquet":
        return ParquetTable(to if "://" in to else destination(to, COMMITS))
    if form == "delta":
        delta.load_library()
        return delta.DeltaTable(destination(to, "_delta_log"))
    iceberg.load_library()
    name = (name or iceberg.DEFAULT_NAME) + ("_dead_letters" if is_of_dead_letters else "")
    if catalog is not None:
        return iceberg.IcebergTable(iceberg.open_catalog(catalog, None), name, location=to and _uri(to))
    return iceberg.IcebergTable(
        iceberg.open_catalog(None, to if "://" in to else destination(to, iceberg.CATALOG_FILE)), name
    )


@dataclass(frozen=True)
class Tables:
    """The two tables, opened anew for each round.

    Attributes:
        shown: what to call the destination.
    """

    table: Callable[[], Table]
    dead_letters: Callable[[], Table]
    shown: str


def tables_of(form: str, to: str, settings: TableSettings, *, sources: Sequence[str]) -> Tables:
    """Open a table and that of its dead letters: both formats' libraries are loaded, and both places looked at.

    Args:
        form, to: as for ``open_table``.
        settings: of the table.
        sources: log directories, inside which nothing is written.

    Raises:
        OptionError: settings do not fit the format, or there are other files.
        MissingExtraError: the format's library is absent.
    """
    if not to.rstrip("/"):
        raise OptionError(f"`to` {form} {to!r}: must be a directory")
    for name in ("catalog", "table"):
        if getattr(settings, name) is not None and form != "iceberg":
            raise OptionError(f"`{name}` is for `to` iceberg")
    if settings.is_latest and form == "parquet":
        raise OptionError(
            "`mode` latest: rows of Parquet files cannot be replaced by key: `to` delta or `to` iceberg has them; "
            "`mode` raw keeps every record"
        )
    if settings.dead_letters is not None and form == "iceberg":
        raise OptionError(
            "`dead_letters` cannot be set: for an Iceberg table they are in TABLE_dead_letters of its catalog"
        )
    beside = settings.dead_letters or f"{to.rstrip('/')}{DEAD_SUFFIX}"
    named = partial(open_table, form, catalog=settings.catalog, name=settings.table)
    tables = Tables(
        partial(named, to), partial(named, to if form == "iceberg" else beside, is_of_dead_letters=True), to
    )
    for path in (to, beside):
        if "://" not in path:
            refuse_inside(Path(path), sources)
    tables.table()
    tables.dead_letters()
    return tables


def destination(to: str, sign: str) -> str:
    """Return where a table is or may be made.

    Args:
        sign: what a directory holds that has one.

    Raises:
        OptionError: there are other files.
    """
    to = to.removeprefix("file://")
    if "://" in to:
        return to.rstrip("/")
    root = Path(to).absolute()
    if root.exists() and not root.is_dir():
        raise OptionError(f"`to` {to}: is a file")
    if root.is_dir() and not (root / sign).exists():
        others = [path.name for path in root.iterdir() if path.name != OWN]
        is_begun = (root / RUNS).is_dir()  # by a run that was killed before its first commit, or is at it now
        if (others and not is_begun) or (root / OWN / "export.json").exists():
            raise OptionError(f"`to` {to}: holds other files, and no table")
    return str(root)


def _uri(to: str) -> str:
    return to if "://" in to else f"file://{Path(to).absolute()}"
