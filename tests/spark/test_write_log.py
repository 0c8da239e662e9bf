"""``write_log`` has the four modes of Spark."""

import pytest
from tests.spark.test_log_writer import read_written

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.spark import write_log


def test_modes_of_other_sinks_are_rejected(spark, tmp_path):
    path = tmp_path / "logs"
    frame = spark.range(0, 10, numPartitions=1).selectExpr("cast(id as string) as value")
    write_log(frame, str(path), topic="t")
    with pytest.raises(LogDirError, match="already exists"):
        write_log(frame, str(path), topic="t")
    write_log(frame, str(path), mode="ignore", topic="t")
    with pytest.raises(OptionError, match="unknown mode 'replace'"):
        write_log(frame, str(path), mode="replace", topic="t")
    assert len(read_written(spark, path)) == 10
