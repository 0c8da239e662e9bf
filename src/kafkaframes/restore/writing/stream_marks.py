"""Which micro-batches of streaming queries a log directory holds: one small file that each commit brings along.

A query that is killed between a commit and its note of it in the checkpoint sends the same batch again. The file is
part of the commit itself (``commit.py``), so it says exactly what is there. Brokers pass over files beside the
partitions' directories.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkaframes.errors import LogDirError

MARKS: Final = ".kafkaframes-streams"


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One micro-batch: ``query_id`` stays the same for all runs of a query on one checkpoint."""

    query_id: str
    batch_id: int


def read_marks(top: Path) -> dict[str, int]:
    """Return the newest batch that each query has committed to a log directory.

    Raises:
        LogDirError: the file is damaged; nothing is guessed, since a guess would lose or repeat rows.
    """
    path = top / MARKS
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise LogDirError(f"cannot be read: {error.strerror or error}", file=str(path)) from error
    try:
        found = json.loads(raw)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(one, int) for one in found.values()):
        raise LogDirError('is damaged: must be JSON such as {"query id": 7}', file=str(path))
    return found


def is_committed(top: Path, batch: StreamBatch) -> bool:
    """Return whether a batch, or a later one of its query, is in the directory."""
    return read_marks(top).get(batch.query_id, -1) >= batch.batch_id


def mark_files(top: Path, batch: StreamBatch | None) -> Iterator[tuple[str, bytes]]:
    """Yield the file as it is once ``batch`` is there; what other queries have committed stays in it."""
    marks = read_marks(top)
    if batch is not None:
        marks[batch.query_id] = batch.batch_id
    if marks:
        yield MARKS, json.dumps(marks, indent=0, sort_keys=True).encode()


__all__ = ["MARKS", "StreamBatch", "is_committed", "mark_files", "read_marks"]
