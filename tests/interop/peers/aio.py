"""The adapter of aiokafka.

The clients run on an event loop in a thread; each call of the adapter waits for a coroutine.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiokafka
from aiokafka import errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from tests.interop.peers import interface
from tests.interop.peers.interface import Callback, CannotPerformError, PendingDelivery, Record, SentRecord

_TIMEOUT_S = 2 * interface.PATIENCE_S
_SETTING_NAMES = {"batch_size": "max_batch_size"}
_UNSUPPORTED_SETTINGS = {"delivery_timeout_ms", "max_block_ms"}
_CLIENT_ERRORS = (
    errors.IllegalStateError,
    errors.ConsumerStoppedError,
    errors.ProducerClosed,
    errors.IllegalOperation,
    errors.RecordTooLargeError,
    errors.UnsupportedVersionError,
)
_BUILTIN_ERRORS = (AssertionError, AttributeError, KeyError, TypeError, ValueError, RuntimeError)
_CALLBACKS = ThreadPoolExecutor(1)  # runs callbacks, because they may call this adapter, which waits for the loop
_LOOP = asyncio.new_event_loop()
_THREAD = threading.Thread(target=_LOOP.run_forever, daemon=True)
_THREAD.start()


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on the loop and return its result."""
    return asyncio.run_coroutine_threadsafe(asyncio.wait_for(coroutine, _TIMEOUT_S), _LOOP).result()


def _call(function: Any, *arguments: Any, **options: Any) -> Any:
    """Call a synchronous function of a client on the event loop, directly if the caller already runs there."""

    async def call() -> Any:
        return function(*arguments, **options)

    return function(*arguments, **options) if threading.current_thread() is _THREAD else _run(call())


