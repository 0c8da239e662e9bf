"""Verify the log directory of a real broker, and read its records as an Arrow table. Without Spark or a broker.

python examples/a_log.py [LOGDIR]
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.compute as pc

import kafkaframes

LOG = Path(__file__).parent / "logs" / "kafka-4.3"


def inspect_log(path: str) -> None:
    """Describe, verify and read the log directory."""
    print(kafkaframes.verify_log(path))  # every CRC, offset, index and checkpoint

    for one in kafkaframes.describe_log(path).to_dict()["partitions"]:
        print(f"{one['topic']}-{one['partition']}: {one['log_end_offset']:,} offsets, {one['size_bytes']:,} bytes")

    records = kafkaframes.read_records(
        path
    ).read_all()  # a pyarrow.Table: topic, partition, offset, timestamp, key, value, ...
    sizes = records.append_column("bytes", pc.binary_length(records.column("value")))
    print(sizes.group_by("topic").aggregate([("offset", "count"), ("bytes", "sum")]).sort_by("topic").to_pandas())


if __name__ == "__main__":
    inspect_log(sys.argv[1] if len(sys.argv) > 1 else str(LOG))
