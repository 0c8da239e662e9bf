"""Read and write logs on disk: their files and partitions, recovery, tiered storage, copies and log cleaning.

The classes of findings, which the reports of jobs contain, are exported here.
"""

from typing import TYPE_CHECKING

from kafkaframes._exports import import_on_use

if TYPE_CHECKING:
    from kafkaframes.storage.files.findings import Finding, Severity

__all__ = ["Finding", "Severity"]

if not TYPE_CHECKING:  # type checkers report unknown names if they do not see __getattr__
    __getattr__, __dir__ = import_on_use(__name__, __all__, {"files.findings": ("Finding", "Severity")})