def _translate(servers: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    if absent := _UNSUPPORTED_SETTINGS & set(settings):
        raise CannotPerformError(f"no setting {', '.join(sorted(absent))}")
    settings = {_SETTING_NAMES.get(name, name): value for name, value in settings.items()}
    if settings.get("compression_type") == "none":
        del settings["compression_type"]
    return {"bootstrap_servers": servers, "request_timeout_ms": 10_000, **settings}


def _partition(partition: tuple[str, int]) -> aiokafka.TopicPartition:
    return aiokafka.TopicPartition(*partition)


async def _start(create: Any, settings: dict[str, Any]) -> Any:
    client = create(**settings)
    try:
        await client.start()
    except BaseException:
        await (client.stop() if hasattr(client, "stop") else client.close())
        raise
    return client


class AiokafkaProducer(interface.Producer):
    def __init__(self, servers: str, settings: dict[str, Any]) -> None:
        self._producer = _run(_start(aiokafka.AIOKafkaProducer, _translate(servers, settings)))

    def send(self, topic, value=None, *, on_delivery=None, **fields):
        future = _run(self._producer.send(topic, value, **fields))
        if on_delivery:

            def call_back(future: asyncio.Future[Any]) -> None:
                error = future.exception()
                _CALLBACKS.submit(on_delivery, error, None if error else _to_sent(future.result()))

            _LOOP.call_soon_threadsafe(future.add_done_callback, call_back)

        async def wait() -> SentRecord:
            return _to_sent(await future)

        return PendingDelivery(lambda: _run(wait()), future.done)

    def flush(self):
        _run(self._producer.flush())

    def partitions_for(self, topic):
        return sorted(_run(self._producer.partitions_for(topic)))

    def begin(self):
        _run(self._producer.begin_transaction())

    def commit(self):
        _run(self._producer.commit_transaction())

    def abort(self):
        _run(self._producer.abort_transaction())

    def send_offsets(self, offsets, group):
        offsets_by_partition = {_partition(key): offset for key, offset in offsets.items()}
        _run(self._producer.send_offsets_to_transaction(offsets_by_partition, group))

    def close(self):
        _run(self._producer.stop())


def _to_sent(metadata: Any) -> SentRecord:
    if metadata is None:
        return SentRecord("", -1, -1, -1)
    return SentRecord(metadata.topic, metadata.partition, metadata.offset, metadata.timestamp)


class _AiokafkaListener(aiokafka.ConsumerRebalanceListener):
    """A listener that calls callbacks on the loop, so that they can call the client's synchronous functions."""

    def __init__(self, on_assign: Callback | None, on_revoke: Callback | None) -> None:
        self._on_assign, self._on_revoke = on_assign, on_revoke

    def on_partitions_assigned(self, partitions):
        if self._on_assign:
            self._on_assign(sorted(map(tuple, partitions)))

    def on_partitions_revoked(self, partitions):
        if self._on_revoke and partitions:
            self._on_revoke(sorted(map(tuple, partitions)))


class AiokafkaConsumer(interface.Consumer):
    def __init__(self, servers: str, settings: dict[str, Any]) -> None:
        if settings.get("group_protocol") == "consumer":
            raise CannotPerformError("no KIP-848 protocol")
        self._consumer = _run(_start(aiokafka.AIOKafkaConsumer, _translate(servers, settings)))

    def assign(self, partitions):
        if isinstance(partitions, Mapping):
            raise CannotPerformError("assign() takes no offsets; seek() after it")
        _call(self._consumer.assign, list(map(_partition, partitions)))

    def subscribe(self, topics=None, *, pattern=None, on_assign=None, on_revoke=None):
        listener = _AiokafkaListener(on_assign, on_revoke) if on_assign or on_revoke else None
        _call(self._consumer.subscribe, topics=topics or (), pattern=pattern, listener=listener)

    def unsubscribe(self):
        _call(self._consumer.unsubscribe)

    def poll(self, timeout_s=interface.POLL_S, max_records=None):
        batches = _run(self._consumer.getmany(timeout_ms=round(timeout_s * 1000), max_records=max_records))
        return [Record.of(record) for records in batches.values() for record in records]

    def iterate(self) -> Iterator[Record]:
        while True:
            yield Record.of(_run(self._consumer.getone()))

    def assignment(self):
        return sorted(map(tuple, self._consumer.assignment()))

    def seek(self, partition, offset):
        _call(self._consumer.seek, _partition(partition), offset)

    def seek_to_beginning(self, partition):
        _run(self._consumer.seek_to_beginning(_partition(partition)))

    def seek_to_end(self, partition):
        _run(self._consumer.seek_to_end(_partition(partition)))

    def position(self, partition):
        return _run(self._consumer.position(_partition(partition)))

    def pause(self, partition):
        _call(self._consumer.pause, _partition(partition))

    def resume(self, partition):
        _call(self._consumer.resume, _partition(partition))

    def commit(self, offsets=None):
        if offsets is not None:
            offsets = {_partition(key): value for key, value in offsets.items()}
        _run(self._consumer.commit(offsets))

    def committed_offset(self, partition):
        """Return the offset; aiokafka drops the metadata."""
        offset = _run(self._consumer.committed(_partition(partition)))
        return None if offset is None else (offset, "")

    def beginning_offset(self, partition):
        return _run(self._consumer.beginning_offsets([_partition(partition)]))[_partition(partition)]

    def end_offset(self, partition):
        return _run(self._consumer.end_offsets([_partition(partition)]))[_partition(partition)]

    def offset_for_time(self, partition, time_ms):
        answer = _run(self._consumer.offsets_for_times({_partition(partition): time_ms}))[_partition(partition)]
        return None if answer is None else answer.offset

    def topics(self):
        return sorted(_run(self._consumer.topics()))

    def partitions_for(self, topic):
        partitions = self._consumer.partitions_for_topic(topic)
        return None if partitions is None else sorted(partitions)

    def close(self):
        _run(self._consumer.stop())


class AiokafkaAdmin(interface.Admin):
    def __init__(self, servers: str) -> None:
        self._admin = _run(_start(AIOKafkaAdminClient, {"bootstrap_servers": servers}))

    def create_topic(self, name, partitions=1, *, replicas=1, configs=None, validate_only=False):
        topic = NewTopic(name, partitions, replicas, topic_configs=dict(configs or {}))
        answer = _run(self._admin.create_topics([topic], validate_only=validate_only))
        _raise_first([error[1] for error in answer.topic_errors])

    def create_topics(self, names):
        answer = _run(self._admin.create_topics([NewTopic(name, 1, 1) for name in names]))
        _raise_first([error[1] for error in answer.topic_errors])

    def delete_topics(self, names):
        answer = _run(self._admin.delete_topics(list(names)))
        _raise_first([error[1] for error in answer.topic_error_codes])

    def list_topics(self):
        return _run(self._admin.list_topics())

    def partition_count(self, topic):
        return len(_run(self._admin.describe_topics([topic]))[0]["partitions"])

    def create_partitions(self, topic, count):
        answer = _run(self._admin.create_partitions({topic: NewPartitions(count)}))
        _raise_first([error[1] for error in answer.topic_errors])

    def config(self, topic, name):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: None})
        (answer,) = _run(self._admin.describe_configs([resource]))
        ((*_, entries),) = answer.resources
        return next(entry[1] for entry in entries if entry[0] == name)

    def alter_config(self, topic, name, value):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        (answer,) = _run(self._admin.alter_configs([resource]))
        _raise_first([resource[0] for resource in answer.resources])

    def delete_records(self, partition, before):
        answer = _run(self._admin.delete_records({_partition(partition): RecordsToDelete(before)}))
        return answer[_partition(partition)]

    def groups(self):
        return [group[0] for group in _run(self._admin.list_consumer_groups())]

    def group_state(self, group):
        (answer,) = _run(self._admin.describe_consumer_groups([group]))
        description = answer.to_object()["groups"][0]
        return description["state"], len(description["members"])

    def group_offsets(self, group):
        answer = _run(self._admin.list_consumer_group_offsets(group))
        return {tuple(key): entry.offset for key, entry in answer.items()}

    def alter_group_offset(self, group, partition, offset):
        raise CannotPerformError("the admin client has no such call")

    def delete_group(self, group):
        raise CannotPerformError("the admin client has no such call")

    def broker_count(self):
        return len(_run(self._admin.describe_cluster())["brokers"])

    def close(self):
        _run(self._admin.close())


