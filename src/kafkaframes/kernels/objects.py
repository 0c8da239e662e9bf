"""Compilation of a module's kernels to an object file.

numba translates each function to LLVM's language, as for a call. No machine code is created in memory: each kernel gets
an *entry function*, which takes all arguments as an array of 64-bit words (``glue.c`` calls it), and LLVM writes one
object file for the target processor, which may differ from this machine's. The process cannot run kernels afterwards.

Only this file imports private parts of numba. ``wire/_jit.py`` passes some of these private parts on to kernel files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.np import arrayobj

from kafkaframes.kernels.deferred import COMPILE_OPTIONS, DEVICE_COMPILE_OPTIONS, Kernel, copy_function, resolve
from kafkaframes.kernels.target import Target, detect_target

_C_LIBRARY_FUNCTIONS = frozenset(("memcpy", "memmove", "memset", "memcmp"))
_WORD_TYPE = ir.IntType(64)


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """The type of a kernel's argument, as ``glue.c`` checks it.

    Attributes:
        what: ``i`` for a number, ``t`` for a boolean, ``b`` for bytes or, if writable, a bytearray, ``a`` for an array,
            ``m`` for a tuple of arrays.
        kind: numpy's kind of the array's elements, ``i`` or ``u``.
        size: size of an element, in bytes.
        dimensions: number of the array's dimensions.
        writable: whether the kernel writes to the array.
        count: number of arrays in the tuple.
    """

    code: str
    kind: str = "-"
    size: int = 0
    dimensions: int = 0
    writable: bool = False
    count: int = 0

    @property
    def description(self) -> str:
        """The expected argument in words, for error messages."""
        if self.code not in "am":
            return ""
        number = f"{'unsigned ' if self.kind == 'u' else ''}{self.size * 8}-bit integers"
        article = "a writable" if self.writable else "an aligned"
        return f"{article} C-contiguous numpy array of {number} with {self.dimensions} dimension(s)"

    def __len__(self) -> int:
        """Return the number of 64-bit words of the argument."""
        return {"a": 1 + self.dimensions, "m": self.count * (1 + self.dimensions), "b": 2}.get(self.code, 1)


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A compiled kernel in an object file: its name, symbol, arguments and results.

    Attributes:
        name: name for callers in Python.
        symbol: symbol of the entry function.
        arguments: the kernel's arguments.
        results: -1 for no result, 0 for one number, else the number of values in the result tuple.
    """

    name: str
    symbol: str
    arguments: tuple[KernelArgument, ...]
    results: int


@global_compiler_lock  # type: ignore[untyped-decorator]
def compile_object(kernels: Sequence[Kernel]) -> tuple[bytes, list[KernelEntry]]:
    """Compile kernels to an object file, and return it with the list of its kernels.

    This process cannot run kernels afterwards, because numba no longer creates machine code.
    """
    machine_target, context = detect_target(), cpu_target.target_context
    _configure_numba(machine_target)
    machine = _create_machine(machine_target)
    unit = llvm.parse_assembly(str(context.codegen()._create_empty_module("unit")))
    entries = [_add_kernel(unit, context, number, kernel) for number, kernel in enumerate(kernels)]
    entry_functions = {entry.symbol for entry in entries}
    for function in unit.functions:
        if function.name in entry_functions:
            function.visibility = "hidden"
        elif not function.is_declaration:
            function.linkage = llvm.Linkage.internal
    _reject_external_functions(unit)
    for variable in unit.global_variables:
        if not variable.is_declaration:
            variable.linkage = llvm.Linkage.internal
    passes, builder = llvm.newpassmanagers.create_new_module_pass_manager(), context.codegen()._pass_builder()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(unit, builder)
    unit.verify()
    return machine.emit_object(unit), entries


