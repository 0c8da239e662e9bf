"""The synchronous producer, consumer and admin client.

Each client runs its asyncio twin on an event loop in another thread.

Methods have the same arguments, results and errors as those of the twin. Methods that only wait for the twin are
generated from the twin, with their docstrings (``tools/twin_methods.py`` does this for the documentation).
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Self, Unpack

import pyarrow as pa

from kafkaframes.client.admin import AsyncAdmin
from kafkaframes.client.batches import ProducerIdentity
from kafkaframes.client.consumer import AsyncConsumer, Listener
from kafkaframes.client.fetched_batches import ConsumerRecord
from kafkaframes.client.group_offsets import GroupMember
from kafkaframes.client.interceptors import Interceptors
from kafkaframes.client.loop import (
    CLOSE_GRACE_S,
    CLOSE_TIMEOUT_MS,
    CallbackThread,
    LoopThread,
    call_in_waiting_thread,
    run_in_thread,
)
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.producer import AsyncProducer, PartitionRefusedError
from kafkaframes.client.producer_records import CheckedRecord, Headers, check_record
from kafkaframes.client.record_futures import OnDelivery, RecordFuture, ThreadResults
from kafkaframes.client.sync_methods import (
    Arguments,
    Result,
    SyncClient,
    documented_as,
    sync_method,
    sync_method_on_loop,
)
from kafkaframes.errors import OptionError
from kafkaframes.errors.missing_names import reject_attributes

if TYPE_CHECKING:
    from kafkaframes.client.options import ClientOptions, ConsumerOptions, ProducerOptions, Servers


def _make_exclusive_method(
    method: Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Consumer, Arguments], Result]:
    """Return a method as ``sync_method`` does, but reject calls while another thread is in such a method."""
    name = method.__name__

    @wraps(method)
    def call_exclusively(self: Consumer, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        with self._reject_concurrent_reads(name):
            result: Result = self._loop.call(getattr(self._twin, name)(*arguments, **options))
            return result

    return call_exclusively


# Methods of confluent-kafka's and kafka-python's producers and consumers.
_PRODUCER_HINTS: Final = {
    "produce": "send(TOPIC, VALUE, key=KEY) sends a record",
    "poll": "records and callbacks need no poll(); flush() waits for all records",
    "init_transactions": "begin_transaction() initializes the producer",
    "list_topics": "Admin.list_topics() lists topics",
    "bootstrap_connected": "`with` connects the producer",
}
_CONSUMER_HINTS: Final = {
    "consume getmany getone": "poll(MILLISECONDS) returns a list of records",
    "list_topics": "topics() lists topics",
    "get_watermark_offsets highwater": "beginning_offsets() and end_offsets() return the offsets",
    "store_offsets": "commit() commits the position of records that poll() has returned",
}


class Producer(SyncClient):
    """Writes records to topics.

    ``with Producer("localhost:9092") as producer: ...``

    Any thread may use the producer. ``AsyncProducer`` is the corresponding asyncio client.
    """

    if not TYPE_CHECKING:  # type checkers would accept every attribute
        __getattr__ = reject_attributes(_PRODUCER_HINTS)

    def __init__(self, bootstrap_servers: Servers | None = None, **options: Unpack[ProducerOptions]) -> None:
        """Create a producer. The producer connects when the first record is sent, or on entering a ``with`` block.

        Args:
            bootstrap_servers: ``host:port``; several separated by commas or in a list; or a dict of properties such as
                ``{"bootstrap.servers": ..., "client.id": ...}``.
            options: settings (``ProducerOptions``), which override properties in ``bootstrap_servers``.

        Raises:
            OptionError: a setting is unknown, invalid or not supported.
        """
        self._twin: AsyncProducer = AsyncProducer(bootstrap_servers, **options)
        self._accumulator = self._twin._accumulator
        self._callbacks = CallbackThread(f"{self._name} on_delivery")
        self._accumulator.results = partial(ThreadResults, callbacks=self._callbacks)
        self._chooses_partitions = self._twin._partitioner.function is not None
        self._interceptors = self._twin._interceptors
        self._largest = self._twin.settings.max_request_size
        closing = partial(_close_producer, self._twin, self._callbacks)
        self._loop = LoopThread(self._name, closing=closing, on_fork=self._accumulator.reset_after_fork)
        self._accumulator.wake = partial(self._loop.call_soon, self._accumulator.wake)
        # Does not refer to `self`, so that a producer without references is closed at once, before garbage collection.
        callbacks = self._callbacks
        self._accumulator.is_in_callback = lambda: callbacks.is_current
        self._twin._call_on_loop = self._loop.call_soon

    def __enter__(self) -> Self:
        try:
            self._loop.call(self._twin.start())
        except BaseException:
            self.close(flush=False)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(flush=kind is None)

    def close(self, *, flush: bool = True, timeout_ms: int | None = None) -> None:
        """Send the queued records, call their ``on_delivery``, and close the connections.

        Args:
            flush: whether queued records are sent, including those that ``on_delivery`` sends; False drops them.
            timeout_ms: longest wait, in milliseconds; the remaining records then fail. None waits for all records.

        Raises:
            OptionError: the method was called in an ``on_delivery``.
        """
        self._check_callback("close()")
        self._loop.end_loop(partial(_close_producer, self._twin, self._callbacks, flush=flush, timeout_ms=timeout_ms))

    def check_wait(self, method: str) -> None:
        """Check that a call may wait for this producer.

        Args:
            method: name of the call, for the error.

        Raises:
            OptionError: the caller is a child process, or an ``on_delivery``.
        """
        self._check_callback(method)
        self._loop.check_can_wait()

    def _check_callback(self, method: str) -> None:
        """Reject a call from within an ``on_delivery``."""
        if self._callbacks.is_current:
            raise OptionError(
                f"{method} was called in an `on_delivery` of {self._name}; only `send` may be called there"
            )

    def flush(self) -> None:
        """Wait until every queued record has succeeded or failed, and its ``on_delivery`` has returned.

        Raises:
            OptionError: the method was called in an ``on_delivery``.
        """
        self._check_callback("flush()")
        self._loop.call(self._twin.flush())
        self._callbacks.wait()

    def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """Queue a record, and return a ``concurrent.futures.Future`` of its ``RecordMetadata``.

        Any thread may call this method. The call waits only while ``buffer_memory`` is full or the topic's metadata is
        unknown, for at most ``max_block_ms``. A record uses memory until its ``on_delivery`` has returned. The future
        fails with ``MaybeWrittenError`` if it is unknown whether the record was written, and with another error if it
        was not.

        Args:
            topic: topic name.
            value: bytes or text; None is a tombstone.
            key: bytes or text, which chooses the partition; None chooses the sticky partition.
            headers: dict or pairs of a name and bytes, text or None.
            partition: partition number; None lets ``partitioner`` choose.
            timestamp_ms: milliseconds since 1970; None uses the current time.
            on_delivery: called with the error (or None) and a ``RecordMetadata`` (or None), in a thread of the client.
                An ``on_delivery`` may call ``send``; ``result``, ``flush`` and ``close`` raise an error.

        Raises:
            BrokerError: the topic or the partition does not exist.
            EncodeError: an argument has a wrong type, or the record is larger than ``max_request_size``.
            NetworkError: the call has waited for ``max_block_ms``, or the producer was closed.
        """
        record = check_record(topic, value, key, headers, partition, timestamp_ms, self._largest)
        if self._interceptors is None:
            return self._send(record, on_delivery)
        record, acknowledgement = self._twin._intercept_record(self._interceptors, record, timestamp_ms, on_delivery)
        try:
            return self._send(record, acknowledgement)
        except BaseException as error:
            acknowledgement.acknowledge(error)
            raise

    def _send(self, record: CheckedRecord, on_delivery: OnDelivery | None) -> RecordFuture:
        topic = record[0]
        if record[4] is None and self._chooses_partitions:
            while (partitioned_record := self._accumulator.choose_partition(record)) is None:  # in the caller's thread
                self._loop.call(self._twin._load_topic_in_time(topic))
            record = partitioned_record
        while (future := self._accumulator.add(record, self, on_delivery)) is None:
            try:
                self._loop.call(self._twin._prepare_send(record, is_in_callback=self._callbacks.is_current))
            except PartitionRefusedError as error:
                results = ThreadResults(TopicPartition(topic, -1), [], self._callbacks)
                future = results.create_future(self, on_delivery)
                results.set_error(error.reason)
                break
        record_future: RecordFuture = future
        return record_future

    @documented_as(AsyncProducer.send_arrow)
    def send_arrow(self, table: pa.Table | pa.RecordBatch, *, topic: str | None = None) -> pa.Table:
        """Write a table's rows. Interceptors are called in the caller's thread."""
        if self._interceptors is None:
            return self._loop.call(self._twin._send_table(table, topic))
        table = self._twin._intercept_table(self._interceptors, table, topic)
        try:
            result = self._loop.call(self._twin._send_table(table, topic))
        except BaseException as error:
            self._interceptors.on_acknowledgement_table(None, error)
            raise
        self._interceptors.on_acknowledgement_table(result, None)
        return result

    def queue_arrow(self, table: pa.Table | pa.RecordBatch, *, topic: str | None = None) -> Future[pa.Table]:
        """Queue a table's rows after those of earlier calls, and return a future of the result of ``send_arrow``.

        The table stays in memory until the future is done. ``flush``, ``close`` and the end of a transaction wait for
        the table.

        Args:
            table: rows, as for ``send_arrow``.
            topic: topic of all rows; None if the table has a column ``topic``.
        """
        if self._interceptors is None:
            return self._loop.start_call(self._twin._send_table(table, topic))
        table = self._twin._intercept_table(self._interceptors, table, topic)
        try:
            future = self._loop.start_call(self._twin._send_table(table, topic))
        except BaseException as error:
            self._interceptors.on_acknowledgement_table(None, error)
            raise
        future.add_done_callback(partial(self._acknowledge_table, self._interceptors))
        return future

    def _acknowledge_table(self, interceptors: Interceptors, future: Future[pa.Table]) -> None:
        """Report the result of ``queue_arrow`` to interceptors, in the thread of ``on_delivery``."""
        error = CancelledError() if future.cancelled() else future.exception()
        result = None if error is not None else future.result()
        self._callbacks.submit(partial(interceptors.on_acknowledgement_table, result, error))

    send_batches = sync_method(AsyncProducer.send_batches)
    partitions_for = sync_method(AsyncProducer.partitions_for)
    topic_id = sync_method(AsyncProducer.topic_id)
    metrics = sync_method_on_loop(AsyncProducer.metrics)
    client_instance_id = sync_method(AsyncProducer.client_instance_id)

    @property
    def identity(self) -> ProducerIdentity:
        """The producer id and epoch; -1 if the producer has none."""
        return self._twin.identity

    begin_transaction = sync_method(AsyncProducer.begin_transaction)
    commit_transaction = sync_method(AsyncProducer.commit_transaction)
    abort_transaction = sync_method(AsyncProducer.abort_transaction)
    send_offsets_to_transaction = sync_method(AsyncProducer.send_offsets_to_transaction)


async def _close_producer(
    twin: AsyncProducer, callbacks: CallbackThread, *, flush: bool = True, timeout_ms: int | None = None
) -> None:
    """Close a producer after all calls of ``on_delivery``, also for records that an ``on_delivery`` has sent."""
    async with _limit_time(timeout_ms):
        for _ in range(2 if flush else 0):
            await twin.flush()
            await run_in_thread(callbacks.wait)
    await twin.close(flush=False)
    await run_in_thread(partial(callbacks.wait, None if timeout_ms is None else timeout_ms / 1000))


@contextlib.asynccontextmanager
async def _limit_time(timeout_ms: int | None) -> AsyncIterator[None]:
    """Cancel the block after ``timeout_ms``, and continue after the block without an error."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            yield


