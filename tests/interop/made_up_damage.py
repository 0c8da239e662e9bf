"""Damage a partition's directory at random, as a crash, a broken disk or an operator could."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

from tests.interop.log_judges import split_batches

from kafkaframes.records.layout import BATCH_V2, MESSAGE_V0
from kafkaframes.storage.files.checkpoints import EpochStart, write_leader_epochs
from kafkaframes.storage.files.indexes import write_offset_index, write_time_index
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.rebuild import rebuild_indexes

FILE_KINDS = ("log", "index", "timeindex", "txnindex")


def bases(directory: Path) -> list[int]:
    return sorted(int(path.name[:20]) for path in directory.glob("*.log"))


def file_of(directory: Path, base: int, kind: str) -> Path:
    return directory / f"{base:020}.{kind}"


def flip_random_bit(choose: random.Random, path: Path, start: int = 0, end: int | None = None) -> None:
    raw = bytearray(path.read_bytes())
    if start < len(raw):
        raw[choose.randrange(start, min(end or len(raw), len(raw)))] ^= 1 << choose.randrange(8)
        path.write_bytes(bytes(raw))


def tear_last_file(choose: random.Random, directory: Path) -> None:
    path = file_of(directory, choose.choice(bases(directory)[-2:]), "log")
    raw = path.read_bytes()
    path.write_bytes(raw[: max(len(raw) - choose.choice((1, 5, 17, 60, 200, len(raw))), 0)])


def append_zeros(choose: random.Random, directory: Path) -> None:
    with file_of(directory, choose.choice(bases(directory)[-2:]), "log").open("ab") as file:
        file.write(bytes(choose.choice((1, 7, 16, 17, 100, 4096))))


def append_garbage(choose: random.Random, directory: Path) -> None:
    with file_of(directory, bases(directory)[-1], "log").open("ab") as file:
        file.write(choose.randbytes(choose.choice((3, 17, 100))))


def flip_bit(choose: random.Random, directory: Path) -> None:
    """Flip a bit that is covered by a CRC. In format 2, the CRC does not cover base offset and leader epoch."""
    path = file_of(directory, choose.choice(bases(directory)), "log")
    batches = list(takewhile(lambda batch: len(batch) >= MESSAGE_V0.size, split_batches(path.read_bytes())))
    if batches:
        number = choose.randrange(len(batches))
        start = sum(map(len, batches[:number]))
        magic = batches[number][16]
        end = start + len(batches[number])
        flip_random_bit(choose, path, start + (BATCH_V2.position_of("crc") if magic == 2 else 12), end)


def lose_files(kind: str) -> Callable[[random.Random, Path], None]:
    def go(choose: random.Random, directory: Path) -> None:
        for path in sorted(directory.glob(f"*.{kind}")):
            if choose.random() < 0.5:
                path.unlink()

    return go


def spoil_files(kind: str) -> Callable[[random.Random, Path], None]:
    def go(choose: random.Random, directory: Path) -> None:
        paths = sorted(directory.glob(f"*.{kind}"))
        if not paths:
            return
        path, how = choose.choice(paths), choose.randrange(4)
        raw = path.read_bytes()
        if how == 0:
            flip_random_bit(choose, path)
        else:
            cut_bytes, more = (
                raw[: choose.randrange(len(raw) + 1)],
                raw + choose.randbytes(choose.choice((1, 8, 12, 34))),
            )
            path.write_bytes((cut_bytes, more, choose.randbytes(len(raw)))[how - 1])

    return go


def leave_orphans(choose: random.Random, directory: Path) -> None:
    base = choose.choice(bases(directory)) + choose.choice((1, 3, 1000))
    if not file_of(directory, base, "log").exists():
        for kind in (*FILE_KINDS[1:], "snapshot"):
            path = file_of(directory, base, kind)
            if choose.random() < 0.6 and not path.exists():
                path.write_bytes(choose.randbytes(choose.choice((0, 24))))


def delete_file(choose: random.Random, directory: Path) -> None:
    base = choose.choice(bases(directory)) + choose.choice((0, 1))
    for kind in (*FILE_KINDS, "snapshot"):
        if choose.random() < 0.6:
            Path(f"{file_of(directory, base, kind)}.deleted").write_bytes(bytes(20))


def leave_cleaned_copy(choose: random.Random, directory: Path) -> None:
    base = choose.choice(bases(directory))
    for kind in FILE_KINDS[:3]:
        path = file_of(directory, base, kind)
        if path.exists():
            shutil.copy(path, f"{path}.cleaned")


def stop_during_swap(choose: random.Random, directory: Path) -> None:
    """Leave the files of a cleaner that was stopped while it replaced one to three old segments by a new one.

    The cleaner replaces one group of segments at a time.
    """
    if any(directory.glob("*.swap")):
        return
    base_offsets = bases(directory)
    first = choose.randrange(len(base_offsets))
    group = base_offsets[first : first + choose.choice((1, 2, 3))]
    batches = [batch for base in group for batch in split_batches(file_of(directory, base, "log").read_bytes())]
    with tempfile.TemporaryDirectory() as scratch:
        new = file_of(Path(scratch), group[0], "log")
        new.write_bytes(b"".join(batch for batch in batches if choose.random() < 0.7))
        (log_dir,) = discover(scratch)
        rebuilt = rebuild_indexes(log_dir.filesystem, log_dir.partitions[0].segments[0], index_interval_bytes=512)
        shutil.copy(new, f"{file_of(directory, group[0], 'log')}.swap")
    contents = {"index": write_offset_index(rebuilt.offset_index), "timeindex": write_time_index(rebuilt.time_index)}
    for kind, raw in contents.items():
        if choose.random() < 0.9:
            Path(f"{file_of(directory, group[0], kind)}.swap").write_bytes(raw)
    aborted_index = file_of(directory, group[0], "txnindex")
    if aborted_index.exists() and choose.random() < 0.5:
        shutil.copy(aborted_index, f"{aborted_index}.swap")
    stage = choose.randrange(3)
    for path in (file_of(directory, base, kind) for base in group for kind in FILE_KINDS):
        if path.exists() and stage == 1 and choose.random() < 0.5:
            path.rename(f"{path}.deleted")
        elif path.exists() and stage == 2:
            path.unlink()
    if choose.random() < 0.3 and base_offsets[-1] > group[0]:
        Path(f"{file_of(directory, base_offsets[-1], 'log')}.cleaned").write_bytes(b"")


def stop_during_renames(choose: random.Random, directory: Path) -> None:
    """Leave the files of a cleaner that was stopped after it renamed the new log file, but before all of its
    indexes.
    """
    if any(directory.glob("*.swap")):
        return
    base = choose.choice(bases(directory))
    for kind in FILE_KINDS[1:]:
        path = file_of(directory, base, kind)
        if path.exists() and choose.random() < 0.6:
            path.rename(f"{path}.swap")


def change_epochs(choose: random.Random, directory: Path) -> None:
    path, first = directory / "leader-epoch-checkpoint", bases(directory)[0]
    how = choose.randrange(4)
    if how == 0:
        path.unlink(missing_ok=True)
    else:
        one, far = (
            [EpochStart(1, first + 2)],
            [EpochStart(0, 0), EpochStart(2, 5), EpochStart(40, bases(directory)[-1])],
        )
        path.write_bytes(write_leader_epochs(([], one, far)[how - 1]))


def empty_active(choose: random.Random, directory: Path) -> None:
    file_of(directory, bases(directory)[-1], "log").write_bytes(b"")


def lose_segment(choose: random.Random, directory: Path) -> None:
    base_offsets = bases(directory)
    if len(base_offsets) > 1:
        file_of(directory, choose.choice(base_offsets), "log").unlink()


def preallocate_indexes(choose: random.Random, directory: Path) -> None:
    for kind, size in (("index", 320), ("timeindex", 480)):
        path = file_of(directory, bases(directory)[-1], kind)
        if path.exists():
            path.write_bytes(path.read_bytes().ljust(size, b"\0"))


def leave_stray_snapshots(choose: random.Random, directory: Path) -> None:
    snapshots = sorted(directory.glob("*.snapshot"))
    if snapshots:
        offset = choose.randrange(bases(directory)[0], bases(directory)[-1] + 40)
        shutil.copy(choose.choice(snapshots), f"{directory / 'copy'}")
        (directory / "copy").replace(file_of(directory, offset, "snapshot"))


DAMAGE_BY_NAME: dict[str, Callable[[random.Random, Path], None]] = {
    damage.__name__: damage
    for damage in (
        tear_last_file,
        append_zeros,
        append_garbage,
        flip_bit,
        leave_orphans,
        delete_file,
        leave_cleaned_copy,
        stop_during_swap,
        stop_during_renames,
        change_epochs,
        empty_active,
        lose_segment,
        preallocate_indexes,
        leave_stray_snapshots,
    )
}
DAMAGE_BY_NAME |= {f"lost {kind}": lose_files(kind) for kind in (*FILE_KINDS[1:], "snapshot")}
DAMAGE_BY_NAME |= {f"spoilt {kind}": spoil_files(kind) for kind in (*FILE_KINDS[1:], "snapshot")}
