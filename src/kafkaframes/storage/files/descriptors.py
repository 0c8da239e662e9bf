"""Count and limit the file descriptors of this process.

Files, connections and all other descriptors of a process share one limit (``ulimit -n``). The only sign of a reached
limit is the error ``EMFILE`` or ``ENFILE``, so components that open many descriptors leave a reserve for the other
components.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from typing import Final

TOO_MANY_FILES_ERRORS: Final = (errno.EMFILE, errno.ENFILE)
_ASSUMED_DESCRIPTOR_LIMIT: Final = 1 << 20
_DESCRIPTOR_DIRECTORIES: Final = ("/proc/self/fd", "/dev/fd")
_RESERVE_FRACTION, _MIN_RESERVE, _MAX_RESERVE = 8, 16, 256


def get_descriptor_limit() -> int:
    """Return the largest number of open descriptors of this process (soft limit)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ASSUMED_DESCRIPTOR_LIMIT if soft == resource.RLIM_INFINITY else min(soft, _ASSUMED_DESCRIPTOR_LIMIT)


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard limit if the system allows it, and return the soft limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _ASSUMED_DESCRIPTOR_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _ASSUMED_DESCRIPTOR_LIMIT)
    if target > get_descriptor_limit():
        with contextlib.suppress(OSError, ValueError):  # macOS has an additional, lower limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return get_descriptor_limit()


def count_reserved_descriptors() -> int:
    """Return the number of descriptors that are reserved for files and other uses than connections.

    >>> 16 <= count_reserved_descriptors() <= 256
    True
    """
    return min(max(get_descriptor_limit() // _RESERVE_FRACTION, _MIN_RESERVE), _MAX_RESERVE)


def count_free_descriptors() -> int:
    """Return the number of descriptors that this process can still open.

    >>> 0 < count_free_descriptors() < get_descriptor_limit()
    True
    """
    for path in _DESCRIPTOR_DIRECTORIES:
        try:
            return max(get_descriptor_limit() - len(os.listdir(path)) + 1, 0)  # listing uses one descriptor
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno in TOO_MANY_FILES_ERRORS:
                return 0
            raise
    return get_descriptor_limit()
