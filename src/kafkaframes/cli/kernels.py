"""``kafkaframes kernels``: show, compile and pack the compiled parts of this package."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import click

from kafkaframes.errors.words import count_text
from kafkaframes.kernels import demand, directories, target, workers
from kafkaframes.storage.files.atomic import new_file, open_output


@click.group()
def command() -> None:
    """Manage the compiled parts of this package: list, compile, pack for other machines.

    Wheels contain the compiled parts. Without a wheel, the first use compiles them, once for each machine and version,
    if the extra `compile` is installed; without that extra, kernels run as plain Python, several hundred times slower.
    """


@command.command("warm")
@click.argument("packages", nargs=-1, metavar="[PACKAGE]...")
@click.option("--decoders", is_flag=True, help="Also compile the specialized decoders of the most frequent messages.")
def compile_kernels(packages: tuple[str, ...], decoders: bool) -> None:
    """Compile missing kernels, on all cores, into the folder that `path` prints; delete those unused for a month.

    With PACKAGEs (wire, records, storage.cleaner, ...: prefixes of the names in `status`), only their kernels are
    compiled.
    """
    folder = _choose_folder()
    for unused_files in list(demand.find_unused_files(folder)):
        shutil.rmtree(unused_files) if unused_files.is_dir() else unused_files.unlink(missing_ok=True)
    package_prefixes = tuple(f"kafkaframes.{package}." for package in packages) or ("",)
    kernel_files = [unit for unit in demand.list_kernel_units() if unit.module.startswith(package_prefixes)]
    missing = [unit.module for unit in kernel_files if unit.file is None]
    if missing:
        demand.compile_modules(
            missing, folder=folder, report=demand.print_progress, on_done=_make_progress_report(len(missing))
        )
    if decoders:
        from kafkaframes.protocol.messages._kernels_hot import compile_hot_messages

        compile_hot_messages(_make_progress_report)
    click.echo(f"{len(kernel_files)} kernel files ready")


@command.command("path")
def print_folder() -> None:
    """Print the folder that newly compiled kernels are written to."""
    click.echo(_choose_folder())


@command.command("status")
def print_status() -> None:
    """Print the target processor of kernels, the folders that are searched, and which kernels are ready.

    Exit status: 1 if a kernel is not compiled.
    """
    click.echo(f"compiled for: {target.detect_target().name}")
    for entry in directories.list_folders():
        state = f"not used: {entry.distrust}" if entry.distrust else "written to" if entry.writable else "read"
        click.echo(f"{entry.source}: {entry.folder} ({state})")
    try:
        click.echo(f"C compiler: {' '.join(demand.find_c_compiler())}")
    except demand.CompilerError as error:
        click.echo(f"C compiler: none ({error}); missing kernels are compiled into numba's own cache")
    if directories.requires_plain():
        click.echo(
            f"{directories.PLAIN_KERNELS_VARIABLE} is 1: kernels run as plain Python, several hundred times slower"
        )
    units = demand.list_kernel_units()
    if any(unit.file is None for unit in units) and not workers.has_numba():
        click.echo(f"numba: none; kernels that are not compiled run as plain Python ({workers.NUMBA_INSTALL_COMMAND})")
    for unit in units:
        click.echo(f"{unit.module.removeprefix('kafkaframes.')}: {unit.file or 'not compiled'}")
    if any(unit.file is None for unit in units):
        sys.exit(1)


def _choose_folder() -> Path:
    """Return the folder to which kernels are written. If no folder is writable, raise an error."""
    folder = directories.cache_folder()
    if folder is None:
        reasons = "; ".join(f"{entry.folder}: {entry.distrust or 'read-only'}" for entry in directories.cache_folders())
        raise click.ClickException(
            f"no folder for kernels is writable ({reasons}); set {directories.CACHE_FOLDER_VARIABLE}"
        )
    return folder


def _make_progress_report(count: int) -> Callable[[workers.Job], None]:
    """Return a function that reports each finished job with the time since the first start, in seconds."""
    finished_jobs, start = 0, time.monotonic()

    def report_job(job: workers.Job) -> None:
        nonlocal finished_jobs
        finished_jobs += 1
        seconds = time.monotonic() - start
        click.echo(f"  {finished_jobs}/{count} {job[1].removeprefix('kafkaframes.')} ({seconds:.0f} s)")

    return report_job


_ARCHIVE_FORMATS: Final = {".zip": "zip", ".tgz": "gztar", ".tar.gz": "gztar"}


@command.command("pack")
@click.argument("to", type=click.Path(path_type=Path))
@click.option(
    "--for",
    "architecture",
    type=click.Choice(list(target.TARGETS)),
    help="Target processor. Default: the processor of this machine.",
)
@click.option("--decoders/--no-decoders", default=True, help="Also pack the specialized decoders of frequent messages.")
def pack_kernels(to: Path, architecture: str | None, decoders: bool) -> None:
    """Write all compiled kernels to TO: an archive (.zip, .tar.gz, .tgz) or a folder, compiling the missing ones.

    Another machine of the same architecture uses the files if it has this version of the package, and
    KAFKAFRAMES_KERNELS names their folder. The other machine may have any Python version from 3.11 on, and compiles
    nothing. This machine needs a C compiler, but the other machine does not. For another architecture, KAFKAFRAMES_CC
    must name a cross compiler.
    """
    if architecture:
        os.environ[target.COMPILE_TARGET_VARIABLE] = architecture
        demand.clear_caches()
    try:
        demand.find_c_compiler()
    except demand.CompilerError as error:
        raise click.ClickException(str(error)) from None
    kind = next((kind for suffix, kind in _ARCHIVE_FORMATS.items() if to.name.endswith(suffix)), None)
    if kind is None:
        click.echo(f"{count_text(_fill_folder(to, decoders), 'library', 'libraries')} in {to}")
        return
    temporary = partial(tempfile.TemporaryDirectory, prefix="kafkaframes-")
    with temporary() as folder, temporary() as temporary_directory:
        count = _fill_folder(Path(folder), decoders)
        archive_path = shutil.make_archive(str(Path(temporary_directory) / "pack"), kind, folder)
        with open_output(str(to)) as out, open(archive_path, "rb") as archive:
            shutil.copyfileobj(archive, out)
    click.echo(f"{count_text(count, 'library', 'libraries')} in {to}")


def _fill_folder(folder: Path, decoders: bool) -> int:
    """Copy compiled kernels into ``folder`` and compile the missing ones there. Return the number of libraries."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs: list[workers.Job] = []
    for module in demand.sort_by_size(demand.list_kernel_modules()):
        name = directories.file_name(module)
        if not _copy_kernel(name, folder):
            jobs.append(("kafkaframes.kernels.demand:compile_module", module, str(folder)))
    if decoders:
        from kafkaframes.protocol.messages import _kernels_hot

        jobs += [job for name, job in _kernels_hot.make_jobs(folder) if not _copy_kernel(name, folder)]
    if jobs:
        click.echo(
            f"compiling {count_text(len(jobs), 'library', 'libraries')} in "
            f"{count_text(min(workers.count_cores(), len(jobs)), 'process', 'processes')}",
            err=True,
        )
        workers.run_jobs(jobs)
    return sum(1 for _ in folder.glob(f"*{directories.LIBRARY_SUFFIX}"))


def _copy_kernel(name: str, folder: Path) -> bool:
    """Copy a compiled kernel to the folder, and return whether the folder now has it."""
    result = directories.find_unit(name)
    if result is None:
        return (folder / name).exists()
    if result.parent.resolve() != folder.resolve():
        with new_file(folder / name, durable=False) as out, result.open("rb") as library:
            shutil.copyfileobj(library, out)
    return True
