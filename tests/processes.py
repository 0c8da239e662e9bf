"""The processes of this machine, read from /proc, because small systems do not have ``ps``."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class ProcessInfo(NamedTuple):
    """A running process that is not a zombie."""

    pid: int
    parent: int
    group: int
    session: int
    arguments: str


def processes() -> Iterator[ProcessInfo]:
    """Yield the running processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended in the meantime
            state, *numbers = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            arguments = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if state != "Z":
                yield ProcessInfo(int(folder.name), *map(int, numbers), arguments)


def descendants_of(top: int) -> list[ProcessInfo]:
    """Return the descendants of a process."""
    alive, process_ids = list(processes()), [top]
    for parent in process_ids:
        process_ids += [each.pid for each in alive if each.parent == parent]
    return [each for each in alive if each.pid in process_ids[1:]]
