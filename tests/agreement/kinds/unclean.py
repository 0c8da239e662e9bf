"""Kind ``unclean``: what a real broker's recovery kept, worked out from the directory as it was before.

The product is given ``before/`` alone. Its plan is carried out on a copy, as far as records go: deleted files are left
out, swaps renamed, segments cut; then each line about the copy is compared with the truth about ``after/``.
"""

from __future__ import annotations

import gzip
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.agreement.corpus import LogCase, log_cases
from tests.agreement.kind import Case, Kind, differences
from tests.agreement.kinds.logs import TRUTH, found_lines, lines

from kafkaframes.log.directory import LogDirectory, discover
from kafkaframes.log.recovery_plan import RecoveryPlan, plan_recovery

ENOUGH = 40


def _cases(folder: Path) -> Iterator[Case]:
    for case in log_cases(folder, TRUTH):
        if case.name.endswith(".after"):
            yield Case(case.name.removesuffix(".after"), case)


def _compare(case: LogCase) -> Iterator[str]:
    before = case.directory.parent / "before"
    if not case.truth.is_file() or not before.is_dir():
        yield f"{case.truth} or {before} is missing"
        return
    with tempfile.TemporaryDirectory() as scratch, gzip.open(case.truth) as truth:
        (directory,) = discover(str(before))
        for partition in directory.partitions:
            _carry_out(directory, plan_recovery(directory, partition), Path(scratch))
        pairs = itertools.zip_longest(lines(truth), lines(found_lines(Path(scratch))))
        for number, (expected, found) in enumerate(pairs, start=1):
            yield from (f"line {number}: {text}" for text in differences(expected, found))


def _carry_out(directory: LogDirectory, plan: RecoveryPlan, scratch: Path) -> None:
    target = scratch / Path(plan.partition.directory).name
    target.mkdir()
    for segment in plan.segments:
        kept = directory.filesystem.read(segment.path, length=segment.size_bytes) if segment.size_bytes else b""
        (target / segment.name).write_bytes(kept)
    for action in plan.actions:
        if action.to is not None and action.to.endswith(".log.deleted"):
            (target / Path(action.to).name).write_bytes(directory.filesystem.read(action.source or action.path))


def _disagreements(case: Case) -> Iterator[str]:
    yield from itertools.islice(_compare(case.payload), ENOUGH)


KIND = Kind("unclean", ("logs",), _cases, _disagreements)
