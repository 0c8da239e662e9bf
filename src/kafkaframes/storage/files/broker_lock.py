"""The lock that a broker holds on its log directory while it runs (Java's ``FileChannel.tryLock`` on ``.lock``)."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable

# A POSIX record lock belongs to a process: taking it twice succeeds, and closing the file once releases both.
_HELD: set[str] = set()


def take_lock(path: str, *, create: bool = True) -> Callable[[], None] | None:
    """Take a lock file as a broker does.

    A file that may only be read (another user's backup, a read-only mount) gets a shared lock, which a broker's lock
    excludes, too, and which keeps a broker from starting.

    Args:
        path: of the file.
        create: make the file where there is none.

    Returns:
        A function that releases the lock; ``None`` if another process, or another part of this one, holds it.

    Raises:
        OSError: the file cannot be opened; without ``create``, it may not be there.
    """
    name = os.path.realpath(path)
    if name in _HELD:
        return None
    descriptor, kind = _opened(path, create=create)
    try:
        fcntl.lockf(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    _HELD.add(name)

    def release() -> None:
        _HELD.discard(name)
        os.close(descriptor)

    return release


def _opened(path: str, *, create: bool) -> tuple[int, int]:
    """Open a lock file; return its descriptor, and the kind of lock that it can have."""
    flags = getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(path, flags | os.O_RDWR | (os.O_CREAT if create else 0), 0o644), fcntl.LOCK_EX
    except OSError as error:
        if create or error.errno not in (errno.EACCES, errno.EROFS):
            raise
        return os.open(path, flags | os.O_RDONLY), fcntl.LOCK_SH
