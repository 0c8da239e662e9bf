"""The context of a call of the append kernels: C functions, memory and the append's settings, as numbers in one array.

Making a context costs more than an append, so contexts are kept and used again: ``borrow`` takes an idle one (or makes
one) for a single caller, ``give_back`` returns it. A context keeps the settings that were put into it last, because
appends in a row share them, all but the time. Below: where the compressed stream of a batch or wrapper starts.
"""

from __future__ import annotations

import numpy as np

from kafkaframes.records import native
from kafkaframes.records.append import _kernels_context as slots
from kafkaframes.records.append.settings import KEEP, REASSIGN, REJECT, AppendSettings
from kafkaframes.records.codecs import Codec, codec_of
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, CODEC_MASK, MESSAGE_V0, MESSAGE_V1
from kafkaframes.records.scan import Bytes

# How much memory a context has for decompressed content, and as much again for output: when it is made, and the most
# that it keeps between two calls. Memory is touched only as far as it is used; for content the kernel asks for 32 times
# the size of the compressed stream, which is 32 MiB at a broker's usual limit for a batch.
USUAL_BYTES, MOST_KEPT_BYTES = 4 << 20, 40 << 20
NO_TIMESTAMP = -1
_LARGEST_INT32 = 2**31 - 1
# The contexts that nobody uses. Taking from a list and adding to one is atomic, so threads share it.
_idle: list[KernelContext] = []


class KernelContext:
    """The context of one caller of the kernels.

    Attributes:
        words: the array that the kernels take; ``_kernels_context.py`` says what stands where.
        out: the memory that the kernels write to.
    """

    def __init__(self) -> None:
        self.words = native.made_calls(slots.OWN_WORDS)
        self._settings: AppendSettings | None = None
        self.now_ms = 0
        self.words[slots.CONTENT_KNOWN] = -1
        self._is_clear = True
        self._set_content(np.empty(USUAL_BYTES, np.uint8))
        self._set_out(USUAL_BYTES)

    def use(self, settings: AppendSettings, now_ms: int) -> None:
        """Put an append's settings and its time into the context, unless they are in it already."""
        if settings is not self._settings:
            self.words[slots.SETTINGS : slots.SETTINGS_END] = numbers_of(settings, now_ms)
        elif now_ms != self.now_ms:
            words = self.words
            words[slots.LOWEST_MS], words[slots.HIGHEST_MS] = range_of(settings, now_ms)
            words[slots.NOW_MS] = now_ms
        self._settings, self.now_ms = settings, now_ms

    def reserve(self, answer: int, size: int) -> None:
        """Allocate ``size`` bytes of the memory that a kernel's answer asks for: for content, or for output."""
        if answer == slots.TOO_SMALL:
            self._set_content(np.empty(size, np.uint8))
        else:
            self._set_out(size)
        self._is_clear = False

    def show(self, content: bytes | bytearray) -> None:
        """Give the kernels content that is decompressed already."""
        self._set_content(np.frombuffer(content, np.uint8))
        self.words[slots.CONTENT_KNOWN] = len(content)
        self._is_clear = False

    def clear(self) -> None:
        """Forget content that was given, and memory that is too large to be kept until the next call."""
        if self._is_clear:
            return
        if self.words[slots.CONTENT_KNOWN] >= 0 or self._content.size > MOST_KEPT_BYTES:
            self.words[slots.CONTENT_KNOWN] = -1
            self._set_content(np.empty(USUAL_BYTES, np.uint8))
        if self.out.nbytes > MOST_KEPT_BYTES:
            self._set_out(USUAL_BYTES)
        self._is_clear = True

    def _set_content(self, content: Bytes) -> None:
        self._content = content  # the address is only as good as the array
        self.words[slots.CONTENT_AT], self.words[slots.CONTENT_SIZE] = content.ctypes.data, content.size

    def _set_out(self, size: int) -> None:
        memory: Bytes = np.empty(size, np.uint8)
        self.out = memory.data
        self.words[slots.OUT_AT], self.words[slots.OUT_SIZE] = memory.ctypes.data, size


def numbers_of(settings: AppendSettings, now_ms: int) -> tuple[int, ...]:
    """Return the settings and the time in the kernel's order.

    Where only the general path can follow them, the largest size is -1, so that every set is unusual.
    """
    lowest, highest = range_of(settings, now_ms)
    most = slots.MOST_MS if settings.max_batch_bytes is None else min(settings.max_batch_bytes, slots.MOST_MS)
    epoch = settings.leader_epoch
    if settings.on_noncontiguous in (KEEP, REJECT) or abs(epoch) > _LARGEST_INT32:
        most, epoch = -1, -1
    return (
        settings.record_format,
        slots.ANY_CODEC if settings.codec == "producer" else codec_of(settings.codec),
        lowest,
        highest,
        settings.compacted,
        settings.origin != "CLIENT",
        settings.append_time,
        now_ms,
        epoch,
        max(most, -1),
        settings.on_noncontiguous == REASSIGN,
    )


def range_of(settings: AppendSettings, now_ms: int) -> tuple[int, int]:
    """Return the least and the largest timestamp that need no closer look."""
    if settings.append_time:
        return 0, slots.MOST_MS
    lowest, highest = now_ms - settings.before_max_ms, now_ms + settings.after_max_ms
    return min(max(lowest, 0), slots.MOST_MS + 1), max(min(highest, slots.MOST_MS), NO_TIMESTAMP)


def borrow(settings: AppendSettings, now_ms: int) -> KernelContext:
    """Return a context that no other caller uses, with the settings and the time in it."""
    try:
        context = _idle.pop()
    except IndexError:
        context = KernelContext()
    context.use(settings, now_ms)
    return context


def give_back(context: KernelContext) -> None:
    """Clear a context and return it, so that other callers can use it."""
    context.clear()
    _idle.append(context)


_LENGTHS = 8  # of key and value
# Where a compressed stream starts and where the byte with the codec is, by format.
_STARTS = (
    (MESSAGE_V0.size + _LENGTHS, MESSAGE_V0.position_of("attributes")),
    (MESSAGE_V1.size + _LENGTHS, MESSAGE_V1.position_of("attributes")),
    (BATCH_V2.size, BATCH_V2.end_of("attributes") - 1),
)


def start_of_stream(data: bytearray) -> int:
    """Return where the compressed records of a whole batch or wrapper start."""
    return _STARTS[data[BYTES_TO_MAGIC - 1]][0]


def codec_in(data: bytearray) -> Codec:
    """Return the codec of a whole batch or wrapper."""
    return Codec(data[_STARTS[data[BYTES_TO_MAGIC - 1]][1]] & CODEC_MASK)
