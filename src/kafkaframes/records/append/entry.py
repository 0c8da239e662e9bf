"""Validate records and assign their offsets: the fast path, and the entry to the general path.

An ordinary record set takes one kernel call, gets its offsets in place and is not copied. If the log has another codec
or format, or if the inner offsets have holes, a second kernel rebuilds the set. ``validator.py`` (the general path)
handles everything else. Tests run both paths on the same bytes and compare all results.

The general path is imported at first use, so a broker answers its first requests without loading the decoder, the
builder and Arrow. Most appends never need these modules, which the general path imports.

The kernels take their C functions, memory and settings as numbers in one array, the context. The creation of a context
costs more than an append, so contexts are reused: ``borrow_context`` returns an idle or new context to one caller, and
``return_context`` returns it to the idle list. A context keeps the last settings, because consecutive appends often
differ only in the time.
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
from kafkaframes.records.append.results import DownConvertedRecords, Raw, ValidatedRecords, make_content_size_error
from kafkaframes.records.append.settings import KEEP, REASSIGN, REJECT, AppendSettings
from kafkaframes.records.codecs import Codec, codec_of, compress, decompress
from kafkaframes.records.fields import NO_TIMESTAMP
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, CODEC_MASK, MESSAGE_V0, MESSAGE_V1
from kafkaframes.records.limits import CONTENT_BUDGET, open_content
from kafkaframes.records.scan import Bytes
from kafkaframes.wire.integers import MAX_INT32

# The offsets of one append cannot overflow if they start at or below this offset.
_MAX_START_OFFSET: Final = 2**63 - 2**32
Answer = tuple[int, int, int, int]
_GENERAL_PATH_ANSWER: Answer = (slots.UNUSUAL, 0, 0, 0)
# The memory of a context for decompressed content, and the same for output: the initial size, and the largest size that
# an idle context keeps. The kernel asks for 32 times the size of a compressed stream, which is 32 MiB at a broker's
# usual batch limit. Unused memory is never touched.
USUAL_BYTES, MAX_IDLE_BYTES = 4 << 20, 40 << 20
# Idle contexts. Taking one from a list and adding one are atomic, so threads share it.
_idle: list[KernelContext] = []


def validate_and_assign(
    records: bytes | bytearray | memoryview, offset: int, settings: AppendSettings | None = None, **changes: Any
) -> ValidatedRecords:
    """Validate records as a broker does for a produce request, and assign offsets from ``offset`` (KIP-31).

    Args:
        records: consecutive batches, as in a produce request: one format 2 batch, one compressed message set, or any
            number of uncompressed messages of formats 0 and 1. An incomplete batch at the end is dropped.
        offset: the log end offset.
        settings: topic configuration, broker clock and sender of the records; None means Kafka's defaults.
        changes: single settings that override ``settings``: ``record_format``, ``codec``, ``now_ms``, ...

    Raises:
        AppendRefusedError: Kafka would reject the records. The attributes ``code``, ``exception``, ``record_errors``
            and ``valid_bytes`` describe the rejection.
        OptionError: a setting is unknown, or the offset cannot be a log end offset.
        OptionError: a setting does not exist, or the offset cannot be a log end offset.
    """
    if not 0 <= offset <= _MAX_START_OFFSET:
        raise OptionError(f"{offset} is not a valid log end offset; expected 0 to {_MAX_START_OFFSET}")
    settings = settings or AppendSettings()
    if changes:
        settings = _replace_settings(settings, changes)
    result = validate_and_assign_at(bytearray(records), offset, settings, settings.now_ms)
    return result._replace(records=bytes(result.records))


def _replace_settings(settings: AppendSettings, changes: dict[str, Any]) -> AppendSettings:
    names = [field.name for field in fields(AppendSettings)]
    if unknown := [name for name in changes if name not in names]:
        raise OptionError(f"unknown setting {', '.join(unknown)}; expected {', '.join(names)}")
    return replace(settings, **changes)


def validate_and_assign_at(records: Raw, offset: int, settings: AppendSettings, now_ms: int) -> ValidatedRecords:
    """Validate records and assign offsets at ``now_ms``. A log reuses the same settings for all its appends.

    A bytearray is modified: an ordinary record set gets its offsets in place and is not copied.

    Raises:
        AppendRefusedError: see ``validate_and_assign``.
    """
    records = records if isinstance(records, bytearray) else bytearray(records)
    result = _append_with_kernels(records, offset, settings, now_ms)
    if result is not None:
        return result
    from kafkaframes.records.append.validator import validate_general

    return validate_general(records, offset, replace(settings, now_ms=now_ms))


def down_convert(records: bytes | bytearray | memoryview, magic: int, *, first_offset: int = 0) -> DownConvertedRecords:
    """Convert batches of newer formats to ``magic`` (0 or 1); offsets, keys, values and codecs are unchanged.

    Args:
        first_offset: the fetch offset. Earlier records of uncompressed batches may be dropped.

    Raises:
        AppendRefusedError: Kafka would not convert the records: they are compressed with zstd or damaged.
    """
    from kafkaframes.records.append.down_convert import convert_records_down

    return convert_records_down(records, magic, first_offset=first_offset)


def _append_with_kernels(
    data: bytearray, offset: int, settings: AppendSettings, now_ms: int
) -> ValidatedRecords | None:
    """Append with the kernels; return None if the general path must decide."""
    if not -slots.MAX_SAFE_MS <= now_ms <= slots.MAX_SAFE_MS:
        return None
    context = borrow_context(settings, now_ms)
    try:
        result = kernels.validate_in_place(data, offset, context.words)
        if result[0] < 0:
            result = _retry_kernel(data, offset, context, settings, result)
        answer, count, largest, size = result
        if answer == slots.IN_PLACE:
            return ValidatedRecords(data, offset + count, True, largest, 0, now_ms, size, 0, size)
        return None if answer == slots.UNUSUAL else _rebuild_with_kernels(data, offset, context, settings)
    finally:
        return_context(context)


def _rebuild_with_kernels(
    data: bytearray, offset: int, context: KernelContext, settings: AppendSettings
) -> ValidatedRecords | None:
    """Rebuild the set with the content in ``context``; return None if the general path must decide."""
    # Imported here: many programs do not need this module, which is as large as _kernels.
    from kafkaframes.records.append import _kernels_rebuild as kernels

    result = kernels.rewrite_set(data, offset, context.words)
    if result[0] == slots.OUT_TOO_SMALL:
        context.reserve_memory(result[0], result[1])
        result = kernels.rewrite_set(data, offset, context.words)
    answer, count, largest, size, content_bytes = result
    if answer == slots.UNUSUAL:
        return None
    records, recompressed_bytes = bytes(context.out[:size]), 0
    if answer == slots.PLAIN:
        records, recompressed_bytes = _compress_records(data, records, offset, context, settings), content_bytes
        if not records:
            return None
    return ValidatedRecords(
        records, offset + count, False, largest, count, context.now_ms, len(data), recompressed_bytes, 0
    )


def _compress_records(
    data: bytearray, plain: bytes, offset: int, context: KernelContext, settings: AppendSettings
) -> bytes:
    """Compress rebuilt records and return the batch; return ``b""`` if it exceeds the batch limit."""
    from kafkaframes.records.append import _kernels_rebuild as kernels

    codec = settings.target_codec(read_batch_codec(data))
    payload, number = compress(codec, plain, level=settings.level, magic=settings.record_format), int(codec)
    size = kernels.wrap_compressed(data, payload, number, offset, context.words)
    if size == slots.OUT_TOO_SMALL:
        context.reserve_memory(size, len(payload) + BATCH_V2.size)
        size = kernels.wrap_compressed(data, payload, number, offset, context.words)
    return bytes(context.out[:size])


def _retry_kernel(
    data: bytearray, offset: int, context: KernelContext, settings: AppendSettings, result: Answer
) -> Answer:
    """Call the kernel again with the memory or the content that its answer requests."""
    while result[0] < 0:
        if result[0] == slots.NEEDS_CONTENT:
            content = _decompress_content(data, settings.max_content_bytes)
            if content is None:
                return _GENERAL_PATH_ANSWER
            context.store_decompressed_content(content)
        else:
            context.reserve_memory(result[0], result[1])
        result = kernels.validate_in_place(data, offset, context.words)
    return result


def _decompress_content(data: bytearray, max_bytes: int) -> Raw | None:
    """Decompress a stream that the kernel cannot; return None if it is damaged."""
    budget = CONTENT_BUDGET.get()
    if budget is not None and budget.is_spent:
        raise make_content_size_error(budget.max_bytes)
    stream, magic = (
        memoryview(data)[_STREAM_AND_CODEC_POSITIONS[data[BYTES_TO_MAGIC - 1]][0] :],
        data[BYTES_TO_MAGIC - 1],
    )
    work = partial(decompress, read_batch_codec(data), stream, magic=magic, limit_bytes=max_bytes)
    records, error = open_content("stream", len(stream), work)
    if budget is not None:
        budget.spent_bytes += len(records) if error is None else max_bytes
    if error is not None and is_over_limit(error):
        raise make_content_size_error(max_bytes)
    return records if error is None else None


class KernelContext:
    """The memory and the array of settings that a call of the append kernels uses.

    Attributes:
        words: the array that the kernels take; ``_kernels_context.py`` names its elements.
        out: the memory that the kernels write to.
    """

    def __init__(self) -> None:
        self.words = native.make_call_array(slots.EXTRA_WORDS)
        self._settings: AppendSettings | None = None
        self.now_ms = 0
        self.words[slots.CONTENT_KNOWN] = -1
        self._is_clear = True
        self._set_content(np.empty(USUAL_BYTES, np.uint8))
        self._set_output(USUAL_BYTES)

    def load_settings(self, settings: AppendSettings, now_ms: int) -> None:
        """Store the settings and the time of an append in the context, if they have changed."""
        if settings is not self._settings:
            self.words[slots.FIRST_SETTING_INDEX : slots.SETTINGS_END_INDEX] = list_context_values(settings, now_ms)
        elif now_ms != self.now_ms:
            words = self.words
            words[slots.MIN_VALID_MS], words[slots.MAX_VALID_MS] = compute_timestamp_range(settings, now_ms)
            words[slots.NOW_MS] = now_ms
        self._settings, self.now_ms = settings, now_ms

    def reserve_memory(self, answer: int, size: int) -> None:
        """Allocate ``size`` bytes for content or for output, depending on the kernel's answer."""
        if answer == slots.TOO_SMALL:
            self._set_content(np.empty(size, np.uint8))
        else:
            self._set_output(size)
        self._is_clear = False

    def store_decompressed_content(self, content: bytes | bytearray) -> None:
        """Store decompressed content, so that the kernels need not decompress it."""
        self._set_content(np.frombuffer(content, np.uint8))
        self.words[slots.CONTENT_KNOWN] = len(content)
        self._is_clear = False

    def release_memory(self) -> None:
        """Release decompressed content and memory that is too large for an idle context."""
        if self._is_clear:
            return
        if self.words[slots.CONTENT_KNOWN] >= 0 or self._content.size > MAX_IDLE_BYTES:
            self.words[slots.CONTENT_KNOWN] = -1
            self._set_content(np.empty(USUAL_BYTES, np.uint8))
        if self.out.nbytes > MAX_IDLE_BYTES:
            self._set_output(USUAL_BYTES)
        self._is_clear = True

    def _set_content(self, content: Bytes) -> None:
        self._content = content  # keeps the memory at the address alive
        self.words[slots.CONTENT_AT], self.words[slots.CONTENT_SIZE] = content.ctypes.data, content.size

    def _set_output(self, size: int) -> None:
        memory: Bytes = np.empty(size, np.uint8)
        self.out = memory.data
        self.words[slots.OUT_AT], self.words[slots.OUT_SIZE] = memory.ctypes.data, size


