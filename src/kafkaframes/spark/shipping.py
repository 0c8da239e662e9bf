"""Compiled kernels for executors that have none: sent along as an archive, found where Spark unpacked it.

Without it each executor whose home directory is empty would compile for half a minute before its first row. What is
sent are the libraries that the driver has ready, a megabyte; an executor with the same version of this package loads
them, any other one has other names for its own and passes over them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "kafkaframes-kernels"
SETTING: Final = "spark.kafkaframes.shipKernels"


def ship(spark: SparkSession) -> bool:
    """Send the kernels that are ready here to the executors of ``spark``; return whether that was done.

    Not with ``spark.kafkaframes.shipKernels=false``. The session is one of Spark's own, not Spark Connect's: its client
    is no driver.
    """
    context = spark.sparkContext
    if (spark.conf.get(SETTING, "true") or "").lower() == "false":
        return False
    if any(NAME in str(archive) for archive in context.listArchives):
        return True
    archive = _archive()
    if archive is None:
        return False
    context.addArchive(f"{archive}#{NAME}")
    return True


def unpacked() -> str | None:
    """Return where Spark has unpacked the archive, in a Python worker; ``None`` elsewhere."""
    files = sys.modules.get("pyspark.core.files") or sys.modules.get("pyspark.files")
    known = getattr(files, "SparkFiles", None)
    if known is None or not known._is_running_on_worker:
        return None
    with contextlib.suppress(Exception):  # no context of Spark's after all
        return os.path.join(known.getRootDirectory(), NAME)
    return None


@cache
def _archive() -> str | None:
    """Write the archive, once a process; ``None`` where nothing is compiled here."""
    import zipfile

    from kafkaframes.kernels import demand

    files = [unit.file for unit in demand.units() if unit.file is not None and unit.file.is_file()]
    if not files:
        return None
    path = os.path.join(_folder().name, f"{NAME}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.name)
    return path


@cache
def _folder() -> Any:
    import tempfile

    return tempfile.TemporaryDirectory(prefix="kafkaframes-")