def _raise_first(codes: list[int]) -> None:
    failures = [code for code in codes if code]
    if failures:
        raise errors.for_code(failures[0])


class AiokafkaClient(interface.Client):
    """aiokafka."""

    def version(self):
        return aiokafka.__version__

    def producer(self, **settings):
        return AiokafkaProducer(self.servers, settings)

    def consumer(self, **settings):
        return AiokafkaConsumer(self.servers, settings)

    def admin(self):
        return AiokafkaAdmin(self.servers)

    def kind(self, error):
        if isinstance(error, (errors.KafkaTimeoutError, TimeoutError, asyncio.TimeoutError)):
            return interface.TIMED_OUT
        if isinstance(error, errors.ProducerFenced):
            return interface.FENCED
        if isinstance(error, errors.KafkaConnectionError):
            return interface.UNREACHABLE
        if isinstance(error, errors.NoOffsetForPartitionError):
            return interface.NO_OFFSET
        if isinstance(error, errors.OffsetOutOfRangeError):
            return interface.CODES[1]
        if isinstance(error, _CLIENT_ERRORS) or not isinstance(error, errors.KafkaError):
            return interface.REFUSED if isinstance(error, (*_CLIENT_ERRORS, *_BUILTIN_ERRORS)) else type(error).__name__
        return interface.CODES.get(getattr(error, "errno", None), type(error).__name__)


CLIENT_CLASS = AiokafkaClient
