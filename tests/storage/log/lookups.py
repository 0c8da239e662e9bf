"""Search for an offset in a partition, with or without indexes, for several tests."""

from __future__ import annotations

from itertools import pairwise

from kafkaframes.storage.files.directory import Partition
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.segment_reader import open_segment


def find_offset(
    filesystem: FileSystem, partition: Partition, offset: int, *, use_indexes: bool = True
) -> BatchHeader | None:
    """Return the batch with an offset, else the next batch (after compaction), or None at the end."""
    for segment, later in pairwise((*partition.segments, None)):
        if later is not None and later.base_offset <= offset:
            continue
        with open_segment(filesystem, segment, use_indexes=use_indexes) as reader:
            header = reader.find_batch(offset)
            if header is not None:
                return header
    return None
