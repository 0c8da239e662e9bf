"""The asyncio share consumer. Members of a share group acquire and acknowledge individual records (KIP-932).

All members share the partitions. A broker locks a record when it delivers it to a member. If the member does not
acknowledge the record before the lock expires, the broker delivers it to another member.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, Unpack

import pyarrow as pa

from kafkaframes.client.cluster import ClusterClient
from kafkaframes.client.fetched_batches import RecordIterator, resolve_columns, select_output_columns
from kafkaframes.client.loop import to_deadline, wait_for_event
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.metrics import MetricName, PollMetrics
from kafkaframes.client.settings import ShareConsumerSettings, merge_options
from kafkaframes.client.share_machine import (
    AcknowledgementResult,
    AcquiredBatch,
    PendingResults,
    RecordKey,
    ShareConsumerMachine,
)
from kafkaframes.client.share_session import ACKNOWLEDGEMENT_TYPES
from kafkaframes.client.share_task import ShareTask
from kafkaframes.client.telemetry.reporter import TelemetryMethods, TelemetryReporter
from kafkaframes.errors import BrokerError, ErrorCode, NetworkError, OptionError, to_broker_error
from kafkaframes.records.columns import DEFAULT_COLUMNS

if TYPE_CHECKING:
    from kafkaframes.client.options import Servers, ShareConsumerOptions

AcknowledgementListener = Callable[[Mapping[TopicPartition, Sequence[int]], "BrokerError | NetworkError | None"], Any]
SHARE_COLUMNS: Final = ("topic", "partition", *DEFAULT_COLUMNS, "delivery_count")  # default columns of ``fetch_arrow``
_DELIVERY_COUNT_COLUMN: Final = "delivery_count"
_CLOSE_GRACE_S: Final = 2.0  # time after fetch_max_wait_ms in which in-flight fetches finish before a close
Mask: TypeAlias = pa.Array | pa.ChunkedArray | Sequence[bool]  # selects rows of a table
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


class AsyncShareConsumer(TelemetryMethods):
    """Reads records of a share group: ``async with AsyncShareConsumer(servers, group_id="g") as consumer: ...``

    With ``share_acknowledgement_mode="implicit"``, the default, each ``poll``, ``fetch_arrow`` and ``commit`` accepts
    the records of the previous poll that the caller has not acknowledged. With ``"explicit"``, the caller acknowledges
    every record.

    A background task sends heartbeats. ``close`` releases the records that are not acknowledged, and brokers deliver
    them to other members.
    """

    def __init__(self, bootstrap_servers: Servers | None = None, **options: Unpack[ShareConsumerOptions]) -> None:
        """Create a consumer. The consumer connects in ``subscribe``.

        Args:
            bootstrap_servers: ``host:port``; several separated by commas or in a list; or a dict of properties.
            options: settings (``ShareConsumerOptions``), which override properties in ``bootstrap_servers``.

        Raises:
            OptionError: a setting is unknown, invalid or not supported.
        """
        self.settings = ShareConsumerSettings.from_options(merge_options(bootstrap_servers, options))
        self._cluster = ClusterClient(self.settings)
        self._member_id = str(uuid.uuid4())
        self._telemetry = TelemetryReporter(self._cluster, self._get_telemetry_labels)
        self._machine = ShareConsumerMachine(self.settings, self._cluster.cluster, backoff_s=self._cluster.backoff_s)
        self._fetching = self._cluster.metrics.get_sensors("fetch-manager-metrics")
        self._polls = PollMetrics(self._cluster.metrics)
        self._task = ShareTask(
            self._machine, self._cluster, self.settings, self._member_id, on_change=self._collect_results
        )
        self._results: deque[AcknowledgementResult] = deque()  # for the listener
        self._on_acknowledge: AcknowledgementListener | None = None

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """The lock duration of a record, as brokers last reported it; None before the first fetch."""
        lock_s = self._machine.lock_s
        return None if lock_s is None else round(lock_s * 1000)

    async def __aenter__(self) -> AsyncShareConsumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Send pending acknowledgements, release the other records, leave the group and close the connections."""
        try:
            await self.unsubscribe()
        finally:
            await self._telemetry.close()
            await self._cluster.close()

    # -------------------------------------------------------------------------------------------------- membership

    async def subscribe(
        self, topics: str | Iterable[str], *, on_acknowledge: AcknowledgementListener | None = None
    ) -> None:
        """Join the share group ``group_id`` and subscribe to these topics only.

        Args:
            topics: topic names. A topic that does not exist yet is read once it is created.
            on_acknowledge: function that is called in ``poll``, ``fetch_arrow``, ``commit`` and ``close``. The
                arguments are the offsets of acknowledged records by partition, and the error if the broker rejected the
                acknowledgements, else None.

        Raises:
            OptionError: ``topics`` is empty.
            NetworkError: no broker can be reached within ``default_api_timeout_ms``.
            BrokerError: a broker rejects the client.
        """
        names = tuple(sorted({topics} if isinstance(topics, str) else set(topics)))
        if not names:
            raise OptionError("subscribe needs a topic; unsubscribe ends the subscription")
        self._cluster.context.check_context()
        if self._cluster.cluster.updated_at is None or not self._cluster.cluster.topics.keys() >= set(names):
            await self._cluster.retry_step(lambda: self._cluster.refresh_metadata(names))
        self._cluster.log_missing_topics(names)
        self._on_acknowledge = on_acknowledge
        self._machine.subscribe(names, time.monotonic())
        for name in names:  # brokers ignore invalid names in heartbeats
            topic = self._cluster.cluster.topics.get(name)
            if topic is not None and topic.error is ErrorCode.INVALID_TOPIC_EXCEPTION:
                self._machine.queue_error(to_broker_error(topic.error, f"topic {name}"))
        self._task.start()
        self._task.send_due_requests()

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that this consumer has subscribed to."""
        return frozenset(self._machine.topics)

    def metrics(self) -> dict[MetricName, float]:
        """Return the consumer's metrics under Java's names: connections, fetches, acknowledgements, the group."""
        return self._cluster.metrics.values()

    def _get_telemetry_labels(self) -> dict[str, str]:
        settings = self.settings
        return {
            "group_id": settings.required_group_id,
            "group_member_id": self._member_id,
            "client_rack": settings.client_rack,
        }

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that the coordinator has assigned to this member, sorted."""
        return sorted(self._machine.assignment.values())

    async def unsubscribe(self) -> None:
        """Send pending acknowledgements, release the other records and leave the group."""
        machine, task = self._machine, self._task
        deadline: float | None = time.monotonic() + self.settings.fetch_max_wait_ms / 1000 + _CLOSE_GRACE_S
        machine.end_subscription()
        try:
            while True:  # fetches in flight carry acknowledgements; nodes respond within fetch_max_wait_ms
                task.send_due_requests()
                task.change_event.clear()
                if machine.has_ended or task.failure is not None:
                    break
                await wait_for_event(
                    task.change_event, None if deadline is None else max(deadline - time.monotonic(), 0.0)
                )
                if deadline is not None and time.monotonic() >= deadline:
                    machine.abandon_waiting(time.monotonic())
                    deadline = None  # request_timeout_ms limits each of the last requests
        finally:
            machine.abandon()
            await task.close()
            self._collect_results()
            self._report_results()
            while (error := machine.take_error()) is not None:
                _LOG.warning(
                    "share group %r was closed before a poll could raise this error: %s", self.settings.group_id, error
                )

    # ----------------------------------------------------------------------------------------------------- reading

    async def poll(self, timeout_ms: int | None = 1_000) -> list[ShareRecord]:
        """Return acquired records, about ``max_poll_records`` at most.

        If acknowledgements are implicit, the records of the previous poll are accepted first.

        Args:
            timeout_ms: longest wait for records, in milliseconds; None waits without limit.

        Returns:
            The records; an empty list if none arrive in time.

        Raises:
            OptionError: the consumer has no subscription, or acknowledgements are explicit and a record of the previous
                poll is not acknowledged.
            BrokerError: the group or a topic cannot be read.
            CorruptRecordError: a batch is damaged. The records of the batch are rejected, so brokers do not deliver
                them again.
        """
        return [record for batch in await self._acquire_records(timeout_ms) for record in to_share_records(batch)]

    async def fetch_arrow(self, timeout_ms: int | None = 1_000, *, columns: Sequence[str] = SHARE_COLUMNS) -> pa.Table:
        """Return acquired records as a table; an empty table if none arrive in time. See ``poll``.

        Args:
            timeout_ms: longest wait for records, in milliseconds; None waits without limit.
            columns: ``topic``, ``partition``, ``delivery_count`` and the record columns of
                ``kafkaframes.read_records``. ``acknowledge`` needs ``topic``, ``partition`` and ``offset``.
        """
        _select_columns(columns)  # an unknown column is an error before records are acquired
        return to_table(await self._acquire_records(timeout_ms), columns)

    async def _acquire_records(self, timeout_ms: int | None) -> list[AcquiredBatch]:
        """Return acquired records."""
        machine, task = self._machine, self._task
        self._cluster.context.check_context()
        deadline = to_deadline(timeout_ms)
        machine.begin_poll(time.monotonic())
        times = self._polls.begin()
        try:
            while True:
                task.change_event.clear()
                task.send_due_requests()
                error = task.failure or machine.take_error()
                if error is not None:
                    raise error
                acquired_batches = machine.take_records()
                remaining_s = None if deadline is None else deadline - time.monotonic()
                if acquired_batches or (remaining_s is not None and remaining_s <= 0):
                    break
                await wait_for_event(task.change_event, remaining_s)
        finally:
            self._polls.end(*times)
            machine.end_poll(time.monotonic())
        self._collect_results()
        self._report_results()
        self._fetching["records"].record(sum(len(entry.offsets) for entry in acquired_batches))
        return acquired_batches

    # --------------------------------------------------------------------------------------------- acknowledgement

    def acknowledge(
        self,
        records: ShareRecord | Iterable[ShareRecord] | pa.Table | pa.RecordBatch,
        kind: str = "accept",
        *,
        mask: Mask | None = None,
    ) -> None:
        """Acknowledge records. The next ``poll``, ``fetch_arrow``, ``commit`` or ``renew`` sends the acknowledgements.

        Args:
            records: records of the last ``poll``, or a table of the last ``fetch_arrow`` with the columns ``topic``,
                ``partition`` and ``offset``.
            kind: ``accept`` for records that are processed, ``release`` for records to deliver again, or ``reject`` for
                records that cannot be processed. Brokers do not deliver rejected records again.
            mask: booleans that select rows of a table; None selects all rows.

        Raises:
            OptionError: the kind is unknown, a record was not in the last poll, or a record is already acknowledged. If
                this error is raised, no record is acknowledged.
        """
        if kind not in ACKNOWLEDGEMENT_TYPES:
            raise OptionError(
                f"acknowledgement {kind!r} does not exist; expected one of {', '.join(ACKNOWLEDGEMENT_TYPES)}. "
                "`renew` extends the locks of records"
            )
        self._machine.acknowledge(get_record_keys(records, mask), ACKNOWLEDGEMENT_TYPES[kind])
        self._collect_results()

    async def renew(
        self, records: ShareRecord | Iterable[ShareRecord] | pa.Table | pa.RecordBatch, *, mask: Mask | None = None
    ) -> None:
        """Extend the locks of records that take longer to process (KIP-1222).

        The records still need an acknowledgement.

        Args:
            records: records of the last ``poll``, or a table of the last ``fetch_arrow``, as for ``acknowledge``.
            mask: booleans that select rows of a table; None selects all rows.

        Raises:
            OptionError: a record was not in the last poll, a record is already acknowledged, or a broker is older than
                Kafka 4.2.
            BrokerError: a lock has expired (INVALID_RECORD_STATE), or the group does not allow renewals.
        """
        self._cluster.context.check_context()
        completion = self._machine.renew(get_record_keys(records, mask))
        await self._wait_for_results(completion)
        completion.require_success()

    async def commit(self) -> None:
        """Send all acknowledgements and wait until brokers have accepted them.

        If acknowledgements are implicit, the other records from the last poll are accepted first.

        Raises:
            BrokerError: a broker rejected acknowledgements, for example with INVALID_RECORD_STATE because a lock has
                expired. The error is a ``PartialFailureError`` if several partitions are affected.
            NetworkError: it is unknown whether a broker received the acknowledgements. The broker may deliver the
                records again.
        """
        self._cluster.context.check_context()
        completion = self._machine.commit()
        try:
            await self._wait_for_results(completion)
        finally:
            self._report_results()
        completion.require_success()

    async def _wait_for_results(self, completion: PendingResults) -> None:
        """Send requests until a commit or a renewal has all its results."""
        task = self._task
        while True:
            task.send_due_requests()
            task.change_event.clear()
            self._collect_results()
            if completion.is_done:
                return
            if task.failure is not None:
                raise task.failure
            await task.change_event.wait()

    def _collect_results(self) -> None:
        """Count results of acknowledgements. Store the results for the listener, or log errors without a listener."""
        for result in self._machine.take_results():
            offsets, error = result
            count = sum(map(len, offsets.values()))
            self._fetching["acknowledgements" if error is None else "acknowledgement-errors"].record(count)
            if self._on_acknowledge is not None:
                self._results.append(result)
            elif error is not None:
                _LOG.warning("%d acknowledgements of share group %r failed: %s", count, self.settings.group_id, error)

    def _report_results(self) -> None:
        while self._results:  # if the listener raises an exception, later calls report the other results
            offsets, error = self._results.popleft()
            if self._on_acknowledge is not None:
                self._on_acknowledge(offsets, error)


