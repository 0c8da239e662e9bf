"""The adapter of confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import confluent_kafka as ck
from confluent_kafka import admin as ck_admin
from tests.interop.peers import interface
from tests.interop.peers.interface import Callback, CannotPerformError, Partition, PendingDelivery, Record, SentRecord

_SETTING_NAMES = {
    "max_request_size": "message.max.bytes",
    "metadata_max_age_ms": "topic.metadata.refresh.interval.ms",
    "max_in_flight": "max.in.flight.requests.per.connection",
    "fetch_max_wait_ms": "fetch.wait.max.ms",
}
_UNSUPPORTED_SETTINGS = {"max_poll_records", "max_block_ms", "default_api_timeout_ms"}
_TIMEOUT_S = interface.PATIENCE_S
_PLACEHOLDER_GROUP = "group-of-a-consumer-that-needs-none"


def _translate(servers: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    if absent := _UNSUPPORTED_SETTINGS & set(settings):
        raise CannotPerformError(f"no setting {', '.join(sorted(absent))}")
    named_settings = {_SETTING_NAMES.get(name, name.replace("_", ".")): value for name, value in settings.items()}
    if named_settings.get("auto.offset.reset") == "none":
        named_settings["auto.offset.reset"] = "error"
    return {"bootstrap.servers": servers, "log_level": 0} | named_settings


class ConfluentProducer(interface.Producer):
    def __init__(self, servers: str, settings: dict[str, Any]) -> None:
        self._producer = ck.Producer(_translate(servers, settings))
        self._is_closed = False
        if "transactional_id" in settings:
            self._producer.init_transactions(_TIMEOUT_S)

    def send(self, topic, value=None, *, key=None, partition=None, timestamp_ms=None, headers=None, on_delivery=None):
        results: list[Any] = []

        def call_back(error, message):
            result = None if error else SentRecord(topic, message.partition(), message.offset(), message.timestamp()[1])
            results.append(ck.KafkaException(error) if error else result)
            if on_delivery:
                on_delivery(ck.KafkaException(error) if error else None, result)

        options = {} if partition is None else {"partition": partition}
        options |= {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        options |= {} if headers is None else {"headers": headers}
        if self._is_closed:
            raise CannotPerformError("a producer has no close()")
        self._producer.produce(topic, value, key, on_delivery=call_back, **options)

        def wait():
            deadline = time.monotonic() + _TIMEOUT_S
            while not results:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no delivery report within {_TIMEOUT_S} s")
                self._producer.poll(0.05)
            if isinstance(results[0], Exception):
                raise results[0]
            return results[0]

        return PendingDelivery(wait, lambda: bool(results))

    def flush(self):
        self._producer.flush(_TIMEOUT_S)

    def partitions_for(self, topic):
        return sorted(self._producer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions)

    def begin(self):
        self._producer.begin_transaction()

    def commit(self):
        self._producer.commit_transaction(_TIMEOUT_S)

    def abort(self):
        self._producer.abort_transaction(_TIMEOUT_S)

    def send_offsets(self, offsets, group):
        settings = {"bootstrap.servers": ",".join(_servers_of(self._producer)), "group.id": group}
        member = ck.Consumer(settings)
        metadata = member.consumer_group_metadata()
        partitions = [ck.TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        self._producer.send_offsets_to_transaction(partitions, metadata, _TIMEOUT_S)
        member.close()

    def close(self):
        """Flush, as applications do, because releases before 2.13 do not have ``close``."""
        if self._is_closed:
            raise CannotPerformError("a producer has no close()")
        self.flush()
        self._is_closed = True


def _servers_of(producer: ck.Producer) -> list[str]:
    return [f"{node.host}:{node.port}" for node in producer.list_topics(timeout=_TIMEOUT_S).brokers.values()]


class ConfluentConsumer(interface.Consumer):
    def __init__(self, servers: str, settings: dict[str, Any]) -> None:
        settings = {"group_id": _PLACEHOLDER_GROUP, "enable_auto_commit": "group_id" in settings} | settings
        self._consumer = ck.Consumer(_translate(servers, settings))
        self._is_without_group = settings["group_id"] == _PLACEHOLDER_GROUP
        self._servers = servers
        self._failure: ck.KafkaException | None = None

    def assign(self, partitions):
        if not isinstance(partitions, Mapping):
            partitions = dict.fromkeys(partitions, ck.OFFSET_STORED if not self._is_without_group else None)
        fallback = ck.OFFSET_INVALID
        self._consumer.assign(
            [ck.TopicPartition(*key, fallback if offset is None else offset) for key, offset in partitions.items()]
        )

    def subscribe(self, topics=None, *, pattern=None, on_assign=None, on_revoke=None):
        self._require_group()
        options = {"on_assign": _listener(on_assign), "on_revoke": _listener(on_revoke)}
        names = [f"^{pattern}"] if pattern else topics
        self._consumer.subscribe(names, **{name: value for name, value in options.items() if value})

    def _require_group(self) -> None:
        if self._is_without_group:
            raise CannotPerformError("the constructor requires group.id")

    def unsubscribe(self):
        self._consumer.unsubscribe()

    def poll(self, timeout_s=interface.POLL_S, max_records=None):
        records = []
        for message in self._consumer.consume(max_records or 500, timeout_s) if self._failure is None else ():
            if message.error() is not None:
                self._failure = ck.KafkaException(message.error())
                break
            records.append(_record(message))
        if self._failure is not None and not records:
            failure, self._failure = self._failure, None
            raise failure
        return records

    def iterate(self) -> Iterator[Record]:
        if not hasattr(self._consumer, "__iter__"):
            raise CannotPerformError("a consumer is not iterable")
        return map(_record, self._consumer)

    def assignment(self):
        return sorted(
            (topic_partition.topic, topic_partition.partition) for topic_partition in self._consumer.assignment()
        )

    def seek(self, partition, offset):
        """Seek; retry while librdkafka rejects it because the partition's fetcher has not started."""
        deadline = time.monotonic() + 5
        while True:
            try:
                return self._consumer.seek(ck.TopicPartition(*partition, offset))
            except ck.KafkaException as error:
                if error.args[0].code() != ck.KafkaError._STATE or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def seek_to_beginning(self, partition):
        self.seek(partition, ck.OFFSET_BEGINNING)

    def seek_to_end(self, partition):
        self.seek(partition, ck.OFFSET_END)

    def position(self, partition):
        (position,) = self._consumer.position([ck.TopicPartition(*partition)])
        if position.error is not None:
            raise ck.KafkaException(position.error)
        return position.offset

    def pause(self, partition):
        self._consumer.pause([ck.TopicPartition(*partition)])

    def resume(self, partition):
        self._consumer.resume([ck.TopicPartition(*partition)])

    def commit(self, offsets=None):
        self._require_group()
        if offsets is None:
            results = self._consumer.commit(asynchronous=False)
        else:
            pairs = {key: value if isinstance(value, tuple) else (value, "") for key, value in offsets.items()}
            partitions = [ck.TopicPartition(*key, offset, metadata) for key, (offset, metadata) in pairs.items()]
            results = self._consumer.commit(offsets=partitions, asynchronous=False)
        failures = [result.error for result in results if result.error is not None]
        if failures:
            raise ck.KafkaException(failures[0])

    def committed_offset(self, partition):
        self._require_group()
        (entry,) = self._consumer.committed([ck.TopicPartition(*partition)], timeout=_TIMEOUT_S)
        return None if entry.offset < 0 else (entry.offset, entry.metadata or "")

    def beginning_offset(self, partition):
        return self._consumer.get_watermark_offsets(ck.TopicPartition(*partition), timeout=_TIMEOUT_S)[0]

    def end_offset(self, partition):
        return self._consumer.get_watermark_offsets(ck.TopicPartition(*partition), timeout=_TIMEOUT_S)[1]

    def offset_for_time(self, partition, time_ms):
        (answer,) = self._consumer.offsets_for_times([ck.TopicPartition(*partition, time_ms)], timeout=_TIMEOUT_S)
        return answer.offset

    def topics(self):
        return list(self._consumer.list_topics(timeout=_TIMEOUT_S).topics)

    def partitions_for(self, topic):
        metadata = self._consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
        if metadata.error is not None:
            raise ck.KafkaException(metadata.error)
        return sorted(metadata.partitions)

    def close(self):
        self._consumer.close()


