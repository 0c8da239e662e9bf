"""Compile what a process asks for and does not find: once on a machine, on all its cores, in a line on stderr.

The first call of a kernel that is not ready compiles the kernels of every module that has been imported so far, which
are those of the command at hand. One process at a time compiles (a lock in the cache folder); others wait for it and
then find its work. The compiling itself is done by processes of its own (``workers.py``), which import this file too.

With a C compiler the result is a library for each module, as in a wheel. Without one it is numba's own cache: the same
kernels, but numba has to be imported to load them. Without numba, nothing is compiled: kernels run as plain Python.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from kafkaframes.errors import KafkaframesError
from kafkaframes.kernels import directories, workers
from kafkaframes.kernels.deferred import DECLARED, OPTIONS, Kernel, real, rehomed
from kafkaframes.kernels.target import target

LONGEST_WAIT_SECONDS: Final = 900
_LOCK: Final = "compiling.lock"

is_quiet = False  # set by a command that shows no progress


def ready_or_compiled(kernel: Kernel) -> Callable[..., Any]:
    """Return what runs a kernel, compiling it and what else the imported modules lack."""
    module = kernel.__module__
    forget()
    if run := directories.entry(module, kernel.__name__):
        return run
    if not workers.has_numba():
        return without_library(kernel)
    folder = directories.cache_folder()
    if folder is None or not sys.executable:
        tell(f"compiling {kernel.__name__}, for this process only: no folder for kernels (kafkaframes kernels status)")
        return by_numba(kernel)
    try:
        make([name for name in DECLARED if not is_compiled(name)], folder=folder, say=tell)
    except KafkaframesError as error:
        tell(str(error))
    return directories.entry(module, kernel.__name__) or without_library(kernel)


def without_library(kernel: Kernel) -> Callable[..., Any]:
    """Return what runs a kernel that is in no library: numba's, or, without numba, plain Python, said once."""
    if workers.has_numba():
        return by_numba(kernel)
    from kafkaframes.kernels import plain  # numpy, which a command's help can do without

    _say_that_it_is_slow()
    return plain.run(kernel)


@cache
def _say_that_it_is_slow() -> None:
    tell(
        "no compiled kernels for this machine and no numba to compile them: they run as plain Python, "
        f"several hundred times slower; {workers.HOW_TO_GET_NUMBA}"
    )


def make(
    modules: Sequence[str],
    *,
    folder: Path,
    say: Callable[[str], None],
    done: Callable[[workers.Job], None] = lambda job: None,
) -> None:
    """Compile the kernels of ``modules`` into ``folder``, except those that another process has compiled by then."""
    with alone(folder, say):
        forget()
        missing = [name for name in modules if not is_compiled(name)]
        if missing:
            count = min(workers.cores(), len(missing))
            names = ", ".join(name.removeprefix("kafkaframes.").replace("._kernels", "") for name in missing)
            say(f"compiling kernels, once for this version, in {count} process(es): {names}")
            jobs = [("kafkaframes.kernels.demand:unit", name, str(folder)) for name in by_weight(missing)]
            workers.run(jobs, done=done)
            forget()


def is_compiled(module: str) -> bool:
    """Tell whether all kernels of a module are there, as a library or in numba's cache."""
    return directories.find(directories.file_name(module)) is not None or _is_in_numba_cache(module)


def _is_in_numba_cache(module: str) -> bool:
    folder = numba_folder(module)
    return folder is not None and (folder / complete()).exists()


def complete() -> str:
    """Return the name of the file that says that numba's cache holds all kernels of a module, for this Python."""
    return f"complete-{sys.implementation.cache_tag}-numba-{importlib.metadata.version('numba')}"


def numba_folder(module: str) -> Path | None:
    """Return numba's cache for the kernels of a module; ``None`` without a folder to be trusted, or without numba."""
    base = directories.cache_folder() if workers.has_numba() else None
    return None if base is None else base / numba_name(module)


def numba_name(module: str) -> str:
    """Return the name of the folder of numba's cache for the kernels of a module."""
    path = directories.path_of(module)  # numba finds nothing that a source elsewhere, or of another time, has left
    seen = f"{directories.digest_of(path)} {path} {path.stat().st_mtime_ns}"
    return f"numba-{hashlib.sha256(seen.encode()).hexdigest()[:16]}"


def by_numba(kernel: Kernel) -> Callable[..., Any]:
    """Return a kernel compiled by numba, from its cache where it is there."""
    import numba

    before, folder = numba.config.CACHE_DIR, numba_folder(kernel.__module__)
    if folder is not None:
        folder.mkdir(mode=0o700, exist_ok=True)
        numba.config.CACHE_DIR = str(folder)  # read while decorating only
    try:
        signatures = [real(signature) for signature in kernel.signatures]
        made: Callable[..., Any] = numba.njit(signatures, cache=folder is not None, **OPTIONS)(rehomed(kernel.py_func))
    finally:
        numba.config.CACHE_DIR = before
    return made


