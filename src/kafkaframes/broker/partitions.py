"""The partition that a request means, or the error code that says why it cannot be had; and what a fetch reads of it.

Reading knows limits of size, isolation, epochs and older formats, and waits until there is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

from kafkaframes.broker.access import CLUSTER_NAME, denied
from kafkaframes.broker.api import Answer, Later
from kafkaframes.broker.changes import Steps
from kafkaframes.broker.request import Request
from kafkaframes.broker.state import NO_UUID, BrokerState
from kafkaframes.broker.topics import Node, Partition, Topic
from kafkaframes.errors import AppendRefusedError, ErrorCode, KafkaframesError, code_of
from kafkaframes.records.append import down_convert
from kafkaframes.records.layout import BYTES_TO_MAGIC, OVERHEAD_BYTES
from kafkaframes.records.scan import FILE, as_array, scan_all
from kafkaframes.storage.files.producer_files import AbortedTransaction
from kafkaframes.storage.partition.fetch import HIGH_WATERMARK, LOG_END, TXN_COMMITTED
from kafkaframes.storage.partition.segment import Stretch

NO_EPOCH = -1


class KnownTopic(NamedTuple):
    """A topic, or why there is none: ``code`` is for each of its partitions."""

    topic: Topic | None
    code: int


def find_topic(
    request: Request,
    broker: BrokerState,
    name: str,
    topic_id: UUID = NO_UUID,
    *,
    by_id: bool = False,
    right: str = "TOPIC",
) -> KnownTopic:
    """Find a topic by name or id, if the client has the right, to it or to the cluster, that the API declares."""
    topic = broker.topics_by_id.get(topic_id) if by_id else broker.topics.get(name)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if by_id and topic is None:
        return KnownTopic(None, unknown)
    resource = CLUSTER_NAME if right == "CLUSTER" else topic.name if topic else name
    code = denied(request, broker.access, right, resource)
    if code != ErrorCode.NONE:
        return KnownTopic(None, code)
    return KnownTopic(topic, ErrorCode.NONE if topic is not None else unknown)


def led_here(
    request: Request,
    topic: Topic,
    index: int,
    *,
    current_leader_epoch: int = NO_EPOCH,
    or_follower: bool = False,
) -> tuple[Partition | None, int]:
    """Return a partition of a topic that the node of this connection leads, or None and an error code.

    With ``or_follower`` any node that has a replica will do (KIP-392).
    """
    partition = topic.partition(index)
    if partition is None:
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node_id = request.session.node_id
    if partition.leader_id != node_id and not (or_follower and node_id in partition.replicas):
        return None, ErrorCode.NOT_LEADER_OR_FOLLOWER
    code = epoch_code(partition, current_leader_epoch)
    return (None, code) if code else (partition, ErrorCode.NONE)


def epoch_code(partition: Partition, current_leader_epoch: int) -> int:
    """Return the error of a client whose idea of the leader epoch is another (KIP-320)."""
    if current_leader_epoch in (NO_EPOCH, partition.leader_epoch):
        return ErrorCode.NONE
    fenced = current_leader_epoch < partition.leader_epoch
    return ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH


def current_leader(request: Request, partition: Partition) -> Any:
    """Return who leads a partition, for the tagged fields of Produce and Fetch (KIP-951)."""
    return request.response.LeaderIdAndEpoch(leader_id=partition.leader_id, leader_epoch=partition.leader_epoch)


def endpoints_of(request: Request, broker: BrokerState, node_ids: set[int]) -> list[Any]:
    """Return the addresses of nodes, for the tagged fields of Produce and Fetch (KIP-951)."""
    nodes = addresses(request, broker)
    return [request.response.NodeEndpoint(node_id=one, **nodes[one]) for one in sorted(node_ids & nodes.keys())]


def addresses(request: Request, broker: BrokerState) -> dict[int, dict[str, Any]]:
    """Return host, port and rack of the nodes that are up, on the listener of the request."""
    return {node_id: address_of(request, broker, broker.nodes.by_id[node_id]) for node_id in broker.nodes.ids}


def address_of(request: Request, broker: BrokerState, node: Node) -> dict[str, Any]:
    """Return host, port and rack of a node, on the listener of the request. A stopped node keeps its last address."""
    endpoint = broker.nodes.endpoint(node, request.session.listener)
    return {"host": endpoint.host, "port": endpoint.port, "rack": node.rack}


READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_CONSUMER = -1
_LATEST_MAGIC = 2
STRETCH_BYTES = 64 << 10  # from here on opening the file once more costs less than copying the records twice
# Of one answer, records that are not left in their files: a client that does not read holds no more. Kafka's maximum is
# not absolute either (KIP-74): the next fetch brings the rest.
MOST_HELD_BYTES = 1 << 20


class Limits(NamedTuple):
    """What a fetch asks of every partition.

    Attributes:
        max_bytes: of the whole answer.
        whole_first: the first batch is given though it is too large (v3 and later).
        isolation: one of ``partition.fetch``.
        magic: the newest format that the consumer reads.
        stretch_bytes: records of at least this many bytes are left in their file, and sent from there; None: never.
    """

    max_bytes: int
    whole_first: bool
    isolation: str
    magic: int = _LATEST_MAGIC
    stretch_bytes: int | None = None

    def left(self, size: int, held: int) -> Limits:
        """Return those of the next partition; the answer has ``size`` bytes of records, ``held`` of them in memory."""
        left = self.max_bytes - size
        if self.stretch_bytes is None or self.magic < _LATEST_MAGIC:
            left = min(left, MOST_HELD_BYTES - held)
        elif held >= MOST_HELD_BYTES:
            left = 0
        return self if left == self.max_bytes else self._replace(max_bytes=left)


class Read(NamedTuple):
    """What one partition is answered with."""

    error_code: int = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: bytes | Stretch = b""
    aborted: tuple[AbortedTransaction, ...] | None = None
    diverging: tuple[int, int] | None = None
    preferred_replica: int = -1

    @property
    def held_bytes(self) -> int:
        """How many bytes of the records are in memory."""
        return 0 if isinstance(self.records, Stretch) else len(self.records)


def isolation_of(isolation_level: int, replica_id: int = _CONSUMER) -> str:
    """Return how far a fetch may read: a follower to the log's end."""
    if replica_id >= 0:
        return LOG_END
    return TXN_COMMITTED if isolation_level == READ_COMMITTED else HIGH_WATERMARK


