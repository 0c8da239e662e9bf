"""Look up the partitions of requests, with an error code if a lookup fails, and read records for fetches.

Reads respect size limits, isolation levels, leader epochs and older record formats. ``FetchWait`` implements long
polls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

from kafkaframes.broker.requests.api import Answer, DeferredResponse
from kafkaframes.broker.requests.request import Request
from kafkaframes.broker.security.access import CLUSTER_RESOURCE_NAME, check_denied
from kafkaframes.broker.state.changes import Steps
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Node, Partition, Topic
from kafkaframes.errors import AppendRefusedError, ErrorCode, KafkaframesError, to_error_code
from kafkaframes.records.append import down_convert
from kafkaframes.records.layout import BYTES_TO_MAGIC, OVERHEAD_BYTES
from kafkaframes.records.scan import FILE, as_array, scan_all
from kafkaframes.storage.files.producer_files import AbortedTransaction
from kafkaframes.storage.partition.fetch import HIGH_WATERMARK, LOG_END, TXN_COMMITTED
from kafkaframes.storage.partition.segment import FileRange
from kafkaframes.wire.primitives import NIL_UUID

NO_EPOCH = -1


class TopicLookup(NamedTuple):
    """The result of a topic lookup: the topic, or None and the error code for its partitions."""

    topic: Topic | None
    code: int


def find_topic(
    request: Request,
    broker: BrokerState,
    name: str,
    topic_id: UUID = NIL_UUID,
    *,
    by_id: bool = False,
    right: str = "TOPIC",
) -> TopicLookup:
    """Find a topic by name or id, and check the permission that the API declares for the topic or the cluster."""
    topic = broker.topics_by_id.get(topic_id) if by_id else broker.topics.get(name)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if by_id and topic is None:
        return TopicLookup(None, unknown)
    resource = CLUSTER_RESOURCE_NAME if right == "CLUSTER" else topic.name if topic else name
    code = check_denied(request, broker.access, right, resource)
    if code != ErrorCode.NONE:
        return TopicLookup(None, code)
    return TopicLookup(topic, ErrorCode.NONE if topic is not None else unknown)


def find_led_partition(
    request: Request,
    topic: Topic,
    index: int,
    *,
    current_leader_epoch: int = NO_EPOCH,
    or_follower: bool = False,
) -> tuple[Partition | None, int]:
    """Return a partition if the connection's node leads it, else None and an error code.

    With ``or_follower``, the partition is also returned if the node has any other replica (KIP-392).
    """
    partition = topic.partition(index)
    if partition is None:
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node_id = request.session.node_id
    if partition.leader_id != node_id and not (or_follower and node_id in partition.replicas):
        return None, ErrorCode.NOT_LEADER_OR_FOLLOWER
    code = check_leader_epoch(partition, current_leader_epoch)
    return (None, code) if code else (partition, ErrorCode.NONE)


def check_leader_epoch(partition: Partition, current_leader_epoch: int) -> int:
    """Return the error code for a client's leader epoch, if it is not the current epoch (KIP-320); else 0."""
    if current_leader_epoch in (NO_EPOCH, partition.leader_epoch):
        return ErrorCode.NONE
    is_fenced = current_leader_epoch < partition.leader_epoch
    return ErrorCode.FENCED_LEADER_EPOCH if is_fenced else ErrorCode.UNKNOWN_LEADER_EPOCH


def describe_leader(request: Request, partition: Partition) -> Any:
    """Return a partition's leader for the tagged fields of Produce and Fetch (KIP-951)."""
    return request.response.LeaderIdAndEpoch(leader_id=partition.leader_id, leader_epoch=partition.leader_epoch)


def build_endpoint_rows(request: Request, broker: BrokerState, node_ids: set[int]) -> list[Any]:
    """Return the addresses of nodes, for the tagged fields of Produce and Fetch (KIP-951)."""
    nodes = list_addresses(request, broker)
    return [
        request.response.NodeEndpoint(node_id=node_id, **nodes[node_id]) for node_id in sorted(node_ids & nodes.keys())
    ]


def list_addresses(request: Request, broker: BrokerState) -> dict[int, dict[str, Any]]:
    """Return host, port and rack of the running nodes, on the listener of the request."""
    return {node_id: build_address(request, broker, broker.nodes.by_id[node_id]) for node_id in broker.nodes.ids}


def build_address(request: Request, broker: BrokerState, node: Node) -> dict[str, Any]:
    """Return host, port and rack of a node, on the listener of the request. A stopped node keeps its last address."""
    endpoint = broker.nodes.get_endpoint(node, request.session.listener)
    return {"host": endpoint.host, "port": endpoint.port, "rack": node.rack}


READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_CONSUMER_REPLICA_ID = -1
_LATEST_MAGIC = 2
MAX_COPIED_RECORD_BYTES = (
    64 << 10
)  # for larger records, opening the file again is cheaper than copying the records twice
# Largest number of record bytes that a response holds in memory instead of sending them from files. The limit bounds
# the memory for a client that does not read its responses. Kafka's maximum is not strict either (KIP-74): the next
# fetch returns the remaining records.
MAX_FETCH_MEMORY_BYTES = 1 << 20


