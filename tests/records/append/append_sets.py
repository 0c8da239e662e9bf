"""Random record sets (ordinary, unusual, or damaged with a correct CRC) and random settings to append them with."""

from __future__ import annotations

import random
import struct
from typing import Any

from kafkaframes.records.append import AppendSettings
from kafkaframes.records.build import build_records
from kafkaframes.records.codecs import Codec, compress, decompress
from kafkaframes.records.layout import BATCH_V2, CODEC_MASK, MESSAGE_V0, MESSAGE_V1, HeaderLayout
from kafkaframes.wire.checksum import crc32, crc32c

NOW = 1_700_000_000_000
LAYOUT_BY_MAGIC = (MESSAGE_V0, MESSAGE_V1, BATCH_V2)
EDGE_INTEGERS_BY_FORMAT = {
    "b": (0, 1, 2, 8, 9, -1),
    "h": (0, 8, 16, 24, 32, 48, -1),
    "i": (-1, 0, 1, 2, 1000),
    "q": (-1, 0, 1, 5, NOW),
}
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd", "producer")


RECORD_HEADERS: tuple[list[tuple[str, bytes | None]], ...] = (
    [],
    [],
    [("h", b"1"), ("g", None)],
    [("NAMENAME", b"1"), ("é", b""), ("NAMENAME", None)],
)
# Replacements of header names: invalid UTF-8, truncated characters, a surrogate, a character beyond U+10FFFF.
INVALID_UTF8 = (
    b"NAMENA\xff\xfe",
    b"\xc3NAMENAM",
    b"NAM\xed\xa0\x80NA",
    b"\xf4\x90\x80\x80NAME",
    b"\xc0\xafNAMENA",
    b"NAMENAM\xe2",
)


def set_size_and_crc(raw: bytes, layout: HeaderLayout) -> bytes:
    """Write the batch's size and CRC into its header."""
    out = bytearray(raw)
    struct.pack_into(">i", out, layout.position_of("size"), len(out) - 12)
    check = crc32c if layout is BATCH_V2 else crc32
    struct.pack_into(">I", out, layout.position_of("crc"), check(bytes(out[layout.end_of("crc") :])))
    return bytes(out)


def split_batches(raw: bytes) -> list[bytes]:
    """Return the whole batches of a record set."""
    batches, at = [], 0
    while at + 12 <= len(raw):
        end = at + 12 + int.from_bytes(raw[at + 8 : at + 12], "big", signed=True)
        batches.append(raw[at:end])
        at = end
    return batches


def overwrite_header_field(choose: random.Random, raw: bytes, layout: HeaderLayout) -> bytes:
    """Write a random or extreme value into a header field other than the magic."""
    field = choose.choice([field for field in layout.fields if field.name not in ("magic", "crc", "size")])
    value = choose.choice(EDGE_INTEGERS_BY_FORMAT[field.format])
    if field.name == "attributes":
        value = raw[layout.end_of("attributes") - 1] & CODEC_MASK | value & 0x7F & ~CODEC_MASK
    out = bytearray(raw)
    struct.pack_into(f">{field.format}", out, layout.position_of(field.name), value)
    return set_size_and_crc(bytes(out), layout)


def damage_content(choose: random.Random, raw: bytes, layout: HeaderLayout, magic: int) -> bytes:
    """Damage the records, which may be compressed, and correct the batch's size and CRC."""
    codec = Codec(raw[layout.end_of("attributes") - 1] & CODEC_MASK)
    start = layout.size if magic == 2 else layout.size + 8
    if magic < 2 and codec is Codec.NONE:
        return set_size_and_crc(flip_bit(choose, raw, layout.end_of("crc")), layout)
    inner = bytes(decompress(codec, raw[start:], magic=magic).data)
    edit = choose.choice(
        (flip_bit, cut_end, append_bytes, spoil_header_names)
        if magic == 2
        else (flip_bit, cut_end, append_bytes, reseal_inner, renumber_inner)
    )
    content = edit(choose, inner, 0)
    payload = content if codec is Codec.NONE else compress(codec, content, magic=magic)
    length = b"" if magic == 2 else struct.pack(">i", len(payload))
    return set_size_and_crc(raw[: start - len(length)] + length + payload, layout)


def flip_bit(choose: random.Random, raw: bytes, start: int) -> bytes:
    """Flip a bit, more often near the start of the records than after it."""
    out = bytearray(raw)
    if len(out) > start:
        out[choose.randrange(start, min(len(out), start + choose.choice((20, 80, 4000))))] ^= 1 << choose.randrange(8)
    return bytes(out)


def spoil_header_names(choose: random.Random, raw: bytes, _: int) -> bytes:
    """Replace header names with bytes that are not UTF-8."""
    return raw.replace(b"NAMENAME", choose.choice(INVALID_UTF8))


def cut_end(choose: random.Random, raw: bytes, _: int) -> bytes:
    return raw[: choose.randrange(len(raw) + 1)]


def append_bytes(choose: random.Random, raw: bytes, _: int) -> bytes:
    return raw + choose.randbytes(choose.randrange(1, 30))


def reseal_inner(choose: random.Random, raw: bytes, _: int) -> bytes:
    """Change a header field of one inner message, and correct its size and CRC."""
    inner = split_batches(raw)
    place = choose.randrange(len(inner))
    inner[place] = overwrite_header_field(choose, inner[place], LAYOUT_BY_MAGIC[min(inner[place][16], 1)])
    return b"".join(inner)


