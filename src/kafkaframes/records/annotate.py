"""Say of every byte of a batch or a message set what it stands for: behind ``kafkaframes decode --records``.

A run is what one read takes: a field of a header, a varint with the number that it stands for, bytes. Compressed
records are a drawing of their own, whose positions count from the first decompressed byte. Broken bytes give the runs
up to the break, and the error.
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
    MIN_SIZE,
    OVERHEAD_BYTES,
    TRANSACTIONAL,
    HeaderLayout,
)
from kafkaframes.wire.checksum import crc32, crc32c
from kafkaframes.wire.primitives import java_text
from kafkaframes.wire.varint import read_unsigned_varint, read_unsigned_varlong, read_varint, read_varlong

HEADERS, RECORDS = 1, 2  # depths: headers of batches and messages; their records, too
LIMIT_BYTES: Final = 64 << 20  # of the records of a batch that are drawn
_LAYOUTS = {0: MESSAGE_V0, 1: MESSAGE_V1, 2: BATCH_V2}
_FLAGS = ((LOG_APPEND_TIME, "LogAppendTime"), (TRANSACTIONAL, "transactional"), (CONTROL, "control"))
_V2_FLAGS = (*_FLAGS, (DELETE_HORIZON, "delete horizon"))


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Bytes ``start`` to ``end`` and what they are: where in the batch, and the value in words."""

    start: int
    end: int
    path: str
    words: str


@dataclass(slots=True)
class Drawing:
    """The runs of some bytes: those given, or the decompressed records of a batch.

    Attributes:
        runs: in their order, without gaps up to ``position``.
        error: why they stop before the end; None where they do not.
    """

    title: str
    data: bytes
    runs: list[RecordRun] = field(default_factory=list)
    error: DecodeError | None = None

    @property
    def position(self) -> int:
        """The byte up to which the runs reach."""
        return self.runs[-1].end if self.runs else 0

    def add(self, size: int, path: str, words: str) -> None:
        """Add a run of ``size`` bytes; 0 bytes make no run."""
        if size:
            self.runs.append(RecordRun(self.position, self.position + size, path, words))

    def take(self, size: int, path: str) -> bytes:
        """Return the next bytes, which ``add`` then gets.

        Raises:
            TruncatedError: fewer than ``size`` bytes are left.
        """
        at = self.position
        if not 0 <= size <= len(self.data) - at:
            raise TruncatedError(f"{path}: {size} bytes, {len(self.data) - at} left", position=at)
        return self.data[at : at + size]


def are_records(data: bytes) -> bool:
    """Tell whether bytes begin with a whole batch or message whose CRC is right."""
    if len(data) < BYTES_TO_MAGIC or data[BYTES_TO_MAGIC - 1] not in _LAYOUTS:
        return False
    magic = data[BYTES_TO_MAGIC - 1]
    layout = _LAYOUTS[magic]
    end = OVERHEAD_BYTES + int.from_bytes(data[layout.position_of("size") : layout.end_of("size")], "big", signed=True)
    if not layout.size <= end <= len(data):
        return False
    said = int.from_bytes(data[layout.position_of("crc") : layout.end_of("crc")], "big")
    return said == (crc32c if magic == 2 else crc32)(data[layout.end_of("crc") : end])


def draw_records(data: bytes, *, depth: int = RECORDS) -> list[Drawing]:
    """Draw batches and messages back to back; behind the first drawing stand those of compressed records.

    Args:
        depth: 1: the headers of batches; 2: the records in them, too.
    """
    drawings = [Drawing("", data)]
    _guarded(drawings[0], lambda: _draw_batches(drawings[0], drawings, depth))
    return drawings


def _guarded(drawing: Drawing, draw: Callable[[], None]) -> None:
    try:
        draw()
    except DecodeError as error:
        drawing.error = error


