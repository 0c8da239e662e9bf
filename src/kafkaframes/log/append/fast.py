"""The short way: one call of one kernel for an ordinary set, which gets its offsets and stays as it came, or is written
anew where the log wants another codec or format, or its inner offsets have holes.

``None`` is no verdict: the general path (``validator.py``) decides then. A test runs both on the same bytes and
compares all that comes out.
"""

from __future__ import annotations

from kafkaframes.log.append import _kernels as kernels
from kafkaframes.log.append import _kernels_desk as places
from kafkaframes.log.append.desk import Desk, borrow, give_back
from kafkaframes.log.append.result import Appended
from kafkaframes.log.append.settings import AppendSettings
from kafkaframes.records.codecs import Codec, compress, decompress
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, CODEC_MASK, MESSAGE_V0, MESSAGE_V1

Answer = tuple[int, int, int, int, int]
_ODD: Answer = (places.ODD, 0, 0, 0, 0)
_LENGTHS = 8  # of key and value
# Where a compressed stream starts and where the byte with the codec is, by format.
_STARTS = (
    (MESSAGE_V0.size + _LENGTHS, MESSAGE_V0.place_of("attributes")),
    (MESSAGE_V1.size + _LENGTHS, MESSAGE_V1.place_of("attributes")),
    (BATCH_V2.size, BATCH_V2.end_of("attributes") - 1),
)


def take(data: bytes, offset: int, settings: AppendSettings) -> Appended | None:
    """Take an ordinary set; ``None`` where it needs a closer look."""
    desk = borrow(settings)
    try:
        found = kernels.take(data, offset, desk.words)
        if found[0] < 0:
            found = _again(data, offset, desk, found)
        answer, count, largest, size, held = found
        if answer == places.IN_PLACE:
            return Appended(
                bytes(desk.out[:size]), offset + count, True, largest, 0, settings.now_ms, size, 0, size
            )  # fmt: skip
        if answer == places.ODD:
            return None
        records = bytes(desk.out[:size])
        if answer == places.PLAIN:
            records = _wrapped(data, records, offset, desk, settings)
            if not records:
                return None
        recompressed = held if answer == places.PLAIN else 0
        return Appended(
            records, offset + count, False, largest, count, settings.now_ms, len(data), recompressed, 0
        )  # fmt: skip
    finally:
        desk.clear()
        give_back(desk)


def _wrapped(data: bytes, plain: bytes, offset: int, desk: Desk, settings: AppendSettings) -> bytes:
    """Compress what the kernel wrote and have it put behind a header; nothing where that is too large."""
    codec = settings.target_codec(_codec(data))
    packed = compress(codec, plain, level=settings.level, magic=settings.magic)
    size = kernels.wrap(data, packed, int(codec), offset, desk.words)
    if size == places.NO_OUT:
        desk.make_room(size, len(packed) + BATCH_V2.size)
        size = kernels.wrap(data, packed, int(codec), offset, desk.words)
    return bytes(desk.out[:size])


def _again(data: bytes, offset: int, desk: Desk, found: Answer) -> Answer:
    """Give the kernel the memory or the content that it asks for, and try again."""
    while found[0] < 0:
        if found[0] == places.CAREFUL:
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
    records, error = decompress(_codec(data), memoryview(data)[_STARTS[magic][0] :], magic=magic)
    return records if error is None else None


def _codec(data: bytes) -> Codec:
    """Return the codec of what was sent."""
    return Codec(data[_STARTS[data[BYTES_TO_MAGIC - 1]][1]] & CODEC_MASK)
