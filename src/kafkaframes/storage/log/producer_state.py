"""The producer states at the end of a log, loaded from a snapshot and the batches after it.

The cleaner needs these states, because the last batch of each producer must stay in the log. The module also defines
the generations of brokers, which differ in log cleaning, loading and recovery, and in the expiration of producers.
"""

from __future__ import annotations

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files.directory import Partition
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.producer_files import read_producer_snapshot
from kafkaframes.storage.files.segment_reader import open_segment
from kafkaframes.storage.log.producers import DEFAULT_EXPIRATION_MS, Producers
from kafkaframes.storage.log.transactions import iterate_producer_batches_from

# Generations of brokers. 2.8 (and all before 3.1) has no delete horizons (KIP-534) and uses file times to expire
# tombstones and markers. 3.9 has delete horizons and keeps formats. 4.x rewrites formats 0 and 1 as 2 (KAFKA-13093).
BEFORE_HORIZONS, KEEPS_FORMATS, REWRITES_OLD = "2.8", "3.9", "4.x"
# Before KIP-854 introduced producer.id.expiration.ms, producers expired after transactional.id.expiration.ms.
OLD_PRODUCER_EXPIRATION_MS = 604_800_000  # 7 days
BROKER_RELEASES = (BEFORE_HORIZONS, KEEPS_FORMATS, REWRITES_OLD)


def get_producer_expiration_ms(broker_release: str, expiration_ms: int | None) -> int:
    """Return the time after which a broker forgets an idle producer, in milliseconds."""
    if expiration_ms is not None:
        return expiration_ms
    return OLD_PRODUCER_EXPIRATION_MS if broker_release == BEFORE_HORIZONS else DEFAULT_EXPIRATION_MS


def load_producer_states(
    filesystem: FileSystem,
    partition: Partition,
    *,
    now_ms: int,
    end_offset: int,
    expiration_ms: int = DEFAULT_EXPIRATION_MS,
) -> Producers:
    """Return the producer states of a broker that loads this partition at ``now_ms``.

    The states come from the latest readable snapshot at or below ``end_offset`` and from the batches after it. Expired
    producers are removed.

    Raises:
        LogDirError: a segment cannot be read.
    """
    producers, from_offset = _load_latest_snapshot(filesystem, partition, end_offset, expiration_ms)
    producers.drop_expired(now_ms)
    nexts = [segment.base_offset for segment in partition.segments[1:]] + [end_offset]
    for segment, next_base in zip(partition.segments, nexts, strict=False):  # a partition may have no segments
        if next_base > from_offset:
            with open_segment(filesystem, segment) as reader:
                for header, markers in iterate_producer_batches_from(reader, from_offset):
                    producers.process_batch(header, markers)
    return producers


def _load_latest_snapshot(
    filesystem: FileSystem, partition: Partition, end_offset: int, expiration_ms: int
) -> tuple[Producers, int]:
    usable = [file for file in partition.producer_snapshots if file.name.offset <= end_offset]
    for file in sorted(usable, key=lambda file: file.name.offset, reverse=True):
        try:
            entries = read_producer_snapshot(filesystem.read(file.path), file=file.path)
        except LogDirError:
            continue
        return Producers.from_entries(entries, expiration_ms=expiration_ms), file.name.offset
    return Producers(expiration_ms=expiration_ms), partition.log_start_offset