def _draw_batches(drawing: Drawing, drawings: list[Drawing], depth: int) -> None:
    number = 0
    while drawing.position < len(drawing.data):
        name = f"batches[{number}]"
        at = drawing.position
        head = drawing.data[at : at + BYTES_TO_MAGIC]
        if len(head) < BYTES_TO_MAGIC:
            raise TruncatedError(f"{name}: {len(head)} bytes are no batch", position=at)
        size = int(struct.unpack_from(">i", head, MESSAGE_V0.position_of("size"))[0])
        magic = int(struct.unpack_from(">b", head, MESSAGE_V0.position_of("magic"))[0])
        if magic not in _LAYOUTS or size < MIN_SIZE:
            reason = f"{name}: magic {magic}" if magic not in _LAYOUTS else f"{name}: a size of {size}"
            raise CorruptRecordError(reason, position=at)
        end = at + OVERHEAD_BYTES + size
        fields = _draw_header(drawing, name, _LAYOUTS[magic], min(end, len(drawing.data)))
        if end > len(drawing.data):
            raise TruncatedError(f"{name}: {end - len(drawing.data)} of its bytes are missing", position=at)
        body = _draw_batch_body if magic == 2 else _draw_message_body
        body(drawing, drawings, name, fields, end, depth)
        number += 1


def _draw_header(drawing: Drawing, name: str, layout: HeaderLayout, end: int) -> dict[str, int]:
    start, match = drawing.position, {}
    magic = next(number for number, entry in _LAYOUTS.items() if entry is layout)
    for entry in layout.fields:
        raw = drawing.take(struct.calcsize(">" + entry.format), f"{name}.{entry.name}")
        value = struct.unpack(">" + entry.format, raw)[0]
        match[entry.name] = value
        words = str(value)
        if entry.name == "attributes":
            words = f"{value} ({_attributes(value, magic)})"
        elif entry.name == "crc":
            covered = drawing.data[start + layout.end_of("crc") : end]
            right = (crc32c if magic == 2 else crc32)(covered)
            words = f"{value:#010x} ({'right' if right == value else f'wrong: the bytes give {right:#010x}'})"
        drawing.add(len(raw), f"{name}.{entry.name}", words)
    return match


def _attributes(value: int, magic: int) -> str:
    number = value & CODEC_MASK
    codec = CODECS[number] if number < len(CODECS) else "unknown codec"
    flags = _V2_FLAGS if magic == 2 else _FLAGS[:1] if magic == 1 else ()
    return ", ".join([codec, *(words for bit, words in flags if value & bit)])


def _draw_batch_body(
    drawing: Drawing, drawings: list[Drawing], name: str, fields: dict[str, int], end: int, depth: int
) -> None:
    size, codec = end - drawing.position, fields["attributes"] & CODEC_MASK
    if depth < RECORDS or codec:
        payload = drawing.data[drawing.position : end]
        drawing.add(size, f"{name}.records", _size_text(size, codec))
        if depth >= RECORDS:
            inner = _opened(payload, codec, 2, f"{name}.records", drawings)
            _guarded(inner, lambda: _draw_records(inner, name, fields, len(inner.data)))
        return
    _draw_records(drawing, name, fields, end)


def _size_text(size: int, codec: int) -> str:
    return f"{size} bytes" + (f", {CODECS[codec]}" if 0 < codec < len(CODECS) else "")


def _opened(payload: bytes, codec: int, magic: int, path: str, drawings: list[Drawing]) -> Drawing:
    from kafkaframes.records import codecs  # the codecs' libraries: most bytes are drawn without them

    content, error = codecs.decompress(codec, payload, magic=magic, limit_bytes=LIMIT_BYTES)
    inner = Drawing(f"{path}, decompressed: {len(content)} bytes", bytes(content))
    drawings.append(inner)
    if error is not None:
        inner.error = CorruptRecordError(error)
    return inner


def _draw_records(drawing: Drawing, name: str, fields: dict[str, int], end: int) -> None:
    for number in range(max(fields["count"], 0)):
        if drawing.position >= end:
            raise TruncatedError(f"{name}: {number} of {fields['count']} records", position=drawing.position)
        _draw_record(drawing, f"{name}.records[{number}]", fields, end)
    if drawing.position < end:
        drawing.add(end - drawing.position, name, f"{end - drawing.position} bytes behind the last record")


