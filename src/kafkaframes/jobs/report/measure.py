"""Measure one segment: verify it and count its contents while the file is read once.

Every batch is decompressed and its records are indexed. Keys and values are not copied. The records of a batch with a
CRC mismatch, and of a batch that cannot be read to its end, are counted as lost, not as records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkaframes.jobs.report.histograms import DistinctCounter, SizeHistogram, TimeHistogram, hash_keys
from kafkaframes.jobs.verify.verify_segment import VerifiedSegment, verify_segment
from kafkaframes.records import decode
from kafkaframes.records.decoded import DecodedBatches, RecordIndex
from kafkaframes.records.layout import (
    BATCH_V2,
    CODECS,
    COLUMN_INDEX,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    OVERHEAD_BYTES,
)
from kafkaframes.records.memory import Recycler
from kafkaframes.records.reasons import CRC_MISMATCH
from kafkaframes.records.scan import BatchHeaders, Chunk, Ints, as_array, split_chunk
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.scan import SegmentWindow

_MAX_PART_BYTES = 2 << 20  # size of the batches that are decompressed together; it fits into the CPU caches
TRANSACTION_COLUMNS = ("producer_id", "producer_epoch", "base_offset", "base_timestamp", "max_timestamp", "attributes")
NO_PRODUCER = -1
_NO_MIN_TIMESTAMP = np.iinfo(np.int64).max


class MeasureTask(NamedTuple):
    """A segment that a worker process verifies, and measures if ``measure`` is set."""

    filesystem: FileSystem
    segment: Segment
    measure: bool = True


@dataclass(slots=True)
class DamagedBatch:
    """A damaged batch.

    Attributes:
        declared: number of records that the batch header declares; -1 if it does not declare a number.
        readable: number of records before the damage. If the CRC is wrong, Kafka's consumer does not return these
            records.
    """

    file: str
    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    declared: int
    readable: int
    reason: str


@dataclass(slots=True)
class FormatCounts:
    """The counts of batches in one format and codec.

    ``raw_bytes`` is the uncompressed size of the batches; control records do not count.
    """

    format: str
    codec: str
    batches: int = 0
    records: int = 0
    log_bytes: int = 0
    raw_bytes: int = 0

    def merge(self, other: FormatCounts) -> None:
        """Add the counts of other batches in the same format and codec."""
        self.batches += other.batches
        self.records += other.records
        self.log_bytes += other.log_bytes
        self.raw_bytes += other.raw_bytes


@dataclass(slots=True)
class ProducerCounts:
    """The counts of the batches of one producer id. The id -1 collects all batches without a producer id."""

    batches: int = 0
    records: int = 0
    log_bytes: int = 0
    first: int = -1
    last: int = -1
    epoch: int = -1

    def merge(self, other: ProducerCounts) -> None:
        """Add other counts of the same producer."""
        self.batches += other.batches
        self.records += other.records
        self.log_bytes += other.log_bytes
        self.first = other.first if self.first < 0 else min(self.first, other.first) if other.first >= 0 else self.first
        self.last = max(self.last, other.last)
        self.epoch = max(self.epoch, other.epoch)


@dataclass(slots=True)
class LogCounts:
    """Counts of a segment, a partition or a topic.

    Attributes:
        cells: counts of batches by format number and codec name.
        record_sizes: sizes of key and value of each data record, without headers, in bytes.
        batch_sizes: size of each batch in the log, in bytes.
        with_headers: number of records with headers.
        keyed: number of records that have a key.
        tombstones: number of records with a key and without a value.
        append_time: number of records with a timestamp that the broker set (LogAppendTime).
        thinned: number of format 2 batches with gaps in their offsets, which result from compaction.
        offsets_seen: number of data and control records, including those of damaged batches if known.
    """

    cells: dict[tuple[int, str], FormatCounts] = field(default_factory=dict)
    control_records: int = 0
    record_sizes: SizeHistogram = field(default_factory=SizeHistogram)
    batch_sizes: SizeHistogram = field(default_factory=SizeHistogram)
    times: TimeHistogram = field(default_factory=TimeHistogram)
    keys: DistinctCounter = field(default_factory=DistinctCounter)
    keyed: int = 0
    tombstones: int = 0
    with_headers: int = 0
    append_time: int = 0
    thinned: int = 0
    offsets_seen: int = 0
    producers: dict[int, ProducerCounts] = field(default_factory=dict)

    @property
    def total(self) -> FormatCounts:
        """The sum of all cells: data records, and undamaged batches including control batches."""
        total = FormatCounts("", "")
        for cell in self.cells.values():
            total.merge(cell)
        return total

    def merge(self, other: LogCounts) -> None:
        """Add the counts of other records."""
        for index, cell in other.cells.items():
            self.cells.setdefault(index, FormatCounts(cell.format, cell.codec)).merge(cell)
        for producer, counts in other.producers.items():
            self.producers.setdefault(producer, ProducerCounts()).merge(counts)
        for name in ("record_sizes", "batch_sizes", "times", "keys"):
            getattr(self, name).merge(getattr(other, name))
        for name in _COUNT_NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_COUNT_NAMES = ("control_records", "keyed", "tombstones", "with_headers", "append_time", "thinned", "offsets_seen")


@dataclass(slots=True)
class SegmentMeasurement:
    """The counts of one segment's records, which complement ``VerifiedSegment``.

    Attributes:
        transactional: array with a row for each of ``TRANSACTION_COLUMNS`` and a column for each transactional batch or
            marker.
    """

    measure: LogCounts = field(default_factory=LogCounts)
    losses: list[DamagedBatch] = field(default_factory=list)
    transactional: Ints = field(default_factory=lambda: np.empty((len(TRANSACTION_COLUMNS), 0), np.int64))


Measured = tuple[VerifiedSegment, SegmentMeasurement]


def measure_segment(task: MeasureTask) -> Measured:
    """Verify and measure a segment. Damage and read errors do not raise exceptions. They become findings."""
    if not task.measure:
        return verify_segment(task.filesystem, task.segment), SegmentMeasurement()
    watcher = _WindowMeasurer(task)
    verified_segment = verify_segment(task.filesystem, task.segment, observe=watcher.measure_window)
    return verified_segment, watcher.collect_counts()


class _WindowMeasurer:
    """Measures the windows of a segment during its verification."""

    def __init__(self, task: MeasureTask) -> None:
        self._path = task.segment.path
        self._memory = Recycler()
        self._ratio = 1.0
        self._segment = SegmentMeasurement()
        self._transactional: list[Ints] = []

    def measure_window(self, window: SegmentWindow) -> None:
        """Measure the batches in a window of the segment."""
        batches = window.batches
        is_chosen = batches.is_transactional
        self._transactional.append(batches.table[[COLUMN_INDEX[name] for name in TRANSACTION_COLUMNS]][:, is_chosen])
        window_chunk = Chunk(window.start, as_array(window.data), window.batches_in_data())
        for chunk in split_chunk(window_chunk, self._ratio, _MAX_PART_BYTES):
            self._measure_chunk(chunk)

    def collect_counts(self) -> SegmentMeasurement:
        """Return the counts for all windows of the segment."""
        if self._transactional:
            self._segment.transactional = np.concatenate(self._transactional, axis=1)
        return self._segment

    def _measure_chunk(self, chunk: Chunk) -> None:
        """Decode and measure a chunk of batches, in parts of limited size."""
        for part in decode.decode_steps(chunk.data, chunk.batches, allocate=self._memory.new_array, base=chunk.base):
            self._measure_part(part)

    def _measure_part(self, part: DecodedBatches) -> None:
        """Measure decoded batches."""
        batches, sections, index = part.batches, part.sections, part.index
        raw = sections.ends - sections.starts
        self._ratio = max(float(raw.sum()) / max(int(batches.column("size").sum()), 1), 1.0)
        sound = part.crc_ok & (index.statuses == 0)
        sound[list(sections.problems)] = False
        for row in np.flatnonzero(~sound).tolist():
            problem = part.problem(row)
            self._add_damaged_batch(
                part, row, int(index.rows[row]), CRC_MISMATCH if problem is None else problem.reason
            )
        is_data = sound & ~batches.is_control
        measure = self._segment.measure
        _add_batches(measure, batches, index.rows, raw, sound, is_data)
        data_index = index if is_data.all() else index.take(part.repeat_per_record(is_data), part.owners)
        _add_records(measure, data_index, sections.buf)
        append = batches.mask_flag(LOG_APPEND_TIME) & is_data
        measure.append_time += int(index.rows[append].sum())

    def _add_damaged_batch(self, part: DecodedBatches, row: int, readable: int, reason: str) -> None:
        """Add a damaged batch, of which the first ``readable`` records could be decoded."""

        def value(name: str) -> int:
            return int(part.batches.column(name)[row])

        position = part.position(row)
        known_offsets = value("base_offset"), value("last_offset")
        self._segment.losses.append(
            DamagedBatch(self._path, position, value("size"), *known_offsets, value("count"), readable, reason)
        )
        self._segment.measure.offsets_seen += (
            max(known_offsets[1] - known_offsets[0] + 1, 0) if value("magic") >= 2 else readable
        )


def _add_batches(
    measure: LogCounts,
    batches: BatchHeaders,
    rows: Ints,
    raw: Ints,
    is_valid: npt.NDArray[np.bool_],
    is_data: npt.NDArray[np.bool_],
) -> None:
    """Count valid batches by format, codec and producer, and their sizes."""
    sizes, magics = batches.column("size"), batches.column("magic")
    codecs = np.minimum(batches.codecs, len(CODECS))
    headers = np.where(magics >= 2, BATCH_V2.size, OVERHEAD_BYTES)
    kinds = np.minimum(magics, 2) * (len(CODECS) + 1) + codecs
    for kind in np.unique(kinds[is_valid]).tolist():
        magic, codec = divmod(kind, len(CODECS) + 1)
        is_chosen = is_valid & (kinds == kind)
        cell = measure.cells.setdefault((magic, CODECS[codec]), FormatCounts(f"v{magic}", CODECS[codec]))
        cell.batches += int(is_chosen.sum())
        cell.records += int(rows[is_chosen & is_data].sum())
        cell.log_bytes += int(sizes[is_chosen].sum())
        cell.raw_bytes += int((raw + headers)[is_chosen].sum())
    measure.control_records += int(rows[is_valid & ~is_data].sum())
    measure.offsets_seen += int(rows[is_valid].sum())
    measure.batch_sizes.add_values(sizes[is_valid])
    spans = batches.column("last_offset") - batches.column("base_offset") + 1
    measure.thinned += int((is_data & (magics >= 2) & (rows < spans)).sum())
    _add_producers(measure, batches, rows, is_data)


def _add_producers(measure: LogCounts, batches: BatchHeaders, rows: Ints, is_data: npt.NDArray[np.bool_]) -> None:
    """Count data batches, records, bytes and times by producer id."""
    table = batches.table[:, is_data]
    ids, indexes = np.unique(np.maximum(table[COLUMN_INDEX["producer_id"]], NO_PRODUCER), return_inverse=True)
    latest = table[COLUMN_INDEX["max_timestamp"]]
    earliest = np.where(_mask_delete_horizons(table), latest, table[COLUMN_INDEX["base_timestamp"]])
    firsts, lasts, epochs = np.full(ids.size, _NO_MIN_TIMESTAMP), np.full(ids.size, -1), np.full(ids.size, -1)
    np.minimum.at(firsts, indexes, np.where(earliest < 0, _NO_MIN_TIMESTAMP, earliest))
    np.maximum.at(lasts, indexes, latest)
    np.maximum.at(epochs, indexes, table[COLUMN_INDEX["producer_epoch"]])
    sums = [
        np.bincount(indexes, weights).astype(np.int64) for weights in (None, rows[is_data], table[COLUMN_INDEX["size"]])
    ]
    firsts[firsts == _NO_MIN_TIMESTAMP] = -1
    for producer, *numbers in zip(
        ids.tolist(), *(column.tolist() for column in (*sums, firsts, lasts, epochs)), strict=True
    ):
        measure.producers.setdefault(producer, ProducerCounts()).merge(ProducerCounts(*numbers))


def _mask_delete_horizons(table: Ints) -> npt.NDArray[np.bool_]:
    """Return a flag for each batch: whether it has a delete horizon instead of a first timestamp (KIP-534)."""
    result: npt.NDArray[np.bool_] = (table[COLUMN_INDEX["magic"]] >= 2) & (
        table[COLUMN_INDEX["attributes"]] & DELETE_HORIZON != 0
    )
    return result


def _add_records(measure: LogCounts, index: RecordIndex, buf: npt.NDArray[np.uint8]) -> None:
    """Count the records, keys, sizes and timestamps of decoded batches."""
    has_key = index.key_size >= 0
    sizes = np.maximum(index.key_size, 0).astype(np.int64) + np.maximum(index.value_size, 0)
    measure.record_sizes.add_values(sizes)
    measure.times.add_timestamps(index.timestamps)
    keyed_records = int(has_key.sum())
    measure.keyed += keyed_records
    if keyed_records:
        measure.tombstones += int((has_key & (index.value_size < 0)).sum())
        measure.keys.add_hashes(hash_keys(buf, index.key_at, index.key_size))
    measure.with_headers += int((index.header_counts > 0).sum())
