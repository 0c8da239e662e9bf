"""Call ``kafkaframes export``, and a log with one damaged batch, for the tests of its parts."""

from pathlib import Path

import pyarrow.parquet as pq
from tests.cli.calling import ask as call

import kafkaframes


def ask(*arguments):
    return call("export", *arguments)


def write_damaged_log(tmp_path):
    log = tmp_path / "log" / "t-0"
    log.mkdir(parents=True)
    raw = bytearray(kafkaframes.build_records([{"value": b"v" * 40}] * 10, batch_records=5))
    raw[8 + 4 + int.from_bytes(raw[8:12], "big") + 22] = 7
    (log / f"{0:020}.log").write_bytes(raw)
    (log / f"{10:020}.log").write_bytes(kafkaframes.build_records([{"value": b"w"}] * 10, base_offset=10))
    return log.parent


def files(to):
    """Return every visible file with its content: rows, in their order."""
    return {str(path.relative_to(to)): pq.ParquetFile(path).read() for path in Path(to).glob("topic=*/*/*")}
