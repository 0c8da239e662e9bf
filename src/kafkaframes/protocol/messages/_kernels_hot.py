"""Specialized decoders of one (message, version): straight-line code, generated from a program and compiled.

The table-driven kernel decodes every message at every version and is compiled once. A specialized decoder is about
twice as fast, but takes seconds to compile. Therefore only the newest versions of messages that are frequent in a
cluster's traffic have a specialized decoder. These decoders are compiled ahead of time (``make setup``, ``kafkaframes
kernels warm --decoders``) into the cache that all processes share. Decoding never triggers a compilation;
``columns.compile_specialized`` adds other messages.

The semantics are those of ``_kernels_decode.decode`` in ``reference`` mode, operation by operation. Values that the
interpreter looks up are literals: runs of fixed-width fields share one bounds check, arrays are plain loops, addresses
are local variables. ``kafkaframes spec show-codec`` prints the source.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from kafkaframes.kernels import demand, directories, workers
from kafkaframes.kernels.deferred import Kernel
from kafkaframes.kernels.workers import Job
from kafkaframes.protocol.messages import _kernels_decode
from kafkaframes.protocol.messages._program import COMPACT, NULLABLE, STRING, ColumnProgram, Op, compile_program
from kafkaframes.protocol.messages.plan import plan_message
from kafkaframes.protocol.spec import catalog
from kafkaframes.wire._jit import BYTES, INT64S, OUT_BYTES, OUT_INT64S, types

# The speed-up of these messages is 1.5 to 2.9. Produce requests and Fetch responses, which are nearly all records, gain
# only 1.1, Heartbeat 1.3, JoinGroup 1.35 (benchmarks/results/fast-paths.md).
HOT_MESSAGES: Final = (
    "MetadataRequest", "MetadataResponse", "ProduceResponse", "FetchRequest", "ListOffsetsRequest",
    "ListOffsetsResponse", "OffsetCommitRequest", "OffsetCommitResponse", "OffsetFetchResponse", "ApiVersionsResponse",
)  # fmt: skip
_SIGNATURE = types.UniTuple(types.int64, 4)(
    INT64S, BYTES, INT64S, INT64S, BYTES, INT64S, types.int64, types.int64, OUT_BYTES, OUT_BYTES, OUT_INT64S, OUT_BYTES
)  # fmt: skip
_WIDTHS: Final = {
    Op.INT8: 1, Op.INT16: 2, Op.INT32: 4, Op.INT64: 8, Op.UINT16: 2, Op.UINT32: 4, Op.BOOL: 1, Op.UUID: 16,
}  # fmt: skip
_STORE_CODE: Final = {
    Op.INT8: "put8(arena, {base} + {row}, load_u8(buf, {at}))",
    Op.INT16: "put16(arena, {base} + {row} * 2, load_i16(buf, {at}))",
    Op.INT32: "put32(arena, {base} + {row} * 4, load_i32(buf, {at}))",
    Op.INT64: "put64(arena, {base} + {row} * 8, load_i64(buf, {at}))",
    Op.UINT16: "put32(arena, {base} + {row} * 4, load_u16(buf, {at}))",
    Op.UINT32: "put64(arena, {base} + {row} * 8, load_u32(buf, {at}))",
    Op.BOOL: "put_bit(arena, {base}, {row}, 1 if load_u8(buf, {at}) else 0)",
    Op.UUID: "copy_bytes(arena, {base} + {row} * 16, buf, {at}, 16)",
}


class _DecoderSourceWriter:
    def __init__(self, program: ColumnProgram) -> None:
        self.ops = program.ops.tolist()
        self.tags = program.tags.tolist()
        self.levels = program.columns[:, 1].tolist()
        self.lines: list[str] = []
        self.indent = 3
        self.names = 0
        self.locals: dict[str, str] = {}

    def put(self, text: str) -> None:
        self.lines.extend("    " * self.indent + line for line in text.splitlines())

    def address_local(self, letter: str, column: int) -> str:
        """Return the name of the local for a column's address: b(ase), v(alidity), d(ata) or c(apacity of data)."""
        name = f"{letter}{column}"
        self.locals[name] = f"{name} = at(addresses, {column * 4 + 'bvdc'.index(letter)})"
        return name

    def make_name(self, letter: str) -> str:
        """Return a new variable name for the generated code."""
        self.names += 1
        return f"{letter}{self.names}"

    def write_operations(self, start: int, stop: int, row: str) -> None:
        """Write the operations ``start:stop`` of one level."""
        pc = start
        while pc < stop:
            op = self.ops[pc][0]
            pc = self.write_fixed_run(pc, stop, row) if op in _WIDTHS else _WRITER_METHODS[op](self, pc, row)

    def write_fixed_run(self, pc: int, stop: int, row: str) -> int:
        """Write a run of fixed-width fields: one bounds check, then loads and stores."""
        stores, size = [], 0
        while pc < stop and self.ops[pc][0] in _WIDTHS:
            op, column = self.ops[pc][:2]
            at = f"pos + {size}" if size else "pos"
            stores.append(_STORE_CODE[op].format(base=self.address_local("b", column), row=row, at=at))
            size += _WIDTHS[op]
            pc += 1
        self.put(f"if end - pos < {size}:\n    code = TRUNCATED\n    break")
        self.put("\n".join(stores))
        self.put(f"pos += {size}")
        return pc

    def write_varint_read(self, name: str) -> None:
        """Write code that reads an unsigned varint into ``name``; nearly all varints have one byte."""
        self.put(
            f"{name} = load_u8(buf, pos) if pos < end else 255\n"
            f"if {name} < 128:\n    pos += 1\n"
            f"else:\n    {name}, after, unusual = read_varint(buf, pos, end)\n"
            f"    if after < 0:\n        code = -after\n        break\n    pos = after"
        )

    def write_length_read(self, name: str, flags: int) -> None:
        if flags & COMPACT:
            self.write_varint_read(name)
            self.put(f"{name} -= 1\nif {name} < -2147483648:\n    {name} = 2147483647")
            return
        size, load = (2, "load_i16") if flags & STRING else (4, "load_i32")
        self.put(f"if end - pos < {size}:\n    code = TRUNCATED\n    break\n{name} = {load}(buf, pos)\npos += {size}")

    def write_null_handling(self, name: str, column: int, flags: int, row: str) -> None:
        """Write code that handles a negative length; after it, ``name`` is not negative."""
        if flags & NULLABLE:
            valid = self.address_local("v", column)
            self.put(f"if {name} < 0:\n    {name} = 0\n    put_bit(arena, {valid}, {row}, 0)")
            self.put(f"else:\n    put_bit(arena, {valid}, {row}, 1)")
        else:
            self.put(f"if {name} < 0:\n    code = NULL\n    break")

    def write_variable_size(self, pc: int, row: str) -> int:
        _, column, flags = self.ops[pc][:3]
        size, offset = self.make_name("n"), self.make_name("o")
        base, data, capacity = (
            self.address_local("b", column),
            self.address_local("d", column),
            self.address_local("c", column),
        )
        self.write_length_read(size, flags)
        self.write_null_handling(size, column, flags, row)
        if flags & STRING:
            self.put(f"if {size} > 32767:\n    code = TOO_LONG\n    break")
        self.put(f"if {size} > end - pos:\n    code = TRUNCATED\n    break")
        self.put(f"{offset} = get32(arena, {base} + {row} * 4)")
        self.full(f"{offset} + {size}", capacity, "FULL_DATA", column)
        if flags & STRING:
            self.put(
                f"if not copy_text(arena, {data} + {offset}, buf, pos, {size}) and not is_utf8(buf, pos, {size}):\n"
                f"    bad_text[{column}] = 1"
            )
        else:
            self.put(f"copy_bytes(arena, {data} + {offset}, buf, pos, {size})")
        self.put(f"put32(arena, {base} + {row} * 4 + 4, {offset} + {size})\npos += {size}")
        return pc + 1

    def full(self, needed: str, capacity: str, what: str, which: int) -> None:
        self.put(f"if {needed} > {capacity}:\n    code, which, need = -{what}, {which}, {needed}\n    break")

    def write_count_read(self, pc: int, row: str) -> tuple[str, str]:
        """Write code for an array's count, bounds check and offset; return the names of the count and the first row."""
        _, column, flags, _, child = self.ops[pc][:5]
        count, first, base = self.make_name("n"), self.make_name("s"), self.address_local("b", column)
        self.write_length_read(count, flags & ~STRING)
        self.write_null_handling(count, column, flags, row)
        size = max(flags >> 8, 1)
        self.put(f"if {count} * {size} > end - pos:\n    code = TRUNCATED\n    break")
        self.put(f"{first} = get32(arena, {base} + {row} * 4)")
        self.full(f"{first} + {count}", f"at(capacities, {child})", "FULL_ROWS", child)
        self.put(f"put32(arena, {base} + {row} * 4 + 4, {first} + {count})")
        return count, first

    def write_array(self, pc: int, row: str) -> int:
        count, first = self.write_count_read(pc, row)
        inner = self.make_name("r")
        self.put(f"for {inner} in range({first}, {first} + {count}):")
        self.indent += 1
        stop = self.ops[pc][3]
        self.write_operations(pc + 1, stop - 1, inner)
        self.indent -= 1
        self.put("if code != 0:\n    break")
        return int(stop)

    def write_fixed_array(self, pc: int, row: str) -> int:
        count, first = self.write_count_read(pc, row)
        values, width = self.ops[pc][3], self.ops[pc][2] >> 8
        if width:
            base = self.address_local("b", values)
            self.put(f"copy_fixed(arena, {base} + {first} * {width}, buf, pos, {count}, {width})")
            self.put(f"pos += {count} * {width}")
        return pc + 1

    def write_single_struct(self, pc: int, row: str) -> int:
        _, column, is_varint, stop, last = self.ops[pc][:5]
        marker = self.make_name("m")
        if is_varint:
            self.write_varint_read(marker)
            self.put(f"{marker} -= 1")
        else:
            self.put(f"if pos >= end:\n    code = TRUNCATED\n    break\n{marker} = load_i8(buf, pos)\npos += 1")
        self.put(f"put_bit(arena, {self.address_local('v', column)}, {row}, 0 if {marker} < 0 else 1)")
        self.put(f"if {marker} < 0:")
        self.indent += 1
        self.write_fill(column + 1, last, row)
        self.indent -= 1
        self.put("else:")
        self.indent += 1
        before = len(self.lines)
        self.write_operations(pc + 1, stop, row)
        if len(self.lines) == before:
            self.put("pass")
        self.indent -= 1
        return int(stop)

    def write_fill(self, first: int, last: int, row: str) -> None:
        if first >= last:
            self.put("pass")
            return
        self.put(
            f"full = fill_defaults(columns, addresses, consts, arena, {first}, {last}, {self.levels[first]}, {row})\n"
            "if full:\n    code, which, need = -FULL_DATA, full - 1, at(addresses, (full - 1) * 4 + 3) + 1\n    break"
        )

    def write_fill_operation(self, pc: int, row: str) -> int:
        self.write_fill(self.ops[pc][1], self.ops[pc][2], row)
        return pc + 1

    def write_tag_section(self, pc: int, row: str) -> int:
        _, column, table, size, after = self.ops[pc][:5]
        child = self.ops[pc + 1][4]
        left, tag, length = self.make_name("t"), self.make_name("k"), self.make_name("z")
        base = self.address_local("b", column)
        self.put(f"put32(arena, {base} + {row} * 4 + 4, get32(arena, {base} + {row} * 4))")
        self.write_varint_read(left)
        self.put(f"if {left} < 0:\n    code = NEGATIVE_COUNT\n    break")
        self.put(f"while {left} > 0:")
        self.indent += 1
        self.put(f"{left} -= 1")
        self.write_varint_read(tag)
        self.write_varint_read(length)
        for number in range(size):
            self.put(f"{'el' if number else ''}if {tag} == {number}:")
            self.indent += 1
            entry = self.tags[table + number]
            if entry < 0:
                self.put("code = REFUSED_TAG\nbreak")
            else:
                self.write_operations(entry, self.find_tag_end(entry), row)
            self.indent -= 1
        self.put("else:" if size else "if True:")
        self.indent += 1
        self.put(
            f"code, which, need = keep_tag(addresses, capacities, arena, {base}, {column}, {child}, {row}, "
            f"buf, pos, end, {tag}, {length})\n"
            f"if code != 0:\n    break\npos += {length}"
        )
        self.indent -= 2
        self.put("if code != 0:\n    break")
        return int(after)

    def find_tag_end(self, pc: int) -> int:
        """Return the end of a tagged field's operations: the position of its TAG_BACK."""
        while self.ops[pc][0] != Op.TAG_BACK:
            op = self.ops[pc][0]
            pc = self.ops[pc][4] if op == Op.TAGS else self.ops[pc][3] if op in (Op.ARRAY, Op.STRUCT) else pc + 1
        return pc

    def write_end(self, pc: int, row: str) -> int:
        self.put("if pos != end:\n    code = TRAILING\nbreak")
        return pc + 1


