"""Choose the parts of files to dump where a partition was found more than once, so that they make one log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.dump.files import DumpFile
from kafkaframes.storage.copies.decisions import Decision, by_severity
from kafkaframes.storage.copies.one_log import check_same_log, copies_of, merge_copies
from kafkaframes.storage.copies.reading import group
from kafkaframes.storage.files.filesystem import plain_path, split
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.log.discover import discover


def merge_files(
    files: Sequence[DumpFile], paths: Sequence[str], *, options: Mapping[str, Any] | None = None
) -> tuple[list[DumpFile], list[str]]:
    """Replace the segments of partitions that were found more than once by those that make one log of them.

    Args:
        files: as ``files_to_dump`` found them; temporary files, indexes and snapshots stay as they are.
        paths: that were named; a file that was named itself is dumped as it is.
        options: of the stores.

    Returns:
        The files, and messages for the user. Directories that are not copies of one log stay as they are.

    Raises:
        LogDirError: a copy cannot be read.
    """
    named = {plain_path(path) for path in paths}
    looked_into = [path for path in paths if FileName.parse(split(plain_path(path))[1]) is None]
    try:
        grouped = group(copies_of(discover(looked_into, options=options), named)) if looked_into else {}
    except LogDirError:  # a dump also takes what is not a log: an index without its segment, a file with another name
        grouped = {}
    made: dict[str, list[DumpFile]] = {}
    decisions: list[Decision] = []
    messages: list[str] = []
    for copies in (found for found in grouped.values() if len(found) > 1):
        try:
            check_same_log(copies)
        except LogDirError as reason:
            messages.append(f"not merged: {reason}")
            continue
        merged = merge_copies(copies, check=True, scan=True)
        decisions += merged.decisions
        parts = [
            DumpFile(
                copies[piece.at.copy].filesystem,
                merged.segment(piece.at).path,
                "log",
                merged.segment(piece.at).size_bytes,
                str(merged.topic_partition),
                (max(piece.first_offset, merged.start_offset), piece.end_offset),
            )
            for piece in merged.spans
        ]
        made |= {segment.path: parts for one in copies for segment in one.partition.segments}
    shown = [one for one in by_severity(decisions) if one.severity > Severity.NOTE]
    return _replaced(files, made, named), [*messages, *map(str, shown)]


def _replaced(files: Sequence[DumpFile], made: Mapping[str, list[DumpFile]], named: set[str]) -> list[DumpFile]:
    """Put the parts of a merged log where the first segment of any of its copies was."""
    found: list[DumpFile] = []
    done: list[list[DumpFile]] = []
    for file in files:
        parts = made.get(file.path)
        if parts is None or file.path in named:
            found.append(file)
        elif not any(parts is one for one in done):
            done.append(parts)
            found += parts
    return found
