"""The package's functions: the fast path of an append at hand, the rest imported when it is needed.

A broker that is started answers its first requests without the decoder, the builder and Arrow: most appends never need
them. An ordinary set is one call of one kernel, gets its offsets and stays as it came. Where the log wants another
codec or format, or the inner offsets have holes, ``fast_rebuild.py`` goes on; ``validator.py`` decides the rest.
A test runs both ways on the same bytes and compares all that comes out.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import Any, Final

from kafkaframes.errors import OptionError
from kafkaframes.records.append import _kernels as kernels
from kafkaframes.records.append import _kernels_context as slots
from kafkaframes.records.append.context import KernelContext, borrow, codec_in, give_back, start_of_stream
from kafkaframes.records.append.settings import Appended, AppendSettings, DownConverted, Raw, refusal_of_content
from kafkaframes.records.codecs import decompress, is_over_limit
from kafkaframes.records.layout import BYTES_TO_MAGIC
from kafkaframes.records.limits import CONTENT, open_content

_LARGEST_START: Final = 2**63 - 2**32  # offsets of one append never reach 2^63 from here
Answer = tuple[int, int, int, int]
_UNUSUAL: Answer = (slots.UNUSUAL, 0, 0, 0)


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
        records: batches back to back.
        magic: the format to write.
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
    from kafkaframes.records.append.fast_rebuild import rebuild  # its kernels are as many again, and often not needed

    return rebuild(data, offset, context, settings)


def _again(data: bytearray, offset: int, context: KernelContext, settings: AppendSettings, taken: Answer) -> Answer:
    """Give the kernel the memory or the content that it asks for, and try again.

    Raises:
        AppendRefusedError: the content is too large.
    """
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
    """Decompress what the kernel would not; ``None`` where it is damaged.

    Raises:
        ApartError: as ``open_content``.
        AppendRefusedError: it is too large.
    """
    budget = CONTENT.get()
    if budget is not None and budget.is_spent:
        raise refusal_of_content(budget.most_bytes)
    stream, magic = memoryview(data)[start_of_stream(data) :], data[BYTES_TO_MAGIC - 1]
    work = partial(decompress, codec_in(data), stream, magic=magic, limit_bytes=most_bytes)
    records, error = open_content("stream", len(stream), work)
    if budget is not None:
        budget.spent_bytes += len(records) if error is None else most_bytes
    if error is not None and is_over_limit(error):
        raise refusal_of_content(most_bytes)
    return records if error is None else None
