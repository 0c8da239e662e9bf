"""Output files on a full disk: one error, without a further traceback when the writer is garbage collected."""

import gc
import os
import resource
import subprocess
import sys
from functools import partial

import pyarrow as pa
import pytest

from kafkaframes.jobs.export.writers import MAX_ROW_GROUP_BYTES, WRITERS_BY_FORMAT, OutputFile
from kafkaframes.records.build import build_records

SCHEMA = pa.schema(
    [("offset", pa.int64()), ("timestamp", pa.timestamp("ms", "UTC")), ("key", pa.binary()), ("value", pa.binary())]
)
_DISK_BYTES = 100_000


def batch(count: int, value_bytes: int) -> pa.RecordBatch:
    columns = [range(count), [0] * count, [b"k"] * count, [os.urandom(value_bytes) for _ in range(count)]]
    arrays = [pa.array(list(one)).cast(field.type) for one, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@pytest.mark.parametrize(
    ("count", "value_bytes"), [(1, 10), (66, MAX_ROW_GROUP_BYTES // 64)], ids=["at its end", "in the middle"]
)
@pytest.mark.parametrize("form", WRITERS_BY_FORMAT)
def test_a_full_disk_is_one_error(form, count, value_bytes):
    rows = batch(count, value_bytes)

    def write() -> None:
        with OutputFile("/dev/full", form, base64=True, metadata={}) as output:
            output.write_rows(rows)

    with pytest.raises(OSError, match="No space left on device"):
        write()
    gc.collect()  # a later exception is a pytest warning, and therefore a failure


@pytest.mark.parametrize("where", ["--to", "-o"])
def test_export_reports_a_full_disk_in_one_line_and_leaves_no_partial_file(where, tmp_path):
    directory = tmp_path / "log" / "orders-0"
    directory.mkdir(parents=True)
    values = [os.urandom(1_000) for _ in range(_DISK_BYTES // 250)]
    (directory / f"{0:020}.log").write_bytes(build_records({"value": values}))
    target = tmp_path / "out.parquet"
    process = subprocess.run(
        [sys.executable, "-m", "kafkaframes", "export", str(tmp_path / "log"), where, str(target)],
        capture_output=True,
        text=True,
        timeout=250,
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (_DISK_BYTES, _DISK_BYTES)),
    )
    assert process.returncode == 2
    assert process.stderr.splitlines() == [f"kafkaframes: {process.stderr.removeprefix('kafkaframes: ').strip()}"]
    assert "cannot be written" in process.stderr
    assert [path.name for path in tmp_path.rglob("*.parquet") if path != target] == []
