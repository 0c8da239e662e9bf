"""Record in a small file which micro-batches of streaming queries have been written to a log directory.

If a query is killed after a commit and before it updates its checkpoint, it writes the same micro-batch again. The file
is part of the commit (``commit.py``), so it always matches the log. ``jobs/micro_batch.py`` compares micro-batches.
Brokers ignore files outside the partition directories.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.micro_batch import StreamBatch, explain_conflict, find_mark, list_starting_offsets

STREAM_MARKS_FILE: Final = ".kafkaframes-streams"  # file with the newest micro-batch of each streaming query


def read_marks(top: Path) -> dict[str, StreamBatch]:
    """Return the newest micro-batch that each query has committed to a log directory.

    Raises:
        LogDirError: the file is damaged. A damaged file is not ignored, because rows could be lost or duplicated.
    """
    path = top / STREAM_MARKS_FILE
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise LogDirError(f"cannot be read: {error.strerror or error}", file=str(path)) from error
    try:
        return {query_id: StreamBatch.from_json(query_id, note) for query_id, note in json.loads(raw).items()}
    except (ValueError, TypeError, AttributeError):
        raise LogDirError('is damaged; expected JSON such as {"query id": {"batchId": 7}}', file=str(path)) from None


def is_committed(top: Path, batch: StreamBatch) -> bool:
    """Return whether a micro-batch is committed to the directory.

    Raises:
        LogDirError: the micro-batch does not follow the committed one. The message contains a remedy.
    """
    mark = find_mark(batch, read_marks(top))
    if mark is None:
        return False
    reason = explain_conflict(mark, batch)
    if reason is not None:
        raise LogDirError(_explain_rejection(mark, batch, reason), file=str(top / STREAM_MARKS_FILE))
    return mark.batch_id == batch.batch_id


def _explain_rejection(mark: StreamBatch, batch: StreamBatch, reason: str) -> str:
    """Return why a micro-batch is not written, and how to continue."""
    offsets = next(list_starting_offsets(mark), "") or "JSON with the offsets after the written records"
    return (
        f"micro-batch {batch.batch_id} does not fit micro-batch {mark.batch_id} whose mark is in this directory: "
        f"{reason}. It was not written. To continue after the written records, start with a new checkpoint and "
        f"startingOffsets={offsets}; "
        "to write everything again, specify another path"
    )


def build_mark_files(top: Path, batch: StreamBatch | None) -> Iterator[tuple[str, bytes]]:
    """Yield the file with ``batch`` added. The new file keeps the micro-batches of other queries."""
    marks = read_marks(top)
    if batch is not None:
        marks[batch.query_id] = batch
    if marks:
        note = {query_id: mark.as_json() for query_id, mark in marks.items()}
        yield STREAM_MARKS_FILE, json.dumps(note, indent=0, sort_keys=True).encode()
