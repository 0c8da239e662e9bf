"""Functions for tests that inspect or change a broker: the implementation of ``Broker``'s methods.

Some functions return topics, decoded records, groups, transactions or clients as values. Other functions create topics,
append records, move leaders and coordinators, or truncate logs. Each function's first argument is the broker's state or
data.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np

from kafkaframes.broker.faults.journal import JournalEntry
from kafkaframes.broker.state.config_changes import check_topic_configs
from kafkaframes.broker.state.internal import read_log_batches
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Node, Partition
from kafkaframes.coordination.groups.members import GroupMember
from kafkaframes.coordination.groups.streams import StreamsGroup, TaskRole
from kafkaframes.coordination.transactions.state import TransactionState
from kafkaframes.errors import DecodeError, KafkaframesError, OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.messages.envelopes import decode_versioned
from kafkaframes.protocol.spec.catalog import find_api as catalog_api
from kafkaframes.protocol.spec.releases import Release, find_release, list_releases
from kafkaframes.records.append.settings import KEEP
from kafkaframes.records.batch import Record
from kafkaframes.storage.files.names import TopicPartition, check_topic_name
from kafkaframes.storage.partition.appending import check_client_batch

_MAX_PRINTED_PARTITIONS = 10


class TopicInfo(NamedTuple):
    """A snapshot of a topic, with the log end offset of each partition."""

    name: str
    topic_id: UUID
    partitions: int
    configs: dict[str, str]
    end_offsets: tuple[int, ...]

    def __repr__(self) -> str:
        """Return one line: name, partitions, log end offsets and settings."""
        ends = ", ".join(map(str, self.end_offsets[:_MAX_PRINTED_PARTITIONS]))
        more = ", ..." if len(self.end_offsets) > _MAX_PRINTED_PARTITIONS else ""
        configs = "".join(f", {key}={value}" for key, value in sorted(self.configs.items()))
        return f"<Topic {self.name}: {count_text(self.partitions, 'partition')}, end offsets {ends}{more}{configs}>"


def describe_topics(state: BrokerState, *, internal: bool = False) -> dict[str, TopicInfo]:
    """Return the topics by name, with internal topics if requested."""
    return {
        topic.name: TopicInfo(
            topic.name,
            topic.topic_id,
            len(topic.partitions),
            dict(topic.configs),
            tuple(partition.log.log_end_offset for partition in topic.partitions),
        )
        for topic in state.topics.values()
        if internal or not topic.is_internal
    }


def get_partition(state: BrokerState, topic: str, partition: int) -> Partition:
    """Return a partition.

    If the partition does not exist, raise an ``OptionError`` that lists the existing partitions or topics.
    """
    known_partition = state.partition(topic, partition)
    if known_partition is None and topic in state.topics:
        count = len(state.topics[topic].partitions)
        raise OptionError(f"topic {topic!r} has no partition {partition}; it has {count}, counted from 0")
    if known_partition is None:
        raise OptionError(f"topic {topic!r} does not exist; existing topics: {', '.join(state.topics) or 'none'}")
    return known_partition


def decode_records(
    state: BrokerState, topic: str, partition: int | None = None, *, control: bool = False
) -> list[Record]:
    """Return the decoded records of a partition, or of all partitions; with transaction markers if requested."""
    if partition is None:
        count = len(state.topics[topic].partitions) if topic in state.topics else 1
        return [record for index in range(count) for record in decode_records(state, topic, index, control=control)]
    log = get_partition(state, topic, partition).log
    return [
        record
        for batch in read_log_batches(log)
        for record in batch.records
        if record.offset >= log.log_start_offset and (control or not record.control)
    ]


class ObservedClient(NamedTuple):
    """A client library and version, with its client ids and the API versions that it used."""

    software: str
    client_ids: tuple[str, ...]
    versions: dict[str, tuple[int, ...]]
    refused_by_kafka_4: tuple[str, ...]


def _is_refused(api_name: str, version: int) -> bool:
    """Return whether Kafka 4 rejects an API version that older releases accept (KIP-896)."""
    try:
        key = catalog_api(api_name).key
    except KafkaframesError:  # only user-supplied specs contain the API
        return False
    accepted_range = _newest().all_apis.get(key)
    return key != API_VERSIONS and (accepted_range is None or version < accepted_range.accepted_versions.lowest)


def _newest() -> Release:
    return find_release(list_releases()[-1])


def find_clients(entries: Iterable[JournalEntry]) -> Iterator[ObservedClient]:
    """Yield the clients in a journal, with the versions that the newest Kafka release rejects (KIP-896)."""
    by_name: dict[str, dict[str, Any]] = {}
    by_connection: dict[int, str] = {}
    all_entries = list(entries)
    for entry in all_entries:
        if entry.software[0]:
            by_connection[entry.connection] = " ".join(entry.software)
    for entry in all_entries:
        name = by_connection.get(entry.connection, "unknown")
        usage = by_name.setdefault(name, {"ids": set(), "versions": {}})
        usage["ids"].add(entry.client_id or "")
        usage["versions"].setdefault(entry.api, set()).add(entry.version)
    for name, usage in sorted(by_name.items()):
        versions = {api: tuple(sorted(api_versions)) for api, api_versions in sorted(usage["versions"].items())}
        refusals = tuple(
            f"{api} v{version}"
            for api, api_versions in versions.items()
            for version in api_versions
            if _is_refused(api, version)
        )
        yield ObservedClient(name, tuple(sorted(usage["ids"])), versions, refusals)


def report_clients(entries: Iterable[JournalEntry]) -> str:
    """Return, as text, the clients and API versions in a journal, and the versions that Kafka 4 rejects."""
    lines = []
    for client in find_clients(entries):
        lines.append(f"{client.software} ({', '.join(filter(None, client.client_ids)) or 'no client id'})")
        for api, versions in client.versions.items():
            lines.append(f"  {api}: {', '.join(f'v{version}' for version in versions)}")
        refusals = ", ".join(client.refused_by_kafka_4) or "nothing"
        lines.append(f"  rejected by Kafka 4: {refusals}")
    return "\n".join(lines) or "no requests were seen"


class MemberInfo(NamedTuple):
    """A snapshot of a group member; ``assignment`` is sorted."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    assignment: tuple[TopicPartition, ...]


