"""Generate the protocol guide: one static HTML page with the data of the catalog and of user specs.

The page is ``guide.html`` with the data inserted; its texts are in ``guide.toml``. This module computes the data:
layouts, sizes and changes.
"""

from __future__ import annotations

import json
import os
import struct
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from uuid import UUID

from kafkaframes.errors import ErrorCode, OptionError
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.layout import layout_rows, list_changes
from kafkaframes.protocol.spec.model import PRIMITIVES as SIZES
from kafkaframes.protocol.spec.model import RPC_TYPES, MessageSpec
from kafkaframes.records import layout
from kafkaframes.wire import varint
from kafkaframes.wire.integers import MAX_INT32, MIN_INT32
from kafkaframes.wire.primitives import COMPACT_PRIMITIVE_CODECS, PRIMITIVE_CODECS
from kafkaframes.wire.varint import TAG_HEADERS

#: (headings, rows) of a table; (title, paragraphs, tables) of a section.
Table: TypeAlias = tuple[Sequence[str], Sequence[tuple[str, ...]]]
Section: TypeAlias = tuple[str, Sequence[str], Sequence[Table]]

_TYPE_EXAMPLES: Final[dict[str, Any]] = {
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
_INTEGER_NAMES: Final = {"b": "int8", "h": "int16", "i": "int32", "I": "uint32", "q": "int64"}
_VARINT_EXAMPLES: Final = (0, 1, -1, 63, -64, 64, 127, 128, 300, 8191, 8192, MAX_INT32, MIN_INT32)
_FLAG_DESCRIPTIONS: Final = (
    (layout.LOG_APPEND_TIME, "the broker has set the timestamps (formats 1 and 2)"),
    (layout.TRANSACTIONAL, "part of a transaction"),
    (layout.CONTROL, "a control batch: a transaction marker, or a control record of the metadata log"),
    (layout.DELETE_HORIZON, "base_timestamp is the delete horizon of a compacted log"),
)


def make_wire_pages() -> list[tuple[str, str, list[Section]]]:
    """Return the pages as (id, title, sections)."""
    return [
        ("frames", "Frames and headers", list(_make_frames_page())),
        ("types", "Primitive types and varints", list(_make_types_page())),
        ("tags", "Tagged fields", list(_make_tags_page())),
        ("records", "Batches and records", list(_make_records_page())),
    ]


def _make_frames_page() -> Iterable[Section]:
    """Return the sections of the page about frames and headers."""
    yield _section("How messages travel")
    for name in ("RequestHeader", "ResponseHeader"):
        spec = catalog.load_spec(name)
        for version in spec.valid_versions:
            lines = [(row.name, row.wire_type, row.size) for row in layout_rows(spec, version)]
            yield f"{name} {version}", (), [(("field", "type", "bytes"), lines)]


def _make_types_page() -> Iterable[Section]:
    """Return the sections of the page about primitive types and varints."""
    yield _section(
        "Primitive types", (("type", "bytes", "example", "inflexible", "flexible"), list(map(_make_type_row, SIZES)))
    )
    numbers = [(str(number), *_make_varint_row(number)) for number in _VARINT_EXAMPLES]
    yield _section("Varints", (("number", "unsigned", "zig-zag"), numbers))


def _section(title: str, *tables: Table, **figures: str) -> Section:
    return title, [sentence.format(**figures) for sentence in _text()[title]], tables


@cache
def _text() -> dict[str, Any]:
    return tomllib.loads(TEXT_FILE.read_text(encoding="utf-8"))


def _make_type_row(name: str) -> tuple[str, ...]:
    size, value = SIZES[name], _TYPE_EXAMPLES[name]
    plain, flexible = (_format_hex(table[name][1], value) for table in (PRIMITIVE_CODECS, COMPACT_PRIMITIVE_CODECS))
    return name, "length + n" if size is None else str(size), str(value), plain, flexible


def _make_varint_row(number: int) -> tuple[str, str]:
    unsigned = _format_hex(varint.write_unsigned_varint, number) if number >= 0 else ""
    return unsigned, _format_hex(varint.write_varint, number)


def _format_hex(write: Callable[[bytearray, Any], None], value: object) -> str:
    out = bytearray()
    write(out, value)
    return out.hex(" ")


def _make_tags_page() -> Iterable[Section]:
    """Return the sections of the page about tagged fields."""
    out = bytearray()
    varint.write_unsigned_varint(out, 2)
    for tag, data in ((0, struct.pack(">h", 27)), (3, b"\x01")):
        TAG_HEADERS["adopted"].write(out, tag, len(data))
        out += data
    yield _section("Tag sections", tags=out.hex(" "))


def _make_records_page() -> Iterable[Section]:
    """Return the sections of the page about records."""
    codecs = ", ".join(f"{number} {name}" for number, name in enumerate(layout.CODECS))
    flags = "; ".join(f"bit {flag.bit_length() - 1}: {text}" for flag, text in _FLAG_DESCRIPTIONS)
    yield _section("Batch, format 2", _make_header_rows(layout.BATCH_V2), codecs=codecs, flags=flags)
    fields = [tuple(row) for row in _text()["fields of a record"]]
    yield _section("Record, format 2", (("field", "type", ""), fields))
    yield _section("Message, format 0", _make_header_rows(layout.MESSAGE_V0))
    yield "Message, format 1", (), [_make_header_rows(layout.MESSAGE_V1)]


def _make_header_rows(header: layout.HeaderLayout) -> Table:
    """Return the table of a batch header's fields."""
    lines = [
        (str(header.position_of(entry.name)), entry.name, _INTEGER_NAMES[entry.format], entry.note)
        for entry in header.fields
    ]
    return ("position", "field", "type", ""), lines


TEMPLATE_FILE = Path(__file__).parent / "guide.html"
TEXT_FILE = Path(__file__).parent / "guide.toml"
_DATA_PLACEHOLDER = "/*DATA*/null"


def write_page(to: str | os.PathLike[str], specs: Mapping[str, MessageSpec]) -> str:
    """Write the guide to a file, or as ``index.html`` into a directory. Return its path."""
    output = Path(to)
    target = output / "index.html" if output.is_dir() or not output.suffix else output
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(make_guide_page(specs), encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{target}: {error.strerror}") from None
    return str(target)


def make_guide_page(specs: Mapping[str, MessageSpec] = MappingProxyType({})) -> str:
    """Return the guide: all messages at all versions, the wire formats, and the error codes.

    Args:
        specs: user specs by name. User specs replace catalog specs of the same name, and the guide lists them first.
    """
    text = json.dumps(make_guide_data(specs), ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    return TEMPLATE_FILE.read_text(encoding="utf-8").replace(_DATA_PLACEHOLDER, text)


def make_guide_data(specs: Mapping[str, MessageSpec] = MappingProxyType({})) -> dict[str, Any]:
    """Return the page's data in compact form: each layout and row is stored once and referenced by number."""
    layouts: dict[tuple[int, ...], int] = {}
    lines: dict[tuple[Any, ...], int] = {}
    names = sorted({*catalog.list_names(), *specs})
    messages = [
        _make_message_data(specs.get(name) or catalog.load_spec(name), layouts, lines, own=name in specs)
        for name in names
    ]
    return {
        "release": catalog.newest_release(),
        "messages": messages,
        "layouts": [list(layout) for layout in layouts],
        "rows": [list(line) for line in lines],
        "errors": [[int(code), code.name, code.is_retriable, code.message] for code in ErrorCode],
        "fields": catalog.field_descriptions() | _collect_descriptions(specs.values()),
        "pages": make_wire_pages(),
    }


def _collect_descriptions(specs: Iterable[MessageSpec]) -> dict[str, str]:
    """Return the specs' descriptions of fields, by bare field name."""
    structs = [struct for spec in specs for struct in (spec.struct, *spec.structs.values())]
    return {field.name: field.about for struct in structs for field in struct.fields if field.about}


def _make_message_data(
    spec: MessageSpec, layouts: dict[tuple[int, ...], int], lines: dict[tuple[Any, ...], int], *, own: bool
) -> dict[str, Any]:
    release, valid = catalog.newest_release(), spec.valid_versions
    entry = catalog.IndexEntry(spec, "your specs", release, valid) if own else catalog.find_entry(spec.name)
    versions = [_make_version_data(spec, version, layouts, lines) for version in spec.valid_versions]
    return {
        "name": spec.name,
        "own": own,
        "type": spec.type,
        "key": spec.api_key,
        "module": entry.module,
        "about": catalog.find_description(spec.name),
        "current": str(entry.current_versions),
        "last": entry.last_release,
        "valid": str(spec.valid_versions),
        "low": spec.valid_versions.lowest,
        "currentLow": entry.current_versions.lowest,
        "currentHigh": entry.current_versions.highest,
        "unstable": spec.latest_version_unstable,
        "versions": versions,
    }


def _make_version_data(
    spec: MessageSpec, version: int, layouts: dict[tuple[int, ...], int], lines: dict[tuple[Any, ...], int]
) -> list[Any]:
    """Return [is flexible, header version or null, layout number, changes since the previous version]."""
    numbers = []
    for row in layout_rows(spec, version):
        line = (row.depth, row.name, row.wire_type, row.size, row.note)
        numbers.append(lines.setdefault(line, len(lines)))
    layout = layouts.setdefault(tuple(numbers), len(layouts))
    before = version - 1
    field_changes = list_changes(spec, before, version) if spec.valid_versions.contains(before) else []
    header = spec.header_version(version) if spec.type in RPC_TYPES else None
    return [
        spec.is_flexible(version),
        header,
        layout,
        [[change.kind, ".".join(change.path), change.text] for change in field_changes],
    ]
