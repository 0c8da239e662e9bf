"""Map source offsets to offsets of the copy, in a file, so that a mirror can resume after it was killed.

A line describes a run of records with consecutive offsets on both sides: first source offset, first offset of the copy,
count. The line is written **before** the records are sent. After a kill, the end offset of the copy therefore shows
which of the last lines describe records that were appended, even if the source was compacted in the meantime. A line
with count 0 means that the source has nothing to copy below its offset.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import IO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.client import FetchedBatches
from kafkaframes.errors import CorruptRecordError, LogDirError
from kafkaframes.records.build import build_records
from kafkaframes.records.codecs import Codec
from kafkaframes.records.layout import BATCH_V2, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL
from kafkaframes.records.scan import BatchHeaders, as_array, check_crcs, scan_all
from kafkaframes.storage.files.atomic import name_path_in_errors
from kafkaframes.storage.files.local_disk import take_lock
from kafkaframes.storage.log.transactions import TransactionState
from kafkaframes.wire.checksum import crc32c

Runs = npt.NDArray[np.int64]  # rows of source offset, target offset, count
_MAPPING_FORMAT_LINE: Final = "kafkaframes mirror 1"
_TEMPORARY_SUFFIX: Final = ".new"
_MAX_FILE_NAME_LENGTH: Final = 255  # on Linux and macOS
_NO_RUNS: Final[Runs] = np.empty((0, 3), np.int64)


@dataclass(slots=True)
class OffsetMapping:
    """The mapping from a partition's source offsets to the offsets of its copy. ``begin_writing`` opens the file.

    Attributes:
        runs: rows of source offset, target offset and count, in ascending order.
    """

    runs: Runs = field(default_factory=lambda: _NO_RUNS)
    _file: IO[bytes] | None = None
    _behind: list[Runs] = field(default_factory=list)

    @property
    def next_source_offset(self) -> int:
        """The first source offset after the mapping; -1 if the mapping is empty."""
        last = self._find_last_run()
        return -1 if last is None else int(last[0] + last[2])

    @property
    def next_target_offset(self) -> int:
        """The first offset of the copy after the mapping."""
        last = self._find_last_run()
        return 0 if last is None else int(last[1] + last[2])

    def _find_last_run(self) -> npt.NDArray[np.int64] | None:
        runs = self._behind[-1] if self._behind else self.runs
        return runs[-1] if len(runs) else None

    def add_runs(self, runs: Runs) -> None:
        """Write the runs of records that are about to be sent."""
        if not len(runs):
            return
        self._behind.append(runs)
        if self._file is not None:
            self._file.write(_format_runs(runs))
            self._file.flush()
            os.fsync(self._file.fileno())

    def advance_source(self, source_next: int) -> None:
        """Record in the file that the source has nothing left to copy below ``source_next``."""
        if source_next > self.next_source_offset:
            self.add_runs(np.array([[source_next, self.next_target_offset, 0]], np.int64))

    def translate_offset(self, offset: int) -> int:
        """Return the offset of the copy's first record from source offset ``offset`` on.

        >>> mapping = OffsetMapping(np.array([[10, 0, 5], [20, 5, 2], [30, 7, 0]]))
        >>> [mapping.translate_offset(offset) for offset in (0, 12, 15, 20, 22, 99)]
        [0, 2, 5, 5, 7, 7]
        """
        self._merge_runs()
        if not len(self.runs):
            return 0
        index = int(np.searchsorted(self.runs[:, 0], offset, side="right")) - 1
        if index < 0:
            return int(self.runs[0, 1])
        source, target, count = self.runs[index].tolist()
        return int(target + min(offset - source, count))

    def find_source_offset(self, offset: int) -> int:
        """Translate an offset of the copy to a source offset. The copy's end offset becomes the next source offset.

        >>> mapping = OffsetMapping(np.array([[10, 0, 5], [20, 5, 2], [30, 7, 0]]))
        >>> [mapping.find_source_offset(offset) for offset in (0, 4, 5, 6, 7)]
        [10, 14, 20, 21, 30]
        """
        self._merge_runs()
        index = int(np.searchsorted(self.runs[:, 1], offset, side="right")) - 1
        while index > 0 and self.runs[index, 2] == 0 and self.runs[index - 1, 1] == offset:
            index -= 1
        source, target, _ = self.runs[max(index, 0)].tolist()
        return int(source + offset - target)

    @property
    def first_source_offset(self) -> int | None:
        """Return the source offset of the copy's first record; None if nothing was copied."""
        self._merge_runs()
        copied_runs = self.runs[self.runs[:, 2] > 0]
        return int(copied_runs[0, 0]) if len(copied_runs) else None

    def _merge_runs(self) -> None:
        """Merge added runs into the array."""
        if self._behind:
            self.runs = np.concatenate([self.runs, *self._behind])
            self._behind.clear()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def truncate_mapping(runs: Runs, target_end: int) -> Runs:
    """Return the part of a mapping that describes records below the copy's end offset.

    >>> truncate_mapping(np.array([[10, 0, 5], [20, 5, 4], [30, 9, 0]]), 7).tolist()
    [[10, 0, 5], [20, 5, 2]]
    >>> truncate_mapping(np.array([[10, 0, 5], [30, 5, 0]]), 5).tolist()
    [[10, 0, 5], [30, 5, 0]]
    """
    kept_runs = runs[(runs[:, 1] < target_end) | ((runs[:, 1] == target_end) & (runs[:, 2] == 0))].copy()
    excess = kept_runs[:, 1] + kept_runs[:, 2] > target_end
    kept_runs[excess, 2] = target_end - kept_runs[excess, 1]
    complete_runs = np.flatnonzero(excess)
    is_consistent: Runs = kept_runs[: complete_runs[0] + 1] if len(complete_runs) else kept_runs
    return is_consistent