async def _call_listener(listener: Listener, partitions: Collection[TopicPartition]) -> None:
    """Call ``on_assign`` or ``on_revoke`` in the polling thread.

    The callback may call the consumer, for example ``seek``.
    """
    answer = await call_in_waiting_thread(partial(listener, partitions))
    if inspect.isawaitable(answer):
        await answer


class Consumer(SyncClient):
    """Reads records of topics.

    ``with Consumer("localhost:9092") as consumer: ...``

    Only one thread at a time may read. ``AsyncConsumer`` is the corresponding asyncio client.
    """

    if not TYPE_CHECKING:  # type checkers would accept every attribute
        __getattr__ = reject_attributes(_CONSUMER_HINTS)

    def __init__(self, bootstrap_servers: Servers | None = None, **options: Unpack[ConsumerOptions]) -> None:
        """Create a consumer. The consumer connects in ``assign`` or ``subscribe``.

        Args:
            bootstrap_servers: ``host:port``; several separated by commas or in a list; or a dict of properties.
            options: settings (``ConsumerOptions``), which override properties in ``bootstrap_servers``.

        Raises:
            OptionError: a setting is unknown, invalid or not supported.
        """
        self._twin: AsyncConsumer = AsyncConsumer(bootstrap_servers, **options)
        self._twin._call_listener = _call_listener
        self._twin._call_interceptors = call_in_waiting_thread
        self._loop = LoopThread(self._name, closing=partial(self._twin.close, commit=False))
        self._reader = threading.Lock()

    @contextlib.contextmanager
    def _reject_concurrent_reads(self, method: str) -> Iterator[None]:
        """Reject reads of other threads.

        Raises:
            OptionError: another thread is reading from the consumer.
        """
        self._loop.check_can_wait()
        if not self._reader.acquire(blocking=False):
            reason = f"{method} of {self._name} was called while another thread reads"
            raise OptionError(f"{reason}; use a consumer from one thread at a time, or one in each thread")
        try:
            yield
        finally:
            self._reader.release()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(commit=kind is None)

    def close(self, *, commit: bool = True, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit (only with automatic commits), call ``on_revoke``, leave the group and close the connections.

        Args:
            commit: whether an automatic commit is done.
            timeout_ms: longest wait for the brokers, in milliseconds. If the brokers do not respond in this time, the
                session timeout ends the membership.
        """
        closing = partial(self._twin.close, commit=commit, timeout_ms=timeout_ms)
        self._loop.end_loop(closing, timeout_s=timeout_ms / 1000 + CLOSE_GRACE_S)

    assign = sync_method(AsyncConsumer.assign)

    subscribe = sync_method(AsyncConsumer.subscribe)
    unsubscribe = sync_method(AsyncConsumer.unsubscribe)

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions."""
        return self._twin.assignment()

    seek = sync_method_on_loop(AsyncConsumer.seek)
    seek_to_beginning = sync_method(AsyncConsumer.seek_to_beginning)
    seek_to_end = sync_method(AsyncConsumer.seek_to_end)
    position = sync_method_on_loop(AsyncConsumer.position)
    pause = sync_method_on_loop(AsyncConsumer.pause)
    resume = sync_method_on_loop(AsyncConsumer.resume)
    partitions_for = sync_method(AsyncConsumer.partitions_for)
    topics = sync_method(AsyncConsumer.topics)
    topic_ids = sync_method(AsyncConsumer.topic_ids)
    current_topic_id = sync_method(AsyncConsumer.current_topic_id)
    offsets_for_times = sync_method(AsyncConsumer.offsets_for_times)
    beginning_offsets = sync_method(AsyncConsumer.beginning_offsets)
    end_offsets = sync_method(AsyncConsumer.end_offsets)
    skip_gap = sync_method(AsyncConsumer.skip_gap)
    fetch = _make_exclusive_method(AsyncConsumer.fetch)
    fetch_arrow = _make_exclusive_method(AsyncConsumer.fetch_arrow)  # interceptors are called in the caller's thread
    poll = _make_exclusive_method(AsyncConsumer.poll)
    commit = sync_method(AsyncConsumer.commit)
    committed = sync_method(AsyncConsumer.committed)
    metrics = sync_method_on_loop(AsyncConsumer.metrics)
    client_instance_id = sync_method(AsyncConsumer.client_instance_id)

    def group_metadata(self) -> GroupMember:
        """Return the identity of this consumer for ``Producer.send_offsets_to_transaction`` (KIP-447).

        Raises:
            OptionError: the consumer has no ``group_id``.
        """
        return self._twin.group_metadata()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            with self._reject_concurrent_reads("iteration"):
                records = self._loop.call(self._twin._next_iterator())
            if self._twin._interceptors is None:
                yield from records
            else:
                for record in records:
                    yield from self._twin._interceptors.on_consume([record])


class Admin(SyncClient):
    """Administers a cluster.

    ``with Admin("localhost:9092") as admin: ...``

    Any thread may use the client. ``AsyncAdmin`` is the corresponding asyncio client. If some of a method's items fail,
    the other items take effect, and the method raises ``PartialFailureError`` with the result of each item.
    """

    def __init__(self, bootstrap_servers: Servers | None = None, **options: Unpack[ClientOptions]) -> None:
        """Create a client. The client connects when the first method is called.

        Args:
            bootstrap_servers: ``host:port``; several separated by commas or in a list; or a dict of properties.
            options: settings (``ClientOptions``), which override properties in ``bootstrap_servers``.

        Raises:
            OptionError: a setting is unknown, invalid or not supported.
        """
        self._twin: AsyncAdmin = AsyncAdmin(bootstrap_servers, **options)
        self._loop = LoopThread(self._name, closing=self._twin.close)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, *, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Close the connections. Requests in flight fail.

        Args:
            timeout_ms: longest duration, in milliseconds. The call waits for a broker only to push metrics a last time,
                for at most one second.
        """
        self._loop.end_loop(partial(self._twin.close, timeout_ms=timeout_ms), timeout_s=timeout_ms / 1000)

    metrics = sync_method_on_loop(AsyncAdmin.metrics)
    client_instance_id = sync_method(AsyncAdmin.client_instance_id)
    describe_cluster = sync_method(AsyncAdmin.describe_cluster)
    list_topics = sync_method(AsyncAdmin.list_topics)
    describe_topics = sync_method(AsyncAdmin.describe_topics)
    create_topics = sync_method(AsyncAdmin.create_topics)
    delete_topics = sync_method(AsyncAdmin.delete_topics)
    create_partitions = sync_method(AsyncAdmin.create_partitions)
    delete_records = sync_method(AsyncAdmin.delete_records)
    list_offsets = sync_method(AsyncAdmin.list_offsets)
    describe_configs = sync_method(AsyncAdmin.describe_configs)
    alter_configs = sync_method(AsyncAdmin.alter_configs)
    list_groups = sync_method(AsyncAdmin.list_groups)
    describe_group = sync_method(AsyncAdmin.describe_group)
    delete_groups = sync_method(AsyncAdmin.delete_groups)
    group_offsets = sync_method(AsyncAdmin.group_offsets)
    alter_group_offsets = sync_method(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = sync_method(AsyncAdmin.delete_group_offsets)
    create_delegation_token = sync_method(AsyncAdmin.create_delegation_token)
    renew_delegation_token = sync_method(AsyncAdmin.renew_delegation_token)
    expire_delegation_token = sync_method(AsyncAdmin.expire_delegation_token)
    describe_delegation_token = sync_method(AsyncAdmin.describe_delegation_token)
    describe_acls = sync_method(AsyncAdmin.describe_acls)
    create_acls = sync_method(AsyncAdmin.create_acls)
    delete_acls = sync_method(AsyncAdmin.delete_acls)
    authorized_operations = sync_method(AsyncAdmin.authorized_operations)
    describe_user_scram_credentials = sync_method(AsyncAdmin.describe_user_scram_credentials)
    alter_user_scram_credentials = sync_method(AsyncAdmin.alter_user_scram_credentials)
    describe_client_quotas = sync_method(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = sync_method(AsyncAdmin.alter_client_quotas)
    elect_leaders = sync_method(AsyncAdmin.elect_leaders)
    alter_partition_reassignments = sync_method(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = sync_method(AsyncAdmin.list_partition_reassignments)
    describe_log_dirs = sync_method(AsyncAdmin.describe_log_dirs)
    describe_replica_log_dirs = sync_method(AsyncAdmin.describe_replica_log_dirs)
    alter_replica_log_dirs = sync_method(AsyncAdmin.alter_replica_log_dirs)
    list_brokers = sync_method(AsyncAdmin.list_brokers)
    unregister_broker = sync_method(AsyncAdmin.unregister_broker)
    describe_features = sync_method(AsyncAdmin.describe_features)
    update_features = sync_method(AsyncAdmin.update_features)
    describe_quorum = sync_method(AsyncAdmin.describe_quorum)
    add_raft_voter = sync_method(AsyncAdmin.add_raft_voter)
    remove_raft_voter = sync_method(AsyncAdmin.remove_raft_voter)
    list_config_resources = sync_method(AsyncAdmin.list_config_resources)
    list_transactions = sync_method(AsyncAdmin.list_transactions)
    describe_transactions = sync_method(AsyncAdmin.describe_transactions)
    describe_producers = sync_method(AsyncAdmin.describe_producers)
    abort_transaction = sync_method(AsyncAdmin.abort_transaction)
    force_terminate_transaction = sync_method(AsyncAdmin.force_terminate_transaction)
    fence_producers = sync_method(AsyncAdmin.fence_producers)
    remove_group_members = sync_method(AsyncAdmin.remove_group_members)
    describe_share_group = sync_method(AsyncAdmin.describe_share_group)
    describe_streams_group = sync_method(AsyncAdmin.describe_streams_group)
    share_group_offsets = sync_method(AsyncAdmin.share_group_offsets)
    alter_share_group_offsets = sync_method(AsyncAdmin.alter_share_group_offsets)
    delete_share_group_offsets = sync_method(AsyncAdmin.delete_share_group_offsets)
