"""Find the last record of each key with many workers, which share a directory but no memory.

The search has three steps. The workers exchange results as files, so memory does not grow with the number of keys:

1. ``EntriesWriter`` is used once for each range of segments. Each record's key becomes a 128-bit digest and an entry in
   one *bucket*, which is a range of digests. A record that a later record of the same window replaces has no entry. The
   bucket number of every record is written to a second file. Entries are sorted by bucket in memory,
   ``MAX_RUN_ENTRIES`` at a time, and written as one *run*.
2. ``judge_buckets`` is called once for each range of buckets. The function reads the entries of a bucket from the end
of the log
   to its start. An entry is the last of its key if no later selected entry has the same digest.
3. ``VerdictReader`` is used once for each range of segments. The reader finds the result of each record's entry by its
bucket
   number.

Step 1 needs twice the memory of a run of entries (32 MiB). Step 2 needs memory for the entries of one bucket, and one
bit for each entry of the range. Even a very frequent key has at most one entry per window. The caller checks that
offsets increase through the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.scan import Flags, Ints
from kafkaframes.storage.cleaner import _kernels as kernels

MAX_RUN_ENTRIES = 1 << 20  # entries that are sorted in memory and written as one run
_BUCKET_BYTES = 16 << 20  # bytes of the log for each bucket
_MIN_BUCKETS = 256  # buckets divide the digests of keys by their highest bits
_FILTER_SLOTS = 1 << 14  # size of the cache of digests seen in a window
_WORD_BYTES = 8  # size of an integer in the files
Secret = tuple[int, int]


def choose_bucket_count(log_bytes: int) -> int:
    """Return the number of buckets for a log: a power of two, large enough that one bucket fits a CPU cache.

    >>> choose_bucket_count(1 << 30), choose_bucket_count(1 << 34), choose_bucket_count(1 << 50)
    (256, 1024, 32768)
    """
    count = 1 << max(log_bytes // _BUCKET_BYTES - 1, 0).bit_length()
    return min(max(count, _MIN_BUCKETS), kernels.MAX_BUCKETS)


class EntriesWriter:
    """A writer of two files about a range of segments: the digests of the record keys, and their bucket numbers.

    Attributes:
        runs: number of entries of each written run.
    """

    def __init__(
        self,
        entries: BinaryIO,
        record_buckets: BinaryIO,
        *,
        secret: Secret,
        buckets: int,
        run_entries: int = MAX_RUN_ENTRIES,
    ) -> None:
        """``secret`` (the digest key, two 64-bit numbers) and ``buckets`` must be the same for the whole round."""
        self.runs: list[int] = []
        self._entries_file, self._record_buckets_file = entries, record_buckets
        self._secret = secret
        self._seen_digests: Ints = np.zeros(2 * _FILTER_SLOTS, np.int64)
        self._entries: Ints = np.empty(2 * run_entries, np.int64)
        self._sorted_entries: Ints = np.empty(2 * run_entries, np.int64)
        self._counts: Ints = np.zeros(buckets, np.int64)
        self._shift = 64 - buckets.bit_length() + 1
        self._used_entries = 0

    def add_window(self, window: DecodedBatches, is_selected: Flags) -> None:
        """Add a window's records. Records that are not selected do not replace other records, but can be replaced."""
        index, flags = window.index, is_selected.view(np.uint8)
        digests: Ints = np.empty(2 * len(index.offsets), np.int64)
        record_buckets = np.empty(len(index.offsets), np.uint16)
        self._seen_digests.fill(0)
        kernels.digest_keys(window.sections.buf, index.key_at, index.key_size, *self._secret, digests)
        kernels.fill_record_buckets(digests, index.key_size, flags, self._shift, self._seen_digests, record_buckets)
        self._record_buckets_file.write(record_buckets.data)
        first = 0
        while True:
            first, self._used_entries = kernels.append_entries(
                digests, flags, record_buckets, first, self._used_entries, self._entries, self._counts
            )
            if first == len(record_buckets):
                return
            self.finish_run()

    def finish_run(self) -> None:
        """Write the collected entries as a run: the number of entries per bucket, then the entries by bucket."""
        if not self._used_entries:
            return
        starts = np.cumsum(self._counts) - self._counts
        kernels.sort_entries(self._entries, self._used_entries, self._shift, starts, self._sorted_entries)
        self._entries_file.write(self._counts.data)
        self._entries_file.write(self._sorted_entries[: 2 * self._used_entries].data)
        self.runs.append(self._used_entries)
        self._used_entries = 0
        self._counts.fill(0)


def _open_runs(path: Path, runs: Sequence[int], buckets: int) -> list[tuple[Ints, Ints]]:
    """Return the entry counts by bucket and the entries of each run. The file is memory-mapped."""
    if not runs:
        return []
    words = np.asarray(np.memmap(path, np.int64, "r"))
    opened_runs, position = [], 0
    for entries in runs:
        start, position = position + buckets, position + buckets + 2 * entries
        opened_runs.append((words[start - buckets : start], words[start:position]))
    return opened_runs


