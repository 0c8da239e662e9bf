"""The processors that kernels are compiled ahead for, and whether this one is such a processor.

One target for each architecture, the same in a wheel, in a cache and in a pack, so that what one machine compiled
runs on another. A processor that lacks what its target asks for gets kernels of its own, compiled by numba.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from functools import cache
from typing import Final

# The psABI's level 3 in Linux's names (abm is LZCNT), and the multiplication without carries.
_LEVEL_3: Final = frozenset(
    ["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave", "sse4_2", "popcnt", "pclmulqdq"]
)


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of processor under an operating system.

    Attributes:
        name: part of the names of libraries that are compiled for it.
        triple, cpu, features: as LLVM names them.
        flags: of the processor, in Linux's names (``/proc/cpuinfo``), that the code needs.
        tags: the platforms of a wheel with such libraries (packaging.python.org, "Platform compatibility tags").
    """

    name: str
    triple: str
    cpu: str
    features: str
    flags: frozenset[str] = frozenset()
    tags: tuple[str, ...] = ()

    @property
    def is_macos(self) -> bool:
        """Say whether libraries are Mach-O files."""
        return "macos" in self.triple


# Libraries for Linux need no C library by name, so that they load beside glibc and musl.
TARGETS: Final = {
    "x86_64": Target(
        "x86-64-v3",
        "x86_64-unknown-linux-gnu",
        "x86-64-v3",
        "+pclmul",
        _LEVEL_3,
        ("manylinux_2_17_x86_64", "musllinux_1_1_x86_64"),
    ),
    "aarch64": Target(
        "armv8-a",
        "aarch64-unknown-linux-gnu",
        "generic",
        "+neon",
        tags=("manylinux_2_17_aarch64", "musllinux_1_1_aarch64"),
    ),
    "macos-x86_64": Target(  # level 2: Rosetta and the oldest machines that macOS 11 runs on have no AVX2
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
OTHER: Final = Target("this-machine", "", "", "")
OVERRIDE: Final = "KAFKAFRAMES_TARGET"  # a key of TARGETS, to compile for another machine; anything else is OTHER


@cache
def target() -> Target:
    """Return what kernels are compiled for here: the target that fits, or this very machine (``OTHER``)."""
    if chosen := os.environ.get(OVERRIDE):
        return TARGETS.get(chosen, OTHER)
    prefix = {"linux": "", "darwin": "macos-"}.get(sys.platform)
    is_free_threaded = "t" in sys.abiflags  # has no stable ABI: the fields of its objects stand elsewhere
    likely = OTHER if prefix is None or is_free_threaded else TARGETS.get(prefix + platform.machine().lower(), OTHER)
    return likely if likely.is_macos or likely.flags <= _processor_flags(likely) else OTHER


def has_crc32c() -> bool:
    """Tell whether kernels may use x86's instruction for CRC-32C (SSE 4.2)."""
    return _has("sse4_2", "sse4.2")


def has_carryless() -> bool:
    """Tell whether kernels may use x86's multiplication without carries."""
    return _has("pclmulqdq", "pclmul")


def _has(flag: str, feature: str) -> bool:
    chosen = target()
    if chosen is not OTHER:
        return flag in chosen.flags
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    try:
        import llvmlite.binding as llvm
    except ImportError:  # nothing is compiled without it
        return False
    return bool(llvm.get_host_cpu_features().get(feature, False))


def _processor_flags(target: Target) -> frozenset[str]:
    """Read what Linux says of the first processor; its list stands in the first kilobytes."""
    if not target.flags:
        return frozenset()
    try:
        with open("/proc/cpuinfo", "rb") as file:
            lines = file.read(16384).decode("ascii", "replace").splitlines()
    except OSError:
        return frozenset()
    flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    return frozenset(flags.split())
