"""A log directory of a real broker: what is in it, is it sound, and its records as Arrow. No Spark, no broker.

python examples/a_log.py [LOGDIR]
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.compute as pc

import kafkaframes

LOG = Path(__file__).parent / "logs" / "kafka-4.3"


def main(path: str) -> None:
    """Look at it."""
    print(kafkaframes.verify_log(path))  # every CRC, offset, index and checkpoint

    for one in kafkaframes.describe_log(path).to_dict()["partitions"]:
        print(f"{one['topic']}-{one['partition']}: {one['log_end_offset']:,} offsets, {one['size_bytes']:,} bytes")

    records = kafkaframes.read_records(
        path
    ).read_all()  # a pyarrow.Table: topic, partition, offset, timestamp, key, value, ...
    sizes = records.append_column("bytes", pc.binary_length(records.column("value")))
    print(sizes.group_by("topic").aggregate([("offset", "count"), ("bytes", "sum")]).sort_by("topic").to_pandas())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(LOG))