class GroupInfo(NamedTuple):
    """A snapshot of a group.

    Attributes:
        type: ``classic``, ``consumer``, ``share`` or ``streams``; empty if the group has only committed offsets.
        state: state in Kafka's spelling, such as ``Stable``.
        offsets: committed offset of each partition.
    """

    group_id: str
    type: str
    state: str
    members: tuple[MemberInfo, ...]
    offsets: dict[TopicPartition, int]


class TransactionInfo(NamedTuple):
    """A snapshot of a transactional id.

    Attributes:
        state: state in Kafka's spelling, such as ``Ongoing`` or ``CompleteCommit``.
        partitions: partitions of the transaction, sorted.
        started_ms: start of the transaction in milliseconds since 1970; None if there is no transaction.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    started_ms: int | None

    @property
    def is_open(self) -> bool:
        """Whether the transaction is ongoing: started, and neither committed nor aborted."""
        return self.state == TransactionState.ONGOING.kafka_name


def describe_groups(state: BrokerState) -> dict[str, GroupInfo]:
    """Return the groups by name, including groups that have only committed offsets."""
    groups_by_name, offset_store = state.groups.groups, state.groups.commits.store
    infos = {}
    for name in sorted({*groups_by_name, *offset_store.offsets_by_group}):
        group: Any = groups_by_name.get(name)
        members = (
            () if group is None else tuple(_describe_member(state, group, member) for member in group.members.values())
        )
        offsets = {
            topic_partition: commit.offset
            for topic_partition, commit in sorted(offset_store.group_offsets(name).items())
        }
        kind, state_name = ("", "Empty") if group is None else (group.type, group.state_name)
        infos[name] = GroupInfo(name, kind, state_name, members, offsets)
    return infos


def _describe_member(state: BrokerState, group: Any, member: Any) -> MemberInfo:
    """Return a snapshot of a group member."""
    instance_id = getattr(member, "instance_id", None)
    assignment = _read_assignment(state, group, member)
    return MemberInfo(member.member_id, member.client_id, member.client_host, instance_id, assignment)


def _read_assignment(state: BrokerState, group: Any, member: Any) -> tuple[TopicPartition, ...]:
    """Return the partitions that are assigned to a group member."""
    if isinstance(group, StreamsGroup):
        partitions = [TopicPartition(*partition) for partition in group.list_task_partitions(member, TaskRole.ACTIVE)]
        return tuple(
            sorted(partition for partition in partitions if state.partition(partition.topic, partition.partition))
        )
    if isinstance(member, GroupMember):
        topics = state.topics_by_id
        return tuple(
            sorted(
                TopicPartition(topics[topic_id].name, index)
                for topic_id, index in member.assignment
                if topic_id in topics
            )
        )
    try:
        assignment, _ = decode_versioned("ConsumerProtocolAssignment", member.assignment)
    except DecodeError:  # the member has no assignment yet, or uses another protocol, such as Kafka Connect's
        return ()
    rows = assignment.assigned_partitions
    return tuple(sorted(TopicPartition(row.topic, index) for row in rows for index in row.partitions))


def describe_transactions(state: BrokerState) -> dict[str, TransactionInfo]:
    """Return the transactions by transactional id."""
    return {
        transaction.transactional_id: TransactionInfo(
            transaction.transactional_id,
            transaction.state.kafka_name,
            transaction.producer_id,
            transaction.producer_epoch,
            tuple(sorted(transaction.partitions)),
            transaction.start_ms if transaction.start_ms >= 0 else None,
        )
        for transaction in state.transactions.transactions.values()
    }


_COORDINATOR_TYPES: Final = {"group": 0, "transaction": 1, "share": 2}  # Kafka's coordinator types
Configs = Mapping[str, str | int | bool]


def format_setting(value: str | int | bool) -> str:
    """Return a setting's value in Kafka's spelling.

    >>> format_setting(True)
    'true'
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(configs: Configs) -> dict[str, str]:
    return {key.replace("_", "."): format_setting(value) for key, value in configs.items()}