@contextmanager
def alone(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a cache folder; after a quarter of an hour go on without it, for its holder hangs."""
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _locked(descriptor):
            say("waiting for another process that compiles kernels")
            end = time.monotonic() + LONGEST_WAIT_SECONDS
            while not _locked(descriptor) and time.monotonic() < end:
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def by_weight(modules: Sequence[str]) -> list[str]:
    """Order modules by the size of what is compiled into them, the largest first: so that no core is left waiting."""
    return sorted(modules, key=lambda name: -directories.weight(directories.path_of(name)))


def forget() -> None:
    """Look for compiled kernels anew."""
    directories.forget()
    compiler.cache_clear()


def tell(text: str) -> None:
    """Say what a user waits for, on stderr: commands write their results to stdout."""
    if not is_quiet:
        print(f"kafkaframes: {text}", file=sys.stderr, flush=True)


# ------------------------------------------------------------ what such a process does


def unit(module: str, folder: str) -> None:
    """Compile the kernels of a module into ``folder``."""
    importlib.import_module(module)
    write(DECLARED.get(module, ()), directories.file_name(module), Path(folder))


def write(kernels: Sequence[Kernel], name: str, folder: Path) -> None:
    """Compile some kernels as the library ``name`` in ``folder``; without a C compiler, into numba's cache."""
    if not kernels:
        return
    try:
        compiler()
    except LinkError:
        for kernel in kernels:
            by_numba(kernel)
        if name == directories.file_name(kernels[0].__module__):
            (folder / numba_name(kernels[0].__module__) / complete()).touch()
        return
    from kafkaframes.kernels import objects

    object_file, entries = objects.compile_object(kernels)
    link(object_file, objects.header(entries), folder / name)


# ------------------------------------------------------- from an object to a library

COMPILER_VARIABLE: Final = "KAFKAFRAMES_CC"
_GLUE: Final = Path(__file__).with_name("glue.c")
_COMPILE: Final = ("-c", "-fPIC", "-O2", "-std=c11", "-ffreestanding", "-fvisibility=hidden")
# No library is named: what the kernels call (memcpy and its like, and Python) is in the process already.
_FOR_LINUX: Final = ("-nostdlib", "-Wl,-z,relro,-z,now,-z,noexecstack", "-Wl,--build-id=none")
_FOR_MACOS: Final = ("-undefined", "dynamic_lookup", "-Wl,-install_name,unit.so")


class LinkError(Exception):
    """There is no C compiler, or it failed."""


@cache
def compiler() -> tuple[str, ...]:
    """Return the command of the C compiler for this target.

    Raises:
        LinkError: there is none.
    """
    command = shlex.split(os.environ.get(COMPILER_VARIABLE, "cc"))
    if not target().triple:
        raise LinkError("this processor is not one that kernels are compiled ahead for")
    if shutil.which(command[0]) is None:
        raise LinkError(f"no C compiler ({command[0]}) was found")
    return tuple(command)


def link(object_file: bytes, header: str, to: Path) -> None:
    """Write the library of one object to ``to``; nobody ever sees half of it.

    Raises:
        LinkError: see ``compiler``, or the compiler failed; the message has its last line.
    """
    with tempfile.TemporaryDirectory(prefix="kafkaframes-") as folder:
        build = Path(folder)
        (build / "unit.h").write_text(header)
        (build / "unit.o").write_bytes(object_file)
        made = build / "unit.so"
        glue = str(build / "glue.o")
        _run([*compiler(), *_COMPILE, f"-I{build}", str(_GLUE), "-o", glue])
        options = _FOR_MACOS if target().is_macos else _FOR_LINUX
        _run([*compiler(), "-shared", "-s", *options, glue, str(build / "unit.o"), "-o", str(made)])
        copy = to.with_name(f".{to.name}.{os.getpid()}")
        shutil.copyfile(made, copy)
        copy.chmod(0o644)
        copy.replace(to)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LinkError(f"{command[0]} failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")


# ------------------------------------------------------- what there is

_ENTRY: Final = re.compile(r"^@kernel\(", re.MULTILINE)
_UNIT_FILE: Final = re.compile(r"[^-]+-[a-z0-9-]+(?<=[a-z0-9-]-[0-9a-f]{16})\.abi3\.so|numba-[0-9a-f]{16}")
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
    if file is None and is_compiled(module):
        return numba_folder(module)
    return file


def old_files(folder: Path) -> Iterator[Path]:
    """Give what nothing has used for a month in a folder of the cache: units of earlier versions.

    A process that loads a unit of its own cache marks it as used (``touch``), at most once a day.
    """
    before = time.time() - UNUSED_SECONDS
    for path in folder.iterdir():
        if _UNIT_FILE.fullmatch(path.name) and path.stat().st_mtime < before:
            yield path