def read_mapping(path: str, identity: str, *, target_end: int) -> OffsetMapping:
    """Read the mapping of a partition up to the copy's end. Return an empty mapping if there is no file.

    Args:
        path: path of the mapping file.
        identity: identity of the mapped topics. The mapping file must have the same identity.
        target_end: current end offset of the copy.

    Raises:
        LogDirError: the file is for other topics or is not a mapping, or the copy has records that are not mapped.
    """
    runs, first = _NO_RUNS, _format_first_line(identity)
    if os.path.exists(path):
        with name_path_in_errors(Path(path)), open(path, "rb") as file:
            raw = file.read()
        complete_size = raw[: raw.rfind(b"\n") + 1]
        if complete_size and not complete_size.startswith(first):
            reason = "is a mapping of other topics: a topic was created again, or another mirror uses this `state_dir`"
            raise LogDirError(reason, file=path)
        runs = _parse_mapping(complete_size[len(first) :], path)
    mapped_end = int(runs[-1, 1] + runs[-1, 2]) if len(runs) else 0
    if target_end > mapped_end:
        reason = (
            "another program has written to the copy"
            if len(runs)
            else "the mapping is missing or empty, so `state_dir` may be that of another copy, or the topic has other "
            "records"
        )
        raise LogDirError(
            f"the copy ends at {target_end:,}, but the mapping ends at {mapped_end:,}: {reason}", file=path
        )
    return OffsetMapping(truncate_mapping(runs, target_end))


def begin_writing(mapping: OffsetMapping, path: str, identity: str) -> OffsetMapping:
    """Write a mapping to its file, and keep the file open for new runs.

    Raises:
        LogDirError: the file cannot be written.
    """
    temporary = path + _TEMPORARY_SUFFIX
    with name_path_in_errors(Path(path)):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(_format_first_line(identity) + _format_runs(mapping.runs))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        return OffsetMapping(mapping.runs, open(path, "ab"))


def lock_topic(state_dir: str, topic: str) -> Callable[[], None]:
    """Lock the mappings of a topic, and return the function that releases the lock. The directory is created.

    Two mirrors of a topic would each send the same records, because a batch is appended before its offset is checked.

    Raises:
        LogDirError: another mirror holds the lock, or the directory cannot be written.
    """
    path = Path(state_dir, f"{topic}.lock")
    with name_path_in_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        release = take_lock(str(path))
    if release is None:
        raise LogDirError(f"another mirror of topic {topic} uses this `state_dir`", file=state_dir)
    return release


def name_mapping_file(topic: str, partition: int) -> str:
    """Return the name of a mapping file.

    If the file name would be too long, the topic name is cut after 200 characters and followed by a digest of the name.

    >>> name_mapping_file("orders", 7)
    'orders-7.offsets'
    """
    name = f"{topic}-{partition}.offsets"
    if len(name + _TEMPORARY_SUFFIX) <= _MAX_FILE_NAME_LENGTH:
        return name
    return f"{topic[:200]}~{sha256(topic.encode()).hexdigest()[:16]}-{partition}.offsets"


def _format_first_line(identity: str) -> bytes:
    return f"{_MAPPING_FORMAT_LINE} {identity}\n".encode()


def _format_runs(runs: Runs) -> bytes:
    return "".join(f"{source} {target} {count}\n" for source, target, count in runs.tolist()).encode()


def _parse_mapping(raw: bytes, path: str) -> Runs:
    """Return the runs in the text of a mapping file, without its first line."""
    try:
        return np.array(raw.split(), np.int64).reshape(-1, 3)
    except ValueError:
        raise LogDirError("is not a mapping of offsets", file=path) from None


