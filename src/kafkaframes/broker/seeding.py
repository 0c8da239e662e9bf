"""Append records to a partition from inside, for tests and examples: built as batches, checked as a producer's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafkaframes.broker.inspection import partition_of
from kafkaframes.broker.state import BrokerState
from kafkaframes.storage.files.names import check_topic


def append_records(
    state: BrokerState, topic: str, records: Sequence[Mapping[str, Any]], partition: int, batch_records: int
) -> int:
    """Append as ``Broker.append`` says."""
    from kafkaframes.records.build import build_records  # Arrow: the first request must not wait for it

    if topic not in state.topics:
        check_topic(topic)
        state.create_topic(topic, max(partition + 1, 1))
    target = partition_of(state, topic, partition)
    log, first = target.log, -1
    for start in range(0, len(records), batch_records):
        data = build_records(
            _columns(records[start : start + batch_records], state.clock.now_ms), batch_records=batch_records
        )
        info = log.append_as_leader(data, leader_epoch=target.leader_epoch, now_ms=state.clock.now_ms)
        first = info.first_offset if first < 0 else first
    log.update_high_watermark(log.log_end_offset)
    state.appended(target)
    return first


def _columns(records: Sequence[Mapping[str, Any]], now_ms: int) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "key": [one.get("key") for one in records],
        "value": [one.get("value") for one in records],
        "timestamp": [now_ms if one.get("timestamp") is None else one["timestamp"] for one in records],
    }
    if any(one.get("headers") for one in records):
        columns["headers"] = [one.get("headers") or [] for one in records]
    return columns
