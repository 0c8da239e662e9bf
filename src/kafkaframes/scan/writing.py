"""Writing the rows of a scan to files or a table.

The jobs that write files and tables are in a package that imports ``scan``, so ``scan`` must not import it.
``kafkaframes/__init__`` therefore sets the name of the module that contains these jobs. That module is imported when
the rows of a scan are first written to files or a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from kafkaframes.storage.log.notes import LogNotes


class WriteReport(Protocol):
    """A report about the export or table to which a scan was written. ``kafkaframes.jobs.Outcome`` has more."""

    @property
    def is_complete(self) -> bool:
        """Whether the destination has every selected record."""

    @property
    def records_read(self) -> int:
        """The number of records that were read, including records that were not selected."""

    @property
    def output_bytes(self) -> int:
        """The size of the files, in bytes."""

    @property
    def notes(self) -> LogNotes:
        """The notes of the read, such as records that open transactions hide."""


class WriteResult(Protocol):
    """The result of ``Scan.export`` and ``Scan.write_table``: a ``kafkaframes.jobs.JobResult``."""

    @property
    def report(self) -> WriteReport:
        """The report."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""


class ScanWriter(Protocol):
    """The interface of the module that exports scans and writes them to tables.

    Scans have the type Any, because the module of the class imports this one.
    """

    def export(self, scan: Any, to: str, options: Mapping[str, Any]) -> WriteResult:
        """Export a scan to files, with the arguments of ``Scan.export``."""

    def write_table(self, scan: Any, to: str, options: Mapping[str, Any]) -> WriteResult:
        """Write a scan to a table, with the arguments of ``Scan.write_table``."""


_WRITER_MODULES: list[str] = []  # at most one name, set by ``set_writer_module``


def set_writer_module(name: str) -> None:
    """Set the name of the module whose ``WRITER`` writes scans."""
    _WRITER_MODULES[:] = [name]


def load_writer() -> ScanWriter:
    """Return the object that writes scans to files and tables."""
    return cast(ScanWriter, import_module(_WRITER_MODULES[0]).WRITER)