def _reject_external_functions(unit: Any) -> None:
    """Raise if the kernels call external functions that the C library does not have, such as numba's runtime."""
    externals = {function.name for function in unit.functions if function.is_declaration}
    missing = {name for name in externals if not name.startswith("llvm.")} - _C_LIBRARY_FUNCTIONS
    if missing:
        raise TypeError(f"kernels call functions of numba's runtime: {', '.join(sorted(missing))}")


def _create_machine(machine_target: Target) -> Any:
    return llvm.Target.from_triple(machine_target.triple).create_target_machine(
        cpu=machine_target.cpu, features=machine_target.features, opt=3, reloc="pic", codemodel="default"
    )


@cache
def _configure_numba(machine_target: Target) -> None:
    """Make numba translate for a target, without machine code in memory."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    codegen = cpu_target.target_context.codegen()
    codegen._tm = _create_machine(machine_target)
    codegen._data_layout = str(codegen._tm.target_data)
    empty = JITCPUCodegen._create_empty_module

    def create_module(self: Any, name: str) -> Any:
        module = empty(self, name)
        module.triple = machine_target.triple
        return module

    JITCPUCodegen._create_empty_module = create_module
    JITCPUCodegen._add_module = lambda self, module: None
    JITCodeLibrary._finalize_specific = lambda self: None
    # Numba stores the address in a function that is never called.
    JITCodeLibrary.get_pointer_to_function = lambda self, name: 1
    JITCPUCodegen.set_env = lambda self, name, environment: None


def _add_kernel(unit: Any, context: Any, number: int, kernel: Kernel) -> KernelEntry:
    """Compile a kernel, write its entry function, and link both into the unit."""
    (signature,) = map(resolve, kernel.signatures)
    dispatcher = njit(**COMPILE_OPTIONS, **DEVICE_COMPILE_OPTIONS)(copy_function(kernel.py_func))
    dispatcher.compile(signature)
    (compiled,) = dispatcher.overloads.values()
    entry = KernelEntry(
        kernel.__name__,
        f"kafkaframes_{number}",
        tuple(map(_describe_argument, signature.args)),
        _count_results(compiled.signature),
    )
    library = context.codegen().create_library(entry.symbol)
    module = context.create_module(entry.symbol)
    _write_entry_function(module, context, entry.symbol, compiled)
    library.add_ir_module(module)
    compiled.library._ensure_finalized()
    unit.link_in(library._final_module)
    unit.link_in(compiled.library._final_module.clone())
    return entry


def _write_entry_function(module: Any, context: Any, symbol: str, compiled: Any) -> None:
    """Write ``int32 symbol(const int64 *words, int64 *results)``, which returns 0 unless the kernel failed."""
    pointer = _WORD_TYPE.as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.IntType(32), [pointer, pointer]), symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    words = _ArgumentWords(builder, function.args[0])
    signature = compiled.signature
    values = [_read_argument(context, builder, kind, words) for kind in signature.args]
    callee = context.declare_function(module, compiled.fndesc)
    status, result = context.call_conv.call_function(builder, callee, signature.return_type, signature.args, values)
    count = _count_results(signature)
    parts = [] if count < 0 else [result] if count == 0 else cgutils.unpack_tuple(builder, result)
    for index, part in enumerate(parts):
        builder.store(part, builder.gep(function.args[1], [ir.Constant(ir.IntType(32), index)]))
    builder.ret(builder.zext(status.is_error, ir.IntType(32)))


class _ArgumentWords:
    """An iterator over the argument words of an entry function."""

    def __init__(self, builder: Any, start: Any) -> None:
        self.builder, self.start, self.index = builder, start, 0

    def next_word(self) -> Any:
        address = self.builder.gep(self.start, [ir.Constant(ir.IntType(32), self.index)])
        self.index += 1
        return self.builder.load(address)


def _read_argument(context: Any, builder: Any, kind: Any, words: _ArgumentWords) -> Any:
    """Read one argument in the form that numba's calling convention requires."""
    if isinstance(kind, types.BaseTuple):
        return context.make_tuple(builder, kind, [_read_argument(context, builder, part, words) for part in kind])
    if isinstance(kind, types.Buffer):
        return _read_array(context, builder, kind, words)
    if isinstance(kind, types.Boolean):
        return builder.trunc(words.next_word(), ir.IntType(1))
    return words.next_word()


