"""Files for Python workers: compiled kernels for executors that have none, and the installed PySpark.

Otherwise each executor with an empty home directory would compile kernels for half a minute before its first row. The
driver therefore sends its compiled libraries, about a megabyte, as an archive that Spark unpacks. An executor with the
same version of this package loads them. In other versions the libraries have other names, so these executors ignore
them.

A local session gets a SPARK_HOME without the zip file of PySpark. By default, each Python process that Spark starts has
SPARK_HOME's ``python/lib/pyspark.zip`` at the start of its path. Python stores no compiled files for a zip file, so
each process compiled PySpark again, in 1.1 of 1.4 s of CPU time (2026-11-23, ``benchmarks/planner_starts.py``). Without
the zip file, the processes import the installed package, which the driver also imports.
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
    """Send the driver's compiled kernels to the executors of ``spark``, and return whether they were sent.

    With ``spark.kafkaframes.shipKernels=false`` nothing is sent. The session must not be a Spark Connect session,
    because its client is not a driver.
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
    """Return the directory to which Spark has unpacked the archive in a Python worker; None in other processes."""
    files = sys.modules.get("pyspark.core.files") or sys.modules.get("pyspark.files")
    spark_files = getattr(files, "SparkFiles", None)
    if spark_files is None or not spark_files._is_running_on_worker:
        return None
    with contextlib.suppress(Exception):  # this process has no SparkContext
        return os.path.join(spark_files.getRootDirectory(), ARCHIVE_NAME)
    return None


@cache
def _write_archive() -> str | None:
    """Write the archive once per process, and return its path; None if no kernel is compiled."""
    import zipfile

    from kafkaframes.kernels import demand

    files = [unit.file for unit in demand.list_kernel_units() if unit.file is not None and unit.file.is_file()]
    if not files:
        return None
    path = os.path.join(_create_archive_directory().name, f"{ARCHIVE_NAME}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.name)
    return path


@cache
def _create_archive_directory() -> Any:
    """Return the temporary directory for the archive, created once per process."""
    import tempfile

    return tempfile.TemporaryDirectory(prefix="kafkaframes-")


_LINKED_DIRECTORIES: Final = ("bin", "conf", "jars", "sbin")


@contextmanager
def use_linked_home(environ: MutableMapping[str, str]) -> Iterator[None]:
    """Set SPARK_HOME for a JVM that is started in this block, so that its workers import the installed PySpark.

    A SPARK_HOME that the user has set is not changed.
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
    """Return the directory of an installed package; None if only some processes of this interpreter can import it."""
    spec = find_spec(package)
    top = Path(spec.origin).parent if spec is not None and spec.origin else None
    return top if top is not None and str(top.parent) in site.getsitepackages() else None


def _link_home(top: Path) -> str:
    """Create a SPARK_HOME of symbolic links.

    The directory is removed when this process ends, which is after the end of the JVM.
    """
    import atexit
    import shutil
    import tempfile

    home = tempfile.mkdtemp(prefix="kafkaframes-spark-home-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in _LINKED_DIRECTORIES:
        if (top / name).exists():
            (Path(home) / name).symlink_to(top / name)
    return home