_WRITER_METHODS: Final = {
    Op.VAR: _DecoderSourceWriter.write_variable_size,
    Op.ARRAY: _DecoderSourceWriter.write_array,
    Op.FIXED_ARRAY: _DecoderSourceWriter.write_fixed_array,
    Op.STRUCT: _DecoderSourceWriter.write_single_struct,
    Op.FILL: _DecoderSourceWriter.write_fill_operation,
    Op.TAGS: _DecoderSourceWriter.write_tag_section,
    Op.END: _DecoderSourceWriter.write_end,
}


_HEAD_CODE: Final = """\
def {name}(columns_, consts_, addresses_, capacities_, buf_, starts_, first, last, arena_, status, positions, bad_text):
    columns, consts, addresses = address_of(columns_), address_of(consts_), address_of(addresses_)
    capacities, buf = address_of(capacities_), address_of(buf_)
    starts, arena = address_of(starts_), address_of(arena_)
{addresses}
    for r0 in range(first, last):
        start = at(starts, r0)
        pos = start
        end = at(starts, r0 + 1)
        code = types.int64(status[r0])
        which = need = 0
        while code == 0:
"""
_TAIL_CODE: Final = """\
        if code < 0:
            return -code, r0, which, need
        if code > 0:
            status[r0] = code
            positions[r0] = pos - start
            full = fill_defaults(columns, addresses, consts, arena, 0, columns_.size // 8, 0, r0)
            if full:
                return FULL_DATA, r0, full - 1, at(addresses, (full - 1) * 4 + 3) + 1
    return DONE, last, 0, 0
"""


