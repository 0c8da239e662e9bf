"""Batches and logs for the tests of this folder."""

from __future__ import annotations

from typing import Any

from kafkaframes.records.build import build_end_transaction, build_records
from kafkaframes.storage.partition import LogSettings, PartitionLog, create_log

NOW_MS = 1_760_000_000_000


def build_batch(count: int = 1, *, timestamp: int = NOW_MS, value: bytes = b"value", **fields: Any) -> bytes:
    """Build a batch with the base offset 0, like a client."""
    rows = range(count)
    columns = {
        "key": [b"key %d" % row for row in rows],
        "value": [value for _ in rows],
        "timestamp": [timestamp + row for row in rows],
    }
    return build_records(columns, batch_records=count, batch_bytes=1 << 24, **fields)


def idempotent(producer: int, sequence: int, count: int = 1, *, epoch: int = 0, **fields: Any) -> bytes:
    return build_batch(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **fields)


def transactional(producer: int, sequence: int, count: int = 1, **fields: Any) -> bytes:
    return idempotent(producer, sequence, count, transactional=True, **fields)


def build_marker(producer: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> bytes:
    return build_end_transaction(
        0,
        commit=commit,
        timestamp=NOW_MS,
        producer_id=producer,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
    )


def new_log(path: Any, **settings: Any) -> PartitionLog:
    return create_log(str(path / "orders-0"), settings=LogSettings(**settings), now_ms=NOW_MS)


def lead(log: PartitionLog, records: bytes, *, origin: str = "CLIENT", now_ms: int = NOW_MS, epoch: int = 0) -> Any:
    return log.append_as_leader(records, leader_epoch=epoch, now_ms=now_ms, origin=origin)
