"""Load units that are compiled: shared libraries that need Python and numpy only, and no numba.

``glue.c`` is the part of such a library that Python calls: it takes numpy arrays and numbers, checks them against the
kernel's signature and calls the machine code without the GIL.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

from kafkaframes.kernels import directories as directories

MODULE: Final = "kafkaframes_unit"  # the name under which every unit's library is initialised
_DAY_SECONDS: Final = 86400


def entry(module: str, name: str, unit: str = "") -> Callable[..., Any] | None:
    """Return a kernel of a module's unit (or of the unit named ``unit``), or ``None`` where it is not compiled."""
    return load(module, unit).get(name)


@cache
def load(module: str, unit: str = "") -> dict[str, Callable[..., Any]]:
    """Return the kernels of a unit by name; none where the unit is not found."""
    try:
        path = directories.find(directories.file_name(module, unit))
    except OSError:  # the package stands in an archive: its sources have no files, nor has a unit a digest
        return {}
    return {} if path is None else open_library(path)


def _mark(path: Path) -> None:
    """Note that a unit of the cache is in use, at most once a day; a read-only one stays as it is."""
    with contextlib.suppress(OSError):
        if path.parent != directories.BUNDLED and time.time() - path.stat().st_mtime > _DAY_SECONDS:
            os.utime(path)


def open_library(path: Path) -> dict[str, Callable[..., Any]]:
    """Load a unit's library; none of its kernels where this system cannot load it (another C library, say)."""
    loader = importlib.machinery.ExtensionFileLoader(MODULE, str(path))
    spec = importlib.util.spec_from_loader(MODULE, loader)
    try:
        made = loader.create_module(spec)  # type: ignore[arg-type]
        loader.exec_module(made)
    except ImportError:
        return {}
    _mark(path)
    return dict(made.KERNELS)


def forget() -> None:
    """Look for units anew at the next question."""
    load.cache_clear()
    directories.forget()
