"""Which records of a window stay, and the batches that hold them afterwards (``Cleaner.cleanInto``, ``filterTo``).

A batch of which everything stays is copied byte for byte; another one is written anew with its own header fields
(offsets, sequences, epochs, producer, codec), because a producer's state and the offsets hang on them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import LogDirError
from kafkaframes.log.cleaner.offset_map import OffsetMap
from kafkaframes.log.cleaner.plan import RoundPlan
from kafkaframes.log.cleaner.settings import REWRITES_OLD, CleanerSettings
from kafkaframes.log.cleaner.transactions import CleanedTransactions
from kafkaframes.log.cleaner.window import DecodedWindow
from kafkaframes.log.headers import BatchHeader
from kafkaframes.records.build import build_batches, build_empty_batch
from kafkaframes.records.fields import CREATE_TIME, LOG_APPEND_TIME, BatchFields
from kafkaframes.records.layout import CODEC_MASK, DELETE_HORIZON
from kafkaframes.records.layout import LOG_APPEND_TIME as APPEND_BIT
from kafkaframes.records.rebuild import rows_of_index

Flags = npt.NDArray[np.bool_]


class Verdict(NamedTuple):
    """What becomes of a batch before its records are looked at.

    Attributes:
        discard: none of its records stays.
        retain_empty: its header stays even without records.
        sets_horizon: it is the marker of a transaction of which nothing is left.
    """

    discard: bool
    retain_empty: bool
    sets_horizon: bool


@dataclass(slots=True)
class Tally:
    """What a round did, for its report.

    Attributes:
        dropped: why records went -> how many.
    """

    records_read: int = 0
    records_kept: int = 0
    batches_read: int = 0
    batches_copied: int = 0
    batches_rewritten: int = 0
    batches_emptied: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


class Filter:
    """Judges the batches of a round in the order of their offsets."""

    def __init__(self, plan: RoundPlan, settings: CleanerSettings, known: OffsetMap, transactions: CleanedTransactions):
        self._plan = plan
        self._settings = settings
        self._map = known
        self._transactions = transactions
        self._round_end = known.latest_offset + 1
        self.tally = Tally()

    def keep(self, window: DecodedWindow, *, retain_old_deletes: bool) -> list[bytes | memoryview]:
        """Return the bytes that stay of a window, batch by batch.

        Args:
            window: decoded batches.
            retain_old_deletes: whether tombstones without a horizon of their own (formats 0 and 1, brokers before
                3.1) are too young to go: their segment's file time decides.
        """
        verdicts = [self._judge(window, batch, retain_old_deletes) for batch in range(len(window.headers))]
        kept = self._kept_records(window, verdicts, retain_old_deletes)
        counts = np.bincount(window.owners[kept], minlength=len(verdicts))
        tombstones = np.bincount(window.owners[kept & (window.index.value_size < 0)], minlength=len(verdicts))
        foreign = window.foreign_inner()
        self._count(window, counts)
        pieces: list[bytes | memoryview] = [b""] * len(verdicts)
        rewrites: list[tuple[int, int | None]] = []
        view, positions = memoryview(window.data.data), window.batches.column("position").tolist()
        wholes = (counts == window.index.rows) & ~foreign
        facts = zip(verdicts, window.headers, counts.tolist(), wholes.tolist(), tombstones.tolist(), strict=True)
        for batch, (verdict, header, count, whole, buried) in enumerate(facts):
            horizon = self._new_horizon(header, bool(buried), verdict)
            if not count:
                pieces[batch] = self._empty(window, batch, verdict)
            elif whole and horizon is None and not self._must_rewrite(header):
                self.tally.batches_copied += 1
                pieces[batch] = view[positions[batch] : positions[batch] + header.size]
            else:
                rewrites.append((batch, horizon))
        self._rewrite(window, kept, rewrites, pieces)
        return pieces

    def _count(self, window: DecodedWindow, counts: npt.NDArray[np.int64]) -> None:
        self.tally.batches_read += len(window.headers)
        self.tally.records_read += len(window.owners)
        self.tally.records_kept += int(counts.sum())
        self.tally.bytes_read += sum(header.size for header in window.headers)

    # ------------------------------------------------------------------------------------------------ a batch

    def _judge(self, window: DecodedWindow, batch: int, retain_old_deletes: bool) -> Verdict:
        header = window.headers[batch]
        if header.is_control:
            may_go = self._transactions.control(header, window.control_type(batch))
            discard = may_go and self._is_marker_due(header, retain_old_deletes)
        else:
            may_go = discard = self._transactions.data(header)
        return Verdict(discard, self._keeps_header(header), may_go and header.is_control)

    def _is_marker_due(self, header: BatchHeader, retain_old_deletes: bool) -> bool:
        if not self._settings.has_horizons:
            return not retain_old_deletes
        return _has_horizon(header) and header.base_timestamp <= self._settings.now_ms

    def _keeps_header(self, header: BatchHeader) -> bool:
        """Whether the batch holds the last that is known of an active producer, or ends the round (KAFKA-17076)."""
        if header.has_producer and self._is_last_of_producer(header):
            return True
        return self._settings.has_horizons and header.last_offset + 1 == self._round_end

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        entry = self._plan.producers.entries.get(header.producer_id)
        if entry is None:
            return False
        if entry.last_offset >= 0:
            return header.last_offset == entry.last_offset
        return header.is_control and header.producer_epoch == entry.producer_epoch

    def _must_rewrite(self, header: BatchHeader) -> bool:
        return header.magic < 2 and self._settings.semantics == REWRITES_OLD

    def _new_horizon(self, header: BatchHeader, has_tombstone: bool, verdict: Verdict) -> int | None:
        """Return the horizon that the batch gets now, in milliseconds."""
        is_format_2 = header.magic >= 2 or self._must_rewrite(header)
        if not self._settings.has_horizons or not is_format_2 or _has_horizon(header):
            return None
        if has_tombstone or verdict.sets_horizon:
            return self._settings.now_ms + self._settings.delete_retention_ms
        return None

    # ----------------------------------------------------------------------------------------------- its records

    def _kept_records(self, window: DecodedWindow, verdicts: list[Verdict], retain_old_deletes: bool) -> Flags:
        index, owners = window.index, window.owners
        discard = np.array([verdict.discard for verdict in verdicts], np.bool_)[owners]
        control = np.array([header.is_control for header in window.headers], np.bool_)[owners]
        keeps_deletes = np.array([self._keeps_deletes(h, retain_old_deletes) for h in window.headers], np.bool_)[owners]
        last = self._map.get_all(window.sections.buf, index.key_at, index.key_size)
        beyond = index.offsets > self._map.latest_offset
        is_latest = (index.key_size >= 0) & (index.offsets >= last)
        alive = (index.value_size >= 0) | keeps_deletes
        kept: Flags = ~discard & (control | beyond | (is_latest & alive))
        self._count_dropped(discard, kept, index.key_size < 0, ~is_latest)
        return kept

    def _count_dropped(self, discard: Flags, kept: Flags, keyless: Flags, older: Flags) -> None:
        left = ~kept
        for reason, flags in (
            ("aborted, or the marker of a transaction that is gone", discard),
            ("without a key", ~discard & left & keyless),
            ("a later record of the key", ~discard & left & ~keyless & older),
            ("tombstone past its retention", ~discard & left & ~keyless & ~older),
        ):
            number = int(flags.sum())
            if number:
                self.tally.dropped[reason] += number

    def _keeps_deletes(self, header: BatchHeader, retain_old_deletes: bool) -> bool:
        if header.magic < 2 or not self._settings.has_horizons:
            return retain_old_deletes
        return not _has_horizon(header) or self._settings.now_ms < header.base_timestamp

    # ----------------------------------------------------------------------------------------------- what is written

    def _empty(self, window: DecodedWindow, batch: int, verdict: Verdict) -> bytes:
        header = window.headers[batch]
        if not verdict.retain_empty:
            return b""
        if header.magic < 2:
            raise LogDirError(
                f"the round ends with a message of format {header.magic} of which nothing stays: Kafka fails here",
                position=header.position,
                file=window.segment.path,
            )
        self.tally.batches_emptied += 1
        append_time = bool(header.attributes & APPEND_BIT)
        fields = _fields(header, append_time=append_time, horizon=None)
        return build_empty_batch(
            header.base_offset, header.last_offset, max_timestamp=header.max_timestamp, fields=fields
        )

    def _rewrite(
        self,
        window: DecodedWindow,
        kept: Flags,
        rewrites: list[tuple[int, int | None]],
        pieces: list[bytes | memoryview],
    ) -> None:
        """Write batches anew, those of one format, codec and timestamp type together."""
        self.tally.batches_rewritten += len(rewrites)
        alike: dict[tuple[int, int, bool], list[tuple[int, BatchFields]]] = {}
        for batch, horizon in rewrites:
            header = window.headers[batch]
            magic = 2 if self._must_rewrite(header) else header.magic
            append_time = bool(header.attributes & APPEND_BIT) and header.magic >= 1
            kind = (magic, header.attributes & CODEC_MASK, append_time and magic < 2)
            alike.setdefault(kind, []).append((batch, self._header(header, append_time, horizon)))
        for (magic, codec, _), members in alike.items():
            chosen = np.zeros(len(window.headers), np.bool_)
            chosen[[batch for batch, _ in members]] = True
            mine = kept & chosen[window.owners]
            index = window.index.take(mine, window.owners)
            rows = rows_of_index(window.sections, index)
            sizes = index.rows[chosen]
            built = build_batches(
                rows, np.cumsum(sizes) - sizes, [fields for _, fields in members], magic=magic, codec=codec
            )
            for (batch, _), piece in zip(members, built, strict=True):
                pieces[batch] = piece

    def _header(self, header: BatchHeader, append_time: bool, horizon: int | None) -> BatchFields:
        """Return the header of a batch that is written anew: its own, but for what the records decide."""
        if horizon is None and _has_horizon(header):
            horizon = header.base_timestamp
        fields = _fields(header, append_time=append_time, horizon=horizon)
        if header.magic < 2:
            return BatchFields(timestamp_type=fields.timestamp_type, delete_horizon_ms=horizon)
        return fields


def _has_horizon(header: BatchHeader) -> bool:
    return header.magic >= 2 and bool(header.attributes & DELETE_HORIZON)


def _fields(header: BatchHeader, *, append_time: bool, horizon: int | None) -> BatchFields:
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