def renumber_inner(choose: random.Random, raw: bytes, _: int) -> bytes:
    """Write offsets with gaps, repeated offsets or large offsets into the inner messages."""
    inner, step = split_batches(raw), choose.choice((0, 1, 2, 7))
    first = choose.choice((0, 0, 1, 100))
    return b"".join((first + number * step).to_bytes(8, "big") + message[8:] for number, message in enumerate(inner))


def end_after_last_record(raw: bytes, missing_offsets: int) -> bytes:
    """Let a v2 batch end ``missing_offsets`` after its last record, which compaction may cause."""
    at, out = BATCH_V2.position_of("last_offset_delta"), bytearray(raw)
    struct.pack_into(">i", out, at, struct.unpack_from(">i", raw, at)[0] + missing_offsets)
    return set_size_and_crc(bytes(out), BATCH_V2)


def choose_record_set(choose: random.Random) -> bytes:
    """Return a random record set: valid, with invalid fields, or with damaged bytes."""
    magic, count = choose.choice((0, 1, 2, 2)), choose.choice((1, 2, 3, 9))
    codec = choose.choice(("none", "gzip", "snappy", "lz4") + (("zstd",) if magic == 2 else ()))
    stamps = [choose.choice((-1, 0, NOW, NOW - 50, NOW + 90, NOW - 10**6)) for _ in range(count)]
    columns: dict[str, list[Any]] = {
        "key": [choose.choice((None, b"", b"k", b"key-%d" % n)) for n in range(count)],
        "value": [choose.choice((None, b"", b"v" * choose.randrange(1, 90))) for _ in range(count)],
        "timestamp": stamps if choose.random() < 0.4 else [NOW + n for n in range(count)],
    }
    options: dict[str, Any] = {"base_offset": choose.choice((0, 0, 0, 3))}
    if choose.random() < 0.15:
        columns["offset"] = [3 * n for n in range(count)]
        options = {}
    if magic == 2:
        columns["headers"] = [choose.choice(RECORD_HEADERS) for _ in range(count)]
        if choose.random() < 0.25:
            options |= {"producer_id": choose.choice((-1, 0, 5)), "producer_epoch": choose.choice((-1, 0, 3))}
            options |= {"base_sequence": choose.choice((-1, 0, 2**31 - 2)), "transactional": choose.random() < 0.5}
    raw = build_records(
        columns, record_format=magic, codec=codec, batch_bytes=choose.choice((1, 1 << 20, 1 << 20)), **options
    )
    batches = split_batches(raw)
    place, layout = choose.randrange(len(batches)), LAYOUT_BY_MAGIC[magic]
    if magic == 2 and choose.random() < 0.1:
        batches[place] = end_after_last_record(batches[place], choose.choice((1, 3)))
    kind = choose.random()
    if kind < 0.25:
        batches[place] = overwrite_header_field(choose, batches[place], layout)
    elif kind < 0.65:
        batches[place] = damage_content(choose, batches[place], layout, magic)
    whole = b"".join(batches)
    if kind > 0.95:
        if choose.random() < 0.3:
            return whole + b"\0" * 8 + struct.pack(">i", choose.choice((2**31 - 1, 2**31 - 12, 13, -1))) + bytes(30)
        return cut_end(choose, whole, 0) if choose.random() < 0.5 else flip_bit(choose, whole, 0)
    return whole


def choose_operation(choose: random.Random) -> dict[str, Any]:
    """Choose an operation for Kafka to run: an append with the settings of a topic, or a down-conversion."""
    if choose.random() < 0.15:
        return {"op": "down", "target_magic": choose.choice((0, 1)), "first_offset": choose.choice((0, 0, 2))}
    row = {"op": "append", "offset": choose.choice((0, 1000, 2**31)), "leader_epoch": choose.choice((0, 77))}
    row |= {"target_magic": choose.choice((0, 1, 2, 2)), "target_codec": choose.choice(CODEC_NAMES), "now": NOW}
    row["ts_type"] = choose.choice(("CreateTime", "CreateTime", "LogAppendTime"))
    before, after = choose.choice(((2**63 - 1, 2**63 - 1), (2**63 - 1, 2**63 - 1), (100, 100)))
    row |= {"before_max": before, "after_max": after, "compacted": choose.random() < 0.25}
    return row | {"origin": choose.choice(("CLIENT", "CLIENT", "REPLICATION", "COORDINATOR"))}


def choose_settings(choose: random.Random) -> AppendSettings:
    """Choose append settings, including settings that Kafka does not have."""
    operation = choose_operation(choose)
    while operation["op"] != "append":
        operation = choose_operation(choose)
    return AppendSettings(
        record_format=operation["target_magic"],
        codec=operation["target_codec"],
        timestamp_type=operation["ts_type"],
        now_ms=NOW,
        before_max_ms=operation["before_max"],
        after_max_ms=operation["after_max"],
        is_compacted=operation["compacted"],
        origin=operation["origin"],
        leader_epoch=operation["leader_epoch"],
        max_batch_bytes=choose.choice((None, None, None, 120, 300)),
        on_noncontiguous=choose.choice(("kafka", "kafka", "reassign", "reject", "keep")),
    )
