"""Verify one segment: framing, CRCs, inner CRCs, offsets, and the indexes against the batches.

The segment is read once. ``VerifiedSegment`` has the values that are compared with other segments: offsets, epochs,
sequences and markers. An offset index entry is valid by the invariant that brokers maintain: its position is that of a
batch, and its offset is the last offset of a batch from there to the next entry. kafka-dump-log checks a stronger
condition, so it reports errors for healthy followers (KAFKA-806).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import CorruptRecordError, LogDirError
from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.jobs.verify.record_checks import UNKNOWN_TIMESTAMP, RecordCheckResult, check_records
from kafkaframes.records import scan
from kafkaframes.records.batch import Batch, read_batches
from kafkaframes.records.fields import END_MARKER_TYPES
from kafkaframes.records.layout import COLUMN_INDEX
from kafkaframes.records.reasons import END_REASONS, TORN
from kafkaframes.records.scan import BatchHeaders, Ints
from kafkaframes.scan.log.narrowing import ALL_OFFSETS, OffsetRange, narrow_segment
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.filesystem import FileSystem, ReadAt
from kafkaframes.storage.files.findings import Finding, Severity
from kafkaframes.storage.files.indexes import OFFSET_ENTRY, TIME_ENTRY, read_offset_index, read_time_index
from kafkaframes.storage.files.scan import SegmentWindow, scan_segment
from kafkaframes.wire.integers import MAX_INT32

Observe = Callable[[SegmentWindow], None]
COLLECTED_COLUMNS = ("position", "last_offset", "base_offset", "max_timestamp", "leader_epoch", "magic")
PRODUCER_COLUMNS = (
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "base_offset",
    "last_offset",
    "attributes",
    "position",
    "max_timestamp",
)

# Records of control batches become Python objects, because brokers write few of them and do not compress them.
_MAX_CONTROL_BYTES = 1 << 20


@dataclass(slots=True)
class VerifiedSegment:
    """A verified segment: its offsets, epochs and transaction markers, and the findings about it.

    Attributes:
        path: path of the ``.log`` file.
        base_offset: base offset in the segment's name.
        size_bytes: number of verified bytes; without a range, the size of the ``.log`` file.
        offsets: range of offsets that is verified.
        batches, records: counts. Records of formats 0 and 1 are counted only if they were decompressed.
        first_offset, last_offset: offset range; -1 for an empty segment.
        epochs: (leader epoch, base offset, position) of each run of batches with equal epochs.
        producers: one row for each of ``PRODUCER_COLUMNS``, one column for each batch of an idempotent producer.
        markers: (offset, producer id, kind) of each transaction marker.
        has_holes: whether offsets are missing in or between batches, as after compaction.
        findings: faults in the segment and its indexes.
    """

    path: str
    base_offset: int
    size_bytes: int
    offsets: OffsetRange = ALL_OFFSETS
    batches: int = 0
    records: int = 0
    first_offset: int = -1
    last_offset: int = -1
    epochs: list[tuple[int, int, int]] = field(default_factory=list)
    producers: Ints = field(default_factory=lambda: np.empty((len(PRODUCER_COLUMNS), 0), np.int64))
    markers: list[tuple[int, int, str]] = field(default_factory=list)
    has_holes: bool = False
    findings: list[Finding] = field(default_factory=list)

    def add_error(self, check: str, message: str, *, position: int | None = None, offset: int | None = None) -> None:
        """Add a finding about the ``.log`` file."""
        self.findings.append(Finding(Severity.ERROR, check, message, self.path, position, offset))


def verify_segment(
    filesystem: FileSystem,
    segment: Segment,
    *,
    deep: bool = False,
    offsets: OffsetRange = ALL_OFFSETS,
    observe: Observe = lambda window: None,
) -> VerifiedSegment:
    """Verify one segment and its two indexes. An unreadable segment is a finding, not an exception.

    Args:
        filesystem: file system of the segment.
        segment: the segment.
        deep: whether to parse every record. If False, only records of formats 0 and 1 are parsed, because the outer CRC
            does not replace their inner CRCs.
        offsets: range of offsets. Only the batches with offsets in it are verified.
        observe: function that is called with each window, for callers that measure more than this function verifies.
    """
    base_offset = 0 if segment.log.name.kind == "checkpoint" else segment.base_offset  # KRaft snapshots start at 0
    verified_segment = VerifiedSegment(segment.path, base_offset, segment.size_bytes, offsets)
    try:
        start, end = (0, segment.size_bytes)
        if offsets.is_limited:
            start, end = narrow_segment(filesystem, segment, offsets)
            verified_segment.size_bytes = end - start
        with filesystem.open(segment.path) as read_at:
            kept_columns = _verify_batches(read_at, verified_segment, start, end, deep, observe)
            _verify_indexes(filesystem, segment, verified_segment, kept_columns)
    except LogDirError as problem:
        verified_segment.add_error("unreadable", problem.reason)
    return verified_segment


def _verify_batches(
    read_at: ReadAt, verified_segment: VerifiedSegment, start: int, limit: int, deep: bool, observe: Observe
) -> dict[str, Ints]:
    """Verify the batches from position ``start`` on, and return the columns that index checks need."""
    tables: list[Ints] = []
    producers: list[Ints] = []
    end = scan.ScanEnd(start, 0)
    for window in scan_segment(
        read_at, size_bytes=limit, position=start, includes_data=True, file=verified_segment.path
    ):
        end = window.batches.end
        if len(window.batches) == 0:
            continue
        observe(window)
        _verify_crcs(window, verified_segment)
        _read_records(window, verified_segment, deep)
        producers.append(_select_producer_batches(window.batches))
        tables.append(window.batches.table[[COLUMN_INDEX[name] for name in COLLECTED_COLUMNS]])
        verified_segment.batches += len(window.batches)
        counts = window.batches.column("count")
        verified_segment.records += int(counts[counts > 0].sum())
    joined_tables = np.concatenate(tables, axis=1) if tables else np.empty((len(COLLECTED_COLUMNS), 0), np.int64)
    kept_columns = dict(zip(COLLECTED_COLUMNS, joined_tables, strict=True))
    verified_segment.producers = np.concatenate(producers, axis=1) if producers else verified_segment.producers
    _verify_end(read_at, verified_segment, end, limit)
    _verify_offsets(verified_segment, kept_columns)
    verified_segment.epochs = _find_epoch_starts(kept_columns)
    return kept_columns


def _verify_crcs(window: SegmentWindow, verified_segment: VerifiedSegment) -> None:
    """Add a finding for each batch with a wrong CRC."""
    wrong_batches = np.flatnonzero(scan.check_crcs(window.data, window.batches_in_data()) == 0)
    for row in wrong_batches.tolist():
        position, offset = (int(window.batches.column(name)[row]) for name in ("position", "base_offset"))
        verified_segment.add_error("crc", "the batch's CRC does not match its bytes", position=position, offset=offset)


def _read_records(window: SegmentWindow, verified_segment: VerifiedSegment, deep: bool) -> None:
    """Parse the records of batches for which the outer CRC is not enough: wrappers and markers, or all if ``deep``."""
    batches = window.batches
    is_opened = batches.is_wrapper | batches.is_control | deep
    verified_segment.records += int((~batches.is_v2 & ~is_opened).sum())
    positions, sizes = window.batches.column("position"), window.batches.column("size")
    rows = np.flatnonzero(is_opened)
    judgement = check_records(window.data, window.batches_in_data().select(rows))
    is_control = batches.is_control[rows]  # parsed for the markers, even if the batch is sound
    verified_segment.records += int(judgement.rows[~batches.is_v2[rows]].sum())
    for index in sorted({*judgement.problems, *judgement.wrong_messages}):
        if not is_control[index]:
            _add_damage_findings(judgement, index, int(positions[rows[index]]), verified_segment)
    for row in rows[is_control].tolist():
        start = int(positions[row]) - window.start
        raw = window.data[start : start + int(sizes[row])].tobytes()
        for batch in read_batches(raw, rules=scan.FILE, limit_bytes=_MAX_CONTROL_BYTES):
            _collect_markers(batch, int(positions[row]), verified_segment)


def _add_damage_findings(
    judgement: RecordCheckResult, index: int, position: int, verified_segment: VerifiedSegment
) -> None:
    """Add the findings on the records of batch number ``index``."""
    if index in judgement.problems:
        first = int(judgement.first_offsets[index])
        offset = None if first == UNKNOWN_TIMESTAMP else first
        verified_segment.add_error("records", judgement.problems[index], position=position, offset=offset)
    for offset in judgement.wrong_messages.get(index, []):
        message = "the CRC of a message inside a compressed message does not match its bytes"
        verified_segment.add_error("inner-crc", message, position=position, offset=offset)


def _collect_markers(batch: Batch, position: int, verified_segment: VerifiedSegment) -> None:
    """Collect the transaction markers of a control batch, and add a finding for each unreadable one."""
    if batch.damage is not None:
        verified_segment.add_error("records", batch.damage.reason, position=position, offset=batch.base_offset)
    for record in batch.records:
        try:
            kind = record.control_type
        except CorruptRecordError as problem:
            verified_segment.add_error("control", str(problem), position=position, offset=record.offset)
            continue
        if kind in END_MARKER_TYPES and kind is not None and batch.producer_id is not None:
            verified_segment.markers.append((record.offset, batch.producer_id, kind))


def _select_producer_batches(batches: BatchHeaders) -> Ints:
    """Return the producer columns of the batches of format 2 that have a producer id."""
    idempotent = batches.is_v2 & (batches.column("producer_id") >= 0)
    return batches.table[[COLUMN_INDEX[name] for name in PRODUCER_COLUMNS]][:, idempotent]


def _verify_end(read_at: ReadAt, verified_segment: VerifiedSegment, end: scan.ScanEnd, limit: int) -> None:
    """Add a finding if data follows the last batch."""
    tail_bytes = limit - end.position
    if tail_bytes <= 0:
        return
    if _is_zero_filled(read_at, end.position, limit):
        message = f"{count_text(tail_bytes, 'byte')} of zeros at the end, which a broker has preallocated"
        verified_segment.findings.append(
            Finding(Severity.NOTE, "zero-tail", message, verified_segment.path, end.position)
        )
    elif end.status == TORN:
        verified_segment.add_error(
            "torn-tail",
            f"the file ends with {count_text(tail_bytes, 'byte')} of an incomplete batch",
            position=end.position,
        )
    else:
        verified_segment.add_error(
            "framing",
            f"{END_REASONS[end.status]}; {count_text(tail_bytes, 'byte')} {verb_text(tail_bytes, 'follows', 'follow')}",
            position=end.position,
        )


def _is_zero_filled(read_at: ReadAt, position: int, end: int) -> bool:
    """Return whether a range of a file has only zeros."""
    while position < end:
        chunk = read_at(position, min(1 << 20, end - position))
        if not chunk or chunk.count(0) != len(chunk):
            return False
        position += len(chunk)
    return True


def _verify_offsets(verified_segment: VerifiedSegment, kept_columns: dict[str, Ints]) -> None:
    """Set the offset range, and add findings on wrong or unindexable offsets and invalid leader epochs."""
    base_offsets, last_offsets, positions = (
        kept_columns["base_offset"],
        kept_columns["last_offset"],
        kept_columns["position"],
    )
    if len(last_offsets) == 0:
        return
    verified_segment.first_offset, verified_segment.last_offset = int(base_offsets[0]), int(last_offsets.max())
    is_later_start = (
        base_offsets[0] > verified_segment.base_offset
        and verified_segment.offsets.first_offset > verified_segment.base_offset
    )
    before_first = int(base_offsets[0]) if is_later_start else verified_segment.base_offset
    previous_lasts = np.concatenate(([before_first - 1], np.maximum.accumulate(last_offsets)[:-1]))
    for row in np.flatnonzero((base_offsets <= previous_lasts) | (last_offsets < base_offsets)).tolist():
        message = (
            f"offsets {base_offsets[row]} to {last_offsets[row]} follow offset {previous_lasts[row]}, which is "
            "not below them"
        )
        verified_segment.add_error("offset-order", message, position=int(positions[row]), offset=int(base_offsets[row]))
    for row in np.flatnonzero(last_offsets - verified_segment.base_offset > MAX_INT32).tolist()[:1]:
        message = (
            f"offset {last_offsets[row]} is too far above the segment's base offset {verified_segment.base_offset} for "
            "an index entry"
        )
        verified_segment.add_error(
            "offset-overflow", message, position=int(positions[row]), offset=int(base_offsets[row])
        )
    is_modern = kept_columns["magic"] >= 2
    for row in np.flatnonzero(kept_columns["leader_epoch"] < -1).tolist():
        message = f"invalid leader epoch {kept_columns['leader_epoch'][row]}, which the CRC does not cover"
        verified_segment.add_error("leader-epoch", message, position=int(positions[row]), offset=int(base_offsets[row]))
    verified_segment.has_holes = bool((base_offsets[is_modern] != previous_lasts[is_modern] + 1).any())


def _find_epoch_starts(kept_columns: dict[str, Ints]) -> list[tuple[int, int, int]]:
    """Return (leader epoch, start offset, position) of each epoch's first batch."""
    epochs = kept_columns["leader_epoch"]
    rows = np.flatnonzero((epochs >= 0) & (kept_columns["magic"] >= 2))
    if len(rows) == 0:
        return []
    starts = rows[np.flatnonzero(np.diff(epochs[rows], prepend=epochs[rows][0] - 1))]
    return [
        (int(epochs[row]), int(kept_columns["base_offset"][row]), int(kept_columns["position"][row])) for row in starts
    ]


