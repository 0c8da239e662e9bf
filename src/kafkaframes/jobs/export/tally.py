"""Count the records that are read from a segment and the records that are written, and select the rows to write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.jobs.dump.chunks import RecordFilter
from kafkaframes.records.columns import ReadError
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.scan.fingerprints import MAX_FINGERPRINTS, Fingerprint, fingerprint_last_rows

SOURCE_COLUMNS = (
    "key", "value", "offset", "timestamp", "timestamp_type", "headers", "codec", "control", "position", "batch_size",
)  # fmt: skip
CONTROL_RECORDS_REASON = "control records (transaction markers)"
NOT_SELECTED_REASON = "outside the selected times or keys"
Flags = npt.NDArray[np.bool_]
_HEADER_BYTES_BEFORE_SIZE = 12  # bytes of the base offset and the batch length, which the batch length does not count


@dataclass(slots=True)
class RecordCounts:
    """Counts of batches and records. Sizes are in bytes. ``records`` is None if the number is unknown."""

    batches: int = 0
    records: int | None = 0
    log_bytes: int = 0
    payload_bytes: int = 0

    def add_counts(self, other: RecordCounts) -> None:
        """Add another count."""
        self.batches += other.batches
        self.log_bytes += other.log_bytes
        self.payload_bytes += other.payload_bytes
        self.records = None if self.records is None or other.records is None else self.records + other.records


@dataclass(slots=True)
class SegmentTally:
    """The counts of one segment.

    Attributes:
        records_read: number of records that were read, including control records.
        records, payload_bytes: number and size of the written records.
        first_timestamp_ms, last_timestamp_ms: smallest and largest timestamp of the written records; None if no record
            has a timestamp.
        codecs: counts of the read batches by codec, without control records.
        dropped: counts of batches and records that were not written, by reason.
        last_records: fingerprints of the last records that were read, whether or not they were written.
    """

    records: int = 0
    records_read: int = 0
    payload_bytes: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    codecs: dict[str, RecordCounts] = field(default_factory=dict)
    dropped: dict[str, RecordCounts] = field(default_factory=dict)
    last_records: tuple[Fingerprint, ...] = ()
    _last_position: int = -1

    def as_json(self) -> dict[str, Any]:
        """Return the counts as a JSON object."""
        values = asdict(self)
        del values["_last_position"]
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> SegmentTally:
        """Create counts from the values that ``as_json`` returned."""
        tally = cls(**values)
        tally.codecs = {name: RecordCounts(**counts) for name, counts in values["codecs"].items()}
        tally.last_records = tuple(Fingerprint(*row) for row in values.get("last_records", ()))
        tally.dropped = {name: RecordCounts(**counts) for name, counts in values["dropped"].items()}
        return tally

    def count_and_filter_rows(self, batch: pa.RecordBatch, record_filter: RecordFilter) -> pa.RecordBatch:
        """Count a chunk of rows with ``SOURCE_COLUMNS``, and return the rows to write."""
        self.records_read += batch.num_rows
        is_control: Flags = batch.column("control").to_numpy(zero_copy_only=False)
        self.last_records = (*self.last_records, *fingerprint_last_rows(batch, ~is_control))[-MAX_FINGERPRINTS:]
        starts = self._mask_batch_starts(batch)
        payload = _compute_payload_sizes(batch)
        self._count_codecs(batch, starts, is_control, payload)
        is_selected = _mask_selected_rows(batch, record_filter)
        is_omitted = ~is_selected
        if not record_filter.control and is_control.any():
            counts = RecordCounts(
                int((starts & is_control).sum()), int(is_control.sum()), _sum_of(batch, starts & is_control)
            )
            self.count_dropped(CONTROL_RECORDS_REASON, counts)
            is_omitted &= ~is_control
            is_selected &= ~is_control
        if count := int(is_omitted.sum()):
            self.count_dropped(NOT_SELECTED_REASON, RecordCounts(0, count))
        if not is_selected.all():
            batch, payload = batch.filter(pa.array(is_selected)), payload[is_selected]
        self._count_written_rows(batch, payload)
        return batch

    @property
    def records_left_out(self) -> dict[str, int]:
        """The number of records that were read but not written, by reason. Unreadable records are not included."""
        reasons = (CONTROL_RECORDS_REASON, NOT_SELECTED_REASON)
        return {reason: self.dropped[reason].records or 0 for reason in reasons if reason in self.dropped}

    def begin_source_file(self) -> None:
        """Prepare for batches from a new source file.

        Positions in the new file are unrelated to positions in the previous file.
        """
        self._last_position = -1

    def count_dropped(self, reason: str, counts: RecordCounts) -> None:
        """Count batches and records that are not written."""
        self.dropped.setdefault(reason, RecordCounts()).add_counts(counts)

    def count_damaged(self, error: ReadError, header: bytes, *, end: int) -> None:
        """Count the batches and records that are lost through damage.

        Args:
            error: the read error.
            header: bytes at the damaged position, at least a whole batch header if the file is long enough.
            end: end position of the segment.
        """
        if error.base_offset is None:
            self.count_dropped(error.reason, RecordCounts(1, None, end - error.position))
            return
        size = int.from_bytes(header[8:12], "big") + _HEADER_BYTES_BEFORE_SIZE
        header_count = _parse_record_count(header)
        lost_count = None if header_count is None else max(header_count - error.records, 0)
        if lost_count != 0:
            self.count_dropped(error.reason, RecordCounts(1, lost_count, size))

    def _mask_batch_starts(self, batch: pa.RecordBatch) -> Flags:
        """Return a flag for each row: whether it is the first row of its batch."""
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
        """Count the batches and records of each codec, without control batches."""
        codecs = batch.column("codec")
        numbers = codecs.indices.to_numpy()
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            codec_counts = (numbers == number) & ~control
            counts = RecordCounts(
                int((codec_counts & starts).sum()), int(codec_counts.sum()), _sum_of(batch, codec_counts & starts)
            )
            counts.payload_bytes = int(payload.sum(where=codec_counts))
            if counts.records:
                self.codecs.setdefault(codecs.dictionary[number].as_py(), RecordCounts()).add_counts(counts)

    def _count_written_rows(self, batch: pa.RecordBatch, payload: npt.NDArray[np.int64]) -> None:
        """Count the rows to write, their payload bytes and their time range."""
        self.records += batch.num_rows
        self.payload_bytes += int(payload.sum())
        times = _convert_timestamps_to_ms(batch)[batch.column("timestamp_type").to_numpy() >= 0]
        if times.size:
            first, last = int(times.min()), int(times.max())
            self.first_timestamp_ms = first if self.first_timestamp_ms is None else min(first, self.first_timestamp_ms)
            self.last_timestamp_ms = last if self.last_timestamp_ms is None else max(last, self.last_timestamp_ms)


def _convert_timestamps_to_ms(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    times: npt.NDArray[np.int64] = batch.column("timestamp").view(pa.int64()).to_numpy()
    return times


def _sum_of(batch: pa.RecordBatch, rows: Flags) -> int:
    return int(batch.column("batch_size").to_numpy().sum(where=rows, dtype=np.int64))


def _compute_payload_sizes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the size of each row's key, value and headers in bytes, without the encoding's overhead."""
    total: npt.NDArray[np.int64] = np.zeros(batch.num_rows, np.int64)
    for name in ("key", "value"):
        total += _compute_lengths(batch.column(name))
    headers = batch.column("headers")
    if len(headers.values):
        pairs = _compute_lengths(headers.values.field(0)) + _compute_lengths(headers.values.field(1))
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(pairs)])
        total += np.diff(ends[headers.offsets.to_numpy()])
    return total