def list_context_values(settings: AppendSettings, now_ms: int) -> tuple[int, ...]:
    """Return the settings and the time as numbers, in the order in which the context array has them.

    For settings that only the general path implements, the batch limit is -1, so that the kernels reject every set.
    """
    lowest, highest = compute_timestamp_range(settings, now_ms)
    limit = slots.MAX_SAFE_MS if settings.max_batch_bytes is None else min(settings.max_batch_bytes, slots.MAX_SAFE_MS)
    epoch = settings.leader_epoch
    if settings.on_noncontiguous in (KEEP, REJECT) or abs(epoch) > MAX_INT32:
        limit, epoch = -1, -1
    return (
        settings.record_format,
        slots.ANY_CODEC if settings.codec == "producer" else codec_of(settings.codec),
        lowest,
        highest,
        settings.is_compacted,
        settings.origin != "CLIENT",
        settings.append_time,
        now_ms,
        epoch,
        max(limit, -1),
        settings.on_noncontiguous == REASSIGN,
    )


def compute_timestamp_range(settings: AppendSettings, now_ms: int) -> tuple[int, int]:
    """Return the smallest and the largest timestamp that the kernels accept."""
    if settings.append_time:
        return 0, slots.MAX_SAFE_MS
    lowest, highest = now_ms - settings.before_max_ms, now_ms + settings.after_max_ms
    return min(max(lowest, 0), slots.MAX_SAFE_MS + 1), max(min(highest, slots.MAX_SAFE_MS), NO_TIMESTAMP)


