"""A home of Spark's without the zip of PySpark's Python files, for local sessions.

Each Python process that Spark starts has ``python/lib/pyspark.zip`` of Spark's home in front of its path, and Python
keeps no compiled files for a zip: each process compiled PySpark anew, 1.1 of 1.4 s of CPU time (2026-11-23,
``benchmarks/planner_starts.py``). Where the home has no such file, they import the installed package: the driver's own.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_LINKED: Final = ("bin", "conf", "jars", "sbin")


@contextmanager
def without_zip(environ: MutableMapping[str, str]) -> Iterator[None]:
    """Give a JVM that is started meanwhile such a home, where its workers have this interpreter's installed PySpark.

    A home that the user has set stays.
    """
    top = _installed("pyspark")
    unfit = "SPARK_HOME" in environ or environ.get("PYSPARK_PYTHON") != sys.executable or os.name != "posix"
    if unfit or top is None or _installed("py4j") is None or not (top / "python" / "lib" / "pyspark.zip").exists():
        yield
        return
    environ["SPARK_HOME"] = _linked(top)
    try:
        yield
    finally:
        del environ["SPARK_HOME"]


def _installed(package: str) -> Path | None:
    """Return the directory of a package where every process of this interpreter looks for it; None elsewhere."""
    spec = find_spec(package)
    top = Path(spec.origin).parent if spec is not None and spec.origin else None
    return top if top is not None and str(top.parent) in site.getsitepackages() else None


def _linked(top: Path) -> str:
    """Make a home of links for the life of this process, which the JVM's does not outlast."""
    import atexit
    import shutil
    import tempfile

    home = tempfile.mkdtemp(prefix="kafkaframes-spark-home-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in _LINKED:
        if (top / name).exists():
            (Path(home) / name).symlink_to(top / name)
    return home
