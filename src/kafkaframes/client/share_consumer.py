"""The asyncio share consumer. Members of a share group acquire and acknowledge individual records (KIP-932).

All members share the partitions. A broker locks a record when it delivers it to a member. If the member does not
acknowledge the record before the lock expires, the broker delivers it to another member.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

import numpy as np
import pyarrow as pa

from kafkaframes.client.cluster import GROUP, Channel, ClusterClient, is_retriable
from kafkaframes.client.fetched import Fetched, Records, placed, schema_of
from kafkaframes.client.loop import background, cancelled, waited
from kafkaframes.client.metadata import Broker, TopicPartition
from kafkaframes.client.metrics import MetricName, seconds_since
from kafkaframes.client.response_rows import missing_row_error, require_success
from kafkaframes.client.settings import ShareConsumerSettings, merged
from kafkaframes.client.share_session import (
    ACKNOWLEDGEMENTS,
    FINAL_EPOCH,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    SESSION_LOST,
    PartitionId,
    ShareSession,
    to_batches,
)
from kafkaframes.errors import (
    LEADER_MOVED,
    BrokerError,
    CorruptRecordError,
    ErrorCode,
    KafkaframesError,
    NetworkError,
    OptionError,
    broker_error,
)
from kafkaframes.records.arrays import int64_values
from kafkaframes.records.columns import DEFAULT_COLUMNS

if TYPE_CHECKING:
    from kafkaframes.client.options import Servers, ShareConsumerOptions

AcknowledgementListener = Callable[[Mapping[TopicPartition, Sequence[int]], "BrokerError | NetworkError | None"], Any]
SHARE_COLUMNS: Final = ("topic", "partition", *DEFAULT_COLUMNS, "delivery_count")  # default columns of ``fetch_arrow``
_DELIVERY_COUNT: Final = "delivery_count"
_JOIN_EPOCH, _LEAVE_EPOCH = 0, -1  # special member epochs
_FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
_RENEWAL_VERSION: Final = 2  # first version of ShareFetch and ShareAcknowledge with renewals and the acquire mode
_ACQUIRE_MODES: Final = {"batch_optimized": 0, "record_limit": 1}
_CLOSE_GRACE_S: Final = 2.0  # when the consumer closes, in-flight fetches have fetch_max_wait_ms and this to finish
_LOG: Final = logging.getLogger("kafkaframes.client")


class ShareRecord(NamedTuple):
    """A record of a share group.

    Attributes:
        topic: topic name.
        partition: partition number.
        offset: offset of the record.
        timestamp: milliseconds since 1970; -1 if the record has no timestamp.
        key: key as bytes; None if the record has no key.
        value: value as bytes; None is a tombstone.
        headers: pairs of a name and bytes, or None for a header without a value.
        delivery_count: number of deliveries of the record, including this one.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    delivery_count: int


class _AcquiredBatch(NamedTuple):
    """Records that a node has delivered to this member.

    Attributes:
        deliveries: delivery counts, by offset.
    """

    partition: TopicPartition
    partition_id: PartitionId
    node: Broker
    deliveries: dict[int, int]
    batch: pa.RecordBatch


class _RecordLock(NamedTuple):
    """The node and the partition id at which the lock of a record is held."""

    node: Broker
    partition_id: PartitionId


