"""A whole segment, window by window: the headers of its batches as columns, with their bytes or without.

Without bytes a batch larger than a window is stepped over, so that a scan of headers reads less than the file. Memory
is a window (or the largest batch) and a table of headers, whatever the segment's size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkaframes.errors import LogDirError
from kafkaframes.files.filesystem import ReadAt
from kafkaframes.records import scan
from kafkaframes.records.layout import BATCH_V2, PLACE
from kafkaframes.records.reasons import END, FULL, MORE, TORN
from kafkaframes.records.scan import CUT, Batches, End

WINDOW_BYTES = 4 << 20
_SIZE_BYTES = slice(8, 12)


class Window(NamedTuple):
    """Consecutive batches of a segment.

    Attributes:
        batches: positions are those in the file; ``end.goes_on`` on all windows but the last.
        data: bytes from ``start`` on; they hold each batch as a whole if that was asked for.
        start: the position of ``data[0]`` in the file.
    """

    batches: Batches
    data: bytes
    start: int

    def in_data(self) -> Batches:
        """Return the batches with positions counted from ``data[0]``, as the functions of ``records`` want them."""
        table = self.batches.table.copy()
        table[PLACE["position"]] -= self.start
        return Batches(table, self.batches.end)


def scan_segment(
    read_at: ReadAt,
    *,
    size_bytes: int,
    position: int = 0,
    whole: bool = False,
    window_bytes: int = WINDOW_BYTES,
    file: str | None = None,
) -> Iterator[Window]:
    """Scan a segment by the rules of Kafka's file iterator.

    Args:
        read_at: of the file.
        size_bytes: of the file; a batch beyond it is torn.
        position: a byte at which a batch starts.
        whole: give the bytes of the batches, too.
        window_bytes: read at once.
        file: named in errors.

    Raises:
        LogDirError: the file cannot be read, or has become shorter than ``size_bytes`` meanwhile.
    """
    wanted = window_bytes
    while True:
        data = read_at(position, wanted)
        left = size_bytes - position
        if len(data) < min(wanted, left):
            raise LogDirError(End(0, CUT).reason, position=position + len(data), file=file)
        found = scan.scan(data, end=left, rules=scan.FILE, whole=whole)
        if len(found) == 0 and found.end.status == MORE:
            needed = min(_needed(data), left)
            if needed > wanted:
                wanted = needed
                continue
            found = Batches(found.table, End(0, TORN))
        wanted = window_bytes
        table = found.table.copy() if position else found.table
        table[PLACE["position"]] += position
        after = position + found.end.position
        status = found.end.status
        if status in (MORE, FULL) and after >= size_bytes:
            status = END
        yield Window(Batches(table, End(after, status)), data, position)
        if status not in (MORE, FULL):
            return
        position = after


def _needed(data: bytes) -> int:
    """Return how many bytes the first batch of ``data`` has, header and all."""
    return max(int.from_bytes(data[_SIZE_BYTES], "big", signed=True) + _SIZE_BYTES.stop, BATCH_V2.size)
