"""The short way: one call of one kernel for an ordinary batch or wrapper, which gets its offsets and stays as it came.

``None`` is no verdict: the general path (``validator.py``) decides then. A test runs both on the same bytes and
compares all that comes out.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.log.append import _kernels as kernels
from kafkaframes.log.append.desk import Desk, borrow, give_back
from kafkaframes.log.append.settings import AppendSettings
from kafkaframes.records.codecs import decompress
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, CODEC_MASK, MESSAGE_V0, MESSAGE_V1

Answer = tuple[int, int, int, int]
_ODD: Answer = (kernels.ODD, 0, 0, 0)
_LENGTHS = 8  # of key and value
# Where a compressed stream starts and where the byte with the codec is, by format.
_STARTS = (
    (MESSAGE_V0.size + _LENGTHS, MESSAGE_V0.place_of("attributes")),
    (MESSAGE_V1.size + _LENGTHS, MESSAGE_V1.place_of("attributes")),
    (BATCH_V2.size, BATCH_V2.end_of("attributes") - 1),
)


class InPlace(NamedTuple):
    """A batch with its new header, how many records it has, and its largest timestamp in milliseconds."""

    records: bytes
    records_count: int
    max_timestamp: int


def take_in_place(data: bytes, offset: int, settings: AppendSettings) -> InPlace | None:
    """Give an ordinary batch its offsets; ``None`` where Kafka would do more, or anything is odd inside."""
    desk = borrow(settings)
    try:
        answer, count, largest, size = kernels.take(data, offset, desk.words)
        if answer < 0:
            answer, count, largest, size = _again(data, offset, desk, answer, count)
        return InPlace(bytes(desk.out[:size]), count, largest) if answer == kernels.IN_PLACE else None
    finally:
        desk.clear()
        give_back(desk)


def _again(data: bytes, offset: int, desk: Desk, answer: int, needed: int) -> Answer:
    """Give the kernel the memory or the content that it asks for, and try again."""
    found: Answer = (answer, needed, 0, 0)
    while found[0] < 0:
        if found[0] == kernels.CAREFUL:
            content = _content(data)
            if content is None:
                return _ODD
            desk.show(content)
        else:
            desk.make_room(found[0], found[1])
        found = kernels.take(data, offset, desk.words)
    return found


def _content(data: bytes) -> bytes | bytearray | None:
    """Decompress what the kernel would not; ``None`` where it is damaged."""
    magic = data[BYTES_TO_MAGIC - 1]
    start, attributes = _STARTS[magic]
    records, error = decompress(data[attributes] & CODEC_MASK, memoryview(data)[start:], magic=magic)
    return records if error is None else None
