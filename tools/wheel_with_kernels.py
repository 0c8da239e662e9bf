"""Put compiled kernels into a pure wheel: ``python tools/wheel_with_kernels.py PURE.whl FOLDER``, a folder
that ``kafkaframes kernels pack`` filled. Prints the name of the new wheel, which is next to the pure wheel.

The libraries use Python's stable ABI, so that one wheel for each target serves CPython 3.11 and all later ones.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kafkaframes.kernels.directories import BUNDLED_DIRECTORY, LIBRARY_SUFFIX, PACKAGE_DIRECTORY
from kafkaframes.kernels.target import TARGETS, Target

PYTHON: Final = "cp311-abi3"
LIBRARIES_FOLDER: Final = f"kafkaframes/{BUNDLED_DIRECTORY.relative_to(PACKAGE_DIRECTORY)}"
_GLIBC_PATTERN: Final = re.compile(rb"GLIBC_\d+\.\d+")
_FILE_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the same input gives the same wheel


def main() -> None:
    """Write the wheel."""
    pure, folder = map(Path, sys.argv[1:3])
    print(write_wheel(pure, sorted(folder.glob(f"*{LIBRARY_SUFFIX}"))))


def write_wheel(pure: Path, libraries: Iterable[Path]) -> Path:
    """Write a wheel with ``libraries`` next to ``pure``, tagged for their target; return its path.

    Raises:
        ValueError: there are no libraries, they are for several targets, or they require a version of glibc.
    """
    libraries = list(libraries)
    tags = _find_target(libraries).tags
    name, version, *_ = pure.name.split("-")
    wheel_path = pure.with_name(f"{name}-{version}-{PYTHON}-{'.'.join(tags)}.whl")
    record: list[str] = []
    with zipfile.ZipFile(pure) as source, zipfile.ZipFile(wheel_path, "w", zipfile.ZIP_DEFLATED) as target:
        names = [name for name in source.namelist() if not name.endswith(".dist-info/RECORD")]
        for inside in names:
            content = source.read(inside)
            if inside.endswith(".dist-info/WHEEL"):
                content = _replace_tags(content.decode(), tags).encode()
            _add_file(target, inside, content, record)
        for library in libraries:
            _add_file(target, f"{LIBRARIES_FOLDER}/{library.name}", library.read_bytes(), record, mode=0o755)
        own = f"{name}-{version}.dist-info/RECORD"
        target.writestr(_build_zip_entry(own, 0o644), "\n".join([*record, f"{own},,", ""]))
    return wheel_path


def record_digest(content: bytes) -> str:
    """Return the digest of a file in the form of a wheel's RECORD."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _find_target(libraries: Iterable[Path]) -> Target:
    """Return the common target of all libraries, from their names."""
    names = {library.name for library in libraries}
    for library in libraries:
        if versions := _GLIBC_PATTERN.findall(library.read_bytes()):
            raise ValueError(f"{library.name} requires a C library: {versions[0].decode()}")
    targets = {
        target for target in TARGETS.values() for name in names if re.search(rf"-{target.name}-[0-9a-f]{{16}}\.", name)
    }
    if len(targets) != 1:
        target_names = ", ".join(sorted(target.name for target in targets))
        raise ValueError(f"the libraries are for {target_names or 'none'}; expected one target")
    return targets.pop()


def _replace_tags(text: str, platforms: Iterable[str]) -> str:
    """Return the wheel's WHEEL file with the tags of the platforms."""
    text = re.sub(r"^Root-Is-Purelib: .*$", "Root-Is-Purelib: false", text, flags=re.MULTILINE)
    tags = "\n".join(f"Tag: {PYTHON}-{platform}" for platform in platforms)
    return re.sub(r"^Tag: .*$", tags, text, flags=re.MULTILINE)


def _add_file(target: zipfile.ZipFile, path: str, content: bytes, record: list[str], mode: int = 0o644) -> None:
    """Add a file to the wheel and to its RECORD."""
    target.writestr(_build_zip_entry(path, mode), content)
    record.append(f"{path},{record_digest(content)},{len(content)}")


def _build_zip_entry(path: str, mode: int) -> zipfile.ZipInfo:
    """Return the zip entry of a file with a fixed time."""
    information = zipfile.ZipInfo(path, _FILE_TIME)
    information.compress_type = zipfile.ZIP_DEFLATED
    information.external_attr = (0o100000 | mode) << 16
    return information


if __name__ == "__main__":
    main()
