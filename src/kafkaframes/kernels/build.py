"""What a process of ``workers.py`` does: compile one unit. Imported there only, for numba is set up for good here."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from kafkaframes.kernels import demand, link
from kafkaframes.kernels import directories as directories
from kafkaframes.kernels.deferred import DECLARED, Kernel


def unit(module: str, folder: str) -> None:
    """Compile the kernels of a module into ``folder``."""
    importlib.import_module(module)
    write(DECLARED.get(module, ()), directories.file_name(module), Path(folder))


def write(kernels: Sequence[Kernel], name: str, folder: Path) -> None:
    """Compile some kernels as the library ``name`` in ``folder``; without a C compiler, into numba's cache."""
    if not kernels:
        return
    try:
        link.compiler()
    except link.LinkError:
        for kernel in kernels:
            demand.by_numba(kernel)
        if name == directories.file_name(kernels[0].__module__):
            (folder / demand.numba_name(kernels[0].__module__) / demand.complete()).touch()
        return
    from kafkaframes.kernels import objects

    object_file, entries = objects.compile_object(kernels)
    link.link(object_file, objects.header(entries), folder / name)
