"""Append what a producer sends to one partition: what Kafka checks before the log does, and what is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkaframes.broker.changes import Waiting
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import Partition
from kafkaframes.errors import AppendRefusedError, ErrorCode, KafkaframesError, RecordRefusal, code_of
from kafkaframes.records.append.settings import Raw
from kafkaframes.records.codecs import Codec
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, TRANSACTIONAL
from kafkaframes.records.limits import CONTENT, ApartError, ContentBudget
from kafkaframes.storage.files.headers import BatchHeader, first_header

ALL_REPLICAS = -1
_TURN_BYTES = 1 << 20  # of batches, before others have a turn, and of what is in those that are compressed a lot
_TURN_CONTENT_BYTES = 8 << 20
_TURN_APPENDS = 50  # the first one in a partition makes its files: half a millisecond, more on a busy disk
_FIRST_WITH_V2 = 3
_FIRST_WITH_ZSTD = 7

# Refusals that are answered without the log's start (ReplicaManager.appendToLocalLog).
_WITHOUT_START = frozenset({"CorruptRecordException", "RecordTooLargeException", "RecordBatchTooLargeException"})


class Outcome(NamedTuple):
    """What a producer is answered for one partition; the fields are ProduceResponse's."""

    error_code: int = ErrorCode.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[RecordRefusal, ...] = ()
    error_message: str | None = None


def refused(code: ErrorCode, message: str) -> Outcome:
    """Return the outcome of an error code, with its reason."""
    return Outcome(code, error_message=message)


class Produced(NamedTuple):
    """The records of one partition of a request, and the header of the batch that they begin with, read once.

    Attributes:
        records: a bytearray is the log's from the append on, which writes offsets into it.
        header: of format 2, else None; what a batch that ends inside it does not have is -1.
    """

    records: Raw
    header: BatchHeader | None

    @property
    def is_transactional(self) -> bool:
        """Whether the records begin with a batch of a transaction."""
        records, header = self
        return header is not None and len(records) >= BATCH_V2.size and bool(header.attributes & TRANSACTIONAL)


def produced(records: Raw | None) -> Produced:
    """Return records with the header that they begin with; null is as good as none."""
    records = records or b""
    return Produced(records, first_header(records))


def check_form(version: int, sent: Produced) -> Outcome | None:
    """Refuse what a version of Produce does not carry (ProduceRequest.validateRecords); None: all is well."""
    if version < _FIRST_WITH_V2:
        return None
    records, header = sent
    if header is None:
        if len(records) < BYTES_TO_MAGIC:
            return refused(
                ErrorCode.INVALID_RECORD, f"Produce {version} carries exactly one batch for a partition, here is none"
            )
        return refused(
            ErrorCode.INVALID_RECORD, f"Produce {version} carries format 2, not {records[BYTES_TO_MAGIC - 1]}"
        )
    if header.size > len(records):
        return refused(ErrorCode.INVALID_RECORD, "the batch ends before its size says so")
    if version < _FIRST_WITH_ZSTD and header.codec == Codec.ZSTD:
        return refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce {_FIRST_WITH_ZSTD}, not {version}")
    if header.size < len(records):
        return refused(
            ErrorCode.INVALID_RECORD, f"Produce {version} carries exactly one batch for a partition, here are more"
        )
    return None


class Turns:
    """The work of one request: when others are to have a turn, and what its batches may take when they are opened."""

    __slots__ = ("_appended_bytes", "_appends", "_seen_bytes", "content")

    def __init__(self, request_bytes: int) -> None:
        self.content = ContentBudget(request_bytes, opens_apart=True)
        self._appended_bytes = self._seen_bytes = self._appends = 0

    def is_due(self, records: Raw) -> bool:
        """Return whether the work since the last turn, with these records that were appended, is enough for one."""
        self._appended_bytes += len(records)
        self._appends += 1
        is_due = (
            self._appends >= _TURN_APPENDS
            or self._appended_bytes >= _TURN_BYTES
            or self.content.spent_bytes - self._seen_bytes >= _TURN_CONTENT_BYTES
        )
        if is_due:
            self._appended_bytes, self._appends, self._seen_bytes = 0, 0, self.content.spent_bytes
        return is_due


def opening(broker: BrokerState, content: ContentBudget, call: Callable[[], Outcome]) -> Waiting[Outcome]:
    """Append by ``call``; what takes long to open is opened beside the loop, and the append begins anew with it."""
    while True:
        try:
            outcome = call()
        except ApartError as needed:
            content.opened[needed.name] = yield from broker.changes.apart(needed.work)
        else:
            content.opened.clear()
            return outcome


def append(
    broker: BrokerState, partition: Partition, sent: Produced, *, acks: int, content: ContentBudget | None = None
) -> Outcome:
    """Append records to a partition that is led here.

    Args:
        content: what the request's batches may still take when they are opened; None: no request has others.

    Raises:
        ApartError: something has to be opened first (``opening``); nothing has changed.
    """
    token = CONTENT.set(content)
    try:
        return _append(broker, partition, sent, acks=acks)
    finally:
        CONTENT.reset(token)


def _append(broker: BrokerState, partition: Partition, sent: Produced, *, acks: int) -> Outcome:
    if broker.is_read_only:
        return refused(ErrorCode.POLICY_VIOLATION, "the broker serves a directory that is only read")
    log = partition.log
    if log.is_closed:
        return refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic is deleted")
    if acks == ALL_REPLICAS and partition.is_under_min_isr:
        reason = f"min.insync.replicas is {partition.min_insync_replicas}, in sync are {len(partition.in_sync)}"
        return refused(ErrorCode.NOT_ENOUGH_REPLICAS, reason)
    if broker.logs.is_offline:
        return refused(ErrorCode.KAFKA_STORAGE_ERROR, str(broker.logs.disk.failure))
    try:
        info = log.append_as_leader(
            sent.records, header=sent.header, leader_epoch=partition.leader_epoch, now_ms=broker.clock.now_ms
        )
    except AppendRefusedError as error:
        return Outcome(
            code_of(error),
            log_start_offset=-1 if error.exception in _WITHOUT_START else log.log_start_offset,
            record_errors=error.record_errors,
            error_message=error.reason,
        )
    except KafkaframesError as error:
        return Outcome(code_of(error), error_message=str(error))
    if not info.is_duplicate:
        log.update_high_watermark(log.log_end_offset)
        partition.leader_epoch = max(partition.leader_epoch, info.last_leader_epoch)  # a mirror's batches keep theirs
        broker.appended(partition)
        if info.recompressed_bytes:
            broker.counters["recompressed_bytes"] += info.recompressed_bytes
    return Outcome(ErrorCode.NONE, info.first_offset, info.append_time_ms, log.log_start_offset)
