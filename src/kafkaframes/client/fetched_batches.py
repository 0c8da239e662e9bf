"""The fetched batches of one partition in a Fetch response, read as Arrow columns or as Python values. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, islice, repeat
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import UnsupportedFormatError
from kafkaframes.records.arrays import int64_values, repeat_value
from kafkaframes.records.columns import DEFAULT_COLUMNS, ReadError, ReadOptions, RecordReader
from kafkaframes.records.fields import NO_TIMESTAMP
from kafkaframes.records.memory import Recycler
from kafkaframes.records.reasons import FAIL
from kafkaframes.records.scan import BatchHeaders, MemorySource, as_array, scan_all

if TYPE_CHECKING:
    from kafkaframes.storage.log.transactions import TransactionState

_ARROW_BATCH_BYTES: Final = 8 << 20  # size of the records in one Arrow batch
# From pyarrow 26 on, to_pylist takes 25 ns a value instead of 600 ns. to_numpy is as fast, but imports pandas, which
# delays the first poll by a second.
_HAS_FAST_TO_PYLIST: Final = int(pa.__version__.partition(".")[0]) >= 26
# Number of rows whose Python values are created together. They are read while they are in the processor's cache.
_ROWS_PER_GROUP: Final = 4_096
TARGET_COLUMNS: Final = {"topic": pa.string(), "partition": pa.int32()}


@dataclass(slots=True)
class FetchedBatches:
    """Fetched batches of one partition.

    Attributes:
        partition: the partition.
        fetch_offset: requested offset. The first batch may start below this offset.
        data: batches; the last one may be incomplete. The client reuses this memory when no object refers to it;
            ``bytes(data)`` is a copy.
        high_watermark: high watermark of the partition; -1 if unknown.
        last_stable_offset: last stable offset of the partition; -1 if unknown.
        log_start_offset: log start offset of the partition; -1 if unknown.
        aborted_transactions: producer id and first offset of each aborted transaction in ``data``; None without
            read_committed.
        batches: headers of the complete batches.
        formats: distinct record formats of the batches.
        next_offset: offset after the last complete batch; ``fetch_offset`` without a complete batch.
        leader_epoch: leader epoch of the last batch; -1 without a complete batch.
    """

    partition: TopicPartition
    fetch_offset: int
    data: bytes | memoryview
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    batches: BatchHeaders = field(init=False, repr=False, compare=False)
    formats: frozenset[int] = field(init=False, repr=False)
    next_offset: int = field(init=False, repr=False)
    leader_epoch: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.batches = batches = scan_all(self.data)
        self.formats = frozenset(batches.column("magic").tolist())
        last, epochs = batches.column("last_offset"), batches.column("leader_epoch")
        self.next_offset = max(int(last[-1]) + 1, self.fetch_offset) if len(last) else self.fetch_offset
        self.leader_epoch = int(epochs[-1]) if len(epochs) else -1

    def select_formats(self, formats: Sequence[int]) -> FetchedBatches:
        """Return the batches before the first one with a format that is not accepted.

        Args:
            formats: accepted record formats.

        Raises:
            UnsupportedFormatError: the first batch has another format.
        """
        if self.formats.issubset(formats):
            return self
        magics = self.batches.column("magic").tolist()
        first = next(index for index, magic in enumerate(magics) if magic not in formats)
        if first == 0:
            raise UnsupportedFormatError(str(self.partition), self.fetch_offset, magics[0], tuple(formats))
        return replace(self, data=self.data[: int(self.batches.column("position")[first])])

    @property
    def record_count(self) -> int:
        """Number of records in the batches from ``fetch_offset`` on, according to the batch headers."""
        return int(self.batches.column("count")[self.batches.column("last_offset") >= self.fetch_offset].sum())

    def read(
        self,
        columns: Sequence[str] = DEFAULT_COLUMNS,
        *,
        end_offset: int | None = None,
        verify_crc: bool = True,
        memory: Recycler | None = None,
        on_damage: str = FAIL,
        control_records: bool = False,
        errors: list[ReadError] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Return the records from ``fetch_offset`` on, without those of aborted transactions.

        Args:
            columns: column names, as for ``kafkaframes.read_records``.
            end_offset: exclusive end offset; None reads to the end.
            verify_crc: whether a wrong CRC is an error.
            memory: memory pool for arrays, shared by several reads.
            on_damage: treatment of damaged batches: ``keep``, ``drop`` or ``fail``.
            control_records: whether control records are returned.
            errors: list to which the errors of damaged batches are appended, unless ``on_damage`` is ``fail``.

        Raises:
            CorruptRecordError: a batch is damaged and ``on_damage`` is ``fail``. The position in the error is relative
                to ``data``.
        """
        batches, name = self.batches, str(self.partition)
        begins_before = bool(len(batches)) and not (
            batches.column("magic")[0] >= 2 and batches.column("base_offset")[0] >= self.fetch_offset
        )
        options = ReadOptions(
            columns=columns,
            on_damage=on_damage,
            verify_crc=verify_crc,
            control_records=control_records or not batches.is_control.any(),
            first_offset=self.fetch_offset if begins_before else None,
            end_offset=end_offset,
            chunk_bytes=_ARROW_BATCH_BYTES,
            part_bytes=_ARROW_BATCH_BYTES,
            unwanted=self.transactions.mask_aborted_batches if self.aborted_transactions else None,
        )
        source = MemorySource(as_array(self.data), name)
        return iter(RecordReader(source, options, errors=errors, memory=memory, batches=batches))

    def from_offset(self, offset: int) -> FetchedBatches:
        """Return the same batches without the records below an offset.

        Args:
            offset: offset of the first record.
        """
        first = int(np.searchsorted(self.batches.column("last_offset"), offset))
        if self.aborted_transactions:  # the earlier batches are needed to find aborted transactions
            return replace(self, fetch_offset=offset)
        start = int(self.batches.column("position")[first]) if first < len(self.batches) else 0
        return replace(self, fetch_offset=offset, data=memoryview(self.data)[start:])

    @property
    def transactions(self) -> TransactionState:
        """The transactions whose records in ``data`` a read_committed reader skips."""
        # Imported here: the import takes 15 ms, and few tasks need it.
        from kafkaframes.storage.log.transactions import collect_fetched_transactions

        return collect_fetched_transactions(self.data, self.batches, self.aborted_transactions or ())


