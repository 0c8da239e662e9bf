"""The offsets that a consumer receives from a log, computed record by record and compared with live consumers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkaframes.storage.files.directory import Partition
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.segment_reader import SegmentReader, open_segment
from kafkaframes.storage.log.transactions import TransactionState, read_transactions


def delivered_offsets(
    filesystem: FileSystem, partition: Partition, *, isolation: str, state: TransactionState | None = None
) -> Iterator[int]:
    """Yield the offset of every record that a consumer receives when it reads from the beginning.

    It receives no control records, and no records below the log start offset, though a batch may still hold them;
    with ``read_committed`` no aborted ones either, and none at or above the last stable offset.

    Args:
        filesystem, partition: from the discovery.
        isolation: one of ``ISOLATIONS``.
        state: from ``read_transactions``, if it is known already.

    Raises:
        LogDirError: a segment cannot be read.
    """
    is_read_committed = isolation == "read_committed"
    transaction_state = read_transactions(filesystem, partition) if state is None else state
    end = transaction_state.end_offset_for(isolation)
    for segment in partition.segments:
        with open_segment(filesystem, segment) as reader:
            for header in reader.walk_headers():
                if not header.is_control and not (is_read_committed and transaction_state.is_aborted(header)):
                    offsets = _offsets_of(reader, header)
                    yield from (offset for offset in offsets if partition.log_start_offset <= offset < end)


def _offsets_of(reader: SegmentReader, header: BatchHeader) -> Iterable[int]:
    """Return the offsets of a batch's records; a batch without holes is not decompressed."""
    if header.magic >= 2 and header.record_count == header.last_offset - header.base_offset + 1:
        return range(header.base_offset, header.last_offset + 1)
    return [record.offset for record in reader.read_records(header)]
