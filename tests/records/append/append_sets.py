"""Record sets to append: ordinary ones, unusual ones, damaged ones with a correct CRC; and the questions about them."""

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
LAYOUTS = (MESSAGE_V0, MESSAGE_V1, BATCH_V2)
INTEGERS = {
    "b": (0, 1, 2, 8, 9, -1),
    "h": (0, 8, 16, 24, 32, 48, -1),
    "i": (-1, 0, 1, 2, 1000),
    "q": (-1, 0, 1, 5, NOW),
}
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd", "producer")


HEADERS: tuple[list[tuple[str, bytes | None]], ...] = (
    [],
    [],
    [("h", b"1"), ("g", None)],
    [("NAMENAME", b"1"), ("é", b""), ("NAMENAME", None)],
)
# Instead of a name: not UTF-8, cut off, a surrogate, beyond Unicode, longer than its length.
NAMES = (
    b"NAMENA\xff\xfe",
    b"\xc3NAMENAM",
    b"NAM\xed\xa0\x80NA",
    b"\xf4\x90\x80\x80NAME",
    b"\xc0\xafNAMENA",
    b"NAMENAM\xe2",
)


def seal_batch(raw: bytes, layout: HeaderLayout) -> bytes:
    """Give a batch the length and the CRC of its bytes."""
    out = bytearray(raw)
    struct.pack_into(">i", out, layout.position_of("size"), len(out) - 12)
    check = crc32c if layout is BATCH_V2 else crc32
    struct.pack_into(">I", out, layout.position_of("crc"), check(bytes(out[layout.end_of("crc") :])))
    return bytes(out)


def batches_of(raw: bytes) -> list[bytes]:
    """Cut whole batches apart."""
    batches, at = [], 0
    while at + 12 <= len(raw):
        end = at + 12 + int.from_bytes(raw[at + 8 : at + 12], "big", signed=True)
        batches.append(raw[at:end])
        at = end
    return batches


def with_header(choose: random.Random, raw: bytes, layout: HeaderLayout) -> bytes:
    """Write an odd value into one header field; the magic stays."""
    field = choose.choice([field for field in layout.fields if field.name not in ("magic", "crc", "size")])
    value = choose.choice(INTEGERS[field.format])
    if field.name == "attributes":
        value = raw[layout.end_of("attributes") - 1] & CODEC_MASK | value & 0x7F & ~CODEC_MASK
    out = bytearray(raw)
    struct.pack_into(f">{field.format}", out, layout.position_of(field.name), value)
    return seal_batch(bytes(out), layout)


def with_content(choose: random.Random, raw: bytes, layout: HeaderLayout, magic: int) -> bytes:
    """Change something in the records, which may be compressed, and seal the batch again."""
    codec = Codec(raw[layout.end_of("attributes") - 1] & CODEC_MASK)
    start = layout.size if magic == 2 else layout.size + 8
    if magic < 2 and codec is Codec.NONE:
        return seal_batch(flip_bit(choose, raw, layout.end_of("crc")), layout)
    inner = bytes(decompress(codec, raw[start:], magic=magic).data)
    edit = choose.choice(
        (flip_bit, cut_end, longer, spoil_header_names)
        if magic == 2
        else (flip_bit, cut_end, longer, reseal_inner, renumber_inner)
    )
    content = edit(choose, inner, 0)
    payload = content if codec is Codec.NONE else compress(codec, content, magic=magic)
    length = b"" if magic == 2 else struct.pack(">i", len(payload))
    return seal_batch(raw[: start - len(length)] + length + payload, layout)


def flip_bit(choose: random.Random, raw: bytes, start: int) -> bytes:
    """Flip a bit, more often near the start of the records than after it."""
    out = bytearray(raw)
    if len(out) > start:
        out[choose.randrange(start, min(len(out), start + choose.choice((20, 80, 4000))))] ^= 1 << choose.randrange(8)
    return bytes(out)


def spoil_header_names(choose: random.Random, raw: bytes, _: int) -> bytes:
    """Replace headers' names with bytes that are not UTF-8."""
    return raw.replace(b"NAMENAME", choose.choice(NAMES))


def cut_end(choose: random.Random, raw: bytes, _: int) -> bytes:
    return raw[: choose.randrange(len(raw) + 1)]


def longer(choose: random.Random, raw: bytes, _: int) -> bytes:
    return raw + choose.randbytes(choose.randrange(1, 30))