def magic_for(version: int) -> int:
    """Return the newest record format that a version of Fetch carries.

    >>> [magic_for(version) for version in (0, 1, 2, 3, 4)]
    [0, 0, 1, 1, 2]
    """
    return min(version // 2, _LATEST_MAGIC)


def read_partition(broker: BrokerState, partition: Partition, requested: Any, limits: Limits, *, first: bool) -> Read:
    """Read one partition.

    Args:
        limits: of the request; ``max_bytes`` is what is left of it.
        first: nothing was read for the answer yet, so that a batch may be larger than the limits.
    """
    diverging = _diverging(partition, requested)
    if diverging is not None:
        return diverging
    offset: int | None = requested.fetch_offset
    read = Read()
    while offset is not None:
        read, raw = _read(partition, offset, min(requested.partition_max_bytes, limits.max_bytes), limits, first=first)
        if limits.magic >= _LATEST_MAGIC or read.error_code != ErrorCode.NONE:
            break
        read = _in_older_format(broker, partition, requested, read, raw, limits.magic)
        offset = None if read.records or read.error_code != ErrorCode.NONE else _offset_behind(raw)
    return read


def _read(partition: Partition, offset: int, size: int, limits: Limits, *, first: bool) -> tuple[Read, bytes]:
    """Return what the log has from an offset on, and its bytes, if they were read."""
    try:
        data = partition.log.read(
            offset,
            max_bytes=max(size, 0),
            isolation=limits.isolation,
            min_one_message=first and limits.whole_first,
            stretch_bytes=limits.stretch_bytes if limits.magic >= _LATEST_MAGIC else None,
        )
    except KafkaframesError as error:
        return Read(code_of(error)), b""
    end = data.last_stable_offset if limits.isolation == TXN_COMMITTED else data.high_watermark
    if size < 0 and offset < end:
        return Read(ErrorCode.UNKNOWN_SERVER_ERROR), b""  # what Kafka's segment says to a negative size
    records: bytes | Stretch = data.records if data.stretch is None else data.stretch
    if limits.whole_first and data.first_entry_incomplete:
        records = b""
    read = Read(
        ErrorCode.NONE, data.high_watermark, data.last_stable_offset, data.log_start_offset, records, data.aborted
    )
    return read, data.records


def _offset_behind(records: bytes) -> int | None:
    """Return the offset behind batches of which an older format has nothing; None where there is no whole batch.

    They are control batches: a consumer that is given nothing for them would stand still before them for ever, where
    they are all that its fetch holds (the end of a segment).
    """
    last = None
    for batch in _batches(records):
        last = batch
    return None if last is None else int(scan_all(as_array(last), rules=FILE).column("last_offset")[0]) + 1


def _diverging(partition: Partition, requested: Any) -> Read | None:
    """Tell a consumer whose last record was written by another leader where the logs part (KIP-595, KIP-392)."""
    if requested.last_fetched_epoch < 0:
        return None
    log, end = partition.log, partition.end_of_epoch(requested.last_fetched_epoch)
    if end.leader_epoch < 0 or end.end_offset < 0 or requested.fetch_offset < log.log_start_offset:
        return Read(ErrorCode.OFFSET_OUT_OF_RANGE)
    if end.leader_epoch < requested.last_fetched_epoch or end.end_offset < requested.fetch_offset:
        at = end.leader_epoch, end.end_offset
        return Read(ErrorCode.NONE, log.high_watermark, log.last_stable_offset, log.log_start_offset, diverging=at)
    return None


def _in_older_format(
    broker: BrokerState, partition: Partition, requested: Any, read: Read, records: bytes, magic: int
) -> Read:
    """Write the records that were read in an older format, as brokers up to 3.9 do; losses are counted."""
    if len(records) < BYTES_TO_MAGIC or not read.records:
        return read._replace(records=b"")
    if not _needs_conversion(records, magic):
        return read
    if not partition.may_down_convert:
        return Read(ErrorCode.UNSUPPORTED_VERSION)
    converted: list[bytes] = []
    for batch in _batches(records):
        try:
            done = down_convert(batch, magic, first_offset=requested.fetch_offset)
        except AppendRefusedError as error:
            if converted:  # what comes before is given; the consumer meets the error when it asks from here
                break
            return Read(code_of(error))
        converted.append(done.records)
        for what, times in done.lost.items():
            broker.counters[f"lost {what}"] += times
        broker.counters["down_converted_records"] += done.converted
    return read._replace(records=b"".join(converted))


def _batches(records: bytes) -> Iterator[bytes]:
    """Yield the whole batches, each for itself; a part of one at the end is left out."""
    position = 0
    while position + OVERHEAD_BYTES <= len(records):
        end = position + OVERHEAD_BYTES + int.from_bytes(records[position + 8 : position + OVERHEAD_BYTES], "big")
        if end > len(records):
            return
        yield records[position:end]
        position = end


def _needs_conversion(records: bytes, magic: int) -> bool:
    """Return whether a batch among the records has a later format."""
    if records[BYTES_TO_MAGIC - 1] > magic:
        return True
    return any(batch[BYTES_TO_MAGIC - 1] > magic for batch in _batches(records))


class Wait:
    """A fetch that waits until there is enough, its time is up, or something about its partitions changes.

    It looks in turns: a fetch of thousands of partitions took others' time at each append to one of them.
    """

    def __init__(
        self,
        broker: BrokerState,
        partitions: list[Partition],
        max_wait_ms: int,
        attempting: Callable[[bool], Steps[Answer]],
    ) -> None:
        """Begin to wait; ``attempting`` reads, and gives None for not enough, but for the last time."""
        self.later = Later()
        self._broker = broker
        self._partitions = partitions
        self._attempting = attempting
        self._is_last = self._is_looking = self._has_changed = False
        self._timer = broker.waits.call_later(max_wait_ms, self._time_is_up)
        self.later.when_abandoned(self._forget)
        for partition in partitions:
            partition.waiting[self] = self._woken

    def _forget(self) -> None:
        self._timer.cancel()
        for partition in self._partitions:
            partition.waiting.pop(self, None)

    def _time_is_up(self) -> None:
        self._is_last = True
        self._woken()

    def _woken(self) -> None:
        self._has_changed = True
        if not self._is_looking and not self.later.is_done:
            self._broker.changes.beside(self._looking())

    def _looking(self) -> Steps[None]:
        """Look until there is enough, or nothing has changed since the look began."""
        self._is_looking = True
        answer: Answer = None
        try:
            while answer is None and self._has_changed and not self.later.is_done:
                self._has_changed = False
                answer = yield from self._attempting(self._is_last)
        except Exception as error:
            self._forget()
            self.later.fail(error)
        self._is_looking = False
        if answer is not None:
            self._forget()
            self.later.follow(answer)
