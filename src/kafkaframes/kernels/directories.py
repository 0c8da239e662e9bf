"""Folders of compiled kernels, the names of their files, and the rules for trusted folders.

Loading a file runs its code.

A *unit* is the compiled kernels of one file, such as ``records._kernels_scan``. A unit's file name contains a digest of
the kernel file and of all kernel files that this file imports, directly or indirectly, because their code is compiled
into the unit. A changed kernel is therefore a different unit, and one folder can contain the units of several versions.

Units are searched in the package itself (wheels contain them), in each folder of ``$KAFKAFRAMES_KERNELS`` (an image, or
an archive of ``kafkaframes kernels pack``) and in the cache: ``$KAFKAFRAMES_CACHE_DIR``, else
``$XDG_CACHE_HOME/kafkaframes``, else ``~/.cache/kafkaframes``, else a private folder in the system's temporary folder.
New units are written to the first cache folder that is trusted and writable.

A folder is trusted if it belongs to this user or to root, and no other user can write to it or replace it.
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

from kafkaframes.errors import OptionError
from kafkaframes.kernels.target import detect_target

PACKAGE_DIRECTORY = Path(__file__).parent.parent
BUNDLED_DIRECTORY: Final = Path(__file__).parent / "compiled"
KERNEL_FOLDER_VARIABLE: Final = "KAFKAFRAMES_KERNELS"
CACHE_FOLDER_VARIABLE: Final = "KAFKAFRAMES_CACHE_DIR"
PLAIN_KERNELS_VARIABLE: Final = "KAFKAFRAMES_PLAIN_KERNELS"
LIBRARY_SUFFIX: Final = ".abi3.so"
# Part of every digest. Increase it after a change of how kernels are compiled or called.
_DIGEST_VERSION: Final = b"2"
_IMPORT_PATTERN: Final = re.compile(r"^from (kafkaframes[\w.]*) import (.*)$", re.MULTILINE)
_MODE_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class UnitFolder:
    """A folder that can contain compiled kernels, and whether it is trusted.

    ``distrust`` is the reason why the folder is not trusted, or empty; ``writable`` is true for cache folders.
    """

    folder: Path
    source: str
    distrust: str | None
    writable: bool


def list_kernel_files() -> Iterator[Path]:
    """Yield the kernel files of the package."""
    return PACKAGE_DIRECTORY.rglob("_kernels*.py")


def is_kernel_source(path: Path) -> bool:
    """Return whether the code or the constants of a file are compiled into the kernels of files that import it."""
    return path.name.startswith("_kernels") or path.name in ("layout.py", "reasons.py", "_jit.py")


def module_name(path: Path) -> str:
    """Return the module name of a kernel file."""
    return "kafkaframes." + ".".join(path.relative_to(PACKAGE_DIRECTORY).with_suffix("").parts)


def module_path(module: str) -> Path:
    """Return the file of a module of this package."""
    return PACKAGE_DIRECTORY.joinpath(*module.split(".")[1:]).with_suffix(".py")


@cache
def digest_sources(path: Path) -> str:
    """Return the digest of a kernel file and its imports, for the target of this machine."""
    digest = hashlib.sha256(_DIGEST_VERSION + detect_target().name.encode())
    for part in sorted(_find_sources(path)):
        digest.update(_read_source(part).encode())
    return digest.hexdigest()[:16]


@cache
def measure_sources(path: Path) -> int:
    """Return the size of all sources that are compiled into the kernels of a file, in characters."""
    return sum(len(_read_source(part)) for part in _find_sources(path))


def file_name(module: str, name: str = "") -> str:
    """Return the file name of a module's compiled kernels. ``name`` distinguishes several files of a module."""
    unit = name or module.removeprefix("kafkaframes.")
    return f"{unit}-{detect_target().name}-{digest_sources(module_path(module))}{LIBRARY_SUFFIX}"


