"""How many of the package's files does a value pass through, and how often does it come back to one?

A *trip* is what one call enters of the package's Python files: how many files, and how often one is entered again that
had been left. A segment to Spark's batches, produced bytes to the disk and a fetch of them.

Run:      python benchmarks/trips.py
          (beside another checkout: benchmarks/checkouts.py)
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

NOW_MS = 1_700_000_000_000
SMALL = {"key": [b"key"], "value": [b"v" * 100], "timestamp": [NOW_MS]}
RECORDS = 300_000


def columns(count: int) -> dict[str, list[Any]]:
    """Records of about 100 bytes; keys come again."""
    return {
        "key": [b"key-%d" % (number % 1000) for number in range(count)],
        "value": [b'{"id":%d,"text":"%s"}' % (number, b"v" * (number % 80)) for number in range(count)],
        "timestamp": [NOW_MS + number for number in range(count)],
    }


def log_directory(folder: Path, name: str, *, count: int = RECORDS, **how: Any) -> Path:
    """Write a log directory with one partition of two segments, the second empty; return its path."""
    from kafkaframes.records.build import build_records

    partition = folder / name / "orders-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020}.log").write_bytes(build_records(columns(count), **how))
    (partition / f"{count:020}.log").write_bytes(b"")
    return folder / name


def tasks(directory: Path) -> tuple[Any, ...]:
    """Return what Spark plans for a log directory in one task: the work, its columns, its options."""
    from kafkaframes.scan.columns import choose_columns
    from kafkaframes.scan.log.options import ReadOptions
    from kafkaframes.scan.log.resolve import plan_log

    options = ReadOptions(paths=(str(directory),), table="records")
    (work,) = plan_log(options, cores=1).works
    return work, choose_columns(None, table="records"), options


def drain(batches: Iterable[object]) -> None:
    """Ask for all."""
    for _ in batches:
        pass


def small_log(directory: Path) -> Any:
    """Return a new partition's log on this disk."""
    from kafkaframes.broker.assembly import open_broker

    state = open_broker(data_dir=str(directory))
    state.create_topic("orders", 1)
    return state.topics["orders"].partitions[0].log


def trips(folder: Path) -> Iterator[tuple[str, float]]:
    """What calls enter: of each trip the files, and the returns."""
    from kafkaframes.records.build import build_records
    from kafkaframes.scan.log.reading import read_work
    from kafkaframes.scan.rebatch import rebatch

    work, wanted, options = tasks(log_directory(folder, "followed", count=1000))
    log, batch = small_log(folder / "trip"), build_records(SMALL)

    def append() -> None:
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)

    def there_and_back() -> None:
        append()
        log.update_high_watermark(log.log_end_offset)
        log.read(1, max_bytes=150)

    for _ in range(20):
        append()
    for name, call in (
        ("a segment to Spark's Arrow batches", lambda: drain(rebatch(read_work(work[:1], wanted, options)))),
        ("`append_as_leader` of one small batch", append),
        ("a produced batch to the disk, and a fetch of one", there_and_back),
    ):
        call()
        entered = entries(call)
        yield f"{name}: files", len(set(entered))
        yield f"{name}: returns", len(entered) - len(set(entered))


def entries(call: Callable[[], object]) -> list[str]:
    """Return the files of the package that a call enters, in order; those that only start compiled code left out."""
    import kafkaframes

    root = os.path.dirname(kafkaframes.__file__) + os.sep
    stack: list[str] = [""]
    found: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            name = frame.f_code.co_filename
            inside = name[len(root) :] if name.startswith(root) else ""
            if not inside or inside.startswith(("kernels", "wire/_jit")):
                inside = stack[-1]
            elif inside != stack[-1]:
                found.append(inside)
            stack.append(inside)
        elif event == "return" and len(stack) > 1:
            stack.pop()

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def main() -> None:
    """Print a line for each figure."""
    with tempfile.TemporaryDirectory() as folder:
        for name, figure in trips(Path(folder)):
            print(f"{name} {figure:.0f}")


if __name__ == "__main__":
    main()