def _draw_record(drawing: Drawing, path: str, fields: dict[str, int], end: int) -> None:
    length = _varint(drawing, f"{path}.length")
    if not 0 <= length <= end - drawing.position:
        raise CorruptRecordError(f"{path}: a length of {length}", position=drawing.position)
    stop = drawing.position + length
    drawing.add(1, f"{path}.attributes", str(drawing.take(1, path)[0]))
    base = None if fields["attributes"] & LOG_APPEND_TIME else fields["base_timestamp"]
    _varint(drawing, f"{path}.timestamp_delta", long=True, add=base)
    _varint(drawing, f"{path}.offset_delta", add=fields["offset"])
    for part in ("key", "value"):
        _blob(drawing, f"{path}.{part}")
    count = _varint(drawing, f"{path}.header_count")
    if not 0 <= count <= stop - drawing.position:
        raise CorruptRecordError(f"{path}: {count} headers", position=drawing.position)
    for header in range(count):
        _blob(drawing, f"{path}.headers[{header}].key", text=True)
        _blob(drawing, f"{path}.headers[{header}].value")
    if drawing.position != stop:
        raise CorruptRecordError(f"{path}: its fields end at {drawing.position}, its length at {stop}", position=stop)


def _varint(drawing: Drawing, path: str, *, long: bool = False, add: int | None = None) -> int:
    """Draw a varint: its number, the unsigned number whose zig-zag value it is, and its bits, seven a byte."""
    at = drawing.position
    try:
        raw, end = (read_unsigned_varlong if long else read_unsigned_varint)(drawing.data, at)
        value, end = (read_varlong if long else read_varint)(drawing.data, at)
    except DecodeError as error:
        raise error.within(path) from None
    bits = " ".join(f"{byte:08b}" for byte in drawing.data[at:end])
    sum_text = "" if add is None else f" -> {value + add}"
    drawing.add(end - at, path, f"{value}{sum_text}  zig-zag of {raw}, {bits}")
    return value


def _blob(drawing: Drawing, path: str, *, text: bool = False) -> None:
    size = _varint(drawing, f"{path}_length")
    if size >= 0:
        raw = drawing.take(size, path)
        if size:
            drawing.add(size, path, repr(java_text(raw)) if text else _shown(raw))


def _shown(raw: bytes) -> str:
    start = raw[:40]
    try:
        text = repr(start.decode()) if start.decode().isprintable() else start[:16].hex()
    except UnicodeDecodeError:
        text = start[:16].hex()
    return text + (f"... ({len(raw)} bytes)" if len(raw) > len(start) else "")


def _draw_message_body(
    drawing: Drawing, drawings: list[Drawing], name: str, fields: dict[str, int], end: int, depth: int
) -> None:
    """Draw the key and the value of a message of format 0 or 1; a compressed one's value holds a message set."""
    codec, payload = fields["attributes"] & CODEC_MASK, None
    for part in ("key", "value"):
        size = struct.unpack(">i", drawing.take(4, f"{name}.{part}_length"))[0]
        drawing.add(4, f"{name}.{part}_length", f"{size} (null)" if size < 0 else str(size))
        if size > end - drawing.position:
            raise CorruptRecordError(f"{name}: a {part} of {size} bytes", position=drawing.position)
        if size > 0:
            raw = drawing.take(size, f"{name}.{part}")
            is_set = codec and part == "value"
            drawing.add(size, f"{name}.{part}", _size_text(size, codec) if is_set else _shown(raw))
            payload = raw if is_set else payload
    if drawing.position < end:
        drawing.add(end - drawing.position, name, f"{end - drawing.position} bytes behind the value, ignored")
    if payload is not None and depth >= RECORDS:
        inner = _opened(payload, codec, fields["magic"], f"{name}.value", drawings)
        _guarded(inner, lambda: _draw_batches(inner, drawings, HEADERS))
