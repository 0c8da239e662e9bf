"""``onForeignMarker=skip``: if a checkpoint does not match the newest marker of its sink, continue after the marker.

Before the query starts, its checkpoint is rewritten to the state after the marker's batch: the query id, and that batch
as the newest one, planned and committed. The next micro-batch begins at the end offsets of that batch.
"""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Final, Protocol

from kafkaframes.errors import OptionError
from kafkaframes.jobs.micro_batch import StreamBatch, explain_conflict, parse_offsets, read_batch_offsets
from kafkaframes.spark.progress.checkpoint_files import CheckpointFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("kafkaframes.spark")
# The content of Spark's checkpoint files: version line, metadata line without a watermark, and a commit file.
_LOG_VERSION: Final = "v1"
_DEFAULT_OFFSET_METADATA: Final = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
_COMMIT_FILE_TEXT: Final = f'{_LOG_VERSION}\n{{"nextBatchWatermarkMs":0}}'
_STATEFUL_PATTERN: Final = re.compile(
    r"^[\s:+\-]*~(Aggregate|Deduplicate\w*|Distinct|Join|GlobalLimit|\w*WithState\w*)\b", re.M
)


class WritableFiles(CheckpointFiles, Protocol):
    """Checkpoint files that can be read and written."""

    def write_text(self, name: str, text: str) -> None:
        """Write a file, and replace an existing one."""

    def list_names(self, folder: str) -> list[str]:
        """Return the file names in a directory; empty if it does not exist."""


def read_query_id(files: CheckpointFiles) -> str | None:
    """Return the query id of a checkpoint; None if the checkpoint does not exist."""
    text = files.read_text("metadata")
    return None if text is None else str(json.loads(text)["id"])


def find_next_batch(files: WritableFiles, target: str) -> StreamBatch:
    """Return the micro-batch with which a query continues, which is a planned one or the next one."""
    planned_batch = _find_newest_batch(files, "offsets")
    number = planned_batch if planned_batch > _find_newest_batch(files, "commits") else planned_batch + 1
    begins, ends = read_batch_offsets(files.read_text, number)
    return StreamBatch(read_query_id(files) or "", number, files.path, target, begins, ends)


def skip_to_marker(files: WritableFiles, marker: StreamBatch) -> None:
    """Rewrite a checkpoint so that its query continues after the micro-batch of a marker.

    Raises:
        OptionError: The marker does not contain offsets, or the query has state that would miss rows.
    """
    batch = find_next_batch(files, marker.sink)
    if explain_conflict(marker, batch) is None:
        return
    if files.list_names("state"):
        raise OptionError(
            f"onForeignMarker=skip: the query has state in {files.path}, which would miss rows; {_OTHER_REMEDIES}"
        )
    planned_batch = _find_newest_batch(files, "offsets")
    number = max(marker.batch_id, planned_batch)
    if marker.ends is None and (batch.ends is None or batch.batch_id != marker.batch_id):
        raise OptionError(f"onForeignMarker=skip: the marker of version 0.1.0 contains no offsets; {_OTHER_REMEDIES}")
    if marker.ends is not None:
        if not all(parse_offsets(line) for line in marker.ends):
            raise OptionError(
                f"onForeignMarker=skip: some sources of the query have no topic offsets; {_OTHER_REMEDIES}"
            )
        text = "\n".join((_LOG_VERSION, _read_offset_metadata(files, planned_batch), *marker.ends))
        if number and files.read_text(f"offsets/{number - 1}") is None:  # Spark also reads the previous batch
            files.write_text(f"offsets/{number - 1}", text)
        files.write_text(f"offsets/{number}", text)
    files.write_text(f"commits/{number}", _COMMIT_FILE_TEXT)
    if batch.query_id != marker.query_id:
        files.write_text("metadata", json.dumps({"id": marker.query_id}, separators=(",", ":")))
    log.warning("%s continues after micro-batch %s of query %s", files.path, marker.batch_id, marker.query_id)


_OTHER_REMEDIES: Final = "use another sink name, sink=..., or a new checkpoint and startingOffsets at which to continue"


def check_stateless(frame: DataFrame) -> None:
    """Reject a query with state that would miss the skipped rows.

    Raises:
        OptionError: The query has stateful operators, such as aggregations or joins.
    """
    result = _STATEFUL_PATTERN.search(frame._jdf.queryExecution().analyzed().toString())
    if result is not None:
        raise OptionError(
            f"onForeignMarker=skip: {result[1]} in the query keeps state, which would miss rows; {_OTHER_REMEDIES}"
        )


def _read_offset_metadata(files: CheckpointFiles, planned_batch: int) -> str:
    """Return the metadata line (watermark and settings) of a planned micro-batch."""
    lines = (files.read_text(f"offsets/{planned_batch}") or "").splitlines()
    return lines[1] if len(lines) > 1 else _DEFAULT_OFFSET_METADATA


def _find_newest_batch(files: WritableFiles, folder: str) -> int:
    return max((int(name) for name in files.list_names(folder) if name.isdecimal()), default=-1)