class AsyncShareConsumer:
    """Reads records of a share group: ``async with AsyncShareConsumer(servers, group_id="g") as consumer: ...``

    With ``share_acknowledgement_mode="implicit"``, the default, each ``poll``, ``fetch_arrow`` and ``commit`` accepts
    the records of the previous poll that the caller has not acknowledged. With ``"explicit"``, the caller acknowledges
    every record.

    A background task sends heartbeats. ``close`` releases the records that are not acknowledged, and brokers deliver
    them to other members.
    """

    def __init__(self, bootstrap_servers: Servers | None = None, **options: Unpack[ShareConsumerOptions]) -> None:
        """Create a consumer. It connects in ``subscribe``.

        Args:
            bootstrap_servers: ``host:port``; several separated by commas or in a list; or a dict of properties.
            options: settings (``ShareConsumerOptions``), which override those of a dict.

        Raises:
            OptionError: a setting is unknown, invalid or not supported.
        """
        self.settings = ShareConsumerSettings.of(merged(bootstrap_servers, options))
        self._cluster = ClusterClient(self.settings)
        self._member_id = str(uuid.uuid4())
        self._member_epoch = _JOIN_EPOCH
        self._topics: tuple[str, ...] = ()
        self._sent_topics: tuple[str, ...] | None = None
        self._assignment: dict[PartitionId, TopicPartition] = {}
        self._assigned_partition_ids: list[PartitionId] = []  # includes topics whose names are not resolved yet
        self._sessions: dict[int, ShareSession] = {}
        self._locks: dict[int, asyncio.Lock] = {}  # serialize the requests of a session
        self._nodes: dict[int, Broker] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}
        self._acquired_batches: list[_AcquiredBatch] = []
        self._locks_by_record: dict[tuple[str, int, int], _RecordLock] = {}  # by (topic, partition, offset)
        metrics = self._cluster.metrics
        self._fetching = metrics.sensors("fetch-manager-metrics")
        self._heartbeat_at: float | None = None
        metrics.add_gauge("last-heartbeat-seconds-ago", lambda: seconds_since(self._heartbeat_at))
        metrics.add_gauge("assigned-partitions", lambda: len(self._assignment))
        self._wake_up = asyncio.Event()
        self._heartbeat_due = asyncio.Event()
        self._heartbeats: asyncio.Task[None] | None = None
        self._pending_errors: list[Exception] = []
        self._results: list[tuple[dict[TopicPartition, list[int]], BrokerError | NetworkError | None]] = []
        self._on_acknowledge: AcknowledgementListener | None = None
        self.acquisition_lock_timeout_ms: int | None = None
        """The lock duration of a record, as brokers last reported it; None before the first fetch."""

    async def __aenter__(self) -> AsyncShareConsumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Send pending acknowledgements, release the other records, leave the group and close the connections."""
        try:
            await self.unsubscribe()
        finally:
            await self._cluster.close()

    # -------------------------------------------------------------------------------------------------- membership

    async def subscribe(
        self, topics: str | Iterable[str], *, on_acknowledge: AcknowledgementListener | None = None
    ) -> None:
        """Join the share group ``group_id`` and subscribe to these topics only.

        Args:
            topics: topic names. The consumer starts to read a topic that does not exist when it is created.
            on_acknowledge: called in ``poll``, ``fetch_arrow``, ``commit`` and ``close``. Its arguments are the offsets
                of acknowledged records by partition, and the error if the broker rejected the acknowledgements, else
                None.

        Raises:
            OptionError: ``topics`` is empty.
            NetworkError: no broker can be reached within ``default_api_timeout_ms``.
            BrokerError: a broker rejects the client.
        """
        names = tuple(sorted({topics} if isinstance(topics, str) else set(topics)))
        if not names:
            raise OptionError("subscribe needs a topic; unsubscribe ends the subscription")
        if self._cluster.cluster.updated_at is None:
            await self._cluster.retried(lambda: self._cluster.refresh(names))
        self._topics, self._on_acknowledge = names, on_acknowledge
        self._heartbeat_due.set()
        if self._heartbeats is None:
            self._heartbeats = background(self._send_heartbeats())

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that this consumer has subscribed to."""
        return frozenset(self._topics)

    def metrics(self) -> dict[MetricName, float]:
        """Return the consumer's metrics under Java's names: connections, fetches, acknowledgements, the group."""
        return self._cluster.metrics.values()

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that the coordinator has assigned to this member, sorted."""
        return sorted(self._assignment.values())

    async def unsubscribe(self) -> None:
        """Send pending acknowledgements, release the other records and leave the group."""
        await cancelled(self._heartbeats)
        self._heartbeats, is_member = None, self._member_epoch > 0
        if self._fetches:  # they carry acknowledgements; nodes respond within fetch_max_wait_ms
            await asyncio.wait(
                list(self._fetches.values()), timeout=self.settings.fetch_max_wait_ms / 1000 + _CLOSE_GRACE_S
            )
            await cancelled(*self._fetches.values())
        try:
            await asyncio.gather(*(self._end_session(node_id) for node_id in list(self._sessions)))
            if is_member:
                with contextlib.suppress(KafkaframesError):
                    await self._heartbeat(_LEAVE_EPOCH)
        finally:
            self._sessions.clear()
            self._acquired_batches.clear()
            self._locks_by_record.clear()
            self._assignment, self._assigned_partition_ids = {}, []
            self._member_epoch, self._sent_topics, self._topics = _JOIN_EPOCH, None, ()
            self._report_results()

    async def _send_heartbeats(self) -> None:
        """Send heartbeats until the task is cancelled. The next poll raises the errors that are not retriable."""
        failures = 0
        while True:
            self._heartbeat_due.clear()
            try:
                interval_s = await self._heartbeat(self._member_epoch)
                failures = 0
            except (BrokerError, NetworkError) as error:
                interval_s = self._cluster.backoff_s(failures)
                failures += 1
                self._handle_heartbeat_error(error)
            except Exception as error:  # a bug in this client: the next poll raises it
                self._pending_errors.append(error)
                self._wake_up.set()
                return
            await waited(self._heartbeat_due, interval_s)

    def _handle_heartbeat_error(self, error: BrokerError | NetworkError) -> None:
        self._sent_topics = None  # it is unknown whether the coordinator has received them
        if isinstance(error, BrokerError) and error.code in _FENCED:
            self._member_epoch = _JOIN_EPOCH
            self._assignment, self._assigned_partition_ids = {}, []
            self._heartbeat_due.set()
        elif not is_retriable(error):
            self._pending_errors.append(error)
            self._wake_up.set()

    async def _heartbeat(self, epoch: int) -> float:
        """Send one heartbeat, and return the interval until the next one, in seconds."""
        settings, topics = self.settings, self._topics
        group_id = settings.required_group_id
        body = settings.message("ShareGroupHeartbeatRequest")(
            group_id=group_id, member_id=self._member_id, member_epoch=epoch
        )
        if epoch == _JOIN_EPOCH:
            body.rack_id = settings.client_rack or None
        if epoch == _JOIN_EPOCH or (epoch > 0 and topics != self._sent_topics):
            body.subscribed_topic_names = list(topics)
        started = time.monotonic()
        response = await self._cluster.ask_coordinator(group_id, body, GROUP)
        self._cluster.check_coordinator(
            response.error_code, f"share group {group_id}", group_id, said=response.error_message
        )
        self._heartbeat_at = time.monotonic()
        heartbeats = self._cluster.metrics.sensors("coordinator-metrics")["heartbeat"]
        heartbeats.record((self._heartbeat_at - started) * 1000)
        if epoch == _LEAVE_EPOCH:
            return 0.0
        self._sent_topics, self._member_epoch = topics, response.member_epoch
        if response.assignment is not None:
            self._assigned_partition_ids = [
                PartitionId(row.topic_id, number)
                for row in response.assignment.topic_partitions
                for number in row.partitions
            ]
        await self._resolve_topic_names()
        return float(response.heartbeat_interval_ms / 1000)

    async def _resolve_topic_names(self) -> None:
        """Look up the names of the assigned topics. The next heartbeat retries topics without metadata."""
        cluster = self._cluster.cluster
        if any(cluster.topic_name(entry.topic_id) is None for entry in self._assigned_partition_ids):
            await self._cluster.refresh(self._topics)
        names = {entry: cluster.topic_name(entry.topic_id) for entry in self._assigned_partition_ids}
        assignment = {entry: TopicPartition(name, entry.partition) for entry, name in names.items() if name is not None}
        if assignment != self._assignment:
            self._assignment = assignment
            self._wake_up.set()

    # ----------------------------------------------------------------------------------------------------- reading

    async def poll(self, timeout_ms: int = 1_000) -> list[ShareRecord]:
        """Return acquired records, about ``max_poll_records`` at most.

        If acknowledgements are implicit, the records of the previous poll are accepted first.

        Args:
            timeout_ms: longest wait for records, in milliseconds.

        Returns:
            The records; an empty list if none arrive in time.

        Raises:
            OptionError: the consumer has no subscription, or acknowledgements are explicit and a record of the previous
                poll is not acknowledged.
            BrokerError: the group or a topic cannot be read.
            CorruptRecordError: a batch is damaged. Its records are rejected, so brokers do not deliver them again.
        """
        records: list[ShareRecord] = []
        for acquired in await self._acquire(timeout_ms):
            deliveries = acquired.deliveries
            rows = Records(acquired.batch, acquired.partition).take(acquired.batch.num_rows)
            records += [ShareRecord(*row, deliveries[row.offset]) for row in rows]
        return records

    async def fetch_arrow(self, timeout_ms: int = 1_000, *, columns: Sequence[str] = SHARE_COLUMNS) -> pa.Table:
        """Return acquired records as a table; an empty table if none arrive in time. See ``poll``.

        Args:
            timeout_ms: longest time to wait for records, in milliseconds.
            columns: ``topic``, ``partition``, ``delivery_count`` and the record columns of
                ``kafkaframes.read_records``. ``acknowledge`` needs ``topic``, ``partition`` and ``offset``.
        """
        record_columns = tuple(name for name in columns if name != _DELIVERY_COUNT)
        _, schema = schema_of(record_columns)
        fields = [pa.field(name, pa.int16()) if name == _DELIVERY_COUNT else schema.field(name) for name in columns]
        batches = []
        for acquired in await self._acquire(timeout_ms):
            batch = placed(acquired.batch, acquired.partition, record_columns, schema)
            offsets = int64_values(acquired.batch.column("offset")).tolist()
            counts = pa.array([acquired.deliveries[offset] for offset in offsets], pa.int16())
            arrays = [counts if name == _DELIVERY_COUNT else batch.column(name) for name in columns]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))
        return pa.Table.from_batches(batches, schema=pa.schema(fields))

    async def _acquire(self, timeout_ms: int) -> list[_AcquiredBatch]:
        """Return acquired records, and remember the lock of each until the caller acknowledges it."""
        if not self._topics:
            raise OptionError("nothing is subscribed; call subscribe first")
        self._accept_delivered_records()
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            self._wake_up.clear()
            self._start_fetches()
            if self._pending_errors:
                raise self._pending_errors.pop(0)
            remaining_s = deadline - time.monotonic()
            if self._acquired_batches or remaining_s <= 0:
                break
            await waited(self._wake_up, remaining_s)
        self._report_results()
        acquired, self._acquired_batches = self._acquired_batches, []
        self._fetching["records"].record(sum(entry.batch.num_rows for entry in acquired))
        for entry in acquired:
            topic, partition = entry.partition.topic, entry.partition.partition
            lock = _RecordLock(entry.node, entry.partition_id)
            for offset in int64_values(entry.batch.column("offset")).tolist():
                self._locks_by_record[topic, partition, offset] = lock
        return acquired

    def _accept_delivered_records(self) -> None:
        """Accept the records of the previous poll. Raise an error instead if acknowledgements are explicit."""
        if not self._locks_by_record:
            return
        if self.settings.is_explicit:
            topic, partition, offset = next(iter(self._locks_by_record))
            count = len(self._locks_by_record)
            raise OptionError(
                f"{count} records of the last poll have no acknowledgement, such as offset {offset} of "
                f"{topic}-{partition}; with share_acknowledgement_mode=explicit each needs one"
            )
        self._acknowledge(list(self._locks_by_record), ACKNOWLEDGEMENTS["accept"])

    def _start_fetches(self) -> None:
        """Send a ShareFetch to each node that leads assigned partitions and has no ShareFetch in flight."""
        by_node: dict[int, list[PartitionId]] = {}
        needs_metadata = False
        for partition_id, partition in self._assignment.items():
            leader = self._cluster.cluster.leader(partition)
            if leader is None:
                needs_metadata = True
            else:
                self._nodes[leader.node_id] = leader
                by_node.setdefault(leader.node_id, []).append(partition_id)
        if needs_metadata:
            self._heartbeat_due.set()
            self._start_fetch(-1, self._refresh_metadata())
        for node_id in {*by_node, *(number for number, session in self._sessions.items() if session.is_open)}:
            self._start_fetch(node_id, self._fetch_from(node_id, by_node.get(node_id, [])))

    def _start_fetch(self, node_id: int, fetch: Any) -> None:
        if node_id in self._fetches:
            fetch.close()
            return
        task = self._fetches[node_id] = background(fetch)
        task.add_done_callback(lambda _: self._remove_fetch(node_id))

    def _remove_fetch(self, node_id: int) -> None:
        self._fetches.pop(node_id, None)
        self._wake_up.set()

    async def _refresh_metadata(self) -> None:
        with contextlib.suppress(BrokerError, NetworkError):
            await self._cluster.refresh(self._topics)
        await asyncio.sleep(self._cluster.backoff_s(0))

    async def _fetch_from(self, node_id: int, partition_ids: list[PartitionId]) -> None:
        try:
            async with self._locks.setdefault(node_id, asyncio.Lock()):
                await self._fetch_once(node_id, partition_ids)
        except NetworkError:
            self._cluster.cluster.topics.clear()  # the leaders may have moved
            await asyncio.sleep(self._cluster.backoff_s(0))
        except BrokerError as error:
            if not is_retriable(error):
                self._pending_errors.append(error)
            await asyncio.sleep(self._cluster.backoff_s(0))
        except Exception as error:
            self._pending_errors.append(error)

    async def _fetch_once(self, node_id: int, partition_ids: list[PartitionId]) -> None:
        settings, session = self.settings, self._sessions.setdefault(node_id, ShareSession())
        pending = session.take_pending()
        node = self._nodes[node_id]
        if not session.is_open and pending:  # the node released the records when the session ended
            self._record_results(
                node_id, pending, broker_error(ErrorCode.SHARE_SESSION_NOT_FOUND, _describe_node(node))
            )
            pending = {}
        cls = settings.message("ShareFetchRequest")
        body = cls(
            group_id=settings.required_group_id,
            member_id=self._member_id,
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            max_records=settings.max_poll_records,
            batch_size=settings.max_poll_records,
        )
        try:
            connection = await self._cluster.connection(node, Channel.FETCH)
            version = connection.version_of(body, least=1)
            if version >= _RENEWAL_VERSION:
                body.share_acquire_mode = _ACQUIRE_MODES[settings.share_acquire_mode]
            request = session.begin_request(partition_ids, pending)
            body.share_session_epoch = request.epoch
            body.topics = _to_request_topics(
                request.added,
                request.acknowledgements,
                lambda topic_id, rows: cls.FetchTopic(topic_id=topic_id, partitions=rows),
                lambda number, batches: cls.FetchPartition(
                    partition_index=number,
                    acknowledgement_batches=[_to_protocol_batch(cls, batch) for batch in batches],
                ),
            )
            body.forgotten_topics_data = [
                cls.ForgottenTopic(topic_id=entry.topic_id, partitions=[entry.partition]) for entry in request.forgotten
            ]
            wait_ms = settings.request_timeout_ms + settings.fetch_max_wait_ms
            started = time.monotonic()
            response = await connection.request(body, version=version, timeout_ms=wait_ms)
            if response.error_code:
                raise broker_error(
                    response.error_code, f"share fetch from {_describe_node(node)}", response.error_message
                )
        except BaseException as error:
            session.reset()  # it is unknown whether the node processed the request
            reason = (
                error if isinstance(error, (BrokerError, NetworkError)) else NetworkError(f"no response: {error!r}")
            )
            self._record_results(node_id, pending, reason)
            if isinstance(error, BrokerError) and error.code in SESSION_LOST:
                return
            raise
        self._fetching["fetch"].record((time.monotonic() - started) * 1000)
        self._fetching["throttle"].record(response.throttle_time_ms)
        size = sum(len(row.records or b"") for topic in response.responses for row in topic.partitions)
        self._fetching["fetch-size"].record(size)
        session.accept_response(partition_ids)
        self.acquisition_lock_timeout_ms = response.acquisition_lock_timeout_ms or self.acquisition_lock_timeout_ms
        self._process_response(node, session, response, pending)

    def _process_response(
        self, node: Broker, session: ShareSession, response: Any, pending: dict[PartitionId, dict[int, int]]
    ) -> None:
        errors: dict[PartitionId, BrokerError | None] = {}
        for topic in response.responses:
            for row in topic.partitions:
                partition_id = PartitionId(topic.topic_id, row.partition_index)
                if row.acknowledge_error_code:
                    errors[partition_id] = broker_error(
                        row.acknowledge_error_code,
                        f"acknowledgement at {_describe_node(node)}",
                        row.acknowledge_error_message,
                    )
                partition = self._partition_of(partition_id)
                if row.error_code:
                    self._handle_partition_error(partition, row)
                elif row.acquired_records and partition is not None:
                    self._decode_acquired_records(node, session, partition_id, partition, row)
        for partition_id, kinds in pending.items():
            self._record_results(node.node_id, {partition_id: kinds}, errors.get(partition_id))

    def _partition_of(self, partition_id: PartitionId) -> TopicPartition | None:
        name = self._cluster.cluster.topic_name(partition_id.topic_id)
        partition = self._assignment.get(partition_id)
        return partition if partition is not None or name is None else TopicPartition(name, partition_id.partition)

    def _handle_partition_error(self, partition: TopicPartition | None, row: Any) -> None:
        """Look up the leader again after a retriable error. The next poll raises other errors."""
        error = broker_error(row.error_code, f"share fetch of {partition}", row.error_message)
        if row.error_code in LEADER_MOVED or is_retriable(error):
            if partition is not None:
                self._cluster.cluster.topics.pop(partition.topic, None)
            return
        self._pending_errors.append(error)

    def _decode_acquired_records(
        self, node: Broker, session: ShareSession, partition_id: PartitionId, partition: TopicPartition, row: Any
    ) -> None:
        """Decode acquired records. Acknowledge acquired offsets that have no record as gaps."""
        deliveries = {
            offset: acquired.delivery_count
            for acquired in row.acquired_records
            for offset in range(acquired.first_offset, acquired.last_offset + 1)
        }
        first = min(deliveries)
        missing = dict.fromkeys(deliveries)
        try:
            if row.records:
                fetched = Fetched(partition, first, memoryview(row.records))
                acquired_offsets = pa.array(sorted(deliveries), pa.int64())
                for batch in fetched.read(DEFAULT_COLUMNS, verify_crc=self.settings.check_crcs):
                    mask = np.isin(int64_values(batch.column("offset")), acquired_offsets.to_numpy())
                    acquired_batch = batch if mask.all() else batch.filter(pa.array(mask))
                    if acquired_batch.num_rows:
                        self._acquired_batches.append(
                            _AcquiredBatch(partition, partition_id, node, deliveries, acquired_batch)
                        )
                        for offset in int64_values(acquired_batch.column("offset")).tolist():
                            missing.pop(offset, None)
        except CorruptRecordError as error:
            session.acknowledge(partition_id, missing, REJECT)
            self._pending_errors.append(error)
        else:
            session.acknowledge(partition_id, missing, GAP)

    # --------------------------------------------------------------------------------------------- acknowledgement

    def acknowledge(
        self,
        records: ShareRecord | Iterable[ShareRecord] | pa.Table | pa.RecordBatch,
        kind: str = "accept",
        *,
        mask: Any = None,
    ) -> None:
        """Acknowledge records. The next ``poll``, ``fetch_arrow`` or ``commit`` sends the acknowledgements.

        Args:
            records: records of the last ``poll``, or a table of the last ``fetch_arrow`` with the columns ``topic``,
                ``partition`` and ``offset``.
            kind: ``accept`` for records that are processed, ``release`` for records to deliver again, or ``reject`` for
                records that cannot be processed. Brokers do not deliver rejected records again.
            mask: booleans that select rows of a table; None selects all rows.

        Raises:
            OptionError: the kind is unknown, a record was not in the last poll, or a record is already acknowledged.
                In this case no record is acknowledged.
        """
        if kind not in ACKNOWLEDGEMENTS:
            raise OptionError(f"acknowledgement {kind!r} does not exist; expected one of {', '.join(ACKNOWLEDGEMENTS)}")
        self._acknowledge(_record_keys(records, mask), ACKNOWLEDGEMENTS[kind])

    def _acknowledge(self, keys: Sequence[tuple[str, int, int]], kind: int) -> None:
        by_session = self._group_by_session(keys)
        for (node_id, partition_id), offsets in by_session.items():
            self._sessions.setdefault(node_id, ShareSession()).acknowledge(partition_id, offsets, kind)
        for key in keys:
            del self._locks_by_record[key]

    def _group_by_session(self, keys: Sequence[tuple[str, int, int]]) -> dict[tuple[int, PartitionId], list[int]]:
        result: dict[tuple[int, PartitionId], list[int]] = {}
        for key in keys:
            delivered = self._locks_by_record.get(key)
            if delivered is None:
                topic, partition, offset = key
                raise OptionError(
                    f"offset {offset} of {topic}-{partition} was not in the last poll, or is acknowledged already"
                )
            result.setdefault((delivered.node.node_id, delivered.partition_id), []).append(key[2])
        if len(set(keys)) < len(keys):
            raise OptionError("a record is acknowledged twice in one call")
        return result

    async def renew(
        self, records: ShareRecord | Iterable[ShareRecord] | pa.Table | pa.RecordBatch, *, mask: Any = None
    ) -> None:
        """Extend the locks of records that take longer to process (KIP-1222). They still need an acknowledgement.

        Args:
            records: records of the last ``poll``, or a table of the last ``fetch_arrow``, as for ``acknowledge``.
            mask: booleans that select rows of a table; None selects all rows.

        Raises:
            OptionError: a record was not in the last poll, a record is already acknowledged, or a broker is older than
                Kafka 4.2.
            BrokerError: a lock has expired (INVALID_RECORD_STATE), or the group does not allow renewals.
        """
        results: dict[TopicPartition, Any] = {}
        for (node_id, partition_id), offsets in self._group_by_session(_record_keys(records, mask)).items():
            kinds = {partition_id: dict.fromkeys(offsets, RENEW)}
            results |= await self._send_acknowledgements(node_id, kinds, is_renewal=True)
        require_success(results)

    async def commit(self) -> None:
        """Send all acknowledgements and wait until brokers have accepted them.

        If acknowledgements are implicit, the other records of the last poll are accepted first.

        Raises:
            BrokerError: a broker rejected acknowledgements, for example with INVALID_RECORD_STATE because a lock has
                expired. It is a ``PartialFailureError`` if several partitions are affected.
            NetworkError: it is unknown whether a broker received the acknowledgements. It may deliver the records
                again.
        """
        if not self.settings.is_explicit:
            self._acknowledge(list(self._locks_by_record), ACKNOWLEDGEMENTS["accept"])
        results: dict[TopicPartition, Any] = {}
        try:
            for node_id in [number for number, session in self._sessions.items() if session.pending]:
                results |= await self._send_acknowledgements(node_id, None, is_renewal=False)
        finally:
            self._report_results()
        require_success(results)

    async def _send_acknowledgements(
        self, node_id: int, kinds: dict[PartitionId, dict[int, int]] | None, *, is_renewal: bool, is_final: bool = False
    ) -> dict[TopicPartition, BrokerError | None]:
        """Send a ShareAcknowledge, and return the result for each partition.

        Args:
            node_id: id of the node that has the session.
            kinds: acknowledgement types by partition and offset. None sends all pending acknowledgements as soon as no
                other request of the session is in flight.
            is_renewal: whether ``kinds`` are renewals. A request with renewals contains nothing else.
            is_final: whether the request ends the session.
        """
        session, node = self._sessions[node_id], self._nodes[node_id]
        async with self._locks.setdefault(node_id, asyncio.Lock()):
            pending = session.take_pending() if kinds is None else kinds
            if not pending and not is_final:
                return {}
            try:
                if not session.is_open:
                    raise broker_error(ErrorCode.SHARE_SESSION_NOT_FOUND, f"acknowledgement at {_describe_node(node)}")
                rows = await self._request_acknowledgement(
                    node, session, pending, is_renewal=is_renewal, is_final=is_final
                )
            except (BrokerError, NetworkError) as error:
                session.reset()
                self._record_results(node_id, pending, error)
                raise
            except asyncio.CancelledError:
                session.reset()
                self._record_results(
                    node_id, pending, NetworkError("the call was cancelled before the broker answered")
                )
                raise
        results: dict[TopicPartition, BrokerError | None] = {}
        for partition_id, offsets in pending.items():
            partition = self._partition_of(partition_id)
            if partition is not None:
                results[partition] = rows.get(partition_id)
            if not is_renewal:
                self._record_results(node_id, {partition_id: offsets}, rows.get(partition_id))
        return results

    async def _request_acknowledgement(
        self,
        node: Broker,
        session: ShareSession,
        pending: dict[PartitionId, dict[int, int]],
        *,
        is_renewal: bool,
        is_final: bool,
    ) -> dict[PartitionId, BrokerError]:
        settings = self.settings
        cls = settings.message("ShareAcknowledgeRequest")
        body = cls(group_id=settings.required_group_id, member_id=self._member_id, is_renew_ack=is_renewal)
        connection = await self._cluster.connection(node, Channel.FETCH)
        version = connection.version_of(body, least=1)
        if is_renewal and version < _RENEWAL_VERSION:
            raise OptionError(
                f"renew is not supported by {_describe_node(node)}: it needs Kafka 4.2 or later (KIP-1222)"
            )
        body.share_session_epoch = FINAL_EPOCH if is_final else session.epoch
        body.topics = _to_request_topics(
            [],
            {partition_id: list(to_batches(kinds)) for partition_id, kinds in pending.items()},
            lambda topic_id, rows: cls.AcknowledgeTopic(topic_id=topic_id, partitions=rows),
            lambda number, batches: cls.AcknowledgePartition(
                partition_index=number, acknowledgement_batches=[_to_protocol_batch(cls, batch) for batch in batches]
            ),
        )
        response = await connection.request(body, version=version)
        if response.error_code:
            raise broker_error(
                response.error_code, f"acknowledgement at {_describe_node(node)}", response.error_message
            )
        session.advance()
        rows = {
            PartitionId(topic.topic_id, row.partition_index) for topic in response.responses for row in topic.partitions
        }
        missing = [partition_id for partition_id in pending if partition_id not in rows]
        errors: dict[PartitionId, BrokerError] = {
            partition_id: missing_row_error([partition_id], f"acknowledgement at {_describe_node(node)}")
            for partition_id in missing
        }
        return errors | {
            PartitionId(topic.topic_id, row.partition_index): broker_error(
                row.error_code, f"acknowledgement at {_describe_node(node)}", row.error_message
            )
            for topic in response.responses
            for row in topic.partitions
            if row.error_code
        }

    async def _end_session(self, node_id: int) -> None:
        """Send pending acknowledgements and end a session. The node then releases the other records."""
        session = self._sessions[node_id]
        for entry in self._acquired_batches:
            if entry.node.node_id == node_id:
                offsets = int64_values(entry.batch.column("offset")).tolist()
                session.acknowledge(entry.partition_id, offsets, RELEASE)
        if session.is_open:
            with contextlib.suppress(KafkaframesError):
                await self._send_acknowledgements(node_id, None, is_renewal=False, is_final=True)

    def _record_results(
        self,
        node_id: int,
        kinds: Mapping[PartitionId, Mapping[int, int]],
        error: BrokerError | NetworkError | None,
    ) -> None:
        """Queue the result of acknowledgements for the caller's listener, or log an error if there is no listener."""
        offsets = {
            partition: sorted(offset for offset, kind in entries.items() if kind != GAP)
            for partition_id, entries in kinds.items()
            if (partition := self._partition_of(partition_id)) is not None
        }
        offsets = {partition: numbers for partition, numbers in offsets.items() if numbers}
        if not offsets:
            return
        count = sum(map(len, offsets.values()))
        self._fetching["acknowledgements" if error is None else "acknowledgement-errors"].record(count)
        if self._on_acknowledge is not None:
            self._results.append((offsets, error))
        elif error is not None:
            _LOG.warning("%d acknowledgements of share group %r failed: %s", count, self.settings.group_id, error)

    def _report_results(self) -> None:
        results, self._results = self._results, []
        for offsets, error in results:
            if self._on_acknowledge is not None:
                self._on_acknowledge(offsets, error)