def find_unit(name: str) -> Path | None:
    """Return the path of a unit (a module's compiled kernels) in the first trusted folder that contains it.

    The package's own folder is trusted like the package's sources, even if another user owns it.
    """
    for folder in list_folders():
        path = folder.folder / name
        if (
            folder.distrust is None
            and path.exists()
            and (folder.folder == BUNDLED_DIRECTORY or _explain_distrust(path) is None)
        ):
            return path
    return None


@cache
def list_folders() -> tuple[UnitFolder, ...]:
    """List the folders in which compiled kernels are searched, including those that are not trusted."""
    result = [UnitFolder(BUNDLED_DIRECTORY, "the package", None, False)]
    for path in filter(None, os.environ.get(KERNEL_FOLDER_VARIABLE, "").split(os.pathsep)):
        result.append(_create_folder(Path(path), f"${KERNEL_FOLDER_VARIABLE}", may_create=False))
    for path in filter(None, (folder_of() for folder_of in EXTRA_FOLDER_FUNCTIONS)):
        if os.path.isdir(path):
            result.append(_create_folder(Path(path), "files of the Spark job", may_create=False))
    return (*result, *cache_folders())


def cache_folders() -> Iterator[UnitFolder]:
    """Yield the cache folders up to the first writable one, and create them if they do not exist."""
    for folder, source in _list_cache_paths():
        cache = _create_folder(folder, source, may_create=True)
        yield cache
        if cache.writable:
            return
    yield _create_temporary_cache()


def _list_cache_paths() -> Iterator[tuple[Path, str]]:
    cache_dir, shared = os.environ.get(CACHE_FOLDER_VARIABLE), os.environ.get("XDG_CACHE_HOME")
    home = os.path.expanduser("~")
    if cache_dir:
        yield Path(cache_dir), f"${CACHE_FOLDER_VARIABLE}"
    if shared:
        yield Path(shared) / "kafkaframes", "$XDG_CACHE_HOME"
    if home != "~":
        yield Path(home) / ".cache" / "kafkaframes", "the home directory"


def cache_folder() -> Path | None:
    """Return the folder for newly compiled kernels; None if no folder is both trusted and writable."""
    return next((item.folder for item in list_folders() if item.writable and item.distrust is None), None)


def clear_caches() -> None:
    """Clear the caches of the environment and the disk, which later calls read again; kernels stay loaded."""
    for function in (
        load_unit,
        list_folders,
        digest_sources,
        measure_sources,
        detect_target,
        _create_temporary_cache,
        _read_source,
    ):
        function.cache_clear()


def _create_folder(folder: Path, source: str, *, may_create: bool) -> UnitFolder:
    if may_create:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            return UnitFolder(folder, source, f"cannot be created: {error.strerror}", False)
    distrust = _explain_distrust(folder)
    return UnitFolder(
        folder, source, distrust, may_create and distrust is None and os.access(folder, os.W_OK | os.X_OK)
    )


def _explain_distrust(path: Path) -> str | None:
    """Return why another user could replace the code at ``path``; None if no other user can.

    The parent folders count as well: a user who can rename one of them can replace its content. In a folder with the
    sticky bit, such as ``/tmp``, only the owner of an entry can rename it.
    """
    try:
        path = path.resolve(strict=True)
        status = path.stat()
        parents = [(parent, parent.stat()) for parent in path.parents]
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    trusted_users = (os.getuid(), 0)
    if status.st_uid not in trusted_users:
        return f"belongs to user {status.st_uid}, neither to this user nor to root"
    if status.st_mode & _MODE_WRITABLE_BY_OTHERS:
        return f"other users can write to it (mode {stat.S_IMODE(status.st_mode):04o})"
    for parent, status in parents:
        if status.st_uid not in trusted_users:
            return f"its parent {parent} belongs to user {status.st_uid}"
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            return f"all users can write to its parent {parent}"
    return None


