"""Compile what a process asks for and does not find: once on a machine, on all its cores, in a line on stderr.

The first call of a kernel that is not ready compiles the kernels of every module that has been imported so far, which
are those of the command at hand. One process at a time compiles (a lock in the cache folder); others wait for it and
then find its work. The compiling itself is done by processes of its own (``workers.py``).

With a C compiler the result is a library for each module, as in a wheel. Without one it is numba's own cache: the same
kernels, but numba has to be imported to load them. Without numba, nothing is compiled: kernels run as plain Python.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from kafkaframes.errors import KafkaframesError
from kafkaframes.kernels import directories as directories
from kafkaframes.kernels import link, ready, workers
from kafkaframes.kernels.deferred import DECLARED, OPTIONS, Kernel, real, rehomed

LONGEST_WAIT_SECONDS: Final = 900
_LOCK: Final = "compiling.lock"

is_quiet = False  # set by a command that shows no progress


def ready_or_compiled(kernel: Kernel) -> Callable[..., Any]:
    """Return what runs a kernel, compiling it and what else the imported modules lack."""
    module = kernel.__module__
    forget()
    if run := ready.entry(module, kernel.__name__):
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
    return ready.entry(module, kernel.__name__) or without_library(kernel)


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
            jobs = [("kafkaframes.kernels.build:unit", name, str(folder)) for name in by_weight(missing)]
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
    return f"numba-{directories.digest_of(directories.path_of(module))}"


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
    ready.forget()
    link.compiler.cache_clear()


def tell(text: str) -> None:
    """Say what a user waits for, on stderr: commands write their results to stdout."""
    if not is_quiet:
        print(f"kafkaframes: {text}", file=sys.stderr, flush=True)