def reseal_inner(choose: random.Random, raw: bytes, _: int) -> bytes:
    """Change a header field of one inner message, and give it the CRC of its bytes."""
    inner = batches_of(raw)
    place = choose.randrange(len(inner))
    inner[place] = with_header(choose, inner[place], LAYOUTS[min(inner[place][16], 1)])
    return b"".join(inner)


def renumber_inner(choose: random.Random, raw: bytes, _: int) -> bytes:
    """Give inner messages other offsets: holes, repeats, or large ones."""
    inner, step = batches_of(raw), choose.choice((0, 1, 2, 7))
    first = choose.choice((0, 0, 1, 100))
    return b"".join((first + number * step).to_bytes(8, "big") + one[8:] for number, one in enumerate(inner))


def hole_at_end(raw: bytes, by: int) -> bytes:
    """Let a batch of format 2 end ``by`` offsets after its last record, as a compacted batch may."""
    at, out = BATCH_V2.position_of("last_offset_delta"), bytearray(raw)
    struct.pack_into(">i", out, at, struct.unpack_from(">i", raw, at)[0] + by)
    return seal_batch(bytes(out), BATCH_V2)


def a_set(choose: random.Random) -> bytes:
    """Make what a producer, a careless one, or a broken disk might send."""
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
        columns["headers"] = [choose.choice(HEADERS) for _ in range(count)]
        if choose.random() < 0.25:
            options |= {"producer_id": choose.choice((-1, 0, 5)), "producer_epoch": choose.choice((-1, 0, 3))}
            options |= {"base_sequence": choose.choice((-1, 0, 2**31 - 2)), "transactional": choose.random() < 0.5}
    raw = build_records(
        columns, record_format=magic, codec=codec, batch_bytes=choose.choice((1, 1 << 20, 1 << 20)), **options
    )
    batches = batches_of(raw)
    place, layout = choose.randrange(len(batches)), LAYOUTS[magic]
    if magic == 2 and choose.random() < 0.1:
        batches[place] = hole_at_end(batches[place], choose.choice((1, 3)))
    kind = choose.random()
    if kind < 0.25:
        batches[place] = with_header(choose, batches[place], layout)
    elif kind < 0.65:
        batches[place] = with_content(choose, batches[place], layout, magic)
    whole = b"".join(batches)
    if kind > 0.95:
        if choose.random() < 0.3:
            return whole + b"\0" * 8 + struct.pack(">i", choose.choice((2**31 - 1, 2**31 - 12, 13, -1))) + bytes(30)
        return cut_end(choose, whole, 0) if choose.random() < 0.5 else flip_bit(choose, whole, 0)
    return whole


def a_question(choose: random.Random) -> dict[str, Any]:
    """Choose what is asked of Kafka: an append with the settings of a topic, or a down-conversion."""
    if choose.random() < 0.15:
        return {"op": "down", "target_magic": choose.choice((0, 1)), "first_offset": choose.choice((0, 0, 2))}
    row = {"op": "append", "offset": choose.choice((0, 1000, 2**31)), "leader_epoch": choose.choice((0, 77))}
    row |= {"target_magic": choose.choice((0, 1, 2, 2)), "target_codec": choose.choice(CODEC_NAMES), "now": NOW}
    row["ts_type"] = choose.choice(("CreateTime", "CreateTime", "LogAppendTime"))
    before, after = choose.choice(((2**63 - 1, 2**63 - 1), (2**63 - 1, 2**63 - 1), (100, 100)))
    row |= {"before_max": before, "after_max": after, "compacted": choose.random() < 0.25}
    return row | {"origin": choose.choice(("CLIENT", "CLIENT", "REPLICATION", "COORDINATOR"))}


def some_settings(choose: random.Random) -> AppendSettings:
    """Choose settings of a topic, those that Kafka does not have among them."""
    question = a_question(choose)
    while question["op"] != "append":
        question = a_question(choose)
    return AppendSettings(
        record_format=question["target_magic"],
        codec=question["target_codec"],
        timestamp_type=question["ts_type"],
        now_ms=NOW,
        before_max_ms=question["before_max"],
        after_max_ms=question["after_max"],
        is_compacted=question["compacted"],
        origin=question["origin"],
        leader_epoch=question["leader_epoch"],
        max_batch_bytes=choose.choice((None, None, None, 120, 300)),
        on_noncontiguous=choose.choice(("kafka", "kafka", "reassign", "reject", "keep")),
    )
