"""Read and write records: message sets (formats 0 and 1) and record batches (format 2), as values or as columns.

The classes of decoded records that other packages return are exported here.
"""

from typing import TYPE_CHECKING

from kafkaframes._exports import import_on_use

if TYPE_CHECKING:
    from kafkaframes.records.batch import Header, Record
    from kafkaframes.records.columns import ReadError

__all__ = [
    "Header",
    "ReadError",
    "Record",
]

_NAMES_BY_MODULE = {
    "batch": ("Header", "Record"),
    "columns": ("ReadError",),
}

if not TYPE_CHECKING:  # type checkers report unknown names if they do not see __getattr__
    __getattr__, __dir__ = import_on_use(__name__, __all__, _NAMES_BY_MODULE)
