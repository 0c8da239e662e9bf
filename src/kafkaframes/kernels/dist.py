"""Put compiled kernels into a pure wheel: ``python -m kafkaframes.kernels.dist PURE.whl FOLDER``, a folder that
``kafkaframes kernels pack`` filled. Prints the name of the wheel that it wrote beside the pure one.

The libraries use Python's stable ABI, so that one wheel for each architecture serves CPython 3.11 and all later ones.
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

from kafkaframes.kernels.directories import BUNDLED, PACKAGE, SUFFIX
from kafkaframes.kernels.target import TARGETS

PYTHON: Final = "cp311-abi3"
_INSIDE: Final = f"kafkaframes/{BUNDLED.relative_to(PACKAGE)}"
_GLIBC: Final = re.compile(rb"GLIBC_(\d+)\.(\d+)")
_OLDEST_GLIBC: Final = (2, 17)  # of manylinux2014; ours need no more
_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the same input gives the same wheel


def main() -> None:
    """Write the wheel."""
    pure, folder = map(Path, sys.argv[1:3])
    print(write(pure, sorted(folder.glob(f"*{SUFFIX}"))))


def write(pure: Path, libraries: Iterable[Path]) -> Path:
    """Write a wheel with ``libraries`` beside ``pure``, tagged for their architecture; return its path.

    Raises:
        ValueError: there are none, they are for several processors, or they need a newer C library than their tag says.
    """
    libraries = list(libraries)
    platform = f"manylinux_{_OLDEST_GLIBC[0]}_{_OLDEST_GLIBC[1]}_{_architecture(libraries)}"
    name, version, *_ = pure.name.split("-")
    made = pure.with_name(f"{name}-{version}-{PYTHON}-{platform}.whl")
    record: list[str] = []
    with zipfile.ZipFile(pure) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        names = [one for one in source.namelist() if not one.endswith(".dist-info/RECORD")]
        for inside in names:
            content = source.read(inside)
            if inside.endswith(".dist-info/WHEEL"):
                content = _tagged(content.decode(), platform).encode()
            _add(target, inside, content, record)
        for library in libraries:
            _add(target, f"{_INSIDE}/{library.name}", library.read_bytes(), record, mode=0o755)
        place = f"{name}-{version}.dist-info/RECORD"
        text = "\n".join([*record, f"{place},,", ""])
        target.writestr(_information(place, 0o644), text)
    return made


def _architecture(libraries: Iterable[Path]) -> str:
    """Return the architecture that all libraries are for, which their names say, having looked at what they need."""
    found = set()
    for library in libraries:
        needed = [tuple(map(int, match)) for match in _GLIBC.findall(library.read_bytes())]
        if any(version > _OLDEST_GLIBC for version in needed):
            raise ValueError(f"{library.name} needs a C library newer than {_OLDEST_GLIBC}: {max(needed)}")
        found |= {name for name, target in TARGETS.items() if f"-{target.name}-" in library.name}
    if len(found) != 1:
        raise ValueError(f"libraries for one architecture are needed, these are for {sorted(found) or 'none'}")
    return found.pop()


def _tagged(text: str, platform: str) -> str:
    text = re.sub(r"^Root-Is-Purelib: .*$", "Root-Is-Purelib: false", text, flags=re.MULTILINE)
    return re.sub(r"^Tag: .*$", f"Tag: {PYTHON}-{platform}", text, flags=re.MULTILINE)


def _add(target: zipfile.ZipFile, place: str, content: bytes, record: list[str], mode: int = 0o644) -> None:
    target.writestr(_information(place, mode), content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record.append(f"{place},sha256={digest},{len(content)}")


def _information(place: str, mode: int) -> zipfile.ZipInfo:
    information = zipfile.ZipInfo(place, _TIME)
    information.compress_type = zipfile.ZIP_DEFLATED
    information.external_attr = (0o100000 | mode) << 16
    return information


if __name__ == "__main__":
    main()
