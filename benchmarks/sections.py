"""How long do fifty small sections of a fetch take to become Arrow, as one and one by one?

Run:   python benchmarks/sections.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import kafkaframes
from kafkaframes.records.chunks import Memory
from kafkaframes.records.columns import ReadOptions, RecordReader
from kafkaframes.records.memory import Recycler
from kafkaframes.records.scan import as_array
from kafkaframes.records.sections import read_sections

SECTIONS, RECORDS, ROUNDS = 50, 10, 200


def best(run: Callable[[], object]) -> float:
    """Return the CPU milliseconds of the best of the rounds."""
    found = 1e9
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        found = min(found, time.process_time() - start)
    return found * 1e3


def one_by_one(sections: list[bytes], options: ReadOptions, memory: Recycler) -> None:
    """Read each section with a reader of its own."""
    for section in sections:
        list(RecordReader(Memory(as_array(section)), options, memory=memory))


def main() -> None:
    """Measure and print."""
    rows = {"key": [b"key"] * RECORDS, "value": [b"v" * 100] * RECORDS, "timestamp": [10**12] * RECORDS}
    print(f"{SECTIONS} sections of {RECORDS} records, CPU ms: together / one by one")
    for codec in ("none", "lz4", "zstd"):
        sections = [kafkaframes.build_records(rows, codec=codec, base_offset=number) for number in range(SECTIONS)]
        memory, options = Recycler(), ReadOptions()
        together = best(partial(read_sections, sections, memory=memory))
        alone = best(partial(one_by_one, sections, options, memory))
        print(f"{codec}: {together:.2f} / {alone:.2f}")


if __name__ == "__main__":
    main()