class FetchLimits(NamedTuple):
    """The limits of a fetch, for all of its partitions.

    Attributes:
        max_bytes: largest size of the response's records, in bytes.
        whole_first: whether the first batch is returned even if it exceeds the limit (v3 and later).
        isolation: isolation level of ``partition.fetch``.
        magic: newest record format that the consumer supports.
        stretch_bytes: size from which records are sent directly from their file; None if they are never sent so.
    """

    max_bytes: int
    whole_first: bool
    isolation: str
    magic: int = _LATEST_MAGIC
    stretch_bytes: int | None = None

    def get_remaining_limits(self, size: int, held_bytes: int) -> FetchLimits:
        """Return the limits after ``size`` bytes of records were read, of which ``held_bytes`` bytes are in memory."""
        bytes_left = self.max_bytes - size
        if self.stretch_bytes is None or self.magic < _LATEST_MAGIC:
            bytes_left = min(bytes_left, MAX_FETCH_MEMORY_BYTES - held_bytes)
        elif held_bytes >= MAX_FETCH_MEMORY_BYTES:
            bytes_left = 0
        return self if bytes_left == self.max_bytes else self._replace(max_bytes=bytes_left)


class PartitionRead(NamedTuple):
    """The result of a read from a partition, with the fields of a Fetch response."""

    error_code: int = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: bytes | FileRange = b""
    aborted: tuple[AbortedTransaction, ...] | None = None
    diverging: tuple[int, int] | None = None
    preferred_replica: int = -1

    @property
    def held_bytes(self) -> int:
        """The number of bytes of records in memory."""
        return 0 if isinstance(self.records, FileRange) else len(self.records)


def choose_isolation(isolation_level: int, replica_id: int = _CONSUMER_REPLICA_ID) -> str:
    """Return the isolation level of a fetch. A follower may read to the end of the log."""
    if replica_id >= 0:
        return LOG_END
    return TXN_COMMITTED if isolation_level == READ_COMMITTED else HIGH_WATERMARK


