"""What Python workers find on their disk: the compiled kernels, for executors without, and an installed PySpark.

Without kernels each executor with an empty home directory would compile for half a minute before its first row. What
is sent are the libraries that the driver has ready, a megabyte, as an archive that Spark unpacks; an executor with the
same version of this package loads them, any other one has other names for its own and passes over them.

A local session gets a home of Spark's without the zip of PySpark's Python files. Each Python process that Spark starts
has ``python/lib/pyspark.zip`` of Spark's home in front of its path, and Python keeps no compiled files for a zip: each
process compiled PySpark again, 1.1 of 1.4 s of CPU time (2026-11-23, ``benchmarks/planner_starts.py``). If the home
does not have this file, they import the installed package: the driver's own.
"""

from __future__ import annotations

import contextlib
import os
import site
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ARCHIVE_NAME: Final = "kafkaframes-kernels"
SHIP_KERNELS_SETTING: Final = "spark.kafkaframes.shipKernels"


def ship_kernels(spark: SparkSession) -> bool:
    """Send the kernels that are ready here to the executors of ``spark``; return whether that was done.

    Not with ``spark.kafkaframes.shipKernels=false``. The session is one of Spark's own, not Spark Connect's: its
    client is not a driver.
    """
    context = spark.sparkContext
    if (spark.conf.get(SHIP_KERNELS_SETTING, "true") or "").lower() == "false":
        return False
    if any(ARCHIVE_NAME in str(archive) for archive in context.listArchives):
        return True
    archive = _write_archive()
    if archive is None:
        return False
    context.addArchive(f"{archive}#{ARCHIVE_NAME}")
    return True


def find_unpacked_archive() -> str | None:
    """Return where Spark has unpacked the archive, in a Python worker; ``None`` elsewhere."""
    files = sys.modules.get("pyspark.core.files") or sys.modules.get("pyspark.files")
    spark_files = getattr(files, "SparkFiles", None)
    if spark_files is None or not spark_files._is_running_on_worker:
        return None
    with contextlib.suppress(Exception):  # this process has no SparkContext
        return os.path.join(spark_files.getRootDirectory(), ARCHIVE_NAME)
    return None


@cache
def _write_archive() -> str | None:
    """Write the archive, once a process; ``None`` where nothing is compiled here."""
    import zipfile

    from kafkaframes.kernels import demand

    files = [unit.file for unit in demand.list_units() if unit.file is not None and unit.file.is_file()]
    if not files:
        return None
    path = os.path.join(_archive_directory().name, f"{ARCHIVE_NAME}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.name)
    return path


@cache
def _archive_directory() -> Any:
    import tempfile

    return tempfile.TemporaryDirectory(prefix="kafkaframes-")


_LINKED_DIRECTORIES: Final = ("bin", "conf", "jars", "sbin")


@contextmanager
def use_linked_home(environ: MutableMapping[str, str]) -> Iterator[None]:
    """Give a JVM that is started meanwhile such a home, where its workers have this interpreter's installed PySpark.

    A home that the user has set stays.
    """
    top = _find_package_directory("pyspark")
    unfit = "SPARK_HOME" in environ or environ.get("PYSPARK_PYTHON") != sys.executable or os.name != "posix"
    if (
        unfit
        or top is None
        or _find_package_directory("py4j") is None
        or not (top / "python" / "lib" / "pyspark.zip").exists()
    ):
        yield
        return
    environ["SPARK_HOME"] = _link_home(top)
    try:
        yield
    finally:
        del environ["SPARK_HOME"]


def _find_package_directory(package: str) -> Path | None:
    """Return the directory of a package where every process of this interpreter looks for it; None elsewhere."""
    spec = find_spec(package)
    top = Path(spec.origin).parent if spec is not None and spec.origin else None
    return top if top is not None and str(top.parent) in site.getsitepackages() else None


def _link_home(top: Path) -> str:
    """Make a home of links for the life of this process, which the JVM's does not outlast."""
    import atexit
    import shutil
    import tempfile

    home = tempfile.mkdtemp(prefix="kafkaframes-spark-home-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in _LINKED_DIRECTORIES:
        if (top / name).exists():
            (Path(home) / name).symlink_to(top / name)
    return home
