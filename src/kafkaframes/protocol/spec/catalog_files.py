"""Write the catalog's files from the message specs of Kafka releases."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kafkaframes.protocol.spec.catalog.importing import import_catalog
from kafkaframes.protocol.spec.sources import read_published


class CatalogChanges(NamedTuple):
    """The changes that an import of specs made to the catalog's files.

    Attributes:
        messages: number of messages in the catalog.
        changed: names of the files that were written or, with ``check``, would be written.
        surplus: names of the files of an earlier import that were removed or, with ``check``, would be removed.
    """

    messages: int
    changed: tuple[str, ...]
    surplus: tuple[str, ...]


def write_catalog_files(
    paths: Sequence[str | os.PathLike[str]], to: str | os.PathLike[str], *, check: bool
) -> CatalogChanges:
    """Import the specs of releases into a folder. With ``check``, only compare the files."""
    folder = Path(to)
    texts = import_catalog(file for origin in paths for file in read_published(origin))
    changed_files = [name for name, text in texts.items() if _read(folder / name) != text]
    surplus = [folder / name for name in _list_files(folder) if name not in texts]
    if not check:
        _write_catalog(folder, {name: texts[name] for name in changed_files}, surplus)
    messages = len(json.loads(texts["index.json"])["messages"])
    return CatalogChanges(messages, tuple(changed_files), tuple(path.name for path in surplus))


def _list_files(folder: Path) -> list[str]:
    """Return the existing files that an earlier import wrote here, according to its index."""
    index = _read(folder / "index.json")
    names = [f"{name}.json" for name in json.loads(index)["messages"]] if index else []
    return [name for name in names if (folder / name).is_file()]


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _write_catalog(folder: Path, texts: dict[str, str], surplus: list[Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    for path in surplus:
        path.unlink()