def create_topic(state: BrokerState, name: str, partitions: int, configs: Configs) -> None:
    """Create a topic, like ``Broker.create_topic``."""
    if name in state.topics:
        raise OptionError(f"topic {name!r} already exists")
    if partitions < 1:
        raise OptionError(f"partitions is {partitions}; expected 1 or more")
    check_topic_name(name)
    checked_configs = check_topic_configs(state.settings, _texts(configs))
    state.create_topic(name, partitions, checked_configs)


def configure_topic(state: BrokerState, name: str, configs: Configs) -> None:
    """Change settings of a topic, like ``Broker.configure_topic``."""
    if name not in state.topics:
        raise OptionError(f"topic {name!r} does not exist; existing topics: {', '.join(state.topics) or 'none'}")
    topic = state.topics[name]
    state.configure_topic(topic, check_topic_configs(state.settings, topic.configs | _texts(configs)))
    state.save_metadata()


def get_node(state: BrokerState, node_id: int) -> Node:
    """Return a virtual node. If the node does not exist, raise an ``OptionError`` that lists the existing nodes."""
    if node_id not in state.nodes.by_id:
        raise OptionError(f"unknown node {node_id}; expected one of {', '.join(map(str, state.nodes.by_id))}")
    return state.nodes.by_id[node_id]


def move_leader(state: BrokerState, topic: str, partition: int, node_id: int) -> None:
    """Move a partition's leadership to another node, like ``Broker.move_leader``."""
    get_node(state, node_id)
    state.move_leader(get_partition(state, topic, partition), node_id)


def move_coordinator(state: BrokerState, key: str, node_id: int, kind: str) -> None:
    """Move a group's or transactional id's coordinator to another node, like ``Broker.move_coordinator``."""
    get_node(state, node_id)
    if kind not in _COORDINATOR_TYPES:
        raise OptionError(f"unknown kind {kind!r}; expected one of {', '.join(_COORDINATOR_TYPES)}")
    state.nodes.coordinators[_COORDINATOR_TYPES[kind], key] = node_id


def truncate(state: BrokerState, topic: str, partition: int, offset: int) -> None:
    """Truncate a partition's log, like ``Broker.truncate``."""
    target = get_partition(state, topic, partition)
    state.logs.truncate_to(target.topic_partition, offset, now_ms=state.clock.now_ms)
    target.log.update_high_watermark(target.log.log_end_offset)
    state.move_leader(target, target.leader_id)


