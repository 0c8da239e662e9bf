"""Which messages have a specialised columns decoder, and compile those ahead: ``python -m kafkaframes.messages.hot``.

The table-driven kernel decodes every message at every version and is compiled once. The messages that make up nearly
all of a cluster's traffic are worth straight-line code of their own, twice as fast, that takes seconds each to compile:
so only the newest version of each, ahead (``make setup``), into the cache that all processes share. Nothing is ever
compiled because a message happens to come along; ``columns.specialise`` adds any other pair.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from kafkaframes.messages.columns import specialise
from kafkaframes.messages.plan import plan_message
from kafkaframes.spec import catalog

APIS: Final = (
    "Metadata", "Produce", "Fetch", "ListOffsets", "OffsetCommit", "OffsetFetch", "ApiVersions", "Heartbeat",
    "JoinGroup",
)  # fmt: skip


def hot_messages() -> list[tuple[str, int]]:
    """List the (message, version) pairs that are compiled ahead."""
    names = [f"{api}{side}" for api in APIS for side in ("Request", "Response")]
    return [(name, catalog.load(name).latest_stable_version) for name in names]


def warm_one(pair: tuple[str, int]) -> bool:
    """Compile one pair if the cache lacks it; return whether it did."""
    name, version = pair
    return specialise(plan_message(catalog.load(name), version))


def main() -> None:
    """Compile what the cache lacks, on all cores."""
    pairs = hot_messages()
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(pairs))) as pool:
        compiled = sum(pool.map(warm_one, pairs))
    names = ", ".join(f"{name} v{version}" for name, version in pairs)
    print(f"straight-line decoders: {names} ({compiled} compiled now)")


if __name__ == "__main__":
    main()
