"""Scans of logs, topics and captures: a selection of rows, its plan, and the slices of the plan as Arrow batches.

The functions that create a scan are in ``kafkaframes``. This package exports the classes that these functions and scans
return.
"""

from typing import TYPE_CHECKING

from kafkaframes._exports import import_on_use

if TYPE_CHECKING:
    from kafkaframes.scan.rows import RecordBatches
    from kafkaframes.scan.scan import Scan
    from kafkaframes.scan.slices import ScanPlan, ScanSlice
    from kafkaframes.scan.writing import WriteReport, WriteResult

__all__ = [
    "RecordBatches",
    "Scan",
    "ScanPlan",
    "ScanSlice",
    "WriteReport",
    "WriteResult",
]

_NAMES_BY_MODULE = {
    "rows": ("RecordBatches",),
    "scan": ("Scan",),
    "slices": ("ScanPlan", "ScanSlice"),
    "writing": ("WriteReport", "WriteResult"),
}

if not TYPE_CHECKING:  # type checkers report unknown names if they do not see __getattr__
    __getattr__, __dir__ = import_on_use(__name__, __all__, _NAMES_BY_MODULE)