class ConsumerRecord(NamedTuple):
    """A record that ``poll`` or an iteration returns.

    Attributes:
        topic: topic name.
        partition: partition number.
        offset: offset of the record.
        timestamp: milliseconds since 1970; -1 if the record has no timestamp.
        key: key as bytes; None if the record has no key.
        value: value as bytes; None is a tombstone.
        headers: pairs of a name and bytes, or None for a header without a value.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@lru_cache(maxsize=64)
def resolve_columns(columns: tuple[str, ...]) -> tuple[tuple[str, ...], pa.Schema]:
    """Return the columns other than topic and partition, and the schema of all columns."""
    record_columns = tuple(name for name in columns if name not in TARGET_COLUMNS)
    record_schema = ReadOptions(columns=record_columns).validate().schema
    return record_columns, pa.schema(
        [(name, TARGET_COLUMNS.get(name) or record_schema.field(name).type) for name in columns]
    )


def select_output_columns(
    batch: pa.RecordBatch, partition: TopicPartition, columns: Sequence[str], schema: pa.Schema
) -> pa.RecordBatch:
    """Return the requested columns of a batch, with topic and partition if they are requested."""
    if batch.schema.names == list(columns):
        return batch
    target: dict[str, str | int] = {"topic": partition.topic, "partition": partition.partition}
    arrays = [
        repeat_value(target[name], TARGET_COLUMNS[name], batch.num_rows) if name in target else batch.column(name)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class RecordIterator:
    """An iterator over fetched records of one partition as Python values. Each record is created when it is taken.

    One thread may iterate while another interrupts or drops the records under the GIL, because C code creates each
    record as a whole.

    Attributes:
        partition: partition of the records.
    """

    __slots__ = (
        "_batch",
        "_counted_records",
        "_gate",
        "_is_interrupted",
        "_offsets",
        "_records",
        "_taken_before_drop",
        "_unread",
        "partition",
    )

    def __init__(self, batch: pa.RecordBatch, partition: TopicPartition) -> None:
        """Create an iterator over a batch with the default columns."""
        self.partition = partition
        self._batch = batch
        self._offsets: list[int] = int64_values(batch.column("offset")).tolist()
        self._unread = iter(self._offsets)  # iterates over the records that the caller has not taken
        self._taken_before_drop: int | None = None  # number of taken records when the remaining records were dropped
        self._counted_records = 0
        self._restart_iteration()

    def count_newly_taken(self) -> int:
        """Return the number of records that were taken since the last call."""
        taken_count = self._taken_count
        count, self._counted_records = taken_count - self._counted_records, taken_count
        return count

    @property
    def _taken_count(self) -> int:
        """The number of records that were taken so far."""
        if self._taken_before_drop is not None:
            return self._taken_before_drop
        return len(self._offsets) - length_hint(self._unread)

    @property
    def unread_count(self) -> int:
        """The number of remaining records."""
        return length_hint(self._unread)

    @property
    def position(self) -> int:
        """The offset of the next record, which must exist."""
        return self._offsets[-length_hint(self._unread)]

    @property
    def is_empty(self) -> bool:
        """Whether all records were taken or dropped."""
        return not length_hint(self._unread)

    @property
    def is_interrupted(self) -> bool:
        """Whether the iteration was interrupted before all records were taken."""
        return self._is_interrupted

    def interrupt(self) -> None:
        """End an iteration before its next record. ``resume`` continues it."""
        self._is_interrupted = True
        # Cleared after the flag is set, so that a concurrent step sees at least one of the two changes.
        self._gate.clear()

    def resume(self) -> None:
        """Let the next iteration start with the first record that was not taken."""
        if self._is_interrupted:
            self._restart_iteration()

    def _restart_iteration(self) -> None:
        self._is_interrupted = False
        self._gate: list[str] = []
        self._records = map(_create_record, chain.from_iterable(self._iterate_record_groups()))

    def drop_remaining(self) -> None:
        """End the iteration and drop the remaining records."""
        self.interrupt()
        self._taken_before_drop = self._taken_count
        self._offsets.clear()

    def take_records(self, count: int) -> list[ConsumerRecord]:
        """Return the next records, at most ``count``."""
        self.resume()
        return list(islice(self._records, count))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self._records

    def _iterate_record_groups(self) -> Iterator[Iterable[Any]]:
        """Yield groups of records, each record as its fields, until no offset remains."""
        first = len(self._offsets) - length_hint(self._unread)
        for row in range(first, self._batch.num_rows, _ROWS_PER_GROUP):
            part = self._batch.slice(row, _ROWS_PER_GROUP)
            self._gate = gate = [self.partition.topic] * part.num_rows
            if self._is_interrupted or not length_hint(self._unread):
                return
            yield _iterate_fields(part, gate, self._unread, self.partition)


class BufferedBatches:
    """Fetched batches of one partition that the caller has not read yet.

    The batches are decoded when the caller reads them.

    Attributes:
        next_offset: offset after the last batch.
        leader_epoch: leader epoch of the last batch.
        is_opened: whether a batch was decoded.
        decoded_bytes: size of the columns that the last ``decode_columns`` has decoded so far.
    """

    __slots__ = (
        "_fetched_batches",
        "_opened_records",
        "_undecoded",
        "decoded_bytes",
        "is_opened",
        "leader_epoch",
        "next_offset",
    )

    def __init__(self, fetched_batches: FetchedBatches) -> None:
        self._fetched_batches = fetched_batches  # contains all batches, because their leader epochs are needed
        self._undecoded: FetchedBatches | None = fetched_batches  # the batches that are not decoded yet
        self._opened_records: deque[RecordIterator] = deque()
        self.is_opened = False
        self.decoded_bytes = 0
        self.next_offset = fetched_batches.next_offset
        self.leader_epoch = fetched_batches.leader_epoch

    @property
    def is_empty(self) -> bool:
        """Whether all records were returned."""
        return self._undecoded is None and self.next_records is None

    @property
    def next_records(self) -> RecordIterator | None:
        """The decoded records to return next; None if more must be decoded."""
        while self._opened_records:
            records = self._opened_records[0]
            if not records.is_empty:
                return records
            self._opened_records.popleft()
        return None

    @property
    def position(self) -> int:
        """The offset of the next record."""
        if (records := self.next_records) is not None:
            return records.position
        return self.next_offset if self._undecoded is None else self._undecoded.fetch_offset

    def last_leader_epoch(self, default: int) -> int:
        """Return the leader epoch of the batch before the position; ``default`` if no record was returned."""
        position = self.position
        return default if position <= self._fetched_batches.fetch_offset else self._find_epoch_before(position)

    def _find_epoch_before(self, offset: int) -> int:
        """Return the leader epoch of the batch that contains the last offset before the given offset."""
        batches = self._fetched_batches.batches
        row = int(np.searchsorted(batches.column("last_offset"), offset - 1))
        return int(batches.column("leader_epoch")[min(row, len(batches) - 1)])

    def take_bytes(self) -> FetchedBatches | None:
        """Remove and return all remaining batches as bytes."""
        position = self.position
        if self.is_empty:
            return None
        self.stop()
        fetched_batches = self._fetched_batches
        self.next_offset, self.leader_epoch = fetched_batches.next_offset, fetched_batches.leader_epoch
        return fetched_batches if position == fetched_batches.fetch_offset else fetched_batches.from_offset(position)

    @property
    def size_bytes(self) -> int:
        """The size of the fetched batches."""
        return len(self._fetched_batches.data)

    def select_formats(self, formats: Sequence[int]) -> None:
        """Keep the batches before the first one in another format.

        The first batch in another format is fetched again later, and rejected then.

        Raises:
            UnsupportedFormatError: the next batch has another format. If this error is raised, no batch is removed.
        """
        if self._undecoded is None or self._fetched_batches.formats.issubset(formats):
            return
        self._fetched_batches = self._undecoded = self._undecoded.select_formats(formats)
        self.next_offset, self.leader_epoch = self._undecoded.next_offset, self._undecoded.leader_epoch

    def undo_decoding(self) -> None:
        """Undo the decoding of records that were not returned, so that they can be decoded to other columns."""
        if self._opened_records:
            position = self.position
            for records in self._opened_records:
                records.drop_remaining()
            self._opened_records.clear()
            self._undecoded = self._fetched_batches.from_offset(position)
            self.next_offset, self.leader_epoch = self._fetched_batches.next_offset, self._fetched_batches.leader_epoch

    def decode_columns(self, columns: Sequence[str], budget_bytes: int, **options: Any) -> Iterator[pa.RecordBatch]:
        """Decode and yield columns, until ``budget_bytes`` are decoded. Batches that are not decoded remain for the
        next call.

        Raises:
            CorruptRecordError: a batch is damaged. Until a seek, each further call reads the damaged batch again and
                raises the error again.
        """
        self.is_opened, self.decoded_bytes = True, 0
        undecoded, self._undecoded = self._undecoded, None
        if undecoded is None:
            return
        next_offset = undecoded.fetch_offset
        try:
            for batch in undecoded.read(columns, **options):
                if batch.num_rows:
                    next_offset = batch.column("offset")[-1].as_py() + 1
                self.decoded_bytes += batch.nbytes
                yield batch
                if self.decoded_bytes >= budget_bytes:
                    self._undecoded = undecoded.from_offset(next_offset) if next_offset < self.next_offset else None
                    return
        except Exception:
            self.next_offset, self.leader_epoch = next_offset, self._find_epoch_before(next_offset)
            raise

    def decode_records(self, budget_bytes: int, **options: Any) -> None:
        """Decode records for ``next_records``.

        Raises the same errors as ``decode_columns``, and keeps the records before the damage.
        """
        for batch in self.decode_columns(DEFAULT_COLUMNS, budget_bytes, **options):
            self._opened_records.append(RecordIterator(batch, self._fetched_batches.partition))

    def interrupt(self) -> None:
        """End an iteration before its next record. A later iteration continues."""
        for records in self._opened_records:
            records.interrupt()

    def stop(self) -> None:
        """Return no more records."""
        self._undecoded = None
        for records in self._opened_records:
            records.drop_remaining()


_create_record: Final = cast("Callable[[Iterable[Any]], ConsumerRecord]", partial(tuple.__new__, ConsumerRecord))


def _iterate_fields(
    batch: pa.RecordBatch, topics: list[str], offsets: Iterator[int], partition: TopicPartition
) -> Iterable[tuple[Any, ...]]:
    """Return an iterator over the fields of each record.

    The iterator runs in C only, and ends when ``topics`` is cleared.
    """
    headers = batch.column("headers")
    columns = (
        iter(topics),  # zip stops at this iterator first, so that no offset is consumed without its record
        repeat(partition.partition),
        offsets,
        int64_values(batch.column("timestamp"), null_value=NO_TIMESTAMP).tolist(),
        _to_byte_strings(batch.column("key")),
        _to_byte_strings(batch.column("value")),
        repeat(()) if _has_no_entries(headers) else _to_header_pairs(headers),
    )
    return zip(*columns, strict=False)


def _to_byte_strings(column: pa.Array) -> Iterable[bytes | None]:
    """Return a column of bytes as Python values."""
    if column.null_count == len(column):
        return repeat(None)
    values: list[bytes | None]
    values = column.to_pylist() if _HAS_FAST_TO_PYLIST else column.to_numpy(zero_copy_only=False).tolist()
    return values


def _has_no_entries(headers: pa.Array) -> bool:
    return headers.null_count == len(headers) or not len(headers.flatten())


def _to_header_pairs(headers: pa.Array) -> list[tuple[tuple[str, bytes | None], ...]]:
    return [tuple((entry["key"], entry["value"]) for entry in entries or ()) for entries in headers.to_pylist()]