def decoder_source(program: ColumnProgram, name: str) -> str:
    """Return the source of a decoder called ``name``, with the contract of ``_kernels_decode.decode``.

    A failure sets ``code`` and leaves the innermost loop, and each loop checks ``code`` at its end. A function per
    message would cost more than decoding a small message, because each array argument is seven words of a call.
    """
    writer = _DecoderSourceWriter(program)
    writer.write_operations(0, len(writer.ops), "r0")
    lines = "\n".join(f"    {line}" for line in writer.locals.values())
    return "\n".join([_HEAD_CODE.format(name=name, addresses=lines) + writer.lines[0], *writer.lines[1:], _TAIL_CODE])


@lru_cache(maxsize=512)
def _named_source(program: ColumnProgram) -> tuple[str, str]:
    """Return (name, source) of a program's decoder; the name ends with a digest of the source.

    A library in the cache matches if its name, the digest of this file and those of the imported kernel files do.
    """
    source = decoder_source(program, "NAME")
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    name = f"decode_{program.plan.name}_{program.plan.version}_{digest}"
    return name, source.replace("NAME", name, 1)


def _unit(name: str) -> str:
    return f"messages.{name}"


def file_name(program: ColumnProgram) -> str:
    """Return the file name of a decoder's library."""
    return directories.file_name(__name__, _unit(_named_source(program)[0]))


