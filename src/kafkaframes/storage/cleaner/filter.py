"""Decide which records of a window are retained, and write their batches (``Cleaner.cleanInto``, ``filterTo``).

A batch that retains all records is copied byte for byte. Any other batch is rewritten with its header fields (offsets,
sequences, epochs, producer, codec), because the offsets and the producer state depend on them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.records.build import build_batches, build_empty_batch
from kafkaframes.records.decode import count_records
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.fields import CREATE_TIME, LOG_APPEND_TIME, BatchFields
from kafkaframes.records.layout import CODEC_MASK, DELETE_HORIZON
from kafkaframes.records.layout import LOG_APPEND_TIME as APPEND_BIT
from kafkaframes.records.makers import make_rows_from_index
from kafkaframes.records.scan import FILE, Flags, Ints, as_array, scan_all
from kafkaframes.storage.cleaner.latest import LatestRecords
from kafkaframes.storage.cleaner.plan import CleanerSettings
from kafkaframes.storage.cleaner.walk import (
    CleanedTransactions,
    control_type,
    find_transactional_batches,
    make_batch_header,
    mask_mixed_formats,
)
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.log.producer_state import REWRITES_OLD
from kafkaframes.storage.log.producers import Producers

Chunks = dict[int, bytes | memoryview]


class BatchVerdicts(NamedTuple):
    """The decisions on a window's batches that do not depend on their records; one element per batch.

    Attributes:
        discard: whether all records of the batch are removed.
        retain_empty: whether the batch header is retained even if no record remains.
        sets_horizon: whether the batch gets a delete horizon, as the marker of a transaction without remaining data.
    """

    discard: Flags
    retain_empty: Flags
    sets_horizon: Flags


@dataclass(slots=True)
class CleaningStatistics:
    """Statistics for the report about one cleaning of a partition.

    Attributes:
        records_kept: number of records, counted in the output.
    """

    records_read: int = 0
    records_kept: int = 0
    batches_read: int = 0
    batches_copied: int = 0
    batches_rewritten: int = 0
    batches_emptied: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    dropped_records: Counter[str] = field(default_factory=Counter)

    def add(self, other: CleaningStatistics) -> None:
        """Add the statistics of another part of the same cleaning."""
        self.dropped_records.update(other.dropped_records)
        for name in self.__slots__:
            if name != "dropped_records":
                setattr(self, name, getattr(self, name) + getattr(other, name))


class BatchFilter:
    """A filter that decides which batches and records a cleaning retains. Batches must be passed in offset order."""

    def __init__(
        self,
        producers: Producers,
        settings: CleanerSettings,
        latest: LatestRecords,
        transactions: CleanedTransactions,
        *,
        end_offset: int,
    ) -> None:
        """Create a filter for the pass that writes the new segments.

        Args:
            producers: producer states that a broker has for this partition.
            transactions: state of transactions before the first window.
            end_offset: end offset of the round; the records at or above this offset are not cleaned.
        """
        self._producers = producers
        self._settings = settings
        self._latest = latest
        self._transactions = transactions
        self._end_offset = end_offset
        ends = sorted({state.last_offset for state in producers.states.values() if state.last_offset >= 0})
        self._last_of_producers = np.array(ends, np.int64)
        self.tally = CleaningStatistics()

    def filter_window(self, window: DecodedBatches, *, retain_old_deletes: bool) -> list[bytes | memoryview]:
        """Return the retained bytes of a window: rewritten batches, and ranges of unchanged batches.

        Args:
            retain_old_deletes: whether tombstones without a delete horizon (formats 0 and 1, brokers before 3.1) are
                too young to be removed, according to the modification time of their segment.
        """
        verdicts = self._judge_batches(window, retain_old_deletes)
        is_kept = self._mask_kept_records(window, verdicts.discard, retain_old_deletes)
        counts = np.bincount(window.owners[is_kept], minlength=len(window.batches))
        horizons = self._mask_new_horizons(window, is_kept, verdicts)
        is_copied = (counts > 0) & (counts == window.index.rows) & ~horizons
        is_copied &= ~mask_mixed_formats(window) & ~self._mask_old_formats(window.batches.column("magic"))
        self._count_input(window, is_copied)
        empty_batches = np.flatnonzero((counts == 0) & verdicts.retain_empty).tolist()
        chunks: Chunks = {batch: self._build_empty_batch(window, batch) for batch in empty_batches}
        changed_batches = np.flatnonzero((counts > 0) & ~is_copied).tolist()
        chunks |= self._rewrite_batches(window, is_kept, [(batch, bool(horizons[batch])) for batch in changed_batches])
        kept_bytes = _order_chunks(window, is_copied, chunks)
        self.tally.records_kept += _count_records(kept_bytes)
        return kept_bytes

    def _count_input(self, window: DecodedBatches, is_copied: Flags) -> None:
        """Add the sizes of a window to the statistics."""
        self.tally.batches_read += len(window.batches)
        self.tally.batches_copied += int(is_copied.sum())
        self.tally.records_read += len(window.owners)
        self.tally.bytes_read += int(window.batches.column("size").sum())

    # ------------------------------------------------------------------------------------------------ a batch

    def _judge_batches(self, window: DecodedBatches, retain_old_deletes: bool) -> BatchVerdicts:
        """Decide which batches can be discarded. Batches outside of transactions are kept and get no delete horizon."""
        discard, sets_horizon = np.zeros(len(window.batches), np.bool_), np.zeros(len(window.batches), np.bool_)
        for batch in find_transactional_batches(window):
            header = make_batch_header(window, batch)
            if header.is_control:
                sets_horizon[batch] = self._transactions.process_control(header, control_type(window, batch))
                discard[batch] = sets_horizon[batch] and self._may_discard_marker(header, retain_old_deletes)
            else:
                discard[batch] = self._transactions.process_data(header)
        return BatchVerdicts(discard, self._mask_retained_headers(window), sets_horizon)

    def _may_discard_marker(self, header: BatchHeader, retain_old_deletes: bool) -> bool:
        if not self._settings.has_horizons:
            return not retain_old_deletes
        return _has_horizon(header) and header.base_timestamp <= self._settings.now_ms

    def _mask_retained_headers(self, window: DecodedBatches) -> Flags:
        """Return a mask of each active producer's last batch and of the last batch of the cleaning (KAFKA-17076)."""
        last_offsets = window.batches.column("last_offset")
        is_retained: Flags = np.zeros(len(window.batches), np.bool_)
        is_control = window.batches.is_control
        is_candidate = (window.batches.column("producer_id") >= 0) & (
            is_control | np.isin(last_offsets, self._last_of_producers)
        )
        for batch in np.flatnonzero(is_candidate).tolist():
            is_retained[batch] = self._is_last_batch_of_producer(make_batch_header(window, batch))
        if self._settings.keeps_last_of_round:
            is_retained |= last_offsets + 1 == self._end_offset
        return is_retained

    def _is_last_batch_of_producer(self, header: BatchHeader) -> bool:
        state = self._producers.states.get(header.producer_id)
        if state is None:
            return False
        if state.last_offset >= 0:
            return header.last_offset == state.last_offset
        return header.is_control and header.producer_epoch == state.producer_epoch

    def _mask_old_formats(self, magics: Ints) -> Flags:
        is_old_format: Flags = (magics < 2) & (self._settings.broker_release == REWRITES_OLD)
        return is_old_format

    def _mask_new_horizons(self, window: DecodedBatches, is_kept: Flags, verdicts: BatchVerdicts) -> Flags:
        if not self._settings.has_horizons:
            return np.zeros(len(window.batches), np.bool_)
        magics = window.batches.column("magic")
        has_tombstone = np.zeros(len(window.batches), np.bool_)
        has_tombstone[window.owners[is_kept & (window.index.value_size < 0)]] = True
        gets_horizon: Flags = (has_tombstone | verdicts.sets_horizon) & ~window.batches.mask_flag(DELETE_HORIZON)
        return gets_horizon & ((magics >= 2) | self._mask_old_formats(magics))

    # ----------------------------------------------------------------------------------------------- its records

    def _mask_kept_records(self, window: DecodedBatches, is_discarded: Flags, retain_old_deletes: bool) -> Flags:
        index, owners = window.index, window.owners
        discard, control = is_discarded[owners], window.batches.is_control[owners]
        is_past_end = index.offsets >= self._end_offset
        is_latest = (index.key_size >= 0) & self._latest.mask_latest(window)
        has_value = index.value_size >= 0
        if not has_value.all():
            has_value |= self._mask_retained_tombstones(window, retain_old_deletes)[owners]
        is_kept: Flags = ~discard & (control | is_past_end | (is_latest & has_value))
        self._count_dropped_records(discard, is_kept, index.key_size < 0, ~is_latest)
        return is_kept

    def _count_dropped_records(self, discard: Flags, is_kept: Flags, keyless: Flags, older: Flags) -> None:
        is_dropped = ~is_kept
        for reason, flags in (
            ("aborted, or the marker of a transaction that is gone", discard),
            ("without a key", ~discard & is_dropped & keyless),
            ("a later record of the key", ~discard & is_dropped & ~keyless & older),
            ("tombstone past its retention", ~discard & is_dropped & ~keyless & ~older),
        ):
            number = int(flags.sum())
            if number:
                self.tally.dropped_records[reason] += number

    def _mask_retained_tombstones(self, window: DecodedBatches, retain_old_deletes: bool) -> Flags:
        if not self._settings.has_horizons:
            return np.full(len(window.batches), retain_old_deletes)
        is_before_horizon = self._settings.now_ms < window.batches.column("base_timestamp")
        has_retention = ~window.batches.mask_flag(DELETE_HORIZON) | is_before_horizon
        is_retained: Flags = np.where(window.batches.is_v2, has_retention, retain_old_deletes)
        return is_retained

    # ----------------------------------------------------------------------------------------------- what is written

    def _build_empty_batch(self, window: DecodedBatches, batch: int) -> bytes:
        """Return an empty batch with the header of a batch that retains no records."""
        header = make_batch_header(window, batch)
        if header.magic < 2:
            raise LogDirError(
                f"all records of the last message (format {header.magic}) would be removed; Kafka fails in this case",
                position=header.position,
                file=window.file,
            )
        self.tally.batches_emptied += 1
        append_time = bool(header.attributes & APPEND_BIT)
        fields = _make_header_fields(header, append_time=append_time, horizon=None)
        return build_empty_batch(
            header.base_offset, header.last_offset, max_timestamp=header.max_timestamp, fields=fields
        )

    def _rewrite_batches(self, window: DecodedBatches, is_kept: Flags, rewrites: list[tuple[int, bool]]) -> Chunks:
        """Rewrite batches. Batches with the same format, codec and timestamp type are written together."""
        self.tally.batches_rewritten += len(rewrites)
        chunks: Chunks = {}
        batches_by_kind: dict[tuple[int, int, bool], list[tuple[int, BatchFields]]] = {}
        new_horizon = self._settings.now_ms + self._settings.delete_retention_ms
        for batch, gets_horizon in rewrites:
            header = make_batch_header(window, batch)
            is_new = header.magic < 2 and self._settings.broker_release == REWRITES_OLD
            magic = 2 if is_new else header.magic
            append_time = bool(header.attributes & APPEND_BIT) and header.magic >= 1
            kind = (magic, header.attributes & CODEC_MASK, append_time and magic < 2)
            horizon = new_horizon if gets_horizon else None
            batches_by_kind.setdefault(kind, []).append((batch, self._make_header(header, append_time, horizon)))
        for (magic, codec, _), members in batches_by_kind.items():
            is_rewritten = np.zeros(len(window.batches), np.bool_)
            is_rewritten[[batch for batch, _ in members]] = True
            rewritten_records = is_kept & is_rewritten[window.owners]
            index = window.index.take(rewritten_records, window.owners)
            rows = make_rows_from_index(window.sections, index)
            sizes = index.rows[is_rewritten]
            built_batches = build_batches(
                rows, np.cumsum(sizes) - sizes, [fields for _, fields in members], record_format=magic, codec=codec
            )
            chunks |= {batch: chunk for (batch, _), chunk in zip(members, built_batches, strict=True)}
        return chunks

    def _make_header(self, header: BatchHeader, append_time: bool, horizon: int | None) -> BatchFields:
        """Return the header of a rewritten batch: the original header, except the fields that depend on the records."""
        if horizon is None and _has_horizon(header) and self._settings.has_horizons:
            horizon = header.base_timestamp
        fields = _make_header_fields(header, append_time=append_time, horizon=horizon)
        if header.magic < 2:
            return BatchFields(timestamp_type=fields.timestamp_type, delete_horizon_ms=horizon)
        return fields