def tear_tail(data_dir: str, topic: str, partition: int, count: int) -> int:
    """Remove the last bytes of a partition's newest segment, like ``Broker.tear_tail``."""
    segments = _list_segments(data_dir, f"{topic}-{partition}")
    if not segments:
        raise OptionError(f"{topic}-{partition} has no segment in {data_dir}")
    size = segments[-1].stat().st_size
    if not 0 <= count <= size:
        raise OptionError(f"{segments[-1]} has {size} bytes, so {count} bytes cannot be removed")
    os.truncate(segments[-1], size - count)
    return size - count


def _list_segments(data_dir: str, name: str) -> list[Path]:
    """Return a partition's segment files. Symbolic links are ignored: only files in ``data_dir`` are changed."""
    for directory in Path(data_dir).iterdir():
        if directory.name == name and directory.is_dir() and not directory.is_symlink():
            return sorted(file for file in directory.glob("*.log") if file.is_file() and not file.is_symlink())
    return []


def build_producer_batches(
    records: Any, *, now_ms: int, batch_records: int, batch_bytes: int = 16_384
) -> list[tuple[bytes, int]]:
    """Encode records as batches of format 2, as a producer sends them. Return each batch with its number of records.

    Args:
        records: records in a form that ``build_records`` accepts; records without a timestamp get ``now_ms``.
        batch_records: largest number of records in a batch.
        batch_bytes: largest size of a batch, in bytes (``batch.size``); a larger record is a batch of its own.

    Raises:
        EncodeError: a column is unknown, or a value is invalid; ``path`` is its location.
    """
    # Arrow is imported on first use, so that it does not delay the broker's first request.
    from kafkaframes.records.arrays import int64_array, whole_milliseconds
    from kafkaframes.records.build import READER_COLUMNS, build_separate_batches
    from kafkaframes.records.rows import map_columns, to_column_array

    if not len(records):
        return []
    columns_by_name = map_columns(records, ignore=READER_COLUMNS)
    columns = {name: columns_by_name[name] for name in ("key", "value", "headers") if name in columns_by_name}
    if "timestamp" in columns_by_name:
        columns["timestamp"] = whole_milliseconds(to_column_array("timestamp", columns_by_name["timestamp"]), now_ms)
    else:
        count = len(next(iter(columns.values())))
        columns["timestamp"] = int64_array(np.full(count, now_ms, np.int64))
    return list(build_separate_batches(columns, batch_records=batch_records, batch_bytes=batch_bytes))


def append_batches(state: BrokerState, topic: str, batches: Sequence[tuple[bytes, int]], partition: int) -> int:
    """Append batches, like ``Broker.append``. All batches are validated before the first batch is appended."""
    if state.is_read_only:
        raise OptionError("the broker serves a directory read-only, so records cannot be appended")
    if topic in state.topics:
        target = get_partition(state, topic, partition)
        settings, end, epoch = target.log.settings, target.log.log_end_offset, target.leader_epoch
    else:
        check_topic_name(topic)
        if partition < 0:
            raise OptionError(f"partition {partition} is negative")
        settings, end, epoch = state.settings.build_log_settings({}), 0, 0
    if settings.on_noncontiguous == KEEP:  # in a topic of a mirror, the log keeps the offsets of the batches
        batches = _set_base_offsets(batches, end)
    now_ms = state.clock.now_ms
    for data, _ in batches:
        check_client_batch(settings, data, log_end_offset=end, leader_epoch=epoch, now_ms=now_ms)
    if topic not in state.topics:
        state.create_topic(topic, partition + 1)
        target = get_partition(state, topic, partition)
    first = -1
    for data, _ in batches:
        info = target.log.append_as_leader(data, leader_epoch=target.leader_epoch, now_ms=now_ms)
        first = info.first_offset if first < 0 else first
    target.log.update_high_watermark(target.log.log_end_offset)
    state.note_append(target)
    return first


def _set_base_offsets(batches: Iterable[tuple[bytes, int]], offset: int) -> list[tuple[bytes, int]]:
    """Return batches with consecutive base offsets from ``offset``. The CRC does not cover the base offset."""
    result = []
    for data, count in batches:
        result.append((offset.to_bytes(8) + data[8:], count))
        offset += count
    return result
