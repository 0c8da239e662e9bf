"""The segment of a slice, deleted before it is read or damaged; without a JVM."""

import pyarrow as pa
import pytest
from tests.scan.log.test_resolve import write_log

from kafkaframes.errors import LogDirError
from kafkaframes.scan.columns import choose_columns
from kafkaframes.scan.log.reading import read_work
from kafkaframes.scan.log.resolve import plan_log
from kafkaframes.spark.options import parse_log_options


def test_a_segment_deleted_by_retention_before_it_is_read(tmp_path, caplog):
    partition = write_log(tmp_path, range(100), range(100, 200))
    strict = parse_log_options({"path": str(partition), "columns": "offset"})
    lenient = parse_log_options({"path": str(partition), "columns": "offset", "failOnDataLoss": "false"})
    plan = plan_log(strict, cores=1)
    first = partition / f"{0:020}.log"
    first.unlink()
    columns = choose_columns(["offset"])
    with pytest.raises(LogDirError, match=f"was deleted after the read was planned.*{first.name}"):
        list(read_work(plan.works[0], columns, strict))
    remaining_offsets = pa.Table.from_batches(read_work(plan.works[0], columns, lenient)).column("offset").to_pylist()
    assert remaining_offsets == list(range(100, 200))
    assert f"{first.name}); its records are not read" in caplog.text
