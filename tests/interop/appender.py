"""``python -m tests.interop.appender DATA LIFE`` appends to the logs of a directory until this process is killed.

Each completed append is printed as "TOPIC PARTITION OFFSET" with its last offset, separated by tabs. LIFE numbers the
starts: each has its own producers.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.interop.test_partition_log import TOPICS, now_ms, open_manager
from tests.storage.partition.builders import build_batch, build_marker, idempotent, transactional

from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.partition import PartitionLog

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def main(path: str, life: int) -> None:
    manager = open_manager(Path(path))
    for topic, (topic_id, count) in TOPICS.items():
        for number in range(count):
            if TopicPartition(topic, number) not in manager.logs:
                manager.create(TopicPartition(topic, number), topic_id=topic_id, now_ms=now_ms())
    plain, orders, payments = (
        manager.logs[TopicPartition(*name)] for name in (("orders", 0), ("orders", 1), ("payments", 0))
    )
    producer = 10 * life
    turn = 0
    while True:
        clock = now_ms()
        append(plain, build_batch(3, timestamp=clock, codec=CODECS[turn % 5]), clock)
        append(orders, idempotent(producer, turn * 2, 2, timestamp=clock, value=bytes(9000), codec="lz4"), clock)
        append(payments, transactional(producer + 1, turn, timestamp=clock), clock)
        if turn % 3 == 2:
            append(payments, build_marker(producer + 1, commit=turn % 2 > 0), clock, origin="COORDINATOR")
        if turn % 20 == 19:
            manager.tick(clock + turn * 10_000)  # flushes the logs and writes the checkpoints
        turn += 1


def append(log: PartitionLog, records: bytes, clock: int, *, origin: str = "CLIENT") -> None:
    """Append in the log's current leader epoch, which each broker start increases."""
    info = log.append_as_leader(records, leader_epoch=max(log.epochs.latest, 0), now_ms=clock, origin=origin)
    log.update_high_watermark(log.log_end_offset)
    if origin == "CLIENT":
        print(log.topic_partition.topic, log.topic_partition.partition, info.last_offset, sep="\t", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
