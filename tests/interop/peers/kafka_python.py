"""The adapter of kafka-python."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import kafka
from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.structs import OffsetAndMetadata
from tests.interop.peers import interface
from tests.interop.peers.interface import Callback, CannotPerformError, PendingDelivery, Record, SentRecord

_TIMEOUT_S = interface.PATIENCE_S
_CLIENT_ERRORS = (
    errors.IllegalStateError,
    errors.IllegalArgumentError,
    errors.KafkaConfigurationError,
    errors.UnsupportedCodecError,
    AssertionError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
)


def _translate(servers: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    settings = dict(settings)
    if settings.get("compression_type") == "none":
        del settings["compression_type"]
    return {"bootstrap_servers": servers, **settings}


def _partition(partition: tuple[str, int]) -> kafka.TopicPartition:
    return kafka.TopicPartition(*partition)


class KafkaPythonProducer(interface.Producer):
    def __init__(self, servers: str, settings: dict[str, Any]) -> None:
        self._producer = kafka.KafkaProducer(**_translate(servers, {"max_block_ms": 10_000, **settings}))
        if "transactional_id" in settings:
            self._producer.init_transactions()

    def send(self, topic, value=None, *, on_delivery=None, **fields):
        future = self._producer.send(topic, value, **fields)
        if on_delivery:
            future.add_callback(lambda metadata: on_delivery(None, _to_sent(metadata)))
            future.add_errback(lambda error: on_delivery(error, None))
        return PendingDelivery(lambda: _to_sent(future.get(timeout=_TIMEOUT_S)), lambda: future.is_done)

    def flush(self):
        self._producer.flush(timeout=_TIMEOUT_S)

    def partitions_for(self, topic):
        return sorted(self._producer.partitions_for(topic))

    def begin(self):
        self._producer.begin_transaction()

    def commit(self):
        self._producer.commit_transaction()

    def abort(self):
        self._producer.abort_transaction()

    def send_offsets(self, offsets, group):
        offsets_by_partition = {_partition(key): OffsetAndMetadata(offset, "", -1) for key, offset in offsets.items()}
        self._producer.send_offsets_to_transaction(offsets_by_partition, group)

    def close(self):
        self._producer.close(timeout=_TIMEOUT_S)


def _to_sent(metadata: Any) -> SentRecord:
    return SentRecord(metadata.topic, metadata.partition, metadata.offset, metadata.timestamp)


class _KafkaPythonListener(kafka.ConsumerRebalanceListener):
    def __init__(self, on_assign: Callback | None, on_revoke: Callback | None) -> None:
        self._on_assign, self._on_revoke = on_assign, on_revoke

    def on_partitions_assigned(self, partitions):
        if self._on_assign:
            self._on_assign(sorted(map(tuple, partitions)))

    def on_partitions_revoked(self, partitions):
        if self._on_revoke and partitions:
            self._on_revoke(sorted(map(tuple, partitions)))


class KafkaPythonConsumer(interface.Consumer):
    def __init__(self, servers: str, settings: dict[str, Any]) -> None:
        if settings.get("group_protocol") == "consumer":
            raise CannotPerformError("no KIP-848 protocol")
        self._consumer = kafka.KafkaConsumer(**_translate(servers, settings))

    def assign(self, partitions):
        if isinstance(partitions, Mapping):
            raise CannotPerformError("assign() takes no offsets; seek() after it")
        self._consumer.assign(list(map(_partition, partitions)))

    def subscribe(self, topics=None, *, pattern=None, on_assign=None, on_revoke=None):
        listener = _KafkaPythonListener(on_assign, on_revoke) if on_assign or on_revoke else None
        self._consumer.subscribe(topics=topics or (), pattern=pattern, listener=listener)
        # A group leader without metadata assigns no partitions, and may never assign again.
        self._consumer.topics()
        for topic in topics or ():
            self._consumer.partitions_for_topic(topic)

    def unsubscribe(self):
        self._consumer.unsubscribe()

    def poll(self, timeout_s=interface.POLL_S, max_records=None):
        batches = self._consumer.poll(timeout_ms=round(timeout_s * 1000), max_records=max_records)
        return [Record.of(record) for records in batches.values() for record in records]

    def iterate(self) -> Iterator[Record]:
        return map(Record.of, self._consumer)

    def assignment(self):
        return sorted(map(tuple, self._consumer.assignment()))

    def seek(self, partition, offset):
        self._consumer.seek(_partition(partition), offset)

    def seek_to_beginning(self, partition):
        self._consumer.seek_to_beginning(_partition(partition))

    def seek_to_end(self, partition):
        self._consumer.seek_to_end(_partition(partition))

    def position(self, partition):
        return self._consumer.position(_partition(partition))

    def pause(self, partition):
        self._consumer.pause(_partition(partition))

    def resume(self, partition):
        self._consumer.resume(_partition(partition))

    def commit(self, offsets=None):
        if offsets is None:
            self._consumer.commit()
            return
        pairs = {key: value if isinstance(value, tuple) else (value, "") for key, value in offsets.items()}
        self._consumer.commit({_partition(key): OffsetAndMetadata(*pair, -1) for key, pair in pairs.items()})

    def committed_offset(self, partition):
        entry = self._consumer.committed(_partition(partition), metadata=True)
        return None if entry is None else (entry.offset, entry.metadata)

    def beginning_offset(self, partition):
        return self._consumer.beginning_offsets([_partition(partition)])[_partition(partition)]

    def end_offset(self, partition):
        return self._consumer.end_offsets([_partition(partition)])[_partition(partition)]

    def offset_for_time(self, partition, time_ms):
        answer = self._consumer.offsets_for_times({_partition(partition): time_ms})[_partition(partition)]
        return None if answer is None else answer.offset

    def topics(self):
        return sorted(self._consumer.topics())

    def partitions_for(self, topic):
        partitions = self._consumer.partitions_for_topic(topic)
        return None if partitions is None else sorted(partitions)

    def close(self):
        self._consumer.close()


class KafkaPythonAdmin(interface.Admin):
    def __init__(self, servers: str) -> None:
        self._admin = kafka.KafkaAdminClient(bootstrap_servers=servers)

    def create_topic(self, name, partitions=1, *, replicas=1, configs=None, validate_only=False):
        topic = NewTopic(name, partitions, replicas, topic_configs=dict(configs or {}))
        self._admin.create_topics([topic], validate_only=validate_only)

    def create_topics(self, names):
        self._admin.create_topics([NewTopic(name, 1, 1) for name in names])

    def delete_topics(self, names):
        self._admin.delete_topics(list(names))

    def list_topics(self):
        return self._admin.list_topics()

    def partition_count(self, topic):
        return len(self._admin.describe_topics([topic])[0]["partitions"])

    def create_partitions(self, topic, count):
        self._admin.create_partitions({topic: count})

    def config(self, topic, name):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, [name])
        return self._admin.describe_configs([resource], config_filter="all")["topic"][topic][name]["value"]

    def alter_config(self, topic, name, value):
        answer = self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])
        _raise_named_error(answer["topic"][topic])

    def delete_records(self, partition, before):
        return self._admin.delete_records({_partition(partition): before})[_partition(partition)]["low_watermark"]

    def groups(self):
        return [group["group_id"] for group in self._admin.list_groups()]

    def group_state(self, group):
        description = self._admin.describe_groups([group])[group]
        return description["group_state"], len(description["members"])

    def group_offsets(self, group):
        return {tuple(key): entry.offset for key, entry in self._admin.list_group_offsets(group)[group].items()}

    def alter_group_offset(self, group, partition, offset):
        offsets_by_partition = {_partition(partition): OffsetAndMetadata(offset, "", -1)}
        for error in self._admin.alter_group_offsets(group, offsets_by_partition).values():
            if error is not errors.NoError:
                raise error

    def delete_group(self, group):
        _raise_named_error(self._admin.delete_groups([group])[group])

    def broker_count(self):
        return len(self._admin.describe_cluster()["brokers"])

    def close(self):
        self._admin.close()


def _raise_named_error(answer: str) -> None:
    """Raise the error that an admin call returned as text: a class name, or ``[Error NUMBER] ...``."""
    if number := re.match(r"\[Error (\d+)\]", answer):
        raise errors.for_code(int(number[1]))
    if answer != "OK":
        raise getattr(errors, answer)


class KafkaPythonClient(interface.Client):
    """kafka-python."""

    def version(self):
        return kafka.__version__

    def producer(self, **settings):
        return KafkaPythonProducer(self.servers, settings)

    def consumer(self, **settings):
        return KafkaPythonConsumer(self.servers, settings)

    def admin(self):
        return KafkaPythonAdmin(self.servers)

    def kind(self, error):
        if isinstance(error, errors.KafkaTimeoutError):
            return interface.TIMED_OUT
        if isinstance(error, errors.KafkaConnectionError):
            return interface.UNREACHABLE
        if isinstance(error, errors.NoOffsetForPartitionError):
            return interface.NO_OFFSET
        if isinstance(error, errors.OffsetOutOfRangeError):
            return interface.CODES[1]
        if isinstance(error, _CLIENT_ERRORS) or type(error) is errors.KafkaError:
            return interface.REFUSED
        if isinstance(error, errors.CommitFailedError):
            return interface.CODES[25]
        return interface.CODES.get(getattr(error, "errno", None), type(error).__name__)


CLIENT_CLASS = KafkaPythonClient
