"""Which micro-batches of streaming queries a log directory holds: one small file that each commit brings along.

A query that is killed between a commit and its note of it in the checkpoint sends the same batch again. The file is
part of the commit itself (``commit.py``), so it says exactly what is there; what makes two batches the same is
``jobs/micro_batch.py``. Brokers pass over files beside the partitions' directories.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.micro_batch import StreamBatch, behind, conflict, mark_for

MARKS: Final = ".kafkaframes-streams"


def read_marks(top: Path) -> dict[str, StreamBatch]:
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
        return {query_id: StreamBatch.from_json(query_id, noted) for query_id, noted in json.loads(raw).items()}
    except (ValueError, TypeError, AttributeError):
        raise LogDirError('is damaged: must be JSON such as {"query id": {"batchId": 7}}', file=str(path)) from None


def is_committed(top: Path, batch: StreamBatch) -> bool:
    """Return whether a batch is in the directory.

    Raises:
        LogDirError: another batch is there that it does not fit behind; says what to do.
    """
    mark = mark_for(batch, read_marks(top))
    if mark is None:
        return False
    reason = conflict(mark, batch)
    if reason is not None:
        raise LogDirError(_refusal(mark, batch, reason), file=str(top / MARKS))
    return mark.batch_id == batch.batch_id


def _refusal(mark: StreamBatch, batch: StreamBatch, reason: str) -> str:
    offsets = next(behind(mark), "") or "JSON, the offsets behind what is there"
    return (
        f"micro-batch {batch.batch_id} does not fit micro-batch {mark.batch_id} that is noted here: {reason}. Nothing "
        f"of it was written. To go on behind what is there, start with a new checkpoint and startingOffsets={offsets}; "
        "to write everything again, give another path"
    )


def mark_files(top: Path, batch: StreamBatch | None) -> Iterator[tuple[str, bytes]]:
    """Yield the file as it is once ``batch`` is there; what other queries have committed stays in it."""
    marks = read_marks(top)
    if batch is not None:
        marks[batch.query_id] = batch
    if marks:
        noted = {query_id: mark.as_json() for query_id, mark in marks.items()}
        yield MARKS, json.dumps(noted, indent=0, sort_keys=True).encode()
