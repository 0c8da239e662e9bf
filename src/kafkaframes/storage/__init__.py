"""A log on disk: files, log, recovery, partition, tiered storage, copies and the cleaner.

The classes of findings, which the reports of jobs contain, are exported here.
"""

from typing import TYPE_CHECKING

from kafkaframes._exports import import_on_use

if TYPE_CHECKING:
    from kafkaframes.storage.files.findings import Finding, Severity

__all__ = ["Finding", "Severity"]

if not TYPE_CHECKING:  # type checkers report unknown names if they do not see __getattr__
    __getattr__, __dir__ = import_on_use(__name__, __all__, {"files.findings": ("Finding", "Severity")})
