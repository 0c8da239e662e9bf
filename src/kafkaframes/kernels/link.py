"""Make a unit's shared library out of its object file, with the C compiler that is there."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from kafkaframes.kernels.target import target

COMPILER_VARIABLE: Final = "KAFKAFRAMES_CC"
_GLUE: Final = Path(__file__).with_name("glue.c")
_COMPILE: Final = ("-c", "-fPIC", "-O2", "-std=c11", "-ffreestanding", "-fvisibility=hidden")
# No library is named: what the kernels call (memcpy and its like, and Python) is in the process already.
_FOR_LINUX: Final = ("-nostdlib", "-Wl,-z,relro,-z,now,-z,noexecstack", "-Wl,--build-id=none")
_FOR_MACOS: Final = ("-undefined", "dynamic_lookup", "-Wl,-install_name,unit.so")


class LinkError(Exception):
    """There is no C compiler, or it failed."""


@cache
def compiler() -> tuple[str, ...]:
    """Return the command of the C compiler for this target.

    Raises:
        LinkError: there is none.
    """
    command = shlex.split(os.environ.get(COMPILER_VARIABLE, "cc"))
    if not target().triple:
        raise LinkError("this processor is not one that kernels are compiled ahead for")
    if shutil.which(command[0]) is None:
        raise LinkError(f"no C compiler ({command[0]}) was found")
    return tuple(command)


def link(object_file: bytes, header: str, to: Path) -> None:
    """Write the library of one object to ``to``; nobody ever sees half of it.

    Raises:
        LinkError: see ``compiler``, or the compiler failed; the message has its last line.
    """
    with tempfile.TemporaryDirectory(prefix="kafkaframes-") as folder:
        build = Path(folder)
        (build / "unit.h").write_text(header)
        (build / "unit.o").write_bytes(object_file)
        made = build / "unit.so"
        glue = str(build / "glue.o")
        _run([*compiler(), *_COMPILE, f"-I{build}", str(_GLUE), "-o", glue])
        options = _FOR_MACOS if target().is_macos else _FOR_LINUX
        _run([*compiler(), "-shared", "-s", *options, glue, str(build / "unit.o"), "-o", str(made)])
        copy = to.with_name(f".{to.name}.{os.getpid()}")
        shutil.copyfile(made, copy)
        copy.chmod(0o644)
        copy.replace(to)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LinkError(f"{command[0]} failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