def judge_buckets(
    entries: Sequence[tuple[Path, Sequence[int]]],
    verdicts: BinaryIO,
    *,
    buckets: int,
    first_bucket: int,
    end_bucket: int,
) -> None:
    """Write a bit for each entry (key digest) in a range of buckets: whether the entry is the last one of its key.

    Args:
        entries: files of step 1 and their runs, in log order.
        verdicts: output file. The output starts with the position of each file's results, in the order of ``entries``,
            and their end position. For each file, run and bucket, one bit per entry follows, padded to whole bytes.
    """
    files = [_open_runs(path, runs, buckets) for path, runs in entries]
    run_files = [_RunVerdicts(counts, data) for runs in files for counts, data in runs]
    table: Ints = np.empty(0, np.int64)
    for bucket in range(first_bucket, end_bucket):
        parts = [run_file.entries_of(bucket) for run_file in run_files]
        count = sum(map(len, parts)) // 2
        if count:
            table = _make_empty_table(table, count)
            latest = np.empty(count, np.uint8)
            kernels.find_latest_entries(np.concatenate(parts), table, latest)
            ends = np.cumsum([len(part) // 2 for part in parts])[:-1]
            for run_file, flags in zip(run_files, np.split(latest, ends), strict=True):
                run_file.verdicts.append(np.packbits(flags, bitorder="little").tobytes())
    remaining_files = iter(run_files)
    slabs = [b"".join(flags for _ in runs for flags in next(remaining_files).verdicts) for runs in files]
    sizes = np.array([0, *map(len, slabs)], np.int64)
    verdicts.write((np.cumsum(sizes) + len(sizes) * _WORD_BYTES).data)
    verdicts.writelines(slabs)


class _RunVerdicts:
    """The entries (key digests) of one sorted run, with flags for those that are the last of their key."""

    def __init__(self, counts: Ints, entries: Ints) -> None:
        self.verdicts: list[bytes] = []
        self._ends = [0, *np.cumsum(counts).tolist()]
        self._entries = entries

    def entries_of(self, bucket: int) -> Ints:
        return self._entries[2 * self._ends[bucket] : 2 * self._ends[bucket + 1]]


def _make_empty_table(table: Ints, entries: int) -> Ints:
    """Return an empty hash table with at least two slots per entry; reuse ``table`` if it is large enough."""
    slots = 1 << max(4, (2 * entries - 1).bit_length())
    if len(table) < 2 * slots:
        table = np.empty(2 * slots, np.int64)
    table = table[: 2 * slots]
    table.fill(0)
    return table


class VerdictReader:
    """A reader of the result of ``judge_buckets``: which records of a window are the last ones of their keys.

    Windows must be passed in order.
    """

    def __init__(
        self,
        number: int,
        entries: Path,
        runs: Sequence[int],
        record_buckets: Path,
        verdicts: Sequence[tuple[Path, int, int]],
        *,
        buckets: int,
    ) -> None:
        """Read the verdicts.

        Args:
            number: position of these segments' files in the list that was passed to ``judge_buckets`` as ``entries``.
            entries, runs, record_buckets: results of step 1 for these segments.
            verdicts: files of step 2, each with the first and the end bucket of its range.
        """
        self._record_buckets = (
            np.memmap(record_buckets, np.uint16, "r") if record_buckets.stat().st_size else np.empty(0, np.uint16)
        )
        self._position = 0
        counts = np.array([counts for counts, _ in _open_runs(entries, runs, buckets)], np.int64).reshape(-1, buckets)
        slabs, cursors, position = [], np.zeros_like(counts), 0
        for path, first, end in verdicts:
            slab = _read_verdict_slab(path, number)
            sizes = -(-counts[:, first:end] // 8)
            cursors[:, first:end] = 8 * (position + np.cumsum(sizes).reshape(sizes.shape) - sizes)
            slabs.append(slab)
            position += len(slab)
        self._bits = np.frombuffer(b"".join(slabs), np.uint8)
        self._runs = list(zip(runs, cursors, strict=True))
        self._run, self._remaining = -1, 0

    def mask_latest(self, window: DecodedBatches) -> Flags:
        """Return a mask of the records that no later record replaces."""
        count = len(window.owners)
        record_buckets = np.array(self._record_buckets[self._position : self._position + count])
        self._position += count
        latest, first = np.empty(count, np.uint8), 0
        cursors: Ints = self._runs[self._run][1] if self._run >= 0 else np.zeros(0, np.int64)
        while True:
            first, self._remaining = kernels.read_verdicts(
                record_buckets, first, self._remaining, cursors, self._bits, latest
            )
            if first == count:
                return latest.view(np.bool_)
            self._run += 1
            self._remaining, cursors = self._runs[self._run]


def _read_verdict_slab(path: Path, number: int) -> bytes:
    with path.open("rb") as file:
        file.seek(number * _WORD_BYTES)
        start, end = np.frombuffer(file.read(2 * _WORD_BYTES), np.int64).tolist()
        file.seek(start)
        return file.read(end - start)
