"""The one place where numba's options are chosen: how kernels are compiled, cached and warmed.

* ``@kernel(signature)`` makes an entry point: one explicit signature, compiled once and kept in a cache, the GIL
  released while it runs. Arrays that a kernel only reads are declared with ``BYTES`` or another read-only type: numba
  passes a writable array to it, so that there is one compiled form and not one for each kind of caller.
* ``@device`` makes a function that kernels call; it is compiled into them. ``@inlined`` is one without a call.
* ``warm()`` imports every kernel module, which compiles what the cache lacks.

The cache. Numba's own stamp looks at the one file a kernel stands in; ours call into each other across files, so
each file's folder is named by a digest of it and of **all kernel files that it imports**, near or far. Numba writes
its files under another name and moves them into place, and one signature means one data file for each kernel:
processes that start together (Spark's workers) may compile twice, but never read half a file or another kernel's
code. The folders belong to the user and to nobody else, since what is loaded from them is run; they are in
``$KAFKAFRAMES_CACHE_DIR``, else ``$XDG_CACHE_HOME/kafkaframes``, else ``~/.cache/kafkaframes``, else a private
folder under the system's temporary one.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import njit, types

PACKAGE = Path(__file__).parent.parent
_IMPORT = re.compile(r"^from (kafkaframes[\w.]*) import (.*)$", re.MULTILINE)

# Read-only arrays: numba takes writable ones for these too, not the reverse.
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
INT8S = types.Array(types.int8, 1, "C", readonly=True)
INT32S = types.Array(types.int32, 1, "C", readonly=True)
INT64S = types.Array(types.int64, 1, "C", readonly=True)
TABLE = types.Array(types.int64, 2, "C", readonly=True)
# Arrays that a kernel fills.
OUT_BYTES = types.Array(types.uint8, 1, "C")
OUT_INT8S = types.Array(types.int8, 1, "C")
OUT_INT32S = types.Array(types.int32, 1, "C")
OUT_INT64S = types.Array(types.int64, 1, "C")
OUT_TABLE = types.Array(types.int64, 2, "C")

# Without reference counts: the caller owns every array, and each device call would otherwise count its arrays with
# atomic instructions, which took more than half of the time of index_records (2026-11-21).
_OPTIONS = {"nogil": True, "_nrt": False}
device = njit(**_OPTIONS)
inlined = njit(forceinline=True, **_OPTIONS)  # small ones on a hot path: each array they take is seven words of a call


def kernel(*signatures: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function for ``signatures`` (numba's types), from the cache where it is already there.

    Raises:
        TypeError: (when called) for arguments of other types; there is no silent second compilation.
    """

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        before, folder = numba.config.CACHE_DIR, cache_folder(Path(function.__code__.co_filename))
        numba.config.CACHE_DIR = folder or before  # read while decorating only
        try:
            made: Callable[..., Any] = njit(list(signatures), cache=folder is not None, **_OPTIONS)(function)
        finally:
            numba.config.CACHE_DIR = before
        return made

    return compiled


def kernel_files() -> list[Path]:
    """List every file whose code or numbers end up in a compiled kernel."""
    return sorted([*modules(), *PACKAGE.rglob("layout.py"), *PACKAGE.rglob("reasons.py"), Path(__file__)])


def modules() -> Iterator[Path]:
    """Find the files that hold kernels."""
    return PACKAGE.rglob("_kernels*.py")


def warm() -> list[str]:
    """Import every kernel module, so that all kernels are compiled and cached; return the modules' names."""
    names = ["kafkaframes." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in sorted(modules())]
    for name in names:
        importlib.import_module(name)
    return names


@cache
def cache_folder(path: Path) -> str | None:
    """Return the folder of the kernels of one file, made if need be; ``None`` where there is no safe place for one."""
    digest = hashlib.sha256(numba.__version__.encode())
    for part in sorted(_with_imports(path)):
        digest.update(part.read_bytes())
    for base in _candidates():
        folder = base / f"kernels-{digest.hexdigest()[:16]}"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if _is_ours(folder):
            return str(folder)
    return None


def _with_imports(path: Path) -> set[Path]:
    """Return a kernel file and all kernel files that it imports, directly or through another."""
    known, found, waiting = set(kernel_files()), {path}, [path]
    while waiting:
        for imported in _imported(waiting.pop()) & known - found:
            found.add(imported)
            waiting.append(imported)
    return found


def _imported(path: Path) -> set[Path]:
    """Return the files that the import lines of ``path`` may mean: a module, or names in a package that are modules."""
    files = set()
    for module, names in _IMPORT.findall(path.read_text()):
        place = PACKAGE.joinpath(*module.split(".")[1:])
        files |= {place.with_suffix(".py")} | {place / f"{name.strip()}.py" for name in names.split(",")}
    return files


def _candidates() -> Iterator[Path]:
    if chosen := os.environ.get("KAFKAFRAMES_CACHE_DIR"):
        yield Path(chosen)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        yield Path(shared) / "kafkaframes"
    home = os.path.expanduser("~")
    if home != "~":
        yield Path(home) / ".cache" / "kafkaframes"
    yield Path(tempfile.gettempdir()) / f"kafkaframes-{os.getuid()}"


def _is_ours(folder: Path) -> bool:
    """Tell whether nobody else could have put code into ``folder``, and we can."""
    status = folder.stat()
    private = status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return private and os.access(folder, os.W_OK | os.X_OK)


if __name__ == "__main__":
    print(f"kernels ready: {', '.join(warm())} (in {Path(cache_folder(Path(__file__)) or 'memory').parent})")
