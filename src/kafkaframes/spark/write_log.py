"""``kafkaframes.spark.write_log``: a DataFrame into a log directory, in any of Spark's four modes.

Spark knows two for sources written in Python, append and overwrite; the others are decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaframes.errors import LogDirError, OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MODES = ("append", "overwrite", "errorifexists", "error", "ignore")


def write_log(frame: DataFrame, path: str, *, mode: str = "errorifexists", **options: Any) -> None:
    """Write a DataFrame into a Kafka log directory; see docs/writing-logs.md.

    Args:
        frame: rows with a column ``value``, and perhaps ``key``, ``topic``, ``partition``, ``timestamp``, ``headers``.
        path: of the directory, the same for all workers.
        mode: ``append``, ``overwrite``, ``errorifexists`` or ``ignore`` (do nothing where there is a log).
        options: those of ``df.write.format("kafka-log")``.

    Raises:
        LogDirError: something is there already, or is no log directory.
        OptionError: no such mode.
    """
    from kafkaframes.jobs.restore.writing import Target
    from kafkaframes.spark.builder import register

    if mode not in MODES:
        raise OptionError(f"no mode {mode!r}: one of {', '.join(MODES)}")
    if mode not in ("append", "overwrite"):
        target = Target.look(path)
        if target.exists and mode == "ignore":
            return
        if target.exists:
            raise LogDirError("exists already (mode errorifexists)", file=target.path)
    register(frame.sparkSession)
    writer = frame.write.format("kafka-log").options(**options)
    writer.mode("overwrite" if mode == "overwrite" else "append").save(path)
