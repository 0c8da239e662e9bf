"""Batches as a broker takes them that gives offsets itself. Pure: an answer of Fetch in, batches and their runs out.

A batch of format 2 whose offsets have no hole goes as it is, its header apart: producer id, epoch, sequence and the
transactional bit are cleared, a delete horizon too (the copy's own cleaner sets one), and the CRC is made anew. The
payload is opened only where it must be: formats 0 and 1, holes that a cleaner left, a broker's append time (the times
that consumers see are written as the producers'), and where a batch begins before the first requested offset.
Control batches, aborted and empty ones are left out.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.client import Fetched
from kafkaframes.errors import CorruptRecordError
from kafkaframes.jobs.mirror.mapping import Runs
from kafkaframes.records.build import build_records
from kafkaframes.records.codecs import Codec
from kafkaframes.records.layout import BATCH_V2, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL
from kafkaframes.records.scan import Batches, as_array, check_crcs, scan_all
from kafkaframes.wire.checksum import crc32c

CONTROL_BATCH, ABORTED, EMPTY, BEFORE = "transaction markers", "aborted", "empty batches", "below the first offset"
DAMAGED = "damaged"
OLD_FORMAT, HOLES, APPEND_TIME, CUT = "format 0 or 1", "offsets with holes", "log append time", "begins too early"
BATCH_BYTES: Final = 256 << 10  # of records, before they are compressed, in a batch that is written anew
Flags = npt.NDArray[np.bool_]
_COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")
_CRC_AT, _ATTRIBUTES_AT, _PRODUCER_AT = (BATCH_V2.position_of(name) for name in ("crc", "attributes", "producer_id"))
_NO_PRODUCER: Final = struct.pack(">qhi", -1, -1, -1)
_CLEARED: Final = TRANSACTIONAL | DELETE_HORIZON


@dataclass(slots=True)
class Renumbered:
    """What is to be written, and what was left out.

    Attributes:
        batches: batches of format 2 with base offset 0.
        counts: the records of each.
        sources: offsets of the source: rows of first offset and count, of all batches.
        records_read, left_out, opened, batches_left_out, rebuilt: see ``PartitionReport``.
    """

    batches: list[bytes] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    sources: list[tuple[int, int]] = field(default_factory=list)
    records_read: int = 0
    rebuilt: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    batches_left_out: Counter[str] = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)

    def runs(self, target_next: int) -> Runs:
        """Return the mapping of what is written from ``target_next`` on; runs that touch become one."""
        if not self.sources:
            return np.empty((0, 3), np.int64)
        source, count = np.array(self.sources, np.int64).T
        target = target_next + np.cumsum(count) - count
        begins = np.concatenate(([True], source[1:] != source[:-1] + count[:-1]))
        starts = np.flatnonzero(begins)
        return np.stack([source[starts], target[starts], np.add.reduceat(count, starts)], axis=1)


def damaged_batches(fetched: Fetched, *, skip: bool) -> Flags:
    """Say which batches do not have the CRC of their bytes; of a wrapper of format 0 or 1 its own CRC is looked at.

    Raises:
        CorruptRecordError: one does not, and they are not to be skipped.
    """
    batches = fetched.batches
    damaged: Flags = check_crcs(as_array(fetched.data), batches) == 0
    if damaged.any() and not skip:
        offset = int(batches.column("last_offset")[int(np.flatnonzero(damaged)[0])])
        reason = f"the batch that ends at offset {offset:,} does not have the CRC of its bytes (`skip_damaged` goes on)"
        raise CorruptRecordError(reason, file=str(fetched.partition))
    return damaged


def renumber(fetched: Fetched, start: int, damaged: Flags, *, batch_bytes: int = BATCH_BYTES) -> Renumbered:
    """Return what of an answer is to be written.

    Args:
        fetched: the answer; with its aborted transactions.
        start: offsets below are left out.
        damaged: batches to leave out.
        batch_bytes: of batches that are built anew.

    Raises:
        CorruptRecordError: a batch that must be opened is damaged.
    """
    batches, made = fetched.batches, Renumbered()
    why = _reasons(fetched, batches, start, damaged)
    codecs = batches.codecs
    first = 0
    while first < len(batches):
        last = first + 1
        reason = why[first]
        if reason == OLD_FORMAT:  # messages by themselves: many become one batch
            while last < len(batches) and why[last] == reason and codecs[last] == codecs[first]:
                last += 1
        _take(made, fetched, batches.part(first, last), reason, start, batch_bytes)
        first = last
    return made


def _reasons(fetched: Fetched, batches: Batches, start: int, damaged: Flags) -> list[str | None]:
    """Say of each batch why it is left out or opened; None goes as it is."""
    base, last, new = batches.column("base_offset"), batches.column("last_offset"), batches.is_v2
    reasons = np.full(len(batches), None, object)
    for condition, reason in (  # a later one wins
        (new & (batches.column("count") != last - base + 1), HOLES),
        (new & batches.flag(LOG_APPEND_TIME), APPEND_TIME),
        (new & (base < start), CUT),
        (~new, OLD_FORMAT),
        (fetched.transactions.aborted_batches(batches), ABORTED),
        (new & (batches.column("count") == 0), EMPTY),
        (batches.is_control, CONTROL_BATCH),
        (damaged, DAMAGED),
        (last < start, BEFORE),
    ):
        reasons[condition] = reason
    return list(reasons)


def _take(
    made: Renumbered, fetched: Fetched, batches: Batches, reason: str | None, start: int, batch_bytes: int
) -> None:
    position, count = int(batches.column("position")[0]), int(batches.column("count")[0])
    if reason in (ABORTED, EMPTY, CONTROL_BATCH, DAMAGED, BEFORE):
        if reason != BEFORE:  # those were read, and counted, before
            made.batches_left_out[str(reason)] += len(batches)
        if reason in (ABORTED, CONTROL_BATCH):
            made.records_read += count
            made.left_out[str(reason)] += count
        return
    if reason is None:
        made.records_read += count
        batch = fetched.data[position : position + int(batches.column("size")[0])]
        made.batches.append(cleared(batch))
        made.counts.append(count)
        made.sources.append((int(batches.column("base_offset")[0]), count))
        return
    made.opened[reason] += len(batches)
    end = int(batches.column("position")[-1] + batches.column("size")[-1])
    _rebuild(made, fetched, (position, end), start, batch_bytes)


def cleared(batch: bytes | memoryview) -> bytes:
    """Return a format 2 batch at base offset 0, without producer, transaction and delete horizon, its CRC made anew."""
    changed = bytearray(batch)
    (attributes,) = struct.unpack_from(">h", changed, _ATTRIBUTES_AT)
    changed[:8] = bytes(8)
    producer = slice(_PRODUCER_AT, _PRODUCER_AT + len(_NO_PRODUCER))
    if attributes & _CLEARED or changed[producer] != _NO_PRODUCER:
        struct.pack_into(">h", changed, _ATTRIBUTES_AT, attributes & ~_CLEARED)
        changed[producer] = _NO_PRODUCER
        struct.pack_into(">I", changed, _CRC_AT, crc32c(memoryview(changed)[_ATTRIBUTES_AT:]))
    return bytes(changed)


def _rebuild(made: Renumbered, fetched: Fetched, where: tuple[int, int], start: int, batch_bytes: int) -> None:
    """Open batches and write their records anew, as consumers see them."""
    part = Fetched(fetched.partition, start, fetched.data[where[0] : where[1]])
    codec = int(part.batches.codecs[0])
    for columns in part.read(_COLUMNS):
        if not columns.num_rows:
            continue
        made.records_read += columns.num_rows
        offsets = columns.column("offset").to_numpy()
        made.sources += _runs_of(offsets)
        rows = pa.table({name: columns.column(name) for name in _COLUMNS[1:]})
        built = build_records(rows, codec=Codec(codec).name.lower(), batch_bytes=batch_bytes)
        batches = scan_all(built)
        for position, size, count in zip(
            *(batches.column(name).tolist() for name in ("position", "size", "count")), strict=True
        ):
            made.batches.append(bytes(8) + built[position + 8 : position + size])
            made.counts.append(count)
            made.rebuilt += 1


def _runs_of(offsets: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return first offset and count of each stretch without a hole."""
    starts = np.flatnonzero(np.concatenate(([True], np.diff(offsets) != 1)))
    counts = np.diff(np.append(starts, len(offsets)))
    return list(zip(offsets[starts].tolist(), counts.tolist(), strict=True))
