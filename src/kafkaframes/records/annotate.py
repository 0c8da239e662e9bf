"""Describe every byte of record batches and message sets, for ``kafkaframes decode --records``.

A run is one field of a header or record: an integer, a varint with its value, or bytes. Compressed records get a
separate listing. The positions of this listing count from the first decompressed byte. If the bytes are damaged, the
listing contains the runs before the damage, and the error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kafkaframes.errors import CorruptRecordError, DecodeError, TruncatedError
from kafkaframes.records.layout import (
    BATCH_V2,
    BYTES_TO_MAGIC,
    CODEC_MASK,
    CODECS,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MESSAGE_V0,
    MESSAGE_V1,
    MIN_STATED_BATCH_BYTES,
    OVERHEAD_BYTES,
    TRANSACTIONAL,
    HeaderLayout,
)
from kafkaframes.wire.checksum import crc32, crc32c
from kafkaframes.wire.primitives import decode_java_text
from kafkaframes.wire.varint import read_unsigned_varint, read_unsigned_varlong, read_varint, read_varlong

HEADERS, RECORDS = 1, 2  # values of ``depth``: batch and message headers only, or also their records
MAX_DECOMPRESSED_BYTES: Final = 64 << 20  # largest decompressed size of a batch
_LAYOUT_BY_MAGIC = {0: MESSAGE_V0, 1: MESSAGE_V1, 2: BATCH_V2}
_FLAG_NAMES = ((LOG_APPEND_TIME, "LogAppendTime"), (TRANSACTIONAL, "transactional"), (CONTROL, "control"))
_V2_FLAG_NAMES = (*_FLAG_NAMES, (DELETE_HORIZON, "delete horizon"))


@dataclass(frozen=True, slots=True)
class AnnotatedRun:
    """The bytes from ``start`` to ``end``: the path of the field that they encode, and its value as text."""

    start: int
    end: int
    path: str
    words: str


@dataclass(slots=True)
class AnnotatedBytes:
    """Annotated bytes of the input, or of the decompressed records of one batch.

    Attributes:
        title: heading of the listing; empty for the input.
        data: the bytes that the runs describe.
        runs: runs in order, without gaps up to ``position``.
        error: reason why the runs stop before the end of ``data``; None if they cover all of it.
    """

    title: str
    data: bytes
    runs: list[AnnotatedRun] = field(default_factory=list)
    error: DecodeError | None = None

    @property
    def position(self) -> int:
        """The end of the last run."""
        return self.runs[-1].end if self.runs else 0

    def add_run(self, size: int, path: str, words: str) -> None:
        """Add a run of ``size`` bytes; a size of 0 adds nothing."""
        if size:
            self.runs.append(AnnotatedRun(self.position, self.position + size, path, words))

    def take_bytes(self, size: int, path: str) -> bytes:
        """Return the ``size`` bytes after the last run, without adding a run.

        Raises:
            TruncatedError: fewer than ``size`` bytes remain.
        """
        start = self.position
        if not 0 <= size <= len(self.data) - start:
            raise TruncatedError(
                f"{path} has a size of {size} bytes, but only {len(self.data) - start} bytes remain", position=start
            )
        return self.data[start : start + size]


def are_records(data: bytes) -> bool:
    """Return whether the bytes start with a complete batch or message with a correct CRC."""
    if len(data) < BYTES_TO_MAGIC or data[BYTES_TO_MAGIC - 1] not in _LAYOUT_BY_MAGIC:
        return False
    magic = data[BYTES_TO_MAGIC - 1]
    layout = _LAYOUT_BY_MAGIC[magic]
    end = OVERHEAD_BYTES + int.from_bytes(data[layout.position_of("size") : layout.end_of("size")], "big", signed=True)
    if not layout.size <= end <= len(data):
        return False
    stored_crc = int.from_bytes(data[layout.position_of("crc") : layout.end_of("crc")], "big")
    return stored_crc == (crc32c if magic == 2 else crc32)(data[layout.end_of("crc") : end])


def draw_records(data: bytes, *, depth: int = RECORDS) -> list[AnnotatedBytes]:
    """Return the listing of consecutive batches and messages, and one for each batch with compressed records.

    Args:
        depth: ``HEADERS`` or ``RECORDS``.
    """
    drawings = [AnnotatedBytes("", data)]
    _draw_until_error(drawings[0], lambda: _draw_batches(drawings[0], drawings, depth))
    return drawings


def _draw_until_error(drawing: AnnotatedBytes, draw: Callable[[], None]) -> None:
    try:
        draw()
    except DecodeError as error:
        drawing.error = error


def _draw_batches(drawing: AnnotatedBytes, drawings: list[AnnotatedBytes], depth: int) -> None:
    """Add the runs of consecutive batches and messages."""
    number = 0
    while drawing.position < len(drawing.data):
        name = f"batches[{number}]"
        start = drawing.position
        head = drawing.data[start : start + BYTES_TO_MAGIC]
        if len(head) < BYTES_TO_MAGIC:
            raise TruncatedError(f"{name} has only {len(head)} bytes; expected a batch header", position=start)
        size = int(struct.unpack_from(">i", head, MESSAGE_V0.position_of("size"))[0])
        magic = int(struct.unpack_from(">b", head, MESSAGE_V0.position_of("magic"))[0])
        if magic not in _LAYOUT_BY_MAGIC or size < MIN_STATED_BATCH_BYTES:
            is_unknown = magic not in _LAYOUT_BY_MAGIC
            reason = f"{name}: unknown magic {magic}" if is_unknown else f"{name}: invalid size {size}"
            raise CorruptRecordError(reason, position=start)
        end = start + OVERHEAD_BYTES + size
        fields = _draw_header(drawing, name, _LAYOUT_BY_MAGIC[magic], min(end, len(drawing.data)))
        if end > len(drawing.data):
            raise TruncatedError(f"{name} is truncated: {end - len(drawing.data)} bytes are missing", position=start)
        body = _draw_batch_body if magic == 2 else _draw_message_body
        body(drawing, drawings, name, fields, end, depth)
        number += 1


def _draw_header(drawing: AnnotatedBytes, name: str, layout: HeaderLayout, end: int) -> dict[str, int]:
    """Add the runs of a batch header; return its fields."""
    start, values = drawing.position, {}
    magic = next(number for number, entry in _LAYOUT_BY_MAGIC.items() if entry is layout)
    for entry in layout.fields:
        raw = drawing.take_bytes(struct.calcsize(">" + entry.format), f"{name}.{entry.name}")
        value = struct.unpack(">" + entry.format, raw)[0]
        values[entry.name] = value
        words = str(value)
        if entry.name == "attributes":
            words = f"{value} ({_format_attributes(value, magic)})"
        elif entry.name == "crc":
            crc_input = drawing.data[start + layout.end_of("crc") : end]
            crc = (crc32c if magic == 2 else crc32)(crc_input)
            words = f"{value:#010x} ({'right' if crc == value else f'wrong: computed {crc:#010x}'})"
        drawing.add_run(len(raw), f"{name}.{entry.name}", words)
    return values


def _format_attributes(value: int, magic: int) -> str:
    number = value & CODEC_MASK
    codec = CODECS[number] if number < len(CODECS) else "unknown codec"
    flags = _V2_FLAG_NAMES if magic == 2 else _FLAG_NAMES[:1] if magic == 1 else ()
    return ", ".join([codec, *(words for bit, words in flags if value & bit)])


def _draw_batch_body(
    drawing: AnnotatedBytes, drawings: list[AnnotatedBytes], name: str, fields: dict[str, int], end: int, depth: int
) -> None:
    size, codec = end - drawing.position, fields["attributes"] & CODEC_MASK
    if depth < RECORDS or codec:
        payload = drawing.data[drawing.position : end]
        drawing.add_run(size, f"{name}.records", _size_text(size, codec))
        if depth >= RECORDS:
            inner = _add_drawing(payload, codec, 2, f"{name}.records", drawings)
            _draw_until_error(inner, lambda: _draw_records(inner, name, fields, len(inner.data)))
        return
    _draw_records(drawing, name, fields, end)


def _size_text(size: int, codec: int) -> str:
    return f"{size} bytes" + (f", {CODECS[codec]}" if 0 < codec < len(CODECS) else "")


def _add_drawing(payload: bytes, codec: int, magic: int, path: str, drawings: list[AnnotatedBytes]) -> AnnotatedBytes:
    """Add the listing of decompressed records."""
    from kafkaframes.records import codecs  # loads the codec libraries, which most inputs do not need

    content, error = codecs.decompress(codec, payload, magic=magic, limit_bytes=MAX_DECOMPRESSED_BYTES)
    inner = AnnotatedBytes(f"{path}, decompressed: {len(content)} bytes", bytes(content))
    drawings.append(inner)
    if error is not None:
        inner.error = CorruptRecordError(error)
    return inner


def _draw_records(drawing: AnnotatedBytes, name: str, fields: dict[str, int], end: int) -> None:
    """Add the runs of the records of a batch."""
    for number in range(max(fields["count"], 0)):
        if drawing.position >= end:
            reason = f"{name} ends after {number} of {fields['count']} records"
            raise TruncatedError(reason, position=drawing.position)
        _draw_record(drawing, f"{name}.records[{number}]", fields, end)
    if drawing.position < end:
        drawing.add_run(end - drawing.position, name, f"{end - drawing.position} bytes after the last record")


def _draw_record(drawing: AnnotatedBytes, path: str, fields: dict[str, int], end: int) -> None:
    """Add the runs of one record."""
    length = _draw_varint(drawing, f"{path}.length")
    if not 0 <= length <= end - drawing.position:
        raise CorruptRecordError(f"{path}: invalid length {length}", position=drawing.position)
    stop = drawing.position + length
    drawing.add_run(1, f"{path}.attributes", str(drawing.take_bytes(1, path)[0]))
    base = None if fields["attributes"] & LOG_APPEND_TIME else fields["base_timestamp"]
    _draw_varint(drawing, f"{path}.timestamp_delta", long=True, add=base)
    _draw_varint(drawing, f"{path}.offset_delta", add=fields["offset"])
    for part in ("key", "value"):
        _draw_blob(drawing, f"{path}.{part}")
    count = _draw_varint(drawing, f"{path}.header_count")
    if not 0 <= count <= stop - drawing.position:
        raise CorruptRecordError(f"{path}: invalid header count {count}", position=drawing.position)
    for header in range(count):
        _draw_blob(drawing, f"{path}.headers[{header}].key", text=True)
        _draw_blob(drawing, f"{path}.headers[{header}].value")
    if drawing.position != stop:
        reason = f"{path}: its fields end at byte {drawing.position}, but its length at byte {stop}"
        raise CorruptRecordError(reason, position=stop)


def _draw_varint(drawing: AnnotatedBytes, path: str, *, long: bool = False, add: int | None = None) -> int:
    """Add a run for a varint, with its value, the unsigned number that encodes it (zig-zag), and the bits."""
    start = drawing.position
    try:
        raw, end = (read_unsigned_varlong if long else read_unsigned_varint)(drawing.data, start)
        value, end = (read_varlong if long else read_varint)(drawing.data, start)
    except DecodeError as error:
        raise error.within(path) from None
    bits = " ".join(f"{byte:08b}" for byte in drawing.data[start:end])
    sum_text = "" if add is None else f" -> {value + add}"
    drawing.add_run(end - start, path, f"{value}{sum_text}  zig-zag of {raw}, {bits}")
    return value


def _draw_blob(drawing: AnnotatedBytes, path: str, *, text: bool = False) -> None:
    """Add the runs of a byte string and the length before it."""
    size = _draw_varint(drawing, f"{path}_length")
    if size >= 0:
        raw = drawing.take_bytes(size, path)
        if size:
            drawing.add_run(size, path, repr(decode_java_text(raw)) if text else _format_preview(raw))


def _format_preview(raw: bytes) -> str:
    start = raw[:40]
    try:
        text = repr(start.decode()) if start.decode().isprintable() else start[:16].hex()
    except UnicodeDecodeError:
        text = start[:16].hex()
    return text + (f"... ({len(raw)} bytes)" if len(raw) > len(start) else "")


def _draw_message_body(
    drawing: AnnotatedBytes, drawings: list[AnnotatedBytes], name: str, fields: dict[str, int], end: int, depth: int
) -> None:
    """Add the key and the value of a message of format 0 or 1. The value of a compressed message is a message set."""
    codec, payload = fields["attributes"] & CODEC_MASK, None
    for part in ("key", "value"):
        size = struct.unpack(">i", drawing.take_bytes(4, f"{name}.{part}_length"))[0]
        drawing.add_run(4, f"{name}.{part}_length", f"{size} (null)" if size < 0 else str(size))
        if size > end - drawing.position:
            raise CorruptRecordError(f"{name}: invalid {part} size {size}", position=drawing.position)
        if size > 0:
            raw = drawing.take_bytes(size, f"{name}.{part}")
            is_set = codec and part == "value"
            drawing.add_run(size, f"{name}.{part}", _size_text(size, codec) if is_set else _format_preview(raw))
            payload = raw if is_set else payload
    if drawing.position < end:
        drawing.add_run(end - drawing.position, name, f"{end - drawing.position} bytes after the value, ignored")
    if payload is not None and depth >= RECORDS:
        inner = _add_drawing(payload, codec, fields["magic"], f"{name}.value", drawings)
        _draw_until_error(inner, lambda: _draw_batches(inner, drawings, HEADERS))