def borrow_context(settings: AppendSettings, now_ms: int) -> KernelContext:
    """Return a context that no other caller uses, with the settings and the time."""
    try:
        context = _idle.pop()
    except IndexError:
        context = KernelContext()
    context.load_settings(settings, now_ms)
    return context


def return_context(context: KernelContext) -> None:
    """Clear a context and add it to the idle contexts."""
    context.release_memory()
    _idle.append(context)


_KEY_AND_VALUE_LENGTH_BYTES = 8  # bytes of the key length and the value length
# Start of the compressed stream, and position of the byte that holds the codec, by format.
_STREAM_AND_CODEC_POSITIONS = (
    (MESSAGE_V0.size + _KEY_AND_VALUE_LENGTH_BYTES, MESSAGE_V0.position_of("attributes")),
    (MESSAGE_V1.size + _KEY_AND_VALUE_LENGTH_BYTES, MESSAGE_V1.position_of("attributes")),
    (BATCH_V2.size, BATCH_V2.end_of("attributes") - 1),
)


def read_batch_codec(data: bytearray) -> Codec:
    """Return the codec of a whole batch or wrapper."""
    return Codec(data[_STREAM_AND_CODEC_POSITIONS[data[BYTES_TO_MAGIC - 1]][1]] & CODEC_MASK)
