"""What is read of captures, and how files become tasks. No pyspark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kafkaframes.capture.files import find_files, natural
from kafkaframes.capture.reader import CaptureOptions
from kafkaframes.errors import OptionError

_WORTH_A_TASK: Final = 32 << 20  # bytes; every task looks at all headers, so more tasks than cores gain nothing


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What is read of captures.

    Attributes:
        paths: captures or request logs: files, directories, patterns.
        read: how they are read.
        min_partitions: the least number of tasks; None: as many as are worth it, up to the cores.
        quiet_seconds: a stream reads the newest file after this many seconds without a write.
        max_files: the most files of a micro-batch.
    """

    paths: tuple[str, ...]
    read: CaptureOptions
    min_partitions: int | None = None
    quiet_seconds: int = 10
    max_files: int | None = None

    def files(self) -> list[str]:
        """Return the files there are now."""
        return find_files(self.paths)


class Work(NamedTuple):
    """What one task reads: some of the connections of some files."""

    files: tuple[str, ...]
    options: CaptureOptions


def plan_works(files: Sequence[str], options: SourceOptions, *, cores: int) -> list[Work]:
    """Share the connections of files out to tasks: each task looks at all headers, and at the payload of its own."""
    size_bytes = sum(os.path.getsize(path) for path in files)
    shares = options.min_partitions or max(min(cores, -(-size_bytes // _WORTH_A_TASK)), 1)
    return [Work(tuple(files), replace(options.read, share=share, shares=shares)) for share in range(shares)]


def finished_files(options: SourceOptions, *, now: float) -> list[str]:
    """Return the files that are complete: all but the newest, and that one too when it has been quiet."""
    try:
        files = sorted(find_files(options.paths), key=natural)
    except OptionError:
        return []
    if files and now - os.path.getmtime(files[-1]) < options.quiet_seconds:
        files.pop()
    return files
