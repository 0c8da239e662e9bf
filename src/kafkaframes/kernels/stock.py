"""Which kernels there are, and where each of them lies compiled."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkaframes.kernels import demand
from kafkaframes.kernels import directories as directories

_ENTRY: Final = re.compile(r"^@kernel\(", re.MULTILINE)
_UNIT_FILE: Final = re.compile(r"(?P<name>.+)-[a-z0-9-]+-(?P<digest>[0-9a-f]{16})\.abi3\.so|numba-[0-9a-f]{16}")
UNUSED_SECONDS: Final = 30 * 86400


@dataclass(frozen=True, slots=True)
class Unit:
    """The kernels of one module: the file that holds them, or ``None`` where they would have to be compiled."""

    module: str
    file: Path | None


def modules() -> list[str]:
    """List the modules that have entry points."""
    paths = sorted(directories.modules())
    return [directories.module_name(path) for path in paths if _ENTRY.search(path.read_text(encoding="utf-8"))]


def units() -> list[Unit]:
    """List all units, and where each one is."""
    return [Unit(module, _file_of(module)) for module in modules()]


def _file_of(module: str) -> Path | None:
    file = directories.find(directories.file_name(module))
    if file is None and demand.is_compiled(module):
        return demand.numba_folder(module)
    return file


def old_files(folder: Path) -> Iterator[Path]:
    """Give what nothing has used for a month in a folder of the cache: units of earlier versions.

    A process that loads a unit of its own cache marks it as used (``touch``), at most once a day.
    """
    before = time.time() - UNUSED_SECONDS
    for path in folder.iterdir():
        if _UNIT_FILE.fullmatch(path.name) and path.stat().st_mtime < before:
            yield path
