"""``tools/check_dist.py`` on generated libraries and wheels with one fault each."""

from __future__ import annotations

import base64
import hashlib
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tools.check_dist import ENTRY_SYMBOL, REQUIRED_FILES, check_directory, check_library, check_wheel
from tools.native_libraries import read_library

from kafkaframes.kernels.target import TARGETS

ARM64, X86_64 = 0x0100000C, 0x01000007
FLAT, SYSTEM = 0xFE, 1


def build_macho(
    *,
    processor: int = ARM64,
    platform: int = 1,
    oldest: tuple[int, int] = (11, 0),
    libraries: tuple[str, ...] = ("/usr/lib/libSystem.B.dylib",),
    imported: tuple[tuple[str, int], ...] = (("_PyLong_FromLongLong", FLAT), ("_memcpy", SYSTEM)),
    exported: tuple[str, ...] = (f"_{ENTRY_SYMBOL}",),
    is_signed: bool = True,
    bindings: bytes = b"",
) -> bytes:
    """Return the headers of a Mach-O bundle, and its symbols."""
    names, symbols = b"\0", b""
    for name, ordinal in imported:
        symbols += struct.pack("<IBBHQ", len(names), 0x01, 0, ordinal << 8, 0)
        names += name.encode() + b"\0"
    for name in exported:
        symbols += struct.pack("<IBBHQ", len(names), 0x0F, 1, 0, 0x1000)
        names += name.encode() + b"\0"
    commands = [struct.pack("<IIIIII", 0x32, 24, platform, oldest[0] << 16 | oldest[1] << 8, 0, 0)]
    for library in libraries:
        path = library.encode() + b"\0" * (8 - len(library) % 8)
        commands.append(struct.pack("<IIIIII", 0xC, 24 + len(path), 24, 0, 0, 0) + path)
    if is_signed:
        commands.append(struct.pack("<IIII", 0x1D, 16, 0, 0))
    if bindings:
        bindings_at = 32 + sum(map(len, commands)) + 48 + 24
        commands.append(struct.pack("<12I", 0x80000022, 48, 0, 0, bindings_at, len(bindings), *[0] * 6))
    symbols_at = 32 + sum(map(len, commands)) + 24 + len(bindings)
    count = len(imported) + len(exported)
    commands.append(struct.pack("<IIIIII", 2, 24, symbols_at, count, symbols_at + len(symbols), len(names)))
    head = struct.pack("<8I", 0xFEEDFACF, processor, 0, 8, len(commands), sum(map(len, commands)), 0, 0)
    return head + b"".join(commands) + bindings + symbols + names


def build_elf(
    *, machine: int = 62, imported: tuple[str, ...] = ("PyLong_FromLongLong", "memcpy"), stack: int = 6
) -> bytes:
    """Return the headers of an ELF library, and its symbols."""
    names, symbols = b"\0", bytes(24)
    for name in imported:
        symbols += struct.pack("<IBBHQQ", len(names), 0x10, 0, 0, 0, 0)
        names += name.encode() + b"\0"
    symbols += struct.pack("<IBBHQQ", len(names), 0x12, 0, 1, 0x1000, 16)
    names += ENTRY_SYMBOL.encode() + b"\0"
    dynamic_at = 64 + 2 * 56
    dynamic = struct.pack("<QQQQ", 30, 8, 0, 0)
    symbols_at = dynamic_at + len(dynamic)
    names_at = symbols_at + len(symbols)
    sections_at = names_at + len(names)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, sections_at, 0, 64, 56, 2, 64, 3, 0)
    segments = struct.pack("<IIQQQQQQ", 2, 6, dynamic_at, 0, 0, len(dynamic), 0, 8)
    segments += struct.pack("<IIQQQQQQ", 0x6474E551, stack, 0, 0, 0, 0, 0, 0)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, symbols_at, len(symbols), 2, 1, 8, 24)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, names_at, len(names), 0, 0, 1, 0)
    return head + segments + dynamic + symbols + names + sections


@pytest.mark.parametrize(
    ("target", "data"),
    [
        ("macos-arm64", build_macho()),
        (
            "macos-arm64",
            build_macho(imported=(("_PyLong_FromLongLong", 0),), bindings=b"\x71\x00@_PyLong_FromLongLong\x00Q>\x90"),
        ),
        ("macos-x86_64", build_macho(processor=X86_64, is_signed=False)),
        ("x86_64", build_elf()),
        ("aarch64", build_elf(machine=183)),
    ],
)
def test_correct_libraries_have_no_problem(target: str, data: bytes) -> None:
    assert list(check_library(data, TARGETS[target])) == []