@lru_cache(maxsize=512)
def is_compiled(program: ColumnProgram) -> bool:
    """Return whether a program's decoder is in the cache and may be loaded, without loading it."""
    if directories.requires_plain():
        return False
    if directories.find_unit(file_name(program)) is not None:
        return True
    name, folder = _named_source(program)[0], demand.numba_folder(__name__)
    return folder is not None and any(folder.rglob(f"*{name}-*.nbi"))


@lru_cache(maxsize=512)
def compile_decoder(program: ColumnProgram) -> Any:
    """Return a program's decoder from the cache; compile it first if it is missing, which takes seconds."""
    name, source = _named_source(program)
    return directories.load_kernel(__name__, name, _unit(name)) or demand.load_without_library(
        _make_kernel(name, source)
    )


def _make_kernel(name: str, source: str) -> Kernel:
    scope: dict[str, Any] = {**vars(_kernels_decode), "__name__": __name__}
    exec(compile(source, __file__, "exec"), scope)
    return Kernel(scope[name], (_SIGNATURE,))


def compile_missing(
    programs: Sequence[ColumnProgram], progress: Callable[[int], Callable[[Job], None]] | None = None
) -> int:
    """Compile the missing decoders into the cache, on all cores; return their number.

    ``progress`` is called with the number of decoders. The function that ``progress`` returns is called after each
    compilation.
    """
    folder = directories.cache_folder()
    missing = [program for program in programs if not is_compiled(program)]
    if folder is None or not missing:
        return 0
    with demand.hold_cache_lock(folder, demand.print_progress):
        tell = progress(len(missing)) if progress else lambda job: None
        workers.run_jobs([make_job(program, folder) for program in missing], on_done=tell)
    is_compiled.cache_clear()
    compile_decoder.cache_clear()
    demand.clear_caches()
    return len(missing)


def make_job(program: ColumnProgram, folder: Path) -> Job:
    """Return the job that compiles a program's decoder into ``folder``."""
    return (f"{__name__}:build_decoder", *_named_source(program), str(folder))


def build_decoder(name: str, source: str, folder: str) -> None:
    """Compile a decoder from its source; runs in a separate process."""
    demand.write_kernels([_make_kernel(name, source)], directories.file_name(__name__, _unit(name)), Path(folder))


def hot_messages() -> list[tuple[str, int]]:
    """Return the (message, version) pairs that are compiled ahead of time."""
    return [(name, catalog.load_spec(name).latest_stable_version) for name in HOT_MESSAGES]


def hot_programs() -> list[ColumnProgram]:
    return [compile_program(plan_message(catalog.load_spec(name), version)) for name, version in hot_messages()]


def make_jobs(folder: Path) -> list[tuple[str, Job]]:
    """Return each decoder's library file name and compile job."""
    return [(file_name(program), make_job(program, folder)) for program in hot_programs()]


def compile_hot_messages(progress: Callable[[int], Callable[[Job], None]] | None = None) -> int:
    """Compile the missing decoders of ``hot_messages``, on all cores; return their number."""
    return compile_missing(hot_programs(), progress)
