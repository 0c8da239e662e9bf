"""Replace a damaged batch, found while a log is read, by the same batch of another copy.

Its header must have the same checksum, size, format and last offset, so that its bytes are those that the damaged one
should have. Then it can be used without looking at the rest of the log, compacted or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import LogDirError
from kafkaframes.records.chunks import Chunk, Chunks
from kafkaframes.records.scan import FILE, Batches, Bytes, as_array, check_crcs, scan_all
from kafkaframes.storage.log.open_segment import open_planned

_NAMES = ("last_offset", "crc", "size", "magic")
_WINDOW_BYTES = 256 << 10


class Alternate(NamedTuple):
    """Where another copy has offsets of a stretch of log: whole batches, from ``start`` to ``end``."""

    path: str
    start: int
    end: int


@dataclass(slots=True)
class Healer:
    """Heals chunks of one segment file (``records.columns.ReadOptions.heal``).

    Attributes:
        alternates: for the range that is read.
        options: of the stores.
        healed: what was replaced, as text.
    """

    path: str
    alternates: Sequence[Alternate]
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    healed: list[str] = field(default_factory=list)

    def __call__(self, chunk: Chunk, bad: npt.NDArray[np.bool_]) -> Chunk | None:
        """Return a chunk in which damaged batches are replaced by other copies'; None if no copy has them."""
        data: Bytes | None = None
        for row in np.flatnonzero(bad).tolist():
            whole = self._whole(chunk.batches, row)
            if whole is not None:
                data = chunk.data.copy() if data is None else data
                position = int(chunk.batches.column("position")[row])
                data[position : position + whole[0].size] = whole[0]
                offset = int(chunk.batches.column("base_offset")[row])
                at = f"the batch of offset {offset} at byte {position + chunk.base} of {self.path} is damaged"
                self.healed.append(f"{at}; it is read from {whole[1]}")
        return None if data is None else _scanned_again(chunk, data)

    def _whole(self, batches: Batches, row: int) -> tuple[Bytes, str] | None:
        expected = tuple(int(batches.column(name)[row]) for name in _NAMES)
        for alternate in self.alternates:
            try:
                for position, *header in _headers(alternate, tuple(self.options.items())).get(expected[0], ()):
                    if tuple(header) == expected[1:]:
                        raw = _read(alternate.path, position, expected[2], self.options)
                        batch = scan_all(raw, rules=FILE)
                        if len(batch) == 1 and check_crcs(raw, batch)[0] == 1:
                            return raw, f"{alternate.path}, byte {position}"
            except LogDirError:
                continue  # this copy cannot be read; the damage is reported as usual
        return None


def _scanned_again(chunk: Chunk, data: Bytes) -> Chunk:
    """Return a chunk of other bytes: the headers of its batches are read anew, their places are the same."""
    table = chunk.batches.table.copy()
    for column in range(table.shape[1]):
        start, size = int(table[0, column]), int(table[1, column])
        table[:, column] = scan_all(data[start : start + size], rules=FILE).table[:, 0]
        table[0, column] = start
    return chunk._replace(data=data, batches=Batches(table, chunk.batches.end))


@lru_cache(maxsize=8)
def _cached_headers(alternate: Alternate, options: tuple[tuple[str, Any], ...]) -> dict[int, list[tuple[int, ...]]]:
    headers: dict[int, list[tuple[int, ...]]] = {}
    with open_planned(alternate.path, alternate.end, options=dict(options)) as opened:
        walk = Chunks(
            opened.source, rules=FILE, start=alternate.start, end=alternate.end, chunk_bytes=_WINDOW_BYTES, whole=False
        )
        for chunk in walk:
            columns = [chunk.batches.column(name).tolist() for name in _NAMES]
            positions = (chunk.batches.column("position") + chunk.base).tolist()
            for last, position, *header in zip(columns[0], positions, *columns[1:], strict=True):
                headers.setdefault(last, []).append((position, *header))
    return headers


def _headers(alternate: Alternate, options: tuple[tuple[str, Any], ...]) -> dict[int, list[tuple[int, ...]]]:
    """Return the batches of a stretch by their last offset: position, checksum, size, magic."""
    try:
        return _cached_headers(alternate, options)
    except TypeError:  # options that hold mappings cannot be a key of the cache
        return _cached_headers.__wrapped__(alternate, options)


def _read(path: str, position: int, length: int, options: Mapping[str, Any]) -> Bytes:
    with open_planned(path, position + length, options=options) as opened:
        return as_array(opened.source.read(position, length)).copy()
