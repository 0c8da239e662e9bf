"""Which stretches of which files to dump where a partition's directory was found more than once: one log of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafkaframes.log.copies.decisions import Decision, by_severity
from kafkaframes.log.copies.reading import group
from kafkaframes.log.copies.together import copies_of, merge_found
from kafkaframes.log.directory import discover
from kafkaframes.log.dump.files import DumpFile
from kafkaframes.log.filesystem import plain_path, split
from kafkaframes.log.names import DirectoryName, FileName


def merge_files(
    files: Sequence[DumpFile], paths: Iterable[str], *, options: Mapping[str, Any] | None = None
) -> tuple[list[DumpFile], list[Decision]]:
    """Replace the segments of partitions that were found more than once by those that make one log of them.

    Args:
        files: as ``files_to_dump`` found them; temporary files, indexes and snapshots stay as they are.
        paths: that were named; a file that was named itself is dumped as it is.
        options: of the stores.

    Raises:
        LogDirError: copies are of different topics, or cannot be read.
    """
    named = {plain_path(path) for path in paths}
    places: dict[str, dict[str, None]] = {}
    for file in files:
        directory = split(file.path)[0]
        parsed = DirectoryName.parse(split(directory)[1])
        if _is_segment(file) and file.path not in named and parsed is not None and not parsed.state:
            places.setdefault(str(parsed), {})[directory] = None
    repeated = [place for found in places.values() if len(found) > 1 for place in found]
    if not repeated:
        return list(files), []
    made: dict[str, list[DumpFile]] = {}
    decisions: list[Decision] = []
    for copies in group(copies_of(discover(repeated, options=options))).values():
        merged = merge_found(copies, check=True, scan=True)
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
            for piece in merged.pieces
        ]
        made |= {one.partition.directory: parts if one is copies[0] else [] for one in copies}
    return _replaced(files, made, named), by_severity(decisions)


def _replaced(files: Sequence[DumpFile], made: Mapping[str, list[DumpFile]], named: set[str]) -> list[DumpFile]:
    found: list[DumpFile] = []
    done: set[str] = set()
    for file in files:
        directory = split(file.path)[0]
        if directory not in made or not _is_segment(file) or file.path in named:
            found.append(file)
        elif directory not in done:
            done.add(directory)
            found += made[directory]
    return found


def _is_segment(file: DumpFile) -> bool:
    parsed = FileName.parse(split(file.path)[1])
    return file.kind == "log" and parsed is not None and not parsed.temporary
