"""Count what one segment held and what of it was written, chunk by chunk, and choose the rows to write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.jobs.dump.chunks import Filter
from kafkaframes.records.columns import ReadError
from kafkaframes.records.layout import BATCH_V2

SOURCE_COLUMNS = (
    "key", "value", "offset", "timestamp", "timestamp_type", "headers", "codec", "control", "position", "batch_size",
)  # fmt: skip
CONTROL_RECORDS = "control records (transaction markers)"
NOT_SELECTED = "outside the selected times or keys"
Flags = npt.NDArray[np.bool_]
_BEFORE_SIZE = 12


@dataclass(slots=True)
class Counts:
    """Some batches and records; sizes are in bytes. ``records`` is None where it cannot be known."""

    batches: int = 0
    records: int | None = 0
    log_bytes: int = 0
    payload_bytes: int = 0

    def add(self, other: Counts) -> None:
        """Add another count."""
        self.batches += other.batches
        self.log_bytes += other.log_bytes
        self.payload_bytes += other.payload_bytes
        self.records = None if self.records is None or other.records is None else self.records + other.records


@dataclass(slots=True)
class Tally:
    """What was counted of one segment.

    Attributes:
        records_read: all that were read, control records too.
        records, payload_bytes: written.
        first_timestamp_ms, last_timestamp_ms: of the records written; None where none has one.
        codecs: what was read, by codec; control records are not among it.
        dropped: what was not written, by reason.
    """

    records: int = 0
    records_read: int = 0
    payload_bytes: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    codecs: dict[str, Counts] = field(default_factory=dict)
    dropped: dict[str, Counts] = field(default_factory=dict)
    _last_position: int = -1

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        values = asdict(self)
        del values["_last_position"]
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Tally:
        """Read what ``as_json`` gave."""
        made = cls(**values)
        made.codecs = {name: Counts(**counts) for name, counts in values["codecs"].items()}
        made.dropped = {name: Counts(**counts) for name, counts in values["dropped"].items()}
        return made

    def take(self, batch: pa.RecordBatch, keep: Filter) -> pa.RecordBatch:
        """Count a chunk with ``SOURCE_COLUMNS``; return the rows of it to write."""
        self.records_read += batch.num_rows
        control: Flags = batch.column("control").to_numpy(zero_copy_only=False)
        starts = self._starts_of_batches(batch)
        payload = _payload(batch)
        self._count_codecs(batch, starts, control, payload)
        chosen = _flags_of(batch, keep)
        unwanted = ~chosen
        if not keep.control and control.any():
            counts = Counts(int((starts & control).sum()), int(control.sum()), _sum_of(batch, starts & control))
            self.drop(CONTROL_RECORDS, counts)
            unwanted &= ~control
            chosen &= ~control
        if count := int(unwanted.sum()):
            self.drop(NOT_SELECTED, Counts(0, count))
        if not chosen.all():
            batch, payload = batch.filter(pa.array(chosen)), payload[chosen]
        self._count_written(batch, payload)
        return batch

    @property
    def records_left_out(self) -> dict[str, int]:
        """Reason to records that were read and not written; what damage cost was not read."""
        reasons = (CONTROL_RECORDS, NOT_SELECTED)
        return {one: self.dropped[one].records or 0 for one in reasons if one in self.dropped}

    def begin_source(self) -> None:
        """Say that positions count anew: what follows are other bytes."""
        self._last_position = -1

    def drop(self, reason: str, counts: Counts) -> None:
        """Count what is not written."""
        self.dropped.setdefault(reason, Counts()).add(counts)

    def damage(self, error: ReadError, header: bytes, *, end: int) -> None:
        """Count what damage cost.

        Args:
            header: the bytes where it is, at least a batch's header where there is one.
            end: of the segment.
        """
        if error.base_offset is None:
            self.drop(error.reason, Counts(1, None, end - error.position))
            return
        size = int.from_bytes(header[8:12], "big") + _BEFORE_SIZE
        promised = _promised(header)
        lost = None if promised is None else max(promised - error.records, 0)
        if lost != 0:
            self.drop(error.reason, Counts(1, lost, size))

    def _starts_of_batches(self, batch: pa.RecordBatch) -> Flags:
        """Tell which rows are the first of their batch."""
        positions = batch.column("position").to_numpy()
        starts = np.ones(positions.size, np.bool_)
        starts[1:] = positions[1:] != positions[:-1]
        if positions.size:
            starts[0] = positions[0] != self._last_position
            self._last_position = int(positions[-1])
        return starts

    def _count_codecs(
        self, batch: pa.RecordBatch, starts: Flags, control: Flags, payload: npt.NDArray[np.int64]
    ) -> None:
        codecs = batch.column("codec")
        numbers = codecs.indices.to_numpy()
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            own = (numbers == number) & ~control
            counts = Counts(int((own & starts).sum()), int(own.sum()), _sum_of(batch, own & starts))
            counts.payload_bytes = int(payload.sum(where=own))
            if counts.records:
                self.codecs.setdefault(codecs.dictionary[number].as_py(), Counts()).add(counts)

    def _count_written(self, batch: pa.RecordBatch, payload: npt.NDArray[np.int64]) -> None:
        self.records += batch.num_rows
        self.payload_bytes += int(payload.sum())
        times = _milliseconds(batch)[batch.column("timestamp_type").to_numpy() >= 0]
        if times.size:
            first, last = int(times.min()), int(times.max())
            self.first_timestamp_ms = first if self.first_timestamp_ms is None else min(first, self.first_timestamp_ms)
            self.last_timestamp_ms = last if self.last_timestamp_ms is None else max(last, self.last_timestamp_ms)


def _milliseconds(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    times: npt.NDArray[np.int64] = batch.column("timestamp").view(pa.int64()).to_numpy()
    return times


def _sum_of(batch: pa.RecordBatch, rows: Flags) -> int:
    return int(batch.column("batch_size").to_numpy().sum(where=rows, dtype=np.int64))


def _payload(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the bytes of key, value and headers of each row, as a producer handed them over."""
    total: npt.NDArray[np.int64] = np.zeros(batch.num_rows, np.int64)
    for name in ("key", "value"):
        total += _lengths(batch.column(name))
    headers = batch.column("headers")
    if len(headers.values):
        pairs = _lengths(headers.values.field(0)) + _lengths(headers.values.field(1))
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(pairs)])
        total += np.diff(ends[headers.offsets.to_numpy()])
    return total


