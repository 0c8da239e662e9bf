"""File descriptors of this process: how many it may have, and how many are left.

Files, connections and everything else in the process share one limit (``ulimit -n``). Only the errors ``EMFILE`` and
``ENFILE`` say that it is reached, so the parts that open many keep a reserve for the others.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from typing import Final

NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
_UNLIMITED: Final = 1 << 20
_LISTINGS: Final = ("/proc/self/fd", "/dev/fd")
_RESERVE_FRACTION, _MIN_RESERVE, _MAX_RESERVE = 8, 16, 256


def descriptor_limit() -> int:
    """Return how many descriptors this process may have open: the soft limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else min(soft, _UNLIMITED)


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard one, as far as the system allows it; return the soft limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _UNLIMITED if hard == resource.RLIM_INFINITY else min(hard, _UNLIMITED)
    if target > descriptor_limit():
        with contextlib.suppress(OSError, ValueError):  # macOS has a lower limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return descriptor_limit()


def reserved_descriptors() -> int:
    """Return how many descriptors connections leave free for files and everything else.

    >>> 16 <= reserved_descriptors() <= 256
    True
    """
    return min(max(descriptor_limit() // _RESERVE_FRACTION, _MIN_RESERVE), _MAX_RESERVE)


def free_descriptors() -> int:
    """Return how many more descriptors this process can open; 0 if not even one is left to find out.

    >>> 0 < free_descriptors() < descriptor_limit()
    True
    """
    for path in _LISTINGS:
        try:
            return max(descriptor_limit() - len(os.listdir(path)) + 1, 0)  # the listing itself takes one
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:
                return 0
            raise
    return descriptor_limit()
