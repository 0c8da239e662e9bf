"""Inputs of the commands that measure traffic: captures and request logs, divided among processes."""

from __future__ import annotations

import os
from typing import Final

from kafkaframes.capture.files import find_files
from kafkaframes.capture.streams import ports_of
from kafkaframes.capture.wire_cost import Task
from kafkaframes.errors import OptionError

_WORTH_A_TASK: Final = 32 << 20  # in bytes


def traffic_tasks(paths: tuple[str, ...], ports: str, jobs: int | None) -> tuple[list[Task], int]:
    """Return a task for each share of the connections in some files, and the bytes of a share.

    Args:
        paths: files and folders.
        ports: on which brokers listen, as the option has it; empty: found by what is said there.
        jobs: the most shares; the cores if not told.

    Raises:
        OptionError: a path cannot be read, or ``ports`` are no numbers.
    """
    files = tuple(find_files(paths))
    try:
        listening = ports_of(ports) if ports else ()
    except ValueError:
        raise OptionError(f"--ports {ports}: numbers and ranges are wanted") from None
    size_bytes = sum(os.path.getsize(path) for path in files)
    shares = max(min(jobs or os.cpu_count() or 1, -(-size_bytes // _WORTH_A_TASK)), 1)
    return [Task(files, share, shares, listening) for share in range(shares)], size_bytes // shares
