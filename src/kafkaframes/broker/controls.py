"""What a test does to a broker from outside: topics, leaders, coordinators, a log cut off. Each takes the state."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kafkaframes.broker.config_changes import checked_topic
from kafkaframes.broker.inspection import partition_of
from kafkaframes.broker.nodes import Node
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import OptionError
from kafkaframes.storage.files.names import check_topic

_KINDS: Final = {"group": 0, "transaction": 1, "share": 2}  # Kafka's coordinator types
Configs = Mapping[str, str | int | bool]


def text_of(value: str | int | bool) -> str:
    """Return a setting as Kafka writes it.

    >>> text_of(True)
    'true'
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(configs: Configs) -> dict[str, str]:
    return {key.replace("_", "."): text_of(value) for key, value in configs.items()}


def create_topic(state: BrokerState, name: str, partitions: int, configs: Configs) -> None:
    """Make a topic.

    Raises:
        OptionError: the name or a setting is refused, or there is such a topic.
    """
    if name in state.topics:
        raise OptionError(f"topic {name!r} is there already")
    if partitions < 1:
        raise OptionError(f"a topic has at least one partition, not {partitions}")
    check_topic(name)
    checked = checked_topic(state.settings, _texts(configs))
    state.create_topic(name, partitions, checked)


def configure_topic(state: BrokerState, name: str, configs: Configs) -> None:
    """Change settings of a topic.

    Raises:
        OptionError: there is no such topic or setting.
    """
    if name not in state.topics:
        raise OptionError(f"no topic {name!r} here; there are {', '.join(state.topics) or 'none'}")
    topic = state.topics[name]
    state.configure_topic(topic, checked_topic(state.settings, topic.configs | _texts(configs)))
    state.save()


def node_of(state: BrokerState, node_id: int) -> Node:
    """Return a virtual node.

    Raises:
        OptionError: there is none.
    """
    if node_id not in state.nodes.by_id:
        raise OptionError(f"there is no node {node_id} among {', '.join(map(str, state.nodes.by_id))}")
    return state.nodes.by_id[node_id]


def move_leader(state: BrokerState, topic: str, partition: int, node_id: int) -> None:
    """Let another node lead a partition, in a new leader epoch.

    Raises:
        OptionError: there is no such partition or node.
    """
    node_of(state, node_id)
    state.move_leader(partition_of(state, topic, partition), node_id)


def move_coordinator(state: BrokerState, key: str, node_id: int, kind: str) -> None:
    """Let another node coordinate a group or a transactional id.

    Raises:
        OptionError: there is no such node or kind.
    """
    node_of(state, node_id)
    if kind not in _KINDS:
        raise OptionError(f"no kind {kind!r} among {', '.join(_KINDS)}")
    state.nodes.coordinators[_KINDS[kind], key] = node_id


def truncate(state: BrokerState, topic: str, partition: int, offset: int) -> None:
    """Cut a partition's log as an unclean election does, in a new leader epoch.

    Raises:
        OptionError: there is no such partition, or the offset is negative.
    """
    target = partition_of(state, topic, partition)
    state.logs.truncate_to(target.topic_partition, offset, now_ms=state.clock.now_ms)
    target.log.update_high_watermark(target.log.log_end_offset)
    state.move_leader(target, target.leader_id)


def tear_tail(data_dir: str, topic: str, partition: int, count: int) -> int:
    """Cut the last bytes off a partition's newest segment, as a power cut may; return how many are left.

    Raises:
        OptionError: there is no such partition, or its newest segment has fewer bytes.
    """
    segments = _segments_of(data_dir, f"{topic}-{partition}")
    if not segments:
        raise OptionError(f"no segment of {topic}-{partition} in {data_dir}")
    size = segments[-1].stat().st_size
    if not 0 <= count <= size:
        raise OptionError(f"{segments[-1]} has {size} bytes: {count} cannot be cut off")
    os.truncate(segments[-1], size - count)
    return size - count


def _segments_of(data_dir: str, name: str) -> list[Path]:
    """Return the segments of a partition's directory; none unless ``data_dir`` itself has a directory of that name."""
    for directory in Path(data_dir).iterdir():
        if directory.name == name and directory.is_dir() and not directory.is_symlink():
            return sorted(file for file in directory.glob("*.log") if file.is_file() and not file.is_symlink())
    return []


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
