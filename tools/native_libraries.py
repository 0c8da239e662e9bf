"""Read the parts of an ELF or Mach-O library that a dynamic loader uses, on any machine.

Only 64-bit little-endian libraries are supported: those of the wheels' targets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

ELF_MACHINES: Final = {62: "x86_64", 183: "aarch64"}
MACHO_PROCESSORS: Final = {0x01000007: "x86_64", 0x0100000C: "arm64"}

_PT_DYNAMIC: Final = 2
_PT_GNU_STACK: Final = 0x6474E551
_SHT_DYNSYM: Final = 11
_DT_NEEDED: Final = 1
_DT_TEXTREL: Final = 22

_MACHO_MAGIC: Final = 0xFEEDFACF
_MH_LIBRARIES: Final = (6, 8)  # MH_DYLIB, MH_BUNDLE
_LC_SYMTAB: Final = 2
_LC_LOAD_DYLIB_COMMANDS: Final = (0xC, 0x80000018, 0x8000001F)  # also weak and re-exported
_LC_CODE_SIGNATURE: Final = 0x1D
_LC_VERSION_MIN_MACOSX: Final = 0x24
_LC_BUILD_VERSION: Final = 0x32
_LC_DYLD_INFO: Final = (0x22, 0x80000022)
_PLATFORM_MACOS: Final = 1
_N_STAB: Final = 0xE0
_N_TYPE: Final = 0x0E
_N_EXT: Final = 0x01
_DYNAMIC_LOOKUP: Final = 0xFE


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """The properties of a shared library that the loader uses: its target, imports and exports.

    Attributes:
        system: ``linux`` or ``macos``.
        processor: name of the processor in platform tags.
        required_libraries: libraries that the loader opens with it.
        imported_symbols: symbols that it imports from the process or from other libraries.
        exported_symbols: symbols that it defines for others.
        macos_version: oldest macOS that loads it, or None.
        is_signed: whether it has a code signature, which macOS on Apple silicon requires.
        problems: properties that a loader may reject, as text.
    """

    system: str
    processor: str
    required_libraries: tuple[str, ...]
    imported_symbols: frozenset[str]
    exported_symbols: frozenset[str]
    macos_version: tuple[int, int] | None = None
    is_signed: bool = False
    problems: tuple[str, ...] = ()


def read_library(data: bytes) -> NativeLibrary:
    """Return the properties of a library that the loader uses.

    Raises:
        ValueError: the data are not a supported library, or are incomplete.
    """
    try:
        if data[:4] == b"\x7fELF":
            return _read_elf(data)
        if len(data) >= 4 and struct.unpack_from("<I", data)[0] == _MACHO_MAGIC:
            return _read_macho(data)
    except (struct.error, IndexError, KeyError) as error:
        raise ValueError(f"the library is incomplete or of an unknown kind: {error!r}") from None
    raise ValueError(f"the file starts with {data[:4]!r}; expected a 64-bit ELF or Mach-O library")


def _read_elf(data: bytes) -> NativeLibrary:
    """Return the properties of a Linux library (ELF)."""
    if data[4:6] != b"\x02\x01":
        raise ValueError("the ELF library is not 64-bit little-endian")
    _, machine = struct.unpack_from("<HH", data, 16)
    segments_at, sections_at = struct.unpack_from("<QQ", data, 32)
    segment_size, segment_count, section_size, section_count = struct.unpack_from("<HHHH", data, 54)
    problems: list[str] = []
    tags: list[tuple[int, int]] = []
    has_stack = False
    for index in range(segment_count):
        kind, flags, offset, _, _, size = struct.unpack_from("<IIQQQQ", data, segments_at + index * segment_size)
        if kind == _PT_GNU_STACK:
            has_stack = True
            if flags & 1:
                problems.append("it requires an executable stack")
        elif kind == _PT_DYNAMIC:
            tags = [struct.unpack_from("<QQ", data, offset + position) for position in range(0, size, 16)]
    if not has_stack:
        problems.append("it has no PT_GNU_STACK header, so its stack may be executable")
    if any(tag == _DT_TEXTREL for tag, _ in tags):
        problems.append("it has relocations in its code (DT_TEXTREL)")
    imports, exports, names_at = _read_elf_symbols(data, sections_at, section_size, section_count)
    dependencies = tuple(_string(data, names_at + value) for tag, value in tags if tag == _DT_NEEDED)
    return NativeLibrary(
        "linux",
        ELF_MACHINES[machine],
        dependencies,
        frozenset(imports),
        frozenset(exports),
        problems=tuple(problems),
    )


def _read_elf_symbols(data: bytes, at: int, size: int, count: int) -> tuple[set[str], set[str], int]:
    """Return the imported and the exported symbols, and the position of the table of dynamic names."""
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, at + index * size) for index in range(count)]
    imports, exports, names_at = set[str](), set[str](), 0
    for _, kind, _, _, offset, length, link, _, _, _ in sections:
        if kind != _SHT_DYNSYM:
            continue
        names_at = sections[link][4]
        for position in range(offset + 24, offset + length, 24):  # the first symbol is empty
            name, _, _, section = struct.unpack_from("<IBBH", data, position)
            (imports if section == 0 else exports).add(_string(data, names_at + name))
    return imports, exports, names_at


def _read_macho(data: bytes) -> NativeLibrary:
    """Return the properties of a macOS library (Mach-O)."""
    _, processor, _, kind, count, _, _, _ = struct.unpack_from("<8I", data)
    if kind not in _MH_LIBRARIES:
        raise ValueError(f"the Mach-O file has type {kind}; expected a bundle or a dynamic library")
    dependencies: list[str] = []
    problems: list[str] = []
    imports, exports = set[str](), set[str]()
    macos_version: tuple[int, int] | None = None
    is_signed = False
    bindings = dict(_yield_macho_bindings(data, count))
    for command, at in _yield_macho_commands(data, count):
        if command in _LC_LOAD_DYLIB_COMMANDS:
            dependencies.append(_string(data, at + struct.unpack_from("<I", data, at + 8)[0]))
        elif command == _LC_CODE_SIGNATURE:
            is_signed = True
        elif command in (_LC_VERSION_MIN_MACOSX, _LC_BUILD_VERSION):
            platform, macos_version = _read_macos_version(data, command, at)
            if platform != _PLATFORM_MACOS:
                problems.append(f"it is built for platform {platform}; expected {_PLATFORM_MACOS} (macOS)")
        elif command == _LC_SYMTAB:
            for name, is_imported, ordinal in _yield_macho_symbols(data, *struct.unpack_from("<IIII", data, at + 8)):
                (imports if is_imported else exports).add(name)
                ordinal = bindings.get(name, ordinal)
                if is_imported and name.lstrip("_").startswith("Py") and ordinal != _DYNAMIC_LOOKUP:
                    problems.append(f"it imports {name} from library {ordinal}; expected the running process")
    return NativeLibrary(
        "macos",
        MACHO_PROCESSORS[processor],
        tuple(dependencies),
        frozenset(name.removeprefix("_") for name in imports),
        frozenset(name.removeprefix("_") for name in exports),
        macos_version,
        is_signed,
        tuple(problems),
    )


def _yield_macho_commands(data: bytes, count: int) -> Iterator[tuple[int, int]]:
    """Yield each load command with its position."""
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", data, at)
        if size < 8:
            raise ValueError(f"the load command at {at} has {size} bytes; expected 8 or more")
        yield command, at
        at += size


def _yield_macho_symbols(
    data: bytes, symbols_at: int, count: int, names_at: int, names_size: int
) -> Iterator[tuple[str, bool, int]]:
    """Yield name, whether it is imported, and library ordinal of each external symbol."""
    for index in range(count):
        name, kind, _, description, _ = struct.unpack_from("<IBBHQ", data, symbols_at + 16 * index)
        if not kind & _N_STAB and kind & _N_EXT and name < names_size:
            yield _string(data, names_at + name), not kind & _N_TYPE, description >> 8


def _yield_macho_bindings(data: bytes, count: int) -> Iterator[tuple[str, int]]:
    """Yield each symbol that the loader's opcodes bind, with its library ordinal."""
    for command, at in _yield_macho_commands(data, count):
        if command in _LC_DYLD_INFO:
            _, _, start, size, _, _, lazy_start, lazy_size = struct.unpack_from("<8I", data, at + 8)
            yield from _yield_bound_symbols(data[start : start + size])
            yield from _yield_bound_symbols(data[lazy_start : lazy_start + lazy_size])


