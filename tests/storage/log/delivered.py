"""The offsets that a consumer receives from a log, computed record by record and compared with live consumers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkaframes.storage.files.directory import Partition
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.segment_reader import SegmentReader, open_segment
from kafkaframes.storage.log.transactions import TransactionState, read_transactions


def yield_delivered_offsets(
    filesystem: FileSystem, partition: Partition, *, isolation: str, state: TransactionState | None = None
) -> Iterator[int]:
    """Yield the offset of every record that a consumer receives when it reads from the beginning.

    These are not control records and not records below the log start offset, which a batch may still contain. With
    ``read_committed``, they are not aborted and are below the last stable offset.

    Args:
        filesystem, partition: the results of the discovery.
        isolation: one of ``ISOLATIONS``.
        state: the result of ``read_transactions``. By default, it is read.

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
                    offsets = _list_offsets(reader, header)
                    yield from (offset for offset in offsets if partition.log_start_offset <= offset < end)


def _list_offsets(reader: SegmentReader, header: BatchHeader) -> Iterable[int]:
    """Return the offsets of a batch's records. Only a batch with offset gaps is decompressed."""
    if header.magic >= 2 and header.record_count == header.last_offset - header.base_offset + 1:
        return range(header.base_offset, header.last_offset + 1)
    return [record.offset for record in reader.read_records(header)]
