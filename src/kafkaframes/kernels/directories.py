"""Where compiled kernels lie, under which names, and which folders are trusted: what is loaded from one is run.

A *unit* is the kernels of one file, ``records._kernels_scan``. It is known by a digest of that file and of all
kernel files that it imports, near or far, whose code is compiled into it; so a changed kernel is another unit, and
units of several versions may lie in one folder.

Units are looked for in the package itself (a wheel brings them), in each folder of ``$KAFKAFRAMES_KERNELS`` (an
image, or an archive that ``kafkaframes kernels pack`` made) and in the cache: ``$KAFKAFRAMES_CACHE_DIR``, else
``$XDG_CACHE_HOME/kafkaframes``, else ``~/.cache/kafkaframes``, else a folder of this user's under the system's
temporary one. What is compiled is written to the first of the caches that can be trusted and written.

Trusted is a folder that belongs to this user or to root, and that nobody else can write to, nor replace.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from kafkaframes.kernels.target import target

PACKAGE = Path(__file__).parent.parent
BUNDLED: Final = Path(__file__).parent / "compiled"
READ_VARIABLE: Final = "KAFKAFRAMES_KERNELS"
CACHE_VARIABLE: Final = "KAFKAFRAMES_CACHE_DIR"
SUFFIX: Final = ".abi3.so"
# Part of every digest: raise it when the way kernels are compiled changes their code or how they are called.
_EDITION: Final = b"2"
_IMPORT: Final = re.compile(r"^from (kafkaframes[\w.]*) import (.*)$", re.MULTILINE)
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that may hold units: ``refused`` says why nothing is loaded from it, ``writable`` whether we may add."""

    folder: Path
    source: str
    refused: str | None
    writable: bool


def modules() -> Iterator[Path]:
    """Find the files that hold kernels."""
    return PACKAGE.rglob("_kernels*.py")


def goes_into_kernels(path: Path) -> bool:
    """Tell whether a file's code or numbers end up in compiled kernels of files that import it."""
    return path.name.startswith("_kernels") or path.name in ("layout.py", "reasons.py", "_jit.py")


def module_name(path: Path) -> str:
    """Return the name by which a kernel file is imported."""
    return "kafkaframes." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def path_of(module: str) -> Path:
    """Return the file of a module of this package."""
    return PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")


@cache
def digest_of(path: Path) -> str:
    """Return the digest that a kernel file's unit is known by, for the target of this machine."""
    digest = hashlib.sha256(_EDITION + target().name.encode())
    for part in sorted(_with_imports(path)):
        digest.update(_text(part).encode())
    return digest.hexdigest()[:16]


@cache
def weight(path: Path) -> int:
    """Return the size of all the sources that are compiled into the kernels of a file, in characters."""
    return sum(len(_text(part)) for part in _with_imports(path))


def file_name(module: str, name: str = "") -> str:
    """Return the file name of a module's unit, or of another unit (``name``) that its kernels are compiled into."""
    unit = name or module.removeprefix("kafkaframes.")
    return f"{unit}-{target().name}-{digest_of(path_of(module))}{SUFFIX}"


def find(name: str) -> Path | None:
    """Return where a unit's file lies, in the first place that has it and is trusted.

    The package's own folder is trusted as the package's sources are, no matter whose they are.
    """
    for folder in folders():
        path = folder.folder / name
        if folder.refused is None and path.exists() and (folder.folder == BUNDLED or _refusal(path) is None):
            return path
    return None


@cache
def folders() -> tuple[Folder, ...]:
    """List where units are looked for, refused places too, so that ``status`` and ``doctor`` can name them."""
    listed = [Folder(BUNDLED, "the package", None, False)]
    for folder in filter(None, os.environ.get(READ_VARIABLE, "").split(os.pathsep)):
        listed.append(_folder(Path(folder), f"${READ_VARIABLE}", make=False))
    for offered in filter(None, (offer() for offer in OFFERS)):
        if os.path.isdir(offered):
            listed.append(_folder(Path(offered), "what Spark was sent along", make=False))
    return (*listed, *caches())


def caches() -> Iterator[Folder]:
    """Give the folders of the cache, up to the first that can be written; each is made if need be."""
    for folder, source in _bases():
        cache = _folder(folder, source, make=True)
        yield cache
        if cache.writable:
            return
    yield _temporary()


def _bases() -> Iterator[tuple[Path, str]]:
    chosen, shared, home = os.environ.get(CACHE_VARIABLE), os.environ.get("XDG_CACHE_HOME"), os.path.expanduser("~")
    if chosen:
        yield Path(chosen), f"${CACHE_VARIABLE}"
    if shared:
        yield Path(shared) / "kafkaframes", "$XDG_CACHE_HOME"
    if home != "~":
        yield Path(home) / ".cache" / "kafkaframes", "the home directory"