def _read_array(context: Any, builder: Any, kind: Any, words: _ArgumentWords) -> Any:
    """Create numba's structure for a C-contiguous array from its address and shape."""
    array, element = context.make_array(kind)(context, builder), context.get_data_type(kind.dtype)
    data = builder.inttoptr(words.next_word(), element.as_pointer())
    shape = [words.next_word() for _ in range(kind.ndim)]
    step = ir.Constant(_WORD_TYPE, kind.dtype.bitwidth // 8)
    strides = [step]
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    pack = cgutils.pack_array
    arrayobj.populate_array(
        array, data=data, shape=pack(builder, shape), strides=pack(builder, strides), itemsize=step, meminfo=None
    )
    return array._getvalue()


def _describe_argument(kind: Any) -> KernelArgument:
    if isinstance(kind, types.Boolean):
        return KernelArgument("t")
    if isinstance(kind, types.Bytes | types.ByteArray):
        return KernelArgument("b", writable=bool(kind.mutable))
    if isinstance(kind, types.Array):
        return KernelArgument("a", *_describe_element(kind))
    if isinstance(kind, types.UniTuple):
        return KernelArgument("m", *_describe_element(kind.dtype), count=kind.count)
    if kind == types.int64:
        return KernelArgument("i")
    raise TypeError(f"a kernel has an argument of type {kind}; glue.c does not support it")


def _describe_element(kind: Any) -> tuple[str, int, int, bool]:
    if kind.layout != "C":
        raise TypeError(f"a kernel has an argument of type {kind}; it must be C-contiguous")
    return ("i" if kind.dtype.signed else "u"), kind.dtype.bitwidth // 8, kind.ndim, kind.mutable


def _count_results(signature: Any) -> int:
    """Return -1 for no result, 0 for one number, else the length of a tuple of numbers."""
    kind = signature.return_type
    if kind == types.none:
        return -1
    if kind == types.int64:
        return 0
    if isinstance(kind, types.UniTuple) and kind.dtype == types.int64:
        return int(kind.count)
    raise TypeError(f"a kernel returns {kind}; glue.c does not support it")


def write_header(entries: Sequence[KernelEntry]) -> str:
    """Return ``unit.h``, which declares an object file's kernels for ``glue.c``."""
    lines = [
        "#include <stdint.h>",
        "typedef int32_t (*entry)(const int64_t *words, int64_t *results);",
        "struct argument { char what, kind; int size, dimensions, writable, count; const char *words; };",
        "struct kernel { const char *name; int count, results; const struct argument *arguments; entry run; };",
        f"#define UNIT_COUNT {len(entries)}",
        f"#define UNIT_MAX_WORDS {max(1, *(sum(map(len, entry.arguments)) for entry in entries))}",
        f"#define UNIT_MAX_RESULTS {max(1, *(entry.results for entry in entries))}",
    ]
    for entry in entries:
        lines.append(f"extern int32_t {entry.symbol}(const int64_t *words, int64_t *results);")
        lines.append(f"static const struct argument {entry.symbol}_arguments[] = {{")
        lines.extend(
            f"    {{'{argument.code}', '{argument.kind}', {argument.size}, {argument.dimensions},"
            f" {int(argument.writable)}, {argument.count}, {json.dumps(argument.description)}}},"
            for argument in entry.arguments
        )
        lines.append("};")
    lines.append("static const struct kernel UNIT_KERNELS[] = {")
    for entry in entries:
        count, symbol = len(entry.arguments), entry.symbol
        lines.append(f'    {{"{entry.name}", {count}, {entry.results}, {symbol}_arguments, {symbol}}},')
    lines.append("};")
    return "\n".join(lines) + "\n"