def _compute_lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the length of each value in bytes, 0 for null."""
    lengths: npt.NDArray[np.int64] = pc.fill_null(pc.binary_length(array), 0).to_numpy().astype(np.int64)
    return lengths


def _mask_selected_rows(batch: pa.RecordBatch, record_filter: RecordFilter) -> Flags:
    """Return a flag for each row: whether its timestamp and key are selected."""
    is_selected = np.ones(batch.num_rows, np.bool_)
    if record_filter.from_timestamp is not None:
        is_selected &= _convert_timestamps_to_ms(batch) >= record_filter.from_timestamp
    if record_filter.until_timestamp is not None:
        is_selected &= _convert_timestamps_to_ms(batch) < record_filter.until_timestamp
    if record_filter.keys is not None:
        _filter_by_key(batch.column("key"), is_selected, record_filter.keys.__contains__)
    if record_filter.key_pattern is not None:
        pattern = record_filter.key_pattern
        _filter_by_key(batch.column("key"), is_selected, lambda key: pattern.search(key) is not None)
    return is_selected


def _filter_by_key(keys: pa.Array, is_selected: Flags, matches: Callable[[bytes], bool]) -> None:
    """Clear the flags of rows whose key fails the test. Each distinct key is tested once. A null key always fails."""
    dictionary_keys = keys.dictionary_encode()
    passes = np.array([*(matches(key) for key in dictionary_keys.dictionary.to_pylist()), False], np.bool_)
    numbers = pc.fill_null(dictionary_keys.indices, len(passes) - 1).to_numpy()
    is_selected &= passes[numbers]


def _parse_record_count(header: bytes) -> int | None:
    """Return the record count in a batch header, or None if the batch is not of format 2."""
    if len(header) < BATCH_V2.size or header[BATCH_V2.position_of("magic")] != 2:
        return None
    index = BATCH_V2.position_of("count")
    return int.from_bytes(header[index : index + 4], "big", signed=True)


# ----------------------------------------------------------------------------------------------------------- sums


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """Totals of a topic's written records. Timestamps are None if no record has one. Sizes are in bytes."""

    topic: str
    partitions: int
    records: int
    payload_bytes: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class CodecSummary:
    """Totals of a codec: ``log_bytes`` in segments, and ``payload_bytes`` of keys, values and headers."""

    codec: str
    batches: int
    records: int
    log_bytes: int
    payload_bytes: int

    @property
    def compression_ratio(self) -> float:
        """The payload bytes per byte of log."""
        return self.payload_bytes / self.log_bytes if self.log_bytes else 0.0


@dataclass(frozen=True, slots=True)
class DroppedTotals:
    """Totals of records that were omitted from the output for one reason. ``records`` is None if unknown."""

    reason: str
    batches: int
    records: int | None
    log_bytes: int


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """The totals of a job. ``internal_topics`` are the internal topics that were not selected."""

    topics: tuple[TopicSummary, ...]
    codecs: tuple[CodecSummary, ...]
    dropped: tuple[DroppedTotals, ...]
    internal_topics: tuple[str, ...]
    output: str
    seconds: float

    @property
    def records(self) -> int:
        """The number of written records."""
        return sum(topic.records for topic in self.topics)
