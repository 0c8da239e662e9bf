"""Compile specialised decoders from the source that ``_specialised.py`` writes, and run them over many messages."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from numba import types

from kafkaframes.messages import _kernels_decode, _specialised
from kafkaframes.messages._kernels_decode import FULL_DATA, FULL_ROWS, NEGATIVE_SIZE, TRUNCATED
from kafkaframes.messages._kernels_memory import at, get32, load_u16, put32
from kafkaframes.messages._program import Program
from kafkaframes.wire._jit import BYTES, INT64S, OUT_BYTES, OUT_INT64S, cache_folder, device, kernel
from kafkaframes.wire._kernels import copy_bytes

_SIGNATURE = types.UniTuple(types.int64, 4)(
    INT64S, BYTES, INT64S, INT64S, BYTES, INT64S, types.int64, types.int64, OUT_BYTES, OUT_BYTES, OUT_INT64S, OUT_BYTES
)  # fmt: skip


@device
def keep_tag(places, capacities, arena, base, column, child, row, buf, pos, end, tag, size):
    """Append a tag that nobody knows to its struct's list; return (0, a status or minus FULL_*, place, need)."""
    if size < 0:
        return NEGATIVE_SIZE, 0, 0
    if size > end - pos:
        return TRUNCATED, 0, 0
    slot = get32(arena, base + row * 4 + 4)
    if slot + 1 > at(capacities, child):
        return -FULL_ROWS, child, slot + 1
    offsets = at(places, (column + 2) * 4)
    offset = get32(arena, offsets + slot * 4)
    if offset + size > at(places, (column + 2) * 4 + 3):
        return -FULL_DATA, column + 2, offset + size
    put32(arena, at(places, (column + 1) * 4) + slot * 4, tag)
    copy_bytes(arena, at(places, (column + 2) * 4 + 2) + offset, buf, pos, size)
    put32(arena, offsets + slot * 4 + 4, offset + size)
    put32(arena, base + row * 4 + 4, slot + 1)
    return 0, 0, 0


@lru_cache(maxsize=512)
def _named_source(program: Program) -> tuple[str, str]:
    """Return (name, source) of a program's decoder; the name ends with a digest of the text.

    So numba's cache, whose folder stands for this file and the kernel files it imports, finds the one that fits.
    """
    source = _specialised.source_of(program, "NAME")
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    name = f"decode_{program.plan.name}_{program.plan.version}_{digest}"
    return name, source.replace("NAME", name, 1)


@lru_cache(maxsize=512)
def is_compiled(program: Program) -> bool:
    """Tell whether the cache holds a program's decoder, without loading it."""
    folder = cache_folder(Path(__file__))
    return folder is not None and any(Path(folder).rglob(f"*{_named_source(program)[0]}-*.nbi"))


@lru_cache(maxsize=512)
def compile_decoder(program: Program) -> Any:
    """Return the compiled decoder of a program, from the cache if it is there (seconds to compile otherwise)."""
    name, source = _named_source(program)
    scope: dict[str, Any] = {**vars(_kernels_decode), "keep_tag": keep_tag, "load_u16": load_u16, "__name__": __name__}
    exec(compile(source, __file__, "exec"), scope)
    return kernel(_SIGNATURE)(scope[name])