def _verify_indexes(
    filesystem: FileSystem, segment: Segment, verified_segment: VerifiedSegment, kept_columns: dict[str, Ints]
) -> None:
    """Verify the offset index and the time index."""
    if segment.log.name.temporary or segment.log.name.kind != "log":
        return  # a file that a broker is still writing has no indexes yet, and KRaft snapshots have none
    if segment.index is None:
        message = "the offset index is missing; a broker rebuilds it"
        verified_segment.findings.append(Finding(Severity.WARNING, "index-missing", message, segment.path))
    else:
        verified_segment.findings += _check_offset_index(
            filesystem, segment.index.path, segment.base_offset, kept_columns, verified_segment
        )
    if segment.time_index is not None:
        path = segment.time_index.path
        verified_segment.findings += _check_time_index(
            filesystem, path, segment.base_offset, kept_columns, verified_segment
        )


def _check_offset_index(
    filesystem: FileSystem,
    path: str,
    base_offset: int,
    kept_columns: dict[str, Ints],
    verified_segment: VerifiedSegment,
) -> Iterator[Finding]:
    """Yield a finding for each entry of an offset index that does not fit the batches."""
    try:
        index = read_offset_index(filesystem.read(path), base_offset=base_offset, file=path)
    except LogDirError as problem:
        yield Finding(Severity.WARNING, "index-corrupt", problem.reason, path, problem.position)
        return
    positions, lasts = kept_columns["position"], kept_columns["last_offset"]
    rows = np.searchsorted(positions, index.positions)
    is_start = _contains_values(positions, rows, index.positions)
    owner = np.searchsorted(lasts, index.offsets)  # batch whose last offset is the entry's offset
    before_next = owner < np.append(rows[1:], len(positions))
    is_named = _contains_values(lasts, owner, index.offsets) | ~_contains_values(
        kept_columns["magic"], owner, np.full(len(owner), 2)
    )
    is_in_place = is_named & (owner >= rows) & before_next
    is_verified = _mask_verified_entries(index.offsets, verified_segment)
    if verified_segment.offsets.is_limited and len(positions):
        is_verified &= index.positions >= positions[0]
    for entry in np.flatnonzero(is_verified & ~is_start).tolist():
        yield _make_index_finding(
            path, entry, f"no batch starts at byte {index.positions[entry]} of the segment", index.offsets
        )
    for entry in np.flatnonzero(is_verified & is_start & ~is_in_place).tolist():
        message = (
            f"no batch from byte {index.positions[entry]} to the next entry ends with offset {index.offsets[entry]}"
        )
        yield _make_index_finding(path, entry, message, index.offsets)