# ---------------------------------------------------------------------------------------------------------------------
# Convert fetched batches for a broker that assigns offsets itself. No I/O.
#
# A batch of format 2 without gaps keeps its payload. In its header, producer id, epoch, sequence, the transactional bit
# and the delete horizon (the copy's cleaner sets its own) are cleared, and the CRC is recomputed. Records are only
# decoded if necessary: for formats 0 and 1, gaps from compaction, log append times (which are written as create times),
# and batches that begin before the first requested offset. Control batches, aborted batches and empty batches are
# omitted.

CONTROL_BATCH, ABORTED, EMPTY, BEFORE = "transaction markers", "aborted", "empty batches", "below the first offset"
DAMAGED_BATCH_REASON = "damaged"
OLD_FORMAT, HOLES, APPEND_TIME, CUT = "format 0 or 1", "offsets with holes", "log append time", "begins too early"
REBUILT_BATCH_BYTES: Final = 256 << 10  # uncompressed size of the records in a rebuilt batch
Flags = npt.NDArray[np.bool_]
_DECODED_COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")
_CRC_AT, _ATTRIBUTES_AT, _PRODUCER_AT = (BATCH_V2.position_of(name) for name in ("crc", "attributes", "producer_id"))
_NO_PRODUCER_FIELDS: Final = struct.pack(">qhi", -1, -1, -1)
_CLEARED_ATTRIBUTES: Final = TRANSACTIONAL | DELETE_HORIZON


@dataclass(slots=True)
class RenumberedBatches:
    """The batches to write, and counts of the omitted ones.

    Attributes:
        batches: batches of format 2 with base offset 0.
        counts: number of records in each of ``batches``.
        sources: (first offset, count) of each run of consecutive source offsets in the batches.
        records_read, left_out, opened, batches_left_out, rebuilt: as in ``MirroredPartition``.
    """

    batches: list[bytes] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    sources: list[tuple[int, int]] = field(default_factory=list)
    records_read: int = 0
    rebuilt: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    batches_left_out: Counter[str] = field(default_factory=Counter)
    decoded_batches: Counter[str] = field(default_factory=Counter)

    def assign_target_offsets(self, target_next: int) -> Runs:
        """Return the mapping of the batches if they are appended at ``target_next``. Adjacent runs are merged."""
        if not self.sources:
            return _NO_RUNS
        source, count = np.array(self.sources, np.int64).T
        target = target_next + np.cumsum(count) - count
        begins = np.concatenate(([True], source[1:] != source[:-1] + count[:-1]))
        starts = np.flatnonzero(begins)
        return np.stack([source[starts], target[starts], np.add.reduceat(count, starts)], axis=1)


def find_damaged_batches(fetched_batches: FetchedBatches, *, skip: bool) -> Flags:
    """Return a flag for each batch: whether its CRC is wrong.

    For a compressed message set of format 0 or 1, only the CRC of the wrapper message is checked.

    Raises:
        CorruptRecordError: a batch has a wrong CRC, and ``skip`` is false.
    """
    batches = fetched_batches.batches
    is_damaged: Flags = check_crcs(as_array(fetched_batches.data), batches) == 0
    if is_damaged.any() and not skip:
        offset = int(batches.column("last_offset")[int(np.flatnonzero(is_damaged)[0])])
        reason = (
            f"the batch that ends at offset {offset:,} does not have the CRC of its bytes (`on_damage`=drop omits it)"
        )
        raise CorruptRecordError(reason, file=str(fetched_batches.partition))
    return is_damaged


def renumber_fetched_batches(
    fetched_batches: FetchedBatches,
    start: int,
    is_damaged: Flags,
    *,
    batch_bytes: int = REBUILT_BATCH_BYTES,
    transactions: TransactionState | None = None,
) -> RenumberedBatches:
    """Return the batches of a fetch that have to be written, with new offsets.

    Args:
        fetched_batches: batches of a Fetch response.
        start: first source offset to write.
        is_damaged: flags of damaged batches, which are omitted.
        batch_bytes: approximate size of rebuilt batches, in bytes.
        transactions: replayed transactions, from which aborted batches are found; by default the Fetch response lists
            them.

    Raises:
        CorruptRecordError: a batch that must be decoded is damaged.
    """
    batches, result = fetched_batches.batches, RenumberedBatches()
    reason_of_batch = _find_reasons(transactions or fetched_batches.transactions, batches, start, is_damaged)
    codecs = batches.codecs
    first = 0
    while first < len(batches):
        last = first + 1
        reason = reason_of_batch[first]
        if reason == OLD_FORMAT:  # uncompressed messages are joined into one batch
            while last < len(batches) and reason_of_batch[last] == reason and codecs[last] == codecs[first]:
                last += 1
        _add_batches(result, fetched_batches, batches.part(first, last), reason, start, batch_bytes)
        first = last
    return result