def _record_keys(records: Any, mask: Any) -> list[tuple[str, int, int]]:
    """Return (topic, partition, offset) of each record or table row."""
    if isinstance(records, ShareRecord):
        records = [records]
    if not isinstance(records, (pa.Table, pa.RecordBatch)):
        if mask is not None:
            raise OptionError("mask selects rows of a table; select records before you acknowledge them")
        return [(record.topic, record.partition, record.offset) for record in records]
    missing = [name for name in ("topic", "partition", "offset") if name not in records.schema.names]
    if missing:
        raise OptionError(f"the table has no column {', '.join(missing)}, which name a record")
    if mask is not None:
        mask = mask if isinstance(mask, (pa.Array, pa.ChunkedArray)) else pa.array(mask, pa.bool_())
        if len(mask) != records.num_rows:
            raise OptionError(f"the mask has {len(mask)} values for {records.num_rows} rows")
        records = records.filter(mask)
    columns = [records.column(name).to_pylist() for name in ("topic", "partition", "offset")]
    return list(zip(*columns, strict=True))


def _to_request_topics(
    added: Iterable[PartitionId],
    acknowledgements: Mapping[PartitionId, Sequence[Any]],
    topic: Callable[[Any, list[Any]], Any],
    partition: Callable[[int, Sequence[Any]], Any],
) -> list[Any]:
    """Return the topics of a request: partitions to add to the session, and partitions with acknowledgements."""
    by_topic: dict[Any, list[Any]] = {}
    for entry in sorted({*added, *acknowledgements}):
        by_topic.setdefault(entry.topic_id, []).append(partition(entry.partition, acknowledgements.get(entry, ())))
    return [topic(topic_id, rows) for topic_id, rows in by_topic.items()]


def _to_protocol_batch(cls: Any, batch: Any) -> Any:
    return cls.AcknowledgementBatch(
        first_offset=batch.first_offset, last_offset=batch.last_offset, acknowledge_types=batch.types
    )


def _describe_node(node: Broker) -> str:
    return f"broker {node.node_id} at {node.host}:{node.port}"
