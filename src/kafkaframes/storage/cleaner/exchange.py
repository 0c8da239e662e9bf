"""Find the last record of each key with many workers that share no memory, only a directory.

It takes three steps. They exchange their results as files, so that nothing grows with the number of keys in memory:

1. ``EntriesWriter``, once for each run of segments: every record's key becomes a digest of 128 bits, and an entry in
   one bucket; a record that a later one of the same window replaces has none. The ledger says for every record
   in which bucket it is. Entries are sorted by bucket in memory, ``RUN_ENTRIES`` at a time, and written as one *run*.
2. ``judge_buckets``, once for each range of buckets: all entries of a bucket in the order of the log, judged backwards:
   an entry is the last of its key if no later entry that counts has the same digest.
3. ``VerdictReader``, again for each run of segments: the ledger leads from each record to its entry's verdict.

Memory: a run of entries twice (32 MiB) in step 1; in step 2 the entries of one bucket, and a bit for each of the range.
Even a very frequent key has at most one entry a window. Offsets must increase through the log; the caller checks that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from kafkaframes.records.decoded import Decoded
from kafkaframes.records.scan import Flags, Ints
from kafkaframes.storage.cleaner import _kernels as kernels

RUN_ENTRIES = 1 << 20
_BYTES_OF_A_BUCKET = 16 << 20
_MIN_BUCKETS = 256
_SEEN_SLOTS = 1 << 14
_WORD_BYTES = 8
Secret = tuple[int, int]


def buckets_for(log_bytes: int) -> int:
    """Return how many buckets a log should have: a power of two, so that a worker's cache holds one.

    >>> buckets_for(1 << 30), buckets_for(1 << 34), buckets_for(1 << 50)
    (256, 1024, 32768)
    """
    count = 1 << max(log_bytes // _BYTES_OF_A_BUCKET - 1, 0).bit_length()
    return min(max(count, _MIN_BUCKETS), kernels.MAX_BUCKETS)


class EntriesWriter:
    """Writes the entries and the ledger of some segments.

    Attributes:
        runs: how many entries each run has that was written.
    """

    def __init__(
        self, entries: BinaryIO, ledger: BinaryIO, *, secret: Secret, buckets: int, run_entries: int = RUN_ENTRIES
    ) -> None:
        """``secret`` is the key of the digests: two numbers of 64 bits. It and ``buckets`` stay the same in a round."""
        self.runs: list[int] = []
        self._entries_file, self._ledger_file = entries, ledger
        self._secret = secret
        self._seen_digests: Ints = np.zeros(2 * _SEEN_SLOTS, np.int64)
        self._entries: Ints = np.empty(2 * run_entries, np.int64)
        self._sorted_entries: Ints = np.empty(2 * run_entries, np.int64)
        self._counts: Ints = np.zeros(buckets, np.int64)
        self._shift = 64 - buckets.bit_length() + 1
        self._used_entries = 0

    def put(self, window: Decoded, is_selected: Flags) -> None:
        """Add a window's records; those that are not selected replace nothing, but can be replaced."""
        index, flags = window.index, is_selected.view(np.uint8)
        digests: Ints = np.empty(2 * len(index.offsets), np.int64)
        ledger = np.empty(len(index.offsets), np.uint16)
        self._seen_digests.fill(0)
        kernels.digest_all(window.sections.buf, index.key_at, index.key_size, *self._secret, digests)
        kernels.fill_ledger(digests, index.key_size, flags, self._shift, self._seen_digests, ledger)
        self._ledger_file.write(ledger.data)
        first = 0
        while True:
            first, self._used_entries = kernels.emit(
                digests, flags, ledger, first, self._used_entries, self._entries, self._counts
            )
            if first == len(ledger):
                return
            self.finish_run()

    def finish_run(self) -> None:
        """Write the collected entries as a run: the number of entries of each bucket, then the entries by bucket."""
        if not self._used_entries:
            return
        starts = np.cumsum(self._counts) - self._counts
        kernels.scatter(self._entries, self._used_entries, self._shift, starts, self._sorted_entries)
        self._entries_file.write(self._counts.data)
        self._entries_file.write(self._sorted_entries[: 2 * self._used_entries].data)
        self.runs.append(self._used_entries)
        self._used_entries = 0
        self._counts.fill(0)


def _open_runs(path: Path, runs: Sequence[int], buckets: int) -> list[tuple[Ints, Ints]]:
    """Return each run's counts by bucket, and its entries, as the file has them; it is mapped, not read."""
    if not runs:
        return []
    words = np.asarray(np.memmap(path, np.int64, "r"))
    opened, position = [], 0
    for entries in runs:
        start, position = position + buckets, position + buckets + 2 * entries
        opened.append((words[start - buckets : start], words[start:position]))
    return opened


