"""The adapter of this package's client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.interop.peers import interface
from tests.interop.peers.interface import Callback, Partition, PendingDelivery, Record, SentRecord

import kafkaframes
from kafkaframes import client as kf
from kafkaframes import errors


class KafkaframesProducer(interface.Producer):
    def __init__(self, servers: str, settings: dict[str, Any]) -> None:
        self._producer = kf.Producer(servers, **settings)
        if "transactional_id" in settings:
            self._producer.__enter__()

    def send(self, topic, value=None, *, on_delivery=None, **fields):
        def call_back(error, metadata):
            on_delivery(error, SentRecord(*metadata) if metadata else None)

        callback = call_back if on_delivery else None
        future = self._producer.send(topic, value, on_delivery=callback, **fields)
        return PendingDelivery(lambda: SentRecord(*future.result(interface.PATIENCE_S)), future.done)

    def flush(self):
        self._producer.flush()

    def partitions_for(self, topic):
        return [partition.partition for partition in self._producer.partitions_for(topic)]

    def begin(self):
        self._producer.begin_transaction()

    def commit(self):
        self._producer.commit_transaction()

    def abort(self):
        self._producer.abort_transaction()

    def send_offsets(self, offsets, group):
        self._producer.send_offsets_to_transaction(offsets, group)

    def close(self):
        self._producer.close()


class KafkaframesConsumer(interface.Consumer):
    def __init__(self, servers: str, settings: dict[str, Any]) -> None:
        self._consumer = kf.Consumer(servers, **settings)

    def assign(self, partitions):
        self._consumer.assign(partitions)

    def subscribe(self, topics=None, *, pattern=None, on_assign=None, on_revoke=None):
        self._consumer.subscribe(
            topics, pattern=pattern, on_assign=_listener(on_assign), on_revoke=_listener(on_revoke)
        )

    def unsubscribe(self):
        self._consumer.unsubscribe()

    def poll(self, timeout_s=interface.POLL_S, max_records=None):
        return list(map(Record.of, self._consumer.poll(round(timeout_s * 1000), max_records=max_records)))

    def iterate(self) -> Iterator[Record]:
        return map(Record.of, self._consumer)

    def assignment(self):
        return sorted(map(_pair, self._consumer.assignment()))

    def seek(self, partition, offset):
        self._consumer.seek(partition, offset)

    def seek_to_beginning(self, partition):
        self._consumer.seek_to_beginning(partition)

    def seek_to_end(self, partition):
        self._consumer.seek_to_end(partition)

    def position(self, partition):
        return self._consumer.position(partition)

    def pause(self, partition):
        self._consumer.pause(partition)

    def resume(self, partition):
        self._consumer.resume(partition)

    def commit(self, offsets: Mapping[Partition, Any] | None = None):
        if offsets is not None:
            pairs = {key: value for key, value in offsets.items() if isinstance(value, tuple)}
            offsets = {**offsets, **{key: kf.CommittedOffset(offset, metadata=m) for key, (offset, m) in pairs.items()}}
        self._consumer.commit(offsets)

    def committed_offset(self, partition):
        entry = self._consumer.committed([partition]).get(kf.TopicPartition(*partition))
        return None if entry is None else (entry.offset, entry.metadata)

    def beginning_offset(self, partition):
        return self._consumer.beginning_offsets([partition])[kf.TopicPartition(*partition)]

    def end_offset(self, partition):
        return self._consumer.end_offsets([partition])[kf.TopicPartition(*partition)]

    def offset_for_time(self, partition, time_ms):
        return self._consumer.offsets_for_times({partition: time_ms})[kf.TopicPartition(*partition)].offset

    def topics(self):
        return self._consumer.topics()

    def partitions_for(self, topic):
        return [partition.partition for partition in self._consumer.partitions_for(topic)]

    def close(self):
        self._consumer.close()


class KafkaframesAdmin(interface.Admin):
    def __init__(self, servers: str) -> None:
        self._admin = kf.Admin(servers)

    def create_topic(self, name, partitions=1, *, replicas=1, configs=None, validate_only=False):
        topic = kf.NewTopic(name, partitions, replicas, configs=configs or {})
        self._admin.create_topics([topic], validate_only=validate_only)

    def create_topics(self, names):
        self._admin.create_topics(names)

    def delete_topics(self, names):
        self._admin.delete_topics(names)

    def list_topics(self):
        return self._admin.list_topics()

    def partition_count(self, topic):
        return len(self._admin.describe_topics([topic])[topic].partitions)

    def create_partitions(self, topic, count):
        self._admin.create_partitions({topic: count})

    def config(self, topic, name):
        return self._admin.describe_configs("topic", topic)[name].value

    def alter_config(self, topic, name, value):
        self._admin.alter_configs("topic", topic, {name: value})

    def delete_records(self, partition, before):
        return self._admin.delete_records({partition: before})[kf.TopicPartition(*partition)]

    def groups(self):
        return [group.group_id for group in self._admin.list_groups()]

    def group_state(self, group):
        description = self._admin.describe_group(group)
        return description.state, len(description.members)

    def group_offsets(self, group):
        return {_pair(key): entry.offset for key, entry in self._admin.group_offsets(group).items()}

    def alter_group_offset(self, group, partition, offset):
        self._admin.alter_group_offsets(group, {partition: offset})

    def delete_group(self, group):
        self._admin.delete_groups([group])

    def broker_count(self):
        return len(self._admin.describe_cluster().brokers)

    def close(self):
        self._admin.close()


class KafkaframesClient(interface.Client):
    """The adapter of this package's synchronous client."""

    def version(self):
        return kafkaframes.__version__

    def producer(self, **settings):
        return KafkaframesProducer(self.servers, settings)

    def consumer(self, **settings):
        return KafkaframesConsumer(self.servers, settings)

    def admin(self):
        return KafkaframesAdmin(self.servers)

    def kind(self, error):
        if isinstance(error, errors.ProducerFencedError):
            return interface.FENCED
        if "no committed offset" in str(error) or "no offset to begin from" in str(error):
            return interface.NO_OFFSET
        if isinstance(error, errors.BrokerError) and error.code is not None:
            return interface.CODES.get(int(error.code), error.code.name)
        if isinstance(error, errors.OffsetOutOfRangeError):
            return interface.CODES[1]
        if isinstance(error, errors.CorruptRecordError):
            return interface.CORRUPT
        if isinstance(error, errors.MaybeWrittenError):
            return interface.TIMED_OUT
        if isinstance(error, errors.NetworkError):
            return interface.REFUSED if "closed" in str(error) else interface.UNREACHABLE
        if isinstance(error, (errors.OptionError, errors.EncodeError, errors.BrokerError)):
            return interface.REFUSED
        return type(error).__name__


def _pair(partition: kf.TopicPartition) -> Partition:
    return partition.topic, partition.partition


def _listener(callback: Callback | None) -> Callback | None:
    def call_back(partitions: Iterable[Any]) -> None:
        callback(sorted(map(_pair, partitions)))

    return call_back if callback else None


CLIENT_CLASS = KafkaframesClient
