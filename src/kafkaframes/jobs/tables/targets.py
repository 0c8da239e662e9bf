"""Open the table at a place, there or yet to be made: of a command's flags, or of a function's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.journal import OWN
from kafkaframes.jobs.tables import delta, iceberg
from kafkaframes.jobs.tables.claims import RUNS
from kafkaframes.jobs.tables.parquet import COMMITS, ParquetTable
from kafkaframes.jobs.tables.state import Table


def delta_table(to: str) -> Table:
    """Return the Delta table at a place, there or yet to be made.

    Raises:
        MissingExtraError: deltalake is absent.
        OptionError: there are other files.
    """
    delta.load_library()
    return delta.DeltaTable(destination(to, "_delta_log"))


def iceberg_table(values: Mapping[str, Any], table: str | None, *, suffix: str = "") -> Table:
    """Return an Iceberg table, there or yet to be made.

    Args:
        values: ``catalog``, ``to``.
        table: NAMESPACE.NAME; the default one if it is None.
        suffix: put behind the name.

    Raises:
        MissingExtraError: pyiceberg is absent.
        OptionError: there is no such catalog, or there are other files.
    """
    iceberg.load_library()
    name = (table or iceberg.DEFAULT_NAME) + suffix
    if values["catalog"] is not None:
        catalog = iceberg.open_catalog(values["catalog"], None)
        return iceberg.IcebergTable(catalog, name, location=values["to"] and _uri(values["to"]))
    to = values["to"] if "://" in values["to"] else destination(values["to"], iceberg.CATALOG_FILE)
    return iceberg.IcebergTable(iceberg.open_catalog(None, to), name)


def parquet_table(to: str) -> Table:
    """Return the table of plain Parquet files at a place, there or yet to be made.

    Raises:
        OptionError: there are other files, or the place is no directory of this machine.
    """
    return ParquetTable(to if "://" in to else destination(to, COMMITS))


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
