"""Targets (processors and systems) for which kernels are compiled in advance, and the detection of this machine's
target.

Each architecture has one target, in wheels, caches and packs, so that a library that one machine compiled runs on
other machines. If a processor lacks an instruction set of its target, numba compiles kernels for this processor only.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from functools import cache
from typing import Final

# Level 3 of the x86-64 psABI, with Linux's names (abm is LZCNT), and carry-less multiplication.
_X86_64_V3_FLAGS: Final = frozenset(
    ["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave", "sse4_2", "popcnt", "pclmulqdq"]
)


@dataclass(frozen=True, slots=True)
class Target:
    """A processor family and an operating system for which kernels are compiled.

    Attributes:
        name: part of the file names of the target's libraries.
        triple: LLVM's target triple.
        cpu: LLVM's name of the processor.
        features: LLVM's names of additional features.
        flags: processor flags that the code requires, with Linux's names (``/proc/cpuinfo``).
        tags: platform tags of the target's wheels (packaging.python.org, "Platform compatibility tags").
    """

    name: str
    triple: str
    cpu: str
    features: str
    flags: frozenset[str] = frozenset()
    tags: tuple[str, ...] = ()

    @property
    def is_macos(self) -> bool:
        """Whether the operating system is macOS, with Mach-O libraries."""
        return "macos" in self.triple


# Libraries for Linux are linked against no C library, so that they can be loaded with glibc and musl.
TARGETS: Final = {
    "x86_64": Target(
        "x86-64-v3",
        "x86_64-unknown-linux-gnu",
        "x86-64-v3",
        "+pclmul",
        _X86_64_V3_FLAGS,
        ("manylinux_2_17_x86_64", "musllinux_1_1_x86_64"),
    ),
    "aarch64": Target(
        "armv8-a",
        "aarch64-unknown-linux-gnu",
        "generic",
        "+neon",
        tags=("manylinux_2_17_aarch64", "musllinux_1_1_aarch64"),
    ),
    "macos-x86_64": Target(  # x86-64 level 2, because Rosetta and the oldest machines with macOS 11 lack AVX2
        "x86-64-v2-macos",
        "x86_64-apple-macosx11.0.0",
        "x86-64-v2",
        "+pclmul",
        frozenset(["sse4_2", "popcnt", "pclmulqdq"]),
        ("macosx_11_0_x86_64",),
    ),
    "macos-arm64": Target(
        "armv8-a-macos", "arm64-apple-macosx11.0.0", "apple-m1", "+neon", tags=("macosx_11_0_arm64",)
    ),
}
THIS_MACHINE: Final = Target("this-machine", "", "", "")
# Environment variable with the target that kernels are compiled for: a key of TARGETS, to compile for another machine.
# Any other value selects THIS_MACHINE.
COMPILE_TARGET_VARIABLE: Final = "KAFKAFRAMES_TARGET"


@cache
def detect_target() -> Target:
    """Return the target for this machine, or ``THIS_MACHINE`` to compile for this processor only."""
    if key := os.environ.get(COMPILE_TARGET_VARIABLE):
        return TARGETS.get(key, THIS_MACHINE)
    prefix = {"linux": "", "darwin": "macos-"}.get(sys.platform)
    # A free-threaded Python has no stable ABI: the layout of its objects differs.
    is_free_threaded = "t" in sys.abiflags
    candidate = (
        THIS_MACHINE
        if prefix is None or is_free_threaded
        else TARGETS.get(prefix + platform.machine().lower(), THIS_MACHINE)
    )
    return candidate if candidate.is_macos or candidate.flags <= _read_processor_flags(candidate) else THIS_MACHINE


def has_crc32c() -> bool:
    """Return whether kernels may use the x86 instruction for CRC-32C (SSE 4.2)."""
    return _has_feature("sse4_2", "sse4.2")


def has_carryless_multiplication() -> bool:
    """Return whether kernels may use the x86 instruction for carry-less multiplication."""
    return _has_feature("pclmulqdq", "pclmul")


def _has_feature(flag: str, feature: str) -> bool:
    machine_target = detect_target()
    if machine_target is not THIS_MACHINE:
        return flag in machine_target.flags
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    try:
        import llvmlite.binding as llvm
    except ImportError:  # kernels cannot be compiled without llvmlite
        return False
    return bool(llvm.get_host_cpu_features().get(feature, False))


def _read_processor_flags(target: Target) -> frozenset[str]:
    """Return the flags of the first processor. The list is in the first 16 KiB of ``/proc/cpuinfo``."""
    if not target.flags:
        return frozenset()
    try:
        with open("/proc/cpuinfo", "rb") as file:
            lines = file.read(16384).decode("ascii", "replace").splitlines()
    except OSError:
        return frozenset()
    flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    return frozenset(flags.split())
