"""Make the protocol guide: the catalog as data inside one HTML page that needs no network and no server.

The page is ``template.html`` with the data put in; all that is computed (layouts, sizes, changes) is computed here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.model import RPC_TYPES, MessageSpec
from kafkaframes.protocol.spec.render import changes, rows

TEMPLATE = Path(__file__).parent / "template.html"
_SLOT = "/*DATA*/null"


def guide_page() -> str:
    """Return the guide: every message of the catalog at every version, and the error codes."""
    text = json.dumps(guide_data(), ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    return TEMPLATE.read_text(encoding="utf-8").replace(_SLOT, text)


def guide_data() -> dict[str, Any]:
    """Return what the page shows, compact: layouts and rows are told once and named by number."""
    layouts: dict[tuple[int, ...], int] = {}
    lines: dict[tuple[Any, ...], int] = {}
    messages = [_message(catalog.load(name), layouts, lines) for name in catalog.names()]
    return {
        "release": catalog.newest_release(),
        "messages": messages,
        "layouts": [list(layout) for layout in layouts],
        "rows": [list(line) for line in lines],
        "errors": [[int(code), code.name, code.is_retriable, code.message] for code in ErrorCode],
        "fields": catalog.field_words(),
    }


def _message(
    spec: MessageSpec, layouts: dict[tuple[int, ...], int], lines: dict[tuple[Any, ...], int]
) -> dict[str, Any]:
    entry = catalog.entry(spec.name)
    versions = [_version(spec, version, layouts, lines) for version in spec.valid_versions]
    return {
        "name": spec.name,
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
