"""Record batches and messages with invalid contents and correct CRCs: damage that a checksum does not detect.

A record is a list of tokens: numbers, which are written as varints, and bytes. A mutation changes a token, usually
slightly. The lengths around it are often recomputed, so that readers get as far as the damage.
"""

from __future__ import annotations

import random
import struct
import zlib

from kafkaframes.records.codecs import Codec, compress
from kafkaframes.wire.checksum import crc32c
from kafkaframes.wire.varint import write_varlong

# Numbers at the limits of integer types and of varint sizes.
NUMBERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 31, 32, 33, 63, 64, 127, 128, 8191, 8192, 2**20, 2**31 - 1, 2**31)
HEADER_NAMES = (b"", b"a", b"trace", b"x" * 40, "é".encode(), b"\xff\xfe", "名".encode())


def encode_varint(number: int) -> bytes:
    """Write a number as a zig-zag varint of up to ten bytes."""
    out = bytearray()
    write_varlong(out, max(min(number, 2**63 - 1), -(2**63)))
    return bytes(out)


def lengthen_varint(raw: bytes, choose: random.Random) -> bytes:
    """Write a varint in more bytes than it needs."""
    more = choose.randrange(1, 5)
    return raw[:-1] + bytes((raw[-1] | 0x80,)) + b"\x80" * (more - 1) + b"\0"


def choose_bytes(choose: random.Random) -> bytes | None:
    """Return random bytes for a key or value, or None."""
    return None if choose.random() < 0.15 else choose.randbytes(choose.choice((0, 1, 5, 31, 32, 33, 70, 300)))


def choose_record_tokens(choose: random.Random, offset_delta: int) -> list[int | bytes]:
    """Return the tokens of a random valid v2 record, without its length."""
    record_tokens: list[int | bytes] = [b"\0", choose.choice((0, 1, -1, 100, 2**33)), offset_delta]
    for text in (choose_bytes(choose), choose_bytes(choose)):
        record_tokens += [-1] if text is None else [len(text), text]
    headers = choose.choice((0, 0, 0, 1, 3, 3, 70))
    record_tokens.append(headers)
    for _ in range(headers):
        name, value = choose.choice(HEADER_NAMES), choose_bytes(choose)
        record_tokens += [len(name), name]
        record_tokens += [-1] if value is None else [len(value), value]
    return record_tokens


def write_record(choose: random.Random, offset_delta: int, *, damage: float) -> bytes:
    """Write a random v2 record, damaged with the probability ``damage``."""
    parts = choose_record_tokens(choose, offset_delta)
    is_damaged = choose.random() < damage
    if is_damaged:
        for _ in range(choose.choice((1, 1, 2, 4))):
            _damage_part(parts, choose)
    raw = [part if isinstance(part, bytes) else encode_varint(part) for part in parts]
    if is_damaged and choose.random() < 0.2:
        place = choose.choice([place for place, part in enumerate(parts) if not isinstance(part, bytes)] or [0])
        raw[place] = lengthen_varint(raw[place] or b"\0", choose)
    body = b"".join(raw)
    size = len(body) + (choose.choice((-9, -2, -1, 1, 2, 9)) if is_damaged and choose.random() < 0.2 else 0)
    return encode_varint(size) + body


def _damage_part(parts: list[int | bytes], choose: random.Random) -> None:
    place, how = choose.randrange(len(parts)), choose.random()
    part = parts[place]
    if how < 0.1:
        del parts[place:]  # the record ends here, although its header count or length specifies more
        parts.append(choose.choice((0, 1, 3)))
    elif how < 0.15:
        _end_after_header_count(parts, choose.choice((1, 3, 63)))
    elif how < 0.25:
        del parts[place]
        parts.append(b"")
    elif how < 0.35:
        parts.insert(place, choose.choice((0, -1, 1, b"\x80", b"\xff\xff\xff\xff\xff\xff")))
    elif isinstance(part, bytes):
        parts[place] = choose.choice((part[:-1], part + b"\0", part + part))
    elif how < 0.7:
        parts[place] = part + choose.choice((-2, -1, 1, 2, 3, 63))
    else:
        parts[place] = choose.choice(NUMBERS)