def _count_records(chunks: list[bytes | memoryview]) -> int:
    data = as_array(b"".join(chunks))
    return count_records(data, scan_all(data, rules=FILE))


def _order_chunks(window: DecodedBatches, is_copied: Flags, chunks: Chunks) -> list[bytes | memoryview]:
    """Return the remaining batches in their order. Adjacent copied batches become one chunk."""
    positions, sizes = window.batches.column("position"), window.batches.column("size")
    edges = np.flatnonzero(np.diff(is_copied, prepend=False, append=False)).reshape(-1, 2)
    view = memoryview(window.data.data)
    runs = {
        first: view[start:end]
        for first, start, end in zip(
            edges[:, 0].tolist(),
            positions[edges[:, 0]].tolist(),
            (positions + sizes)[edges[:, 1] - 1].tolist(),
            strict=True,
        )
    }
    return [chunk for _, chunk in sorted((runs | chunks).items())]


def _has_horizon(header: BatchHeader) -> bool:
    return header.magic >= 2 and bool(header.attributes & DELETE_HORIZON)


def _make_header_fields(header: BatchHeader, *, append_time: bool, horizon: int | None) -> BatchFields:
    return BatchFields(
        timestamp_type=LOG_APPEND_TIME if append_time else CREATE_TIME,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        delete_horizon_ms=horizon,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        max_timestamp=header.max_timestamp if append_time else None,
    )