def get_max_magic(version: int) -> int:
    """Return the newest record format that a version of Fetch supports.

    >>> [get_max_magic(version) for version in (0, 1, 2, 3, 4)]
    [0, 0, 1, 1, 2]
    """
    return min(version // 2, _LATEST_MAGIC)


def read_partition(
    broker: BrokerState, partition: Partition, request: Any, limits: FetchLimits, *, first: bool
) -> PartitionRead:
    """Read records of a partition.

    Args:
        limits: remaining limits of the request.
        first: whether the response has no records yet, so that a batch may exceed the limits.
    """
    diverging = _find_diverging_epoch(partition, request)
    if diverging is not None:
        return diverging
    offset: int | None = request.fetch_offset
    read_result = PartitionRead()
    while offset is not None:
        read_result, raw = _read_log(
            partition, offset, min(request.partition_max_bytes, limits.max_bytes), limits, first=first
        )
        if limits.magic >= _LATEST_MAGIC or read_result.error_code != ErrorCode.NONE:
            break
        read_result = _down_convert(broker, partition, request, read_result, raw, limits.magic)
        offset = None if read_result.records or read_result.error_code != ErrorCode.NONE else _find_next_offset(raw)
    return read_result


def _read_log(
    partition: Partition, offset: int, size: int, limits: FetchLimits, *, first: bool
) -> tuple[PartitionRead, bytes]:
    """Read the log from an offset. Return the result, and the bytes if the records are in memory."""
    try:
        data = partition.log.read(
            offset,
            max_bytes=max(size, 0),
            isolation=limits.isolation,
            min_one_message=first and limits.whole_first,
            min_range_bytes=limits.stretch_bytes if limits.magic >= _LATEST_MAGIC else None,
        )
    except KafkaframesError as error:
        return PartitionRead(to_error_code(error)), b""
    end = data.last_stable_offset if limits.isolation == TXN_COMMITTED else data.high_watermark
    if size < 0 and offset < end:
        return PartitionRead(ErrorCode.UNKNOWN_SERVER_ERROR), b""  # Kafka's segments also reject a negative size
    records: bytes | FileRange = data.records if data.file_range is None else data.file_range
    if limits.whole_first and data.first_entry_incomplete:
        records = b""
    read_result = PartitionRead(
        ErrorCode.NONE, data.high_watermark, data.last_stable_offset, data.log_start_offset, records, data.aborted
    )
    return read_result, data.records


def _find_next_offset(records: bytes) -> int | None:
    """Return the offset after batches that an older format cannot represent; None if there is no complete batch.

    An older format cannot represent control batches. A consumer that fetched only control batches would therefore never
    advance.
    """
    last = None
    for batch in _iterate_batches(records):
        last = batch
    return None if last is None else int(scan_all(as_array(last), rules=FILE).column("last_offset")[0]) + 1


def _find_diverging_epoch(partition: Partition, request: Any) -> PartitionRead | None:
    """Return the diverging epoch if the client's last record is not in this log (KIP-595, KIP-392); otherwise None."""
    if request.last_fetched_epoch < 0:
        return None
    log, end = partition.log, partition.find_epoch_end_offset(request.last_fetched_epoch)
    if end.leader_epoch < 0 or end.end_offset < 0 or request.fetch_offset < log.log_start_offset:
        return PartitionRead(ErrorCode.OFFSET_OUT_OF_RANGE)
    if end.leader_epoch < request.last_fetched_epoch or end.end_offset < request.fetch_offset:
        diverging_end = end.leader_epoch, end.end_offset
        return PartitionRead(
            ErrorCode.NONE, log.high_watermark, log.last_stable_offset, log.log_start_offset, diverging=diverging_end
        )
    return None


def _down_convert(
    broker: BrokerState, partition: Partition, request: Any, read_result: PartitionRead, records: bytes, magic: int
) -> PartitionRead:
    """Convert records to an older format, as brokers up to 3.9 do.

    Data that the older format cannot represent is counted.
    """
    if len(records) < BYTES_TO_MAGIC or not read_result.records:
        return read_result._replace(records=b"")
    if not _needs_conversion(records, magic):
        return read_result
    if not partition.may_down_convert:
        return PartitionRead(ErrorCode.UNSUPPORTED_VERSION)
    converted_batches: list[bytes] = []
    for batch in _iterate_batches(records):
        try:
            down_converted = down_convert(batch, magic, first_offset=request.fetch_offset)
        except AppendRefusedError as error:
            # Return the batches before the failed batch. The next fetch starts at the failed batch and returns the
            # error.
            if converted_batches:
                break
            return PartitionRead(to_error_code(error))
        converted_batches.append(down_converted.records)
        for feature, times in down_converted.lost.items():
            broker.counters[f"lost {feature}"] += times
        broker.counters["down_converted_records"] += down_converted.converted
    return read_result._replace(records=b"".join(converted_batches))


def _iterate_batches(records: bytes) -> Iterator[bytes]:
    """Yield the complete batches; an incomplete batch at the end is skipped."""
    position = 0
    while position + OVERHEAD_BYTES <= len(records):
        end = position + OVERHEAD_BYTES + int.from_bytes(records[position + 8 : position + OVERHEAD_BYTES], "big")
        if end > len(records):
            return
        yield records[position:end]
        position = end


def _needs_conversion(records: bytes, magic: int) -> bool:
    """Return whether a batch has a newer format."""
    if records[BYTES_TO_MAGIC - 1] > magic:
        return True
    return any(batch[BYTES_TO_MAGIC - 1] > magic for batch in _iterate_batches(records))


class FetchWait:
    """A fetch that waits for enough bytes, its timeout, or a change of its partitions.

    The fetch reads its partitions in steps, because a fetch of thousands of partitions would otherwise block other
    clients at each append.
    """

    def __init__(
        self,
        broker: BrokerState,
        partitions: list[Partition],
        max_wait_ms: int,
        attempt: Callable[[bool], Steps[Answer]],
    ) -> None:
        """Start to wait.

        ``attempt(is_last)`` returns a response, or None if there are too few bytes and the attempt is not the last.
        """
        self.response = DeferredResponse()
        self._broker = broker
        self._partitions = partitions
        self._attempt = attempt
        self._is_last = self._is_attempting = self._has_changed = False
        self._timer = broker.waits.call_later(max_wait_ms, self._handle_timeout)
        self.response.call_when_abandoned(self._stop_waiting)
        for partition in partitions:
            partition.waiting[self] = self._handle_wake

    def _stop_waiting(self) -> None:
        """Cancel the timer, and no longer wait for changes in the partitions."""
        self._timer.cancel()
        for partition in self._partitions:
            partition.waiting.pop(self, None)

    def _handle_timeout(self) -> None:
        """Make the last attempt to answer the fetch."""
        self._is_last = True
        self._handle_wake()

    def _handle_wake(self) -> None:
        """Attempt to answer the fetch after a change in a partition."""
        self._has_changed = True
        if not self._is_attempting and not self.response.is_done:
            self._broker.changes.run_concurrently(self._retry_in_steps())

    def _retry_in_steps(self) -> Steps[None]:
        """Repeat the attempt until there is a response, or nothing has changed since the last attempt started."""
        self._is_attempting = True
        answer: Answer = None
        try:
            while answer is None and self._has_changed and not self.response.is_done:
                self._has_changed = False
                answer = yield from self._attempt(self._is_last)
        except Exception as error:
            self._stop_waiting()
            self.response.fail(error)
        self._is_attempting = False
        if answer is not None:
            self._stop_waiting()
            self.response.follow(answer)