@pytest.mark.parametrize(
    ("target", "data", "problem"),
    [
        ("macos-arm64", build_macho(processor=X86_64), "it is for macos on x86_64; expected macos on arm64"),
        ("macos-arm64", build_macho(is_signed=False), "it is not signed"),
        ("macos-arm64", build_macho(oldest=(12, 3)), r"it requires macOS \(12, 3\)"),
        ("macos-arm64", build_macho(platform=2), "it is built for platform 2"),
        ("macos-arm64", build_macho(libraries=("/opt/lib/libomp.dylib",)), "it requires /opt/lib/libomp.dylib"),
        (
            "macos-arm64",
            build_macho(imported=(("_PyLong_FromLongLong", SYSTEM),)),
            "from library 1; expected the running",
        ),
        (
            "macos-arm64",
            build_macho(bindings=b"\x71\x00@_PyLong_FromLongLong\x00Q\x11\x90"),
            "from library 1; expected the running",
        ),
        ("macos-arm64", build_macho(imported=(("_printf", SYSTEM),)), "it imports printf"),
        ("macos-arm64", build_macho(exported=()), "it does not export"),
        ("macos-arm64", build_elf(), "it is for linux on x86_64"),
        ("x86_64", build_elf(machine=183), "it is for linux on aarch64"),
        ("x86_64", build_elf(stack=7), "executable stack"),
        ("x86_64", build_elf(imported=("_PyLong_Private", "memcpy")), "it imports _PyLong_Private"),
        ("x86_64", build_elf()[:300], "incomplete"),
        ("x86_64", b"\xca\xfe\xba\xbe", "expected a 64-bit ELF or Mach-O library"),
    ],
)
def test_each_fault_of_a_library_is_reported(target: str, data: bytes, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        assert not list(check_library(data, TARGETS[target])), list(check_library(data, TARGETS[target]))


def test_a_truncated_library_gives_only_the_expected_error() -> None:
    for data in (build_macho(), build_elf()):
        for size in range(len(data)):
            try:
                read_library(data[:size])
            except ValueError:
                continue


def write_wheel(path: Path, *, change: Callable[[dict[str, bytes]], None] = lambda contents: None) -> Path:
    """Write a wheel for macOS on Apple silicon. ``change`` may alter the wheel's files after RECORD is written."""
    information = "kafkaframes-1.0.0.dist-info"
    contents = dict.fromkeys(REQUIRED_FILES, b"text\n")
    contents["kafkaframes/kernels/compiled/wire._kernels-armv8-a-macos-0123456789abcdef.abi3.so"] = build_macho()
    contents[f"{information}/METADATA"] = b"Metadata-Version: 2.4\nName: kafkaframes\nVersion: 1.0.0\n"
    contents[f"{information}/WHEEL"] = b"Wheel-Version: 1.0\nTag: cp311-abi3-macosx_11_0_arm64\n"
    contents[f"{information}/entry_points.txt"] = b"[console_scripts]\n"
    rows = []
    for name, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(content)}\n")
    contents[f"{information}/RECORD"] = "".join([*rows, f"{information}/RECORD,,\n"]).encode()
    change(contents)
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in contents.items():
            wheel.writestr(name, content)
    return path


def test_a_correct_wheel_has_no_problem(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "x.whl")
    assert list(check_wheel(wheel, "1.0.0", TARGETS["macos-arm64"])) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda contents: contents.pop("kafkaframes/py.typed"), "RECORD lists kafkaframes/py.typed"),
        (lambda contents: contents.update({"new.py": b""}), "RECORD does not list new.py"),
        (lambda contents: contents.update({"kafkaframes/py.typed": b"other"}), "another digest or size"),
        (lambda contents: contents.pop("kafkaframes-1.0.0.dist-info/WHEEL"), "WHEEL is missing"),
    ],
)
def test_each_fault_of_a_wheel_is_reported(
    tmp_path: Path, change: Callable[[dict[str, bytes]], None], problem: str
) -> None:
    wheel = write_wheel(tmp_path / "x.whl", change=change)
    assert any(problem in line for line in check_wheel(wheel, "1.0.0", TARGETS["macos-arm64"]))


def test_tags_and_version_must_match_the_release(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "x.whl")
    problems = "\n".join(check_wheel(wheel, "1.0.0", TARGETS["x86_64"]))
    assert "WHEEL has the tags cp311-abi3-macosx_11_0_arm64; expected cp311-abi3-manylinux_2_17_x86_64" in problems


def test_a_release_has_exactly_its_files(tmp_path: Path) -> None:
    (tmp_path / "kafkaframes-0.9.0.tar.gz").write_bytes(b"")
    problems = list(check_directory(tmp_path, "1.0.0"))
    assert sum("is missing" in problem for problem in problems) == len(TARGETS) + 2
    assert "kafkaframes-0.9.0.tar.gz is not a file of release 1.0.0" in problems
