"""What a test asks a broker about: topics, decoded records, the clients that were seen. Values, not state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

from kafkaframes.broker.journal import Entry
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import Partition
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.protocol.spec.catalog import api as catalog_api
from kafkaframes.protocol.spec.releases import API_VERSIONS, Release, release, releases
from kafkaframes.records.batch import Record, read_values
from kafkaframes.records.scan import FILE
from kafkaframes.storage.partition.fetch import LOG_END

_CHUNK_BYTES = 1 << 20


class TopicInfo(NamedTuple):
    """A topic, as it was when somebody asked.

    Attributes:
        end_offsets: the log end offset of each partition.
    """

    name: str
    topic_id: UUID
    partitions: int
    configs: dict[str, str]
    end_offsets: tuple[int, ...]


def topics(state: BrokerState, *, internal: bool = False) -> dict[str, TopicInfo]:
    """Return the topics by name; internal ones if asked."""
    return {
        topic.name: TopicInfo(
            topic.name,
            topic.topic_id,
            len(topic.partitions),
            dict(topic.configs),
            tuple(one.log.log_end_offset for one in topic.partitions),
        )
        for topic in state.topics.values()
        if internal or not topic.is_internal
    }


def partition_of(state: BrokerState, topic: str, partition: int) -> Partition:
    """Return a partition.

    Raises:
        OptionError: there is none.
    """
    found = state.partition(topic, partition)
    if found is None and topic in state.topics:
        count = len(state.topics[topic].partitions)
        raise OptionError(f"topic {topic!r} has no partition {partition}; it has {count}, counted from 0")
    if found is None:
        raise OptionError(f"no topic {topic!r} in this broker; its topics: {', '.join(state.topics) or 'none'}")
    return found


def records(state: BrokerState, topic: str, partition: int | None = None, *, control: bool = False) -> list[Record]:
    """Return the decoded records of a partition, or of all; transaction markers if asked.

    Raises:
        OptionError: there is no such partition.
    """
    if partition is None:
        count = len(state.topics[topic].partitions) if topic in state.topics else 1
        return [one for index in range(count) for one in records(state, topic, index, control=control)]
    log = partition_of(state, topic, partition).log
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes=_CHUNK_BYTES, isolation=LOG_END).records
        rows = [one for batch in read_values(data, rules=FILE) for one in batch.records if one.offset >= offset]
        if not rows:
            break
        found += [one for one in rows if control or not one.control]
        offset = rows[-1].offset + 1
    return found


class SeenClient(NamedTuple):
    """One kind of client: its software and the versions of each API that it used."""

    software: str
    client_ids: tuple[str, ...]
    versions: dict[str, tuple[int, ...]]
    refused_by_kafka_4: tuple[str, ...]


def _is_refused(api_name: str, version: int) -> bool:
    """Tell whether a broker of Kafka 4 does not take a version that older ones took (KIP-896)."""
    try:
        key = catalog_api(api_name).key
    except KafkaframesError:  # of an own spec
        return False
    accepted = _newest().all_apis.get(key)
    return key != API_VERSIONS and (accepted is None or version < accepted.accepted.lowest)


def _newest() -> Release:
    return release(releases()[-1])


def seen_clients(entries: Iterable[Entry]) -> Iterator[SeenClient]:
    """Yield which clients were seen, and what a broker of the newest release would refuse of theirs (KIP-896)."""
    found: dict[str, dict[str, Any]] = {}
    by_connection: dict[int, str] = {}
    listed = list(entries)
    for entry in listed:
        if entry.software[0]:
            by_connection[entry.connection] = " ".join(entry.software)
    for entry in listed:
        name = by_connection.get(entry.connection, "unknown")
        seen = found.setdefault(name, {"ids": set(), "versions": {}})
        seen["ids"].add(entry.client_id or "")
        seen["versions"].setdefault(entry.api, set()).add(entry.version)
    for name, seen in sorted(found.items()):
        versions = {api: tuple(sorted(those)) for api, those in sorted(seen["versions"].items())}
        refused = tuple(
            f"{api} v{version}" for api, those in versions.items() for version in those if _is_refused(api, version)
        )
        yield SeenClient(name, tuple(sorted(seen["ids"])), versions, refused)


def report(entries: Iterable[Entry]) -> str:
    """Return, as text, which clients and versions were seen and what Kafka 4 would refuse."""
    lines = []
    for client in seen_clients(entries):
        lines.append(f"{client.software} ({', '.join(filter(None, client.client_ids)) or 'no client id'})")
        for api, versions in client.versions.items():
            lines.append(f"  {api}: {', '.join(f'v{version}' for version in versions)}")
        refused = ", ".join(client.refused_by_kafka_4) or "nothing"
        lines.append(f"  Kafka 4 would refuse: {refused}")
    return "\n".join(lines) or "no requests were seen"