def _yield_bound_symbols(opcodes: bytes) -> Iterator[tuple[str, int]]:
    """Yield each symbol that binding opcodes import, with the number of its library."""
    name, ordinal, at = "", 0, 0
    while at < len(opcodes):
        opcode, immediate = opcodes[at] & 0xF0, opcodes[at] & 0x0F
        at += 1
        if opcode == 0x10:  # BIND_OPCODE_SET_DYLIB_ORDINAL_IMM
            ordinal = immediate
        elif opcode == 0x30:  # BIND_OPCODE_SET_DYLIB_SPECIAL_IMM: a negative number of four bits
            ordinal = 0xF0 | immediate if immediate else 0
        elif opcode == 0x40:  # BIND_OPCODE_SET_SYMBOL_TRAILING_FLAGS_IMM
            name = _string(opcodes, at)
            at += len(name) + 1
        elif opcode >= 0x90:  # BIND_OPCODE_DO_BIND and its variants
            yield name, ordinal
        for _ in range({0x20: 1, 0x60: 1, 0x70: 1, 0x80: 1, 0xA0: 1, 0xC0: 2}.get(opcode, 0)):
            while opcodes[at] & 0x80:  # an operand in LEB128
                at += 1
            at += 1


def _read_macos_version(data: bytes, command: int, at: int) -> tuple[int, tuple[int, int]]:
    """Return the platform of a load command, and the oldest version of it."""
    platform = _PLATFORM_MACOS
    if command == _LC_BUILD_VERSION:
        platform, number = struct.unpack_from("<II", data, at + 8)
    else:
        (number,) = struct.unpack_from("<I", data, at + 8)
    return platform, (number >> 16, number >> 8 & 0xFF)


def _string(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
