"""The lock that a broker holds on its log directory while it runs (Java's ``FileChannel.tryLock`` on ``.lock``)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable

# A POSIX record lock belongs to a process: who takes one twice there gets it, and who closes the file lets go of both.
_HELD: set[str] = set()


def take_lock(path: str, *, create: bool = True) -> Callable[[], None] | None:
    """Take a lock file as a broker does.

    Args:
        path: of the file.
        create: make the file where there is none.

    Returns:
        What lets the lock go; ``None`` where another process, or another place in this one, holds it.

    Raises:
        OSError: the file cannot be opened; without ``create``, it may not be there.
    """
    name = os.path.realpath(path)
    if name in _HELD:
        return None
    flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | (os.O_CREAT if create else 0)
    descriptor = os.open(path, flags, 0o644)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    _HELD.add(name)

    def let_go() -> None:
        _HELD.discard(name)
        os.close(descriptor)

    return let_go
