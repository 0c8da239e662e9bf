"""Compilation of kernels on demand, once per machine, on all cores.

The first call of a kernel that is not compiled compiles the kernels of all modules that are imported so far, which are
those that the running command uses. Only one process compiles at a time: a lock in the cache folder makes other
processes wait, and they then load the result. The compilation runs in worker processes (``workers.py``), which import
this module, too.

With a C compiler, the result is one library per module, as in a wheel. Without a C compiler, the result is in numba's
own cache, and numba must be imported to load the kernels. Without numba, kernels run as plain Python.
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
from kafkaframes.kernels.deferred import COMPILE_OPTIONS, KERNELS_BY_MODULE, Kernel, copy_function, resolve
from kafkaframes.kernels.target import detect_target

MAX_LOCK_WAIT_SECONDS: Final = 900
_LOCK_FILE: Final = "compiling.lock"

is_quiet = False  # True while a command without progress messages runs


def load_or_compile(kernel: Kernel) -> Callable[..., Any]:
    """Return the function that runs a kernel; if necessary, compile all kernels of the imported modules first."""
    module = kernel.__module__
    clear_caches()
    if run := directories.load_kernel(module, kernel.__name__):
        return run
    if not _can_compile():
        return load_without_library(kernel)
    folder = directories.cache_folder()
    if folder is None or not sys.executable:
        print_progress(
            f"compiling {kernel.__name__} for this process only: no cache folder; see `kafkaframes kernels status`"
        )
        return compile_with_numba(kernel)
    try:
        missing = [name for name in KERNELS_BY_MODULE if not is_compiled(name)]
        compile_modules(missing, folder=folder, report=print_progress)
    except KafkaframesError as error:
        print_progress(str(error))
    return directories.load_kernel(module, kernel.__name__) or load_without_library(kernel)


def _can_compile() -> bool:
    return not directories.requires_plain() and workers.has_numba()


def load_without_library(kernel: Kernel) -> Callable[..., Any]:
    """Return the function that runs a kernel without a library: compiled by numba, or plain Python with a warning."""
    if _can_compile():
        return compile_with_numba(kernel)
    # Imported here, because it imports numpy, which the help of a command does not need.
    from kafkaframes.kernels import plain

    _warn_about_plain_python()
    return plain.create_plain_kernel(kernel)


@cache
def _warn_about_plain_python() -> None:
    if directories.requires_plain():
        print_progress(
            f"kernels run as plain Python, several hundred times slower: {directories.PLAIN_KERNELS_VARIABLE} is 1"
        )
        return
    print_progress(
        "kernels are not compiled for this machine, and numba is not installed to compile them; they run as plain "
        f"Python, several hundred times slower: {workers.NUMBA_INSTALL_COMMAND}"
    )


def compile_modules(
    modules: Sequence[str],
    *,
    folder: Path,
    report: Callable[[str], None],
    on_done: Callable[[workers.Job], None] = lambda job: None,
) -> None:
    """Compile the kernels of modules into a folder, except those that another process has compiled in the meantime.

    Args:
        modules: names of kernel modules.
        folder: a folder of the cache.
        report: called with progress messages.
        on_done: called after each job.
    """
    with hold_cache_lock(folder, report):
        clear_caches()
        missing = [name for name in modules if not is_compiled(name)]
        if missing:
            count = min(workers.count_cores(), len(missing))
            names = ", ".join(name.removeprefix("kafkaframes.").replace("._kernels", "") for name in missing)
            report(f"compiling kernels, once for this version, in {count} process(es): {names}")
            jobs = [("kafkaframes.kernels.demand:compile_module", name, str(folder)) for name in sort_by_size(missing)]
            workers.run_jobs(jobs, on_done=on_done)
            clear_caches()


def is_compiled(module: str) -> bool:
    """Return whether all kernels of a module are compiled, in a library or in numba's cache."""
    return directories.find_unit(directories.file_name(module)) is not None or _is_in_numba_cache(module)


def _is_in_numba_cache(module: str) -> bool:
    folder = numba_folder(module)
    return folder is not None and (folder / get_completion_marker_name()).exists()


