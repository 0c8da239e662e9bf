"""The package's functions: the fast path of an append at hand, the rest imported when it is needed.

A broker that is started answers its first requests without the decoder, the builder and Arrow: most appends never need
them. An ordinary set is one call of one kernel, gets its offsets and stays as it came. Where the log wants another
codec or format, or the inner offsets have holes, a second kernel writes it anew; ``validator.py`` decides the rest.
A test runs both ways on the same bytes and compares all that comes out.

The kernels take their C functions, memory and the append's settings as numbers in one array, a context. Making one
costs more than an append, so contexts are kept and used again: ``borrow`` takes an idle one (or makes one) for a single
caller, ``give_back`` returns it. A context keeps the settings that were put into it last, because appends in a row
share them, all but the time.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import Any, Final

import numpy as np

from kafkaframes.errors import OptionError
from kafkaframes.records import native
from kafkaframes.records._delivery import is_over_limit
from kafkaframes.records.append import _kernels as kernels
from kafkaframes.records.append import _kernels_context as slots
from kafkaframes.records.append.settings import (
    KEEP,
    REASSIGN,
    REJECT,
    Appended,
    AppendSettings,
    DownConverted,
    Raw,
    refusal_of_content,
)
from kafkaframes.records.codecs import Codec, codec_of, compress, decompress
from kafkaframes.records.fields import LARGEST_INT32, NO_TIMESTAMP
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, CODEC_MASK, MESSAGE_V0, MESSAGE_V1
from kafkaframes.records.limits import CONTENT, open_content
from kafkaframes.records.scan import Bytes

_LARGEST_START: Final = 2**63 - 2**32  # offsets of one append never reach 2^63 from here
Answer = tuple[int, int, int, int]
_UNUSUAL: Answer = (slots.UNUSUAL, 0, 0, 0)
# How much memory a context has for decompressed content, and as much again for output: when it is made, and the most
# that it keeps between two calls. Memory is touched only as far as it is used; for content the kernel asks for 32 times
# the size of the compressed stream, which is 32 MiB at a broker's usual limit for a batch.
USUAL_BYTES, MOST_KEPT_BYTES = 4 << 20, 40 << 20
# The contexts that nobody uses. Taking from a list and adding to one is atomic, so threads share it.
_idle: list[KernelContext] = []


def validate_and_assign(
    records: bytes | bytearray | memoryview, offset: int, settings: AppendSettings | None = None, **named: Any
) -> Appended:
    """Check records as a broker does that is asked to append them, and give them offsets from ``offset`` on (KIP-31).

    Args:
        records: batches back to back, as in a produce request: one batch of format 2, or one compressed set; any
            number of uncompressed messages of formats 0 and 1. A part of a batch at the end is cut.
        offset: the log end offset.
        settings: the topic's settings, the clock, and who sends; Kafka's defaults.
        named: settings by name, which replace those: ``record_format``, ``codec``, ``now_ms``, ...

    Raises:
        AppendRefusedError: as Kafka refuses: ``code``, ``exception``, ``record_errors``, ``valid_bytes``.
        OptionError: a setting does not exist, or the offset cannot be a log end offset.
    """
    if not 0 <= offset <= _LARGEST_START:
        raise OptionError(f"{offset} cannot be a log end offset")
    settings = settings or AppendSettings()
    if named:
        settings = _with_named(settings, named)
    appended = assign_at(bytearray(records), offset, settings, settings.now_ms)
    return appended._replace(records=bytes(appended.records))


def _with_named(settings: AppendSettings, named: dict[str, Any]) -> AppendSettings:
    known = [field.name for field in fields(AppendSettings)]
    if unknown := [name for name in named if name not in known]:
        raise OptionError(f"no setting {', '.join(unknown)}; there are {', '.join(known)}")
    return replace(settings, **named)


def assign_at(records: Raw, offset: int, settings: AppendSettings, now_ms: int) -> Appended:
    """Do as ``validate_and_assign`` does, at ``now_ms``: a log's settings are the same for append after append.

    A bytearray is taken over: an ordinary set gets its offsets where it is, and nothing of it is copied.

    Raises:
        AppendRefusedError: as ``validate_and_assign``.
    """
    records = records if isinstance(records, bytearray) else bytearray(records)
    appended = _take(records, offset, settings, now_ms)
    if appended is not None:
        return appended
    from kafkaframes.records.append.validator import validate_closely

    return validate_closely(records, offset, replace(settings, now_ms=now_ms))


def down_convert(records: bytes | bytearray | memoryview, magic: int, *, first_offset: int = 0) -> DownConverted:
    """Write batches of a later format than ``magic`` (0 or 1) in it; offsets, keys, values and codecs stay.

    Args:
        first_offset: records below it may be left out of uncompressed batches, as for a fetch from there.

    Raises:
        AppendRefusedError: as Kafka refuses: zstd, or records that cannot be read.
    """
    from kafkaframes.records.append.down_convert import convert_down

    return convert_down(records, magic, first_offset=first_offset)


def _take(data: bytearray, offset: int, settings: AppendSettings, now_ms: int) -> Appended | None:
    """Take an ordinary set; ``None`` where it needs a closer look."""
    if not -slots.MOST_MS <= now_ms <= slots.MOST_MS:
        return None
    context = borrow(settings, now_ms)
    try:
        taken = kernels.take(data, offset, context.words)
        if taken[0] < 0:
            taken = _again(data, offset, context, settings, taken)
        answer, count, largest, size = taken
        if answer == slots.IN_PLACE:
            return Appended(data, offset + count, True, largest, 0, now_ms, size, 0, size)
        return None if answer == slots.UNUSUAL else _anew(data, offset, context, settings)
    finally:
        give_back(context)


def _anew(data: bytearray, offset: int, context: KernelContext, settings: AppendSettings) -> Appended | None:
    """Write the set anew whose content ``context`` holds; ``None`` where it needs a closer look."""
    from kafkaframes.records.append import _kernels_rebuild as kernels  # as many again, and often not needed

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
    from kafkaframes.records.append import _kernels_rebuild as kernels

    codec = settings.target_codec(codec_in(data))
    packed, number = compress(codec, plain, level=settings.level, magic=settings.record_format), int(codec)
    size = kernels.wrap(data, packed, number, offset, context.words)
    if size == slots.NO_OUT:
        context.reserve(size, len(packed) + BATCH_V2.size)
        size = kernels.wrap(data, packed, number, offset, context.words)
    return bytes(context.out[:size])


def _again(data: bytearray, offset: int, context: KernelContext, settings: AppendSettings, taken: Answer) -> Answer:
    """Give the kernel the memory or the content that it asks for, and try again."""
    while taken[0] < 0:
        if taken[0] == slots.CAREFUL:
            content = _content(data, settings.most_content_bytes)
            if content is None:
                return _UNUSUAL
            context.show(content)
        else:
            context.reserve(taken[0], taken[1])
        taken = kernels.take(data, offset, context.words)
    return taken


def _content(data: bytearray, most_bytes: int) -> Raw | None:
    """Decompress what the kernel would not; ``None`` where it is damaged."""
    budget = CONTENT.get()
    if budget is not None and budget.is_spent:
        raise refusal_of_content(budget.most_bytes)
    stream, magic = memoryview(data)[_STARTS[data[BYTES_TO_MAGIC - 1]][0] :], data[BYTES_TO_MAGIC - 1]
    work = partial(decompress, codec_in(data), stream, magic=magic, limit_bytes=most_bytes)
    records, error = open_content("stream", len(stream), work)
    if budget is not None:
        budget.spent_bytes += len(records) if error is None else most_bytes
    if error is not None and is_over_limit(error):
        raise refusal_of_content(most_bytes)
    return records if error is None else None


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
    if settings.on_noncontiguous in (KEEP, REJECT) or abs(epoch) > LARGEST_INT32:
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


def codec_in(data: bytearray) -> Codec:
    """Return the codec of a whole batch or wrapper."""
    return Codec(data[_STARTS[data[BYTES_TO_MAGIC - 1]][1]] & CODEC_MASK)