def _end_after_header_count(parts: list[int | bytes], count: int) -> None:
    """Remove the headers after the header count."""
    place = 3
    for _ in range(2):
        size = parts[place] if place < len(parts) else 0
        place += 2 if isinstance(size, int) and size >= 0 else 1
    parts[place:] = [count]


def build_batch_v2(
    payload: bytes, *, count: int, base_offset: int = 0, attributes: int = 0, last_delta: int | None = None
) -> bytes:
    """Add a v2 batch header with a correct CRC to a records section."""
    last = max(count - 1, 0) if last_delta is None else last_delta
    checked_bytes = struct.pack(">hiqqqhii", attributes, last, 5, 900, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", base_offset, 9 + len(checked_bytes), 0, 2, crc32c(checked_bytes)) + checked_bytes


def choose_batch_v2(choose: random.Random, base_offset: int, *, damage: float = 0.1) -> bytes:
    """Return a random v2 batch with any codec, mostly valid records and a correct CRC."""
    count = choose.choice((1, 2, 3, 10, 60))
    section = b"".join(write_record(choose, delta, damage=damage) for delta in range(count))
    if choose.random() < damage:
        place = choose.randrange(len(section) + 1)
        section = section[:place] + choose.choice((b"", b"\0", choose.randbytes(3), bytes(50))) + section[place + 1 :]
    codec = choose.choice(list(Codec))
    stated_count = count + choose.choice((-1, 1, 5, 100)) if choose.random() < damage / 2 else count
    attributes = codec | choose.choice((0, 0, 0, 8, 16, 32, 64))
    return build_batch_v2(compress(codec, section), count=stated_count, base_offset=base_offset, attributes=attributes)


def build_message(
    magic: int, key: bytes | None, value: bytes | None, *, offset: int, attributes: int = 0, choose: random.Random
) -> bytes:
    """Write a message of format 0 or 1 with a correct CRC. If ``choose`` is given, the lengths may be wrong."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", 77) if magic else b"")
    for text in (key, value):
        size = -1 if text is None else len(text)
        if choose.random() < 0.03:
            size = choose.choice((-2, -(2**31), size + 1, max(size - 1, 0), 2**31 - 1))
        body += struct.pack(">i", size) + (text or b"")
    body += choose.choice((b"", b"", b"", b"behind the value"))
    crc = zlib.crc32(body) ^ (choose.random() < 0.02)
    return struct.pack(">qiI", offset, len(body) + 4, crc) + body


def choose_messages(choose: random.Random, base_offset: int) -> bytes:
    """Return a random message set of format 0 or 1. Inner offsets may have gaps or be wrong."""
    magic, count = choose.choice((0, 1)), choose.choice((1, 2, 10, 60))
    codec = choose.choice((0, 1, 2, 3))
    relative = magic == 1 and codec != 0
    offset, parts = 0 if relative else base_offset, []
    for _ in range(count):
        inner = magic if choose.random() < 0.98 else 1 - magic
        nesting = choose.choice((1, 2)) if choose.random() < 0.01 else 0
        parts.append(
            build_message(
                inner, choose_bytes(choose), choose_bytes(choose), offset=offset, attributes=nesting, choose=choose
            )
        )
        offset += choose.choice((1, 1, 1, 1, 5, 0 if choose.random() < 0.1 else 1))
    if codec == 0:
        return b"".join(parts)
    content = b"".join(parts)
    if choose.random() < 0.05:
        content = content[: choose.randrange(len(content))]
    last = base_offset + offset if choose.random() < 0.95 else choose.choice((0, 1, base_offset))
    attributes = codec | (choose.choice((0, 0, 8)) if magic else 0)
    value = compress(codec, content, magic=magic)
    return build_message(magic, None, value, offset=last, attributes=attributes, choose=random.Random(1))


def choose_log(seed: int, *, damage: float = 0.1) -> bytes:
    """Return random batches of all formats, most of them valid and all with correct sizes."""
    choose, parts = random.Random(seed), []
    for number in range(choose.randrange(1, 7)):
        if choose.random() < 0.7:
            parts.append(choose_batch_v2(choose, number * 1000, damage=damage))
        else:
            parts.append(choose_messages(choose, number * 1000))
    return b"".join(parts)