def _mask_verified_entries(offsets: Ints, verified_segment: VerifiedSegment) -> npt.NDArray[np.bool_]:
    """Return a flag for each index entry: whether its offset is among the verified batches, or no range is set."""
    if not verified_segment.offsets.is_limited:
        return np.ones(len(offsets), np.bool_)
    result: npt.NDArray[np.bool_] = (offsets >= verified_segment.first_offset) & (
        offsets <= verified_segment.last_offset
    )
    return result


def _make_index_finding(path: str, entry: int, message: str, offsets: Ints) -> Finding:
    """Return a finding about entry number ``entry`` of an offset index."""
    position = entry * OFFSET_ENTRY.itemsize
    return Finding(Severity.WARNING, "index-mismatch", message, path, position, int(offsets[entry]))


def _check_time_index(
    filesystem: FileSystem,
    path: str,
    base_offset: int,
    kept_columns: dict[str, Ints],
    verified_segment: VerifiedSegment,
) -> Iterator[Finding]:
    """Yield a finding for each entry of a time index without the largest timestamp up to its offset."""
    try:
        index = read_time_index(filesystem.read(path), base_offset=base_offset, file=path)
    except LogDirError as problem:
        yield Finding(Severity.WARNING, "timeindex-corrupt", problem.reason, path, problem.position)
        return
    if len(index) == 0:
        return
    largest = np.maximum.accumulate(kept_columns["max_timestamp"])
    batch_rows = np.searchsorted(kept_columns["last_offset"], index.offsets)  # batch that contains the entry's offset
    is_right = _contains_values(largest, batch_rows, index.timestamps)
    is_right |= _contains_values(
        kept_columns["magic"], batch_rows, np.zeros(len(batch_rows), np.int64)
    )  # Kafka 0.10 wrote time index entries for messages of format 0, which have no timestamps
    if (
        verified_segment.offsets.first_offset > base_offset
    ):  # an earlier batch, which is not read, may have the largest timestamp
        is_in_batch = batch_rows < len(largest)
        is_right[is_in_batch] |= index.timestamps[is_in_batch] > largest[batch_rows[is_in_batch]]
    for entry in np.flatnonzero(_mask_verified_entries(index.offsets, verified_segment) & ~is_right).tolist():
        message = f"{index.timestamps[entry]} is not the largest timestamp up to offset {index.offsets[entry]}"
        position = entry * TIME_ENTRY.itemsize
        yield Finding(Severity.WARNING, "timeindex-mismatch", message, path, position, int(index.offsets[entry]))


def _contains_values(values: Ints, rows: npt.NDArray[np.intp], expected_values: Ints) -> npt.NDArray[np.bool_]:
    """Return a flag for each row: whether the row exists in ``values`` and contains the given value."""
    result = np.zeros(len(rows), np.bool_)
    is_in_table = rows < len(values)
    result[is_in_table] = values[rows[is_in_table]] == expected_values[is_in_table]
    return result