@cache
def _create_temporary_cache() -> UnitFolder:
    """Return this user's folder in the system's temporary folder.

    If another user has created a folder with its name, a folder with a random name is created. Later processes
    recognize this folder by its owner.
    """
    base, name, source = Path(tempfile.gettempdir()), f"kafkaframes-{os.getuid()}", "the temporary folder"
    plain_folder = _create_folder(base / name, source, may_create=True)
    if plain_folder.writable and not plain_folder.folder.is_symlink():
        return plain_folder
    for folder in sorted(base.glob(f"{name}-*")):
        earlier_folder = _create_folder(folder, source, may_create=False)
        if earlier_folder.distrust is None and not folder.is_symlink() and folder.stat().st_uid == os.getuid():
            return UnitFolder(folder, source, None, os.access(folder, os.W_OK | os.X_OK))
    try:
        return _create_folder(Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base)), source, may_create=True)
    except OSError as error:
        return UnitFolder(
            plain_folder.folder, source, plain_folder.distrust or f"cannot be created: {error.strerror}", False
        )


def _find_sources(path: Path) -> set[Path]:
    """Return a kernel file and all kernel files that it imports, directly or indirectly."""
    files, queue = {path}, [path]
    while queue:
        for file in filter(is_kernel_source, _find_imports(queue.pop()) - files):
            if file.is_file():
                files.add(file)
                queue.append(file)
    return files


def _find_imports(path: Path) -> set[Path]:
    """Return the files that a source file may import. An imported name may be a module in a package."""
    files = set()
    for module, names in _IMPORT_PATTERN.findall(_read_source(path)):
        target_path = PACKAGE_DIRECTORY.joinpath(*module.split(".")[1:])
        files |= {target_path.with_suffix(".py")} | {target_path / f"{name.strip()}.py" for name in names.split(",")}
    return files


@cache
def _read_source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# Functions that return further folders of compiled kernels, such as the one with the files of a Spark job. They are
# called in each search, and their folders need the same trust as all other folders.
EXTRA_FOLDER_FUNCTIONS: list[Callable[[], str | None]] = []


UNIT_MODULE: Final = "kafkaframes_unit"  # module name of every library of compiled kernels
_DAY_SECONDS: Final = 86400


def load_kernel(module: str, name: str, unit: str = "") -> Callable[..., Any] | None:
    """Return a compiled kernel of a module, or of the library named ``unit``; None if it is not compiled."""
    return load_unit(module, unit).get(name)


@cache
def requires_plain() -> bool:
    """Return whether kernels run as plain Python although they are compiled, for a debugger.

    Raises:
        OptionError: the environment variable has an unknown value.
    """
    value = os.environ.get(PLAIN_KERNELS_VARIABLE, "")
    if value not in ("", "0", "1"):
        raise OptionError(f"{PLAIN_KERNELS_VARIABLE} is {value!r}; it must be 1 (run kernels as plain Python) or 0")
    return value == "1"


@cache
def load_unit(module: str, unit: str = "") -> dict[str, Callable[..., Any]]:
    """Return a module's compiled kernels by name; empty if they do not exist, or kernels run as plain Python."""
    if requires_plain():
        return {}
    try:
        path = find_unit(file_name(module, unit))
    except OSError:  # the package is in an archive, so that its sources are not files and have no digest
        return {}
    return {} if path is None else open_library(path)


def _mark_used(path: Path) -> None:
    """Update the modification time of a used library in the cache, at most once a day and only if it is writable."""
    with contextlib.suppress(OSError):
        if path.parent != BUNDLED_DIRECTORY and time.time() - path.stat().st_mtime > _DAY_SECONDS:
            os.utime(path)


def open_library(path: Path) -> dict[str, Callable[..., Any]]:
    """Load a library of compiled kernels; return an empty result if this system cannot load it (other C library)."""
    loader = importlib.machinery.ExtensionFileLoader(UNIT_MODULE, str(path))
    spec = importlib.util.spec_from_loader(UNIT_MODULE, loader)
    try:
        module = loader.create_module(spec)  # type: ignore[arg-type]
        loader.exec_module(module)
    except ImportError:
        return {}
    _mark_used(path)
    return dict(module.KERNELS)