def get_completion_marker_name() -> str:
    """Return the name of the marker file for a complete set of kernels in numba's cache, for this Python."""
    return f"complete-{sys.implementation.cache_tag}-numba-{importlib.metadata.version('numba')}"


def numba_folder(module: str) -> Path | None:
    """Return numba's cache folder for a module, or None without numba or without a trusted cache folder."""
    base = directories.cache_folder() if workers.has_numba() else None
    return None if base is None else base / make_numba_folder_name(module)


def make_numba_folder_name(module: str) -> str:
    """Return the name of numba's cache folder for a module."""
    path = directories.module_path(module)  # numba's cache is only valid for this path and modification time
    key = f"{directories.digest_sources(path)} {path} {path.stat().st_mtime_ns}"
    return f"numba-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def compile_with_numba(kernel: Kernel) -> Callable[..., Any]:
    """Compile a kernel with numba, or load it from numba's cache."""
    import numba

    paths_before, folder = numba.config.CACHE_DIR, numba_folder(kernel.__module__)
    if folder is not None:
        folder.mkdir(mode=0o700, exist_ok=True)
        numba.config.CACHE_DIR = str(folder)  # numba reads this setting when it decorates a function
    try:
        signatures = [resolve(signature) for signature in kernel.signatures]
        function: Callable[..., Any] = numba.njit(signatures, cache=folder is not None, **COMPILE_OPTIONS)(
            copy_function(kernel.py_func)
        )
    finally:
        numba.config.CACHE_DIR = paths_before
    return function


