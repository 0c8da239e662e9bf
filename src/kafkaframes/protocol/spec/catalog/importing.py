"""Build the catalog from the specs of Kafka releases, without descriptions and with every version from 0 on.

The functions take published spec files and return the catalog's files; they do no I/O. Each version has the layout of
the newest release that supports the version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec.catalog import ledgers
from kafkaframes.protocol.spec.emit import to_json, to_text
from kafkaframes.protocol.spec.load import PUBLISHED_DIALECT, load_message
from kafkaframes.protocol.spec.merge import merge_older
from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec, StructSpec

_NUMBER_PATTERN = re.compile(r"\d+")
# Version 0 of this record has two layouts: that of 3.9, and that of 4.0's early access, which 4.1 dropped. The catalog
# contains only the layout of 3.9, because upgrades start at 3.9.
_LAYOUT_RELEASE_BY_MESSAGE = {"ShareGroupPartitionMetadataValue": "3.9"}


@dataclass(frozen=True, slots=True)
class PublishedSpec:
    """One spec file of a release; ``module`` is the name of its jar (``kafka-metadata``)."""

    release: str
    module: str
    file: str
    text: bytes


@dataclass(slots=True)
class _CatalogEntry:
    """A message in the catalog: its merged spec, the newest release that contains it, and its jar."""

    spec: MessageSpec
    release: str
    module: str
    current: str


def import_catalog(spec_files: Iterable[PublishedSpec]) -> dict[str, str]:
    """Return the catalog's files by name: one per message, ``index.json``, and the ledgers of tags and names.

    Raises:
        SpecError: a file is not a spec, or the versions of two releases do not fit into one spec.
    """
    files = sorted(spec_files, key=lambda file: (release_order(file.release), file.file), reverse=True)
    if not files:
        raise SpecError("found no message spec in the files; expected JSON files of Kafka's message definitions")
    newest = files[0].release
    entries: dict[str, _CatalogEntry] = {}
    releases: list[tuple[str, MessageSpec]] = []
    for file in files:
        spec = _remove_texts(
            load_message(file.text, file=f"{file.release}/{file.module}/{file.file}", dialect=PUBLISHED_DIALECT)
        )
        releases.append((file.release, spec))
        release = _LAYOUT_RELEASE_BY_MESSAGE.get(spec.name)
        if release is None or file.release.startswith(release):
            _add_entry(entries, file, spec, newest)
    out = {f"{name}.json": to_text(entry.spec) for name, entry in entries.items()}
    out["index.json"] = _make_index(newest, entries)
    out[ledgers.TAGS_FILE] = ledgers.format_ledger(ledgers.make_tags_ledger(reversed(releases)))
    specs = {name: entry.spec for name, entry in entries.items()}
    out[ledgers.NAMES_FILE] = ledgers.format_ledger(ledgers.make_names_ledger(reversed(releases), specs))
    return dict(sorted(out.items()))


def release_order(release: str) -> tuple[int, ...]:
    """Return a sort key for release numbers: ``3.10.0`` is after ``3.9.1``."""
    return tuple(map(int, _NUMBER_PATTERN.findall(release)))


def _add_entry(entries: dict[str, _CatalogEntry], file: PublishedSpec, spec: MessageSpec, newest: str) -> None:
    entry = entries.get(spec.name)
    if entry is None:
        current = str(spec.valid_versions) if file.release == newest else "none"
        entries[spec.name] = _CatalogEntry(spec, file.release, file.module, current)
    elif entry.spec.type == spec.type:  # up to 4.0, coordinator records had the type data
        if entry.spec.is_removed and not spec.is_removed:
            entry.release = file.release
        entry.spec = merge_older(entry.spec, spec)


def _remove_texts(spec: MessageSpec) -> MessageSpec:
    """Return a spec without its ``about`` texts."""
    structs = {name: _remove_struct_texts(struct) for name, struct in spec.structs.items()}
    return replace(spec, struct=_remove_struct_texts(spec.struct), structs=structs)


def _remove_struct_texts(struct: StructSpec) -> StructSpec:
    def bare(field: FieldSpec) -> FieldSpec:
        return replace(field, about="", written_default="")

    return replace(struct, fields=tuple(map(bare, struct.fields)))


def _make_index(newest: str, entries: dict[str, _CatalogEntry]) -> str:
    rows = {name: _make_row(entry) for name, entry in sorted(entries.items())}
    lines = [f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()]
    body = ",\n".join(lines)
    return f'{{\n  "newestRelease": {json.dumps(newest)},\n  "messages": {{\n{body}\n  }}\n}}\n'


def _make_row(entry: _CatalogEntry) -> dict[str, Any]:
    row = {key: value for key, value in to_json(entry.spec).items() if key not in ("fields", "commonStructs", "name")}
    return {**row, "module": entry.module, "lastRelease": entry.release, "currentVersions": entry.current}