def to_share_records(batch: AcquiredBatch) -> list[ShareRecord]:
    """Return acquired records as Python values."""
    deliveries = batch.deliveries
    rows = RecordIterator(batch.batch, batch.partition).take_records(batch.batch.num_rows)
    return [ShareRecord(*row, deliveries[row.offset]) for row in rows]


def _select_columns(columns: Sequence[str]) -> tuple[tuple[str, ...], pa.Schema]:
    """Return the columns without the delivery count, and the schema of all columns."""
    record_columns = tuple(name for name in columns if name != _DELIVERY_COUNT_COLUMN)
    _, schema = resolve_columns(record_columns)
    fields = [pa.field(name, pa.int16()) if name == _DELIVERY_COUNT_COLUMN else schema.field(name) for name in columns]
    return record_columns, pa.schema(fields)


def _to_arrow(acquired_batch: AcquiredBatch, record_columns: tuple[str, ...], schema: pa.Schema) -> pa.RecordBatch:
    """Return acquired records with the columns of a schema."""
    batch = select_output_columns(
        acquired_batch.batch, acquired_batch.partition, record_columns, resolve_columns(record_columns)[1]
    )
    counts = pa.array([acquired_batch.deliveries[offset] for offset in acquired_batch.offsets], pa.int16())
    arrays = [counts if name == _DELIVERY_COUNT_COLUMN else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def to_table(batches: Iterable[AcquiredBatch], columns: Sequence[str] = SHARE_COLUMNS) -> pa.Table:
    """Return acquired records as a table."""
    record_columns, schema = _select_columns(columns)
    return pa.Table.from_batches([_to_arrow(entry, record_columns, schema) for entry in batches], schema=schema)


def get_record_keys(records: Any, mask: Mask | None) -> list[RecordKey]:
    """Return (topic, partition, offset) of each record or table row."""
    if isinstance(records, ShareRecord):
        records = [records]
    if not isinstance(records, (pa.Table, pa.RecordBatch)):
        if mask is not None:
            raise OptionError("mask selects rows of a table; select records before you acknowledge them")
        return [(record.topic, record.partition, record.offset) for record in records]
    missing = [name for name in ("topic", "partition", "offset") if name not in records.schema.names]
    if missing:
        raise OptionError(
            f"the table has no column {', '.join(missing)}; topic, partition and offset identify a record"
        )
    if mask is not None:
        mask = mask if isinstance(mask, (pa.Array, pa.ChunkedArray)) else pa.array(mask, pa.bool_())
        if len(mask) != records.num_rows:
            raise OptionError(f"the mask has {len(mask)} values for {records.num_rows} rows")
        records = records.filter(mask)
    columns = [records.column(name).to_pylist() for name in ("topic", "partition", "offset")]
    return list(zip(*columns, strict=True))
