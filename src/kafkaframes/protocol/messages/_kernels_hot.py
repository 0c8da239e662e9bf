"""Compile specialised decoders from the source that ``_specialised.py`` writes, and run them over many messages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from kafkaframes.kernels import build, demand, directories, ready, workers
from kafkaframes.kernels.deferred import Kernel
from kafkaframes.protocol.messages import _kernels_decode, _specialised
from kafkaframes.protocol.messages._kernels_decode import FULL_DATA, FULL_ROWS, NEGATIVE_SIZE, TRUNCATED
from kafkaframes.protocol.messages._kernels_memory import at, get32, load_u16, put32
from kafkaframes.protocol.messages._program import Program
from kafkaframes.wire._jit import BYTES, INT64S, OUT_BYTES, OUT_INT64S, device, types
from kafkaframes.wire._kernels import copy_bytes

_SIGNATURE = types.UniTuple(types.int64, 4)(
    INT64S, BYTES, INT64S, INT64S, BYTES, INT64S, types.int64, types.int64, OUT_BYTES, OUT_BYTES, OUT_INT64S, OUT_BYTES
)  # fmt: skip


@device
def keep_tag(addresses, capacities, arena, base, column, child, row, buf, pos, end, tag, size):
    """Append a tag that nobody knows to its struct's list; return (0, a status or minus FULL_*, which, need)."""
    if size < 0:
        return NEGATIVE_SIZE, 0, 0
    if size > end - pos:
        return TRUNCATED, 0, 0
    slot = get32(arena, base + row * 4 + 4)
    if slot + 1 > at(capacities, child):
        return -FULL_ROWS, child, slot + 1
    offsets = at(addresses, (column + 2) * 4)
    offset = get32(arena, offsets + slot * 4)
    if offset + size > at(addresses, (column + 2) * 4 + 3):
        return -FULL_DATA, column + 2, offset + size
    put32(arena, at(addresses, (column + 1) * 4) + slot * 4, tag)
    copy_bytes(arena, at(addresses, (column + 2) * 4 + 2) + offset, buf, pos, size)
    put32(arena, offsets + slot * 4 + 4, offset + size)
    put32(arena, base + row * 4 + 4, slot + 1)
    return 0, 0, 0


@lru_cache(maxsize=512)
def _named_source(program: Program) -> tuple[str, str]:
    """Return (name, source) of a program's decoder; the name ends with a digest of the text.

    So the unit of this name, beside a digest of this file and the kernel files it imports, is the one that fits.
    """
    source = _specialised.source_of(program, "NAME")
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    name = f"decode_{program.plan.name}_{program.plan.version}_{digest}"
    return name, source.replace("NAME", name, 1)


def _unit(name: str) -> str:
    return f"messages.{name}"


def file_name(program: Program) -> str:
    """Return the name of the file of a decoder's library."""
    return directories.file_name(__name__, _unit(_named_source(program)[0]))


@lru_cache(maxsize=512)
def is_compiled(program: Program) -> bool:
    """Tell whether a program's decoder is there, without loading it."""
    if directories.find(file_name(program)) is not None:
        return True
    name, folder = _named_source(program)[0], demand.numba_folder(__name__)
    return folder is not None and any(folder.rglob(f"*{name}-*.nbi"))


@lru_cache(maxsize=512)
def compile_decoder(program: Program) -> Any:
    """Return the compiled decoder of a program, the one that is ready if it is (seconds to compile otherwise)."""
    name, source = _named_source(program)
    return ready.entry(__name__, name, _unit(name)) or demand.without_library(_decoder(name, source))


def _decoder(name: str, source: str) -> Kernel:
    scope: dict[str, Any] = {**vars(_kernels_decode), "keep_tag": keep_tag, "load_u16": load_u16, "__name__": __name__}
    exec(compile(source, __file__, "exec"), scope)
    return Kernel(scope[name], (_SIGNATURE,))


def make(programs: Sequence[Program], progress: Callable[[int], Callable[[workers.Job], None]] | None = None) -> int:
    """Compile the decoders that are not there yet, on all cores, into the cache; return how many those were.

    ``progress`` is told how many there are and returns what is told of each.
    """
    folder = directories.cache_folder()
    missing = [program for program in programs if not is_compiled(program)]
    if folder is None or not missing:
        return 0
    with demand.alone(folder, demand.tell):
        tell = progress(len(missing)) if progress else lambda job: None
        workers.run([job(program, folder) for program in missing], done=tell)
    is_compiled.cache_clear()
    compile_decoder.cache_clear()
    demand.forget()
    return len(missing)


def job(program: Program, folder: Path) -> workers.Job:
    """Return what a process is told that is to compile a program's decoder into ``folder``."""
    return (f"{__name__}:build_decoder", *_named_source(program), str(folder))


def build_decoder(name: str, source: str, folder: str) -> None:
    """Compile a decoder from its source (in a process of its own)."""
    build.write([_decoder(name, source)], directories.file_name(__name__, _unit(name)), Path(folder))
