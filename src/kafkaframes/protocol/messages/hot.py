"""Which messages have a specialised columns decoder, and compile those ahead: ``kafkaframes kernels warm --decoders``.

The table-driven kernel decodes every message at every version and is compiled once. The messages that make up nearly
all of a cluster's traffic are worth straight-line code of their own, twice as fast, that takes seconds each to compile:
so only the newest version of each, ahead (``make setup``), into the cache that all processes share. Nothing is ever
compiled because a message happens to come along; ``columns.specialise`` adds any other pair.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from kafkaframes.kernels.workers import Job
from kafkaframes.protocol.messages._kernels_hot import file_name, job, make
from kafkaframes.protocol.messages._program import Program, compile_program
from kafkaframes.protocol.messages.plan import plan_message
from kafkaframes.protocol.spec import catalog

APIS: Final = (
    "Metadata", "Produce", "Fetch", "ListOffsets", "OffsetCommit", "OffsetFetch", "ApiVersions", "Heartbeat",
    "JoinGroup",
)  # fmt: skip


def hot_messages() -> list[tuple[str, int]]:
    """List the (message, version) pairs that are compiled ahead."""
    names = [f"{api}{side}" for api in APIS for side in ("Request", "Response")]
    return [(name, catalog.load(name).latest_stable_version) for name in names]


def hot_programs() -> list[Program]:
    """Return the programs of ``hot_messages``."""
    return [compile_program(plan_message(catalog.load(name), version)) for name, version in hot_messages()]


def jobs(folder: Path) -> list[tuple[str, Job]]:
    """Return the file name of each decoder's library, and what the process that compiles it needs."""
    return [(file_name(program), job(program, folder)) for program in hot_programs()]


def make_hot(progress: Callable[[int], Callable[[Job], None]] | None = None) -> int:
    """Compile those that are not ready, on all cores; return how many those were."""
    return make(hot_programs(), progress)
