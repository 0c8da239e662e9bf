"""The short way: one call of one kernel for an ordinary set, which gets its offsets and stays as it came.

Where the log wants another codec or format, or the inner offsets have holes, ``fast_rebuild.py`` goes on.

``None`` is no verdict: the general path (``validator.py``) decides then. A test runs both on the same bytes and
compares all that comes out.
"""

from __future__ import annotations

from kafkaframes.append import _kernels as kernels
from kafkaframes.append import _kernels_context as places
from kafkaframes.append.context import KernelContext, borrow, give_back
from kafkaframes.append.result import Appended
from kafkaframes.append.settings import AppendSettings
from kafkaframes.append.stream import codec_in, start_of_stream
from kafkaframes.records.codecs import decompress
from kafkaframes.records.layout import BYTES_TO_MAGIC

Answer = tuple[int, int, int, int]
_ODD: Answer = (places.ODD, 0, 0, 0)


def take(data: bytes, offset: int, settings: AppendSettings) -> Appended | None:
    """Take an ordinary set; ``None`` where it needs a closer look."""
    context = borrow(settings)
    try:
        found = kernels.take(data, offset, context.words)
        if found[0] < 0:
            found = _again(data, offset, context, found)
        answer, count, largest, size = found
        if answer == places.IN_PLACE:
            records = bytes(context.out[:size])
            return Appended(records, offset + count, True, largest, 0, settings.now_ms, size, 0, size)
        return None if answer == places.ODD else _anew(data, offset, context, settings)
    finally:
        context.clear()
        give_back(context)


def _anew(data: bytes, offset: int, context: KernelContext, settings: AppendSettings) -> Appended | None:
    from kafkaframes.append.fast_rebuild import rebuild  # its kernels are as many again, and often not needed

    return rebuild(data, offset, context, settings)


def _again(data: bytes, offset: int, context: KernelContext, found: Answer) -> Answer:
    """Give the kernel the memory or the content that it asks for, and try again."""
    while found[0] < 0:
        if found[0] == places.CAREFUL:
            content = _content(data)
            if content is None:
                return _ODD
            context.show(content)
        else:
            context.make_room(found[0], found[1])
        found = kernels.take(data, offset, context.words)
    return found


def _content(data: bytes) -> bytes | bytearray | None:
    """Decompress what the kernel would not; ``None`` where it is damaged."""
    records, error = decompress(
        codec_in(data), memoryview(data)[start_of_stream(data) :], magic=data[BYTES_TO_MAGIC - 1]
    )
    return records if error is None else None