def _find_reasons(
    transactions: TransactionState, batches: BatchHeaders, start: int, is_damaged: Flags
) -> list[str | None]:
    """Return the reason for omitting or decoding each batch; None for a batch that keeps its payload."""
    base, last, is_new = batches.column("base_offset"), batches.column("last_offset"), batches.is_v2
    reasons = np.full(len(batches), None, object)
    for condition, reason in (  # later reasons take precedence
        (is_new & (batches.column("count") != last - base + 1), HOLES),
        (is_new & batches.mask_flag(LOG_APPEND_TIME), APPEND_TIME),
        (is_new & (base < start), CUT),
        (~is_new, OLD_FORMAT),
        (transactions.mask_aborted_batches(batches), ABORTED),
        (is_new & (batches.column("count") == 0), EMPTY),
        (batches.is_control, CONTROL_BATCH),
        (is_damaged, DAMAGED_BATCH_REASON),
        (last < start, BEFORE),
    ):
        reasons[condition] = reason
    return list(reasons)


def _add_batches(
    result: RenumberedBatches,
    fetched_batches: FetchedBatches,
    batches: BatchHeaders,
    reason: str | None,
    start: int,
    batch_bytes: int,
) -> None:
    """Omit, copy or rebuild batches that share a reason, and add them to the result."""
    position, count = int(batches.column("position")[0]), int(batches.column("count")[0])
    if reason in (ABORTED, EMPTY, CONTROL_BATCH, DAMAGED_BATCH_REASON, BEFORE):
        if reason != BEFORE:  # batches before the start were already read and counted
            result.batches_left_out[str(reason)] += len(batches)
        if reason in (ABORTED, CONTROL_BATCH):
            result.records_read += count
            result.left_out[str(reason)] += count
        return
    if reason is None:
        result.records_read += count
        batch = fetched_batches.data[position : position + int(batches.column("size")[0])]
        result.batches.append(clear_transaction(batch))
        result.counts.append(count)
        result.sources.append((int(batches.column("base_offset")[0]), count))
        return
    result.decoded_batches[reason] += len(batches)
    end = int(batches.column("position")[-1] + batches.column("size")[-1])
    _rebuild_batch(result, fetched_batches, (position, end), start, batch_bytes)


def clear_transaction(batch: bytes | memoryview) -> bytes:
    """Return a format 2 batch with base offset 0 and a new CRC, without producer, transaction or delete horizon."""
    new_batch = bytearray(batch)
    (attributes,) = struct.unpack_from(">h", new_batch, _ATTRIBUTES_AT)
    new_batch[:8] = bytes(8)
    producer = slice(_PRODUCER_AT, _PRODUCER_AT + len(_NO_PRODUCER_FIELDS))
    if attributes & _CLEARED_ATTRIBUTES or new_batch[producer] != _NO_PRODUCER_FIELDS:
        struct.pack_into(">h", new_batch, _ATTRIBUTES_AT, attributes & ~_CLEARED_ATTRIBUTES)
        new_batch[producer] = _NO_PRODUCER_FIELDS
        struct.pack_into(">I", new_batch, _CRC_AT, crc32c(memoryview(new_batch)[_ATTRIBUTES_AT:]))
    return bytes(new_batch)


def _rebuild_batch(
    result: RenumberedBatches,
    fetched_batches: FetchedBatches,
    data_range: tuple[int, int],
    start: int,
    batch_bytes: int,
) -> None:
    """Decode batches, and build new batches from their records as consumers see them."""
    part = FetchedBatches(fetched_batches.partition, start, fetched_batches.data[data_range[0] : data_range[1]])
    codec = int(part.batches.codecs[0])
    for columns in part.read(_DECODED_COLUMNS):
        if not columns.num_rows:
            continue
        result.records_read += columns.num_rows
        offsets = columns.column("offset").to_numpy()
        result.sources += _find_runs(offsets)
        rows = pa.table({name: columns.column(name) for name in _DECODED_COLUMNS[1:]})
        new_records = build_records(rows, codec=Codec(codec).name.lower(), batch_bytes=batch_bytes)
        batches = scan_all(new_records)
        for position, size, count in zip(
            *(batches.column(name).tolist() for name in ("position", "size", "count")), strict=True
        ):
            result.batches.append(bytes(8) + new_records[position + 8 : position + size])
            result.counts.append(count)
            result.rebuilt += 1


def _find_runs(offsets: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the first offset and the number of offsets of each range of consecutive offsets."""
    starts = np.flatnonzero(np.concatenate(([True], np.diff(offsets) != 1)))
    counts = np.diff(np.append(starts, len(offsets)))
    return list(zip(offsets[starts].tolist(), counts.tolist(), strict=True))