def _lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = pc.fill_null(pc.binary_length(array), 0).to_numpy().astype(np.int64)
    return lengths


def _flags_of(batch: pa.RecordBatch, keep: Filter) -> Flags:
    chosen = np.ones(batch.num_rows, np.bool_)
    if keep.from_timestamp is not None:
        chosen &= _milliseconds(batch) >= keep.from_timestamp
    if keep.until_timestamp is not None:
        chosen &= _milliseconds(batch) < keep.until_timestamp
    if keep.keys is not None:
        _narrow(batch.column("key"), chosen, keep.keys.__contains__)
    if keep.key_pattern is not None:
        pattern = keep.key_pattern
        _narrow(batch.column("key"), chosen, lambda key: pattern.search(key) is not None)
    return chosen


def _narrow(keys: pa.Array, chosen: Flags, test: Callable[[bytes], bool]) -> None:
    """Keep rows whose key passes; each different key is looked at once, and a record without one never passes."""
    coded = keys.dictionary_encode()
    passes = np.array([*(test(key) for key in coded.dictionary.to_pylist()), False], np.bool_)
    numbers = pc.fill_null(coded.indices, len(passes) - 1).to_numpy()
    chosen &= passes[numbers]


def _promised(header: bytes) -> int | None:
    """Return how many records a batch's header says; None where its format does not."""
    if len(header) < BATCH_V2.size or header[BATCH_V2.position_of("magic")] != 2:
        return None
    index = BATCH_V2.position_of("count")
    return int.from_bytes(header[index : index + 4], "big", signed=True)


# ----------------------------------------------------------------------------------------------------------- sums


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """One topic as it was written. Timestamps are None where no record has one; sizes are in bytes."""

    topic: str
    partitions: int
    records: int
    payload_bytes: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class CodecSummary:
    """What one codec stored: ``log_bytes`` in segments for ``payload_bytes`` of keys, values and headers."""

    codec: str
    batches: int
    records: int
    log_bytes: int
    payload_bytes: int

    @property
    def ratio(self) -> float:
        """Payload bytes for each byte of log."""
        return self.payload_bytes / self.log_bytes if self.log_bytes else 0.0


@dataclass(frozen=True, slots=True)
class Dropped:
    """What is in the log and not in the output, and why. ``records`` is None where it cannot be known."""

    reason: str
    batches: int
    records: int | None
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of a job. ``internal_topics`` were not asked for; ``records_read`` is how many the log gave."""

    topics: tuple[TopicSummary, ...]
    codecs: tuple[CodecSummary, ...]
    dropped: tuple[Dropped, ...]
    internal_topics: tuple[str, ...]
    output: str
    seconds: float
    records_read: int | None = None

    @property
    def records(self) -> int:
        """Records written."""
        return sum(topic.records for topic in self.topics)
