"""The short way goes on: a set that is open already is written anew, for another format or codec, without holes.

``None`` is no verdict here either.
"""

from __future__ import annotations

from kafkaframes.records.append import _kernels_context as slots
from kafkaframes.records.append import _kernels_rebuild as kernels
from kafkaframes.records.append.context import KernelContext, codec_in
from kafkaframes.records.append.settings import Appended, AppendSettings
from kafkaframes.records.codecs import compress
from kafkaframes.records.layout import BATCH_V2


def rebuild(data: bytearray, offset: int, context: KernelContext, settings: AppendSettings) -> Appended | None:
    """Write the set anew whose content ``context`` holds; ``None`` where it needs a closer look."""
    taken = kernels.rewrite(data, offset, context.words)
    if taken[0] == slots.NO_OUT:
        context.reserve(taken[0], taken[1])
        taken = kernels.rewrite(data, offset, context.words)
    answer, count, largest, size, held = taken
    if answer == slots.UNUSUAL:
        return None
    records, recompressed = bytes(context.out[:size]), 0
    if answer == slots.PLAIN:
        records, recompressed = _wrapped(data, records, offset, context, settings), held
        if not records:
            return None
    return Appended(records, offset + count, False, largest, count, context.now_ms, len(data), recompressed, 0)


def _wrapped(data: bytearray, plain: bytes, offset: int, context: KernelContext, settings: AppendSettings) -> bytes:
    """Compress what the kernel wrote and have it put behind a header; nothing where that is too large."""
    codec = settings.target_codec(codec_in(data))
    packed, number = compress(codec, plain, level=settings.level, magic=settings.record_format), int(codec)
    size = kernels.wrap(data, packed, number, offset, context.words)
    if size == slots.NO_OUT:
        context.reserve(size, len(packed) + BATCH_V2.size)
        size = kernels.wrap(data, packed, number, offset, context.words)
    return bytes(context.out[:size])
