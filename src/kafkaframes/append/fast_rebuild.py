"""The short way goes on: a set that ``fast.py`` has opened is written anew, for another format or codec, without holes.

``None`` is no verdict here either.
"""

from __future__ import annotations

from kafkaframes.append import _kernels_desk as places
from kafkaframes.append import _kernels_rebuild as kernels
from kafkaframes.append.desk import Desk
from kafkaframes.append.result import Appended
from kafkaframes.append.sent import codec_in
from kafkaframes.append.settings import AppendSettings
from kafkaframes.records.codecs import compress
from kafkaframes.records.layout import BATCH_V2


def rebuild(data: bytes, offset: int, desk: Desk, settings: AppendSettings) -> Appended | None:
    """Write the set anew whose content ``desk`` holds; ``None`` where it needs a closer look."""
    found = kernels.rewrite(data, offset, desk.words)
    if found[0] == places.NO_OUT:
        desk.make_room(found[0], found[1])
        found = kernels.rewrite(data, offset, desk.words)
    answer, count, largest, size, held = found
    if answer == places.ODD:
        return None
    records, recompressed = bytes(desk.out[:size]), 0
    if answer == places.PLAIN:
        records, recompressed = _wrapped(data, records, offset, desk, settings), held
        if not records:
            return None
    return Appended(records, offset + count, False, largest, count, settings.now_ms, len(data), recompressed, 0)


def _wrapped(data: bytes, plain: bytes, offset: int, desk: Desk, settings: AppendSettings) -> bytes:
    """Compress what the kernel wrote and have it put behind a header; nothing where that is too large."""
    codec = settings.target_codec(codec_in(data))
    packed, number = compress(codec, plain, level=settings.level, magic=settings.record_format), int(codec)
    size = kernels.wrap(data, packed, number, offset, desk.words)
    if size == places.NO_OUT:
        desk.make_room(size, len(packed) + BATCH_V2.size)
        size = kernels.wrap(data, packed, number, offset, desk.words)
    return bytes(desk.out[:size])