def cache_folder() -> Path | None:
    """Return the folder that new units are written to; ``None`` where none is both trusted and writable."""
    return next((known.folder for known in folders() if known.writable and known.refused is None), None)


def forget() -> None:
    """Look at the environment and the disk anew at the next question; kernels that are loaded stay."""
    for function in (load, folders, digest_of, weight, target, _temporary, _text):
        function.cache_clear()


def _folder(folder: Path, source: str, *, make: bool) -> Folder:
    if make:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            return Folder(folder, source, f"cannot be made: {error.strerror}", False)
    refused = _refusal(folder)
    return Folder(folder, source, refused, make and refused is None and os.access(folder, os.W_OK | os.X_OK))


def _refusal(path: Path) -> str | None:
    """Say why others could put code at ``path``, or ``None`` if they cannot.

    The folders above count too: who may rename one of them can put another in its place. In a folder with the sticky
    bit (``/tmp``) only the owner of an entry may.
    """
    try:
        path = path.resolve(strict=True)
        status = path.stat()
        above = [(parent, parent.stat()) for parent in path.parents]
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    ours = (os.getuid(), 0)
    if status.st_uid not in ours:
        return f"belongs to user {status.st_uid}, neither to this user nor to root"
    if status.st_mode & _OTHERS:
        return f"others than its owner may write to it (mode {stat.S_IMODE(status.st_mode):04o})"
    for parent, status in above:
        if status.st_uid not in ours:
            return f"{parent} above it belongs to user {status.st_uid}"
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            return f"anybody may write to {parent} above it"
    return None


@cache
def _temporary() -> Folder:
    """Return this user's folder under the system's temporary one.

    Somebody else may have made one of that name before us: then one with a random name, made by us, which later
    processes find by its owner.
    """
    base, name, source = Path(tempfile.gettempdir()), f"kafkaframes-{os.getuid()}", "the temporary folder"
    plain = _folder(base / name, source, make=True)
    if plain.writable and not plain.folder.is_symlink():
        return plain
    for folder in sorted(base.glob(f"{name}-*")):
        earlier = _folder(folder, source, make=False)
        if earlier.refused is None and not folder.is_symlink() and folder.stat().st_uid == os.getuid():
            return Folder(folder, source, None, os.access(folder, os.W_OK | os.X_OK))
    try:
        return _folder(Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base)), source, make=True)
    except OSError as error:
        return Folder(plain.folder, source, plain.refused or f"cannot be made: {error.strerror}", False)


def _with_imports(path: Path) -> set[Path]:
    """Return a kernel file and all kernel files that it imports, directly or through another."""
    files, waiting = {path}, [path]
    while waiting:
        for imported in filter(goes_into_kernels, _imported(waiting.pop()) - files):
            if imported.is_file():
                files.add(imported)
                waiting.append(imported)
    return files


def _imported(path: Path) -> set[Path]:
    """Return the files that the import lines of ``path`` may mean: a module, or names in a package that are modules."""
    files = set()
    for module, names in _IMPORT.findall(_text(path)):
        imported = PACKAGE.joinpath(*module.split(".")[1:])
        files |= {imported.with_suffix(".py")} | {imported / f"{name.strip()}.py" for name in names.split(",")}
    return files


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# Other packages name folders with compiled kernels here: Spark's, what a job was sent. Each function is called whenever
# kernels are looked for, and its folder is trusted no more than any other.
OFFERS: list[Callable[[], str | None]] = []


MODULE: Final = "kafkaframes_unit"  # the name under which every unit's library is initialised
_DAY_SECONDS: Final = 86400


def entry(module: str, name: str, unit: str = "") -> Callable[..., Any] | None:
    """Return a kernel of a module's unit (or of the unit named ``unit``), or ``None`` where it is not compiled."""
    return load(module, unit).get(name)


@cache
def load(module: str, unit: str = "") -> dict[str, Callable[..., Any]]:
    """Return the kernels of a unit by name; none where the unit is not found."""
    try:
        path = find(file_name(module, unit))
    except OSError:  # the package stands in an archive: its sources have no files, nor has a unit a digest
        return {}
    return {} if path is None else open_library(path)


def _mark(path: Path) -> None:
    """Note that a unit of the cache is in use, at most once a day; a read-only one stays as it is."""
    with contextlib.suppress(OSError):
        if path.parent != BUNDLED and time.time() - path.stat().st_mtime > _DAY_SECONDS:
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