@contextmanager
def hold_cache_lock(folder: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a cache folder. After 15 minutes, continue without the lock, as its holder probably hangs."""
    descriptor = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _try_lock(descriptor):
            report("waiting for another process that compiles kernels")
            deadline = time.monotonic() + MAX_LOCK_WAIT_SECONDS
            while not _try_lock(descriptor) and time.monotonic() < deadline:
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sort_by_size(modules: Sequence[str]) -> list[str]:
    """Sort modules by the size of their source, largest first, which keeps all cores busy."""
    return sorted(modules, key=lambda name: -directories.measure_sources(directories.module_path(name)))


def clear_caches() -> None:
    """Clear the caches about compiled kernels and the C compiler."""
    directories.clear_caches()
    find_c_compiler.cache_clear()


def print_progress(text: str) -> None:
    """Print a progress message to stderr. Stdout is for the results of commands."""
    if not is_quiet:
        print(f"kafkaframes: {text}", file=sys.stderr, flush=True)


# ------------------------------------------------------------ jobs of worker processes


def compile_module(module: str, folder: str) -> None:
    """Compile the kernels of a module into ``folder``."""
    importlib.import_module(module)
    write_kernels(KERNELS_BY_MODULE.get(module, ()), directories.file_name(module), Path(folder))


def write_kernels(kernels: Sequence[Kernel], name: str, folder: Path) -> None:
    """Compile kernels as the library ``name`` in a folder or, without a C compiler, into numba's cache."""
    if not kernels:
        return
    try:
        find_c_compiler()
    except CompilerError:
        for kernel in kernels:
            compile_with_numba(kernel)
        if name == directories.file_name(kernels[0].__module__):
            (folder / make_numba_folder_name(kernels[0].__module__) / get_completion_marker_name()).touch()
        return
    from kafkaframes.kernels import objects

    object_file, entries = objects.compile_object(kernels)
    link_library(object_file, objects.write_header(entries), folder / name)


# ------------------------------------------------------------ from an object file to a library

COMPILER_VARIABLE: Final = "KAFKAFRAMES_CC"
_GLUE_SOURCE: Final = Path(__file__).with_name("glue.c")
_COMPILER_FLAGS: Final = ("-c", "-fPIC", "-O2", "-std=c11", "-ffreestanding", "-fvisibility=hidden")
# Linked against no library: the process already has the functions that kernels call (memcpy and Python's).
_LINUX_LINKER_FLAGS: Final = ("-nostdlib", "-Wl,-z,relro,-z,now,-z,noexecstack", "-Wl,--build-id=none")
_MACOS_LINKER_FLAGS: Final = ("-undefined", "dynamic_lookup", "-Wl,-install_name,unit.so")


class CompilerError(Exception):
    """A C compiler is missing, does not support this processor, or has failed."""


@cache
def find_c_compiler() -> tuple[str, ...]:
    """Return the command of the C compiler for this target.

    Raises:
        CompilerError: a C compiler is not installed, or kernels cannot be compiled ahead of time for this processor.
    """
    command = shlex.split(os.environ.get(COMPILER_VARIABLE, "cc"))
    if not detect_target().triple:
        raise CompilerError("kernels cannot be compiled ahead of time for this processor")
    if shutil.which(command[0]) is None:
        raise CompilerError(f"C compiler not found: {command[0]} (set ${COMPILER_VARIABLE} to the compiler's command)")
    return tuple(command)


def link_library(object_file: bytes, header: str, target_path: Path) -> None:
    """Write the library of an object file. The file is renamed to ``target_path`` when it is complete.

    Raises:
        CompilerError: the C compiler is missing, or it failed; the message contains the last line of its output.
    """
    with tempfile.TemporaryDirectory(prefix="kafkaframes-") as folder:
        build = Path(folder)
        (build / "unit.h").write_text(header)
        (build / "unit.o").write_bytes(object_file)
        library = build / "unit.so"
        glue = str(build / "glue.o")
        _run_command([*find_c_compiler(), *_COMPILER_FLAGS, f"-I{build}", str(_GLUE_SOURCE), "-o", glue])
        options = _MACOS_LINKER_FLAGS if detect_target().is_macos else _LINUX_LINKER_FLAGS
        _run_command([*find_c_compiler(), "-shared", "-s", *options, glue, str(build / "unit.o"), "-o", str(library)])
        copy = target_path.with_name(f".{target_path.name}.{os.getpid()}")
        shutil.copyfile(library, copy)
        copy.chmod(0o644)
        copy.replace(target_path)


def _run_command(command: Sequence[str]) -> None:
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise CompilerError(f"{command[0]} failed: {(process.stderr.strip().splitlines() or ['no message'])[-1]}")


# ------------------------------------------------------------ list of units

_KERNEL_DECORATOR_PATTERN: Final = re.compile(r"^@kernel\(", re.MULTILINE)
_UNIT_FILE_PATTERN: Final = re.compile(r"[^-]+-[a-z0-9-]+(?<=[a-z0-9-]-[0-9a-f]{16})\.abi3\.so|numba-[0-9a-f]{16}")
MAX_UNUSED_SECONDS: Final = 30 * 86400


@dataclass(frozen=True, slots=True)
class KernelUnit:
    """The kernels of one module. ``file``: their library or numba's cache folder; None before the compilation."""

    module: str
    file: Path | None


def list_kernel_modules() -> list[str]:
    """Return the names of the modules that have kernels."""
    paths = sorted(directories.list_kernel_files())
    return [
        directories.module_name(path)
        for path in paths
        if _KERNEL_DECORATOR_PATTERN.search(path.read_text(encoding="utf-8"))
    ]


def list_kernel_units() -> list[KernelUnit]:
    """Return the kernels of each module, compiled or not."""
    return [KernelUnit(module, _find_file(module)) for module in list_kernel_modules()]


def _find_file(module: str) -> Path | None:
    file = directories.find_unit(directories.file_name(module))
    if file is None and is_compiled(module):
        return numba_folder(module)
    return file


def find_unused_files(folder: Path) -> Iterator[Path]:
    """Yield the libraries in a cache folder that no process has used for a month, for example those of old versions.

    A process updates the modification time of each library that it loads from its cache, at most once a day.
    """
    before = time.time() - MAX_UNUSED_SECONDS
    for path in folder.iterdir():
        if _UNIT_FILE_PATTERN.fullmatch(path.name) and path.stat().st_mtime < before:
            yield path
