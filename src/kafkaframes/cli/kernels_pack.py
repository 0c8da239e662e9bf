"""``kafkaframes kernels pack``: all compiled kernels as a folder or an archive, for other machines."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

import click

from kafkaframes.kernels import demand, link, stock, target, workers
from kafkaframes.kernels import directories as places
from kafkaframes.storage.files.atomic import named_file, new_file

_ARCHIVES: Final = {".zip": "zip", ".tgz": "gztar", ".tar.gz": "gztar"}


@click.command()
@click.argument("to", type=click.Path(path_type=Path))
@click.option(
    "--for",
    "architecture",
    type=click.Choice(list(target.TARGETS)),
    help="Another machine's processor than this one's.",
)
@click.option("--decoders/--no-decoders", default=True, help="Also the straight-line decoders of frequent messages.")
def pack(to: Path, architecture: str | None, decoders: bool) -> None:
    """Write all compiled kernels to TO: an archive (.zip, .tar.gz, .tgz) or a folder, compiling what is missing.

    A machine of the same architecture with this version of the package and a folder of these files in
    KAFKAFRAMES_KERNELS compiles nothing, whatever its Python (3.11 or later). A C compiler is needed here, not there;
    for another architecture KAFKAFRAMES_CC must name a cross compiler.
    """
    if architecture:
        os.environ[target.OVERRIDE] = architecture
        demand.forget()
    try:
        link.compiler()
    except link.LinkError as error:
        raise click.ClickException(str(error)) from None
    kind = next((kind for suffix, kind in _ARCHIVES.items() if to.name.endswith(suffix)), None)
    if kind is None:
        click.echo(f"{_fill(to, decoders)} libraries in {to}")
        return
    temporary = partial(tempfile.TemporaryDirectory, prefix="kafkaframes-")
    with temporary() as place, temporary() as room:
        count = _fill(Path(place), decoders)
        made = shutil.make_archive(str(Path(room) / "pack"), kind, place)
        with named_file(str(to)) as out, open(made, "rb") as archive:
            shutil.copyfileobj(archive, out)
    click.echo(f"{count} libraries in {to}")


def _fill(folder: Path, decoders: bool) -> int:
    """Copy what is ready into ``folder`` and compile the rest there; return how many libraries it holds."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs: list[workers.Job] = []
    for module in demand.by_weight(stock.modules()):
        name = places.file_name(module)
        if not _copied(name, folder):
            jobs.append(("kafkaframes.kernels.build:unit", module, str(folder)))
    if decoders:
        from kafkaframes.protocol.messages import hot

        jobs += [job for name, job in hot.jobs(folder) if not _copied(name, folder)]
    if jobs:
        click.echo(f"compiling {len(jobs)} libraries in {min(workers.cores(), len(jobs))} processes", err=True)
        workers.run(jobs)
    return sum(1 for _ in folder.glob(f"*{places.SUFFIX}"))


def _copied(name: str, folder: Path) -> bool:
    found = places.find(name)
    if found is None:
        return (folder / name).exists()
    if found.parent.resolve() != folder.resolve():
        with new_file(folder / name, durable=False) as out, found.open("rb") as library:
            shutil.copyfileobj(library, out)
    return True
