"""Make the protocol guide: the catalog, and specs of a user's own, as data inside one HTML page without a server.

The page is ``template.html`` with the data put in; all that is computed (layouts, sizes, changes) is computed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.guide.wire_pages import wire_pages
from kafkaframes.protocol.spec.model import RPC_TYPES, MessageSpec
from kafkaframes.protocol.spec.render import changes, rows

TEMPLATE = Path(__file__).parent / "template.html"
_SLOT = "/*DATA*/null"


def guide_page(specs: Mapping[str, MessageSpec] = MappingProxyType({})) -> str:
    """Return the guide: every message at every version, what they are made of, and the error codes.

    Args:
        specs: a user's own, by name: in place of the catalog's, and first in the list.
    """
    text = json.dumps(guide_data(specs), ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    return TEMPLATE.read_text(encoding="utf-8").replace(_SLOT, text)


def guide_data(specs: Mapping[str, MessageSpec] = MappingProxyType({})) -> dict[str, Any]:
    """Return what the page shows, compact: layouts and rows are told once and named by number."""
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
    found = changes(spec, before, version) if spec.valid_versions.contains(before) else []
    header = spec.header_version(version) if spec.type in RPC_TYPES else None
    return [spec.is_flexible(version), header, layout, [[one.kind, ".".join(one.path), one.text] for one in found]]
