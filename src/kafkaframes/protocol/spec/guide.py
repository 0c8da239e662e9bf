"""Make the protocol guide: the catalog, and specs of a user's own, as data inside one HTML page without a server.

The page is ``guide.html`` with the data put in; all that is computed (layouts, sizes, changes) is computed here.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from uuid import UUID

from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.layout import changes, rows
from kafkaframes.protocol.spec.model import PRIMITIVES as SIZES
from kafkaframes.protocol.spec.model import RPC_TYPES, MessageSpec
from kafkaframes.records import layout
from kafkaframes.wire import varint
from kafkaframes.wire.primitives import COMPACT_PRIMITIVES, PRIMITIVES
from kafkaframes.wire.varint import TAG_HEADERS

#: (headings, rows) of a table; (title, sentences, tables) of a section.
Table: TypeAlias = tuple[Sequence[str], Sequence[tuple[str, ...]]]
Section: TypeAlias = tuple[str, Sequence[str], Sequence[Table]]

_EXAMPLES: Final[dict[str, Any]] = {
    "bool": True,
    "int8": -1,
    "int16": 300,
    "uint16": 65535,
    "int32": 300,
    "uint32": 4294967295,
    "int64": -2,
    "float64": 1.5,
    "uuid": UUID(int=7),
    "string": "hé",
    "bytes": b"\x01\x02",
    "records": b"",
}
_INTEGERS: Final = {"b": "int8", "h": "int16", "i": "int32", "I": "uint32", "q": "int64"}
_VARINTS: Final = (0, 1, -1, 63, -64, 64, 127, 128, 300, 8191, 8192, 2**31 - 1, -(2**31))
_RECORD: Final = (
    ("length", "varint", "bytes of this record after it"),
    ("attributes", "int8", "0: no bit is in use"),
    ("timestamp delta", "varlong", "added to the batch's base_timestamp"),
    ("offset delta", "varint", "added to the batch's offset"),
    ("key length", "varint", "-1 is null"),
    ("key", "bytes", ""),
    ("value length", "varint", "-1 is null: a tombstone in a compacted topic"),
    ("value", "bytes", ""),
    ("header count", "varint", ""),
    ("headers", "varint + bytes, varint + bytes", "name (never null) and value (-1 is null) of each"),
)
_FLAGS: Final = (
    (layout.LOG_APPEND_TIME, "the timestamps are the broker's (formats 1 and 2)"),
    (layout.TRANSACTIONAL, "part of a transaction"),
    (layout.CONTROL, "a control batch: the end of a transaction, or of the metadata log's own"),
    (layout.DELETE_HORIZON, "base_timestamp is the delete horizon of a compacted log"),
)


def wire_pages() -> list[tuple[str, str, list[Section]]]:
    """Return the pages as (id, title, sections)."""
    return [
        ("frames", "Frames and headers", list(_frames())),
        ("types", "Primitive types and varints", list(_types())),
        ("tags", "Tagged fields", list(_tags())),
        ("records", "Batches and records", list(_records())),
    ]


def _frames() -> Iterable[Section]:
    words = (
        "A connection carries frames: an int32 with the size of what follows, a header, a body. Numbers are "
        "big-endian.",
        "A client may send many requests before the first answer; a broker answers them in their order, and an answer "
        "has the correlation id of its request, nothing else of it. Produce with acks=0 has no answer.",
        "A body that is flexible (KIP-482) follows request header 2 and response header 1, others 1 and 0. Three cases "
        "differ: an ApiVersions response always has header 0, since a client cannot know yet what the broker speaks "
        "(KIP-511); ControlledShutdown 0 has header 0, without a client id; the client id of header 2 keeps its int16 "
        "length.",
        "A client begins with ApiVersions, and takes of each API the highest version that both ends have. A "
        "broker that "
        "does not know the version of ApiVersions itself answers at version 0 with error 35 and the versions "
        "that it has.",
        "SaslHandshake 0 is followed by tokens in frames without a header; from version 1 on they are in "
        "SaslAuthenticate.",
    )
    yield "How messages travel", words, ()
    for name in ("RequestHeader", "ResponseHeader"):
        spec = catalog.load(name)
        for version in spec.valid_versions:
            lines = [(row.name, row.wire_type, row.size) for row in rows(spec, version)]
            yield f"{name} {version}", (), [(("field", "type", "bytes"), lines)]


def _types() -> Iterable[Section]:
    words = (
        "In versions before KIP-482 a string's length is an int16, that of bytes, records and arrays an "
        "int32; null is -1.",
        "In flexible versions each of these lengths is an unsigned varint of the length plus one; null is 0. "
        "Every struct "
        "then ends with a tag section.",
        "A struct is its fields one after another. A nullable struct is led by an int8: -1 null, 1 present; as a "
        "tagged field by an unsigned varint, 0 or 1. Elements of arrays are never null. A uuid is never null: zeros "
        "stand for none.",
    )
    yield "Primitive types", words, [(("type", "bytes", "example", "inflexible", "flexible"), list(map(_type, SIZES)))]
    numbers = (
        "An unsigned varint holds seven bits a byte, the low ones first; the high bit of a byte says that more follow.",
        "A varint is the unsigned varint of its zig-zag number, (n << 1) ^ (n >> 31), so that small negative "
        "numbers are "
        "short. Lengths and tags of messages are unsigned; all numbers in a record of format 2 are zig-zag.",
        "At most 5 bytes for 32 bits, 10 for 64. Readers of Kafka's take forms that are longer than needed.",
    )
    table = [(str(number), *_varints(number)) for number in _VARINTS]
    yield "Varints", numbers, [(("number", "unsigned", "zig-zag"), table)]


def _type(name: str) -> tuple[str, ...]:
    size, value = SIZES[name], _EXAMPLES[name]
    plain, flexible = (_hex(table[name][1], value) for table in (PRIMITIVES, COMPACT_PRIMITIVES))
    return name, "length + n" if size is None else str(size), str(value), plain, flexible


def _varints(number: int) -> tuple[str, str]:
    unsigned = _hex(varint.write_unsigned_varint, number) if number >= 0 else ""
    return unsigned, _hex(varint.write_varint, number)


def _hex(write: Callable[[bytearray, Any], None], value: object) -> str:
    out = bytearray()
    write(out, value)
    return out.hex(" ")


def _tags() -> Iterable[Section]:
    out = bytearray()
    varint.write_unsigned_varint(out, 2)
    for tag, data in ((0, struct.pack(">h", 27)), (3, b"\x01")):
        TAG_HEADERS["adopted"].write(out, tag, len(data))
        out += data
    words = (
        "In flexible versions each struct ends with its tagged fields: their count, then of each the tag, the size in "
        "bytes and the value, ascending by tag; count, tag and size are unsigned varints. No tagged field: "
        "one byte, 00.",
        "A field is written only where its value is not the default; a reader that does not know a tag skips it by its "
        "size, and keeps the bytes. So a tagged field can be added to a version that is released; a tag is never used "
        "again.",
        f"Two fields, an int16 of 27 with tag 0 and a true with tag 3: {out.hex(' ')}",
        "Tags that no spec declares can be set on every struct and header, for a trace id, say; others pass them on.",
    )
    yield "Tag sections", words, ()


def _records() -> Iterable[Section]:
    words = (
        "Records lie in batches, in a log's segments as in Produce and Fetch. Byte 16 of a batch or message "
        "is its magic: "
        "the format. A batch is 12 bytes and as many more as size says.",
        "Format 2 (0.11 and later) is one header for many records. The codec compresses the records behind the header.",
        f"Codecs by number: {', '.join(f'{number} {name}' for number, name in enumerate(layout.CODECS))}. Flags: "
        + "; ".join(f"bit {flag.bit_length() - 1}: {text}" for flag, text in _FLAGS),
    )
    yield "Batch, format 2", words, [_header(layout.BATCH_V2)]
    yield "Record, format 2", ("Varints are zig-zag.",), [(("field", "type", ""), list(_RECORD))]
    sets = (
        "A message set is messages one after another. In each, after the fields below: key and value, each an int32 "
        "length (-1 is null) and bytes. There are no headers.",
        "A compressed message's value is a message set. Its own offset is that of the last message in it; "
        "offsets inside "
        "count from 0 in format 1 (KIP-31) and are absolute in format 0.",
    )
    yield "Message, format 0", sets, [_header(layout.MESSAGE_V0)]
    yield "Message, format 1", (), [_header(layout.MESSAGE_V1)]


def _header(of: layout.HeaderLayout) -> Table:
    lines = [(str(of.position_of(one.name)), one.name, _INTEGERS[one.format], one.note) for one in of.fields]
    return ("position", "field", "type", ""), lines


TEMPLATE = Path(__file__).parent / "guide.html"
_SLOT = "/*DATA*/null"


def guide_page(specs: Mapping[str, MessageSpec] = MappingProxyType({})) -> str:
    """Return the guide: every message at every version, what they are made of, and the error codes.

    Args:
        specs: a user's own, by name: in place of the catalog's, and first in the list.
    """
    text = json.dumps(guide_data(specs), ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    return TEMPLATE.read_text(encoding="utf-8").replace(_SLOT, text)


def guide_data(specs: Mapping[str, MessageSpec] = MappingProxyType({})) -> dict[str, Any]:
    """Return what the page shows, compact: layouts and rows stand there once and named by number."""
    layouts: dict[tuple[int, ...], int] = {}
    lines: dict[tuple[Any, ...], int] = {}
    names = sorted({*catalog.names(), *specs})
    messages = [_message(specs.get(name) or catalog.load(name), layouts, lines, own=name in specs) for name in names]
    return {
        "release": catalog.newest_release(),
        "messages": messages,
        "layouts": [list(layout) for layout in layouts],
        "rows": [list(line) for line in lines],
        "errors": [[int(code), code.name, code.is_retriable, code.message] for code in ErrorCode],
        "fields": catalog.field_words() | _words(specs.values()),
        "pages": wire_pages(),
    }


def _words(specs: Iterable[MessageSpec]) -> dict[str, str]:
    """Return what specs say of their fields, by the bare name."""
    structs = [struct for spec in specs for struct in (spec.struct, *spec.structs.values())]
    return {field.name: field.about for struct in structs for field in struct.fields if field.about}


def _message(
    spec: MessageSpec, layouts: dict[tuple[int, ...], int], lines: dict[tuple[Any, ...], int], *, own: bool
) -> dict[str, Any]:
    release, valid = catalog.newest_release(), spec.valid_versions
    entry = catalog.Entry(spec, "your specs", release, valid) if own else catalog.entry(spec.name)
    versions = [_version(spec, version, layouts, lines) for version in spec.valid_versions]
    return {
        "name": spec.name,
        "own": own,
        "type": spec.type,
        "key": spec.api_key,
        "module": entry.module,
        "about": catalog.about(spec.name),
        "current": str(entry.current_versions),
        "last": entry.last_release,
        "valid": str(spec.valid_versions),
        "low": spec.valid_versions.lowest,
        "currentLow": entry.current_versions.lowest,
        "currentHigh": entry.current_versions.highest,
        "unstable": spec.latest_version_unstable,
        "versions": versions,
    }


def _version(
    spec: MessageSpec, version: int, layouts: dict[tuple[int, ...], int], lines: dict[tuple[Any, ...], int]
) -> list[Any]:
    """Return [is flexible, header version or null, number of the layout, changes since the version before]."""
    numbers = []
    for row in rows(spec, version):
        line = (row.depth, row.name, row.wire_type, row.size, row.note)
        numbers.append(lines.setdefault(line, len(lines)))
    layout = layouts.setdefault(tuple(numbers), len(layouts))
    before = version - 1
    changed = changes(spec, before, version) if spec.valid_versions.contains(before) else []
    header = spec.header_version(version) if spec.type in RPC_TYPES else None
    return [spec.is_flexible(version), header, layout, [[one.kind, ".".join(one.path), one.text] for one in changed]]
