"""The differences between PySpark 4.0, 4.1, 4.2 and 4.3. Importing this module does not import pyspark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafkaframes.errors import KafkaframesError, MissingExtraError

# From the documentation of each Spark release ("Spark runs on Java ..."). Java 24 and later removed what Hadoop's login
# used before Spark 4.2, so an old Spark on a new Java would fail with an obscure error.
SUPPORTED_JAVA_VERSIONS: dict[tuple[int, int], tuple[int, ...]] = {
    (4, 0): (17, 21),
    (4, 1): (17, 21),
    (4, 2): (17, 21, 25),
    (4, 3): (17, 21, 25),
}
NEWEST_SPARK = max(SUPPORTED_JAVA_VERSIONS)


def get_pyspark_version() -> tuple[int, int] | None:
    """Return PySpark's (major, minor) version without importing pyspark; None if it is not installed.

    The distributions ``pyspark-client`` and ``pyspark-connect`` (Spark Connect only) contain the same package.
    """
    import importlib.metadata  # imported here, because it is slow: it also imports the package email
    import importlib.util

    if importlib.util.find_spec("pyspark") is None:
        return None
    for distribution in ("pyspark", "pyspark-connect", "pyspark-client"):
        try:
            major, minor = importlib.metadata.version(distribution).split(".")[:2]
        except importlib.metadata.PackageNotFoundError:
            continue
        return int(major), int(minor)
    return NEWEST_SPARK  # pyspark is a checkout on the path, without package metadata


def require_pyspark(feature: str) -> tuple[int, int]:
    """Return PySpark's (major, minor) version.

    Raises:
        MissingExtraError: PySpark is not installed. The message names the extra ``[spark]``.
    """
    version = get_pyspark_version()
    if version is None:
        raise MissingExtraError(feature, "spark")
    return version


def get_supported_java_versions(spark: tuple[int, int] | None) -> tuple[int, ...]:
    """Return the Java versions that a Spark version supports.

    A newer, unknown Spark is treated like the newest known one.

    >>> get_supported_java_versions((4, 0))
    (17, 21)
    >>> get_supported_java_versions((4, 9)) == get_supported_java_versions((4, 3))
    True
    """
    return SUPPORTED_JAVA_VERSIONS.get(spark or NEWEST_SPARK, SUPPORTED_JAVA_VERSIONS[NEWEST_SPARK])


def register_source(spark: Any, source: type) -> None:
    """Register a data source. Spark 4.0 reports an error if it has already discovered the source, which is ignored."""
    try:
        spark.dataSource.register(source)
    except Exception as error:  # the exception's class, AnalysisException, cannot be named without importing pyspark
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


def is_spark_error(error: Exception) -> bool:
    """Return whether an error is from PySpark or py4j. Not every such error is one of PySpark's exceptions."""
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException) or type(error).__module__.startswith("py4j")


@contextmanager
def restore_package_errors() -> Iterator[None]:
    """If a Spark worker has raised an error of this package, raise that error instead of Spark's error."""
    try:
        yield
    except Exception as error:
        if (reason := find_package_error(error)) is None or not is_spark_error(error):
            raise
        raise KafkaframesError(reason) from None


def find_package_error(error: Exception) -> str | None:
    """Return the message of a kafkaframes error in the traceback that Spark reports; None if it contains none.

    >>> text = "[PYTHON_DATA_SOURCE_ERROR] ... Traceback ...\\nkafkaframes.errors.exceptions.OptionError: no topic x\\n"
    >>> find_package_error(RuntimeError(text))
    'no topic x'
    >>> text = "[X] Failed to plan: kafkaframes.errors.exceptions.OptionError: no topic x\\n SQLSTATE"
    >>> find_package_error(RuntimeError(text))
    'no topic x'
    """
    result = re.findall(r"(?:^|: )kafkaframes\.errors\.\w+\.\w+: (.+)$", str(error), re.MULTILINE)
    return result[-1].strip() if result else None
