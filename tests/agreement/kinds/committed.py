"""Kind ``committed``: the records that live consumers received under both isolation levels, and their end offsets.

Each partition is read twice: with the transaction indexes, and with the markers only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.agreement.kind import Case, Kind, differences
from tests.storage.log.delivered import yield_delivered_offsets

from kafkaframes.storage.files.directory import LogDirectory, Partition, partitions_of
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.transactions import ISOLATION_LEVELS, read_transactions

SUFFIX = ".committed.json"


def cases(folder: Path) -> Iterator[Case]:
    for truth in sorted(folder.glob(f"*{SUFFIX}")):
        yield Case(truth.name.removesuffix(SUFFIX), str(truth))


def disagreements(case: Case) -> Iterator[str]:
    truth_path = Path(case.payload)
    truth = json.loads(truth_path.read_text())
    (directory,) = discover(str(truth_path.parent / truth_path.name.removesuffix(SUFFIX)))
    live = {
        str(one.topic_partition): one
        for _, one in partitions_of([directory])
        if not one.topic.startswith("__")  # the consumers did not read internal topics
    }
    for use_indexes in (True, False):
        committed_values = {
            isolation: {name: _read_consumed(directory, one, isolation, use_indexes) for name, one in live.items()}
            for isolation in ISOLATION_LEVELS
        }
        yield from differences(truth, committed_values, "with indexes" if use_indexes else "by markers")


def _read_consumed(directory: LogDirectory, partition: Partition, isolation: str, use_indexes: bool) -> dict[str, Any]:
    state = read_transactions(directory.filesystem, partition, use_indexes=use_indexes)
    offsets = list(yield_delivered_offsets(directory.filesystem, partition, isolation=isolation, state=state))
    end = state.end_offset_for(isolation)
    return {"ranges": _to_ranges(offsets), "count": len(offsets), "end": end, "position": end}


def _to_ranges(offsets: Iterable[int]) -> list[list[int]]:
    ranges: list[list[int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    return ranges


KIND = Kind("committed", ("logs",), cases, disagreements)
