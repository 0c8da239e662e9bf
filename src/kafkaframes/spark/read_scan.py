"""``kafkaframes.spark.read(scan)``: a scan as a DataFrame. Planned once, here; each task is given its slice.

Tasks read the columns and the rows of the scan and no others: Spark tells data sources in Python neither. Columns are
the scan's, in Spark's types.
"""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkaframes.scan.scan import Scan

_PARTS_OF_A_CORE = 3  # so that no core waits long for the last slice


def read(scan: Scan, spark: SparkSession | None = None, *, parts: int | None = None) -> DataFrame:
    """Return a scan as a DataFrame: what is there now, however often it is used.

    Args:
        scan: of a log, topics or captures; ``limit`` makes it one task.
        spark: the session; by default the active one, or ``kafkaframes.spark.session()``.
        parts: into how many tasks a large source is cut at least; by default three for each core of this machine.

    Raises:
        OptionError: what is named is not there, or is lost.
        LogDirError: a path cannot be read.
        NetworkError, BrokerError: the cluster cannot be asked.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    from kafkaframes.spark.scan_tasks import reader_of, spark_schema

    if spark is None:
        from kafkaframes.spark.builder import session

        spark = session()
    plan = scan.plan(parts=parts or _PARTS_OF_A_CORE * (os.cpu_count() or 1))
    schema = spark_schema(plan.schema)
    works = [plan.slices] if plan.limit is not None else [(part,) for part in plan.slices]
    rows = [(number, pickle.dumps((work, plan.limit))) for number, work in enumerate(works)]
    slices = spark.createDataFrame(rows, "number int, slice binary").repartitionByRange(max(len(rows), 1), "number")
    return slices.mapInArrow(reader_of(schema), from_arrow_schema(schema))