class ConfluentAdmin(interface.Admin):
    def __init__(self, servers: str) -> None:
        self._admin = ck_admin.AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def create_topic(self, name, partitions=1, *, replicas=1, configs=None, validate_only=False):
        topic = ck_admin.NewTopic(name, partitions, replicas, config=dict(configs or {}))
        self._admin.create_topics([topic], validate_only=validate_only)[name].result(_TIMEOUT_S)

    def create_topics(self, names):
        futures = self._admin.create_topics([ck_admin.NewTopic(name, 1, 1) for name in names])
        _wait_for_all(futures)

    def delete_topics(self, names):
        _wait_for_all(self._admin.delete_topics(list(names)))

    def list_topics(self):
        return list(self._admin.list_topics(timeout=_TIMEOUT_S).topics)

    def partition_count(self, topic):
        return len(self._admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions)

    def create_partitions(self, topic, count):
        self._admin.create_partitions([ck_admin.NewPartitions(topic, count)])[topic].result(_TIMEOUT_S)

    def config(self, topic, name):
        resource = ck_admin.ConfigResource("topic", topic)
        return self._admin.describe_configs([resource])[resource].result(_TIMEOUT_S)[name].value

    def alter_config(self, topic, name, value):
        entry = ck_admin.ConfigEntry(name, value, incremental_operation=ck_admin.AlterConfigOpType.SET)
        resource = ck_admin.ConfigResource("topic", topic, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(_TIMEOUT_S)

    def delete_records(self, partition, before):
        request = ck.TopicPartition(*partition, before)
        return self._admin.delete_records([request])[request].result(_TIMEOUT_S).low_watermark

    def groups(self):
        return [group.group_id for group in self._admin.list_consumer_groups().result(_TIMEOUT_S).valid]

    def group_state(self, group):
        description = self._admin.describe_consumer_groups([group])[group].result(_TIMEOUT_S)
        return description.state.name.title().replace("_", ""), len(description.members)

    def group_offsets(self, group):
        request = ck.ConsumerGroupTopicPartitions(group)
        result = self._admin.list_consumer_group_offsets([request])[group].result(_TIMEOUT_S)
        return {(partition.topic, partition.partition): partition.offset for partition in result.topic_partitions}

    def alter_group_offset(self, group, partition, offset):
        request = ck.ConsumerGroupTopicPartitions(group, [ck.TopicPartition(*partition, offset)])
        result = self._admin.alter_consumer_group_offsets([request])[group].result(_TIMEOUT_S)
        for topic_partition in result.topic_partitions:
            if topic_partition.error is not None:
                raise ck.KafkaException(topic_partition.error)

    def delete_group(self, group):
        self._admin.delete_consumer_groups([group])[group].result(_TIMEOUT_S)

    def broker_count(self):
        return len(self._admin.describe_cluster().result(_TIMEOUT_S).nodes)

    def close(self):
        pass


def _wait_for_all(futures: Mapping[str, Any]) -> None:
    failures = [error for future in futures.values() if (error := future.exception(_TIMEOUT_S))]
    if failures:
        raise failures[0]


class ConfluentClient(interface.Client):
    """confluent-kafka."""

    def version(self):
        return ck.__version__

    def producer(self, **settings):
        return ConfluentProducer(self.servers, settings)

    def consumer(self, **settings):
        return ConfluentConsumer(self.servers, settings)

    def admin(self):
        return ConfluentAdmin(self.servers)

    def kind(self, error):
        if isinstance(error, TimeoutError):
            return interface.TIMED_OUT
        if not isinstance(error, ck.KafkaException):
            is_refusal = isinstance(error, (TypeError, ValueError, RuntimeError, BufferError, AttributeError))
            return interface.REFUSED if is_refusal else type(error).__name__
        code = error.args[0].code()
        local = {
            ck.KafkaError._MSG_TIMED_OUT: interface.TIMED_OUT,
            ck.KafkaError._TIMED_OUT: interface.TIMED_OUT,
            ck.KafkaError._ALL_BROKERS_DOWN: interface.UNREACHABLE,
            ck.KafkaError._TRANSPORT: interface.UNREACHABLE,
            ck.KafkaError._BAD_MSG: interface.CORRUPT,
            ck.KafkaError._FENCED: interface.FENCED,
            ck.KafkaError._AUTO_OFFSET_RESET: interface.NO_OFFSET,
            ck.KafkaError._UNKNOWN_PARTITION: interface.CODES[3],
            ck.KafkaError._UNKNOWN_TOPIC: interface.CODES[3],
            ck.KafkaError._INVALID_ARG: interface.REFUSED,
            ck.KafkaError._STATE: interface.REFUSED,
            ck.KafkaError._CONFLICT: interface.REFUSED,
            ck.KafkaError._NOT_CONFIGURED: interface.REFUSED,
        }
        return local.get(code) or interface.CODES.get(code) or error.args[0].name()


def _listener(callback: Callback | None) -> Any:
    def call_back(_: Any, partitions: list[Any]) -> None:
        pairs: list[Partition] = sorted((partition.topic, partition.partition) for partition in partitions)
        callback(pairs)

    return call_back if callback else None


def _record(message: ck.Message) -> Record:
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        list(message.headers() or ()),
    )


CLIENT_CLASS = ConfluentClient
