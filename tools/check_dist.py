"""Check the files of a release, on any machine: ``python -m tools.check_dist DIST``.

DIST must contain an sdist, the pure wheel and a wheel for each target, all of this version. Names, tags, records and
the libraries of each wheel are checked: processor, dependencies, symbols and, for macOS, load commands and signatures.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.native_libraries import read_library
from tools.wheel_with_kernels import LIBRARIES_FOLDER, PYTHON, record_digest

from kafkaframes import __version__
from kafkaframes.kernels.target import TARGETS, Target

ENTRY_SYMBOL: Final = "PyInit_kafkaframes_unit"
REQUIRED_FILES: Final = (
    "kafkaframes/py.typed",
    "kafkaframes/protocol/messages/kafka.pyi",
    "pyspark_kafka_capture.py",
    "pyspark_kafka_log.py",
    "pyspark_kafka_topic.py",
)
SDIST_FILES: Final = (
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "PKG-INFO",
    "README.md",
    "pyproject.toml",
    "src/kafkaframes/protocol/messages/kafka.pyi",
    "tests/conftest.py",
    "uv.lock",
)
_C_FUNCTIONS: Final = frozenset(["memcmp", "memcpy", "memmove", "memset"])  # functions that LLVM calls by itself
_MACOS_FUNCTIONS: Final = _C_FUNCTIONS | {"__bzero", "bzero", "dyld_stub_binder", "memset_pattern16"}
_PYTHON_SYMBOL: Final = re.compile(r"Py[A-Z]\w*|Py_\w+|_Py_NoneStruct|_Py_TrueStruct|_Py_FalseStruct")
_MACOS_LIBRARIES: Final = {"/usr/lib/libSystem.B.dylib"}
_LIBRARY_NAME: Final = re.compile(r"(.+?)-[\w.-]+-[0-9a-f]{16}\.abi3\.so")


def check_directory(directory: Path, version: str = __version__) -> Iterator[str]:
    """Yield each problem of the files of a release."""
    pure = f"kafkaframes-{version}-py3-none-any.whl"
    wheels = {f"kafkaframes-{version}-{PYTHON}-{'.'.join(target.tags)}.whl": target for target in TARGETS.values()}
    sdist = f"kafkaframes-{version}.tar.gz"
    names = {pure, sdist, *wheels}
    actual = {path.name for path in directory.iterdir() if not path.name.startswith(".")}
    yield from (f"{name} is missing" for name in sorted(names - actual))
    yield from (f"{name} is not a file of release {version}" for name in sorted(actual - names))
    units: dict[str, frozenset[str]] = {}
    for name in sorted(names & actual):
        if name == sdist:
            problems = check_sdist(directory / name)
        else:
            target = wheels.get(name)
            problems = check_wheel(directory / name, version, target)
            if target is not None:
                units[name] = find_wheel_modules(directory / name)
        yield from (f"{name}: {problem}" for problem in problems)
    if len(set(units.values())) > 1:
        counts = ", ".join(f"{name}: {len(modules)}" for name, modules in units.items())
        yield f"the wheels have libraries of different modules ({counts})"


def check_sdist(path: Path) -> Iterator[str]:
    """Yield each problem of an sdist."""
    top = path.name.removesuffix(".tar.gz")
    with tarfile.open(path) as archive:
        names = set(archive.getnames())
    yield from (f"{name} is missing" for name in SDIST_FILES if f"{top}/{name}" not in names)
    yield from (f"{name} is outside of {top}" for name in sorted(names) if not name.startswith(f"{top}/"))
    yield from (f"{name} is not a source" for name in sorted(names) if re.search(r"\.(pyc|so|dylib)$", name))


def check_wheel(path: Path, version: str, target: Target | None) -> Iterator[str]:
    """Yield each problem of a wheel for a target, or of the pure wheel."""
    information = f"kafkaframes-{version}.dist-info"
    with zipfile.ZipFile(path) as wheel:
        contents = {name: wheel.read(name) for name in wheel.namelist()}
    yield from (f"{name} is missing" for name in REQUIRED_FILES if name not in contents)
    metadata_files = [f"{information}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")]
    missing = [name for name in metadata_files if name not in contents]
    yield from (f"{name} is missing" for name in missing)
    if missing:
        return
    if f"\nVersion: {version}\n" not in contents[f"{information}/METADATA"].decode():
        yield f"METADATA does not have the version {version}"
    tags = [f"{PYTHON}-{tag}" for tag in target.tags] if target else ["py3-none-any"]
    actual_tags = re.findall(r"^Tag: (.*)$", contents[f"{information}/WHEEL"].decode(), re.MULTILINE)
    if sorted(actual_tags) != sorted(tags):
        yield f"WHEEL has the tags {', '.join(actual_tags)}; expected {', '.join(tags)}"
    yield from check_record(contents, f"{information}/RECORD")
    libraries = {name: content for name, content in contents.items() if name.endswith(".so")}
    if bool(libraries) != (target is not None):
        yield f"it has {len(libraries)} libraries"
    if target is not None:
        for name, content in libraries.items():
            yield from (f"{Path(name).name}: {problem}" for problem in check_library(content, target))


def check_record(contents: dict[str, bytes], record: str) -> Iterator[str]:
    """Yield each difference between the files of a wheel and its RECORD."""
    rows = [line.rsplit(",", 2) for line in contents[record].decode().splitlines()]
    paths = {row[0] for row in rows}
    yield from (f"RECORD does not list {name}" for name in sorted(contents.keys() - paths))
    yield from (f"RECORD lists {name}, which is missing" for name in sorted(paths - contents.keys()))
    for name, digest, size in rows:
        if name == record or name not in contents:
            continue
        if (digest, size) != (record_digest(contents[name]), str(len(contents[name]))):
            yield f"RECORD has another digest or size for {name}"


def check_library(data: bytes, target: Target) -> Iterator[str]:
    """Yield each reason for which a target's loader can reject a library."""
    try:
        library = read_library(data)
    except ValueError as error:
        yield str(error)
        return
    system, processor = ("macos" if target.is_macos else "linux"), target.tags[0].split("_", 3)[-1]
    if (library.system, library.processor) != (system, processor):
        yield f"it is for {library.system} on {library.processor}; expected {system} on {processor}"
    allowed_libraries = _MACOS_LIBRARIES if target.is_macos else set()
    yield from (f"it requires {name}" for name in sorted(set(library.required_libraries) - allowed_libraries))
    allowed_symbols = _MACOS_FUNCTIONS if target.is_macos else _C_FUNCTIONS
    for name in sorted(library.imported_symbols - allowed_symbols):
        if not _PYTHON_SYMBOL.fullmatch(name):
            yield f"it imports {name}, which is not part of Python's API"
    if ENTRY_SYMBOL not in library.exported_symbols:
        yield f"it does not export {ENTRY_SYMBOL}"
    if target.is_macos:
        oldest = tuple(map(int, target.tags[0].split("_")[1:3]))
        if library.macos_version is None or library.macos_version > oldest:
            yield f"it requires macOS {library.macos_version}; expected {oldest} or older"
        if processor == "arm64" and not library.is_signed:
            yield "it is not signed; macOS on Apple silicon rejects it"
    yield from library.problems


def find_wheel_modules(path: Path) -> frozenset[str]:
    """Return the module of each library in a wheel."""
    with zipfile.ZipFile(path) as wheel:
        names = [Path(name).name for name in wheel.namelist() if name.startswith(f"{LIBRARIES_FOLDER}/")]
    return frozenset(match[1] for name in names if (match := _LIBRARY_NAME.fullmatch(name)))


def main() -> int:
    """Print each problem; return 1 if there is one."""
    directory = Path(sys.argv[1])
    problems = list(check_directory(directory))
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{directory}: {len(TARGETS) + 1} wheels and an sdist of {__version__} are complete")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
