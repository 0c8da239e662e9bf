"""Which offset of the source became which offset of the copy: kept in a file, so that a mirror can go on after a kill.

A line stands for a run of records that follow each other on both sides: first offset of the source, first offset of the
copy, count. It is written **before** its records are sent. So after a kill the end of the copy says which of the last
lines came true, whatever the source's cleaner did meanwhile. A line of count 0 says that the source has nothing to copy
below its offset.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import IO, Final

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import LogDirError

Runs = npt.NDArray[np.int64]  # rows of source, target, count
_FIRST_LINE: Final = "kafkaframes mirror 1"
_NO_RUNS: Final[Runs] = np.empty((0, 3), np.int64)


@dataclass(slots=True)
class Mapping:
    """The mapping of one partition; ``begin_writing`` makes it.

    Attributes:
        runs: rows of source offset, target offset and count; ascending.
    """

    runs: Runs = field(default_factory=lambda: _NO_RUNS)
    _file: IO[bytes] | None = None
    _behind: list[Runs] = field(default_factory=list)

    @property
    def source_next(self) -> int:
        """The first offset of the source that nothing is known of; -1 for an empty mapping."""
        last = self._last()
        return -1 if last is None else int(last[0] + last[2])

    @property
    def target_next(self) -> int:
        """The first offset of the copy that nothing is known of."""
        last = self._last()
        return 0 if last is None else int(last[1] + last[2])

    def _last(self) -> npt.NDArray[np.int64] | None:
        runs = self._behind[-1] if self._behind else self.runs
        return runs[-1] if len(runs) else None

    def add(self, runs: Runs) -> None:
        """Write down runs that are about to be sent."""
        if not len(runs):
            return
        self._behind.append(runs)
        if self._file is not None:
            self._file.write(
                "".join(f"{source} {target} {count}\n" for source, target, count in runs.tolist()).encode()
            )
            self._file.flush()
            os.fsync(self._file.fileno())

    def reach(self, source_next: int) -> None:
        """Write down that nothing below ``source_next`` is left to copy."""
        if source_next > self.source_next:
            self.add(np.array([[source_next, self.target_next, 0]], np.int64))

    def translate(self, offset: int) -> int:
        """Return the offset of the copy's first record that is at or after ``offset`` of the source.

        >>> mapping = Mapping(np.array([[10, 0, 5], [20, 5, 2], [30, 7, 0]]))
        >>> [mapping.translate(offset) for offset in (0, 12, 15, 20, 22, 99)]
        [0, 2, 5, 5, 7, 7]
        """
        self._settle()
        if not len(self.runs):
            return 0
        index = int(np.searchsorted(self.runs[:, 0], offset, side="right")) - 1
        if index < 0:
            return int(self.runs[0, 1])
        source, target, count = self.runs[index].tolist()
        return int(target + min(offset - source, count))

    def _settle(self) -> None:
        if self._behind:
            self.runs = np.concatenate([self.runs, *self._behind])
            self._behind.clear()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def cut(runs: Runs, target_end: int) -> Runs:
    """Return what of a mapping came true: the copy ends at ``target_end``.

    >>> cut(np.array([[10, 0, 5], [20, 5, 4], [30, 9, 0]]), 7).tolist()
    [[10, 0, 5], [20, 5, 2]]
    >>> cut(np.array([[10, 0, 5], [30, 5, 0]]), 5).tolist()
    [[10, 0, 5], [30, 5, 0]]
    """
    kept = runs[(runs[:, 1] < target_end) | ((runs[:, 1] == target_end) & (runs[:, 2] == 0))].copy()
    beyond = kept[:, 1] + kept[:, 2] > target_end
    kept[beyond, 2] = target_end - kept[beyond, 1]
    whole = np.flatnonzero(beyond)
    true: Runs = kept[: whole[0] + 1] if len(whole) else kept
    return true


def read_mapping(path: str, identity: str, *, target_end: int) -> Mapping:
    """Read the mapping of a partition, cut to where the copy ends; an empty one where there is no file.

    Args:
        path: of the file.
        identity: says which topics are mapped; a mapping of others is not gone on with.
        target_end: where the copy ends now.

    Raises:
        LogDirError: the file is of other topics or is none, or the copy has records that it knows nothing of.
    """
    runs, first = _NO_RUNS, _first_line(identity)
    if os.path.exists(path):
        with open(path, "rb") as file:
            raw = file.read()
        whole = raw[: raw.rfind(b"\n") + 1]
        if whole and not whole.startswith(first):
            reason = "is a mapping of other topics: one was made anew, or the state is another mirror's"
            raise LogDirError(reason, file=path)
        runs = _parsed(whole[len(first) :], path)
    known = int(runs[-1, 1] + runs[-1, 2]) if len(runs) else 0
    if target_end > known:
        reason = f"the copy ends at {target_end:,}, and this knows of {known:,}: something else has written to it"
        raise LogDirError(reason, file=path)
    return Mapping(cut(runs, target_end))


def begin_writing(mapping: Mapping, path: str, identity: str) -> Mapping:
    """Write a mapping that was read, and keep its file open for what is added.

    Raises:
        OSError: the disk refuses it.
    """
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    temporary = path + ".new"
    with open(temporary, "wb") as file:
        file.write(_first_line(identity) + _lines(mapping.runs))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    return Mapping(mapping.runs, open(path, "ab"))


def _first_line(identity: str) -> bytes:
    return f"{_FIRST_LINE} {identity}\n".encode()


def _lines(runs: Runs) -> bytes:
    return "".join(f"{source} {target} {count}\n" for source, target, count in runs.tolist()).encode()


def _parsed(raw: bytes, path: str) -> Runs:
    try:
        return np.array(raw.split(), np.int64).reshape(-1, 3)
    except ValueError:
        raise LogDirError("is no mapping of offsets", file=path) from None