def judge_buckets(
    entries: Sequence[tuple[Path, Sequence[int]]],
    verdicts: BinaryIO,
    *,
    buckets: int,
    first_bucket: int,
    end_bucket: int,
) -> None:
    """Write the verdicts on the entries of some buckets.

    Args:
        entries: the files of step 1 and their runs, in the order of the log.
        verdicts: gets the position of each file's verdicts and of their end, then for each file, run and bucket a bit
            an entry, in whole bytes.
    """
    files = [_open_runs(path, runs, buckets) for path, runs in entries]
    run_files = [_Run(counts, data) for runs in files for counts, data in runs]
    table: Ints = np.empty(0, np.int64)
    for bucket in range(first_bucket, end_bucket):
        parts = [run_file.entries_of(bucket) for run_file in run_files]
        count = sum(map(len, parts)) // 2
        if count:
            table = _empty_table(table, count)
            latest = np.empty(count, np.uint8)
            kernels.judge(np.concatenate(parts), table, latest)
            ends = np.cumsum([len(part) // 2 for part in parts])[:-1]
            for run_file, flags in zip(run_files, np.split(latest, ends), strict=True):
                run_file.verdicts.append(np.packbits(flags, bitorder="little").tobytes())
    remaining_files = iter(run_files)
    slabs = [b"".join(flags for _ in runs for flags in next(remaining_files).verdicts) for runs in files]
    sizes = np.array([0, *map(len, slabs)], np.int64)
    verdicts.write((np.cumsum(sizes) + len(sizes) * _WORD_BYTES).data)
    verdicts.writelines(slabs)


class _Run:
    """One run's entries, and the verdicts on them so far."""

    def __init__(self, counts: Ints, entries: Ints) -> None:
        self.verdicts: list[bytes] = []
        self._ends = [0, *np.cumsum(counts).tolist()]
        self._entries = entries

    def entries_of(self, bucket: int) -> Ints:
        return self._entries[2 * self._ends[bucket] : 2 * self._ends[bucket + 1]]


def _empty_table(table: Ints, entries: int) -> Ints:
    """Return an empty table of which the entries fill at most a half."""
    slots = 1 << max(4, (2 * entries - 1).bit_length())
    if len(table) < 2 * slots:
        table = np.empty(2 * slots, np.int64)
    table = table[: 2 * slots]
    table.fill(0)
    return table


class VerdictReader:
    """Says which records of a segment's windows are the last of their key (``latest.Latest``).

    The windows come in order.
    """

    def __init__(
        self,
        number: int,
        entries: Path,
        runs: Sequence[int],
        ledger: Path,
        verdicts: Sequence[tuple[Path, int, int]],
        *,
        buckets: int,
    ) -> None:
        """Read the verdicts.

        Args:
            number: the place of these segments' entries among all that were judged.
            entries, runs, ledger: of step 1.
            verdicts: the files of step 2, and their ranges of buckets.
        """
        self._ledger = np.memmap(ledger, np.uint16, "r") if ledger.stat().st_size else np.empty(0, np.uint16)
        self._at = 0
        counts = np.array([counts for counts, _ in _open_runs(entries, runs, buckets)], np.int64).reshape(-1, buckets)
        slabs, cursors, position = [], np.zeros_like(counts), 0
        for path, first, end in verdicts:
            slab = _slab(path, number)
            sizes = -(-counts[:, first:end] // 8)
            cursors[:, first:end] = 8 * (position + np.cumsum(sizes).reshape(sizes.shape) - sizes)
            slabs.append(slab)
            position += len(slab)
        self._bits = np.frombuffer(b"".join(slabs), np.uint8)
        self._runs = list(zip(runs, cursors, strict=True))
        self._run, self._remaining = -1, 0

    def is_latest(self, window: Decoded) -> Flags:
        """Return which records no later one replaces."""
        count = len(window.owners)
        ledger = np.array(self._ledger[self._at : self._at + count])
        self._at += count
        latest, first = np.empty(count, np.uint8), 0
        cursors: Ints = self._runs[self._run][1] if self._run >= 0 else np.zeros(0, np.int64)
        while True:
            first, self._remaining = kernels.answer(ledger, first, self._remaining, cursors, self._bits, latest)
            if first == count:
                return latest.view(np.bool_)
            self._run += 1
            self._remaining, cursors = self._runs[self._run]


def _slab(path: Path, number: int) -> bytes:
    with path.open("rb") as file:
        file.seek(number * _WORD_BYTES)
        start, end = np.frombuffer(file.read(2 * _WORD_BYTES), np.int64).tolist()
        file.seek(start)
        return file.read(end - start)
